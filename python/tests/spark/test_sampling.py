"""Samples of the union of three databases, one of which is being written: fair, exact and repeatable.

The null hypothesis of each chi-square test is that rows are drawn as documented; it is rejected at 1e-6. The twin draws
each split alike, and fails.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")

from fairness import ALPHA, chi_square, successive, upper_gamma

import drillcore
from drillcore.spark import release, sampling
from drillcore.spark.load import Load, open_load
from drillcore.spark.options import parse_read

SIZES = (250, 100, 50)
ROWS = sum(SIZES)
PASSING = {0: 8, 1: 5, 2: 4}
"""How many of ten rows of each database pass the condition, which no index answers."""


def rows(at: int) -> pa.Table:
    """The rows of a database: their weights are 0, 1, 2 and 3 in turn."""
    numbers = range(sum(SIZES[:at]), sum(SIZES[: at + 1]))
    return pa.table(
        {
            "id": pa.array(list(numbers)),
            "name": pa.array([f"of {at}"] * len(numbers)),
            "weight": pa.array([i % 4 for i in numbers]),
            "half": pa.array([i % 4 / 2 for i in numbers]),
            "x": pa.array([i % 10 < PASSING[at] for i in numbers]),
        }
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Three databases of 250, 100 and 50 rows with ids from 0, while a thread writes into the first, beyond them."""
    folder = tmp_path_factory.mktemp("three")
    made = [str(folder / name) for name in ("a.drill", "b.drill", "c.drill")]
    stop = threading.Event()
    opened = []
    for at, path in enumerate(made):
        db = drillcore.open(path)
        opened.append(db)
        t = db.create_table("t", rows(at).schema, key="id", set="name", weights=["weight", "half"])
        t.append(rows(at).slice(0, SIZES[at] // 2))
        db.flush()
        t.append(rows(at).slice(SIZES[at] // 2))
        if at:
            db.close()

    def write() -> None:
        t, number = opened[0].table("t"), 1_000_000
        while not stop.wait(0.02):
            t.append([{"id": number + i, "name": "later", "weight": 9, "half": 9.0, "x": True} for i in range(50)])
            number += 50
            if number % 1_000 == 0:
                opened[0].flush()

    writing = threading.Thread(target=write)
    writing.start()
    yield made
    stop.set()
    writing.join()
    opened[0].close()


def options(paths: Sequence[str], **more: Any) -> dict[str, str]:
    """Samples of the rows below 400, in splits of some 40 rows."""
    given = {"path": ",".join(paths), "table": "t", "split_rows": "40", "between": "[null, 399]", **more}
    return {name: str(value) for name, value in given.items()}


def by_spark(spark: Any, paths: Sequence[str], **more: Any) -> list[int]:
    frame = spark.read.format("drillcore").options(**options(paths, columns="id", **more)).load()
    ids = [row["id"] for row in frame.collect()]
    release(frame)
    return ids


def by_hand(load: Load) -> list[int]:
    """The same tasks, as a cluster runs them, but here and in another order."""
    tasks = [pickle.loads(pickle.dumps(task)) for task in reversed(load.plan([]))]
    return [each for task in tasks for batch in task.batches() for each in batch.column("id").to_pylist()]


def each_row(ids: Sequence[int], weights: Sequence[float]) -> float:
    """The chance of the tally of independent draws, each in proportion to its row's weight."""
    found, total = Counter(ids), sum(weights)
    return chi_square([found[i] for i in range(ROWS)], [len(ids) * weight / total for weight in weights])


def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: every split is drawn alike."""

    def allocate(draws: int, sizes: Sequence[int], seed: int) -> list[int]:
        return [draws // len(sizes) + (at < draws % len(sizes)) for at in range(len(sizes))]

    monkeypatch.setattr(sampling, "allocate_with_replacement", allocate)
    monkeypatch.setattr(sampling, "allocate_without_replacement", allocate)


WITH_REPLACEMENT: list[tuple[dict[str, Any], Callable[[int], float]]] = [
    ({}, lambda i: 1),
    ({"weight": "weight"}, lambda i: i % 4),
    ({"weight": "half"}, lambda i: i % 4),
    ({"where": "x"}, lambda i: passes(i)),
    ({"where": "x", "weight": "weight"}, lambda i: passes(i) * (i % 4)),
    ({"set": '["of 0", "of 2"]'}, lambda i: not SIZES[0] <= i < SIZES[0] + SIZES[1]),
]


def passes(i: int) -> bool:
    return i % 10 < PASSING[owner(i)]


@pytest.mark.parametrize(("more", "weight"), WITH_REPLACEMENT, ids=[str(more) for more, _ in WITH_REPLACEMENT])
def test_draws_with_replacement_are_in_proportion_over_the_union(
    spark: Any, paths: list[str], more: dict[str, Any], weight: Callable[[int], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = [float(weight(i)) for i in range(ROWS)]
    drawn = by_spark(spark, paths, sample=40_000, seed=11, replace=True, **more)
    assert len(drawn) == 40_000
    assert each_row(drawn, weights) > ALPHA
    # The databases have other sizes, shares and weights, so the twin is far off.
    alike(monkeypatch)
    assert each_row(by_spark(spark, paths, sample=40_000, seed=11, replace=True, **more), weights) < ALPHA


@pytest.mark.parametrize("where", [None, "x"])
def test_different_rows_are_each_drawn_equally_often(
    spark: Any, paths: list[str], where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often a row is in a sample varies by p (1 - p) per sample, and the tallies of a sample add up to n."""
    more = {"split_rows": 250} | ({} if where is None else {"where": where})
    population = [i for i in range(ROWS) if where is None or passes(i)]
    sizes = [sum(owner(i) == at for i in population) for at in range(3)]
    n = len(population) // 6

    def chance(runs: int) -> float:
        tally: Counter[int] = Counter()
        for seed in range(runs):
            ids = by_spark(spark, paths, sample=n, seed=seed, **more)
            assert len(set(ids)) == n == len(ids) and set(ids) <= set(population)
            tally.update(ids)
        share = n / len(population)
        # The sum over rows of squared deviations is chi-square with one degree less, after this factor.
        factor = (len(population) - 1) / len(population) / (1 - share)
        statistic = sum((tally[i] - runs * share) ** 2 / (runs * share) for i in population) * factor
        by_row = upper_gamma((len(population) - 1) / 2, statistic / 2)
        # So is that over databases.
        drawn = [sum(tally[i] for i in population if owner(i) == at) for at in range(3)]
        means = [runs * share * size for size in sizes]
        statistic = sum((each - mean) ** 2 / mean for each, mean in zip(drawn, means, strict=True)) * factor
        return min(by_row, upper_gamma(1, statistic / 2))

    assert chance(6) > ALPHA
    # The twin draws as many of the largest database as of the smallest.
    alike(monkeypatch)
    assert chance(2) < ALPHA


def owner(i: int) -> int:
    """The database of a row."""
    return 0 if i < SIZES[0] else 1 if i < SIZES[0] + SIZES[1] else 2


def test_rows_by_weight_without_replacement_are_successive_draws_from_the_union(spark: Any, tmp_path: Path) -> None:
    """Five rows in three databases, two drawn: the ten pairs, with their exact chances."""
    weights = [1, 8, 2, 4, 1]
    places = [[0, 1], [2], [3, 4]]
    made = []
    for at, ids in enumerate(places):
        made.append(str(tmp_path / f"{at}.drill"))
        with drillcore.open(made[at]) as db:
            t = db.create_table("t", {"id": "int64", "weight": "int64"}, key="id", weights="weight")
            t.append([{"id": i, "weight": weights[i]} for i in ids])
    given = {"path": ",".join(made), "table": "t", "columns": "id", "weight": "weight", "sample": "2"}
    load = open_load(parse_read({**given, "seed": "0"}))
    splits = [split for of_database in load.splits() for split in of_database]
    tally: Counter[frozenset[int]] = Counter()
    twin: Counter[frozenset[int]] = Counter()
    runs = 4_000
    for seed in range(runs):
        asked = parse_read({**given, "seed": str(seed)}).sample
        assert asked is not None
        tasks = sampling.sample_tasks(
            splits, ["id"], asked, 0, each=lambda f, many: [f(one) for one in many], is_plain=True
        )
        tally[frozenset(i for task in tasks for batch in task.batches() for i in batch.column("id").to_pylist())] += 1
        # The twin takes the first row of each of the first two splits.
        firsts = [
            split.sample(1, weight="weight", seed=seed + at, columns=["id"]) for at, split in enumerate(splits[:2])
        ]
        twin[frozenset(first.arrow().column("id")[0].as_py() for first in firsts)] += 1
    expected = successive(weights, 2)
    pairs = [pair for pair in expected if runs * expected[pair] >= 10]
    rest = runs - sum(runs * expected[pair] for pair in pairs)

    def chance(found: Counter[frozenset[int]]) -> float:
        others = runs - sum(found[pair] for pair in pairs)
        cells, means = [found[pair] for pair in pairs], [runs * expected[pair] for pair in pairs]
        return chi_square([*cells, others] if rest >= 5 else cells, [*means, rest] if rest >= 5 else means)

    assert chance(tally) > ALPHA
    assert chance(twin) < ALPHA
    # Through Spark they are the same rows.
    frame = spark.read.format("drillcore").options(**given, seed="3").load()
    asked = parse_read({**given, "seed": "3"}).sample
    assert asked is not None
    tasks = sampling.sample_tasks(
        splits, ["id"], asked, 0, each=lambda f, many: [f(one) for one in many], is_plain=True
    )
    here = {i for task in tasks for batch in task.batches() for i in batch.column("id").to_pylist()}
    assert {row["id"] for row in frame.collect()} == here
    release(frame)
    load.close()


@pytest.mark.parametrize(
    "more", [{}, {"weight": "weight"}, {"weight": "half", "replace": True}, {"where": "x"}], ids=str
)
def test_the_same_seed_draws_the_same_rows_wherever_tasks_run(
    spark: Any, paths: list[str], more: dict[str, Any]
) -> None:
    """Splits depend on the moment, so this compares the tasks of one load: on the cluster, again, and here."""
    frame = spark.read.format("drillcore").options(**options(paths, columns="id", sample=60, seed=5, **more)).load()
    first = sorted(row["id"] for row in frame.collect())
    assert len(first) == 60
    assert sorted(row["id"] for row in frame.collect()) == first
    from drillcore.spark.driver import driver
    from drillcore.spark.releasing import loads_of

    (name,) = loads_of(frame)
    assert sorted(by_hand(driver().load(name))) == first
    other = spark.read.format("drillcore").options(**options(paths, columns="id", sample=60, seed=6, **more)).load()
    assert sorted(row["id"] for row in other.collect()) != first
    release(other)
    release(frame)


def test_a_task_that_is_lost_draws_the_same_rows_again(spark: Any, paths: list[str], tmp_path: Path) -> None:
    mark = str(tmp_path / "lost")

    def lose(batches: Any) -> Any:
        import pyspark

        for batch in batches:
            yield batch
            if pyspark.TaskContext.get().partitionId() == 1 and not os.path.exists(mark):
                Path(mark).touch()
                os._exit(1)

    frame = spark.read.format("drillcore").options(**options(paths, columns="id", sample=200, seed=5)).load()
    whole = sorted(row["id"] for row in frame.collect())
    again = sorted(row["id"] for row in frame.mapInArrow(lose, frame.schema).collect())
    assert os.path.exists(mark) and again == whole
    release(frame)


def test_without_a_seed_all_actions_see_the_same_rows_and_loads_others(spark: Any, paths: list[str]) -> None:
    frame = spark.read.format("drillcore").options(**options(paths, columns="id", sample=50)).load()
    drawn = sorted(row["id"] for row in frame.collect())
    assert sorted(row["id"] for row in frame.filter("id >= 0").collect()) == drawn
    assert sorted(by_spark(spark, paths, sample=50)) != drawn
    release(frame)


def test_too_few_rows_are_an_error_or_all_there_are(spark: Any, paths: list[str]) -> None:
    assert sorted(by_spark(spark, paths, sample=1_000, at_most=True)) == list(range(ROWS))
    weighted = by_spark(spark, paths, sample=1_000, at_most=True, weight="weight")
    assert sorted(weighted) == [i for i in range(ROWS) if i % 4]
    assert by_spark(spark, paths, sample=0) == []
    for more, message in [
        ({"sample": 401}, "401 rows were requested, and 400 are there"),
        ({"sample": 301, "weight": "weight"}, "301 rows were requested, and 300 have a weight above 0"),
        ({"sample": 5, "where": "id < 0"}, "5 rows were requested, and 0 are there"),
        ({"sample": 5, "where": "id < 0", "replace": True}, "5 rows were requested of none"),
    ]:
        with pytest.raises(Exception, match=f"TooFewRowsError: {message}"):
            by_spark(spark, paths, **more)


def test_upsert_and_rollup_tables_are_drawn_by_what_they_show(spark: Any, tmp_path: Path) -> None:
    """Replaced versions are never drawn, and folded rows by their events."""
    made = [str(tmp_path / name) for name in ("a.drill", "b.drill")]
    for at, path in enumerate(made):
        with drillcore.open(path) as db:
            t = db.create_table("t", {"id": "int64", "version": "int64"}, key="id", merge="upsert")
            for version in range(3):
                t.append([{"id": 100 * at + i, "version": version} for i in range(40 if at else 10)])
            rollup = {"metrics": {"n": "count"}}
            r = db.create_table("r", {"id": "int64"}, key="id", merge="rollup", rollup=rollup)
            r.append([{"id": 10 * at + i} for i in range(4) for _ in range(1 + i * (1 + at))])
    base = {"path": ",".join(made), "split_rows": "7"}
    frame = spark.read.format("drillcore").options(**base, table="t", sample="20000", replace="true", seed="1").load()
    drawn = frame.collect()
    assert {row["version"] for row in drawn} == {2}
    found = Counter(row["id"] for row in drawn)
    assert chi_square([found[i] for i in [*range(10), *range(100, 140)]], [400] * 50) > ALPHA
    release(frame)
    frame = spark.read.format("drillcore").options(**base, table="r", sample="20000", replace="true", seed="1").load()
    events = {10 * at + i: 1 + i * (1 + at) for at in range(2) for i in range(4)}
    found = Counter(row["id"] for row in frame.collect())
    total = sum(events.values())
    assert chi_square([found[i] for i in events], [20_000 * n / total for n in events.values()]) > ALPHA
    release(frame)
