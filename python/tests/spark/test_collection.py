"""Frames of Spark written as collections: all of a job or nothing, and nothing left over."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import drillcore
from drillcore.spark.collection import (
    JOBS,
    Job,
    Manifests,
    Member,
    Shape,
    begin_job,
    check_folder,
    commit_job,
    read_collection,
    remove_duplicates,
    sweep,
)
from drillcore.spark.driver import driver
from drillcore.spark.writer import CollectionWriter

SHAPE = Shape("t", pa.schema({"id": pa.int64(), "x": pa.float64()}), ["id"], None, "append", [])


def test_of_two_commits_at_once_one_comes_after_the_other(tmp_path: Path) -> None:
    jobs = [f"job-{i}" for i in range(16)]
    start = threading.Barrier(len(jobs))

    def commit(job: str) -> None:
        start.wait()
        commit_job(str(tmp_path), SHAPE, job, [Member(f"jobs/{job}/a", 1)])

    threads = [threading.Thread(target=commit, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    collection = read_collection(str(tmp_path))
    assert collection is not None and collection.version == 16
    assert sorted(collection.jobs) == sorted(jobs)
    assert sorted(member.path for member in collection.members) == sorted(f"jobs/{job}/a" for job in jobs)
    # A reader has the newest manifests to choose from, and no draft is left.
    assert Manifests(str(tmp_path)).versions() == list(range(7, 17))
    assert all(name.startswith("manifest-") for name in os.listdir(tmp_path))


def test_a_version_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    manifests = Manifests(str(tmp_path))
    assert manifests.create(1, "first") and not manifests.create(1, "second")
    assert manifests.read(1) == "first"
    # The twin that renames would have won twice.
    (tmp_path / "draft").write_text("second")
    (tmp_path / "draft").rename(manifests._path(1))
    assert manifests.read(1) == "second"


def test_a_job_that_is_committed_twice_counts_once(tmp_path: Path) -> None:
    members = [Member("jobs/a/part", 3)]
    commit_job(str(tmp_path), SHAPE, "a", members)
    assert commit_job(str(tmp_path), SHAPE, "a", members).members == members


def test_a_collection_of_another_shape_is_refused(tmp_path: Path) -> None:
    commit_job(str(tmp_path), SHAPE, "a", [])
    other = Shape("t", pa.schema({"id": pa.int64(), "x": pa.string()}), ["id"], None, "append", [])
    with pytest.raises(drillcore.AlreadyExistsError, match='"x" has type float64 in the collection and string in'):
        commit_job(str(tmp_path), other, "b", [])
    assert read_collection(str(tmp_path)).jobs == ["a"]  # type: ignore[union-attr]


def test_a_damaged_manifest_and_one_of_a_later_version_are_errors(tmp_path: Path) -> None:
    manifests = Manifests(str(tmp_path))
    manifests.create(1, "{")
    with pytest.raises(drillcore.CorruptError, match="manifest of version 1 is damaged"):
        read_collection(str(tmp_path))
    manifests.create(2, '{"format": 9}')
    with pytest.raises(drillcore.UnsupportedError, match="format 9, and this version of drillcore reads 1"):
        read_collection(str(tmp_path))


def test_duplicates_go_and_what_counts_stays(tmp_path: Path) -> None:
    for name in ("jobs/a/one", "jobs/a/two", "jobs/running/one"):
        (tmp_path / name).mkdir(parents=True)
    collection = commit_job(str(tmp_path), SHAPE, "a", [Member("jobs/a/one", 1)])
    remove_duplicates(str(tmp_path), collection, ["a"])
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("jobs/*/*")) == [
        "jobs/a/one",
        "jobs/running/one",
    ]


ROWS = pa.record_batch({"id": [1, 2], "x": [0.5, 1.5]})


def begun(folder: str, monkeypatch: pytest.MonkeyPatch) -> CollectionWriter:
    """A writer as Spark's planning has it, whose job this process holds."""
    for name, value in driver().environment().items():
        monkeypatch.setenv(name, value)
    folder, job = driver().begin(folder)
    return CollectionWriter(folder, SHAPE, job)


def test_an_attempt_that_ends_after_its_job_removes_itself_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "collection")
    committed = begun(folder, monkeypatch)
    first, second = committed.write(iter([ROWS])), committed.write(iter([ROWS]))
    committed.commit([first])
    assert databases(folder) == counted(folder) == {first.member.path} != {second.member.path}  # type: ignore[union-attr]

    def ending(end: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        yield ROWS
        end()
        yield ROWS

    aborted = begun(folder, monkeypatch)
    for writer, end in ((committed, lambda: None), (aborted, lambda: aborted.abort([]))):
        with pytest.raises((drillcore.ClosedError, drillcore.StorageError, OSError)):
            writer.write(ending(end))
        assert databases(folder) == counted(folder) == {first.member.path}  # type: ignore[union-attr]
    # An abort after the step that counts removes nothing: Spark aborts a job whose commit failed.
    committed.abort([first])
    assert len(rows_of(folder)) == 2
    with pytest.raises(drillcore.ClosedError, match="committed or aborted before"):
        committed.commit([first])


def test_a_sweep_removes_what_a_driver_left_and_nothing_of_jobs_that_run(tmp_path: Path) -> None:
    folder = str(tmp_path)
    commit_job(folder, SHAPE, "other", [])
    written: dict[str, Member] = {}

    def write() -> Job:
        job = begin_job(folder)
        member = CollectionWriter(folder, SHAPE, job.name).write(iter([ROWS])).member
        assert member is not None
        written[job.name] = member
        return job

    left, running, committed = write(), write(), write()
    left.close()  # as the end of its process does
    committed.commit(SHAPE, [written[committed.name]])
    (tmp_path / ".draft-left").touch()
    sweep(folder)
    assert databases(folder) == {written[each.name].path for each in (running, committed)}
    assert not (tmp_path / ".draft-left").exists() and not (tmp_path / "jobs" / left.name).exists()
    running.commit(SHAPE, [written[running.name]])
    sweep(folder)
    assert len(rows_of(folder)) == 4 and databases(folder) == counted(folder)


def test_sweeps_beside_jobs_leave_all_that_is_committed(tmp_path: Path) -> None:
    """Of the steps of a job, a sweep may come between any two."""
    folder = str(tmp_path / "collection")
    done, failures = threading.Event(), []

    def sweeping() -> None:
        while not done.is_set():
            sweep(folder)

    def writing() -> None:
        try:
            for _ in range(15):
                job = begin_job(folder)
                member = Member(f"jobs/{job.name}/part.drill", 0)
                os.mkdir(os.path.join(folder, member.path))
                job.commit(SHAPE, [member])
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=writing) for _ in range(3)]
    sweepers = [threading.Thread(target=sweeping) for _ in range(2)]
    for thread in [*writers, *sweepers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in sweepers:
        thread.join()
    assert failures == []
    assert len(counted(folder)) == 45 and databases(folder) == counted(folder)


KILLED = """
import os, signal, sys
import pyarrow as pa
from drillcore.spark import collection
from drillcore.spark.writer import CollectionWriter

shape = collection.Shape("t", pa.schema({"id": pa.int64(), "x": pa.float64()}), ["id"], None, "append", [])

def write(folder, at):
    calls = 0

    def killing(called):
        def step(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return called(*arguments, **named)
        return step

    job = collection.begin_job(folder)
    writer = CollectionWriter(folder, shape, job.name)
    members = [writer.write(iter([pa.record_batch({"id": [i], "x": [0.5]})])).member for i in range(3)]
    for name in ("open", "link", "unlink", "fsync", "listdir", "rmdir"):
        setattr(os, name, killing(getattr(os, name)))
    job.commit(shape, members[:2])

for at in range(1, 50):
    folder = os.path.join(sys.argv[1], str(at))
    os.makedirs(folder)
    collection.commit_job(folder, shape, "before", [])
    child = os.fork()
    if not child:
        write(folder, at)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status))
    if status == 0:
        break
"""


def test_a_driver_that_is_killed_in_its_commit_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    """It is killed at every call of the operating system that a commit makes, until one goes through."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True)
    signals = ended.stdout.split()
    assert signals == ["9"] * (len(signals) - 1) + ["0"] and len(signals) > 8, ended.stderr
    found = []
    for at in range(1, len(signals) + 1):
        folder = str(tmp_path / str(at))
        rows = rows_of(folder)
        found.append(len(rows))
        sweep(folder)
        assert databases(folder) == counted(folder) and rows_of(folder) == rows
        assert not [name for name in os.listdir(folder) if name.startswith(".draft")]
    # Nothing of it up to some step, and all of it from there on.
    assert set(found) == {0, 2} and found == sorted(found)


def test_only_a_missing_or_empty_folder_becomes_a_collection(tmp_path: Path) -> None:
    check_folder(str(tmp_path / "missing"))
    check_folder(str(tmp_path))
    with drillcore.open(tmp_path / "db") as db:
        db.create_table("t", {"id": "int64"}, key="id")
    with pytest.raises(drillcore.InvalidArgumentError, match="is a database and is not a collection"):
        check_folder(str(tmp_path / "db"))
    with pytest.raises(drillcore.InvalidArgumentError, match=r'lies in the database ".*db"'):
        check_folder(str(tmp_path / "db" / "deeper" / "folder"))
    with pytest.raises(drillcore.InvalidArgumentError, match="has db and is not a collection"):
        check_folder(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(drillcore.InvalidArgumentError, match="is a file"):
        check_folder(str(tmp_path / "file"))


def test_no_collection_lies_in_another(tmp_path: Path) -> None:
    """A sweep of the outer one removed all of it, as what a job had left."""
    outer = tmp_path / "outer"
    outer.mkdir()
    job = begin_job(str(outer))
    inner = [str(outer / "inner"), str(outer / JOBS / "inner"), str(outer / JOBS / job.name / "deep" / "inner")]
    for committed in (False, True):
        for each in inner:
            with pytest.raises(
                drillcore.InvalidArgumentError, match=r'lies in the collection ".*outer"; give a directory'
            ):
                check_folder(each)
        if not committed:
            job.commit(SHAPE, [])
    check_folder(str(tmp_path / "beside"))
    # Nor does one come to be around another, which is not swept either.
    around = tmp_path / "around"
    (around / JOBS / "inner").mkdir(parents=True)
    commit_job(str(around / JOBS / "inner"), SHAPE, "a", [])
    with pytest.raises(drillcore.InvalidArgumentError, match=r"has jobs/inner and is not a collection"):
        check_folder(str(around))
    sweep(str(around))
    assert read_collection(str(around / JOBS / "inner")) is not None


def rows_of(folder: str) -> list[dict[str, Any]]:
    """All rows of a collection, read without Spark."""
    collection = read_collection(folder)
    assert collection is not None
    rows = []
    for member in collection.members:
        with drillcore.open(os.path.join(folder, member.path), read_only=True) as db:
            found = db.table(collection.shape.table).scan().arrow().to_pylist()
            assert len(found) == member.rows
            rows += found
    return rows


def databases(folder: str) -> set[str]:
    """All databases that lie in the folder, whether they count or not."""
    return {str(path.relative_to(folder)) for path in Path(folder).glob("jobs/*/*.drill")}


def wait_for(condition: Callable[[], bool]) -> None:
    """Attempts of a job that failed end by themselves, some time after it."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def counted(folder: str) -> set[str]:
    collection = read_collection(folder)
    return set() if collection is None else {member.path for member in collection.members}


def writing(frame: Any, folder: str) -> Any:
    return frame.write.format("drillcore").mode("append").option("path", folder)


def test_a_frame_becomes_a_collection_and_grows(spark: Any, folder: str) -> None:
    frame = spark.range(1_000, numPartitions=3).selectExpr("id", "cast(id as double) / 2 x", "'UA' carrier")
    options = {"table": "t", "key": "id", "set": "carrier", "weights": "x"}
    writing(frame, folder).options(**options).save()
    rows = rows_of(folder)
    assert sorted(row["id"] for row in rows) == list(range(1_000))
    assert all(row["x"] == row["id"] / 2 and row["carrier"] == "UA" for row in rows)
    assert len(databases(folder)) == 3
    # Columns may stand in another order, and the shape need not be given again.
    writing(frame.selectExpr("carrier", "x", "id + 1000 id"), folder).save()
    assert sorted(row["id"] for row in rows_of(folder)) == list(range(2_000))
    assert databases(folder) == counted(folder)
    first = sorted(counted(folder))[0]
    with drillcore.open(os.path.join(folder, first), read_only=True) as db:
        assert (db.table("t").key, db.table("t").weights, db.table("t")._set_column) == (["id"], ["x"], "carrier")


def test_empty_parts_make_no_database_and_an_empty_frame_a_collection(spark: Any, folder: str) -> None:
    writing(spark.range(0), folder).options(table="t", key="id").save()
    collection = read_collection(folder)
    assert collection is not None and collection.members == [] and collection.shape.schema.names == ["id"]
    # It reads as a table without rows, alone and beside a database.
    empty = spark.read.format("drillcore").options(path=folder, table="t", between="[1, 2]").load()
    assert empty.columns == ["id"] and empty.collect() == []
    writing(spark.range(5, numPartitions=1).repartition(4), folder).save()
    assert len(rows_of(folder)) == 5


def test_an_attempt_that_failed_leaves_nothing_and_a_job_that_failed_neither(
    spark: Any, folder: str, tmp_path: Path
) -> None:
    mark = str(tmp_path / "failed-once")

    def fail(batches: Any, always: bool) -> Any:
        import pyspark

        for batch in batches:
            yield batch
            if pyspark.TaskContext.get().partitionId() == 1 and (always or not os.path.exists(mark)):
                Path(mark).touch()
                raise RuntimeError("this attempt fails")

    frame = spark.range(400, numPartitions=2)
    with pytest.raises(Exception, match="this attempt fails"):
        failing = frame.mapInArrow(lambda batches: fail(batches, True), frame.schema)
        writing(failing, folder).options(table="t", key="id").save()
    # The folder is as it was before: not there.
    wait_for(lambda: not os.path.exists(folder))
    os.remove(mark)
    retried = frame.mapInArrow(lambda batches: fail(batches, False), frame.schema)
    writing(retried, folder).options(table="t", key="id").save()
    assert os.path.exists(mark)
    assert sorted(row["id"] for row in rows_of(folder)) == list(range(400))
    assert databases(folder) == counted(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "InvalidArgumentError: table is missing: a new collection needs"),
        ({"table": "t"}, "InvalidArgumentError: key is missing"),
        ({"table": "t", "keys": "id"}, 'InvalidArgumentError: unknown option "keys"; did you mean "key"'),
        ({"table": "t", "key": "di"}, "NotFoundError: .*di"),
        ({"table": "t", "key": "id", "merge": "rollup"}, "merge: expected one of 'append', 'upsert', not 'rollup'"),
        ({"table": "t", "key": "id", "weights": "name"}, "Error: .*name"),
    ],
)
def test_a_bad_write_is_refused_before_a_task_runs(
    spark: Any, folder: str, options: dict[str, str], message: str
) -> None:
    frame = spark.range(5).selectExpr("id", "'a' name")
    with pytest.raises(Exception, match=message) as raised:
        writing(frame, folder).options(**options).save()
    # Our message comes before any line of code.
    assert "Traceback" not in str(raised.value)
    assert not os.path.exists(folder)


def test_a_frame_that_does_not_fit_changes_nothing(spark: Any, folder: str) -> None:
    writing(spark.range(5), folder).options(table="t", key="id").save()
    before = counted(folder)
    for frame, message in [
        (spark.range(5).selectExpr("id", "1 x"), 'column "x" is in the frame and not in the collection'),
        (spark.range(5).selectExpr("cast(id as string) id"), '"id" has type int64 in the collection and string in'),
        (spark.range(5).selectExpr("map(1, 2) id"), "has type map<int,int>, which a table cannot have; cast it"),
    ]:
        with pytest.raises(Exception, match=message):
            writing(frame, folder).save()
    nulls = spark.range(5).selectExpr("nullif(id, 3) id")
    with pytest.raises(Exception, match=r"column .id. has nulls, and the table allows none") as raised:
        writing(nulls, folder).save()
    assert "Traceback" not in str(raised.value)
    with pytest.raises(Exception, match="key is \\['id'\\] in the collection and \\['x'\\] here"):
        writing(spark.range(5), folder).option("key", "x").save()
    with pytest.raises(Exception, match='only mode\\("append"\\) is supported'):
        writing(spark.range(5), folder).mode("overwrite").save()
    assert counted(folder) == before == databases(folder)


def test_a_frame_takes_the_types_of_the_collection(spark: Any, folder: str) -> None:
    """Spark has no bytes without a sign, and no seconds: what it has instead is written where it fits."""
    schema = pa.schema({"id": pa.int64(), "small": pa.uint8(), "at": pa.timestamp("s")})
    shape = Shape("t", schema, ["id"], None, "append", [])
    os.makedirs(folder)
    commit_job(folder, shape, "first", [])
    frame = spark.range(2).selectExpr("id", "cast(id + 254 as smallint) small", "timestamp_ntz '1960-01-01' at")
    writing(frame, folder).save()
    assert [row["small"] for row in rows_of(folder)] == [254, 255]
    for wrong, message in [
        ("cast(id + 255 as smallint) small", 'OutOfRangeError: column "small" has a value that uint8 cannot hold'),
        ("cast(id as int) small", 'column "small" has type uint8 in the collection and int32 in the frame'),
    ]:
        with pytest.raises(Exception, match=message):
            writing(frame.selectExpr("id", wrong, "at"), folder).save()
    assert len(rows_of(folder)) == 2 and databases(folder) == counted(folder)


def test_a_folder_that_is_no_collection_is_refused(spark: Any, tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        db.create_table("t", {"id": "int64"}, key="id")
    before = sorted(os.listdir(tmp_path / "db"))
    with pytest.raises(Exception, match=r"InvalidArgumentError: path: .* is a database and is not a collection"):
        writing(spark.range(5), str(tmp_path / "db")).options(table="t", key="id").save()
    assert sorted(os.listdir(tmp_path / "db")) == before
