"""Writers and readers at once; signals; the interpreter is free meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from events import event_rows, event_schema

import drillcore

WRITERS = 4
BATCHES = 40
BATCH_ROWS = 50


def in_threads(*works: Callable[[], None]) -> None:
    """Run all at once; raise the first failure."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_readers_see_whole_batches_while_writers_write(database: drillcore.Database) -> None:
    table = database.create_table("events", event_schema(), key=["ts", "flight"], set="carrier")
    done = threading.Event()
    writing = threading.Semaphore(0)

    def write(writer: int) -> Callable[[], None]:
        def body() -> None:
            for i in range(BATCHES):
                first = (writer * BATCHES + i) * BATCH_ROWS
                table.append(event_rows(first, first + BATCH_ROWS))
            writing.release()

        return body

    def wait_for_writers() -> None:
        for _ in range(WRITERS):
            writing.acquire(timeout=60)
        done.set()

    def read() -> None:
        seen = 0
        while not done.is_set():
            with database.snapshot() as snapshot:
                pinned = snapshot.table("events")
                rows = len(pinned)
                assert rows % BATCH_ROWS == 0, "part of a batch is visible"
                assert rows >= seen, "a later snapshot lost rows"
                assert rows == pinned.scan(columns=["flight"]).arrow().num_rows
                assert sum(count for _, count in pinned.sets()) == rows
                if rows:
                    drawn = pinned.sample(20, columns=["flight"]).arrow()["flight"].to_pylist()
                    assert len(set(drawn)) == 20
                seen = rows

    in_threads(*(write(writer) for writer in range(WRITERS)), wait_for_writers, read, read)
    total = WRITERS * BATCHES * BATCH_ROWS
    flights = table.scan(columns=["flight"]).arrow()["flight"].to_pylist()
    assert sorted(flights) == list(range(total))


def big_table(db: drillcore.Database, rows: int) -> drillcore.Table:
    table = db.create_table("big", {"id": "int64", "x": "float64"}, key="id")
    step = 250_000
    for first in range(0, rows, step):
        numbers = pa.array(range(first, min(first + step, rows)))
        table.append(pa.table({"id": numbers, "x": numbers.cast(pa.float64())}))
    return table


def interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


# Left alone, each of these takes about ten seconds on a small machine.
LONG_CALLS: dict[str, Callable[[drillcore.Table], object]] = {
    "sample": lambda table: table.sample(20_000_000, replace=True, columns=["id"]),
    "estimate": lambda table: [table.estimate("avg(x)", by="id", n=900_000) for _ in range(20)],
    "scans": lambda table: [table.scan().arrow() for _ in range(300)],
}


@pytest.mark.parametrize("call", LONG_CALLS)
def test_control_c_stops_a_long_call_and_leaves_the_database_whole(call: str) -> None:
    with drillcore.open(":memory:") as db:
        table = big_table(db, 1_000_000)
        timer = interrupt_after(0.3)
        start = time.perf_counter()
        try:
            with pytest.raises(KeyboardInterrupt):
                LONG_CALLS[call](table)
        finally:
            timer.cancel()
        assert time.perf_counter() - start < 4
        assert len(table) == 1_000_000
        table.append([{"id": -1, "x": 0.0}])
        assert table.get(-1) == {"id": -1, "x": 0.0}


INTERRUPTED = [
    "test_threads.py::test_control_c_stops_a_long_call_and_leaves_the_database_whole",
    "test_load.py::test_an_interrupt_leaves_whole_chunks_in",
    "test_command.py::test_ctrl_c_ends_a_wait_for_standard_input",
]


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_interrupts_arrive_also_where_the_tests_were_started_with_ctrl_c_ignored() -> None:
    # As `nohup make test &` starts them.
    tests = [str(Path(__file__).with_name(name)) for name in INTERRUPTED]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    ignored = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    done = subprocess.run(ignored, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout


def test_other_threads_run_during_a_long_call() -> None:
    with drillcore.open(":memory:") as db:
        table = big_table(db, 100_000)
        running = threading.Event()
        turns = 0

        def work() -> None:
            running.set()
            table.sample(2_000_000, replace=True, columns=["id"])
            running.clear()

        thread = threading.Thread(target=work)
        thread.start()
        assert running.wait(10)
        while running.is_set():
            time.sleep(0.001)
            turns += 1
        thread.join()
        assert turns > 30
