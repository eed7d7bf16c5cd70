"""The heart of the demo: writers and a reader at once, and what was seen meanwhile."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import pyarrow as pa

import drillcore
from flights_demo import tables

SHARE = 0.06
"""Of the rows stored so far: how many each look draws."""
DRAWS_MIN = 250
LOOK_EVERY_SECONDS = 0.03
CHECK_EVERY_SECONDS = 0.005
STEP_SECONDS = 0.05


@dataclass(frozen=True)
class Look:
    """One estimate of the average departure delay, taken while rows were coming in."""

    seconds: float
    rows: int
    drawn: int
    value: float
    low: float
    high: float


@dataclass
class Ingest:
    """What happened while the rows went in."""

    seconds: float = 0.0
    rows: int = 0
    batches: int = 0
    looks: list[Look] = field(default_factory=list)
    progress: list[tuple[float, int]] = field(default_factory=list)
    """Seconds since the start, and the rows stored by then."""
    checks: int = 0
    """Snapshots in which the flights of both tables were counted."""
    mismatches: int = 0
    """Those in which the counts differed."""
    append_seconds: list[float] = field(default_factory=list)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def run_ingest(
    db: drillcore.Database,
    batches: Sequence[pa.RecordBatch],
    *,
    writers: int,
    rate: float = 0,
    looking: bool = True,
    on_step: Callable[[Ingest], None] = lambda run: None,
) -> Ingest:
    """Append ``batches`` to both tables from ``writers`` threads while others draw and check; return what was seen.

    Parameters
    ----------
    rate
        Paces the writers, in rows per second in all; 0 lets them go as fast as they can.
    looking
        Whether other threads take looks, and compare the tables, meanwhile.
    on_step
        Called on the calling thread, about 20 times per second, with what was seen so far.
    """
    shared = _Shared(db, batches, rate)
    writing = [threading.Thread(target=shared.guard, args=(shared.write,)) for _ in range(writers)]
    reading = (shared.draw, shared.check) if looking else ()
    drawing = [threading.Thread(target=shared.guard, args=(work,)) for work in reading]
    try:
        for thread in [*writing, *drawing]:
            thread.start()
        for thread in writing:
            while thread.is_alive():
                thread.join(STEP_SECONDS)
                shared.step(on_step)
        if looking:
            # One last look at everything, so that the picture ends where the data does.
            time.sleep(2 * LOOK_EVERY_SECONDS)
    finally:
        shared.stopping.set()
        for thread in [*writing, *drawing]:
            thread.join()
    if shared.failures:
        raise shared.failures[0]
    shared.step(on_step)
    return shared.run


class _Shared:
    """What the threads of one ingest share."""

    def __init__(self, db: drillcore.Database, batches: Sequence[pa.RecordBatch], rate: float) -> None:
        self.db = db
        self.rate = rate
        self.run = Ingest()
        self.lock = threading.Lock()
        self.failures: list[BaseException] = []
        self.stopping = threading.Event()
        self.waiting: SimpleQueue[tuple[int, pa.RecordBatch]] = SimpleQueue()
        rows_before = 0
        for batch in batches:
            self.waiting.put((rows_before, batch))
            rows_before += batch.num_rows
        self.start = time.perf_counter()

    def write(self) -> None:
        """Append waiting batches, each when it is due, until none is left."""
        while not self.stopping.is_set():
            try:
                rows_before, batch = self.waiting.get_nowait()
            except Empty:
                return
            if self.rate:
                time.sleep(max(0.0, self.start + rows_before / self.rate - time.perf_counter()))
            before = time.perf_counter()
            tables.append(self.db, batch)
            self.note(batch.num_rows, before, time.perf_counter())

    def note(self, rows: int, before: float, after: float) -> None:
        """Count one append."""
        with self.lock:
            self.run.rows += rows
            self.run.batches += 1
            self.run.append_seconds.append(after - before)
            self.run.seconds = max(self.run.seconds, after - self.start)
            self.run.progress.append((after - self.start, self.run.rows))

    def draw(self) -> None:
        """Take looks until stopped."""
        while not self.stopping.is_set():
            look = take_look(self.db, self.start)
            if look is not None:
                with self.lock:
                    self.run.looks.append(look)
            self.stopping.wait(LOOK_EVERY_SECONDS)

    def check(self) -> None:
        """Count the flights of both tables in one snapshot after the other until stopped."""
        while not self.stopping.is_set():
            agreed = tables.agree(self.db)
            with self.lock:
                self.run.checks += 1
                self.run.mismatches += not agreed
            self.stopping.wait(CHECK_EVERY_SECONDS)

    def guard(self, work: Callable[[], None]) -> None:
        """Do ``work``; a failure stops all threads and is raised on the calling one."""
        try:
            work()
        except BaseException as error:
            self.failures.append(error)
            self.stopping.set()

    def step(self, on_step: Callable[[Ingest], None]) -> None:
        """Report what was seen so far."""
        with self.lock:
            on_step(self.run)


def take_look(db: drillcore.Database, start: float) -> Look | None:
    """Estimate the average departure delay on a snapshot of its own; `None` while there are few rows."""
    with db.snapshot() as snapshot:
        pinned = snapshot.table("flights")
        rows = len(pinned)
        drawn = int(rows * SHARE)
        if drawn < DRAWS_MIN:
            return None
        whole = pinned.estimate("avg(dep_delay)", n=drawn)
        seconds = time.perf_counter() - start
        # Only a lower bound has no upper end.
        high = math.inf if whole.high is None else whole.high
        return Look(seconds, rows, whole.sampled, whole.value, whole.low, high)
