"""Estimates stopped at a width, beside the exact query in SQL on the same snapshot, by turns in one process.

    python python/benches/estimates.py --rows 5000000 --dir /tmp/estimates

Every interval is checked to hold the exact answer, or to be within rounding of it where all rows were read. A time is
the least of the repetitions, with the files in the system's cache. A ratio above 1 says that the estimate took
longer. With --cpu, times are those of the processor, in all threads: where other processes are busy, they say more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import drillcore

BATCH_ROWS = 500_000
AGGREGATES = {
    "avg(x)": "avg(x)",
    "sum(x)": "sum(x)",
    "ratio(x, y)": "sum(x) / sum(y)",
    "stddev(x)": "stddev_samp(x)",
    "median(x)": "percentile_cont(0.5) within group (order by x)",
    "distinct(k)": "count(distinct k)",
    "avg(x * y) filter (where k < 100)": "avg(x * y) filter (where k < 100)",
}
GROUPS = [None, "k", "name", "rare"]
ERRORS = ["20%", "5%", "2%", "1%", "0.1%"]


def events(rows: int, seed: int) -> pa.Table:
    """Rows of two floats; 200 groups of a number, 200 of a text of very different sizes, one group in 100,000 rows."""
    rng = np.random.default_rng(seed)
    ids = np.arange(rows)
    names = np.array([f"group-{number:03}" for number in range(200)])
    return pa.table(
        {
            "id": ids,
            "k": rng.integers(0, 200, rows),
            "name": names[rng.zipf(1.3, rows) % 200],
            "rare": np.where(ids % 100_000 == 7, "rare", "usual"),
            "x": rng.exponential(10, rows),
            "y": rng.normal(50, 10, rows),
        }
    )


def by_turns(
    repetitions: int, calls: list[Callable[[], Any]], clock: Callable[[], float] = time.perf_counter
) -> list[tuple[float, Any]]:
    """The least time of each call, and what it returned."""
    found: list[tuple[float, Any]] = [(float("inf"), None)] * len(calls)
    for _ in range(repetitions):
        for at, call in enumerate(calls):
            started = clock()
            returned = call()
            found[at] = (min(found[at][0], clock() - started), returned)
    return found


def wrong(estimate: drillcore.Estimate, exact: pa.Table) -> int:
    """How many intervals do not hold what the query says."""
    truths = exact.column(exact.num_columns - 1).to_pylist()
    found = estimate.arrow()
    low, high = (found.column(found.num_columns - at).to_pylist() for at in (3, 2))
    if len(truths) != found.num_rows:
        sys.exit(f"{found.num_rows} groups, not {len(truths)}")
    count = 0
    for truth, below, above in zip(truths, low, high, strict=True):
        if truth is None:
            count += below is not None
            continue
        off = 1e-9 * abs(truth)
        count += not (below - off <= truth and (above is None or truth <= above + off))
    return count


def answer(snapshot: drillcore.Snapshot, query: str) -> pa.Table:
    """What a query gives."""
    return snapshot.sql(query).arrow()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--dir", type=Path, help="a new folder for the database; by default it is in memory")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--errors", nargs="+", default=ERRORS, help="half-widths to stop at, such as 20%% 2%%")
    parser.add_argument("--cpu", action="store_true", help="measure processor time of all threads")
    asked = parser.parse_args()
    clock = time.process_time if asked.cpu else time.perf_counter
    table = events(asked.rows, 1)
    with drillcore.open(str(asked.dir) if asked.dir else ":memory:") as db:
        t = db.create_table("t", table.schema, key="id")
        for first in range(0, asked.rows, BATCH_ROWS):
            t.append(table.slice(first, BATCH_ROWS))
        db.flush()
        worst, slowest, slowest_drawn = 0, 0.0, 0.0
        intervals = 0
        print("| aggregate | by | SQL, ms | " + " | ".join(f"at {error}" for error in asked.errors) + " |")
        print("|---|---|---|" + "---|" * len(asked.errors))
        with db.snapshot() as snapshot:
            pinned = snapshot.table("t")
            for by in GROUPS:
                for aggregate, text in AGGREGATES.items():
                    groups = f"{by}, " if by else ""
                    order = " group by 1 order by 1" if by else ""
                    query = f"select {groups}{text} from t{order}"
                    calls: list[Callable[[], Any]] = [partial(answer, snapshot, query)]
                    calls += [partial(pinned.estimate, aggregate, by=by, error=error) for error in asked.errors]
                    (exact_s, exact), *estimates = by_turns(asked.repetitions, calls, clock)
                    cells = []
                    for seconds, found in estimates:
                        if found.unseen_share_high == 0:
                            worst += wrong(found, exact)
                            intervals += exact.num_rows
                        slowest = max(slowest, seconds / exact_s)
                        how = "exact" if found.exact else f"{found.sampled} drawn"
                        if not found.exact:
                            slowest_drawn = max(slowest_drawn, seconds / exact_s)
                        cells.append(f"{seconds / exact_s:.2f} {how}")
                    print(f"| `{aggregate}` | {by or ''} | {exact_s * 1e3:.0f} | {' | '.join(cells)} |", flush=True)
        print(f"\nslowest: {slowest:.2f} times the query, of those that drew {slowest_drawn:.2f}")
        print(f"{worst} of {intervals} intervals do not hold the answer")


if __name__ == "__main__":
    main()
