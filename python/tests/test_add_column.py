"""Columns added to live tables."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import drillcore


def test_older_rows_are_null_and_every_handle_sees_the_column(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")
    other = database.table("t")
    t.append([{"id": 1}])
    before = database.snapshot().table("t")
    t.add_column("tags", "list<string>")
    t.add_column("at", pa.timestamp("us", "UTC"))
    assert t.schema.names == other.schema.names == t.append_schema.names == ["id", "tags", "at"]
    assert before.schema.names == ["id"]
    other.append([{"id": 2, "tags": ["a", None]}])
    result = t.append([{"id": 3, "tags": ["b"]}, {"id": "x"}], on_error="skip")
    assert (result.rows, len(result.rejected)) == (1, 1)
    t.load([{"id": 4, "tags": []}])
    database.flush()
    tags = {1: None, 2: ["a", None], 3: ["b"], 4: []}
    assert {row["id"]: row["tags"] for row in t.scan().arrow().to_pylist()} == tags
    assert t.count(where="tags is null") == 1
    assert "tags: list<" in repr(t)


def test_a_column_that_cannot_be_is_refused(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")
    with pytest.raises(drillcore.AlreadyExistsError, match="id"):
        t.add_column("id", "int64")
    with pytest.raises(drillcore.InvalidArgumentError, match='did you mean "float64"'):
        t.add_column("x", "flaot64")
    with pytest.raises(drillcore.InvalidArgumentError, match="has type"):
        t.add_column("x", pa.struct([("a", pa.int64())]))
    rollup = {"metrics": {"n": "sum(x)"}}
    r = database.create_table("r", {"id": "int64", "x": "int64"}, key="id", merge="rollup", rollup=rollup)
    with pytest.raises(drillcore.InvalidArgumentError, match="read by a metric"):
        r.add_column("x", "int64")
    assert t.schema.names == ["id"]
    assert r.schema.names == ["id", "n"]


def test_a_table_that_columns_were_added_to_is_taken_as_it_is(database: drillcore.Database) -> None:
    for merge in ("append", "upsert"):
        t = database.create_table(merge, {"id": "int64", "x": "int64"}, key="id", merge=merge)
        t.add_column("y", "string")
        again = database.create_table(merge, {"id": "int64", "x": "int64"}, key="id", merge=merge, exist_ok=True)
        assert again.schema.names == ["id", "x", "y"]
        for other in ({"id": "int64"}, {"id": "int64", "z": "int64"}, {"x": "int64", "id": "int64"}):
            if other == {"id": "int64"}:
                assert database.create_table(merge, other, key="id", merge=merge, exist_ok=True).key == ["id"]
                continue
            with pytest.raises(drillcore.AlreadyExistsError, match="another shape"):
                database.create_table(merge, other, key="id", merge=merge, exist_ok=True)


def test_a_dimension_is_added_to_a_rollup_table(database: drillcore.Database) -> None:
    rollup = {"metrics": {"n": "count"}}
    t = database.create_table("t", {"id": "int64"}, key="id", merge="rollup", rollup=rollup)
    t.append([{"id": 1}, {"id": 1}])
    t.add_column("host", "string")
    t.append([{"id": 1, "host": "a"}, {"id": 1}])
    assert t.key == ["id", "host"]
    assert t.scan().arrow().to_pylist() == [{"id": 1, "n": 3, "host": None}, {"id": 1, "n": 1, "host": "a"}]
    assert t.get(1)["n"] == 3
    assert t.get(1, "a")["n"] == 1
    assert database.sql("select host, n from t where host is not null").arrow().to_pylist() == [{"host": "a", "n": 1}]
    with pytest.raises(drillcore.NotFoundError, match="path"):
        t.append([{"id": 1, "path": "/"}])


def test_a_reader_has_the_column_after_a_refresh(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with drillcore.open(path) as db, drillcore.open(path, read_only=True) as reader:
        t = db.create_table("t", {"id": "int64"}, key="id")
        t.append([{"id": 1}])
        reader.refresh()
        seen = reader.table("t")
        t.add_column("x", "int64")
        assert seen.schema.names == ["id"]
        with pytest.raises(drillcore.ReadOnlyError, match="add_column"):
            seen.add_column("y", "int64")
        reader.refresh(at_least=t.append([{"id": 2, "x": 5}]).lsn)
        assert seen.schema.names == ["id", "x"]
        assert seen.scan().arrow().to_pydict() == {"id": [1, 2], "x": [None, 5]}
        db.drop_table("t")
        db.create_table("t", {"id": "int64", "x": "int64"}, key="id")
        reader.refresh()
        with pytest.raises(drillcore.NotFoundError, match="a new table has its name"):
            seen.count()


def test_columns_come_while_others_append(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")

    def write(writer: int) -> None:
        for step in range(100):
            row = {"id": step * 3 + writer}
            t.append([row | dict.fromkeys(t.schema.names[1:], row["id"])])

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in writers:
        thread.start()
    for number in range(10):
        t.add_column(f"c{number}", "int64")
    for thread in writers:
        thread.join()
    rows = t.scan().arrow().to_pylist()
    assert [row["id"] for row in rows] == list(range(300))
    assert all(row[name] in (None, row["id"]) for row in rows for name in t.schema.names)
