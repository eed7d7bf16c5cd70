"""The command comes with the package: as a module and as a program."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import drillcore
from drillcore.__main__ import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "drillcore", *arguments], capture_output=True, text=True, check=False)


def test_the_module_runs_the_demo() -> None:
    done = run("demo", "--rows", "2000")
    assert done.returncode == 0, done.stderr
    assert "All 2000 departures are there." in done.stdout


def test_the_exit_code_is_handed_on() -> None:
    done = run("count", "nowhere", "t")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "drillcore: there is no folder nowhere\n"


def test_the_program_is_the_module(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (program,) = entry_points(group="console_scripts", name="drillcore")
    assert program.load() is main
    monkeypatch.setattr(sys, "argv", ["drillcore", "--version"])
    assert main() == 0
    assert capfd.readouterr().out == f"drillcore {drillcore.__version__}\n"
