"""Which columns lie by themselves, beside the rows, and that scans read these alone."""

from collections.abc import Callable
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


def test_long_values_are_read_only_if_they_are_asked_for(tmp_path: Path) -> None:
    documents = [f"document {i}: " + "words and more words, " * (i % 400) for i in range(2_000)]
    batch = pa.table({"id": range(2_000), "n": [i * 7 for i in range(2_000)], "document": documents})
    with drillcore.open(tmp_path / "t.drill") as db:
        table = db.create_table("t", batch.schema, key="id", streams=[])
        table.append(batch)
        db.compact()

        def long_values_read(call: Callable[[], object]) -> int:
            before = db.stats()["long_values_read"]
            call()
            return db.stats()["long_values_read"] - before

        assert long_values_read(lambda: table.sample(50, seed=1, columns=["n"]).arrow()) == 0
        assert long_values_read(lambda: table.scan(columns=["id", "n"]).arrow()) == 0
        assert long_values_read(lambda: table.get(1_999)) == 1
        assert table.get(1_999)["document"] == documents[1_999]
        assert table.scan().arrow() == batch
        sample = table.sample(100, seed=3).arrow().to_pylist()
        assert all(row["document"] == documents[row["id"]] for row in sample)
        assert db.stats()["tables"][0]["segment_bytes"] < 1.2 * sum(map(len, documents))
        assert db.verify().rows == 2_000
