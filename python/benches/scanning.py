"""Columns as Arrow beside DuckDB: a scan of one column, and of all, of a table on disk.

    python python/benches/scanning.py --rows 20000000

Both hold the same rows in the same order on disk, Drillcore compacted, DuckDB after a checkpoint, and hand out batches
of Arrow, which are counted and summed by pyarrow outside the time that counts. Both use all cores; the turns alternate.
The files are in the cache of the operating system; Drillcore's own cache has its default size.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import drillcore

CHUNK_ROWS = 500_000
COLUMNS = {
    "units": "whole numbers below 50",
    "price": "two decimals",
    "noise": "64 random bits",
    "city": "texts of 1,000 values",
    "id": "the key",
}


def sales(first: int, rows: int, rng: np.random.Generator) -> pa.Table:
    """Rows in the order of their key."""
    cities = pa.array([f"city {n}" for n in range(1_000)])
    return pa.table(
        {
            "id": np.arange(first, first + rows),
            "units": rng.integers(1, 50, rows, dtype=np.int32),
            "price": np.round(rng.random(rows) * 100, 2),
            "noise": rng.random(rows),
            "city": cities.take(pa.array(rng.integers(0, 1_000, rows))),
        }
    )


def drain(batches: Iterable[pa.RecordBatch]) -> tuple[float, float]:
    """Seconds until all batches are there, and a sum over their first column."""
    started = time.perf_counter()
    held = list(batches)
    seconds = time.perf_counter() - started
    column = pa.chunked_array([batch.column(0) for batch in held])
    if pa.types.is_string(column.type):
        column = pc.binary_length(column)
    return seconds, float(pc.sum(column.cast(pa.float64())).as_py())


def measure(folder: Path, rows: int, repetitions: int) -> None:
    """Make both tables, and scan them by turns."""
    rng = np.random.default_rng(7)
    db = drillcore.open(folder / "sales.drill")
    peer = duckdb.connect(str(folder / "sales.duckdb"))
    table = None
    for first in range(0, rows, CHUNK_ROWS):
        chunk = sales(first, min(CHUNK_ROWS, rows - first), rng)
        table = table or db.create_table("sales", chunk.schema, key="id")
        table.append(chunk)
        peer.register("chunk", chunk)
        peer.execute("create table if not exists sales as select * from chunk limit 0")
        peer.execute("insert into sales select * from chunk")
    assert table is not None
    sold = table
    db.compact()
    peer.execute("checkpoint")

    def of_ours(columns: list[str]) -> Iterable[pa.RecordBatch]:
        return pa.RecordBatchReader.from_stream(sold.scan(columns=columns))

    def of_peer(columns: list[str]) -> Iterable[pa.RecordBatch]:
        return peer.sql(f"select {', '.join(columns)} from sales").to_arrow_reader(100_000)

    print(f"{rows:,} rows, DuckDB {duckdb.__version__}; ratio: how many times as fast as DuckDB")
    cases = {name: [name] for name in COLUMNS} | {"all": list(COLUMNS)}
    for name, columns in cases.items():
        contenders: dict[str, Callable[[list[str]], Iterable[pa.RecordBatch]]] = {"ours": of_ours, "peer": of_peer}
        seconds: dict[str, list[float]] = {contender: [] for contender in contenders}
        for _ in range(repetitions + 1):
            sums = []
            for contender, scan in contenders.items():
                took, total = drain(scan(columns))
                seconds[contender].append(took)
                sums.append(total)
            if not np.isclose(sums[0], sums[1]):
                raise SystemExit(f"{name}: sums differ: {sums}")
        ours, theirs = (statistics.median(measured[1:]) for measured in seconds.values())
        rate = rows / ours / 1e6
        times = f"{ours * 1e3:8.1f} ms {theirs * 1e3:8.1f} ms"
        print(f"{name:8} {COLUMNS.get(name, ''):24} {times}   {rate:7.0f} M/s  {theirs / ours:6.2f}")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--dir", help="where the files lie meanwhile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        measure(Path(name), arguments.rows, arguments.repetitions)


if __name__ == "__main__":
    main()
