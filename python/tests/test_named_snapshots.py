"""A snapshot with a name gives the same answers until it is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from events import event_rows, event_schema

import drillcore
from drillcore import Database, Snapshot, Table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "test.drill"


@pytest.fixture
def db(folder: Path) -> Iterator[Database]:
    with drillcore.open(folder) as database:
        events = database.create_table("events", event_schema(), key=["ts", "flight"], set="carrier")
        events.append(event_rows(0, 600))
        database.flush()
        events.append(event_rows(600, 1000))
        schema = {"id": "int64", "size": "int64"}
        sizes = database.create_table("sizes", schema, key="id", merge="upsert", weights="size")
        sizes.append([{"id": i, "size": 1 + i} for i in range(100)])
        yield database


def answers(snapshot: Snapshot) -> dict[str, Any]:
    """What one snapshot says, samples included."""
    events, sizes = snapshot.table("events"), snapshot.table("sizes")
    return {
        "lsn": snapshot.lsn,
        "rows": events.scan().arrow(),
        "sizes": sizes.scan().arrow(),
        "sets": list(events.sets()),
        "sample": events.sample(50, seed=9).arrow(),
        "of a set": events.sample(20, set=["UA", "DL"], seed=9).arrow(),
        "weighted": sizes.sample(20, weight="size", seed=9).arrow(),
        "of an upsert table": sizes.sample(20, seed=9).arrow(),
    }


def change(db: Database) -> None:
    """Every way in which the tables may move on."""
    db.table("events").append(event_rows(500, 1500))
    db.table("sizes").append([{"id": i, "size": 500 - i} for i in range(50, 150)])
    db.table("sizes").delete(range(20))
    db.compact()


def test_the_same_seed_draws_the_same_sample_after_merges_and_reopening(folder: Path, db: Database) -> None:
    with db.snapshot("training") as snapshot:
        first = answers(snapshot)
    change(db)
    assert answers(db.snapshot("training")) == first
    assert len(db.table("events")) == 2000
    db.close()
    for _ in range(2):
        with drillcore.open(folder) as again:
            assert answers(again.snapshot("training")) == first
            change(again)
            assert answers(again.snapshot("training")) == first
            again.verify()


def test_a_name_pins_what_is_there_at_its_first_call(db: Database) -> None:
    before = db.snapshot("before")
    lsn = db.table("events").append(event_rows(1000, 1100)).lsn
    assert len(before.table("events")) == len(db.snapshot("before").table("events")) == 1000
    after = db.snapshot("after")
    assert after.lsn >= lsn > before.lsn
    assert db.snapshots() == {"after": after.lsn, "before": before.lsn}
    assert list(db.snapshots()) == ["after", "before"]


def test_a_named_snapshot_keeps_a_table_that_is_dropped(folder: Path, db: Database) -> None:
    db.snapshot("kept")
    db.drop_table("events")
    db.close()
    with drillcore.open(folder) as again:
        assert again.tables() == ["sizes"]
        assert again.snapshot("kept").tables() == ["events", "sizes"]
        assert again.snapshot("kept").table("events").scan().arrow().equals(event_rows(0, 1000))


def test_closing_a_named_snapshot_does_not_drop_it(db: Database) -> None:
    with db.snapshot("kept") as snapshot:
        pinned = snapshot.table("events")
    with pytest.raises(drillcore.ClosedError):
        pinned.count()
    assert list(db.snapshots()) == ["kept"]
    assert len(db.snapshot("kept").table("events")) == 1000


def test_dropping_frees_the_name_and_the_files_but_not_what_is_open(folder: Path, db: Database) -> None:
    held = db.snapshot("kept")
    change(db)
    with_snapshot = segment_bytes(folder)
    db.drop_snapshot("kept")
    assert db.snapshots() == {}
    assert held.table("events").scan().arrow().equals(event_rows(0, 1000))
    held.close()
    del held
    again = db.snapshot("kept")
    assert len(again.table("events")) == 2000
    db.drop_snapshot("kept")
    again.close()
    del again
    db.compact()
    assert segment_bytes(folder) < with_snapshot


def segment_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.name.startswith("segment-"))


def test_a_database_in_memory_has_named_snapshots_while_it_lives() -> None:
    with drillcore.open(":memory:") as db:
        table: Table = db.create_table("t", {"id": "int64"}, key="id")
        table.append(pa.table({"id": range(100)}))
        drawn = db.snapshot("s").table("t").sample(10, seed=1).arrow()
        table.append(pa.table({"id": range(100)}))
        db.compact()
        assert db.snapshot("s").table("t").sample(10, seed=1).arrow().equals(drawn)


def test_mistakes_with_names_are_told(db: Database) -> None:
    db.snapshot("monday")
    with pytest.raises(drillcore.NotFoundError, match='did you mean "monday"') as caught:
        db.drop_snapshot("mondy")
    assert isinstance(caught.value, KeyError)
    with pytest.raises(drillcore.InvalidArgumentError, match="not a valid name of a snapshot"):
        db.snapshot("")
    for call in (db.snapshot, db.drop_snapshot):
        with pytest.raises(drillcore.InvalidTypeError, match="name"):
            call(7)  # type: ignore[arg-type]
    assert list(db.snapshots()) == ["monday"]


def test_a_closed_database_opens_no_named_snapshot(db: Database) -> None:
    pinned = db.snapshot("kept")
    db.close()
    for call in (lambda: db.snapshot("kept"), db.snapshots, lambda: db.drop_snapshot("kept")):
        with pytest.raises(drillcore.ClosedError, match="closed"):
            call()
    assert len(pinned.table("events")) == 1000
