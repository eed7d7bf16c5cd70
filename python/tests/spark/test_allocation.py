"""Which split gives how many rows of a sample: exact distributions, each with a twin that is wrong."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("pyspark")

from fairness import ALPHA, chi_square, successive, upper_gamma  # noqa: E402

from drillcore import TooFewRowsError  # noqa: E402
from drillcore.spark.allocation import (  # noqa: E402
    allocate_by_arrival,
    allocate_with_replacement,
    allocate_without_replacement,
    split_seed,
)

Allocate = Callable[[int, Sequence[int], int], list[int]]
RUNS = 20_000


def test_the_chi_square_tail_is_the_known_one() -> None:
    # With two degrees of freedom it is exp(-x / 2); with one, that of a normal number.
    assert upper_gamma(1, 12) == pytest.approx(math.exp(-12), rel=1e-12)
    assert upper_gamma(0.5, 23.9281 / 2) == pytest.approx(1e-6, rel=1e-3)
    assert upper_gamma(50, 40) == pytest.approx(0.92, abs=0.01)


def multinomial(counts: Sequence[int], sizes: Sequence[int]) -> float:
    """The probability of ``counts`` in independent draws."""
    total, ways = sum(sizes), math.factorial(sum(counts))
    for count in counts:
        ways //= math.factorial(count)
    return ways * math.prod((size / total) ** count for size, count in zip(sizes, counts, strict=True))


def hypergeometric(counts: Sequence[int], sizes: Sequence[int]) -> float:
    """The probability of ``counts`` in draws of different rows."""
    ways = math.prod(math.comb(size, count) for size, count in zip(sizes, counts, strict=True))
    return ways / math.comb(sum(sizes), sum(counts))


def chance(allocate: Allocate, probability: Callable[..., float], draws: int, sizes: Sequence[int]) -> float:
    """The chi-square chance of the allocations of many seeds, over all that are possible; rare ones count as one."""
    every = [each for each in itertools.product(range(draws + 1), repeat=len(sizes)) if sum(each) == draws]
    found = Counter(tuple(allocate(draws, sizes, seed)) for seed in range(RUNS))
    assert sum(probability(each, sizes) for each in every) == pytest.approx(1)
    cells: list[tuple[float, float]] = []
    rare = [0.0, 0.0]
    for each in every:
        mean = RUNS * probability(each, sizes)
        if mean >= 10:
            cells.append((found[each], mean))
        else:
            rare = [rare[0] + found[each], rare[1] + mean]
    if rare[1] >= 5:
        cells.append((rare[0], rare[1]))
    else:
        cells[-1] = (cells[-1][0] + rare[0], cells[-1][1] + rare[1])
    return chi_square([cell[0] for cell in cells], [cell[1] for cell in cells])


def largest_remainders(draws: int, sizes: Sequence[int], seed: int) -> list[int]:
    """A twin: shares in proportion, the rest by chance. Each split's mean is right, and its spread is too small."""
    total = sum(sizes)
    counts = [draws * size // total for size in sizes]
    chosen = random.Random(seed).choices(range(len(sizes)), sizes, k=draws - sum(counts))
    return [count + chosen.count(at) for at, count in enumerate(counts)]


def alike(draws: int, sizes: Sequence[int], seed: int) -> list[int]:
    """A twin: every split is drawn alike."""
    chosen = random.Random(seed).choices(range(len(sizes)), k=draws)
    return [chosen.count(at) for at in range(len(sizes))]


@pytest.mark.parametrize(("draws", "sizes"), [(5, [1, 2, 3]), (7, [10, 0, 1, 6]), (4, [2**70, 2**71, 2**69])])
def test_with_replacement_it_is_multinomial(draws: int, sizes: list[int]) -> None:
    assert chance(allocate_with_replacement, multinomial, draws, sizes) > ALPHA
    for twin in (largest_remainders, alike):
        if 0 not in sizes:
            assert chance(twin, multinomial, draws, sizes) < ALPHA


@pytest.mark.parametrize(("draws", "sizes"), [(5, [4, 5, 9]), (7, [3, 0, 5, 1]), (3, [8, 8, 2])])
def test_without_replacement_it_is_multivariate_hypergeometric(draws: int, sizes: list[int]) -> None:
    assert chance(allocate_without_replacement, hypergeometric, draws, sizes) > ALPHA
    # A multinomial spreads too far, and gives more rows of a split than it has.
    with pytest.raises(AssertionError):
        assert chance(allocate_with_replacement, hypergeometric, draws, sizes) > ALPHA
    assert all(sum(allocate_without_replacement(draws, sizes, seed)) == draws for seed in range(50))


def test_sums_beyond_64_bits_are_not_rounded() -> None:
    """A unit beside 2**80 others is hardly ever drawn; with sums as floats its share would be lost or doubled."""
    counts = allocate_with_replacement(200_000, [2**80, 2**80 + 1, 2**81], seed=3)
    assert chi_square(counts, [50_000, 50_000, 100_000]) > ALPHA
    assert allocate_with_replacement(1_000, [1, 2**90], seed=1)[0] == 0


def test_billions_of_rows_take_time_per_draw() -> None:
    """numpy's own multivariate hypergeometric ends at 10**9 rows."""
    sizes = [3 * 10**12, 10**12, 0, 10**18]
    counts = allocate_without_replacement(100_000, sizes, seed=5)
    assert sum(counts) == 100_000 and counts[2] == 0
    assert counts[0] + counts[1] < 20
    assert allocate_without_replacement(2**40, [2**39, 2**39], seed=1) == [2**39, 2**39]


@pytest.mark.parametrize("allocate", [allocate_with_replacement, allocate_without_replacement])
def test_the_same_seed_gives_the_same_counts_and_another_seed_others(allocate: Allocate) -> None:
    sizes = [1_000, 2_000, 3_000, 50_000]
    assert allocate(500, sizes, 7) == allocate(500, sizes, 7) != allocate(500, sizes, 8)
    assert allocate(0, sizes, 7) == [0, 0, 0, 0]


def test_too_few_rows_are_an_error() -> None:
    with pytest.raises(TooFewRowsError, match=r"7 rows were requested, and 6 are there"):
        allocate_without_replacement(7, [1, 2, 3], seed=1)
    with pytest.raises(TooFewRowsError, match="requested of none"):
        allocate_with_replacement(1, [0, 0], seed=1)
    with pytest.raises(TooFewRowsError, match="have a weight above 0"):
        allocate_by_arrival(3, [[0.5], [0.1]])
    assert allocate_with_replacement(0, [], seed=1) == allocate_without_replacement(0, [], seed=1) == []


def arrivals(weights: Sequence[int], source: random.Random) -> list[tuple[float, int]]:
    """The rows of a split in successive draws by weight, with gaps at the rate of the weight that is left."""
    left, time, order = list(range(len(weights))), 0.0, []
    while left:
        rate = sum(weights[row] for row in left)
        time += source.expovariate(rate)
        (row,) = source.choices(left, [weights[row] for row in left])
        left.remove(row)
        order.append((time, row))
    return order


def test_the_earliest_arrivals_of_all_splits_are_successive_draws_from_their_union() -> None:
    """Four rows in two splits, two drawn: all six sets, with the chances of successive draws from the four."""
    weights = [[1, 6], [2, 3]]
    union = [weight for of_split in weights for weight in of_split]
    expected = successive(union, 2)

    def drawn(counts: Callable[[list[list[tuple[float, int]]]], list[int]], seed: int) -> frozenset[int]:
        source = random.Random(seed)
        orders = [arrivals(of_split, source) for of_split in weights]
        taken = counts(orders)
        return frozenset(
            2 * at + row for at, (order, n) in enumerate(zip(orders, taken, strict=True)) for _, row in order[:n]
        )

    def right(orders: list[list[tuple[float, int]]]) -> list[int]:
        return allocate_by_arrival(2, [[time for time, _ in order] for order in orders])

    def chance_of(counts: Callable[[list[list[tuple[float, int]]]], list[int]]) -> float:
        found = Counter(drawn(counts, seed) for seed in range(RUNS))
        sets = list(expected)
        return chi_square([found[each] for each in sets], [RUNS * expected[each] for each in sets])

    assert chance_of(right) > ALPHA
    # A twin: one row of each split, the first to come.
    assert chance_of(lambda orders: [1, 1]) < ALPHA


def test_seeds_of_splits_differ() -> None:
    seeds = {split_seed(seed, split) for seed in range(100) for split in range(100)}
    assert len(seeds) == 10_000
