"""Random rows of narrow key ranges from Python, beside numpy over a sorted array.

    python python/benches/ranges.py --rows 10000000

Rows are pairs of whole numbers, in memory, appended in random order. Each call draws with replacement from a thousandth
of the keys, and gives Arrow. numpy finds the ends of the range by `searchsorted`, draws positions and indexes both
columns; by weight it searches running sums. Its arrays are sorted beforehand and never change. The ways take turns,
and before they do the table is drawn from until its runs are compacted.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import drillcore

BATCH_ROWS = 10_000
COUNTS = (1, 10, 100, 1_000, 10_000)
DRAWS_BEFORE = 20_000


class Sorted:
    """The same rows as sorted arrays."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> None:
        order = np.argsort(keys)
        self.keys, self.values, self.rng = keys[order], values[order], rng
        self.sums = np.cumsum(self.values)

    def _ends(self, low: int, high: int) -> tuple[int, int]:
        return int(np.searchsorted(self.keys, low)), int(np.searchsorted(self.keys, high, side="right"))

    def draw(self, n: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows, each equally likely."""
        drawn = self.rng.integers(*self._ends(low, high), n)
        return self.keys[drawn], self.values[drawn]

    def draw_by_weight(self, n: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows in proportion to their values."""
        first, end = self._ends(low, high)
        before = self.sums[first - 1] if first else 0
        drawn = np.searchsorted(self.sums, self.rng.integers(before, self.sums[end - 1], n), side="right")
        return self.keys[drawn], self.values[drawn]


def microseconds(call: Callable[[int, int], object], ranges: list[tuple[int, int]]) -> float:
    """The median time of a call with the ends of a range."""
    seconds = []
    for low, high in ranges:
        started = time.perf_counter()
        call(low, high)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e6


def main() -> None:
    """Load, then measure both in turn."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--calls", type=int, default=400)
    given = arguments.parse_args()
    rng = np.random.default_rng(1)
    keys = rng.permutation(given.rows).astype(np.int64)
    values = keys * 2_654_435_761 % 1_000 + 1
    width = given.rows // 1_000
    with drillcore.open(":memory:", memory_bytes=8 << 30) as db:
        table = db.create_table("pairs", {"key": "int64", "value": "int64"}, key="key", weights="value")
        for first in range(0, given.rows, BATCH_ROWS):
            rows = slice(first, first + BATCH_ROWS)
            table.append(pa.table({"key": keys[rows], "value": values[rows]}))
        arrays = Sorted(keys, values, rng)

        def ranges(count: int) -> list[tuple[int, int]]:
            lows = rng.integers(0, given.rows - width, count).tolist()
            return [(low, low + width - 1) for low in lows]

        def ours(n: int, weight: str | None, low: int, high: int) -> pa.Table:
            return table.sample(n, between=(low, high), weight=weight, replace=True).arrow()

        for weight in (None, "value"):
            drawn = ours(1_000, weight, *ranges(1)[0])
            found = drawn["key"].to_numpy()
            assert np.array_equal(drawn["value"].to_numpy(), found * 2_654_435_761 % 1_000 + 1)
            assert len(found) == 1_000
            assert found.max() - found.min() < width
        for low, high in ranges(DRAWS_BEFORE):
            ours(10, None, low, high)
        cases = [(n, None) for n in COUNTS] + [(1_000, "value")]
        times: dict[tuple[int, str | None], list[tuple[float, float]]] = {case: [] for case in cases}
        for _ in range(given.repetitions):
            for n, weight in cases:
                draw = arrays.draw_by_weight if weight else arrays.draw
                ours_took = microseconds(partial(ours, n, weight), ranges(given.calls))
                numpy_took = microseconds(partial(draw, n), ranges(given.calls))
                times[n, weight].append((ours_took, numpy_took))
    print("| rows drawn | Drillcore | numpy | times as long |\n|---|---|---|---|")
    for (n, weight), pairs in times.items():
        ours_took, numpy_took = (statistics.median(of) for of in zip(*pairs, strict=True))
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        how = f"{n:,}, by weight" if weight else f"{n:,}"
        ratio = f"{ours_took / numpy_took:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {how} | {ours_took:.0f} us | {numpy_took:.0f} us | {ratio} |")


if __name__ == "__main__":
    main()
