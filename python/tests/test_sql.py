"""Conditions and queries through the Python face."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import drillcore

N = 5_000


@pytest.fixture
def db() -> Iterator[drillcore.Database]:
    with drillcore.open(":memory:") as database:
        yield database


@pytest.fixture
def events(db: drillcore.Database) -> drillcore.Table:
    schema = pa.schema(
        {
            "at": pa.timestamp("us", tz="UTC"),
            "site": pa.string(),
            "load": pa.float64(),
            "hits": pa.int64(),
            "ok": pa.bool_(),
        }
    )
    table = db.create_table("events", schema, key=["at", "site"], set="site", weights="hits")
    rng = np.random.default_rng(3)
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    data = pa.table(
        {
            "at": pa.array([start + dt.timedelta(minutes=int(m)) for m in range(N)], pa.timestamp("us", tz="UTC")),
            "site": pa.array([f"s{i % 7}" for i in range(N)]),
            "load": pa.array(rng.normal(10, 3, N), mask=rng.random(N) < 0.1),
            "hits": pa.array(rng.integers(1, 9, N)),
            "ok": pa.array(rng.random(N) < 0.8),
        },
        schema=schema,
    )
    for part in range(0, N, 1250):
        table.append(data.slice(part, 1250))
    return table


CONDITIONS = [
    ("load > 12", lambda t: pc.greater(t["load"], 12)),
    ("load is null", lambda t: pc.is_null(t["load"])),
    ("ok and hits in (1, 2, 3)", lambda t: pc.and_(t["ok"], pc.is_in(t["hits"], pa.array([1, 2, 3])))),
    (
        "at >= '2024-01-02' and at < timestamp '2024-01-03 00:00:00' and not ok",
        lambda t: pc.and_(
            pc.and_(
                pc.greater_equal(t["at"], pa.scalar(dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc))),
                pc.less(t["at"], pa.scalar(dt.datetime(2024, 1, 3, tzinfo=dt.timezone.utc))),
            ),
            pc.invert(t["ok"]),
        ),
    ),
    (
        "site in ('s1', 's4') and load > 10",
        lambda t: pc.and_(pc.is_in(t["site"], pa.array(["s1", "s4"])), pc.greater(t["load"], 10)),
    ),
    ("site like '%3'", lambda t: pc.match_like(t["site"], "%3")),
    ("abs(load - 10) < 0.5 and extract(hour from at) = 5", None),
    ("1 = 0", lambda t: pa.array([False] * N)),
]


@pytest.mark.parametrize(("where", "mask"), CONDITIONS, ids=[where for where, _ in CONDITIONS])
def test_every_read_shows_the_rows_that_pass(events: drillcore.Table, where: str, mask) -> None:
    everything = events.scan().arrow()
    if mask is None:
        close = pc.less(pc.abs(pc.subtract(everything["load"], 10)), 0.5)
        expected = everything.filter(pc.and_(close, pc.equal(pc.hour(everything["at"]), 5)))
    else:
        expected = everything.filter(mask(everything))
    assert events.scan(where=where).arrow().equals(expected)
    assert events.count(where=where) == expected.num_rows
    reverse = events.scan(where=where, reverse=True, limit=3, columns=["hits"]).arrow()
    assert reverse["hits"].to_pylist() == expected["hits"].to_pylist()[::-1][:3]
    drawn = events.sample(N, where=where, at_most=True).arrow()
    assert drawn.sort_by([("at", "ascending"), ("site", "ascending")]).equals(expected)
    if expected.num_rows >= 5:
        few = events.sample(5, where=where, weight="hits", seed=1)
        assert len(few) == 5
        assert set(map(str, few.arrow().to_pylist())) <= set(map(str, expected.to_pylist()))
        estimate = events.estimate("count", where=where, n=N)
        assert (estimate.value, estimate.exact) == (expected.num_rows, True)


def test_a_sample_tells_what_it_took(events: drillcore.Table) -> None:
    easy = events.sample(50, where="ok", seed=1).sampling
    assert easy is not None
    assert not easy.resolved
    assert 50 <= easy.attempts <= 800
    hard = events.sample(50, where="load > 16.5", at_most=True, seed=1).sampling
    assert hard is not None
    assert hard.resolved
    assert events.scan().sampling is None


def test_conditions_join_ranges_and_sets(events: drillcore.Table) -> None:
    low, high = dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc), dt.datetime(2024, 1, 3, tzinfo=dt.timezone.utc)
    found = events.scan(between=(low, high), set=["s1", "s2"], where="load > 10 and site <> 's2'").arrow()
    expected = events.scan(where=f"load > 10 and site = 's1' and at between '{low}' and '{high}'").arrow()
    assert found.num_rows > 0
    assert found.equals(expected)
    # A range in the wrong order is a mistake as an argument, and an empty one in a condition.
    assert events.count(where=f"at > '{high}' and at < '{low}'") == 0


def test_estimates_count_what_fails_as_drawn(events: drillcore.Table) -> None:
    truth = pc.mean(events.scan(where="ok").arrow()["load"]).as_py()
    mean = events.estimate("avg(load)", where="ok", n=1_000, seed=5)
    assert mean.sampled == 1_000
    assert mean.population == N
    assert mean.low < truth < mean.high
    grouped = events.estimate(["count", "avg(load)"], by="site", where="hits > 4", error="10%", seed=5).df()
    assert len(grouped) == 7


def test_queries_come_out_in_every_form(db: drillcore.Database, events: drillcore.Table) -> None:
    query = "select site, count(*) as n, avg(load) as load from events where ok group by site order by site"
    frame = db.sql(query).df()
    assert isinstance(frame, pd.DataFrame)
    assert frame["n"].sum() == events.count(where="ok")
    assert isinstance(db.sql(query).pl(), pl.DataFrame)
    assert sum(batch.num_rows for batch in db.sql(query).batches()) == 7
    assert pa.table(db.sql(query)).num_rows == 7
    with db.snapshot() as snapshot:
        events.append(events.scan(limit=10).arrow())
        assert snapshot.sql("select count(*) from events").arrow()[0][0].as_py() == N
    with pytest.raises(drillcore.ClosedError):
        snapshot.sql("select 1")
    rows = db.sql("select * from events")
    assert rows.arrow().num_rows == N + 10
    with pytest.raises(drillcore.StreamConsumedError):
        rows.arrow()


def test_a_query_samples_what_the_where_leaves(db: drillcore.Database, events: drillcore.Table) -> None:
    text = "select * from events tablesample (40 rows) repeatable (3) where load > 12 and site = 's3'"
    drawn = db.sql(text).arrow()
    assert drawn.num_rows == 40
    assert pc.min(drawn["load"]).as_py() > 12
    assert set(drawn["site"].to_pylist()) == {"s3"}
    assert db.sql(text).arrow().equals(drawn)
    assert db.sql("select * from sample('events', 25)").arrow().num_rows == 25
    plan = "\n".join(db.sql("explain format indent " + text).arrow()["plan"].to_pylist())
    assert "sets=[site = 's3']" in plan
    assert "sample=40 rows" in plan


def test_readers_answer_queries_too(tmp_path) -> None:
    with drillcore.open(tmp_path / "r.drill") as db:
        db.create_table("t", {"id": "int64"}, key="id").append([{"id": i} for i in range(10)])
        with drillcore.open(tmp_path / "r.drill", read_only=True) as reader:
            assert reader.sql("select count(*) as n from t where id > 3").arrow().to_pylist() == [{"n": 6}]
            assert reader.table("t").count(where="id % 2 = 0") == 5


def test_wrong_conditions_and_queries_are_named(db: drillcore.Database, events: drillcore.Table) -> None:
    with pytest.raises(drillcore.NotFoundError, match='did you mean "load"'):
        events.scan(where="laod > 3")
    with pytest.raises(KeyError, match='did you mean "events"'):
        db.sql("select * from evnets").arrow()
    with pytest.raises(drillcore.InvalidArgumentError, match="true or false"):
        events.count(where="load + 1")
    with pytest.raises(ValueError, match="invalid SQL"):
        events.sample(1, where="load >")
    with pytest.raises(TypeError, match="where"):
        events.estimate("count", where=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="query"):
        db.sql(None)  # type: ignore[arg-type]
    with pytest.raises(drillcore.InvalidArgumentError, match="threads"):
        db.sql("select 1", threads=0)
    with pytest.raises(drillcore.InvalidArgumentError, match="create_table"):
        db.sql("create table x (a int)")
    with pytest.raises(drillcore.NotFoundError, match="write hits without events"):
        events.count(where="events.hits > 3")
    with pytest.raises(drillcore.NotFoundError, match="Use single quotes for strings"):
        events.count(where='site = "s1"')
    with pytest.raises(drillcore.NotFoundError, match='did you mean "length"'):
        events.count(where="lenght(site) = 2")
    with pytest.raises(drillcore.InvalidArgumentError, match=r"^no function matches sum\(string\); use sum\(Decimal\)"):
        db.sql("select sum(site) from events")
    with pytest.raises(drillcore.InvalidArgumentError, match="HAVING"):
        db.sql("select site from events where sum(hits) > 3 group by site")
    with pytest.raises(drillcore.InvalidArgumentError, match="zero"):
        db.sql("select 1 / (hits - hits) from events").arrow()
    assert events.count() == N


def test_whole_numbers_never_wrap(db: drillcore.Database) -> None:
    most = 2**63 - 1
    table = db.create_table("numbers", {"id": "int64", "x": "int64"}, key="id")
    table.append([{"id": i, "x": x} for i, x in enumerate([most, most, -most, -5])])
    assert db.sql("select sum(x) as s from numbers").arrow()["s"].to_pylist() == [most - 5]
    for query in ["select sum(x) from numbers where id < 2", "select x * 2 from numbers", "select -x - 5 from numbers"]:
        with pytest.raises(OverflowError, match=r"does not fit a 64-bit integer; .*decimal"):
            db.sql(query).arrow()
    with pytest.raises(drillcore.OutOfRangeError, match=r"x \+ 1: 9223372036854775807 \+ 1 does not fit"):
        table.count(where="x + 1 > 0")
    wide = db.sql("select sum(cast(x as decimal(38, 0))) as s from numbers where id < 2").arrow()
    assert wide["s"].to_pylist() == [2 * most]


def test_times_of_all_years_are_compared(db: drillcore.Database) -> None:
    table = db.create_table("events", {"at": pa.timestamp("us", tz="UTC")}, key="at")
    years = [1, 1400, 1900, 2300, 9999]
    table.append([{"at": dt.datetime(year, 1, 1, tzinfo=dt.timezone.utc)} for year in years])
    for year in years:
        later = [other for other in years if other > year]
        for time in [f"'{year:04}-01-01'", f"timestamp '{year:04}-01-01'", f"date '{year:04}-01-01'"]:
            assert table.count(where=f"at > {time}") == len(later)
            found = db.sql(f"select at from events where {time} < at").arrow()
            assert [at.year for at in found["at"].to_pylist()] == later
    with pytest.raises(drillcore.OutOfRangeError, match=r"timestamp\(6\)"):
        db.sql("select timestamp '1400-01-01'").arrow()
