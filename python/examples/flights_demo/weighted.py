"""Flights drawn by distance: what a weight does to a sample, against what it must do.

A draw with weight d from rows with distances d has the mean E[d²]/E[d]: each row counts by its distance twice,
once for being drawn and once for its value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import drillcore
from flights_demo.answers import check, duration_text, timed
from flights_demo.flights import Flights
from flights_demo.tables import WEIGHT

DRAWS = 20_000
BIN_MILES = 250
BINS = 12
"""The last takes everything longer, too."""
DEVIATIONS_MAX = 6
"""A mean further than this from the theory, in standard deviations, is wrong but for one run in 5e8."""


@dataclass(frozen=True)
class Draw:
    """The distances of one way to draw: their mean, their shares by bin, and both as they must be."""

    mean: float
    expected: float
    deviation: float
    """The standard deviation of the mean."""
    shares: list[float]
    expected_shares: list[float]
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """A plain draw beside a weighted one."""

    plain: Draw
    weighted: Draw

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values."""
        return [
            ("flights drawn each way", f"{DRAWS:,}"),
            ("average distance, plain draw", self._mean(self.plain)),
            ("average distance, weighted draw", self._mean(self.weighted)),
            (
                "time of each",
                f"{duration_text(self.plain.seconds)}, {duration_text(self.weighted.seconds)}",
            ),
        ]

    def _mean(self, draw: Draw) -> str:
        formula = "E[d]" if draw is self.plain else "E[d²]/E[d]"
        off = (draw.mean - draw.expected) / draw.deviation
        return f"{draw.mean:,.1f} miles; {formula} = {draw.expected:,.1f} ({off:+.1f} sd)"


def compare(table: drillcore.Table, flights: Flights) -> Comparison:
    """Draw plainly and by distance, and check both means against the file.

    Raises
    ------
    AssertionError
        If a mean is further from the theory than chance allows.
    """
    distances = flights.table[WEIGHT].to_pylist()
    plain = draw(table, None, distances, [1] * len(distances))
    weighted = draw(table, WEIGHT, distances, distances)
    for each in (plain, weighted):
        off = abs(each.mean - each.expected) / each.deviation
        check(off < DEVIATIONS_MAX, f"a mean distance is {off:.1f} standard deviations from {each.expected:.1f}")
    return Comparison(plain, weighted)


def draw(table: drillcore.Table, weight: str | None, distances: Sequence[int], weights: Sequence[int]) -> Draw:
    """Draw with replacement by ``weight``; ``weights`` are its values in the file."""
    rows, seconds = timed(lambda: table.sample(DRAWS, weight=weight, replace=True, columns=["distance"]))
    drawn = rows.arrow()["distance"].to_pylist()
    total = sum(weights)
    mean = sum(map(_product, distances, weights)) / total
    variance = sum(w * (d - mean) ** 2 for d, w in zip(distances, weights, strict=True)) / total
    return Draw(
        mean=sum(drawn) / len(drawn),
        expected=mean,
        deviation=math.sqrt(variance / DRAWS),
        shares=shares(drawn, [1] * len(drawn)),
        expected_shares=shares(distances, weights),
        seconds=seconds,
    )


def shares(distances: Sequence[int], weights: Sequence[int]) -> list[float]:
    """Return the share of the weight in each bin of distance."""
    sums = [0] * BINS
    for distance, weight in zip(distances, weights, strict=True):
        sums[min(distance // BIN_MILES, BINS - 1)] += weight
    return [each / sum(weights) for each in sums]


def _product(a: int, b: int) -> int:
    return a * b
