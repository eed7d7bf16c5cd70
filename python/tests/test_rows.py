"""Rows stream once from a scan and stay from a sample, whoever reads them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import drillcore


def test_the_rows_of_a_scan_can_be_taken_once(events: drillcore.Table) -> None:
    rows = events.scan()
    assert rows.arrow().num_rows == 1000
    for again in (rows.arrow, rows.batches, rows.__arrow_c_stream__):
        with pytest.raises(drillcore.StreamConsumedError, match="stream once"):
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


def test_rows_go_to_polars(events: drillcore.Table) -> None:
    polars: Any = pytest.importorskip("polars")
    frame = events.scan(set="UA").pl()
    assert frame.shape == (250, 5)
    assert polars.DataFrame(events.scan(set="UA")).equals(frame)
    assert frame["ts"].dtype == polars.Datetime("us", "America/New_York")


def test_rows_go_to_pandas(events: drillcore.Table) -> None:
    pytest.importorskip("pandas")
    frame = events.sample(20).df()
    assert frame.shape == (20, 5)
    assert str(frame["ts"].dt.tz) == "America/New_York"


def test_rows_go_to_duckdb(events: drillcore.Table) -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    rows = events.scan()  # noqa: F841 (found by name)
    counted = duckdb.sql("select carrier, count(*) from rows group by carrier order by carrier nulls last")
    assert counted.fetchall() == [("AA", 250), ("DL", 250), ("UA", 250), (None, 250)]


def test_rows_come_from_polars_pandas_and_duckdb(database: drillcore.Database) -> None:
    polars: Any = pytest.importorskip("polars")
    pandas: Any = pytest.importorskip("pandas")
    duckdb: Any = pytest.importorskip("duckdb")
    table = database.create_table("t", {"id": "int64", "name": "string", "x": "float64"}, key="id", set="name")
    table.append(polars.DataFrame({"id": [1], "name": ["polars"], "x": [1.5]}))
    frame = pandas.DataFrame({"id": [8, 2, 9], "name": ["-", "pandas", "-"], "x": [0.0, float("nan"), 0.0]})
    table.append(frame[frame["id"] == 2])  # an index that is no column
    table.append(duckdb.sql("select 3 as id, 'duckdb' as name, 2.5::double as x"))
    table.append(pa.table({"id": [4], "name": ["pyarrow"]}).to_reader())
    table.append(pa.record_batch({"id": [5], "name": pa.array(["dictionary"]).dictionary_encode()}))
    assert table.scan(columns=["name", "x"]).arrow().to_pylist() == [
        {"name": "polars", "x": 1.5},
        {"name": "pandas", "x": None},
        {"name": "duckdb", "x": 2.5},
        {"name": "pyarrow", "x": None},
        {"name": "dictionary", "x": None},
    ]


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
