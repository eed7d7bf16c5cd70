"""Stratified estimates: how often their intervals hold, and that estimators without strata do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("pyspark")

from drillcore.spark.strata import (  # noqa: E402
    Figure,
    Stratum,
    allocate_in_proportion,
    averages,
    counts,
    student,
    totals,
)

RUNS = 2_000
Estimator = Callable[[Sequence[Stratum], int, float], list[Figure]]


def population() -> list[tuple[Any, Any]]:
    """Three databases of other sizes, averages and shares of two groups; a tenth of the values is null."""
    source = np.random.default_rng(1)
    parts = []
    for rows, mean, share in ((20_000, 0.0, 0.5), (5_000, 40.0, 0.1), (900, -30.0, 0.9)):
        values = source.normal(mean, 10, rows)
        values[source.random(rows) < 0.1] = np.nan
        parts.append(((source.random(rows) < share).astype(np.int64), values))
    return parts


def coverage(estimator: Estimator, truth: Sequence[float], allocate: Any = allocate_in_proportion) -> float:
    """The share of runs whose intervals hold, over both groups, of 300 rows in all."""
    parts = population()
    sizes = [len(groups) for groups, _ in parts]
    held = 0
    for run in range(RUNS):
        source = np.random.default_rng(run)
        strata = []
        for (groups, values), n in zip(parts, allocate(300, sizes), strict=True):
            rows = source.choice(len(groups), n, replace=False)
            strata.append(Stratum(len(groups), groups[rows], values[rows]))
        figures = estimator(strata, 2, 0.95)
        held += sum(each.low <= true <= each.high for each, true in zip(figures, truth, strict=True))
    return held / RUNS / 2


def truths() -> dict[str, list[float]]:
    parts = population()
    groups = np.concatenate([each for each, _ in parts])
    values = np.concatenate([each for _, each in parts])
    return {
        "counts": [float((groups == at).sum()) for at in (0, 1)],
        "totals": [float(np.nansum(values[groups == at])) for at in (0, 1)],
        "averages": [float(np.nanmean(values[groups == at])) for at in (0, 1)],
    }


@pytest.mark.parametrize(("name", "estimator"), [("counts", counts), ("totals", totals), ("averages", averages)])
def test_intervals_hold_in_95_of_100_runs(name: str, estimator: Estimator) -> None:
    # A twin: as if all rows were of one part, of which as many were drawn from each.
    def alike(draws: int, sizes: Sequence[int]) -> list[int]:
        return [draws // len(sizes)] * len(sizes)

    def unweighted(strata: Sequence[Stratum], groups: int, confidence: float) -> list[Figure]:
        merged = Stratum(
            sum(each.rows for each in strata),
            np.concatenate([each.groups for each in strata]),
            np.concatenate([each.values for each in strata]),
        )
        return estimator([merged], groups, confidence)

    truth = truths()[name]
    assert 0.935 < coverage(estimator, truth) < 0.97
    assert coverage(unweighted, truth, alike) < 0.8
    # Drawn alike they hold as well, because each part counts for its rows.
    assert 0.93 < coverage(estimator, truth, alike) < 0.97


RARE = (0.9, 0.06, 0.03, 0.007, 0.003)
"""The shares of groups of which 270, 18, 9, 2 and 1 rows are drawn on average."""


def test_intervals_of_groups_of_which_few_rows_are_drawn_hold() -> None:
    """Of the runs in which a row of the group is drawn. A group with a single value has no end."""
    source = np.random.default_rng(5)
    sizes = [20_000, 5_000, 900, 3, 1]
    parts = [
        (source.choice(len(RARE), rows, p=RARE), source.normal(mean, 10, rows))
        for rows, mean in zip(sizes, (0, 40, -30, 0, 0), strict=True)
    ]
    truth = [np.concatenate([values[groups == at] for groups, values in parts]).mean() for at in range(len(RARE))]
    met, held, twin = np.zeros(len(RARE)), np.zeros(len(RARE)), np.zeros(len(RARE))
    for run in range(RUNS):
        source = np.random.default_rng(run)
        strata = []
        for (groups, values), n in zip(parts, allocate_in_proportion(300, sizes), strict=True):
            rows = source.choice(len(groups), n, replace=False)
            strata.append(Stratum(len(groups), groups[rows], values[rows]))
        for at, each in enumerate(averages(strata, len(RARE), 0.95)):
            met[at] += each.drawn > 0
            held[at] += each.drawn > 0 and each.low <= truth[at] <= each.high
            if each.drawn == 1:
                assert each.low == -math.inf and each.high == math.inf
            # The twin has the degrees of freedom of all rows drawn, and its variance is over all of them.
            narrowed = each.drawn > 1 and abs(each.value - truth[at]) <= (each.high - each.low) / 2 * 1.96 / student(
                0.95, each.drawn - 1
            ) * math.sqrt((each.drawn - 1) / each.drawn)
            twin[at] += narrowed
    assert all(0.93 < share < 0.985 for share in held / met), held / met
    assert all(share < 0.8 for share in (twin / met)[3:])


def test_what_was_drawn_whole_is_exact() -> None:
    strata = [
        Stratum(4, np.array([0, 0, 1, 1]), np.array([1.0, 2.0, np.nan, 5.0])),
        Stratum(1, np.array([1]), np.array([7.0])),
    ]
    assert [(each.value, each.low, each.high) for each in counts(strata, 2, 0.95)] == [(2, 2, 2), (3, 3, 3)]
    assert [(each.value, each.low, each.high) for each in totals(strata, 2, 0.95)] == [(3, 3, 3), (12, 12, 12)]
    assert [(each.value, each.low, each.high) for each in averages(strata, 2, 0.95)] == [(1.5, 1.5, 1.5), (6, 6, 6)]


def test_a_group_without_values_has_no_average() -> None:
    strata = [Stratum(100, np.array([0, 1]), np.array([np.nan, 2.0]))]
    nothing, one = averages(strata, 2, 0.95)
    assert math.isnan(nothing.value) and nothing.low == -math.inf and nothing.high == math.inf
    # One value says nothing of how far others are from it, and none nothing of their sum.
    assert (one.value, one.low, one.high) == (2.0, -math.inf, math.inf)
    assert [each.high for each in totals(strata, 2, 0.95)] == [math.inf, math.inf]


def test_parts_are_drawn_in_proportion_and_no_part_is_left_out() -> None:
    sizes = [10, 1_000_000, 1, 0, 3_000_000]
    drawn = allocate_in_proportion(1_000, sizes)
    assert drawn[:4] == [2, 250, 1, 0] and drawn[4] == 750


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 30, 1e6])
def test_students_half_width_is_the_known_one(degrees: float) -> None:
    known = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 7: 2.365, 30: 2.042, 1e6: NormalDist().inv_cdf(0.975)}
    assert student(0.95, degrees) == pytest.approx(known[degrees], abs=6e-4)
