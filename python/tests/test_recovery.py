"""What was acknowledged is there after the process ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from events import event_rows, event_schema

import drillcore

WRITER = """
import sys
import drillcore

db = drillcore.open(sys.argv[1], durability="os")
t = db.create_table("t", {"id": "int64", "name": "string"}, key="id", set="name", exist_ok=True)
first = len(t)
for batch in range(100_000):
    ids = range(first + batch * 10, first + batch * 10 + 10)
    t.append([{"id": i, "name": f"set {i % 7}"} for i in ids])
    # Only what append has returned from counts as acknowledged.
    print(ids[-1], flush=True)
"""

HOLDER = """
import sys
import drillcore

db = drillcore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def run_python(source: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", source, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )


def test_rows_are_there_after_opening_again(tmp_path: Path) -> None:
    data = event_rows(0, 5000)
    with drillcore.open(tmp_path / "db") as db:
        table = db.create_table("events", event_schema(), key=["ts", "flight"], set="carrier")
        table.append(data.slice(0, 2000))
        db.flush()
        table.append(data.slice(2000))
        sets = list(table.sets())
    with drillcore.open(tmp_path / "db") as db:
        table = db.table("events")
        assert table.schema.equals(data.schema)
        assert table.key == ["ts", "flight"]
        assert table.scan().arrow().equals(data)
        assert list(table.sets()) == sets
        db.verify()
        table.append(event_rows(5000, 5001))
        assert len(table) == 5001


def test_a_dropped_table_stays_dropped(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        db.create_table("a", {"id": "int64"}, key="id").append([{"id": 1}])
        db.create_table("b", {"id": "int64"}, key="id")
        db.drop_table("a")
    with drillcore.open(tmp_path / "db") as db:
        assert db.tables() == ["b"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    acknowledged = -1
    for _ in range(3):
        writer = run_python(WRITER, path)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first, "the writer did not start"
        time.sleep(0.3)
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged = max(int(line) for line in [first, *writer.stdout] if line.endswith("\n"))
        writer.wait()
        with drillcore.open(path) as db:
            table = db.table("t")
            ids = table.scan(columns=["id"]).arrow()["id"].to_pylist()
            assert ids == list(range(len(ids))), "the rows are no prefix of what was written"
            assert len(ids) > acknowledged
            assert len(ids) % 10 == 0, "part of a batch came back"
            assert sum(rows for _, rows in table.sets()) == len(ids)
            db.verify()


def test_a_second_writer_is_refused_while_the_first_has_it_open(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    holder = run_python(HOLDER, path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(drillcore.LockedError) as caught:
        drillcore.open(path)
    assert isinstance(caught.value, OSError)
    holder.communicate("")
    drillcore.open(path).close()


def test_a_directory_with_other_files_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("not a database")
    with pytest.raises(drillcore.Error):
        drillcore.open(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letters.txt"]


def test_a_file_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "letters.txt"
    file.write_text("not a database")
    with pytest.raises(drillcore.Error) as caught:
        drillcore.open(file)
    assert isinstance(caught.value, OSError | ValueError)
    assert file.read_text() == "not a database"


def test_a_flipped_byte_is_an_error_and_never_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with drillcore.open(path) as db:
        table = db.create_table("events", event_schema(), key=["ts", "flight"], set="carrier")
        table.append(event_rows(0, 5000))
        db.flush()
    largest = max((file for file in path.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0x10
    largest.write_bytes(content)
    with pytest.raises(drillcore.CorruptError, match=largest.name), drillcore.open(path) as db:
        db.verify()
