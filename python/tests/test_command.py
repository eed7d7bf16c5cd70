"""The command comes with the package: as a module and as a program."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import drillcore
from drillcore.__main__ import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "drillcore", *arguments], capture_output=True, text=True, check=False)


def test_the_module_runs_the_demo() -> None:
    done = run("demo", "--rows", "2000")
    assert done.returncode == 0, done.stderr
    assert "It has all 2,000 departures." in done.stdout


def test_the_exit_code_is_handed_on() -> None:
    done = run("count", "nowhere", "t")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "drillcore: directory nowhere does not exist; check the path\n"


def test_the_program_is_the_module(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (program,) = entry_points(group="console_scripts", name="drillcore")
    assert program.load() is main
    monkeypatch.setattr(sys, "argv", ["drillcore", "--version"])
    assert main() == 0
    assert capfd.readouterr().out == f"drillcore {drillcore.__version__}\n"


def test_ctrl_c_ends_a_wait_for_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    database = str(tmp_path / "db")
    assert run("ingest", database, "t", str(tmp_path / "a.csv"), "--key", "a").returncode == 0
    command = [sys.executable, "-m", "drillcore", "ingest", database, "t", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        time.sleep(1.5)
        waiting.send_signal(signal.SIGINT)
        try:
            assert waiting.wait(10) == 130
        finally:
            waiting.kill()
    assert run("count", database, "t").stdout == "1\n"


def test_closed_standard_streams_do_not_become_files_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    command = f"{sys.executable} -m drillcore"
    script = f"""
        {command} ingest db t a.csv --key a <&- >&- 2>&- &&
        {command} snapshot db first <&- >&- && {command} snapshot db second >&- 2>&-
    """
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, check=False)
    assert done.returncode == 0
    for file in (tmp_path / "db").iterdir():
        assert b"pinned" not in file.read_bytes(), file
    assert run("snapshots", str(tmp_path / "db"), "--output", "csv").stdout == "snapshot,lsn\nfirst,1\nsecond,1\n"
    assert run("verify", str(tmp_path / "db")).returncode == 0


def test_a_database_opened_without_standard_streams_gets_no_low_descriptor(tmp_path: Path) -> None:
    script = """
import os, sys
os.close(0), os.close(1), os.close(2)
import drillcore
db = drillcore.open(sys.argv[1])
targets = [os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)]
sys.exit(0 if targets == ["/dev/null"] * 3 else 1)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "db")], check=False)
    assert done.returncode == 0
