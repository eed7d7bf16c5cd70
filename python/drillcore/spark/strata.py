"""Figures of a union from samples of its parts, with intervals: the arithmetic of stratified sampling.

Each part, a stratum, was sampled uniformly without replacement, with a number of draws that was fixed beforehand.
Totals add up over strata, so their variances do, and a part of which all rows were drawn adds none (Cochran, Sampling
Techniques, 1977, chapter 5; ratios by linearisation, section 6.11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Stratum:
    """The sample of a part: of each row drawn, its group and the value that is averaged."""

    rows: int
    """Rows of the part."""
    groups: Any
    """The number of each drawn row's group."""
    values: Any
    """The value of each drawn row, NaN where it is null."""

    @property
    def drawn(self) -> int:
        """Rows drawn."""
        return len(self.groups)


@dataclass(frozen=True)
class Figure:
    """An estimate, its interval, and the rows drawn of its group."""

    value: float
    low: float
    high: float
    drawn: int
    is_exact: bool = False


def exact(value: float, drawn: int) -> Figure:
    """Return a figure that is known exactly."""
    return Figure(value, value, value, drawn, is_exact=True)


def allocate_in_proportion(draws: int, sizes: Sequence[int]) -> list[int]:
    """Return how many rows to draw from each stratum: about in proportion, at least two, and never more than there are.

    Examples
    --------
    >>> allocate_in_proportion(100, [1_000, 3_000, 1, 0])
    [25, 75, 1, 0]
    """
    total = sum(sizes)
    if not total:
        return [0] * len(sizes)
    # Rounded up, so that there are at least as many as asked for.
    return [min(size, max(2, -(-draws * size // total))) for size in sizes]


def counts(strata: Sequence[Stratum], groups: int, confidence: float) -> list[Figure]:
    """Estimate the number of rows of each group.

    The interval is Wilson's, for as many independent draws as have the variance of the stratified share (Franco and
    others, Journal of Survey Statistics and Methodology, 2019).
    """
    total = sum(each.rows for each in strata)
    drawn = sum(each.drawn for each in strata)
    is_exact = all(each.drawn == each.rows for each in strata)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, variance = np.zeros(groups), np.zeros(groups)
    met: Any = np.zeros(groups, np.int64)
    for each in strata:
        if not each.drawn:
            continue
        of_group = np.bincount(each.groups, minlength=groups)
        part = of_group / each.drawn
        weight = each.rows / total
        share += weight * part
        variance += weight**2 * _left(each) * part * (1 - part) / max(1, each.drawn - 1)
        met += of_group
    figures = []
    for at in range(groups):
        p = float(share[at])
        if is_exact:
            figures.append(exact(float(met[at]), int(met[at])))
            continue
        alike = p * (1 - p) / float(variance[at]) if variance[at] > 0 else drawn
        middle = (p + z * z / (2 * alike)) / (1 + z * z / alike)
        half = z / (1 + z * z / alike) * math.sqrt(p * (1 - p) / alike + z * z / (4 * alike * alike))
        # Rows that were met are there, and so are the others that were drawn.
        low, high = (
            max(float(met[at]), total * (middle - half)),
            min(total - (drawn - met[at]), total * (middle + half)),
        )
        figures.append(Figure(total * p, float(low), float(high), int(met[at])))
    return figures


def totals(strata: Sequence[Stratum], groups: int, confidence: float) -> list[Figure]:
    """Estimate the sum of the values of each group; nulls add nothing. The interval is Student's t."""
    return _figures(strata, groups, confidence, is_ratio=False)


def averages(strata: Sequence[Stratum], groups: int, confidence: float) -> list[Figure]:
    """Estimate the average of the values of each group that are not null. The interval is Student's t of a ratio."""
    return _figures(strata, groups, confidence, is_ratio=True)


def _figures(strata: Sequence[Stratum], groups: int, confidence: float, *, is_ratio: bool) -> list[Figure]:
    sums, numbers, squared = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    met: Any = np.zeros(groups, np.int64)
    filled_met: Any = np.zeros(groups, np.int64)
    for each in strata:
        if each.drawn:
            filled = ~np.isnan(each.values)
            scale = each.rows / each.drawn
            of_group = np.bincount(each.groups, filled, groups)
            sums += scale * np.bincount(each.groups, np.where(filled, each.values, 0.0), groups)
            numbers += scale * of_group
            squared += scale**2 * of_group
            filled_met += of_group.astype(np.int64)
            met += np.bincount(each.groups, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimates = np.where(numbers > 0, sums / numbers, np.nan) if is_ratio else sums
        # As many values of one weight each would say as much (Kish 1965).
        alike = np.where(squared > 0, numbers**2 / squared, 0.0)
    variance, freedom = np.zeros(groups), np.zeros(groups)
    for each in strata:
        if each.drawn < 2:
            # One row says nothing of its spread; the part has one, so it was read whole.
            continue
        part, values = _variances(each, np.nan_to_num(estimates) if is_ratio else None, groups)
        variance += part
        # Rows outside the group say nothing of its spread.
        freedom += part * part / np.maximum(1, np.minimum(each.drawn - 1, values))
    is_exact = all(each.drawn == each.rows for each in strata)
    drawn = sum(each.drawn for each in strata)
    figures = []
    for at in range(groups):
        value, scale = float(estimates[at]), float(numbers[at]) if is_ratio else 1.0
        if is_exact and math.isfinite(value):
            figures.append(exact(value, int(met[at])))
            continue
        if not math.isfinite(value) or filled_met[at] < 2:
            figures.append(Figure(value, -math.inf, math.inf, int(met[at])))
            continue
        # Satterthwaite's degrees of freedom: strata with a wide spread count for more. The values of a group say no
        # more than if they alone had been drawn.
        degrees = variance[at] ** 2 / freedom[at] if freedom[at] > 0 else math.inf
        degrees = min(degrees, max(1.0, alike[at] - 1))
        spread = variance[at]
        if is_ratio:
            spread *= max(1.0, alike[at] / max(1.0, alike[at] - 1) * (drawn - 1) / drawn)
        half = student(confidence, degrees) * math.sqrt(spread) / scale
        figures.append(Figure(value, value - half, value + half, int(met[at])))
    return figures


def _variances(stratum: Stratum, centres: Any, groups: int) -> tuple[Any, Any]:
    """How much a part adds to the variance of each group's total, and the values that it has of the group."""
    filled = ~np.isnan(stratum.values)
    # What each row adds: its value, or for a ratio how far it is from the average, and 0 outside the group.
    with np.errstate(invalid="ignore", over="ignore"):
        centre = 0.0 if centres is None else centres[stratum.groups]
        scores = np.where(filled, stratum.values - centre, 0.0)
        sum_ = np.bincount(stratum.groups, scores, groups)
        squares = np.bincount(stratum.groups, scores * scores, groups)
        spread = np.maximum(0.0, squares - sum_ * sum_ / stratum.drawn) / (stratum.drawn - 1)
        part = stratum.rows**2 * _left(stratum) * spread / stratum.drawn
    return part, np.bincount(stratum.groups, filled, groups)


def _left(stratum: Stratum) -> float:
    """The finite population correction: the share of the rows that was not drawn."""
    return 1 - stratum.drawn / stratum.rows


def student(confidence: float, degrees: float) -> float:
    """Return the half-width of Student's t in standard errors (Hill 1970, Algorithm 396).

    Examples
    --------
    >>> round(student(0.95, 4), 3), round(student(0.95, math.inf), 3)
    (2.776, 1.96)
    """
    tail = 1 - confidence
    if math.isinf(degrees):
        return NormalDist().inv_cdf(1 - tail / 2)
    degrees = max(1.0, degrees)
    if degrees < 1.5:
        return math.cos(tail * math.pi / 2) / math.sin(tail * math.pi / 2)
    if degrees < 2.5:
        return math.sqrt(2 / (tail * (2 - tail)) - 2)
    a = 1 / (degrees - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * degrees
    y = (d * tail) ** (2 / degrees)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(tail / 2)
        y = x * x
        if degrees < 5:
            c += 0.3 * (degrees - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        rest = ((degrees + 6) / (degrees * y) - 0.089 * d - 0.822) * (degrees + 2) * 3
        y = ((1 / rest + 0.5 / (degrees + 4)) * y - 1) * (degrees + 1) / (degrees + 2) + 1 / y
    return math.sqrt(degrees * y)
