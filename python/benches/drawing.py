"""Weighted batches as tensors from a table beside a writer, and from PyTorch's sampler over arrays in memory.

    pip install 'drillcore[torch]'
    python python/benches/drawing.py --rows 5000000

The table is an upsert table with a priority, of which a thread replaces 256 rows every ten milliseconds. `dataset` are
the batches of a `SampleDataset` in this process, which sees the newest rows with each batch; `stream` the same before
they become tensors, from the database that writes. Each is measured with one thread that draws and with `--threads`.
`WeightedRandomSampler` is made anew for each batch, because priorities change, over tensors that do not change. All
draw with replacement.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import WeightedRandomSampler

import drillcore
from drillcore.torch import SampleDataset

SCHEMA = {"id": "int64", "priority": "float64", "state": "float32", "reward": "float32"}
BATCH_ROWS = 256


def rows(ids: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Rows with these keys."""
    n = len(ids)
    floats = {name: rng.random(n).astype(np.float32) for name in ("state", "reward")}
    return pa.table({"id": ids, "priority": rng.random(n), **floats})


def replace_rows(table: drillcore.Table, count: int, stop: threading.Event) -> None:
    """Replace some rows every ten milliseconds."""
    rng = np.random.default_rng(2)
    while not stop.wait(0.01):
        table.append(rows(rng.integers(0, count, BATCH_ROWS), rng))


def sampler(columns: dict[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Batches of PyTorch's sampler."""
    while True:
        drawn = torch.tensor(list(WeightedRandomSampler(columns["priority"], BATCH_ROWS, replacement=True)))
        yield {name: column[drawn] for name, column in columns.items()}


def rate(batches: Iterator[Any], seconds: float) -> float:
    """Samples per second."""
    next(batches)
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        assert len(next(iter(next(batches).values()))) == BATCH_ROWS
        count += BATCH_ROWS
    return count / (time.perf_counter() - started)


def main() -> None:
    """Load, then measure each way in turn."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=5_000_000)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--repetitions", type=int, default=3)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder, drillcore.open(folder) as db:
        table = db.create_table("replay", SCHEMA, key="id", merge="upsert", weights="priority")
        for first in range(0, given.rows, 250_000):
            table.append(rows(np.arange(first, min(first + 250_000, given.rows)), rng))
        db.compact()
        columns = {name: torch.from_numpy(column.to_numpy()) for name, column in table_columns(table).items()}
        rates: dict[str, list[float]] = {}
        stop = threading.Event()
        writer = threading.Thread(target=replace_rows, args=(table, given.rows, stop))
        writer.start()
        try:
            for _ in range(given.repetitions):
                for threads in dict.fromkeys([1, given.threads]):
                    options = {"weight": "priority", "replace": True, "threads": threads, "ahead": 2 * threads}
                    dataset = iter(SampleDataset(folder, "replay", BATCH_ROWS, **options))
                    rates.setdefault(f"dataset, {threads} threads", []).append(rate(dataset, given.seconds))
                    with table.stream(BATCH_ROWS, **options) as stream:
                        batches = ({"id": batch.arrow().column(0)} for batch in stream)
                        rates.setdefault(f"stream, {threads} threads", []).append(rate(batches, given.seconds))
                rates.setdefault("WeightedRandomSampler", []).append(rate(sampler(columns), given.seconds))
        finally:
            stop.set()
            writer.join()
    base = statistics.median(rates["WeightedRandomSampler"])
    for way, of_way in rates.items():
        median = statistics.median(of_way)
        spread = f"{min(of_way):10,.0f} .. {max(of_way):,.0f}"
        print(f"{way:22} {median:10,.0f} samples/s   {spread:24} {median / base:6.1f}")


def table_columns(table: drillcore.Table) -> dict[str, pa.ChunkedArray]:
    """All columns, in memory."""
    whole = table.scan().arrow()
    return dict(zip(whole.schema.names, whole.columns, strict=True))


if __name__ == "__main__":
    main()
