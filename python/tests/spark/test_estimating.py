"""Estimates over several databases, through Spark: what they are of, how often they hold, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("pyspark")

import drillcore  # noqa: E402
from drillcore.spark import estimate, release  # noqa: E402
from drillcore.spark import estimating as estimating_module  # noqa: E402
from drillcore.spark.asking import one_by_one  # noqa: E402

SIZES = (20_000, 6_000, 1_500)
SCHEMA = {"id": "int64", "carrier": "string", "delay": "float64", "seats": "int32"}


def rows(at: int) -> pa.Table:
    """The databases have averages of 0, 30 and 60; one in nine rows has no delay."""
    source, n = np.random.default_rng(at), SIZES[at]
    delays = source.normal(30 * at, 10, n)
    carriers = np.array(["UA", "DL"])[(source.random(n) < 0.2 + 0.3 * at).astype(int)]
    return pa.table(
        {
            "id": pa.array(np.arange(n) + 100_000 * at),
            "carrier": pa.array(carriers),
            "delay": pa.array([None if i % 9 == 0 else float(delay) for i, delay in enumerate(delays)]),
            "seats": pa.array(source.integers(50, 300, n), pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Three databases, of which the first is open for writing."""
    folder = tmp_path_factory.mktemp("estimates")
    made = [str(folder / name) for name in ("a.drill", "b.drill", "c.drill")]
    opened = [drillcore.open(path) for path in made]
    for at, db in enumerate(opened):
        db.create_table("t", SCHEMA, key="id", set="carrier").append(rows(at))
        if at:
            db.close()
    yield made
    opened[0].close()


def everything() -> pa.Table:
    return pa.concat_tables([rows(at) for at in range(3)])


def test_an_estimate_is_of_all_databases(spark: Any, paths: list[str]) -> None:
    found = estimate(spark, paths, "t", ["avg(delay)", "sum(seats)", "count"], by="carrier", n=3_000, seed=1)
    expected = everything().group_by("carrier").aggregate([("delay", "mean"), ("seats", "sum"), ([], "count_all")])
    table = found.arrow()
    assert table.column("carrier").to_pylist() == ["DL", "UA"]
    assert (found.population, found.databases, found.strata) == (27_500, 3, 3)
    assert 3_000 <= found.sampled == sum(table.column("sampled").to_pylist()) < 3_010
    truth = {row["carrier"]: row for row in expected.to_pylist()}
    for row in table.to_pylist():
        true = truth[row["carrier"]]
        for name, value in {"avg(delay)": "delay_mean", "sum(seats)": "seats_sum", "count": "count_all"}.items():
            assert row[f"{name}_low"] <= true[value] <= row[f"{name}_high"]
            assert row[f"{name}_high"] - row[f"{name}_low"] < abs(true[value]) / 4
    text = repr(found)
    assert "3,0" in text and "of 27,500 rows drawn from 3 databases" in text and "DL avg(delay) = " in text


def test_parts_and_frames_are_estimated_at_their_moment(spark: Any, paths: list[str]) -> None:
    frame = spark.read.format("drillcore").options(path=",".join(paths), table="t").load()
    with drillcore.open(paths[2]) as db:
        db.table("t").append([{"id": 900_000, "carrier": "XX", "delay": 1e9, "seats": 1}])
    assert estimate(spark, frame, "t", "count", n=100).value == 27_500
    assert estimate(spark, paths, "t", "count", n=100).value == 27_501
    release(frame)
    with pytest.raises(drillcore.ClosedError, match=r"load\(\) it again"):
        estimate(spark, frame, "t", "count")
    only = estimate(spark, paths, "t", {"mean": "avg(delay)"}, set="UA", between=[100_000, 199_999], n=100_000)
    ua = [row["delay"] for row in rows(1).to_pylist() if row["carrier"] == "UA" and row["delay"] is not None]
    assert only.exact and only.value == pytest.approx(np.mean(ua)) and only.low == only.high
    late = estimate(spark, paths[:2], "t", "count", where="delay > 40", n=500)
    assert late.value == sum(1 for at in (0, 1) for row in rows(at).to_pylist() if (row["delay"] or 0) > 40)


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"where": "delay > 40"}, {}),
        ({"where": "delay > 40", "between": "[100000, null]", "set": '["UA", null]'}, {}),
        ({"between": "[100000, 200000]", "closed": "left"}, {"where": "seats < 100"}),
        ({"set": '"UA"'}, {"between": [None, 150_000], "closed": "right"}),
        ({"where": "delay > 40 or delay < 0"}, {"where": "seats < 100 or seats > 200"}),
    ],
    ids=str,
)
def test_the_selection_of_a_frame_is_that_of_its_estimate(
    spark: Any, paths: list[str], options: dict[str, str], given: dict[str, Any]
) -> None:
    """Beside one of the estimate itself: a row is estimated over if both select it."""
    reading = spark.read.format("drillcore").options(path=",".join(paths[:2]), table="t", **options)
    frame = reading.load()
    selected = frame
    if "where" in given:
        selected = selected.filter(given["where"])
    if "between" in given:
        selected = selected.filter("id <= 150000")
    expected = selected.count()
    assert 0 < expected < 26_000
    found = estimate(spark, frame, "t", ["count", "avg(seats)"], n=100_000, **given)
    assert found.population == expected and found.exact
    # Names do not make it another frame.
    frame.createOrReplaceTempView("selected")
    assert estimate(spark, spark.table("selected"), "t", "count", **given).value == expected
    release(frame)


def test_a_frame_that_is_not_one_of_load_is_refused(spark: Any, paths: list[str]) -> None:
    """An estimate reads the databases, so what Spark does behind them would not count."""
    reading = spark.read.format("drillcore").options(path=paths[0], table="t")
    frame, sampled = reading.load(), reading.option("sample", 10).load()
    chosen = spark.read.format("drillcore").options(path=paths[0], table="t", set='"UA"', between="[0, 9]").load()
    derived = [frame.filter("id < 3"), frame.limit(3), frame.union(frame), frame.select("id"), frame.sample(0.5)]
    # Its plan has nothing behind it that a name could not be around.
    derived.append(frame.filter("id < 3").localCheckpoint())
    for each in derived:
        with pytest.raises(drillcore.InvalidArgumentError, match=r"made of one that load\(\) returned .*select rows"):
            estimate(spark, each, "t", "count")
    with pytest.raises(drillcore.InvalidArgumentError, match="the frame is a sample"):
        estimate(spark, sampled, "t", "count")
    with pytest.raises(drillcore.InvalidArgumentError, match="set: the frame was loaded with another"):
        estimate(spark, chosen, "t", "count", set="DL")
    with pytest.raises(drillcore.InvalidArgumentError, match="between: the frame was loaded with another"):
        estimate(spark, chosen, "t", "count", between=[3, 4])
    with pytest.raises(drillcore.InvalidArgumentError, match="selects rows of 't', which says nothing of 'u'"):
        estimate(spark, chosen, "u", "count")
    for each in (frame, sampled, chosen):
        release(each)


def test_a_count_without_groups_is_known_and_no_estimate(spark: Any, paths: list[str]) -> None:
    found = estimate(spark, paths[:2], "t", ["count", "avg(seats)"], n=50, seed=2)
    (row,) = found.arrow().to_pylist()
    assert row["count"] == row["count_low"] == row["count_high"] == 26_000
    assert row["avg(seats)_low"] < row["avg(seats)"] < row["avg(seats)_high"] and not found.exact
    assert "count = 26,000  exact" in repr(found) and "avg(seats) = " in repr(found) and "%" in repr(found)
    assert found.unseen_share == 0 and "of which none" not in repr(found)


def test_the_share_of_the_groups_that_were_not_met_is_estimated(spark: Any, tmp_path: Path) -> None:
    """9 of 10 rows are of one group, the others of 100. H0: the mean of 20 estimates is the true share (5 sigma)."""
    paths = []
    for at in (0, 1):
        paths.append(str(tmp_path / f"{at}.drill"))
        with drillcore.open(paths[-1]) as db:
            ids = range(20_000 * at, 20_000 * at + 20_000)
            groups = [i % 1_000 if i % 10 == 0 else -1 for i in ids]
            db.create_table("t", {"id": "int64", "g": "int64"}, key="id").append(pa.table({"id": ids, "g": groups}))
    # Of 400 rows drawn, one in 100, a group of 40 rows is not met with probability 0.99**40, about 0.67.
    found = [estimate(spark, paths, "t", "count", by="g", n=400, seed=seed) for seed in range(20)]
    true = [1 - sum(40 if g >= 0 else 36_000 for g in one.arrow().column("g").to_pylist()) / 40_000 for one in found]
    differences = np.array([one.unseen_share for one in found]) - np.array(true)
    assert 0.01 < np.mean(true) < 0.1
    assert abs(differences.mean()) < 5 * differences.std() / np.sqrt(20)
    assert "of the rows are in groups of which none was drawn" in repr(found[0])
    assert estimate(spark, paths, "t", "count", by="g", n=40_000).unseen_share == 0


def test_the_set_without_a_name_is_asked_for_as_elsewhere(spark: Any, tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "a.drill") as db:
        t = db.create_table("t", {"id": "int64", "c": "string"}, key="id", set="c")
        t.append([{"id": i, "c": None if i % 4 == 0 else "UA"} for i in range(100)])
    for given, rows_there in ((None, 100), (drillcore.NULL, 25), ([None], 25), ([drillcore.NULL, "UA"], 100)):
        assert estimate(spark, tmp_path / "a.drill", "t", "count", set=given).value == rows_there


def test_intervals_hold_in_95_of_100_runs(
    spark: Any, paths: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """200 estimates of real splits; their tasks run here. The range is that of a coverage of 95 % at 1e-6 a side."""
    frame = spark.read.format("drillcore").options(path=",".join(paths), table="t", split_rows=4_000).load()
    monkeypatch.setattr(estimating_module, "on_cluster", one_by_one)
    truth = float(np.nanmean(everything().column("delay").to_numpy()))
    ends = [
        (found.low, found.high)
        for found in (
            estimate(spark, frame, "t", "avg(delay)", between=[None, 899_999], n=200, seed=seed, split_rows=4_000)
            for seed in range(200)
        )
    ]
    held = sum(low <= truth <= high for low, high in ends)
    assert 173 <= held <= 200
    # A twin with half the width.
    halved = [((3 * low + high) / 4, (low + 3 * high) / 4) for low, high in ends]
    assert sum(low <= truth <= high for low, high in halved) < 173
    release(frame)


BAD = [
    (
        {"aggregates": "median(delay)"},
        drillcore.UnsupportedError,
        r"count, sum\(column\) and avg\(column\), not 'median",
    ),
    ({"aggregates": "avg(dely)"}, drillcore.NotFoundError, 'did you mean "delay"'),
    ({"aggregates": "avg(carrier)"}, drillcore.InvalidArgumentError, "sums and averages need numbers"),
    ({"by": "carier"}, drillcore.NotFoundError, 'did you mean "carrier"'),
    ({"n": -1}, drillcore.InvalidArgumentError, "n: expected a number of at least 0, not -1"),
    ({"n": 0}, drillcore.InvalidArgumentError, "n: expected a number of at least 1"),
    ({"confidence": 95}, drillcore.InvalidArgumentError, "between 0 and 1"),
    ({"table": "u"}, drillcore.NotFoundError, r"a\.drill"),
    ({"paths": []}, drillcore.InvalidTypeError, "expected a directory or a list"),
    ({"spark": None}, drillcore.InvalidTypeError, "expected a classic Spark session"),
]


@pytest.mark.parametrize(("changed", "kind", "message"), BAD, ids=[str(changed) for changed, _, _ in BAD])
def test_bad_arguments_are_typed_errors(
    spark: Any, paths: list[str], changed: dict[str, Any], kind: type[Exception], message: str
) -> None:
    given = {"spark": spark, "paths": paths, "table": "t", "aggregates": "avg(delay)", **changed}
    with pytest.raises(kind, match=message):
        estimate(given.pop("spark"), given.pop("paths"), given.pop("table"), given.pop("aggregates"), **given)


def test_several_figures_have_no_single_value(spark: Any, paths: list[str]) -> None:
    with pytest.raises(drillcore.InvalidArgumentError, match="several aggregates or groups"):
        _ = estimate(spark, paths[:1], "t", ["count", "avg(delay)"], n=10).value
