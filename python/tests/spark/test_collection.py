"""Frames of Spark written as collections: all of a job or nothing, and nothing left over."""

from __future__ import annotations

import os
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
    with pytest.raises(drillcore.AlreadyExistsError, match='"x" has type double in the collection and string in'):
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
    remove_duplicates(str(tmp_path), collection)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("jobs/*/*")) == [
        "jobs/a/one",
        "jobs/running/one",
    ]


def test_an_attempt_that_ends_after_its_job_removes_itself_and_nothing_else(tmp_path: Path) -> None:
    folder = str(tmp_path / "collection")
    committed = CollectionWriter(folder, SHAPE)
    begin_job(folder, committed.job)
    rows = pa.record_batch({"id": [1, 2], "x": [0.5, 1.5]})
    first, second = committed.write(iter([rows])), committed.write(iter([rows]))
    committed.commit([first])
    assert databases(folder) == counted(folder) == {first.member.path} != {second.member.path}  # type: ignore[union-attr]

    def ending(writer: CollectionWriter, end: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        yield rows
        end()
        yield rows

    aborted = CollectionWriter(folder, SHAPE)
    begin_job(folder, aborted.job)
    for writer, end in ((committed, lambda: None), (aborted, lambda: aborted.abort([]))):
        with pytest.raises((drillcore.ClosedError, drillcore.StorageError, OSError)):
            writer.write(ending(writer, end))
        assert databases(folder) == counted(folder) == {first.member.path}  # type: ignore[union-attr]
    # An abort after the step that counts removes nothing: Spark aborts a job whose commit failed.
    committed.abort([first])
    assert len(rows_of(folder)) == 2


def test_what_a_driver_left_that_ended_is_swept(tmp_path: Path) -> None:
    folder = str(tmp_path)
    writer = CollectionWriter(folder, SHAPE)
    begin_job(folder, writer.job)
    writer.write(iter([pa.record_batch({"id": [1], "x": [0.5]})]))
    commit_job(folder, SHAPE, "other", [])
    assert len(databases(folder)) == 1
    sweep(folder)
    assert databases(folder) == set()


def test_only_a_missing_or_empty_folder_becomes_a_collection(tmp_path: Path) -> None:
    check_folder(str(tmp_path / "missing"))
    check_folder(str(tmp_path))
    with drillcore.open(tmp_path / "db") as db:
        db.create_table("t", {"id": "int64"}, key="id")
    with pytest.raises(drillcore.InvalidArgumentError, match="is a database, and is no collection"):
        check_folder(str(tmp_path / "db"))
    with pytest.raises(drillcore.InvalidArgumentError, match="has db, and is no collection"):
        check_folder(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(drillcore.InvalidArgumentError, match="is a file"):
        check_folder(str(tmp_path / "file"))


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
        ({"table": "t", "keys": "id"}, "InvalidArgumentError: unknown option 'keys'; did you mean 'key'"),
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
    with pytest.raises(Exception, match="key is \\['id'\\] in the collection and \\['x'\\] here"):
        writing(spark.range(5), folder).option("key", "x").save()
    with pytest.raises(Exception, match='only mode\\("append"\\) is supported'):
        writing(spark.range(5), folder).mode("overwrite").save()
    assert counted(folder) == before == databases(folder)


def test_a_folder_that_is_no_collection_is_refused(spark: Any, tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        db.create_table("t", {"id": "int64"}, key="id")
    before = sorted(os.listdir(tmp_path / "db"))
    with pytest.raises(Exception, match=r"InvalidArgumentError: path: .* is a database, and is no collection"):
        writing(spark.range(5), str(tmp_path / "db")).options(table="t", key="id").save()
    assert sorted(os.listdir(tmp_path / "db")) == before
