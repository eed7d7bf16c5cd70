"""The example of the README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import drillcore

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs_and_stores_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 1
    monkeypatch.chdir(tmp_path)
    exec(compile(examples[0], str(README), "exec"), {})
    with drillcore.open(tmp_path / "flights.drill") as db:
        assert db.tables() == ["daily", "flights"]
        assert len(db.table("flights")) == db.table("daily").count(unit="events") == 10_000
        assert len(db.table("daily")) == 62
