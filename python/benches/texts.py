"""Texts that seldom come again: how much of the disk they take, and how fast they are read, beside Parquet and DuckDB.

    python python/benches/texts.py --rows 200000

Each table has a whole number as its key and one column of made texts: addresses of web pages, lines of a log, JSON
documents of half a kilobyte and of several, and UUIDs. It is compacted, DuckDB's writes a checkpoint, and Parquet is
written by pyarrow. The bytes are those of the files; the scan is of all rows as Arrow, the least of some turns, from
the cache of the operating system; a get and a sample are of a thousand rows each.
"""

import argparse
import json
import random
import re
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import drillcore

PICKED = 1_000
AGENTS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.1",
    "curl/8.4.0",
    "python-requests/2.31.0",
]
WORDS = re.findall(
    r"\w+",
    """
    the quick brown fox jumps over lazy dog customer order payment failed timeout retry connection reset upstream shard
    replica commit index page cache miss
""",
)


def address(rng: random.Random) -> str:
    """Return the address of a page of a shop."""
    language, word, other = rng.choice(["en", "de", "fr"]), rng.choice(WORDS), rng.choice(WORDS)
    item, session = rng.randrange(10**6), rng.getrandbits(32)
    return f"https://shop.example.com/{language}/{word}/item-{item}?ref={other}&session={session:08x}"


def line(rng: random.Random) -> str:
    """Return a line of a log."""
    words = " ".join(rng.choices(WORDS, k=rng.randrange(3, 9)))
    host = ".".join(str(rng.randrange(256)) for _ in range(3))
    head = f"{rng.choice(['INFO', 'WARN', 'ERROR'])} {rng.choice(WORDS)}: request {rng.getrandbits(32):08x}"
    return f"{head} from 10.{host} {words} {rng.choice(AGENTS[2:])} after {rng.randrange(5000)} ms"


def order(rng: random.Random) -> dict[str, Any]:
    """Return an order of some items."""
    return {
        "id": rng.getrandbits(40),
        "user": {
            "name": f"{rng.choice(WORDS)}{rng.randrange(1000)}",
            "email": f"{rng.choice(WORDS)}{rng.randrange(10**5)}@example.com",
        },
        "items": [
            {
                "sku": f"SKU-{rng.randrange(10**6):06d}",
                "qty": rng.randrange(1, 9),
                "price": round(rng.random() * 100, 2),
            }
            for _ in range(rng.randrange(1, 6))
        ],
        "agent": rng.choice(AGENTS),
        "note": " ".join(rng.choices(WORDS, k=8)),
    }


TEXTS: dict[str, tuple[Callable[[random.Random], str], int]] = {
    "addresses": (address, 1),
    "log lines": (line, 1),
    "documents": (lambda rng: json.dumps(order(rng)), 1),
    "long documents": (lambda rng: json.dumps([order(rng) for _ in range(rng.randrange(4, 9))]), 10),
    "UUIDs": (lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)), 1),
}
"""What makes a text, and how many times fewer rows there are of it."""


def seconds(call: Callable[[], object], repetitions: int) -> float:
    """Return the least time that a call takes."""
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def size(path: Path) -> int:
    """Return the bytes of a file, or of the segments in a directory."""
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.glob("segment-*"))


def measure(folder: Path, name: str, rows: int, repetitions: int) -> None:
    """Write one kind of texts each way, read it back, and print a line."""
    make, fewer = TEXTS[name]
    rng = random.Random(7)
    rows //= fewer
    texts = [make(rng) for _ in range(rows)]
    table = pa.table({"id": pa.array(range(rows)), "text": pa.array(texts)})
    db = drillcore.open(folder / "texts.drill")
    ours = db.create_table("texts", table.schema, key="id")
    ours.append(table)
    started = time.perf_counter()
    db.compact()
    compacted = time.perf_counter() - started
    if not pa.table(ours.scan()).equals(table):
        raise SystemExit(f"{name}: other rows came back")
    peer = duckdb.connect(str(folder / "texts.duckdb"))
    peer.register("source", table)
    peer.execute("create table texts as select * from source order by id")
    peer.execute("checkpoint")
    keys = [rng.randrange(rows) for _ in range(PICKED)]
    scan = seconds(lambda: pa.table(ours.scan()), repetitions)
    theirs = seconds(lambda: peer.sql("select * from texts").to_arrow_table(), repetitions)
    get = seconds(lambda: ours.get_many(keys), repetitions)
    sample = seconds(lambda: ours.sample(PICKED), repetitions)
    raw = sum(len(text) for text in texts)
    of_parquet = []
    for codec in ["zstd", "snappy"]:
        pq.write_table(table, folder / codec, compression=codec)
        of_parquet.append(size(folder / codec) / rows)
    zstd, snappy = of_parquet
    peer.close()
    db.close()
    sizes = f"{raw / rows:8.0f} {size(folder / 'texts.drill') / rows:8.1f} {zstd:8.1f} {snappy:8.1f}"
    sizes += f" {size(folder / 'texts.duckdb') / rows:8.1f}"
    times = f"{compacted:8.2f} {scan * 1e3:8.1f} {theirs * 1e3:8.1f} {get * 1e3:8.2f} {sample * 1e3:8.2f}"
    print(f"{name:16} {rows:9,} {sizes} {times}")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--dir", help="where the files lie meanwhile")
    arguments = parser.parse_args()
    print(f"bytes per row; seconds to compact; milliseconds of a scan, and of a get and a sample of {PICKED:,} rows")
    head = ["text", "ours", "zstd", "snappy", "DuckDB", "compact", "scan", "DuckDB", "get", "sample"]
    print(f"{'':16} {'rows':>9} " + " ".join(f"{column:>8}" for column in head))
    for name in TEXTS:
        with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
            measure(Path(folder), name, arguments.rows, arguments.repetitions)


if __name__ == "__main__":
    main()
