"""Streams of samples: endless, independent, repeatable by their seed, and as fresh as asked for."""

from __future__ import annotations

import datetime as dt
import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import drillcore
from drillcore.stream import batch_seed


def table(database: drillcore.Database, rows: int = 1_000) -> drillcore.Table:
    schema = {"id": "int64", "carrier": "string", "weight": "float64"}
    t = database.create_table("flights", schema, key="id", set="carrier", weights="weight")
    t.append([{"id": i, "carrier": "UA" if i % 4 == 0 else "DL", "weight": float(i % 2)} for i in range(rows)])
    return t


def ids(rows: drillcore.Rows) -> list[int]:
    return rows.arrow().column("id").to_pylist()


def test_a_seed_repeats_all_batches_and_they_differ_from_each_other(database: drillcore.Database) -> None:
    t = table(database)
    with t.stream(100, seed=7) as one, t.stream(100, seed=7) as two, t.stream(100, seed=8) as other:
        first = [ids(next(one)) for _ in range(10)]
        assert first == [ids(next(two)) for _ in range(10)]
        assert len(set(map(tuple, first))) == 10
        assert ids(next(other)) != first[0]
    with t.stream(100) as random, t.stream(100) as another:
        assert random.seed != another.seed
        assert ids(next(random)) != ids(next(another))


def test_a_stream_goes_on_where_another_stopped(database: drillcore.Database) -> None:
    table(database)
    with database.snapshot("training") as snapshot:
        t = snapshot.table("flights")
        with t.stream(50, seed=1) as whole:
            batches = [ids(next(whole)) for _ in range(8)]
        with t.stream(50, seed=1) as begun:
            assert [ids(next(begun)) for _ in range(3)] == batches[:3]
            # Those drawn ahead do not count.
            position, seed = begun.position, begun.seed
        assert position == 3
        with t.stream(50, seed=seed, first=position) as rest:
            assert [ids(next(rest)) for _ in range(5)] == batches[3:]


def test_batches_are_what_was_asked_for(database: drillcore.Database) -> None:
    t = table(database)
    with t.stream(20, set="UA", where="id < 400", between=(100, None), columns=["id"]) as batches:
        for rows in itertools.islice(batches, 20):
            assert rows.schema.names == ["id"]
            assert len(set(ids(rows))) == 20
            assert all(i % 4 == 0 and 100 <= i < 400 for i in ids(rows))
    with t.stream(2_000, weight="weight", replace=True, with_probability=True) as batches:
        rows = next(batches).arrow()
        assert all(i % 2 == 1 for i in rows.column("id").to_pylist())
        assert set(rows.column("probability").to_pylist()) == {1 / 500}


def test_every_row_is_as_likely_in_each_batch(database: drillcore.Database) -> None:
    """H0: each batch of 10 of 100 rows has each row with probability 0.1. False alarm: below 1e-6 for each row."""
    t = table(database, 100)
    with t.stream(10, seed=5, refresh=None) as batches:
        tally = Counter(i for rows in itertools.islice(batches, 2_000) for i in ids(rows))
    # Binomial(2000, 0.1) has mean 200 and standard deviation 13.4.
    assert len(tally) == 100
    assert all(abs(count - 200) < 6 * 13.5 for count in tally.values()), tally


def test_new_rows_come_in_as_often_as_asked(database: drillcore.Database) -> None:
    t = table(database, 10)
    with (
        t.stream(5, ahead=1) as live,
        t.stream(5, refresh=None, ahead=1) as old,
        t.stream(5, refresh=10, ahead=1) as tens,
        t.stream(5, refresh=dt.timedelta(days=1), ahead=1) as daily,
        t.stream(5, refresh=dt.timedelta(0), ahead=1) as at_once,
    ):
        streams = (live, old, tens, daily, at_once)
        for stream in streams:
            next(stream)
        t.append([{"id": i, "carrier": "UA", "weight": 1.0} for i in range(10, 100_000)])
        # One batch may wait and one may be under way; then the new rows come.
        newest = [[max(ids(next(stream))) for _ in range(8)] for stream in streams]
        assert max(newest[0][2:]) >= 10
        assert max(newest[1]) < 10
        assert max(newest[2]) < 10
        assert max(newest[3]) < 10
        assert max(newest[4][2:]) >= 10
        assert max(max(ids(next(tens))) for _ in range(10)) >= 10


def test_a_reader_beside_the_writer_sees_new_rows(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = table(db, 10)
        with (
            drillcore.open(tmp_path / "db", read_only=True) as reader,
            reader.table("flights").stream(5, ahead=1) as batches,
        ):
            next(batches)
            t.append([{"id": i, "carrier": "UA", "weight": 1.0} for i in range(10, 100_000)])
            assert max(max(ids(next(batches))) for _ in range(8)) >= 10


def test_several_threads_share_a_stream(database: drillcore.Database) -> None:
    t = table(database)
    taken: list[tuple[int, ...]] = []
    with t.stream(50, seed=3) as batches:

        def take() -> None:
            for _ in range(25):
                taken.append(tuple(ids(next(batches))))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert batches.position == 100
    with t.stream(50, seed=3) as again:
        assert set(taken) == {tuple(ids(next(again))) for _ in range(100)}


def test_batches_do_not_depend_on_the_threads_that_draw(database: drillcore.Database) -> None:
    t = table(database)
    with t.stream(50, seed=3) as one, t.stream(50, seed=3, threads=4) as several:
        assert [ids(next(one)) for _ in range(40)] == [ids(next(several)) for _ in range(40)]


def test_too_few_rows_are_an_error_of_next_and_stay_one(database: drillcore.Database) -> None:
    t = table(database, 10)
    with t.stream(11) as batches:
        for _ in range(2):
            with pytest.raises(drillcore.TooFewRowsError, match="replace=True or a smaller batch_size"):
                next(batches)
    with t.stream(11, replace=True) as batches:
        assert len(next(batches)) == 11


@pytest.mark.parametrize(
    "options",
    [{}, {"replace": True}, {"replace": True, "weight": "weight"}, {"where": "id < 0"}, {"set": "none"}],
    ids=str,
)
def test_a_stream_of_nothing_advises_what_can_help(database: drillcore.Database, options: dict[str, Any]) -> None:
    """Neither replacement nor smaller batches draw rows that are not there, and a stream cannot give fewer."""
    t = table(database, 0 if not {"where", "set"} & options.keys() else 100)
    with t.stream(3, **options) as batches, pytest.raises(drillcore.TooFewRowsError) as raised:
        next(batches)
    assert str(raised.value).endswith("append rows, or select others, before the stream begins")
    assert not [other for other in ("replace", "fewer", "smaller", "check") if other in str(raised.value)]


def test_a_closed_stream_gives_nothing_and_leaves_no_thread(database: drillcore.Database) -> None:
    t = table(database)

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("drillcore-stream")]

    batches = t.stream(10)
    next(batches)
    assert threads()
    batches.close()
    batches.close()
    assert not threads()
    with pytest.raises(drillcore.ClosedError, match="the stream is closed"):
        next(batches)
    forgotten = t.stream(10)
    del forgotten
    until = time.monotonic() + 10
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert not threads()


@pytest.mark.parametrize("is_started", [True, False])
def test_a_stream_whose_making_was_interrupted_holds_no_snapshot(
    database: drillcore.Database, monkeypatch: pytest.MonkeyPatch, is_started: bool
) -> None:
    t = table(database)
    start = threading.Thread.start
    kept: list[threading.Thread] = []

    def interrupted_start(thread: threading.Thread) -> None:
        if thread.name == "drillcore-stream":
            # As Python does.
            kept.append(thread)
            if is_started:
                start(thread)
            raise KeyboardInterrupt
        start(thread)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading.Thread, "start", interrupted_start)
        t.stream(10, refresh=None)
    t.append([{"id": 1_000_000, "carrier": "UA", "weight": 1.0}])
    until = time.monotonic() + 20
    while database.stats()["oldest_snapshot_lsn"] is not None:
        assert time.monotonic() < until, "a snapshot is held"
        gc.collect()
        time.sleep(0.01)
    assert len(kept) == 1


def test_a_fork_is_told_apart(database: drillcore.Database) -> None:
    with table(database).stream(10) as batches:
        next(batches)
        if (pid := os.fork()) == 0:
            try:
                next(batches)
            except drillcore.UnsupportedError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 0}, "batch_size: expected a number of at least 1"),
        ({"batch_size": 1.5}, "batch_size: expected a whole number"),
        ({"refresh": 0}, "refresh: expected at least 1 batch"),
        ({"refresh": "1s"}, "refresh: expected a number of batches, a datetime.timedelta, or None"),
        ({"refresh": dt.timedelta(seconds=-1)}, "refresh: expected a time of at least 0"),
        ({"ahead": 0}, "ahead: expected a number from 1"),
        ({"threads": 0}, "threads: expected a number from 1"),
        ({"first": -1}, "first: expected a number of at least 0"),
        ({"columns": "id"}, "columns: expected a list"),
        ({"set": 5}, "5 is not a string"),
    ],
)
def test_arguments_are_checked(database: drillcore.Database, options: dict[str, Any], says: str) -> None:
    with pytest.raises(drillcore.Error, match=says):
        table(database).stream(**{"batch_size": 10, **options})


def test_a_condition_that_is_wrong_is_an_error_of_next(database: drillcore.Database) -> None:
    with table(database).stream(10, where="nmae = 1") as batches, pytest.raises(drillcore.NotFoundError):
        next(batches)


def test_seeds_of_batches_differ() -> None:
    seeds = {batch_seed(seed, worker, number) for seed in range(10) for worker in range(10) for number in range(10)}
    assert len(seeds) == 1_000


def test_a_program_may_end_while_a_batch_is_drawn(tmp_path: Path) -> None:
    """The interpreter ended under a thread that was in the engine, which then panicked."""
    program = f"""
        import builtins, drillcore
        db = drillcore.open({str(tmp_path / "db")!r})
        t = db.create_table("t", {{"id": "int64"}}, key="id", merge="upsert", exist_ok=True)
        for _ in range(4):
            t.append([{{"id": i}} for i in range(40_000)])
        builtins.kept = t.stream(20_000)
        next(builtins.kept)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
