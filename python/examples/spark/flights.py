"""Three processes pour flights into three databases, while a Spark job samples and estimates over all of them.

Run it with the Python that has drillcore[spark]: python python/examples/spark/flights.py
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import random
import sys
import tempfile
import time
import warnings
from datetime import date, timedelta
from typing import Any

import pyarrow as pa

import drillcore

# Each airport has carriers, delays and a pace of its own.
AIRPORTS = {"EWR": 2_000, "JFK": 1_000, "LGA": 250}
CARRIERS = {"UA": 12, "DL": 9, "B6": 13, "AA": 8, "HA": -7}
SHARES = {
    "EWR": [60, 5, 15, 18, 2],
    "JFK": [5, 30, 50, 10, 5],
    "LGA": [20, 40, 10, 30, 0],
}
SCHEMA = {
    "day": "date32",
    "flight": "int64",
    "origin": "string",
    "carrier": "string",
    "seats": "int64",
    "delay": "float64",
}


def pour(airport: str, path: str, seed: int, stop: Any) -> None:
    """Write flights until ``stop`` is set, a few ten thousand per second."""
    source, flight = random.Random(seed), 0
    batch_rows = AIRPORTS[airport]
    with drillcore.open(path) as db:
        table = db.create_table("flights", SCHEMA, key=["day", "flight"], set="carrier", weights="seats")
        while not stop.is_set():
            carriers = source.choices(list(CARRIERS), SHARES[airport], k=batch_rows)
            numbers = range(flight, flight + batch_rows)
            rows = {
                "day": [date(2013, 1, 1) + timedelta(each // 1_000 % 365) for each in numbers],
                "flight": list(numbers),
                "origin": [airport] * batch_rows,
                "carrier": carriers,
                "seats": [50 + 10 * (each % 20) for each in numbers],
                "delay": [source.expovariate(1 / 15) + CARRIERS[carrier] - 15 for carrier in carriers],
            }
            table.append(pa.table(rows))
            flight += batch_rows
            time.sleep(0.05)


def session() -> Any:
    """A small Spark, whose workers are this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    building = SparkSession.builder.master("local[2]").appName("flights").config("spark.ui.enabled", "false")
    building = building.config("spark.ui.showConsoleProgress", "false")
    spark = building.config("spark.log.level", "ERROR").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.dataSource.register(drillcore.spark.DrillcoreDataSource)
    return spark


def read(spark: Any, paths: dict[str, str], **options: Any) -> Any:
    """Load the flights of all databases, at this moment."""
    reading = spark.read.format("drillcore").options(path=",".join(paths.values()), table="flights", **options)
    return reading.load()


def compare(flights: Any, spark: Any) -> None:
    """Print a table of exact averages, which read all rows, and estimates from 10,000, both at the frame's moment."""
    started = time.monotonic()
    exact = {row["carrier"]: row for row in flights.groupBy("carrier").agg({"delay": "avg", "*": "count"}).collect()}
    scanned = time.monotonic() - started
    started = time.monotonic()
    estimate = drillcore.spark.estimate(
        spark,
        flights,
        "flights",
        ["avg(delay)", "count"],
        by="carrier",
        n=10_000,
        seed=7,
    )
    drawn = time.monotonic() - started
    print(f"\n{estimate.population:,} rows read in {scanned:.1f} s; {estimate.sampled:,} rows drawn in {drawn:.1f} s")
    print(f"{'carrier':8} {'exact':>8} {'estimate':>9} {'95% interval':>18}  {'flights':>9} {'estimate':>9}")
    for row in estimate.arrow().to_pylist():
        true = exact[row["carrier"]]
        interval = f"[{row['avg(delay)_low']:.2f}, {row['avg(delay)_high']:.2f}]"
        print(
            f"{row['carrier']:8} {true['avg(delay)']:8.2f} {row['avg(delay)']:9.2f} {interval:>18}  "
            f"{true['count(1)']:9,} {row['count']:9,.0f}"
        )


def main() -> None:
    """Start the writers, and read beside them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long the writers write before Spark reads")
    parser.add_argument(
        "--folder",
        help="where to put the databases; by default a folder that is removed at the end",
    )
    arguments = parser.parse_args()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # Java that is missing
            # `import drillcore.spark` would make a name of this function of `drillcore`.
            importlib.import_module("drillcore.spark")
    except (drillcore.MissingPackageError, RuntimeWarning) as error:
        parser.exit(1, f"{error}\n")

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        paths = {airport: os.path.join(folder, f"{airport}.drill") for airport in AIRPORTS}
        spark = session()
        spawned = multiprocessing.get_context("spawn")
        stop = spawned.Event()
        writers = [
            spawned.Process(target=pour, args=(airport, path, seed, stop))
            for seed, (airport, path) in enumerate(paths.items())
        ]
        for writer in writers:
            writer.start()
        time.sleep(arguments.seconds)

        flights = read(spark, paths)
        print(f"{flights.count():,} flights at the moment of load()")
        sample = read(spark, paths, sample=10_000, seed=7)
        print("10,000 random flights of all three, by airport:")
        sample.groupBy("origin").count().orderBy("origin").show()
        heavy = read(spark, paths, sample=10_000, seed=7, weight="seats")
        (seats,) = heavy.agg({"seats": "avg"}).collect()[0]
        print(f"10,000 different flights by their seats have {seats:.1f} seats on average")
        compare(flights, spark)
        print(f"\n{sum(writer.is_alive() for writer in writers)} of {len(writers)} writers are still writing")
        print(f"{flights.count():,} flights still, and {read(spark, paths).count():,} in a new load()")
        for frame in (flights, sample, heavy):
            drillcore.spark.release(frame)
        stop.set()
        for writer in writers:
            writer.join()
        spark.stop()


if __name__ == "__main__":
    main()
