"""Writers: what was added is stored once, in order, whatever its shape, and what cannot be stored is reported."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import itertools
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import drillcore

SCHEMA = {"id": "int64", "carrier": "string", "delay": "float64", "at": "timestamp[us, UTC]"}
AT = dt.datetime(2013, 7, 4, 9, tzinfo=dt.timezone.utc)


def table(database: drillcore.Database, name: str = "flights", **options: Any) -> drillcore.Table:
    return database.create_table(name, SCHEMA, key="id", **options)


def row(i: int, **more: Any) -> dict[str, Any]:
    return {"id": i, "carrier": "UA", "delay": i / 2, "at": AT, **more}


def ids(t: drillcore.Table) -> list[int]:
    return t.scan(columns=["id"]).arrow().column(0).to_pylist()


def wait_for(t: drillcore.Table, rows: int) -> None:
    until = time.monotonic() + 20
    while len(t) < rows:
        assert time.monotonic() < until, f"{len(t)} of {rows} rows are there"
        time.sleep(0.005)


def test_rows_of_several_threads_are_stored_once(database: drillcore.Database) -> None:
    t = table(database)
    with t.writer(rows=1_000) as w:

        def add(first: int) -> None:
            for i in range(first, first + 3_000):
                w.add(row(i))

        threads = [threading.Thread(target=add, args=(first,)) for first in range(0, 12_000, 3_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ids(t) == list(range(12_000))
    result = w.close()
    assert (result.rows, result.failed_count) == (12_000, 0)
    assert 12 <= result.commits < 200
    assert database.snapshot().lsn >= result.lsn
    assert t.get(7) == row(7)


def test_a_row_is_visible_after_flush_and_soon_without(database: drillcore.Database) -> None:
    t = table(database)
    with t.writer(seconds=3600.0) as slow, t.writer(seconds=0.02) as quick:
        slow.add(row(1))
        assert len(t) == 0
        assert slow.stats()["waiting_rows"] == 1
        assert slow.flush() <= database.snapshot().lsn
        assert ids(t) == [1]
        quick.add(row(2))
        wait_for(t, 2)
        # The clock starts anew with each first row.
        quick.add(row(3))
        wait_for(t, 3)


def test_rows_of_any_shape_are_stored_as_append_stores_them(database: drillcore.Database) -> None:
    t, same = table(database), table(database, "same")
    rows = [
        row(1),
        {"at": AT, "id": 2},
        {"id": 3, "carrier": None},
        {"carrier": "DL", "delay": 4, "id": 4.0, "at": "2013-07-04T09:00Z"},
        row(5),
    ]
    for each in rows:
        same.append([each])
    more = pa.table({"id": [6, 7], "carrier": ["AA", None]})
    same.append(more)
    with t.writer() as w:
        w.add(rows[0])
        w.add(rows[1:3])
        w.add(tuple(rows[3:]))
        w.add(more)
        w.add([])
    assert t.scan().arrow().equals(same.scan().arrow())


def test_a_dict_may_be_changed_after_it_was_added(database: drillcore.Database) -> None:
    t = table(database)
    one = row(0)
    with t.writer() as w:
        for i in range(100):
            one["id"] = i
            w.add(one)
    assert ids(t) == list(range(100))


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        ({"id": 1, "carier": "UA"}, drillcore.NotFoundError, 'did you mean "carrier"'),
        ({"carrier": "UA"}, drillcore.InvalidArgumentError, "lacks key column"),
        ({"id": "x"}, drillcore.InvalidArgumentError, "'x' is not a number"),
        ({"id": 1, "carrier": 5}, drillcore.InvalidTypeError, "5 is not a string"),
        ({"id": None}, drillcore.InvalidArgumentError, "not nullable"),
        ({"id": 1, 5: "x"}, drillcore.InvalidTypeError, "expected a name"),
        (5, drillcore.InvalidTypeError, "int"),
        ([{"id": 1}, {"id": "x"}], drillcore.InvalidArgumentError, "row 1: column \"id\" .*'x' is not a number"),
        ([{"id": 1}, 7], drillcore.InvalidTypeError, "row 1: expected a dict"),
        (pa.table({"id": ["x"]}), drillcore.InvalidArgumentError, "string was given"),
        (pa.table({"id": pa.array([1, None])}), drillcore.InvalidArgumentError, "row 1"),
    ],
)
def test_what_can_be_known_at_once_is_refused_at_once(
    database: drillcore.Database, bad: Any, error: type[Exception], says: str
) -> None:
    t = database.create_table(
        "flights", pa.schema([pa.field("id", pa.int64(), nullable=False), ("carrier", pa.string())]), key="id"
    )
    with t.writer() as w:
        w.add({"id": 10})
        with pytest.raises(error, match=says):
            w.add(bad)
        w.add({"id": 11})
    assert ids(t) == [10, 11]


def test_a_row_that_turns_out_bad_later_is_raised_once_with_its_row(database: drillcore.Database) -> None:
    t = table(database)
    w = t.writer(seconds=3600.0)
    for i in range(10):
        # An int as the others, but out of range: that is known when the rows are converted.
        w.add(row(i if i != 4 else 2**70))
    with pytest.raises(drillcore.InvalidArgumentError, match=r"1 row added earlier .* out of range") as raised:
        w.flush()
    assert [(failed.table, failed.row["id"]) for failed in raised.value.failed_rows] == [("flights", 2**70)]
    w.add(row(10))
    result = w.close()
    assert ids(t) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert (result.rows, result.failed_count, result.failed) == (10, 1, [])
    assert w.close() == result


def test_the_next_add_raises_before_it_takes_its_row(database: drillcore.Database) -> None:
    t = table(database)
    w = t.writer(rows=4, seconds=3600.0)
    for i in (0, 1, 2**70, 3):
        w.add(row(i))
    with pytest.raises(drillcore.InvalidArgumentError):
        w.add(row(4))
    w.close()
    assert ids(t) == [0, 1, 3]


def test_skip_leaves_bad_rows_out_and_lists_them(database: drillcore.Database) -> None:
    t = table(database)
    with t.writer(on_error="skip") as w:
        w.add(row(1))
        w.add({"id": "x"})
        w.add({"id": 2, "carier": "UA"})
        w.add([row(3), {"carrier": "UA"}])
        w.add(row(2**70))
        w.add(pa.table({"id": pa.array([4, None, 5])}))
    assert ids(t) == [None, 1, 3, 4, 5], "a key of this table may be null"
    failed = w.close().failed
    assert [each.row.get("id") for each in failed] == ["x", 2, None, 2**70]
    assert w.stats()["failed_rows"] == w.close().failed_count == len(failed)


def test_a_body_that_raises_leaves_what_was_added(database: drillcore.Database) -> None:
    t = table(database)
    with pytest.raises(ZeroDivisionError), t.writer(seconds=3600.0) as w:
        w.add(row(1))
        raise ZeroDivisionError
    assert ids(t) == [1]
    with pytest.raises(drillcore.ClosedError, match="writer is closed"):
        w.add(row(2))
    with pytest.raises(drillcore.ClosedError):
        w.add(pa.table({"id": [2]}))
    with pytest.raises(drillcore.ClosedError):
        w.flush()


def test_a_writer_that_is_forgotten_commits(database: drillcore.Database) -> None:
    t = table(database)
    w = t.writer(seconds=3600.0)
    w.add(row(1))
    del w
    gc.collect()
    wait_for(t, 1)


def test_an_add_to_two_tables_is_in_one_commit(database: drillcore.Database) -> None:
    flights = table(database)
    hourly = database.create_table(
        "hourly", {"id": "int64"}, key="id", merge="rollup", rollup={"metrics": {"n": "count"}}
    )
    done = threading.Event()

    def add() -> None:
        with database.writer(rows=50, seconds=0.001) as w:
            for i in range(3_000):
                w.add({"flights": row(i), "hourly": [{"id": i % 24}, {"id": i % 7}]})
        done.set()

    thread = threading.Thread(target=add)
    thread.start()
    while not done.is_set():
        snapshot = database.snapshot()
        assert 2 * len(snapshot.table("flights")) == snapshot.table("hourly").count(unit="events")
    thread.join()
    assert (len(flights), hourly.count(unit="events")) == (3_000, 6_000)


def test_a_bad_row_keeps_all_rows_of_its_add_out(database: drillcore.Database) -> None:
    flights, other = table(database), table(database, "other")
    w = database.writer(on_error="skip", seconds=3600.0)
    for i in range(100):
        w.add({"flights": row(i), "other": row(i if i % 10 else 2**70)})
    w.add({"flights": row(200), "other": {"nmae": 1}})
    w.add({"flights": pa.table({"id": [300]}), "other": {"id": 300}})
    result = w.close()
    left = [i for i in range(100) if i % 10] + [300]
    assert ids(flights) == left
    assert ids(other) == left
    assert (result.rows, result.failed_count) == (182, 22)
    assert {each.table for each in result.failed} == {"flights", "other"}
    assert "out of range" in next(each.reason for each in result.failed)
    raising = database.writer()
    with pytest.raises(drillcore.NotFoundError, match="unknown table"):
        raising.add({"fligths": row(1)})
    with pytest.raises(drillcore.NotFoundError):
        raising.add({"flights": row(400), "other": {"nmae": 1}})
    with pytest.raises(drillcore.InvalidTypeError, match="dict from table name"):
        raising.add([row(1)])  # type: ignore[arg-type]
    assert raising.close().rows == 0


def test_new_columns_and_new_dimensions_come_in(database: drillcore.Database) -> None:
    t = table(database)
    with t.writer() as w:
        w.add(row(1))
        t.add_column("gate", "string")
        w.add(row(2, gate="B7"))
        w.add(row(3))
    assert t.scan(columns=["gate"]).arrow().column(0).to_pylist() == [None, "B7", None]
    rollup = {"dimensions": "discover", "metrics": {"n": "count"}}
    hits = database.create_table("hits", {"id": "int64"}, key="id", merge="rollup", rollup=rollup)
    with hits.writer() as w:
        w.add({"id": 1})
        w.add({"id": 1, "path": "/", "status": 200})
        w.add({"id": 1, "path": "/"})
    assert hits.key == ["id", "path", "status"]
    assert hits.count(unit="events") == 3


def test_an_upsert_needs_whole_rows_unless_it_fills_nulls(database: drillcore.Database) -> None:
    t = table(database, merge="upsert")
    with t.writer() as w:
        w.add(row(1))
        with pytest.raises(drillcore.InvalidArgumentError, match="would become null"):
            w.add({"id": 2})
    with t.writer(fill_nulls=True) as w:
        w.add({"id": 1})
        w.add(row(2))
        w.add(row(2, carrier="DL"))
    assert t.get(1) == {"id": 1, "carrier": None, "delay": None, "at": None}
    assert t.get(2)["carrier"] == "DL"  # type: ignore[index]


def test_rows_for_a_database_that_was_closed_fail_with_their_rows() -> None:
    database = drillcore.open(":memory:")
    t = table(database)
    w = t.writer(seconds=3600.0)
    w.add(row(1))
    database.close()
    with pytest.raises(drillcore.ClosedError, match="database is closed") as raised:
        w.close()
    assert [failed.row["id"] for failed in raised.value.failed_rows] == [1]
    with pytest.raises(drillcore.ClosedError):
        t.writer()


@pytest.mark.parametrize("of_table", [True, False])
def test_a_writer_takes_no_row_once_its_database_is_closed(of_table: bool) -> None:
    with drillcore.open(":memory:") as other:
        apart = table(other).writer(seconds=3600.0)
        database = drillcore.open(":memory:")
        t = table(database)
        writer: Any = t.writer(seconds=3600.0) if of_table else database.writer(seconds=3600.0)
        writer.add(row(1) if of_table else {"flights": row(1)})
        database.close()
        refused = []
        for at in (2, 3):
            with pytest.raises(drillcore.ClosedError, match="the database is closed") as raised:
                writer.add(row(at) if of_table else {"flights": row(at)})
            refused.append([failed.row["id"] for failed in raised.value.failed_rows])
        # What it had taken before is reported once, and the refused rows are not of it.
        assert refused == [[1], []]
        with pytest.raises(drillcore.ClosedError) as raised:
            writer.close()
        assert list(raised.value.failed_rows) == [] and writer.close().failed_count == 1
        apart.add(row(1))
        assert apart.close().rows == 1


def test_rows_for_a_table_that_was_dropped_fail_with_their_rows(database: drillcore.Database) -> None:
    t = table(database)
    w = t.writer(seconds=3600.0)
    w.add(row(1))
    database.drop_table("flights")
    with pytest.raises(drillcore.Error, match="dropped") as raised:
        w.flush()
    assert len(raised.value.failed_rows) == 1
    w.close()


def flushed(writer: drillcore.TableWriter, rows: list[int]) -> tuple[str, list[Any]]:
    """Adds and flushes in a thread of its own; returns what was raised, and the ids that came with it."""
    outcome: list[tuple[str, list[Any]]] = []

    def add_and_flush() -> None:
        try:
            for at in rows:
                writer.add(row(at))
            writer.flush()
            outcome.append(("", []))
        except drillcore.Error as error:
            outcome.append((str(error), [failed.row["id"] for failed in error.failed_rows]))

    thread = threading.Thread(target=add_and_flush)
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_no_flush_returns_as_if_rows_were_stored_whose_fault_another_thread_raised(
    database: drillcore.Database, is_dropped: bool
) -> None:
    t = table(database)
    w = t.writer(seconds=3600.0)
    w.add(row(1))
    if not is_dropped:
        # Lost alone.
        w.add(row(2**70))
    else:
        database.drop_table("flights")
    message, ids_of_failed = flushed(w, [2])
    assert "could not be stored" in message and ids_of_failed == ([1, 2] if is_dropped else [2**70])
    with pytest.raises(drillcore.Error, match="rows added earlier could not be stored, and another thread") as raised:
        w.flush()
    assert list(raised.value.failed_rows) == []
    w.flush()
    if not is_dropped:
        assert flushed(w, [3]) == ("", []), "what failed before its first row is no matter of a thread"
        assert ids(t) == [1, 2, 3]
    assert w.close().failed_count == len(ids_of_failed)


def test_of_threads_that_flush_while_the_database_is_closed_none_takes_lost_rows_for_stored(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / str(attempt)
        database = drillcore.open(path)
        w = table(database).writer(seconds=0.001)
        stored: list[int] = []

        def add_and_flush(first: int, w: drillcore.TableWriter = w, stored: list[int] = stored) -> None:
            with contextlib.suppress(drillcore.Error):
                for at in itertools.count(first, 20):
                    some = range(at, at + 20)
                    for each in some:
                        w.add(row(each))
                    w.flush()
                    stored.extend(some)

        threads = [threading.Thread(target=add_and_flush, args=(n * 1_000_000,)) for n in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.005 + 0.001 * attempt)
        database.close()
        for thread in threads:
            thread.join()
        with drillcore.open(path) as again:
            assert set(stored) <= set(ids(again.table("flights")))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rows": 0}, "rows: expected a number of at least 1"),
        ({"rows": "many"}, "rows: expected a whole number"),
        ({"seconds": 0}, "seconds: expected a positive number"),
        ({"seconds": float("nan")}, "seconds: expected a positive number"),
        ({"bytes": 0}, "bytes: expected a number of at least 1"),
        ({"on_error": "ignore"}, 'on_error: expected "raise" or "skip"'),
    ],
)
def test_options_are_checked(database: drillcore.Database, options: dict[str, Any], says: str) -> None:
    t = table(database)
    for opened in (t.writer, database.writer):
        with pytest.raises(drillcore.Error, match=says):
            opened(**options)


def test_a_reader_has_no_writer(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        table(db)
        with drillcore.open(tmp_path / "db", read_only=True) as reader:
            with pytest.raises(drillcore.ReadOnlyError):
                reader.writer()
            with pytest.raises(drillcore.ReadOnlyError):
                reader.table("flights").writer()


def test_long_strings_do_not_gather(database: drillcore.Database) -> None:
    t = table(database)
    with t.writer(seconds=3600.0) as w:
        for i in range(64):
            w.add(row(i, carrier="x" * 300_000))
            # Less than two chunks of 4 MiB wait to be converted.
            assert sum(chunk.bytes for chunk in w._queue) < 5 << 20
    assert len(t) == 64


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("seed", range(4))
def test_good_and_bad_rows_of_several_threads_are_told_apart(
    database: drillcore.Database, on_error: str, seed: int
) -> None:
    """Each row is stored or reported, once, whichever thread added it and whichever call reports it."""
    tables = [table(database, name) for name in ("one", "two")]
    random_rows = random.Random(seed)
    w = database.writer(rows=random_rows.choice([10, 300]), seconds=0.002, on_error=on_error)
    good: set[int] = set()
    refused: set[int] = set()
    reported: list[drillcore.FailedRow] = []

    def add(first: int, rng: random.Random) -> None:
        for i in range(first, first + 400):
            bad = rng.random() < 0.05
            one, two = row(i), row(i)
            if bad:
                # Of another column, of another type, out of range, and a time that is none.
                two.update(rng.choice([{"nmae": 1}, {"carrier": 5}, {"id": 2**70, "delay": float(i)}, {"at": "x"}]))
            while True:
                try:
                    w.add({"one": one, "two": two} if rng.random() < 0.9 else {"one": [one], "two": [two]})
                except drillcore.Error as error:
                    if error.failed_rows:
                        reported.extend(error.failed_rows)
                        continue
                    refused.add(i)
                else:
                    if not bad:
                        good.add(i)
                break
            if rng.random() < 0.01:
                try:
                    w.flush()
                except drillcore.Error as error:
                    reported.extend(error.failed_rows)

    threads = [threading.Thread(target=add, args=(1_000 * n, random.Random(seed * 10 + n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        reported += w.close().failed
    except drillcore.Error as error:
        reported.extend(error.failed_rows)
        reported += w.close().failed
    assert ids(tables[0]) == ids(tables[1]) == sorted(good), f"seed {seed}"
    failed = {int(each.row["delay"] * 2 if each.row["id"] != 2**70 else each.row["delay"]) for each in reported}
    assert failed | refused == {1_000 * n + i for n in range(4) for i in range(400)} - good, f"seed {seed}"
    assert failed.isdisjoint(good)
    assert len(reported) == 2 * len(failed), "both rows of an add, once"


def run(program: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "panic" not in done.stderr
    return done.stdout


def test_a_program_that_ends_without_closing_stores_its_rows(tmp_path: Path) -> None:
    run(f"""
        import drillcore
        db = drillcore.open({str(tmp_path / "db")!r})
        w = db.create_table("t", {{"k": "int64"}}, key="k").writer(seconds=3600.0)
        for k in range(1500):
            w.add({{"k": k}})
    """)
    with drillcore.open(tmp_path / "db") as db:
        assert len(db.table("t")) == 1_500


def test_a_fork_is_refused_and_stores_nothing_twice(tmp_path: Path) -> None:
    printed = run(f"""
        import os, sys, drillcore
        db = drillcore.open({str(tmp_path / "db")!r})
        w = db.create_table("t", {{"k": "int64"}}, key="k").writer(seconds=3600.0)
        w.add({{"k": 1}})
        if (pid := os.fork()) == 0:
            try:
                w.add({{"k": 2}})
                w.flush()
            except drillcore.ReadOnlyError as error:
                print("refused", error, flush=True)
            sys.exit(0)
        os.waitpid(pid, 0)
        w.add({{"k": 3}})
        w.close()
        db.close()
    """)
    assert "refused" in printed
    assert "fork" in printed
    assert os.getpid()
    with drillcore.open(tmp_path / "db") as db:
        assert [each["k"] for each in db.table("t").scan().arrow().to_pylist()] == [1, 3]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_list_with_something_else_stores_nothing_of_it(on_error: str) -> None:
    table = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id")
    writer = table.writer(on_error=on_error)
    with pytest.raises(drillcore.InvalidTypeError, match="row 1: expected a dict"):
        writer.add([{"id": 1}, 5])
    writer.close()
    assert len(table) == 0


def test_an_array_of_no_dimension_is_a_value(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64", "tags": "list<string>"}, key="id")
    with table.writer() as writer:
        for i in range(3):
            writer.add({"id": np.array(i), "tags": np.array(["a"])})
    assert table.scan().arrow().to_pylist() == [{"id": i, "tags": ["a"]} for i in range(3)]


@pytest.mark.parametrize("recreated", [True, False])
def test_rows_are_those_of_the_table_that_has_the_name(database: drillcore.Database, recreated: bool) -> None:
    database.create_table("t", {"id": "int64", "v": "float32"}, key="id")
    with database.writer() as w:
        w.add({"t": {"id": 1, "v": 0.5}})
        w.flush()
        if recreated:
            database.drop_table("t")
        else:
            database.rename_table("t", "old")
        t = database.create_table("t", {"id": "int64", "v": "float64", "x": "string"}, key="id")
        w.add({"t": {"id": 1, "v": 0.1}})
        w.add({"t": {"id": 2, "x": "a"}})
        w.add({"t": [{"id": 3, "x": "b"}, {"id": 4, "v": 0.1}]})
    assert t.scan().arrow().to_pylist() == [
        {"id": 1, "v": 0.1, "x": None},
        {"id": 2, "v": None, "x": "a"},
        {"id": 3, "v": None, "x": "b"},
        {"id": 4, "v": 0.1, "x": None},
    ]


def test_rows_follow_a_swap_of_names_while_they_wait(database: drillcore.Database) -> None:
    database.create_table("a", {"id": "int64", "v": "float32"}, key="id")
    database.create_table("b", {"id": "int64", "v": "float64"}, key="id")
    with database.writer(seconds=60) as w:
        w.add({"a": {"id": 1, "v": 0.5}, "b": {"id": 1, "v": 0.5}})
        w.add({"a": {"id": 2, "v": 0.1}, "b": {"id": 2, "v": 0.25}})
        for old, new in [("a", "c"), ("b", "a"), ("c", "b")]:
            database.rename_table(old, new)
    assert database.table("a").get(2) == {"id": 2, "v": 0.1}
    assert database.table("b").get(2) == {"id": 2, "v": 0.25}


def test_rows_beside_one_with_a_value_for_a_column_that_is_gone_are_stored(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "v": "int64"}, key="id")
    w = t.writer(seconds=60, on_error="skip")
    w.add(pa.table({"id": list(range(100))}))
    w.add(pa.table({"id": [200], "v": [1]}))
    t.drop_column("v")
    result = w.close()
    assert (result.rows, result.failed_count, ids(t)) == (100, 1, list(range(100)))
    assert result.failed[0].row == {"id": 200, "v": 1}
    assert 'unknown column "v"' in result.failed[0].reason


def test_a_row_with_a_time_beyond_the_years_of_python_can_be_left_out(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "day": "date32"}, key="id")
    far = pa.table({"id": pa.array([2**63], pa.uint64()), "day": pa.array([3_000_000], pa.int32()).cast(pa.date32())})
    with t.writer(on_error="skip") as writer, database.writer(on_error="skip") as of_all:
        writer.add(far)
        of_all.add({"t": far})
    for result in (writer.close(), of_all.close()):
        assert [failed.row for failed in result.failed] == [{"id": 2**63, "day": 3_000_000}]
