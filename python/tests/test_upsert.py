"""An upsert table is a dict: the newest row of a key counts, and rows can be deleted."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import drillcore

SCHEMA = {"name": "string", "id": "int64", "value": "int64"}
KEY = ["name", "id"]


@pytest.fixture
def records(database: drillcore.Database) -> drillcore.Table:
    return database.create_table("records", SCHEMA, key=KEY, merge="upsert", set="name", weights="value")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_upsert_table_answers_as_a_dict_does(
    database: drillcore.Database, records: drillcore.Table, seed: int
) -> None:
    rng = random.Random(seed)
    model: dict[tuple[str, int], int] = {}
    for step in range(60):
        keys = [(rng.choice("abc"), rng.randrange(40)) for _ in range(rng.randrange(1, 30))]
        if rng.random() < 0.3:
            gone = [model.pop(key) for key in set(keys) if key in model]
            assert records.delete(keys).rows == len(gone)
        else:
            rows: list[dict[str, Any]] = [{"name": name, "id": i, "value": rng.randrange(1000)} for name, i in keys]
            records.append(rows)
            model.update({(row["name"], row["id"]): row["value"] for row in rows})
        if step % 13 == 7:
            database.flush()
        if step % 29 == 20:
            database.compact()
        check(records, model, rng)


def check(table: drillcore.Table, model: dict[tuple[str, int], int], rng: random.Random) -> None:
    rows = [as_row(key, model) for key in sorted(model)]
    assert table.scan().arrow().to_pylist() == rows
    assert (len(table), table.count(), table.count(unit="events")) == (len(rows), len(rows), len(rows))
    assert table.count(set="b") == sum(row["name"] == "b" for row in rows)
    assert dict(table.sets()) == {name: n for name in "abc" if (n := sum(row["name"] == name for row in rows))}
    asked = [(rng.choice("abc"), rng.randrange(45)) for _ in range(10)]
    expected = [as_row(key, model) for key in asked if key in model]
    assert table.get_many(asked).arrow().to_pylist() == expected
    drawn = table.sample(len(rows), at_most=True).arrow().to_pylist()
    assert sorted(drawn, key=lambda row: (row["name"], row["id"])) == rows
    heavy = table.sample(len(rows), weight="value", at_most=True).arrow().to_pylist()
    assert len(heavy) == sum(row["value"] > 0 for row in rows)
    assert all(row in rows for row in heavy)


def as_row(key: tuple[str, int], model: dict[tuple[str, int], int]) -> dict[str, Any]:
    return {"name": key[0], "id": key[1], "value": model[key]}


def test_keys_to_delete_come_as_tuples_values_or_arrow(database: drillcore.Database, records: drillcore.Table) -> None:
    records.append([{"name": "a", "id": i, "value": i} for i in range(6)])
    records.delete([("a", 0), ("a", 77)])
    records.delete(pa.table({"id": [1, 2], "name": ["a", "a"], "more": [0, 0]}))
    assert [row["id"] for row in records.scan().arrow().to_pylist()] == [3, 4, 5]
    single = database.create_table("single", {"id": "int64"}, key="id", merge="upsert")
    single.append([{"id": i} for i in range(6)])
    single.delete([0, 1])
    single.delete(pa.array([2]))
    single.delete(range(3, 5))
    assert [row["id"] for row in single.scan().arrow().to_pylist()] == [5]


def test_a_delete_is_a_commit_that_earlier_snapshots_do_not_see(
    database: drillcore.Database, records: drillcore.Table
) -> None:
    before = records.append([{"name": "a", "id": 1, "value": 1}]).lsn
    with database.snapshot() as snapshot:
        result = records.delete([("a", 1)])
        assert (result.rows, result.lsn > before) == (1, True)
        assert len(snapshot.table("records")) == 1
    assert (len(records), records.get("a", 1)) == (0, None)
    records.append([{"name": "a", "id": 1, "value": 2}])
    assert records.get("a", 1) == {"name": "a", "id": 1, "value": 2}


def test_a_delete_of_nothing_is_no_error(records: drillcore.Table) -> None:
    assert records.delete([]).rows == 0
    assert records.delete([("a", 1)]).rows == 0
    assert len(records) == 0


def test_of_equal_keys_in_one_batch_the_last_wins(records: drillcore.Table) -> None:
    records.append([{"name": "a", "id": 1, "value": value} for value in (5, 9, 7)])
    assert records.scan().arrow().to_pylist() == [{"name": "a", "id": 1, "value": 7}]


def test_an_upsert_table_is_one_after_opening_again(tmp_path: Any) -> None:
    with drillcore.open(tmp_path / "db") as db:
        table = db.create_table("records", SCHEMA, key=KEY, merge="upsert")
        table.append([{"name": "a", "id": i, "value": 0} for i in range(10)])
        db.flush()
        table.delete([("a", i) for i in range(5)])
    with drillcore.open(tmp_path / "db") as db:
        table = db.table("records")
        assert (table.merge, len(table), table.count(between=("a", ("a", 5)))) == ("upsert", 5, 1)
        assert "merge='upsert'" in repr(table)
