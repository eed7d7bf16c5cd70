"""Rows stream once from a scan and stay from a sample, with every library that reads them."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from events import TAGS

import drillcore


def test_the_rows_of_a_scan_can_be_taken_once(events: drillcore.Table) -> None:
    rows = events.scan()
    assert rows.arrow().num_rows == 1000
    for again in (rows.arrow, rows.batches, rows.__arrow_c_stream__):
        with pytest.raises(drillcore.StreamConsumedError, match="read once"):
            again()
    with pytest.raises(TypeError, match="count"):
        len(rows)


def test_held_rows_can_be_taken_again_and_have_a_length(events: drillcore.Table) -> None:
    rows = events.sample(10)
    assert len(rows) == 10
    assert rows.arrow().equals(rows.arrow())
    assert pa.table(rows).equals(rows.arrow())


def test_batches_come_one_by_one(events: drillcore.Table) -> None:
    batches = list(events.scan().batches())
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 1000


def test_several_threads_give_the_rows_of_one(tmp_path: Any) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = db.create_table("t", {"id": "int64", "value": "int64"}, key=["id"])
        for part in range(3):
            ids = list(range(part, 150_000, 3))
            t.append(pa.table({"id": ids, "value": [i % 97 for i in ids]}))
        db.flush()
        whole = t.scan(threads=1).arrow()
        assert whole["id"].to_pylist() == list(range(150_000))
        for threads in (None, 2, 5):
            assert t.scan(threads=threads).arrow().combine_chunks().equals(whole.combine_chunks())
            few = t.scan(threads=threads, where="value = 5", reverse=True, limit=100, columns=["id"]).arrow()
            assert few["id"].to_pylist() == [i for i in range(149_999, -1, -1) if i % 97 == 5][:100]
        drawn = t.sample(50_000, seed=3, threads=1).arrow()
        assert drawn.equals(t.sample(50_000, seed=3, threads=4).arrow())
        assert drawn.equals(t.sample(50_000, seed=3).arrow())
        # One that is let go early leaves nothing behind that the database waits for.
        assert next(iter(t.scan(threads=2).batches())).num_rows > 0


@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)])
def test_a_number_of_threads_is_a_whole_one_above_0(events: drillcore.Table, threads: Any, error: type) -> None:
    with pytest.raises(error, match="threads"):
        events.scan(threads=threads)
    with pytest.raises(error, match="threads"):
        events.sample(1, threads=threads)


def test_rows_go_to_polars(events: drillcore.Table) -> None:
    polars: Any = pytest.importorskip("polars")
    frame = events.scan(set="UA").pl()
    assert frame.shape == (250, 7)
    assert polars.DataFrame(events.scan(set="UA")).equals(frame)
    assert frame["ts"].dtype == polars.Datetime("us", "America/New_York")
    assert (frame["tags"].dtype, frame["ticket"].dtype) == (polars.List(polars.String), polars.Binary)
    assert frame["tags"].to_list() == [TAGS[i % 5] for i in range(2, 1000, 4)]


def test_rows_go_to_pandas(events: drillcore.Table) -> None:
    pytest.importorskip("pandas")
    frame = events.sample(20).df()
    assert frame.shape == (20, 7)
    assert str(frame["ts"].dt.tz) == "America/New_York"
    assert all(type(ticket) in (bytes, type(None)) for ticket in frame["ticket"])


def test_rows_go_to_duckdb(events: drillcore.Table) -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    rows = events.scan()  # noqa: F841 (found by name)
    counted = duckdb.sql("select carrier, count(*) from rows group by carrier order by carrier nulls last")
    assert counted.fetchall() == [("AA", 250), ("DL", 250), ("UA", 250), (None, 250)]


def test_rows_come_from_polars_pandas_and_duckdb(database: drillcore.Database) -> None:
    schema = {"id": "int64", "name": "string", "x": "float64", "tags": "list<string>", "raw": "binary"}
    table = database.create_table("t", schema, key="id", set="name")
    table.append(pl.DataFrame({"id": [1], "name": ["polars"], "x": [1.5], "tags": [["a", None]], "raw": [b"\xff"]}))
    frame = pd.DataFrame({"id": [8, 2, 9], "name": ["-", "pandas", "-"], "x": [0.0, float("nan"), 0.0]})
    frame["tags"], frame["raw"] = [["-"], ["b"], None], [b"", b"p", None]
    table.append(frame[frame["id"] == 2])  # an index that is no column
    table.append(duckdb.sql("select 3 as id, 'duckdb' as name, 2.5::double as x, ['d', ''] as tags, 'r'::blob as raw"))
    table.append(pa.table({"id": [4], "name": ["pyarrow"], "tags": [[]]}).to_reader())
    table.append(pa.record_batch({"id": [5], "name": pa.array(["dictionary"]).dictionary_encode()}))
    table.append([{"id": 6, "name": "dicts", "tags": ["e"], "raw": b"\x00"}, {"id": 7, "tags": [], "raw": b""}])
    columns = ["name", "x", "tags", "raw"]
    assert [tuple(row.values()) for row in table.scan(columns=columns).arrow().to_pylist()] == [
        ("polars", 1.5, ["a", None], b"\xff"),
        ("pandas", None, ["b"], b"p"),
        ("duckdb", 2.5, ["d", ""], b"r"),
        ("pyarrow", None, [], None),
        ("dictionary", None, None, None),
        ("dicts", None, ["e"], b"\x00"),
        (None, None, [], b""),
    ]
    row = table.get(6)
    assert row is not None
    assert (row["tags"], row["raw"]) == (["e"], b"\x00")


def test_a_polars_column_without_a_type_is_nulls(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "x": "float64", "tags": "list<string>"}, key="id")
    frame = pl.DataFrame({"id": [1, 2], "x": [None, None], "tags": [[], None]})
    assert frame.schema["x"] == pl.Null
    assert t.append(frame).rows == 2
    assert database.append({"t": frame.with_columns(pl.col("id") + 10)}).rows == 2
    assert t.append(pl.DataFrame({"id": [], "x": []})).rows == 0
    assert [row["x"] for row in t.scan().arrow().to_pylist()] == [None] * 4
    assert [row["tags"] for row in t.scan().arrow().to_pylist()] == [[], None] * 2
    with pytest.raises(drillcore.InvalidArgumentError):
        t.append(pl.DataFrame({"id": pl.Series([1], dtype=pl.Int128)}))


ODD: dict[str, Any] = {
    "categories of pandas": pd.DataFrame({"id": [1], "name": pd.Categorical(["a"])}),
    "a null category of pandas": pd.DataFrame({"id": [1, 2], "name": pd.Categorical(["a", None])}),
    "strings of pandas": pd.DataFrame({"id": [1], "name": pd.array(["a"], dtype="string")}),
    "categories of polars": pl.DataFrame({"id": [1], "name": ["a"]}, schema_overrides={"name": pl.Categorical}),
    "an enum of polars": pl.DataFrame({"id": [1], "name": ["a"]}, schema_overrides={"name": pl.Enum(["b", "a"])}),
    "a dictionary": pa.table({"id": [1], "name": pa.array(["a"]).dictionary_encode()}),
    "a dictionary of large strings": pa.table(
        {"id": [1], "name": pa.array(["a"], pa.large_string()).dictionary_encode()}
    ),
    "a null in a dictionary": pa.table(
        {"id": [1, 2], "name": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))}
    ),
    "large strings": pa.table({"id": [1], "name": pa.array(["a"], pa.large_string())}),
    "views of strings": pa.table({"id": [1], "name": pa.array(["a"], pa.string_view())}),
    "a sum of duckdb": duckdb.sql("select sum(x) as id, 'a' as name from (values (0), (1)) as t(x)"),
    "an enum of duckdb": duckdb.sql("select 1 as id, 'a'::enum('b', 'a') as name"),
    "decimals of polars": pl.DataFrame({"id": ["1.00"], "name": ["a"]}).with_columns(
        pl.col("id").cast(pl.Decimal(9, 2))
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_however_values_are_laid_out_they_are_the_same(database: drillcore.Database, name: str) -> None:
    t = database.create_table("t", {"id": "int64", "name": "string"}, key="id", set="name")
    rows = t.append(ODD[name]).rows
    expected = [{"id": 1, "name": "a"}, {"id": 2, "name": None}][:rows]
    assert t.scan().arrow().to_pylist() == expected
    assert t.count(set="a") == 1


def test_lists_and_binary_of_any_layout_are_one_type(database: drillcore.Database) -> None:
    lists = [pa.list_(pa.string()), pa.list_(pa.large_string(), 1), pa.large_list(pa.string_view())]
    blobs = [pa.binary(), pa.binary(1), pa.binary_view()]
    for i, (tags, raw) in enumerate(zip(lists, blobs, strict=True)):
        data = pa.table({"id": [1], "tags": pa.array([["a"]], tags), "raw": pa.array([b"a"], raw)})
        for name, schema in ((f"arrow{i}", data.schema), (f"dict{i}", {"id": "int64", "tags": tags, "raw": raw})):
            table = database.create_table(name, schema, key="id")
            assert table.schema.types == [pa.int64(), pa.list_(pa.string()), pa.binary()]
            table.append(data)
            table.load(data)
            assert table.get(1) == {"id": 1, "tags": ["a"], "raw": b"a"}


def test_a_value_that_is_no_list_or_no_bytes_is_refused(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64", "tags": "list<string>", "raw": "binary"}, key="id")
    for column, value in (("tags", "a"), ("tags", [1]), ("raw", "a"), ("raw", 1)):
        with pytest.raises((drillcore.InvalidTypeError, drillcore.InvalidArgumentError), match=f'column "{column}"'):
            table.append([{"id": 1, column: value}])
    for column in ("tags", "raw"):
        with pytest.raises(drillcore.InvalidArgumentError, match=f'cannot group by column "{column}"'):
            table.estimate("count", by=column, n=10)
    for options in ({"key": "raw"}, {"key": "tags"}, {"key": "id", "set": "raw"}, {"key": "id", "weights": ["tags"]}):
        with pytest.raises(drillcore.InvalidArgumentError, match="column"):
            database.create_table("other", table.schema, **options)
    assert len(table) == 0


def test_a_stream_of_several_batches_is_one_commit(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64"}, key="id")
    parts = [pa.record_batch({"id": [i]}) for i in range(5)]
    before = table.append(parts[0]).lsn
    result = table.append(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
    assert (result.rows, result.lsn) == (5, before + 1)


def test_a_failing_stream_raises_and_stores_nothing(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64"}, key="id")

    def broken() -> Any:
        yield pa.record_batch({"id": [1]})
        raise RuntimeError("the source broke")

    with pytest.raises((drillcore.Error, RuntimeError), match="the source broke"):
        table.append(pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), broken()))
    assert len(table) == 0


def test_times_beyond_the_years_of_python_are_shown_as_numbers() -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "at": "timestamp[us]", "day": "date32"}, key="id")
    at = pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us"))
    day = pa.array([2**31 - 1], pa.int32()).view(pa.date32())
    t.append(pa.table({"id": [1], "at": at, "day": day}))
    for shown in (repr(t.scan()), t.scan()._repr_html_()):
        assert "9223372036854775807" in shown
    with pytest.raises(drillcore.OutOfRangeError, match=r"years of Python's datetime.*get_many"):
        t.get(1)
    assert t.get_many([1]).arrow()["at"].cast(pa.int64()).to_pylist() == [2**63 - 1]


FAR = {
    "date32": (3_000_000, pa.int32()),
    "timestamp[s]": (3_000_000 * 86_400, pa.int64()),
    "timestamp[us, Europe/Oslo]": (3_000_000 * 86_400 * 10**6, pa.int64()),
}


@pytest.mark.parametrize("kind", FAR)
def test_sets_and_estimates_show_times_beyond_the_years_of_python_and_refuse_to_give_them(kind: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    number, stored = FAR[kind]
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "d": kind}, key="id", set="d")
    days = pa.array([number, 0], stored).cast(t.schema.field("d").type)
    t.append(pa.table({"id": [1, 2], "d": days}))
    groups, last = t.estimate("count", by="d"), t.estimate("max(d)")
    for shown in (repr(t.sets()), t.sets()._repr_html_(), repr(groups), groups._repr_html_()):
        assert str(number) in shown
    assert groups.plot().get_yticklabels()[1].get_text() == str(number)
    last.plot().figure.canvas.draw()
    for taken in (lambda: list(t.sets()), lambda: last.value, lambda: last.high):
        with pytest.raises(drillcore.OutOfRangeError, match=r"years of Python's datetime .*; use .arrow"):
            taken()
    assert t.sets().arrow()["d"].cast(stored).to_pylist() == [0, number]


def test_nanoseconds_that_pandas_cannot_move_to_their_zone_are_refused_by_name() -> None:
    kind = "timestamp[ns, Asia/Kolkata]"
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "d": kind}, key="id", set="d")
    times = pa.array([2**63 - 1], pa.int64()).cast(t.schema.field("d").type)
    t.append(pa.table({"id": [1], "d": times}))
    assert "9223372036854775807" in repr(t.sets())
    for taken in (lambda: t.get(1), lambda: list(t.sets()), lambda: t.estimate("max(d)").value):
        with pytest.raises(drillcore.OutOfRangeError, match=r"has a time beyond .*; use .*arrow"):
            taken()


def test_a_date_beyond_the_years_of_pandas_has_no_frame() -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "d": "date32"}, key="id")
    t.append(pa.table({"id": [1], "d": pa.array([3_000_000], pa.int32()).cast(pa.date32())}))
    for taken in (t.scan(), t.estimate("count", by="d"), t.estimate("max(d)")):
        with pytest.raises(drillcore.OutOfRangeError, match=r'column ".*d.*" has a time .*; use .arrow'):
            taken.df()
