"""A process forked off one that has a database open reads it, and cannot write to it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import drillcore

TRIES = {
    "append": "t.append([{'k': 100}])",
    "many appends": "[t.append([{'k': i} for i in range(1000)]) for _ in range(200)]",
    "flush": "db.flush()",
    "compact": "db.compact()",
    "create": "db.create_table('u', {'k': 'int64'}, key='k')",
    "drop": "db.drop_table('t')",
    "add a column": "t.add_column('x', 'int64')",
    "name a snapshot": "db.snapshot(name='s')",
}


def run(path: Path, child: str, durability: str = "os") -> str:
    """Run a parent that appends before and after its child has run ``child``."""
    program = f"""
        import os, sys, drillcore
        db = drillcore.open({str(path)!r}, durability={durability!r}, memory_bytes=1_500_000)
        t = db.create_table("t", {{"k": "int64"}}, key="k")
        t.append([{{"k": 0}}])
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                {child}
            except drillcore.Error as error:
                print(type(error).__name__, error)
            sys.exit(0)
        os.waitpid(pid, 0)
        for k in range(1, 10):
            t.append([{{"k": k}}])
        db.close()
        print("closed")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "panic" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("what", TRIES)
def test_a_fork_that_writes_is_refused_and_its_parent_loses_nothing(tmp_path: Path, what: str) -> None:
    path = tmp_path / "db"
    printed = run(path, TRIES[what])
    assert "ReadOnlyError" in printed
    assert "fork" in printed
    assert "closed" in printed
    with drillcore.open(path) as db:
        assert [row["k"] for row in db.table("t").scan().arrow().to_pylist()] == list(range(10))


@pytest.mark.parametrize("durability", ["none", "os", "fsync"])
@pytest.mark.parametrize("child", ["pass", "db.close()", "del db, t", "print(len(t), t.sample(1).arrow())"])
def test_a_fork_that_ends_or_reads_harms_nobody(tmp_path: Path, durability: str, child: str) -> None:
    path = tmp_path / "db"
    assert "closed" in run(path, child, durability)
    with drillcore.open(path) as db:
        assert len(db.table("t")) == 10


def test_forks_draw_other_samples_than_their_parent_and_each_other() -> None:
    program = """
        import os, sys, drillcore
        t = drillcore.open(":memory:").create_table("t", {"k": "int64"}, key="k")
        t.append([{"k": k} for k in range(10_000)])
        t.sample(1)
        forks = [os.fork() for _ in range(2)]
        # In one piece, as all write at the same time.
        os.write(1, f"{os.getpid()} {t.sample(20).arrow()['k'].to_pylist()}\\n".encode())
        if 0 not in forks:
            for fork in forks:
                os.waitpid(fork, 0)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    samples = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines()]
    assert len(samples) == len(set(samples)) == 4


def test_a_parent_can_open_anew_while_its_fork_lives(tmp_path: Path) -> None:
    path = tmp_path / "db"
    program = f"""
        import os, signal, time, drillcore
        db = drillcore.open({str(path)!r})
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        db.close()
        drillcore.open({str(path)!r}).close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print("opened")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "opened" in done.stdout, done.stderr


def test_a_fork_may_open_another_database_and_read_this_one(tmp_path: Path) -> None:
    reads = f"print(drillcore.open({str(tmp_path / 'db')!r}, read_only=True).table('t').count())"
    assert "1\n" in run(tmp_path / "db", reads)
    assert os.getpid()
