"""Deletes by key range, set and condition, in tables of every kind."""

import threading
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import drillcore
from drillcore import InvalidArgumentError

ROWS = 3_000
SELECTIONS = {
    "a range": ({"between": (100, 899)}, lambda row: 100 <= row["id"] <= 899),
    "an open range": ({"between": (None, 500), "closed": "left"}, lambda row: row["id"] < 500),
    "a set": ({"set": "g1"}, lambda row: row["city"] == "g1"),
    "the rows without a set": ({"set": drillcore.NULL}, lambda row: row["city"] is None),
    "a condition": ({"where": "n % 3 = 0"}, lambda row: row["n"] is not None and row["n"] % 3 == 0),
    "a set in a range": (
        {"set": ["g0", "g2"], "between": (10, 2_000)},
        lambda row: row["city"] in ("g0", "g2") and 10 <= row["id"] <= 2_000,
    ),
    "all of it": (
        {"where": "n > 1000 and id < 2500", "set": "g0"},
        lambda row: row["n"] is not None and row["n"] > 1000 and row["id"] < 2500 and row["city"] == "g0",
    ),
}


def row(i: int) -> dict[str, object]:
    return {"id": i, "city": None if i % 7 == 0 else f"g{i % 4}", "n": None if i % 11 == 0 else i}


@pytest.fixture(params=["append", "upsert"])
def table(request: pytest.FixtureRequest, tmp_path) -> drillcore.Table:
    db = drillcore.open(tmp_path / "db")
    schema = {"id": "int64", "city": "string", "n": "int64"}
    t = db.create_table("t", schema, key="id", merge=request.param, set="city")
    t.append([row(i) for i in range(0, ROWS, 2)])
    db.flush()
    t.append([row(i) for i in range(1, ROWS, 2)])
    return t


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_selected_goes_and_nothing_else(table: drillcore.Table, name: str) -> None:
    selection, is_selected = SELECTIONS[name]
    before = table.scan().arrow().to_pylist()
    deleted = table.delete(**selection)
    kept = [row for row in before if not is_selected(row)]
    assert deleted.rows == len(before) - len(kept) > 0
    assert table.scan().arrow().to_pylist() == kept
    assert len(table) == table.count() == len(kept)
    assert table.count(**selection) == 0
    assert {row["id"] for row in table.sample(len(kept)).arrow().to_pylist()} == {row["id"] for row in kept}
    assert table.delete(**selection).rows == 0
    table.append([row(i) for i in range(ROWS)])
    expected = ROWS if table.merge == "upsert" else ROWS + len(kept)
    assert len(table) == expected


def test_a_delete_lasts_and_snapshots_before_it_do_not_see_it(tmp_path) -> None:
    path = tmp_path / "db"
    with drillcore.open(path) as db:
        t = db.create_table("t", {"id": "int64", "city": "string"}, key="id", set="city")
        t.append([{"id": i, "city": f"c{i % 3}"} for i in range(900)])
        named = db.snapshot("all")
        seen = db.snapshot()
        with drillcore.open(path, read_only=True) as reader:
            lsn = t.delete(where="id % 2 = 1").lsn
            assert len(reader.table("t")) == 900
            reader.refresh(at_least=lsn)
            assert len(reader.table("t")) == 450
            lsn = t.delete(between=(0, 99)).lsn
            reader.refresh(at_least=lsn)
            assert len(reader.table("t")) == 400
            assert (
                reader.table("t").count(set="c1")
                == t.count(set="c1")
                == db.sql("select count(*) as n from t where city = 'c1'").arrow().column("n")[0].as_py()
            )
        assert len(seen.table("t")) == len(named.table("t")) == 900
    with drillcore.open(path) as db:
        t = db.table("t")
        assert len(t) == 400
        assert len(db.snapshot("all").table("t")) == 900
        assert sum(rows for _, rows in t.sets()) == 400
        db.flush()
        db.compact()
        assert t.stats()["erased_rows"] == 0
        assert t.truncate().rows == 400
    with drillcore.open(path) as db:
        assert len(db.table("t")) == 0
        assert list(db.table("t").sets()) == []


def test_events_that_come_after_a_delete_count_anew() -> None:
    db = drillcore.open(":memory:")
    rollup = {"time": "at", "granularity": "1h", "metrics": {"n": "count", "total": "sum(x)"}}
    schema = {"at": "timestamp[us]", "city": "string", "x": "int64"}
    t = db.create_table("hourly", schema, key=["at", "city"], merge="rollup", rollup=rollup, set="city")
    start = datetime(2026, 1, 1)
    events = [{"at": start + timedelta(minutes=i), "city": "ab"[i % 2], "x": i} for i in range(600)]
    t.append(events)
    assert t.delete(where="city = 'a' and at >= timestamp '2026-01-01 05:00:00'").rows == 5
    assert t.count(unit="events") == 450
    t.append(events[-2:])
    last = t.scan(reverse=True, limit=2).arrow().to_pylist()
    assert [(row["city"], row["n"]) for row in last] == [("b", 31), ("a", 1)]
    with pytest.raises(InvalidArgumentError, match='"total" is a metric'):
        t.delete(where="total > 5")


def test_a_delete_of_an_empty_table_and_of_nothing() -> None:
    t = drillcore.open(":memory:").create_table("t", pa.schema({"id": pa.int64()}), key="id")
    before = t.append([]).lsn
    assert t.truncate() == t.delete(between=(1, 2)) == t.delete(where="id > 3") == drillcore.DeleteResult(0, before)
    with pytest.raises(InvalidArgumentError, match="no set column"):
        t.delete(set="a")
    with pytest.raises(InvalidArgumentError, match="reversed"):
        t.delete(between=(2, 1))


def test_a_key_range_without_ends_is_no_selection() -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id")
    t.append([{"id": 1}])
    with pytest.raises(InvalidArgumentError, match="would delete all rows"):
        t.delete(between=(None, None))
    assert t.delete(between=(None, None), where="id = 1").rows == 1


def test_a_delete_in_sql_gives_its_count(tmp_path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = db.create_table("t", {"id": "int64", "city": "string"}, key="id", set="city")
        t.append([{"id": i, "city": f"c{i % 3}"} for i in range(90)])
        assert db.sql("DELETE FROM t WHERE city = $city and id < 30", {"city": "c1"}).arrow().to_pydict() == {
            "count": [10]
        }
        assert len(t) == 80
        for text in ("-- gone\ndelete from t where id = 1", "/* gone */ delete from t where id = 4"):
            assert db.sql(text).arrow().to_pydict() == {"count": [0]}
        for ignored in ({"threads": 0}, {"memory_bytes": 1 << 20}):
            with pytest.raises(InvalidArgumentError, match="a delete takes no threads"):
                db.sql("delete from t where id = 0", **ignored)
        with pytest.raises(InvalidArgumentError, match="a condition cannot contain a subquery"):
            db.sql("delete from t where id in (select id from t)")
        with pytest.raises(InvalidArgumentError, match="a condition cannot contain a subquery"):
            t.count(where="city in (select city from t)")
        assert len(t) == 80
        with pytest.raises(InvalidArgumentError, match="call truncate"):
            db.sql("delete from t")
        with pytest.raises(InvalidArgumentError, match=r"DELETE .*; use delete, or sql of the database"):
            db.snapshot().sql("delete from t where id = 1")
        with drillcore.open(tmp_path / "db", read_only=True) as reader, pytest.raises(drillcore.ReadOnlyError):
            reader.sql("delete from t where id = 1")


def test_two_deletes_at_once_count_each_row_once() -> None:
    for _ in range(6):
        db = drillcore.open(":memory:")
        t = db.create_table("t", {"id": "int64", "s": "string"}, key="id", merge="upsert", set="s")
        for part in range(4):
            t.append(pa.table({"id": range(part * 2_000, part * 2_000 + 2_000), "s": ["a"] * 2_000}))
        barrier, deleted = threading.Barrier(2), []

        def delete(t=t, barrier=barrier, deleted=deleted, **selection) -> None:
            barrier.wait()
            deleted.append(t.delete(**selection).rows)

        threads = [
            threading.Thread(target=delete, kwargs=selection) for selection in ({"set": "a"}, {"where": "id < 6000"})
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (sum(deleted), t.count()) == (8_000, 0)
