"""Rows as dicts into a table of five columns: one append per row and a writer, by one thread and by more, and SQLite.

    python python/benches/writing.py --rows 400000

All dicts are there before the clock starts. Time runs until the last row is committed. Each way gets a table of its
own in one database on disk with the default options. Its rows are counted, and one is compared. The first round does
not count.

SQLite commits each row by itself into a table with the same key and an index of the same column, with a write-ahead log
that, as by the default options here, the system writes out when it likes. Each of its threads has a connection, and
waits while another one writes.
"""

import argparse
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import drillcore

SCHEMA = {"day": "int64", "carrier": "string", "flight": "int64", "miles": "int64", "delay": "float64"}


def flights(first: int, rows: int) -> list[dict[str, Any]]:
    """Flights, a thousand a day."""
    carriers = ("UA", "DL", "AA")
    ids = range(first, first + rows)
    return [
        {"day": i // 1_000, "carrier": carriers[i % 3], "flight": i, "miles": i % 2_000, "delay": i / 3} for i in ids
    ]


def in_threads(work: Callable[[list[dict[str, Any]]], None], shares: list[list[dict[str, Any]]]) -> None:
    """Do some work with each share, in a thread of its own if there are several."""
    if len(shares) == 1:
        work(shares[0])
        return
    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def append(table: drillcore.Table, shares: list[list[dict[str, Any]]]) -> None:
    """Append each row by itself, each share in a thread."""

    def append_each(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            table.append([row])

    in_threads(append_each, shares)


def write(table: drillcore.Table, shares: list[list[dict[str, Any]]]) -> None:
    """Add each row to one writer, each share in a thread."""
    with table.writer() as writer:

        def add(rows: list[dict[str, Any]]) -> None:
            for row in rows:
                writer.add(row)

        in_threads(add, shares)


def sqlite_rate(shares: list[list[dict[str, Any]]]) -> float:
    """Insert each row by itself, each share in a thread, and return how many a second."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(f"{folder}/db", isolation_level=None)
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = off")
        db.execute(
            "create table t(day integer, carrier text, flight integer, miles integer, delay real, "
            "primary key (day, flight)) without rowid"
        )
        db.execute("create index of_carrier on t(carrier)")

        def insert(rows: list[dict[str, Any]]) -> None:
            connection = sqlite3.connect(f"{folder}/db", isolation_level=None, timeout=600)
            connection.execute("pragma synchronous = off")
            for row in rows:
                connection.execute("insert into t values (:day, :carrier, :flight, :miles, :delay)", row)
            connection.close()

        started = time.perf_counter()
        in_threads(insert, shares)
        rows = sum(map(len, shares))
        rate = rows / (time.perf_counter() - started)
        if db.execute("select count(*) from t").fetchone() != (rows,):
            raise SystemExit("SQLite: the rows differ")
        db.close()
        return rate


def main() -> None:
    """Measure each way in turn, several times."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=400_000)
    arguments.add_argument("--threads", type=int, default=8)
    arguments.add_argument("--repetitions", type=int, default=5)
    given = arguments.parse_args()
    threads = f"{given.threads} threads"

    def of_each(rows: int) -> list[list[dict[str, Any]]]:
        each = rows // given.threads
        return [flights(n * each, each) for n in range(given.threads)]

    one_by_one = {"1 thread": [flights(0, given.rows // 20)], threads: of_each(given.rows // 20)}
    ways = {
        **{f"one append per row, {who}": (append, shares) for who, shares in one_by_one.items()},
        "writer, 1 thread": (write, [flights(0, given.rows)]),
        f"writer, {threads}": (write, of_each(given.rows)),
    }
    rates: dict[str, list[float]] = {way: [] for way in [*ways, *(f"SQLite, {who}" for who in one_by_one)]}
    with tempfile.TemporaryDirectory() as folder, drillcore.open(folder) as db:
        for repetition in range(given.repetitions + 1):
            for way, (call, shares) in ways.items():
                table = db.create_table(f"{way} {repetition}", SCHEMA, key=["day", "flight"], set="carrier")
                started = time.perf_counter()
                call(table, shares)
                rate = sum(map(len, shares)) / (time.perf_counter() - started)
                if len(table) != sum(map(len, shares)) or table.get(0, 7) != flights(7, 1)[0]:
                    raise SystemExit(f"{way}: the rows differ")
                db.drop_table(table.name)
                if repetition > 0:
                    rates[way].append(rate)
            for who, shares in one_by_one.items():
                rate = sqlite_rate(shares)
                if repetition > 0:
                    rates[f"SQLite, {who}"].append(rate)
    for way, of_way in rates.items():
        print(f"{way:29} {statistics.median(of_way):10,.0f} rows/s   {min(of_way):10,.0f} .. {max(of_way):,.0f}")


if __name__ == "__main__":
    main()
