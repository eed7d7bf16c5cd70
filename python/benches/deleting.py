"""Deletes by key range, condition and set from an append table, and updates of one column of an upsert table.

    python python/benches/deleting.py --rows 10000000

The append table is on disk, compacted, before the clock starts; another one has its newest rows in memory. What a
delete leaves is counted and compared. "Back" is the share of the deleted rows' bytes that merges gave back to the disk,
and the time they took after the delete.
"""

import argparse
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa

import drillcore

CITIES = pa.array([f"city {n}" for n in range(100)])


def events(first: int, rows: int, rng: np.random.Generator) -> pa.Table:
    """Events in the order of their key."""
    return pa.table(
        {
            "at": np.arange(first, first + rows),
            "user": rng.integers(0, 100_000, rows, dtype=np.int32),
            "amount": rng.random(rows),
            "city": CITIES.take(pa.array(rng.integers(0, 100, rows))),
        }
    )


def check(found: int, expected: int) -> None:
    """End with an error if a count is not what it must be."""
    if found != expected:
        raise SystemExit(f"{found} rows, expected {expected}")


def timed(what: str, table: drillcore.Table, expected: int | None = None, **selection: object) -> None:
    """Delete what is selected, and print how long that took."""
    before = len(table)
    started = time.perf_counter()
    deleted = table.delete(**selection)
    seconds = time.perf_counter() - started
    check(len(table), before - deleted.rows)
    check(deleted.rows, deleted.rows if expected is None else expected)
    print(f"{what:44} {deleted.rows:12,} rows {seconds * 1000:10.1f} ms")


def deletes(db: drillcore.Database, rows: int, rng: np.random.Generator) -> None:
    """Delete from a table on disk, and from one whose newest rows are in memory."""
    schema = {"at": "int64", "user": "int32", "amount": "float64", "city": "string"}
    for name in ("on disk", "partly in memory"):
        table = db.create_table(name, schema, key="at", set="city")
        for first in range(0, rows, 500_000):
            table.append(events(first, min(500_000, rows - first), rng))
        if name == "on disk":
            db.flush()
            db.compact()
        stored = table.stats()["segment_bytes"]
        timed(f"key range, half of a table {name}", table, rows // 2, between=(rows // 4, rows // 4 + rows // 2 - 1))
        if name == "on disk":
            started = time.perf_counter()
            while table.stats()["erased_rows"] > 0:
                time.sleep(0.02)
            back = (stored - table.stats()["segment_bytes"]) / (stored / 2)
            print(f"{'  back':44} {back:11.0%}      {(time.perf_counter() - started) * 1000:10.1f} ms")
        timed(f"condition on a column, {name}", table, where="user % 10 = 3")
        timed(f"set, {name}", table, set="city 7")


def updates(db: drillcore.Database, rows: int, rng: np.random.Generator) -> None:
    """Update one column of 1,000 rows by their keys."""
    table = db.create_table("tasks", {"id": "int64", "prio": "int64", "x": "float64"}, key="id", merge="upsert")
    table.load(pa.table({"id": np.arange(rows), "prio": np.ones(rows, dtype=np.int64), "x": rng.random(rows)}))
    db.flush()
    db.compact()
    times = []
    for round in range(20):
        keys = rng.choice(rows, 1_000, replace=False)
        changes = pa.table({"id": keys, "prio": np.full(1_000, round + 2)})
        started = time.perf_counter()
        check(table.update(changes).rows, 1_000)
        times.append((time.perf_counter() - started) * 1000)
        check(table.count(where=f"prio = {round + 2}"), 1_000)
    print(
        f"{'update of one column by key':44} {1_000:12,} rows {statistics.median(times):10.1f} ms (to {max(times):.1f})"
    )


def main() -> None:
    """Measure all of it once."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    given = arguments.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder, drillcore.open(folder) as db:
        deletes(db, given.rows, rng)
        updates(db, given.rows // 2, rng)


if __name__ == "__main__":
    main()
