"""Rows that expire, as Python sees them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import drillcore

NOW = datetime.now(timezone.utc)


def table(db: drillcore.Database, **options: Any) -> drillcore.Table:
    schema = {"ts": "timestamp[us, UTC]", "id": "int64", "carrier": "string"}
    return db.create_table("t", schema, **{"key": ["ts", "id"], "set": "carrier", **options})


def rows() -> list[dict[str, Any]]:
    """One row for each of the last 48 hours, the newest half an hour old."""
    times = [NOW - timedelta(hours=hour, minutes=30) for hour in range(48)]
    return [{"ts": at, "id": n, "carrier": "AB"[n % 2]} for n, at in enumerate(times)]


@pytest.mark.parametrize("options", [{}, {"key": "id"}, {"key": "id", "merge": "upsert"}])
def test_rows_expire_and_never_come_back(options: dict[str, Any]) -> None:
    db = drillcore.open(":memory:")
    t = table(db, ttl=("ts", "1d"), **options)
    t.append(rows())
    before = db.snapshot()
    assert t.ttl == ("ts", timedelta(days=1))
    assert t.count() == 24
    assert dict(t.sets()) == {"A": 12, "B": 12}
    assert db.sql("select count(*) as n, max(id) as oldest from t").arrow().to_pylist() == [{"n": 24, "oldest": 23}]
    t.set_ttl("ts", timedelta(hours=12))
    assert t.count() == len(t.scan().arrow()) == 12
    t.set_ttl("ts", 7 * 86_400)
    assert t.count() == 12
    t.set_ttl(None)
    assert (t.ttl, t.count(), t.estimate("count", n=10).value) == (None, 12, 12)
    assert before.table("t").count() == 24
    t.append(rows()[40:])
    assert t.count() == 20


def test_an_expired_row_is_no_row_to_get_or_update() -> None:
    t = table(drillcore.open(":memory:"), key="id", merge="upsert", ttl=("ts", "1d"))
    t.append(rows())
    assert t.get(3) is not None
    assert t.get(30) is None
    with pytest.raises(drillcore.NotFoundError, match="no row has the key"):
        t.update([{"id": 30, "carrier": "C"}])
    assert t.update([{"id": 30, "carrier": "C"}], missing="skip").rows == 0


def test_the_table_shows_how_long_it_keeps_its_rows() -> None:
    t = table(drillcore.open(":memory:"), ttl=("ts", "36h"))
    assert "ttl=('ts', '1d 12h')" in repr(t)


@pytest.mark.parametrize(
    ("ttl", "error", "says"),
    [
        ("7d", drillcore.InvalidTypeError, "expected a column and a time"),
        (("ts",), drillcore.InvalidTypeError, "expected a column and a time"),
        (("ts", None), drillcore.InvalidTypeError, "expected a time"),
        (("ts", True), drillcore.InvalidTypeError, "expected a time"),
        (("ts", 0), drillcore.InvalidArgumentError, "at least one second"),
        (("ts", -1), drillcore.InvalidArgumentError, "at least one second"),
        (("ts", float("nan")), drillcore.InvalidArgumentError, "seconds up to 9223372036, not nan"),
        (("ts", float("inf")), drillcore.InvalidArgumentError, "seconds up to 9223372036, not inf"),
        (("ts", 1.5), drillcore.InvalidArgumentError, "whole number of seconds"),
        (("ts", "soon"), drillcore.InvalidArgumentError, "not a length of time"),
        (("ts", "1y"), drillcore.InvalidArgumentError, "months and years .* use days, such as 365d"),
        (("ts", "2 months"), drillcore.InvalidArgumentError, "use days, such as 30d"),
        (("ts", "0s"), drillcore.InvalidArgumentError, "whole number of seconds"),
        (("id", "7d"), drillcore.InvalidArgumentError, "needs a timestamp or date column"),
        (("nowhere", "7d"), drillcore.NotFoundError, "nowhere"),
    ],
)
def test_what_is_no_time_to_live_is_refused(ttl: Any, error: type[Exception], says: str) -> None:
    db = drillcore.open(":memory:")
    with pytest.raises(error, match=says):
        table(db, ttl=ttl)
    assert db.tables() == []
    t = table(db)
    if isinstance(ttl, tuple) and len(ttl) == 2:
        with pytest.raises(error, match=says):
            t.set_ttl(*ttl)
    with pytest.raises(drillcore.InvalidArgumentError, match="neither a column nor a time"):
        t.set_ttl(None, "7d")
    assert t.ttl is None


def test_a_reader_cannot_set_it_and_sees_what_is_left(tmp_path: Any) -> None:
    db = drillcore.open(tmp_path / "db")
    t = table(db)
    t.append(rows())
    reader = drillcore.open(tmp_path / "db", read_only=True)
    assert reader.table("t").count() == 48
    with pytest.raises(drillcore.ReadOnlyError):
        reader.table("t").set_ttl("ts", "1d")
    t.set_ttl("ts", "1d")
    reader.refresh()
    assert reader.table("t").count() == 24
    assert reader.table("t").ttl == ("ts", timedelta(days=1))


@pytest.mark.parametrize("key", ["day", "id"])
def test_a_date_expires_at_the_end_of_its_day(key: str) -> None:
    t = drillcore.open(":memory:").create_table("t", {"day": "date32", "id": "int64"}, key=key, ttl=("day", "1d"))
    today = datetime.now(timezone.utc).date()
    t.append([{"day": today - timedelta(days=n), "id": n} for n in range(5)])
    # The test may run over midnight.
    assert t.count() in (2, 1)
    assert max(row["id"] for row in t.scan().arrow().to_pylist()) in (1, 0)


def test_snapshots_beside_appends_and_expiry_agree_with_themselves(tmp_path: Any) -> None:
    db = drillcore.open(tmp_path / "db")
    t = table(db, key="id", ttl=("ts", "5s"))
    for batch in range(30):
        now = datetime.now(timezone.utc)
        times = [now - timedelta(seconds=n / 100) for n in range(1_000)]
        t.append([{"ts": at, "id": batch * 1_000 + n, "carrier": "AB"[n % 2]} for n, at in enumerate(times)])
        if batch % 7 == 3:
            db.flush()
        with db.snapshot() as snapshot:
            shown = snapshot.table("t")
            count = shown.count()
            assert count == sum(rows for _, rows in shown.sets()) == len(shown.scan().arrow())
            oldest = min(row["ts"] for row in shown.scan(columns=["ts"]).arrow().to_pylist())
            assert oldest > now - timedelta(seconds=6)
            assert len(shown.sample(count).arrow()) == count
