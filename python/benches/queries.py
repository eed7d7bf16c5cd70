"""Seventeen queries over sales, beside DuckDB on its own file, in one process and by turns.

    python python/benches/queries.py --rows 5000000 --dir /tmp/queries

Both get the same rows, in shuffled batches of 500,000, and are asked the same SQL. Every answer is compared; one that
differs ends the run. A time is the least of the repetitions, with the files in the system's cache; the ratio is of
those. Sizes are those of the files, and of the same rows in Parquet with zstd.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import drillcore

BATCH_ROWS = 500_000
QUERIES = {
    "sum": "select sum(amount) as s from sales",
    "four aggregates": "select sum(amount) as a, avg(price) as p, max(qty) as q, min(discount) as d from sales",
    "by a text": "select region, sum(amount) as s, count(*) as c from sales group by region",
    "by two texts": "select region, channel, avg(price) as p from sales group by region, channel",
    "by a number": "select store, sum(qty) as q from sales group by store",
    "by 2,000 texts": "select product, sum(amount) as s from sales group by product",
    "top 10 of groups": "select customer, sum(amount) as s from sales group by customer"
    " order by s desc, customer limit 10",
    "top 100": "select id, amount from sales order by amount desc, id limit 100",
    "filtered count": "select count(*) as c from sales where qty > 15 and price < 10",
    "filtered by text": "select count(*) as c, sum(qty) as q from sales where product = 'product-0007'",
    "filtered by time": "select sum(amount) as s from sales"
    " where ts >= timestamp '2023-11-20' and ts < timestamp '2023-11-21'",
    "a range of keys": "select sum(amount) as s from sales where id between 1000000 and 1200000",
    "distinct numbers": "select count(distinct customer) as c from sales",
    "distinct texts": "select count(distinct product) as c from sales",
    "by hour": "select date_trunc('hour', ts) as h, sum(amount) as s from sales group by h order by h limit 50",
    "join": "select a.region, count(*) as c from sales a"
    " join (select distinct store as st from sales where returned) b on a.store = b.st group by a.region",
    "window": "select max(r) as m from"
    " (select row_number() over (partition by store order by ts) as r from sales where qty = 7) x",
}


def sales(rows: int, seed: int) -> Iterator[pa.Table]:
    """Sales of 12 columns: a few texts, thousands of products, prices in cents."""
    rng = np.random.default_rng(seed)
    products = np.array([f"product-{number:04}" for number in range(2000)])
    regions = np.array(["north", "south", "east", "west", "centre"])
    channels = np.array(["web", "store", "phone", "partner"])
    for first in range(0, rows, BATCH_ROWS):
        n = min(BATCH_ROWS, rows - first)
        ids = np.arange(first, first + n)
        quantity = rng.integers(1, 20, n).astype(np.int32)
        price = np.round(rng.gamma(2, 20, n), 2)
        discount = np.where(rng.random(n) < 0.8, 0, np.round(rng.random(n) * 0.3, 2))
        yield pa.table(
            {
                "id": ids,
                "ts": pa.array(1_700_000_000_000 + ids * 700 + rng.integers(0, 700, n), pa.timestamp("ms")),
                "region": regions[rng.integers(0, 5, n)],
                "channel": channels[rng.integers(0, 4, n)],
                "product": products[rng.zipf(1.3, n) % 2000],
                "store": rng.integers(0, 400, n).astype(np.int32),
                "customer": rng.integers(0, 200_000, n),
                "qty": quantity,
                "price": price,
                "amount": np.round(price * quantity, 2),
                "discount": pa.array(discount, mask=rng.random(n) < 0.05),
                "returned": rng.random(n) < 0.03,
            }
        )


def load(folder: Path, rows: int, seed: int, merge: str) -> None:
    """Make the databases, unless they are there."""
    parquet = folder / "sales.parquet"
    if not (folder / "sales.duckdb").exists():
        writer = None
        for batch in sales(rows, seed):
            writer = writer or pq.ParquetWriter(parquet, batch.schema, compression="zstd")
            writer.write_table(batch)
        if writer is None:
            sys.exit("there are no rows")
        writer.close()
        with duckdb.connect(folder / "sales.duckdb") as connection:
            connection.sql(f"create table sales as select * from '{parquet}'")
    if not (folder / "sales.drill").exists():
        with drillcore.open(folder / "sales.drill") as db:
            table = None
            for batch in sales(rows, seed):
                table = table or db.create_table("sales", batch.schema, key="id", set="region", merge=merge)
                table.append(batch.take(np.random.default_rng(seed).permutation(len(batch))))
            db.compact()


def size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def differs(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether two answers are not the same rows, floats up to rounding."""

    def rows(table: pa.Table) -> list[tuple[object, ...]]:
        found = [tuple(row.values()) for row in table.to_pylist()]
        return sorted(found, key=lambda row: repr([v if not isinstance(v, float) else round(v, 3) for v in row]))

    def same(a: object, b: object) -> bool:
        return a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-6 * abs(b) + 0.01)

    pairs = zip(rows(ours), rows(theirs), strict=False)
    return ours.shape != theirs.shape or not all(all(map(same, *pair)) for pair in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, required=True, help="where the files lie; they are kept, and used again")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--merge", choices=["append", "upsert"], default="append")
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    load(arguments.dir, arguments.rows, arguments.seed, arguments.merge)
    sizes = {name: size(arguments.dir / f"sales.{name}") / 1e6 for name in ("drill", "duckdb", "parquet")}
    print("  ".join(f"{name} {megabytes:.1f} MB" for name, megabytes in sizes.items()))
    db = drillcore.open(arguments.dir / "sales.drill")
    peer = duckdb.connect(arguments.dir / "sales.duckdb", read_only=True)
    peer.sql(f"set threads = {os.cpu_count()}")
    ratios = []
    for name, query in QUERIES.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(arguments.repetitions):
            begin = time.perf_counter()
            ours = pa.table(db.sql(query))
            middle = time.perf_counter()
            theirs = peer.sql(query).to_arrow_table()
            times[1].append(time.perf_counter() - middle)
            times[0].append(middle - begin)
        if differs(ours, theirs):
            sys.exit(f"{name}: the answers differ")
        least = [min(of_one) * 1e3 for of_one in times]
        ratios.append(least[0] / least[1])
        print(f"{name:18} {least[0]:9.1f} ms {least[1]:9.1f} ms {ratios[-1]:6.1f}", flush=True)
    print(f"median {statistics.median(ratios):.1f}, worst {max(ratios):.1f}")


if __name__ == "__main__":
    main()
