"""Lazy frames of polars read what a query needs, and give what polars gives of the whole table."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

import drillcore
from drillcore.export.lazy import pushed_condition

pl = pytest.importorskip("polars")
UTC = dt.timezone.utc
START = dt.datetime(2013, 7, 1, tzinfo=UTC)


@pytest.fixture
def t(database: drillcore.Database) -> drillcore.Table:
    n = 3000
    rows = pa.table(
        {
            "id": range(n),
            "name": [[f"n{i % 5}", "o'x", None][min(i % 7, 2) if i % 7 > 4 else 0] for i in range(n)],
            "x": [float("nan") if i % 11 == 0 else None if i % 13 == 0 else i / 8 - 100 for i in range(n)],
            "ok": [[True, False, None][i % 3] for i in range(n)],
            "day": pa.array([15_887 + i % 40 for i in range(n)], pa.int32()).cast(pa.date32()),
            "at": pa.array([START + dt.timedelta(minutes=i) for i in range(n)], pa.timestamp("ms", "UTC")),
            "local": pa.array([dt.datetime(2013, 7, 1) + dt.timedelta(seconds=i) for i in range(n)], pa.timestamp("s")),
            "small": pa.array([i % 100 for i in range(n)], pa.int8()),
        }
    )
    table = database.create_table("t", rows.schema, key="id", set="name")
    table.append(rows)
    return table


def c(name: str) -> Any:
    return pl.col(name)


CONDITIONS = {
    "id": (lambda: (c("id") >= 10) & (c("id") < 20), '"id" >= 10 and "id" < 20'),
    "a literal before a column": (lambda: pl.lit(2990) < c("id"), '"id" > 2990'),
    "a text": (lambda: c("name") == "o'x", "\"name\" = 'o''x'"),
    "a list": (lambda: c("name").is_in(["n1", "n2"]), "\"name\" in ('n1', 'n2')"),
    "between": (lambda: c("id").is_between(5, 7, closed="left"), '("id" >= 5 and "id" < 7)'),
    "null": (lambda: c("name").is_null(), '"name" is null'),
    "not null": (lambda: c("x").is_not_null(), '"x" is not null'),
    "a float": (lambda: c("x") > 20.5, '"x" > 20.5'),
    "a float below": (lambda: c("x") <= -99.5, '"x" <= -99.5'),
    "or": (lambda: (c("id") < 3) | (c("name") == "n4"), '("id" < 3 or "name" = \'n4\')'),
    "not": (lambda: ~(c("ok") & (c("id") > 5)), None),
    "a flag": (lambda: c("ok"), '"ok"'),
    "a date": (lambda: c("day") == dt.date(2013, 7, 4), "\"day\" = date '2013-07-04'"),
    "a moment": (
        lambda: c("at") >= dt.datetime(2013, 7, 3, tzinfo=UTC),
        "\"at\" >= '2013-07-03T00:00:00+00:00'",
    ),
    "a clock": (lambda: c("local") < dt.datetime(2013, 7, 1, 0, 0, 9), "\"local\" < '2013-07-01T00:00:09'"),
    "a finer clock": (lambda: c("local") < dt.datetime(2013, 7, 1, 0, 0, 9, 500_000), None),
    "a part": (lambda: (c("id") < 50) & (c("name").str.ends_with("1")), '"id" < 50'),
    "arithmetic": (lambda: c("id") + 1 > 2990, None),
    "another type": (lambda: c("id") > 2990.5, None),
    "small": (lambda: c("small") == 7, '"small" = 7'),
    "beyond small": (lambda: c("small").cast(pl.Int64) < 300, None),
    "never equal": (lambda: c("name") != "n0", "\"name\" <> 'n0'"),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_is_handed_on_and_changes_no_answer(t: drillcore.Table, name: str) -> None:
    make, wanted = CONDITIONS[name]
    condition = make()
    whole = t.scan().pl()
    assert t.lazy().filter(condition).collect().equals(whole.filter(condition), null_equal=True)
    pushed = pushed_condition(condition, t.schema)
    if wanted is not None:
        assert pushed == wanted
    if pushed is not None:
        # It leaves no row out that the condition takes.
        kept = set(t.scan(where=pushed).pl()["id"])
        assert set(whole.filter(condition)["id"]) <= kept


def test_random_queries_give_what_polars_gives_of_the_whole(t: drillcore.Table) -> None:
    whole = t.scan().pl()
    for seed in range(60):
        rng = random.Random(seed)
        parts = [CONDITIONS[name][0]() for name in rng.sample(sorted(CONDITIONS), rng.randint(1, 3))]
        columns = rng.sample(whole.columns, rng.randint(1, 4))

        def asked(frame: Any, parts: Any = parts, columns: Any = columns, rng_seed: int = seed) -> Any:
            if rng_seed % 3 == 0:
                frame = frame.head(500)
            for part in parts:
                frame = frame.filter(part)
            return frame.select(columns).head(40)

        assert asked(t.lazy()).collect().equals(asked(whole), null_equal=True), f"seed {seed}"


class Spy:
    """A native snapshot that says what was asked of it."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.asked: list[tuple[Any, ...]] = []

    def scan(self, asked: Any, columns: Any, limit: Any, *rest: Any) -> Any:
        self.asked.append((asked["where"], columns, limit))
        return self.native.scan(asked, columns, limit, *rest)


def test_columns_rows_and_conditions_reach_the_scan(t: drillcore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(t._pin())
    monkeypatch.setattr(drillcore.Table, "_pin", lambda _: spy)
    frame = t.lazy()
    assert spy.asked == []
    assert frame.select("x").collect().width == 1
    assert frame.head(3).collect().height == 3
    assert frame.filter(c("id") < 5).select("day").collect().height == 5
    assert frame.head(3).filter(c("id") > 0).collect().height == 2
    (_, x, _), (_, _, three), (below, both, _), (none, _, limited) = spy.asked
    assert (x, three, below, set(both), none, limited) == (["x"], 3, '"id" < 5', {"id", "day"}, None, 3)


def test_a_lazy_frame_is_of_one_moment(t: drillcore.Table) -> None:
    frame = t.lazy()
    t.append([{"id": 10_000}])
    assert frame.select(pl.len()).collect().item() == 3000
    assert t.lazy().select(pl.len()).collect().item() == 3001


def test_snapshots_and_empty_results_are_lazy_too(database: drillcore.Database, t: drillcore.Table) -> None:
    with database.snapshot() as snapshot:
        frame = snapshot.table("t").lazy()
        none = frame.filter(c("id") < 0).select("name", "at").collect()
    assert none.height == 0
    assert none.schema == t.scan().pl().select("name", "at").schema


@pytest.mark.parametrize("zone, year", [("Europe/Oslo", 1940), ("EET", 1975)])
def test_old_times_of_a_zone_are_the_moments_that_polars_means(
    database: drillcore.Database, zone: str, year: int
) -> None:
    moment = dt.datetime(year, 6, 1, tzinfo=UTC)
    t = database.create_table("old", {"id": "int64", "ts": f"timestamp[us, {zone}]"}, key="id")
    t.append([{"id": 1, "ts": moment}])
    literal = pl.lit(moment).dt.convert_time_zone(zone)
    listed = pl.Series([[moment]], dtype=pl.List(pl.Datetime("us", zone)))
    for condition in (
        c("ts") == literal,
        c("ts") >= literal,
        c("ts").is_between(literal, literal),
        c("ts").is_in([moment]),
        c("ts").is_in(listed),
        c("ts").is_in(listed.cast(pl.Array(pl.Datetime("us", zone), 1))),
    ):
        assert t.lazy().filter(condition).collect().height == 1, condition


def test_a_list_of_nanoseconds_is_not_rounded(database: drillcore.Database) -> None:
    t = database.create_table("fine", {"id": "int64", "ts": "timestamp[ns]"}, key="id")
    t.append(pl.DataFrame({"id": [1], "ts": pl.Series([1_600_000_000_000_000_123], dtype=pl.Datetime("ns"))}))
    condition = c("ts").is_in(t.scan().pl()["ts"].implode())
    assert pushed_condition(condition, t.schema) is None
    assert t.lazy().filter(condition).collect().height == 1
