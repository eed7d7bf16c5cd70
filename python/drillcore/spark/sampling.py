"""The tasks of a sample: which split gives how many rows, with which seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from drillcore.errors import TooFewRowsError
from drillcore.spark.allocation import (
    allocate_by_arrival,
    allocate_with_replacement,
    allocate_without_replacement,
    split_seed,
)
from drillcore.spark.asking import Each
from drillcore.spark.naming import named
from drillcore.spark.options import SampleOptions

_WEIGHT_UNITS = 2**32


@dataclass(frozen=True)
class Draws:
    """How many rows to draw from a split, and how; of these, the first ``kept`` are of the sample."""

    rows: int
    kept: int
    seed: int
    weight: str | None
    replace: bool


@dataclass(frozen=True)
class Task:
    """A split with the columns to read of it: all rows, or a sample. It is picklable, and reads the same everywhere."""

    split: Any
    columns: list[str]
    draws: Draws | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        with named(self.split.path):
            yield from self._batches()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.draws is None:
            yield from self.split.scan(columns=self.columns).batches()
            return
        draws = self.draws
        drawn = self.split.sample(
            draws.rows,
            weight=draws.weight,
            replace=draws.replace,
            # Of successive draws, a split was asked for more than it may have.
            at_most=draws.kept < draws.rows,
            seed=draws.seed,
            columns=self.columns,
        )
        for batch in drawn.batches():
            yield batch.slice(0, draws.kept)


def sample_tasks(
    splits: Sequence[Any], columns: list[str], sample: SampleOptions, seed: int, *, each: Each, is_plain: bool
) -> list[Task]:
    """Return the tasks that draw a sample of the union of ``splits``.

    The numbers of rows are drawn here, from the exact size of each split, and the seed of a split depends on the
    sample's and on its number. So the rows do not depend on where and how often a task runs.

    Parameters
    ----------
    splits
        Those of all databases, in order.
    columns
        The columns to return.
    sample
        How many rows to draw, and how.
    seed
        The seed, where ``sample`` has none.
    each
        How to ask the splits for their sizes. Where no index knows them, each answer is a scan.
    is_plain
        Whether every row that a split draws is one of it: in append tables without a condition.

    Raises
    ------
    TooFewRowsError
        If there are fewer rows than asked for, unless ``at_most`` or ``replace`` is set.
    """
    seed = seed if sample.seed is None else sample.seed
    seeds = [split_seed(seed, at) for at in range(len(splits))]
    if sample.weight is not None and not sample.replace:
        drawn, kept = _successive(splits, sample, seeds, each, is_plain)
    else:
        sizes = each(_Size(sample.weight), splits)
        rows = min(sample.rows, sum(sizes)) if sample.at_most else sample.rows
        allocate = allocate_with_replacement if sample.replace else allocate_without_replacement
        try:
            drawn = kept = allocate(rows, sizes, seed)
        except TooFewRowsError as error:
            raise _too_few(error, sample) from None
    return [
        Task(split, columns, Draws(drawn[at], kept[at], seeds[at], sample.weight, sample.replace))
        for at, split in enumerate(splits)
        if kept[at]
    ]


@dataclass(frozen=True)
class _Size:
    """The size of a split: its units of weight, or what a uniform sample draws from."""

    weight: str | None

    def __call__(self, split: Any) -> int:
        with named(split.path):
            if self.weight is None:
                return int(split.events)
            # Float weights are multiples of 2**-32.
            return int(split.weight(self.weight) * _WEIGHT_UNITS)


@dataclass(frozen=True)
class _Arrivals:
    """When the first rows of a split arrive in successive draws by weight."""

    split: Any
    rows: int
    weight: str
    seed: int

    def times(self) -> list[float]:
        if not self.rows:
            return []
        with named(self.split.path):
            drawn = self.split.sample(
                self.rows, weight=self.weight, at_most=True, arrival_times=True, seed=self.seed, columns=[]
            )
        return list(drawn.arrow().column("arrival_time").to_pylist())


def _successive(
    splits: Sequence[Any], sample: SampleOptions, seeds: list[int], each: Each, is_plain: bool
) -> tuple[list[int], list[int]]:
    """How many rows each split draws one after the other by weight, and how many of them are of the union's sample.

    Of plain splits each is asked for as many rows as it is likely to give. Where the last of them arrives before the
    sample is complete, it is asked for more, which begin with those that it gave before. Others are asked for all that
    they could give.
    """
    weight = sample.weight or ""
    if is_plain:
        sizes = each(_Size(weight), splits)
        asked = [_likely(sample.rows, size, sum(sizes)) for size in sizes]
    else:
        asked = [sample.rows] * len(splits)

    def times(which: Sequence[int]) -> list[list[float]]:
        return each(_Arrivals.times, [_Arrivals(splits[at], asked[at], weight, seeds[at]) for at in which])

    arrivals = times(range(len(splits)))
    while short := _short(arrivals, asked, sample.rows):
        for at in short:
            asked[at] = min(sample.rows, 2 * asked[at])
        for at, more in zip(short, times(short), strict=True):
            arrivals[at] = more
    there = sum(len(of_split) for of_split in arrivals)
    try:
        kept = allocate_by_arrival(min(sample.rows, there) if sample.at_most else sample.rows, arrivals)
    except TooFewRowsError as error:
        raise _too_few(error, sample) from None
    # Fewer draws of a split begin as more do. Where some may be dropped, it depends on their number which are.
    return (list(kept) if is_plain else asked), kept


def _likely(rows: int, size: int, total: int) -> int:
    """A number of rows that a split of this weight rarely exceeds, where no row has much of it."""
    if not size or not rows:
        return 0
    expected = rows * size / total
    return min(rows, math.ceil(expected + 4 * math.sqrt(expected) + 4))


def _short(arrivals: Sequence[Sequence[float]], asked: Sequence[int], rows: int) -> list[int]:
    """The splits that may have more rows before the sample is complete than they were asked for."""
    times = sorted(time for of_split in arrivals for time in of_split)
    complete = times[rows - 1] if 0 < rows <= len(times) else math.inf
    return [
        at
        for at, (of_split, n) in enumerate(zip(arrivals, asked, strict=True))
        if 0 < n == len(of_split) < rows and of_split[-1] < complete
    ]


def _too_few(error: TooFewRowsError, sample: SampleOptions) -> TooFewRowsError:
    if sample.replace:
        return TooFewRowsError(str(error))
    return TooFewRowsError(f'{error}; ask for fewer, or set .option("at_most", True) or .option("replace", True)')
