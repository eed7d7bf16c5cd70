"""Set indexes, switched on and off: answers stay, and what is wrong is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import drillcore

SCHEMA = {"id": "int64", "name": "string", "value": "float64"}
NAMES = ["a", "b", None]


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "name": [NAMES[i % 3] for i in ids], "value": [i / 2 for i in ids]})


def table_without_index(db: drillcore.Database, **more: object) -> drillcore.Table:
    t = db.create_table("t", SCHEMA, key="id", set="name", set_index=False, **more)
    t.append(rows(0, 6_000))
    db.flush()
    t.append(rows(6_000, 300))
    return t


def answers(t: drillcore.Table) -> list[object]:
    in_range = {"set": ["a", drillcore.NULL], "between": (1_000, 6_100)}
    return [
        t.count(set="a"),
        t.count(set=drillcore.NULL),
        t.count(set="nowhere"),
        t.count(set="b", where="value > 100"),
        t.scan(**in_range).arrow(),
        t.scan(set="b", reverse=True, limit=10, columns=["id"]).arrow(),
        t.count(where="name = 'a'"),
        list(t.sets()),
        len(t.sample(100, set="a", at_most=True)),
    ]


@pytest.mark.parametrize("merge", ["append", "upsert"])
def test_answers_do_not_depend_on_the_index(merge: str) -> None:
    with drillcore.open(":memory:") as db:
        t = table_without_index(db, merge=merge)
        before = answers(t)
        assert before[0] == 2_100
        assert t.stats()["indexed_sets"] == {"all": False, "exceptions": 0, "rows_to_index": 0, "fault": None}
        t.index_sets("a", drillcore.NULL, wait=True)
        assert t.stats()["indexed_sets"] == {"all": False, "exceptions": 2, "rows_to_index": 0, "fault": None}
        assert answers(t) == before
        t.index_all_sets(wait=True)
        assert answers(t) == before
        t.unindex_sets("b")
        db.compact()
        assert answers(t) == before
        t.unindex_all_sets()
        db.compact()
        assert answers(t) == before
        assert db.verify().segments == 1


def test_a_snapshot_gives_the_same_sample_with_and_without_index() -> None:
    with drillcore.open(":memory:") as db:
        t = table_without_index(db)
        db.flush()
        snap = db.snapshot("before")
        drawn = snap.table("t").sample(50, set=["b", "a"], between=(10, 5_000), seed=3).arrow()
        t.index_all_sets(wait=True)
        assert snap.table("t").sample(50, set=["b", "a"], between=(10, 5_000), seed=3).arrow() == drawn
        assert db.snapshot().table("t").sample(50, set=["b", "a"], between=(10, 5_000), seed=3).arrow() == drawn


def test_groups_without_index_are_estimated() -> None:
    with drillcore.open(":memory:") as db:
        t = table_without_index(db)
        db.flush()
        estimate = t.estimate({"n": "count"}, by="name", n=2_000, seed=1)
        assert not estimate.exact
        t.index_all_sets(wait=True)
        counts = t.estimate({"n": "count"}, by="name", n=2_000, seed=1).arrow()
        assert counts.column("n").to_pylist() == counts.column("n_low").to_pylist() == [2_100] * 3


def test_a_rollup_table_indexes_a_dimension() -> None:
    with drillcore.open(":memory:") as db:
        rollup = {"dimensions": ["name"], "metrics": {"n": "count", "total": "sum(value)"}}
        t = db.create_table("t", SCHEMA, key="name", merge="rollup", rollup=rollup, set="name", set_index=False)
        t.append(rows(0, 300))
        db.flush()
        t.append(rows(0, 300))
        before = t.scan(set=["a", drillcore.NULL]).arrow()
        assert before.column("n").to_pylist() == [200, 200]
        assert t.count(set="a", unit="events") == 200
        t.index_all_sets(wait=True)
        assert t.scan(set=["a", drillcore.NULL]).arrow() == before
        assert t.count(set="a", unit="events") == 200


def test_a_switch_outlasts_a_restart_and_readers_follow(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with drillcore.open(path) as db:
        t = table_without_index(db)
        before = answers(t)
        with drillcore.open(path, read_only=True) as reader:
            beside = reader.table("t")
            assert answers(beside) == before
            t.index_all_sets(wait=True)
            t.unindex_sets("b")
            reader.refresh()
            assert answers(beside) == before
            assert beside.stats()["indexed_sets"] == {"all": True, "exceptions": 1, "rows_to_index": 0, "fault": None}
            with pytest.raises(drillcore.ReadOnlyError):
                beside.index_all_sets()
            with pytest.raises(drillcore.ReadOnlyError):
                beside.unindex_sets("a")
    with drillcore.open(path) as db:
        t = db.create_table("t", SCHEMA, key="id", set="name", exist_ok=True)
        assert t.stats()["indexed_sets"] == {"all": True, "exceptions": 1, "rows_to_index": 0, "fault": None}
        assert answers(t) == before


def test_what_is_no_set_is_refused() -> None:
    with drillcore.open(":memory:") as db:
        t = table_without_index(db)
        plain = db.create_table("plain", SCHEMA, key="id", set_index=False)
        for table in (plain,):
            with pytest.raises(drillcore.InvalidArgumentError, match="no set column"):
                table.index_sets("a")
            with pytest.raises(drillcore.InvalidArgumentError, match="no set column"):
                table.index_all_sets()
            with pytest.raises(drillcore.InvalidArgumentError, match="no set column"):
                table.unindex_all_sets()
        with pytest.raises(drillcore.InvalidArgumentError, match=r"use index_all_sets\(\) for all sets"):
            t.index_sets()
        with pytest.raises(drillcore.InvalidArgumentError, match=r"use unindex_all_sets\(\) for all sets"):
            t.unindex_sets()
        with pytest.raises(drillcore.InvalidArgumentError, match="NULL"):
            t.index_sets(None)
        with pytest.raises(drillcore.Error):
            t.index_sets("a", 7)
        assert t.stats()["indexed_sets"] == {"all": False, "exceptions": 0, "rows_to_index": 0, "fault": None}
    with pytest.raises(drillcore.ClosedError):
        t.index_sets("a")
