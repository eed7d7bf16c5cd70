"""Parquet in and out beside DuckDB: ``drillcore ingest``, ``drillcore export`` and ``rows.to_parquet()``.

    python python/benches/exporting.py --rows 5000000

Both stores read one file and write files of their own, with zstd, in each repetition by turns. Every file written is
read back, and its rows are counted and summed. An ingest goes into a new database on disk, whose table has a key, a
set column with its index and a weight, until the command has returned; DuckDB makes a table in a new database file by
``create table as select ... order by`` the same key, then writes a checkpoint. DuckDB makes no index of the set, and
no weights. ``export`` and ``to_parquet`` write a compacted table in the order of its key; DuckDB its table in the
same order, which it was made in.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import drillcore

GROUP_ROWS = 122_880


def write_source(path: Path, rows: int, rng: np.random.Generator) -> None:
    """Write sales in no order of their key, in row groups as DuckDB writes them."""
    cities = pa.array([f"city {n}" for n in range(100)])
    ids = rng.permutation(rows)
    with pq.ParquetWriter(path, sales(ids[:0], cities, rng).schema, compression="zstd") as writer:
        for first in range(0, rows, GROUP_ROWS):
            writer.write_table(sales(ids[first : first + GROUP_ROWS], cities, rng))


def sales(ids: np.ndarray, cities: pa.Array, rng: np.random.Generator) -> pa.Table:
    """Sales with these ids."""
    rows = len(ids)
    return pa.table(
        {
            "id": ids,
            "at": pa.array(1_700_000_000_000 + ids * 250, pa.timestamp("ms")),
            "city": cities.take(pa.array(rng.integers(0, 100, rows))),
            "units": rng.integers(1, 50, rows, dtype=np.int32),
            "price": np.round(rng.random(rows) * 100, 2),
            "note": pa.array([f"note {n}" for n in rng.integers(0, 1_000_000, rows)], pa.string()),
        }
    )


def check(path: Path, rows: int) -> None:
    """End with an error if a file does not hold all rows."""
    found = pq.read_table(path, columns=["id", "units"])
    total = int(found["id"].to_numpy().sum())
    if found.num_rows != rows or total != rows * (rows - 1) // 2:
        raise SystemExit(f"{path.name} has {found.num_rows} rows with ids that add up to {total}")


def drillcore_command(*arguments: object) -> None:
    """Run the command of the package that is measured."""
    subprocess.run([sys.executable, "-m", "drillcore", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def ingest(source: Path, folder: Path) -> None:
    """Make a table of the file."""
    drillcore_command(
        "ingest", folder / "ingested.drill", "sales", source, "--key=id", "--set=city", "--weights=units", "--quiet"
    )


def create_as(source: Path, folder: Path) -> None:
    """Make a table of the file in DuckDB, in the same order."""
    with duckdb.connect(str(folder / "ingested.duckdb")) as db:
        db.execute(f"create table sales as select * from read_parquet('{source}') order by id")
        db.execute("checkpoint")


def by_turns(repetitions: int, contenders: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of each, after a round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round in range(repetitions + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if round > 0:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def report(seconds: dict[str, list[float]], rows: int, peer: str) -> None:
    """Print rates, and how many times as fast as the peer."""
    best = statistics.median(seconds[peer])
    for name, measured in seconds.items():
        median = statistics.median(measured)
        spread = f"{min(measured):.2f} to {max(measured):.2f}"
        print(f"{name:36} {rows / median:14,.0f} rows/s {median:8.2f} s ({spread}) {best / median:7.2f}")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--dir", help="where the files lie meanwhile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        measure(Path(name), arguments.rows, arguments.repetitions)


def measure(folder: Path, rows: int, repetitions: int) -> None:
    """Ingest and export by turns."""
    source = folder / "source.parquet"
    write_source(source, rows, np.random.default_rng(7))

    def ingest_anew() -> None:
        shutil.rmtree(folder / "ingested.drill", ignore_errors=True)
        ingest(source, folder)

    def create_anew() -> None:
        (folder / "ingested.duckdb").unlink(missing_ok=True)
        create_as(source, folder)

    print(f"{rows:,} rows, DuckDB {duckdb.__version__}; times as fast as DuckDB in the last column")
    contenders: dict[str, Callable[[], object]] = {
        "drillcore ingest": ingest_anew,
        "duckdb create table as, order by": create_anew,
    }
    report(by_turns(repetitions, contenders), rows, "duckdb create table as, order by")

    path = folder / "ingested.drill"
    with drillcore.open(path) as db:
        db.compact()
    targets = {name: folder / f"{name}.parquet" for name in ("export", "to_parquet", "duckdb")}
    reader = drillcore.open(path, read_only=True)
    peer = duckdb.connect(str(folder / "ingested.duckdb"))
    copy = f"copy sales to '{targets['duckdb']}' (format parquet, compression zstd)"
    contenders = {
        "drillcore export": lambda: drillcore_command("export", path, "sales", targets["export"], "--force", "--quiet"),
        "rows.to_parquet": lambda: reader.table("sales").scan().to_parquet(targets["to_parquet"], overwrite=True),
        "duckdb copy to": lambda: peer.execute(copy),
    }
    report(by_turns(repetitions, contenders), rows, "duckdb copy to")
    for name, target in targets.items():
        check(target, rows)
        print(f"{name + '.parquet':36} {target.stat().st_size / 1e6:14,.1f} MB")


if __name__ == "__main__":
    main()
