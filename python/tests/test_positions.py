"""Positions of sources are part of the commits of their rows."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import drillcore

CONSUMER = """
import sys, drillcore
db = drillcore.open(sys.argv[1])
t = db.create_table("t", {"id": "int64"}, key="id", exist_ok=True)
at = db.positions().get("topic", 0)
while True:
    db.append({"t": [{"id": id} for id in range(at, at + 7)]}, positions={"topic": at + 7})
    at += 7
    print(at, flush=True)
    if at % 700 == 0:
        db.flush()
"""


def test_a_consumer_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "db"
    for round in range(4):
        with subprocess.Popen([sys.executable, "-c", CONSUMER, path], stdout=subprocess.PIPE, text=True) as consumer:
            assert consumer.stdout is not None
            for _ in range(150 + 31 * round):
                consumer.stdout.readline()
            consumer.send_signal(signal.SIGKILL)
    with drillcore.open(path, read_only=True) as db:
        at = db.positions()["topic"]
        assert at >= 4 * 150 * 7
        ids = db.table("t").scan().arrow()["id"].to_pylist()
        assert ids == list(range(at))


def test_positions_come_back_as_they_were_given_until_they_are_forgotten(database: drillcore.Database) -> None:
    database.create_table("t", {"id": "int64"}, key="id")
    positions = {"a": 3, "b": "token", "c": {"offset": 1.5, "parts": [1, None]}}
    assert database.append({"t": [{"id": 1}]}, positions=positions).rows == 1
    assert database.positions() == positions
    # Without rows it is a commit, too.
    lsn = database.append({}, positions={"a": None, "b": 7}).lsn
    assert database.positions() == {"b": 7, "c": {"offset": 1.5, "parts": [1, None]}}
    assert database.snapshot().lsn == lsn


def test_what_is_no_position_is_refused_and_nothing_is_changed(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64"}, key="id")
    rows = {"t": [{"id": 1}]}
    for positions in (3, [("a", 1)], {1: 2}):
        with pytest.raises(drillcore.InvalidTypeError, match="positions"):
            database.append(rows, positions=positions)  # type: ignore[arg-type]
    for wrong in (float("nan"), object(), b"x"):
        with pytest.raises(drillcore.InvalidArgumentError, match="position of 'a'"):
            database.append(rows, positions={"a": wrong})
    with pytest.raises(drillcore.InvalidArgumentError, match="no name"):
        database.append(rows, positions={"": 1})
    with pytest.raises(drillcore.InvalidArgumentError, match="the limit is 65536"):
        database.append(rows, positions={"a": "x" * 70_000})
    assert len(table) == 0
    assert database.positions() == {}
