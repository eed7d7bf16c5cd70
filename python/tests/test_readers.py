"""Readers see whole commits of a writer, in this process or another, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from events import event_rows, event_schema

import drillcore
from drillcore import Database

BATCH_ROWS = 25
BATCHES = 80

WRITER = """
import sys
import drillcore

path, batches, batch_rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with drillcore.open(path, memory_bytes=1 << 20) as db:
    schema = {"id": "int64", "name": "string"}
    t = db.create_table("t", schema, key="id", set="name")
    latest = db.create_table("latest", {"name": "string", "id": "int64"}, key="name", merge="upsert")
    for batch in range(batches):
        rows = [{"id": batch * batch_rows + i, "name": f"set {i % 5}"} for i in range(batch_rows)]
        print(db.append({"t": rows, "latest": rows}).lsn, flush=True)
        if batch % 10 == 9:
            db.compact()
    sys.stdin.read()
"""

READER = """
import sys
import drillcore

db = drillcore.open(sys.argv[1], read_only=True)
print(len(db.table("events")), flush=True)
sys.stdin.read()
"""


def run_python(source: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", source, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def leases(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.name.startswith("lease-")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "test.drill"


@pytest.fixture
def writer(folder: Path) -> Iterator[Database]:
    with drillcore.open(folder) as db:
        table = db.create_table("events", event_schema(), key=["ts", "flight"], set="carrier")
        table.append(event_rows(0, 1000))
        yield db


@pytest.fixture
def reader(folder: Path, writer: Database) -> Iterator[Database]:
    with drillcore.open(folder, read_only=True) as db:
        yield db


def test_a_reader_follows_a_writing_process_by_lsn(folder: Path) -> None:
    writer = run_python(WRITER, folder, BATCHES, BATCH_ROWS)
    assert writer.stdout is not None
    lsns = iter(writer.stdout)
    assert next(lsns), "the writer did not start"
    with drillcore.open(folder, read_only=True) as db:
        table = db.table("t")
        for batch in range(1, BATCHES):
            lsn = int(next(lsns))
            assert db.refresh(at_least=lsn) >= lsn
            with db.snapshot() as snapshot:
                pinned = snapshot.table("t")
                assert snapshot.lsn >= lsn
                assert len(pinned) >= (batch + 1) * BATCH_ROWS, "an acknowledged commit is not there"
                assert len(pinned) % BATCH_ROWS == 0, "part of a commit is visible"
                newest = max(row["id"] for row in snapshot.table("latest").scan().arrow().to_pylist())
                assert newest == len(pinned) - 1, "the tables are of two commits"
        ids = table.scan(columns=["id"]).arrow()["id"].to_pylist()
        assert ids == list(range(BATCHES * BATCH_ROWS))
        assert sum(rows for _, rows in table.sets()) == len(table)
        drawn = table.sample(50).arrow()["id"].to_pylist()
        assert len(set(drawn)) == 50
        assert writer.poll() is None, "the writer ended before it was read beside"
    writer.communicate("")
    assert writer.returncode == 0
    with drillcore.open(folder) as db:
        db.verify()


def test_every_read_of_a_reader_is_as_of_the_last_refresh(writer: Database, reader: Database) -> None:
    table, before = reader.table("events"), reader.snapshot()
    lsn = writer.table("events").append(event_rows(1000, 1500)).lsn
    writer.compact()
    assert (len(table), table.count(set="UA"), len(before.table("events"))) == (1000, 250, 1000)
    assert reader.refresh() == lsn
    assert table.scan().arrow().equals(event_rows(0, 1500))
    assert (table.count(), table.count(set="UA"), len(before.table("events"))) == (1500, 375, 1000)
    assert table.estimate("avg(flight)", n=2000).value == pytest.approx(749.5)
    assert len(table.sample(1500)) == 1500
    assert before.table("events").scan().arrow().equals(event_rows(0, 1000))
    assert (table.schema, table.key, table.merge) == (event_schema(), ["ts", "flight"], "append")
    assert (table.weights, table.name) == ([], "events")


def test_a_reader_sees_tables_come_change_and_go(writer: Database, reader: Database) -> None:
    rollup = {"dimensions": ["carrier"], "metrics": {"n": "count"}}
    folded = writer.create_table("folded", event_schema(), key="carrier", merge="rollup", rollup=rollup)
    folded.append(event_rows(0, 20))
    assert reader.tables() == ["events"]
    with pytest.raises(drillcore.NotFoundError):
        reader.table("folded")
    reader.refresh()
    assert reader.tables() == ["events", "folded"]
    seen = reader.table("folded")
    assert (seen.merge, seen.count(unit="events"), len(seen)) == ("rollup", 20, 4)
    assert seen.append_schema == folded.append_schema
    writer.drop_table("folded")
    assert len(seen) == 4
    reader.refresh()
    with pytest.raises(drillcore.NotFoundError):
        len(seen)
    writer.create_table("folded", {"id": "int64"}, key="id")
    reader.refresh()
    with pytest.raises(drillcore.NotFoundError, match=r"db\.table"):
        len(seen)
    assert len(reader.table("folded")) == 0


def test_readers_need_no_writer_and_a_writer_may_come_beside_them(folder: Path, writer: Database) -> None:
    writer.close()
    one, two = (drillcore.open(folder, read_only=True) for _ in range(2))
    assert len(one.table("events")) == len(two.table("events")) == 1000
    with drillcore.open(folder) as again:
        lsn = again.table("events").append(event_rows(1000, 1001)).lsn
        assert two.refresh(at_least=lsn, timeout=0) == lsn
    assert (len(one.table("events")), len(two.table("events"))) == (1000, 1001)
    one.close()
    two.close()
    assert leases(folder) == []


def test_named_snapshots_are_read_beside_the_writer_and_outlast_their_drop(writer: Database, reader: Database) -> None:
    before = writer.snapshot("before").table("events").sample(50, seed=7).arrow()
    with pytest.raises(drillcore.NotFoundError, match='unknown snapshot "before"'):
        reader.snapshot("before")
    assert reader.snapshots() == {}
    lsn = writer.table("events").append(event_rows(1000, 1500)).lsn
    writer.snapshot("after")
    writer.compact()
    reader.refresh()
    assert reader.snapshots() == writer.snapshots() == {"after": lsn, "before": lsn - 1}
    with reader.snapshot("before") as snapshot:
        assert (snapshot.lsn, len(snapshot.table("events"))) == (lsn - 1, 1000)
        assert snapshot.sql("select count(*) as n from events").arrow().to_pylist() == [{"n": 1000}]
    with pytest.raises(drillcore.NotFoundError, match='did you mean "after"'):
        reader.snapshot("aftr")
    assert list(writer.snapshots()) == ["after", "before"], "a reader makes none"

    for name in ("after", "before"):
        writer.drop_snapshot(name)
    writer.compact()
    assert len(reader.snapshot("after").table("events")) == 1500
    held = reader.snapshot("before")
    assert held.table("events").sample(50, seed=7).arrow().equals(before)
    reader.verify()
    reader.refresh()
    assert reader.snapshots() == {}
    with pytest.raises(drillcore.NotFoundError, match="there are none"):
        reader.snapshot("before")
    assert held.table("events").sample(50, seed=7).arrow().equals(before)


def test_a_reader_verifies_what_it_reads_beside_the_writer(folder: Path, writer: Database, reader: Database) -> None:
    assert reader.verify() == drillcore.VerifyReport(segments=0, rows=0, bytes=0)
    writer.compact()
    reader.refresh()
    (segment,) = (file for file in folder.iterdir() if file.name.startswith("segment-"))
    size = segment.stat().st_size
    assert reader.verify() == writer.verify() == drillcore.VerifyReport(segments=1, rows=1000, bytes=size)
    damaged = bytearray(segment.read_bytes())
    damaged[100] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(drillcore.CorruptError, match="1 of 1 segments are damaged: segment"):
        reader.verify()


def test_the_stats_of_a_reader_are_its_own_and_leave_out_what_the_writer_knows(
    writer: Database, reader: Database
) -> None:
    writer.flush()
    reader.refresh()
    stats, of_writer = reader.stats(), writer.stats()
    unknown = {name for name, value in stats.items() if value is None}
    assert unknown == {
        "memory_bytes_limit",
        "held_back_bytes",
        "untried_leases",
        "unremoved_files",
        "set_list_bytes",
        "snapshot_row_bytes",
        "oldest_snapshot_lsn",
        "oldest_snapshot_row_bytes",
        "oldest_snapshot_file_bytes",
        "wal_syncs",
        "memory_compactions",
        "flushes",
        "merges",
        "segments_indexed",
        "snapshot_spills",
        "rows_written",
        "stall_seconds",
        "merge_stall_seconds",
        "failure",
    }
    assert list(stats) == list(of_writer)
    (table,), (writers_table,) = stats["tables"], of_writer["tables"]
    assert table == writers_table | {"appended_rows": None, "appended_batches": None}
    assert (table["rows"], table["segments"], stats["lsn"], stats["blocks_read"]) == (1000, 1, of_writer["lsn"], 0)
    assert len(reader.table("events").scan().arrow()) == 1000
    assert reader.stats()["blocks_read"] > 0
    assert writer.stats()["blocks_read"] == of_writer["blocks_read"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_reader_holds_nothing_back(folder: Path, writer: Database) -> None:
    writer.flush()
    process = run_python(READER, folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "1000\n"
    writer.table("events").append(event_rows(1000, 1100))
    writer.compact()
    assert len(leases(folder)) == 2, "one on segments, one on the moment"
    assert writer.stats()["held_back_bytes"] > 0, "the reader's segment is still needed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    writer.table("events").append(event_rows(1100, 1200))
    writer.compact()
    assert writer.stats()["held_back_bytes"] == 0
    assert leases(folder) == []
    assert len(writer.table("events")) == 1200
    writer.verify()


def test_a_reader_that_waits_in_vain_is_behind_and_has_moved_on(writer: Database, reader: Database) -> None:
    lsn = writer.table("events").append(event_rows(1000, 1001)).lsn
    started = time.monotonic()
    with pytest.raises(drillcore.BehindError, match=str(lsn)) as caught:
        reader.refresh(at_least=lsn + 1, timeout=0.2)
    assert 0.2 <= time.monotonic() - started < 5
    assert isinstance(caught.value, TimeoutError)
    assert len(reader.table("events")) == 1001


def test_a_reader_waits_for_a_commit_without_holding_the_interpreter(writer: Database, reader: Database) -> None:
    table = writer.table("events")
    wanted = reader.refresh() + 1
    appender = threading.Timer(0.2, lambda: table.append(event_rows(1000, 1010)))
    appender.start()
    assert reader.refresh(at_least=wanted, timeout=float("inf")) == wanted
    appender.join()
    assert len(reader.table("events")) == 1010


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_a_signal_ends_the_wait_for_a_commit(reader: Database) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            reader.refresh(at_least=10_000, timeout=30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(reader.table("events")) == 1000


REFUSED: dict[str, Callable[[Database], Any]] = {
    "create_table": lambda db: db.create_table("x", {"id": "int64"}, key="id"),
    "drop_table": lambda db: db.drop_table("events"),
    "append": lambda db: db.append({"events": event_rows(0, 1)}),
    "append to a table": lambda db: db.table("events").append(event_rows(0, 1)),
    "append of dicts": lambda db: db.table("events").append([{"flight": "x"}], on_error="skip"),
    "load": lambda db: db.table("events").load(iter([event_rows(0, 1)])),
    "load of nothing": lambda db: db.table("events").load([], commit_rows=5),
    "delete": lambda db: db.table("names").delete(["a"]),
    "flush": lambda db: db.flush(),
    "compact": lambda db: db.compact(),
    "drop_snapshot": lambda db: db.drop_snapshot("name"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_needs_the_writer_is_refused_by_a_reader(writer: Database, reader: Database, call: str) -> None:
    names = writer.create_table("names", {"name": "string"}, key="name", merge="upsert")
    names.append([{"name": "a"}])
    reader.refresh()
    with pytest.raises(drillcore.ReadOnlyError, match="read_only=True") as caught:
        REFUSED[call](reader)
    assert str(caught.value).startswith(call.split(" ")[0])
    assert isinstance(caught.value, OSError)
    assert (len(writer.table("events")), len(names)) == (1000, 1)


def test_a_refused_load_takes_nothing_from_its_stream(reader: Database) -> None:
    stream = iter([event_rows(0, 1)])
    with pytest.raises(drillcore.ReadOnlyError):
        reader.table("events").load(stream)
    assert next(stream).num_rows == 1


def test_a_refresh_is_for_readers(writer: Database) -> None:
    with pytest.raises(drillcore.UnsupportedError, match="read_only"):
        writer.refresh()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"at_least": -1}, drillcore.InvalidArgumentError),
        ({"at_least": "1"}, drillcore.InvalidTypeError),
        ({"timeout": -0.1}, drillcore.InvalidArgumentError),
        ({"timeout": float("nan")}, drillcore.InvalidArgumentError),
        ({"timeout": "1s"}, drillcore.InvalidTypeError),
        ({"timeout": None}, drillcore.InvalidTypeError),
    ],
)
def test_the_arguments_of_a_refresh_are_checked(reader: Database, arguments: dict[str, Any], kind: type) -> None:
    with pytest.raises(kind, match=next(iter(arguments))):
        reader.refresh(**arguments)


def test_a_reader_makes_no_database(tmp_path: Path) -> None:
    with pytest.raises(drillcore.NotFoundError, match="missing"):
        drillcore.open(tmp_path / "missing", read_only=True)
    with pytest.raises(drillcore.NotFoundError, match="no database"):
        drillcore.open(tmp_path, read_only=True)
    with pytest.raises(drillcore.InvalidArgumentError, match="memory"):
        drillcore.open(":memory:", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_reader_says_so_and_its_snapshots_stay(folder: Path, writer: Database) -> None:
    with drillcore.open(folder, read_only=True) as db:
        assert db.read_only and not writer.read_only
        assert "read only" in repr(db)
        assert "read only" not in repr(writer)
        table, snapshot = db.table("events"), db.snapshot()
    db.close()
    reads = (db.tables, db.snapshot, db.snapshots, db.verify, db.stats, db.refresh, table.count)
    for call in (*reads, lambda: db.table("events"), lambda: db.snapshot("before")):
        with pytest.raises(drillcore.ClosedError, match="closed"):
            call()
    writer.compact()
    assert snapshot.table("events").scan().arrow().equals(event_rows(0, 1000))


def test_a_scan_of_a_reader_goes_on_while_its_files_are_replaced(writer: Database, reader: Database) -> None:
    writer.table("events").append(event_rows(1000, 80_000))
    writer.compact()
    reader.refresh()
    batches = reader.table("events").scan().batches()
    first = next(batches)
    assert first.num_rows < 80_000, "nothing is left to read"
    writer.table("events").append(event_rows(80_000, 80_001))
    writer.compact()
    reader.refresh()
    writer.compact()
    assert pa.Table.from_batches([first, *batches]).equals(event_rows(0, 80_000))


def can_be_read_directly(folder: Path) -> bool:
    (folder / "probe").write_bytes(b"")
    try:
        os.close(os.open(folder / "probe", os.O_RDONLY | getattr(os, "O_DIRECT", 0)))
    except OSError:
        return False
    return hasattr(os, "O_DIRECT")


@pytest.mark.parametrize("direct_io", [False, True])
@pytest.mark.parametrize("io_uring", [False, True])
def test_files_are_read_in_each_way(tmp_path: Path, direct_io: bool, io_uring: bool) -> None:
    with drillcore.open(tmp_path / "db", direct_io=direct_io, io_uring=io_uring) as db:
        t = db.create_table("t", {"id": "int64", "name": "string"}, key="id", set="name")
        t.append([{"id": i, "name": f"set {i % 7}"} for i in range(20_000)])
        db.compact()
        written = db.stats()["reads_by"]
    options = {"direct_io": direct_io, "io_uring": io_uring, "cache_bytes": 0}
    with drillcore.open(tmp_path / "db", read_only=True, **options) as reader:
        t = reader.table("t")
        ids = list(range(0, 20_000, 40))
        assert t.get_many(ids).arrow()["id"].to_pylist() == ids
        assert set(t.sample(1_000, set="set 3", seed=1).arrow()["name"].to_pylist()) == {"set 3"}
        assert reader.stats()["direct_io"] == (direct_io and can_be_read_directly(tmp_path))
        assert reader.stats()["reads_by"] == written
        assert written in ({"io_uring", "threads"} if io_uring else {"threads"})
