"""Readers at a moment, and the splits that other processes read there."""

from __future__ import annotations

import datetime as dt
import gc
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drillcore
from drillcore import Database, Moment, Split

ROWS = 5_000

WRITER = """
import sys
import drillcore

with drillcore.open(sys.argv[1], memory_bytes=1 << 20) as db:
    t = db.create_table("t", {"id": "int64", "n": "int64"}, key="id", exist_ok=True)
    for n in range(1_000_000):
        t.append([{"id": id, "n": n} for id in range(100)])
        print(n, flush=True)
        if n % 20 == 19:
            db.compact()
"""


def rows_of(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array([i * 7919 % 100_003 for i in ids], pa.int64()),
            "team": pa.array([f"t{i % 5}" if i % 11 else None for i in ids]),
            "size": pa.array([i % 7 for i in ids], pa.int64()),
            "share": pa.array([i % 3 / 4 for i in ids], pa.float64()),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "test.drill"


@pytest.fixture
def writer(folder: Path) -> Iterator[Database]:
    with drillcore.open(folder) as db:
        rows = rows_of(0, ROWS)
        for merge in ("append", "upsert"):
            t = db.create_table(merge, rows.schema, key="id", set="team", merge=merge, weights=["size", "share"])
            t.append(rows)
        rollup = {"dimensions": ["team", "size"], "metrics": {"n": "count", "total": "sum(share)"}}
        db.create_table("rollup", rows.schema, key="team", merge="rollup", rollup=rollup, set="team").append(rows)
        yield db


def change(db: Database, n: int) -> None:
    """Rows, newer rows of old keys, a delete, a flush and merges."""
    more = rows_of(n * 100, n * 100 + 3_000)
    db.append({"append": more, "upsert": more, "rollup": more})
    db.table("append").delete(between=(n * 1_000, n * 1_000 + 500))
    db.flush() if n % 2 else db.compact()


def leases(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.name.startswith("lease-")]


def in_another_process(split: Split, seed: int) -> dict[str, Any]:
    """What a process that has only a pickled split finds out about it."""
    with split:
        return {
            "process": os.getpid(),
            "rows": split.rows,
            "events": split.events,
            "scan": split.scan().arrow(),
            "drawn": split.sample(5, seed=seed, at_most=True).arrow(),
            "some": split.scan(columns=["team"], limit=2).arrow(),
        }


def test_another_process_reads_a_pickled_split_at_its_moment(folder: Path, writer: Database) -> None:
    change(writer, 1)
    with drillcore.open(folder, read_only=True) as reader:
        moment = reader.moment
        selections: list[dict[str, Any]] = [
            {},
            {"between": (1_000, 50_000), "closed": "left"},
            {"set": ["t1", "t2", drillcore.NULL]},
            {"where": "share > 0.3"},
            {"between": (None, 80_000), "set": "t3", "where": "size in (1, 2, 3)"},
        ]
        jobs: list[tuple[Split, int]] = []
        wholes: list[tuple[int, pa.Table]] = []
        for table in ("append", "upsert"):
            for selection in selections:
                splits = reader.splits(table, 4, **selection)
                assert 2 <= len(splits) <= 4
                assert all(split.moment == moment and split.table == table for split in splits)
                whole = reader.table(table).scan(**selection).arrow()
                assert pa.concat_tables([split.scan().arrow() for split in splits]).equals(whole)
                wholes.append((len(splits), whole))
                jobs += [(split, number) for number, split in enumerate(splits)]
        for n in range(2, 6):
            change(writer, n)
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.starmap(in_another_process, jobs)
    assert os.getpid() not in {each["process"] for each in found}
    of_splits = iter(zip(jobs, found, strict=True))
    for count, whole in wholes:
        mine = [next(of_splits) for _ in range(count)]
        assert pa.concat_tables([each["scan"] for _, each in mine]).equals(whole)
        for (split, seed), each in mine:
            assert each["rows"] == each["events"] == len(each["scan"]) == split.rows == split.count()
            assert each["drawn"].equals(split.sample(5, seed=seed, at_most=True).arrow()), "one seed, one sample"
            assert each["some"].equals(each["scan"].select(["team"]).slice(0, 2))


def test_splits_of_a_rollup_table_say_rows_and_events(folder: Path, writer: Database) -> None:
    with drillcore.open(folder, read_only=True) as reader:
        splits = reader.splits("rollup", 3)
        table = reader.table("rollup")
        assert sum(split.rows for split in splits) == len(table) < ROWS
        assert sum(split.events for split in splits) == table.count(unit="events") == ROWS
        assert sum(split.count(unit="events") for split in reader.splits("rollup", 3, where="total > 20")) > 0
        assert len(splits[0].sample(20, seed=1)) == 20
        with pytest.raises(drillcore.InvalidArgumentError, match="a rollup table has no weight columns"):
            splits[0].weight("n")


def test_weights_of_splits_are_exact(folder: Path, writer: Database) -> None:
    with drillcore.open(folder, read_only=True) as reader:
        for table in ("append", "upsert"):
            for selection in ({}, {"set": "t1"}, {"where": "size > 3"}):
                splits = reader.splits(table, 5, **selection)
                whole = reader.table(table).scan(**selection).arrow()
                weights = [split.weight("size") for split in splits]
                assert all(isinstance(weight, int) for weight in weights)
                assert sum(weights) == sum(whole["size"].to_pylist())
                shares = sum(Fraction(share) for share in whole["share"].to_pylist())
                assert sum(split.weight("share") for split in splits) == shares
        with pytest.raises(drillcore.NotFoundError, match='did you mean "size"'):
            splits[0].weight("sizes")


def test_a_moment_is_a_small_value(folder: Path, writer: Database) -> None:
    with drillcore.open(folder, read_only=True) as reader:
        moment = reader.moment
        assert tuple(moment) == (moment.version, moment.lsn)
        for copy in (pickle.loads(pickle.dumps(moment)), Moment.from_json(moment.to_json())):
            assert copy == moment
            assert {copy: 1}[moment] == 1
        parts = json.loads(moment.to_json())
        assert len(parts.pop("database")) == 32
        assert parts == {"version": moment.version, "lsn": moment.lsn}
        with pytest.raises(AttributeError):
            moment.lsn = 1  # type: ignore[misc]
        for at in (moment, tuple(moment), list(moment)):
            with drillcore.open(folder, read_only=True, at=at) as other:
                assert other.moment == moment
    for text in (
        "",
        "7",
        "{}",
        '{"version": 1}',
        '{"version": -1, "lsn": 2}',
        '{"version": 1, "lsn": 2, "x": 3}',
        '{"version": 1, "lsn": 2, "database": "7"}',
        None,
    ):
        with pytest.raises(drillcore.InvalidArgumentError, match="to_json"):
            Moment.from_json(text)  # type: ignore[arg-type]


def test_the_moment_of_a_table_whose_rows_expire_has_the_time_of_day(folder: Path, writer: Database) -> None:
    t = writer.create_table("t", {"at": "timestamp[s, UTC]"}, key="at", ttl=("at", "1h"))
    now = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)
    t.append([{"at": now - dt.timedelta(minutes=minutes)} for minutes in range(0, 120, 10)])
    with drillcore.open(folder, read_only=True) as reader:
        moment = reader.moment
        assert abs(json.loads(moment.to_json())["clock"] - now.timestamp()) < 60
        splits = pickle.loads(pickle.dumps(reader.splits("t", 2)))
        assert sum(split.rows for split in splits) == 6
        with drillcore.open(folder, read_only=True, at=Moment.from_json(moment.to_json())) as other:
            assert other.moment == moment
            assert len(other.table("t")) == 6


def test_another_database_in_the_same_directory_has_other_moments(tmp_path: Path) -> None:
    def made(rows: int) -> Database:
        db = drillcore.open(tmp_path / "db")
        db.create_table("t", {"id": "int64"}, key="id").append([{"id": i} for i in range(rows)])
        return db

    with made(100), drillcore.open(tmp_path / "db", read_only=True) as reader:
        moment, splits = reader.moment, reader.splits("t", 2)
        sent = pickle.dumps(splits[0])
        assert sum(split.rows for split in splits) == 100
    shutil.rmtree(tmp_path / "db")
    with made(1_000), drillcore.open(tmp_path / "db", read_only=True) as reader:
        assert tuple(reader.moment) == tuple(moment)
        assert reader.moment != moment
        assert sum(split.rows for split in reader.splits("t", 2)) == 1_000
        with pytest.raises(drillcore.MomentGoneError, match="another database"):
            drillcore.open(tmp_path / "db", read_only=True, at=moment)
        # The splits that were not sent hold a reader of their own, as of files that are gone.
        del splits
        gc.collect()
        with pytest.raises(drillcore.MomentGoneError, match="another database"):
            pickle.loads(sent).scan()


def test_a_named_snapshot_is_opened_by_its_name(folder: Path, writer: Database) -> None:
    kept = writer.snapshot("training").table("append").scan().arrow()
    change(writer, 1)
    with drillcore.open(folder, read_only=True, at="training") as reader:
        assert reader.table("append").scan().arrow().equals(kept)
        moment = Moment.from_json(reader.moment.to_json())
        splits = pickle.loads(pickle.dumps(reader.splits("append", 3)))
        writer.drop_snapshot("training")
        writer.compact()
        assert pa.concat_tables([split.scan().arrow() for split in splits]).equals(kept)
        with drillcore.open(folder, read_only=True, at=moment) as other:
            assert other.table("append").scan().arrow().equals(kept)
    with pytest.raises(drillcore.NotFoundError, match='unknown snapshot "training"'):
        drillcore.open(folder, read_only=True, at="training")


def test_a_killed_writer_leaves_moments_whole(folder: Path) -> None:
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(30):
            next(process.stdout)
        reader = drillcore.open(folder, read_only=True)
        whole = reader.table("t").scan().arrow()
        splits = pickle.dumps(reader.splits("t", 3))
        for _ in range(30):
            next(process.stdout)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        gc.collect()
        read = [split.scan().arrow() for split in pickle.loads(splits)]
        assert pa.concat_tables(read).equals(whole)
        # The next writer begins another manifest.
        with drillcore.open(folder) as db:
            db.compact()
            moment = reader.moment
            with drillcore.open(folder, read_only=True, at=moment) as other:
                assert other.table("t").scan().arrow().equals(whole)
        reader.close()
        with pytest.raises(drillcore.MomentGoneError):
            drillcore.open(folder, read_only=True, at=moment)


def test_splits_hold_their_moment_until_the_last_of_them_goes(folder: Path, writer: Database) -> None:
    reader = drillcore.open(folder, read_only=True)
    splits = reader.splits("append", 3)
    sent = pickle.dumps(splits)
    whole = reader.table("append").scan().arrow()
    change(writer, 1)
    reader.refresh()
    assert reader.moment != splits[0].moment
    change(writer, 2)
    reader.close()
    received = pickle.loads(sent)
    assert pa.concat_tables([split.scan().arrow() for split in splits]).equals(whole)
    for split in splits:
        split.close()
    with pytest.raises(drillcore.ClosedError, match="the split is closed"):
        splits[0].scan()
    assert len(leases(folder)) == 0
    change(writer, 3)
    with pytest.raises(drillcore.MomentGoneError, match=r"no reader holds it\. Take a new moment"):
        received[0].scan()
    # Two at once share a reader, and the second goes on when the first is closed.
    with drillcore.open(folder, read_only=True) as reader:
        first, second = pickle.loads(pickle.dumps(reader.splits("append", 2)))
        gc.collect()
        assert len(first.scan().arrow()) > 0
        held = len(leases(folder))
        assert len(second.scan().arrow()) > 0
        assert len(leases(folder)) == held
    first.close()
    assert second.rows == len(second.scan().arrow())
    del second, split
    gc.collect()
    assert len(leases(folder)) == 0
    assert issubclass(drillcore.MomentGoneError, LookupError)


# Windows has no fork, so nothing can be shared with one there.
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_reader_that_ends_takes_no_lease_of_it(folder: Path, writer: Database) -> None:
    program = """
        import os, sys, drillcore
        reader = drillcore.open(sys.argv[1], read_only=True)
        splits = reader.splits("append", 2)
        before = sorted(os.listdir(sys.argv[1]))
        pid = os.fork()
        rows = sum(len(split.scan().arrow()) for split in splits)
        if pid == 0:
            del reader
            sys.exit(0 if rows == 5000 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert sorted(os.listdir(sys.argv[1])) == before, os.listdir(sys.argv[1])
        print(rows)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "5000\n", done.stderr


def test_a_split_can_be_read_by_a_given_reader(folder: Path, writer: Database) -> None:
    with drillcore.open(folder, read_only=True) as reader:
        split = pickle.loads(pickle.dumps(reader.splits("append", 2)[1]))
        gc.collect()
        with drillcore.open(folder, read_only=True, at=split.moment) as other:
            held = len(leases(folder))
            bound = other.bind(split)
            drawn = bound.sample(10, seed=3).arrow()
            assert bound.scan().arrow().equals(split.scan().arrow())
            assert len(leases(folder)) > held, "only the split has opened a reader"
        assert bound.sample(10, seed=3).arrow().equals(drawn), "also of a closed reader"
        assert split.sample(10, seed=3).arrow().equals(drawn)
        change(writer, 1)
        reader.refresh()
        with pytest.raises(drillcore.InvalidArgumentError, match=r"open one at split\.moment"):
            reader.bind(split)
        with pytest.raises(drillcore.InvalidTypeError, match=r"expected a drillcore\.Split"):
            reader.bind(7)  # type: ignore[arg-type]


def test_an_empty_selection_has_no_splits_and_few_rows_few(folder: Path, writer: Database) -> None:
    writer.create_table("empty", {"id": "int64"}, key="id")
    writer.create_table("same", {"id": "int64"}, key="id").append([{"id": 7}] * 100)
    writer.create_table("heavy", {"id": "int64"}, key="id").append([{"id": min(max(i, 50), 949)} for i in range(1_000)])
    with drillcore.open(folder, read_only=True) as reader:
        assert reader.splits("empty", 4) == []
        assert reader.splits("append", 4, between=(-5, -1)) == []
        assert reader.splits("append", 4, set="none") == []
        assert [split.rows for split in reader.splits("same", 4)] == [100]
        assert [split.rows for split in reader.splits("append", 1)] == [ROWS]
        assert [split.rows for split in reader.splits("append", 4, where="size > 100")] == [0, 0, 0, 0]
        assert [split.rows for split in reader.splits("append", 4)] == [1250, 1250, 1250, 1250]
        many = reader.splits("append", 100_000)
        assert [split.rows for split in many] == [1] * ROWS
        heavy = [split.rows for split in reader.splits("heavy", 10)]
        assert sum(heavy) == 1_000 and max(heavy) < 170


def test_nonsense_is_refused(folder: Path, writer: Database) -> None:
    def opened(at: Any, **options: Any) -> None:
        drillcore.open(folder, read_only=True, at=at, **options)

    for at in (7, (1,), (1, 2, 3), b"x", {"version": 1}, (1, "2"), (1, 2.5), (None, 1)):
        with pytest.raises(drillcore.InvalidTypeError, match="at: "):
            opened(at)
    for at in ((-1, 2), (1, -2), (2**64, 1), (0, 0), (2**40, 1)):
        with pytest.raises(drillcore.InvalidArgumentError):
            opened(at)
    with pytest.raises(drillcore.InvalidArgumentError, match="at: needs read_only=True"):
        drillcore.open(folder, at=(1, 1))
    with pytest.raises(drillcore.UnsupportedError, match="only readers have moments"):
        _ = writer.moment
    with drillcore.open(folder, read_only=True) as reader:
        version, lsn = reader.moment
        with pytest.raises(drillcore.MomentGoneError, match="the log ends at commit"):
            opened((version, lsn + 1))
        with pytest.raises(drillcore.NotFoundError, match='did you mean "append"'):
            reader.splits("appended", 2)
        with pytest.raises(drillcore.InvalidArgumentError, match="n: expected a number of at least 1"):
            reader.splits("append", 0)
        with pytest.raises(drillcore.InvalidArgumentError, match="n: expected a number of at least 0, not -1"):
            reader.splits("append", -1)
        with pytest.raises(drillcore.NotFoundError):
            reader.splits("append", 2, where="sizes > 1")
        split = reader.splits("append", 2)[0]
        with pytest.raises(drillcore.TooFewRowsError):
            split.sample(ROWS)
        with pytest.raises(drillcore.InvalidArgumentError, match="unit: expected"):
            split.count(unit="pages")
        with (
            drillcore.open(folder, read_only=True, at=split.moment) as fixed,
            pytest.raises(drillcore.UnsupportedError, match=r"opened at the moment of version .* cannot refresh"),
        ):
            fixed.refresh()
    before = pickle.dumps(split)
    writer.close()
    split.close()
    (folder / "LOCK").unlink()
    for file in folder.iterdir():
        file.unlink()
    with pytest.raises(drillcore.Error):
        pickle.loads(before).scan()
