"""The examples of the README run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
        flights = db.table("flights")
        assert len(flights) == len(flights.scan(where="day > '2013-07-02'").arrow()) == 9_354
        assert db.table("daily").count(unit="events") == len(db.snapshot("training").table("flights")) == 10_000
        assert len(db.table("daily")) == 62


def test_the_shell_block_runs_in_an_empty_folder(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if block.startswith("drillcore "))
    # The program that the package installs, beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-eu", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3 rows appended to flights" in done.stdout and "nothing damaged" in done.stdout
    with drillcore.open(tmp_path / "new.drill", read_only=True) as db:
        assert db.table("hourly").count(unit="events") == len(db.table("flights")) == 3
        assert str(db.table("flights").schema.field("time_hour").type) == "timestamp[s, tz=UTC]"
