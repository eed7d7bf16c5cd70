"""Loads commit chunk by chunk, whatever the stream, and say how far they came."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

import drillcore
from drillcore.load import REJECTED_LISTED_MAX

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def batch(first: int, past_last: int) -> pa.RecordBatch:
    ids = range(first, past_last)
    return pa.record_batch({"id": list(ids), "name": [f"n{i % 7}" for i in ids]}, schema=SCHEMA)


def batches(rows: int, each: int) -> Iterator[pa.RecordBatch]:
    return (batch(first, min(first + each, rows)) for first in range(0, rows, each))


def whole(rows: int) -> pa.Table:
    return pa.Table.from_batches([batch(0, rows)])


@pytest.fixture
def table(database: drillcore.Database) -> drillcore.Table:
    return database.create_table("t", SCHEMA, key="id")


def relation(rows: int) -> Any:
    source = whole(rows)
    return duckdb.connect().from_arrow(source)


def written(folder: Path, rows: int) -> dataset.Dataset:
    parquet.write_table(whole(rows), folder / "rows.parquet", row_group_size=700)
    return dataset.dataset(folder / "rows.parquet")


STREAMS: dict[str, Callable[[Path], Any]] = {
    "a reader": lambda folder: pa.RecordBatchReader.from_batches(SCHEMA, batches(2500, 300)),
    "a table": lambda folder: whole(2500),
    "a batch": lambda folder: batch(0, 2500),
    "a dataset": lambda folder: written(folder, 2500),
    "a scanner": lambda folder: written(folder, 2500).scanner(batch_size=400),
    "an iterator of batches": lambda folder: batches(2500, 300),
    "a list of tables": lambda folder: [pa.Table.from_batches([each]) for each in batches(2500, 300)],
    "polars": lambda folder: polars.from_arrow(whole(2500)),
    "pandas": lambda folder: whole(2500).to_pandas(),
    "an iterator of pandas frames": lambda folder: (each.to_pandas() for each in batches(2500, 300)),
    "duckdb": lambda folder: relation(2500),
    "dicts": lambda folder: whole(2500).to_pylist(),
    "an iterator of lists of dicts": lambda folder: (each.to_pylist() for each in batches(2500, 300)),
    "codes": lambda folder: whole(2500).set_column(1, "name", whole(2500)["name"].dictionary_encode()),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_every_kind_of_stream_is_loaded_whole(table: drillcore.Table, tmp_path: Path, kind: str) -> None:
    seen: list[int] = []
    result = table.load(STREAMS[kind](tmp_path), commit_rows=1000, progress=seen.append)
    assert (result.rows, result.rejected, result.rejected_count) == (2500, [], 0)
    assert table.scan().arrow().equals(whole(2500))
    assert seen == sorted(seen) and seen[-1] == 2500 and len(seen) == result.commits >= 3


def test_chunks_are_as_asked_however_the_stream_is_cut(database: drillcore.Database, table: drillcore.Table) -> None:
    seen: list[int] = []
    first = table.append([{"id": -1}]).lsn
    result = table.load(batches(2500, 333), commit_rows=1000, progress=seen.append)
    assert (seen, result.commits, result.lsn) == ([1000, 2000, 2500], 3, first + 3)


def test_a_scan_of_one_table_is_loaded_into_another(database: drillcore.Database, table: drillcore.Table) -> None:
    table.load(whole(2500))
    other = database.create_table("other", SCHEMA, key="id")
    assert other.load(table.scan(between=(0, 99))).rows == 100


def test_a_load_of_nothing_is_no_error(table: drillcore.Table) -> None:
    nothing: Any
    for nothing in ([], iter([]), SCHEMA.empty_table(), pa.RecordBatchReader.from_batches(SCHEMA, [])):
        result = table.load(nothing)
        assert (result.rows, result.commits) == (0, 0)


def test_a_load_may_be_far_larger_than_the_memory_budget(tmp_path: Path) -> None:
    budget = 8 << 20
    wide = pa.record_batch({"id": range(2000), "name": ["x" * 1000] * 2000}, schema=SCHEMA)
    with drillcore.open(tmp_path / "db", memory_bytes=budget) as db:
        table = db.create_table("t", SCHEMA, key="id")
        # 20 MB in batches of 2 MB, each of which an append would take for too large a share.
        result = table.load(wide for _ in range(10))
        assert (result.rows, len(table)) == (20_000, 20_000)
        # A chunk is at most a 32nd of the budget.
        assert result.commits >= 80
        with pytest.raises(drillcore.InvalidArgumentError, match="the limit is"):
            table.append(pa.Table.from_batches([wide] * 3))


def test_rows_that_grow_as_they_are_stored_still_fit_a_small_budget(tmp_path: Path) -> None:
    metrics = {f"sum{i}": "sum(small)" for i in range(20)}
    rows = pa.table({"id": pa.array(range(20_000), pa.int16()), "small": pa.array([1] * 20_000, pa.int8())})
    with drillcore.open(tmp_path / "db", memory_bytes=1 << 20) as db:
        table = db.create_table("t", rows.schema, key="id", merge="rollup", rollup={"metrics": metrics})
        assert table.load(rows).rows == len(table) == 20_000


def test_a_stream_is_pulled_no_further_than_the_chunk_that_waits(table: drillcore.Table) -> None:
    pulled = 0
    ahead: list[int] = []

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        for each in batches(10_000, 300):
            pulled += each.num_rows
            yield each

    table.load(counted(), commit_rows=1000, progress=lambda stored: ahead.append(pulled - stored))
    assert len(ahead) == 10 and max(ahead) < 300


def test_strings_that_share_memory_do_not_make_chunks_small(table: drillcore.Table) -> None:
    rows = 20_000
    names = [f"{i:0500}" for i in range(rows)]
    frame = polars.DataFrame({"id": range(rows), "name": names})
    # 10 MB of strings in one buffer: a slice that counted all of it would be split.
    assert table.load(frame, commit_rows=5000).commits == 4
    assert table.get(777) == {"id": 777, "name": names[777]}


def test_a_bad_row_ends_the_load_and_is_named_by_its_place_in_the_stream(table: drillcore.Table) -> None:
    data = pa.table({"id": [float(i) for i in range(2500)]})
    data = data.set_column(0, "id", pa.array([1700.5 if i == 1700 else float(i) for i in range(2500)]))
    with pytest.raises(drillcore.InvalidArgumentError, match=r"^row 1700: .*1700.5.*; 1,000 rows were") as caught:
        table.load(data, commit_rows=1000)
    assert caught.value.rows_loaded == len(table) == 1000


def test_a_column_that_does_not_fit_ends_the_load_before_its_first_row(table: drillcore.Table) -> None:
    with pytest.raises(drillcore.NotFoundError, match=r'did you mean "name".*; 0 rows were') as caught:
        table.load(pa.table({"id": [1], "nmae": ["x"]}))
    assert caught.value.rows_loaded == 0


def test_skip_reports_bad_rows_by_their_place_in_the_stream(table: drillcore.Table) -> None:
    ids = [None if i in (5, 1500, 2400) else i for i in range(2500)]
    result = table.load(pa.table({"id": ids}), commit_rows=1000, on_error="skip")
    assert (result.rows, result.rejected_count, len(table)) == (2497, 3, 2497)
    assert [each.row for each in result.rejected] == [5, 1500, 2400]
    dicts = [{"id": "x"} if i in (5, 1500) else {"id": i + 5000} for i in range(2500)]
    result = table.load(dicts, commit_rows=1000, on_error="skip")
    assert (result.rows, [each.row for each in result.rejected]) == (2498, [5, 1500])


def test_the_list_of_bad_rows_is_bounded_but_their_number_is_exact(table: drillcore.Table) -> None:
    rows = 3 * REJECTED_LISTED_MAX
    result = table.load(pa.table({"id": pa.nulls(rows, pa.int64())}), commit_rows=700, on_error="skip")
    assert (result.rows, result.commits, result.rejected_count) == (0, 0, rows)
    assert [each.row for each in result.rejected] == list(range(REJECTED_LISTED_MAX))


def failing(error: BaseException) -> Iterator[pa.RecordBatch]:
    yield from batches(1500, 500)
    raise error


def test_a_stream_that_fails_leaves_whole_chunks_in_and_its_error_as_the_cause(table: drillcore.Table) -> None:
    for failures, stream in enumerate(
        (failing(ValueError("lost")), pa.RecordBatchReader.from_batches(SCHEMA, failing(ValueError("lost"))))
    ):
        with pytest.raises(drillcore.LoadError, match="ValueError: lost; 1,000 rows were loaded") as caught:
            table.load(stream, commit_rows=1000)
        assert caught.value.rows_loaded == 1000
        assert isinstance(caught.value.__cause__, ValueError)
        assert len(table) == 1000 * (failures + 1)


def test_something_else_in_the_stream_is_named_by_its_position(table: drillcore.Table) -> None:
    with pytest.raises(drillcore.InvalidTypeError, match=r"item 1 .* int; 0 rows were loaded"):
        table.load([batch(0, 10), 7])


@pytest.mark.parametrize(
    "stream, hint",
    [
        ({"id": [1]}, r"not dict; use \[data\] for one row, or pyarrow.table\(data\) for columns"),
        (polars.LazyFrame({"id": [1]}), r"not LazyFrame; call \.collect\(\) first"),
        ({"a": {"id": 1}}.values(), r"item 0 .* not dict; use \[data\] for one row"),
    ],
)
def test_what_is_no_stream_comes_with_the_hints_of_an_append(table: drillcore.Table, stream: Any, hint: str) -> None:
    with pytest.raises(drillcore.InvalidTypeError, match=hint):
        table.load(stream)


def test_an_interrupt_leaves_whole_chunks_in(table: drillcore.Table) -> None:
    def interrupted(rows: int) -> None:
        if rows == 2000:
            os.kill(os.getpid(), signal.SIGINT)

    # Far more than is loaded by then, but not without end: an interrupt that does not come is a failure, too.
    with pytest.raises(KeyboardInterrupt):
        table.load(batches(200_000, 300), commit_rows=1000, progress=interrupted)
    assert len(table) % 1000 == 0 and len(table) >= 2000


def test_an_interrupt_inside_the_stream_is_not_taken_for_its_failure(table: drillcore.Table) -> None:
    for stream in (
        failing(KeyboardInterrupt()),
        pa.RecordBatchReader.from_batches(SCHEMA, failing(KeyboardInterrupt())),
    ):
        with pytest.raises(KeyboardInterrupt):
            table.load(stream, commit_rows=500)
    assert len(table) == 3000


def test_readers_see_a_load_grow_by_whole_chunks(table: drillcore.Table) -> None:
    counts: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            counts.add(len(table))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        table.load(batches(40_000, 700), commit_rows=1000)
    finally:
        done.set()
        reader.join()
    assert all(count % 1000 == 0 for count in counts)


def test_a_load_folds_and_upserts_as_an_append_does(database: drillcore.Database) -> None:
    newest = database.create_table("newest", SCHEMA, key="id", merge="upsert")
    words = database.create_table("words", SCHEMA, key="name", merge="rollup", rollup={"metrics": {"n": "count"}})
    rows = pa.concat_tables([whole(2500), whole(1000)])
    assert newest.load(rows, commit_rows=999).rows == words.load(rows, commit_rows=999).rows == 3500
    assert (len(newest), len(words), words.count(unit="events")) == (2500, 7, 3500)


def test_categories_of_polars_are_loaded_as_their_texts() -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "name": "string"}, key="id")
    for first, kind in ((0, polars.Categorical), (2, polars.Enum(["b", "a"]))):
        t.load(polars.DataFrame({"id": [first, first + 1], "name": polars.Series(["a", None], dtype=kind)}))
    assert t.scan().arrow()["name"].to_pylist() == ["a", None, "a", None]


def test_dictionaries_of_lists_are_loaded_as_appended() -> None:
    db = drillcore.open(":memory:")
    tables = [db.create_table(name, {"id": "int64", "tags": "list<string>"}, key="id") for name in "ab"]
    tags = pa.DictionaryArray.from_arrays(pa.array([1, None, 1, 0]), pa.array([["a"], ["b", None]]))
    rows = pa.table({"id": range(4), "tags": tags})
    tables[0].append(rows)
    tables[1].load(rows)
    assert tables[0].scan().arrow() == tables[1].scan().arrow()


def test_lists_of_categories_are_loaded_as_appended() -> None:
    db = drillcore.open(":memory:")
    appended, loaded = (db.create_table(name, {"id": "int64", "tags": "list<string>"}, key="id") for name in "ab")
    tags = [["a", "b"], None, [], ["b", None, "a"], ["c"]]
    for first, kind in enumerate((polars.List(polars.Categorical), polars.List(polars.Enum(["c", "b", "a"])))):
        frame = polars.DataFrame({"id": range(5 * first, 5 * first + 5), "tags": polars.Series(tags, dtype=kind)})
        appended.append(frame)
        loaded.load(frame, commit_rows=2)
    codes = pa.array([0, 1, 1, None], pa.int8())
    words = pa.DictionaryArray.from_arrays(codes, pa.array(["x", "y"]))
    for first, lists in (
        (10, pa.FixedSizeListArray.from_arrays(words, 2)),
        (12, pa.LargeListArray.from_arrays([0, 3, 4], words)),
        (14, pa.ListArray.from_arrays([0, 1, 3, 4], words)[1:]),
    ):
        rows = pa.table({"id": [first, first + 1], "tags": lists})
        appended.append(rows)
        loaded.load(rows)
    assert loaded.scan().arrow() == appended.scan().arrow()
    assert loaded.scan().arrow()["tags"].to_pylist()[:5] == tags


def verbs(database: drillcore.Database, table: drillcore.Table) -> dict[str, Callable[[Any], Any]]:
    """What stores Arrow data in ``table``, named "t"."""

    def written(data: Any) -> None:
        with table.writer() as writer:
            writer.add(data)

    def written_together(data: Any) -> None:
        with database.writer() as writer:
            writer.add({"t": data})

    return {"append": table.append, "load": table.load, "writer": written, "database writer": written_together}


VERBS = ("append", "load", "writer", "database writer")
STRUCTS = pa.array([{"id": i, "name": f"n{i}"} for i in range(6)])


class Capsule:
    """Data of another library: only an Arrow array as a capsule."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_c_array__(self, requested: object = None) -> object:
        return self._array.__arrow_c_array__(requested)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "structs",
    [STRUCTS[2:4], pa.chunked_array([STRUCTS[2:3], STRUCTS[3:4]]), polars.Series(STRUCTS[2:4]), Capsule(STRUCTS[2:4])],
    ids=["array", "chunked array", "polars series", "capsule"],
)
def test_a_slice_of_structs_is_rows(database: drillcore.Database, verb: str, structs: Any) -> None:
    table = database.create_table("t", {"id": "int64", "name": "string"}, key="id")
    verbs(database, table)[verb](structs)
    assert table.scan().arrow().to_pylist() == STRUCTS[2:4].to_pylist()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_struct_that_is_null_is_no_row(database: drillcore.Database, verb: str, is_chunked: bool) -> None:
    table = database.create_table("t", {"id": "int64"}, key="id")
    structs = pa.array([{"id": 1}, {"id": 2}, None])[1:]
    with pytest.raises(drillcore.InvalidArgumentError, match="row 1 is null; remove it, or give a struct of nulls"):
        verbs(database, table)[verb](pa.chunked_array([structs]) if is_chunked else structs)
    assert table.count() == 0


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("error", [RuntimeError("boom"), OSError("boom"), KeyError("boom")], ids=repr)
def test_a_reader_that_fails_is_an_error_of_ours(database: drillcore.Database, verb: str, error: Exception) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield batch(0, 1)
        raise error

    table = database.create_table("t", SCHEMA, key="id")
    with pytest.raises(drillcore.LoadError if verb == "load" else drillcore.InvalidArgumentError, match="boom") as got:
        verbs(database, table)[verb](pa.RecordBatchReader.from_batches(SCHEMA, source()))
    assert verb == "append" or got.value.__cause__ is error
    assert table.count() == 0
