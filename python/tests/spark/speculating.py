"""A driver on a cluster of two hosts, of which one stalls: what a second, speculative attempt reads and writes.

A session of ``local`` never speculates, as it has one host, and Spark runs no two attempts of a task on one. Prints
what it saw as JSON, for ``test_speculation.py``, which runs it in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STALLED = 1
"""The number of the task whose first attempt stalls."""
STALL_S = 120

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.multiplier": "1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "OFF",
}


def stalling(marks: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Hand rows on, but have the first attempt of a task stall between the first batch and the others."""

    def stall(batches: Iterator[Any]) -> Iterator[Any]:
        import pyspark

        context = pyspark.TaskContext.get()
        assert context is not None
        first = next(batches)
        Path(marks, f"{context.partitionId()}-{context.attemptNumber()}").write_text(str(first.column(0).to_pylist()))
        yield first
        if (context.partitionId(), context.attemptNumber()) == (STALLED, 0):
            time.sleep(STALL_S)
        yield from batches

    return stall


def main(master: str, paths: str, folder: str) -> None:
    """Draw, and write what is drawn with a task that stalls, and print what came of it."""
    from pyspark.sql import SparkSession

    from drillcore.spark import DrillcoreDataSource

    building = SparkSession.builder.master(master).appName("speculating")
    for name, value in SETTINGS.items():
        building = building.config(name, value)
    spark = building.getOrCreate()
    spark.dataSource.register(DrillcoreDataSource)
    options = {"path": paths, "table": "t", "split_rows": 300, "columns": "id", "sample": 300, "seed": 7, "weight": "w"}
    frame = spark.read.format("drillcore").options(**options).load()
    drawn = sorted(row["id"] for row in frame.collect())
    started = time.monotonic()
    writing = frame.mapInArrow(stalling(folder), frame.schema).write.format("drillcore").mode("append")
    writing.options(path=os.path.join(folder, "made"), table="t", key="id").save()
    print(json.dumps({"drawn": drawn, "seconds": time.monotonic() - started}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
