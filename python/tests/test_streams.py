"""Which columns lie by themselves, beside the rows, and that scans read these alone."""

from pathlib import Path

import pyarrow as pa
import pytest

import drillcore

ROWS = 40_000


def pages_of_a_scan(db: drillcore.Database, table: drillcore.Table, columns: list[str]) -> tuple[int, int]:
    before = db.stats()
    assert table.scan(columns=columns, threads=1).arrow().num_rows == ROWS
    after = db.stats()
    pages, blocks = (after[name] - before[name] for name in ("stream_pages_read", "blocks_read"))
    return pages, blocks


@pytest.mark.parametrize(("streams", "by_columns"), [(None, True), ("x", True), (["x", "id"], True), ([], False)])
def test_a_table_says_which_columns_are_streams(
    tmp_path: Path, streams: str | list[str] | None, by_columns: bool
) -> None:
    batch = pa.table({"id": range(ROWS), "x": [i / 4 for i in range(ROWS)], "s": ["a", "b"] * (ROWS // 2)})
    with drillcore.open(tmp_path / "t.drill") as db:
        table = db.create_table("t", batch.schema, key="id", streams=streams)
        table.append(batch)
        db.compact()
        pages, blocks = pages_of_a_scan(db, table, ["x"])
        assert (pages > 0, blocks == 0) == (by_columns, by_columns)
        assert table.scan(columns=["s", "x"]).arrow() == batch.select(["s", "x"])
        assert db.verify().rows == ROWS


def test_columns_that_cannot_be_streams_are_refused() -> None:
    with drillcore.open(":memory:") as db:
        schema = {"id": "int64", "raw": "binary"}
        with pytest.raises(drillcore.InvalidArgumentError, match="leave it out"):
            db.create_table("t", schema, key="id", streams="raw")
        with pytest.raises(drillcore.Error, match="rew"):
            db.create_table("t", schema, key="id", streams=["rew"])
        assert db.tables() == []
