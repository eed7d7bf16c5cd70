"""What Spark takes to read and to sample three databases, beside its own Parquet read of the same rows.

    ../.venv/bin/python benches/spark.py --rows 5000000

needs drillcore[spark]. With --allocation it needs no Spark: it simulates the allocation step for many databases.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import drillcore
from drillcore.spark.allocation import allocate_by_arrival, allocate_with_replacement, allocate_without_replacement

SAMPLE = 10_000
BATCH = 500_000


def fill(path: str, seed: int, rows: int) -> None:
    """A database of flights, all in segments."""
    source = np.random.default_rng(seed)
    with drillcore.open(path) as db:
        schema = {"id": "int64", "carrier": "string", "miles": "int64", "delay": "float64", "at": "timestamp[us]"}
        table = db.create_table("flights", schema, key="id", set="carrier", weights="miles")
        names = np.array(["UA", "DL", "AA", "B6", "WN", "AS", "HA", "F9"])
        for first in range(0, rows, BATCH):
            n = min(BATCH, rows - first)
            ids = np.arange(first, first + n) + seed * rows
            columns = {
                "id": ids,
                "carrier": names[source.integers(0, len(names), n)],
                "miles": source.integers(50, 3_000, n),
                "delay": np.round(source.exponential(15, n) - 5, 1),
                "at": pa.array(1_372_636_800_000_000 + ids * 1_000_000, pa.timestamp("us")),
            }
            table.append(pa.table(columns))
        db.compact()


def seconds(run: Callable[[], Any], times: int = 3) -> float:
    """The best of some runs."""
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best


def report(figure: str, **values: Any) -> None:
    """One line of JSON per figure."""
    print(json.dumps({"figure": figure, **values}), flush=True)


def measure(folder: str, rows: int) -> None:
    """Scans and samples of three databases."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from drillcore.spark import DrillcoreDataSource, estimate, release
    from drillcore.spark.load import open_load
    from drillcore.spark.options import parse_read

    building = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = building.config("spark.log.level", "ERROR").config("spark.driver.memory", "2g").getOrCreate()
    spark.dataSource.register(DrillcoreDataSource)
    paths = [os.path.join(folder, f"{at}.drill") for at in range(3)]
    for at, path in enumerate(paths):
        if not os.path.exists(path):
            fill(path, at, rows)
    given = {"path": ",".join(paths), "table": "flights"}
    frame = spark.read.format("drillcore").options(**given).load()
    files = os.path.join(folder, "flights.parquet")
    if not os.path.exists(files):
        frame.write.parquet(files)
    parquet = spark.read.parquet(files)

    def whole(each: Any) -> None:
        each.write.format("noop").mode("overwrite").save()

    for name, read in (("all columns", whole), ("one average", lambda each: each.agg({"delay": "avg"}).collect())):
        ours, theirs = seconds(lambda read=read: read(frame)), seconds(lambda read=read: read(parquet))
        report(
            f"full scan, {name}", drillcore_s=round(ours, 2), parquet_s=round(theirs, 2), ratio=round(theirs / ours, 2)
        )
    column = spark.read.format("drillcore").options(**given, columns="delay").load()
    ours = seconds(lambda: column.agg({"delay": "avg"}).collect())
    report("full scan, one average, with columns", drillcore_s=round(ours, 2), ratio=round(theirs / ours, 2))

    for name, more in {
        "uniform": {},
        "uniform with replacement": {"replace": "true"},
        "by weight with replacement": {"weight": "miles", "replace": "true"},
        "by weight": {"weight": "miles"},
    }.items():
        options = parse_read({**given, "sample": str(SAMPLE), "seed": "7", **more})
        opening = time.perf_counter()
        load = open_load(options)
        opened = time.perf_counter() - opening
        planning = time.perf_counter()
        tasks = load.plan([])
        planned = time.perf_counter() - planning
        drawn = sum(task.draws.rows for task in tasks if task.draws is not None)
        load.close()

        def collect(more: dict[str, str] = more) -> None:
            drawing = spark.read.format("drillcore").options(**given, sample=SAMPLE, seed=7, **more).load()
            assert drawing.count() == SAMPLE
            release(drawing)

        report(
            f"sample of {SAMPLE:,}, {name}",
            tasks=len(tasks),
            rows_read_per_row=round(drawn / SAMPLE, 3),
            open_s=round(opened, 3),
            plan_s=round(planned, 3),
            through_spark_s=round(seconds(collect), 2),
        )
    taken = seconds(lambda: estimate(spark, frame, "flights", "avg(delay)", by="carrier", n=SAMPLE, seed=1))
    report("estimate by carrier", n=SAMPLE, through_spark_s=round(taken, 2))
    spark.stop()


def allocate(databases: int, splits: int) -> None:
    """The allocation step alone, over many databases of very different sizes."""
    source = random.Random(1)
    sizes = [int(source.paretovariate(1.1) * 100_000) for _ in range(databases * splits)]
    report(
        "union",
        databases=databases,
        splits=len(sizes),
        rows=sum(sizes),
        largest_share=round(max(sizes) / sum(sizes), 3),
    )
    for draws in (10_000, 100_000, 1_000_000, 10_000_000):
        multinomial = seconds(lambda draws=draws: allocate_with_replacement(draws, sizes, 1), 1)
        hypergeometric = seconds(lambda draws=draws: allocate_without_replacement(draws, sizes, 1), 1)
        report(
            f"allocation of {draws:,} draws",
            with_replacement_s=round(multinomial, 3),
            without_s=round(hypergeometric, 3),
            memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        )
    rows = 100_000
    mean = max(1, rows // len(sizes))
    generator = np.random.default_rng(1)
    times = [np.cumsum(generator.exponential(1, mean + 3 * int(mean**0.5) + 3)) for _ in sizes]
    report(f"earliest {rows:,} of all arrivals", seconds=round(seconds(lambda: allocate_by_arrival(rows, times), 1), 3))


def main() -> None:
    """Measure one or the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows per database")
    parser.add_argument("--folder", help="where the databases are, or are made; by default a folder that is removed")
    parser.add_argument("--allocation", action="store_true", help="simulate the allocation step instead")
    parser.add_argument("--databases", type=int, default=10_000)
    parser.add_argument("--splits", type=int, default=20, help="splits per database, of the simulation")
    arguments = parser.parse_args()
    if arguments.allocation:
        allocate(arguments.databases, arguments.splits)
        return
    with tempfile.TemporaryDirectory() as temporary:
        measure(arguments.folder or temporary, arguments.rows)


if __name__ == "__main__":
    main()
