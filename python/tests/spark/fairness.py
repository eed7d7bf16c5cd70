"""Tests of fairness for draws through Spark: a chi-square test whose level holds in the far tail."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

ALPHA = 1e-6
"""The false-alarm rate of each test. Seeds are fixed, so a test that passes once passes always."""


def chi_square(found: Sequence[float], expected: Sequence[float], lost: int = 1) -> float:
    """The chance that counts as expected are at least this far off; ``lost`` degrees of freedom are not free."""
    cells = [(each, mean) for each, mean in zip(found, expected, strict=True) if mean > 0]
    assert all(mean >= 5 for _, mean in cells), "cells this small have no chi-square distribution"
    assert all(each == 0 for each, mean in zip(found, expected, strict=True) if mean == 0)
    statistic = sum((each - mean) ** 2 / mean for each, mean in cells)
    return upper_gamma((len(cells) - lost) / 2, statistic / 2)


def upper_gamma(shape: float, x: float) -> float:
    """The regularised upper incomplete gamma function (Press and others, Numerical Recipes, section 6.2)."""
    if x <= 0:
        return 1.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        for n in range(1, 10_000):
            term *= x / (shape + n)
            total += term
            if term < total * 1e-16:
                break
        return 1 - scale * total
    b = x + 1 - shape
    c, d = 1e300, 1 / b
    fraction = d
    for n in range(1, 10_000):
        a = -n * (n - shape)
        b += 2
        d = 1 / (a * d + b)
        c = b + a / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return scale * fraction


def successive(weights: Sequence[int], n: int) -> dict[frozenset[int], float]:
    """The exact probability of each set of rows, in ``n`` successive draws by weight from all."""
    found: dict[frozenset[int], float] = Counter()
    for order in itertools.permutations(range(len(weights)), n):
        likely, left = 1.0, sum(weights)
        for row in order:
            likely *= weights[row] / left
            left -= weights[row]
        found[frozenset(order)] += likely
    return found
