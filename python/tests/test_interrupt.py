"""Ctrl-C ends every call that can last, though the disk is stuck or slow, and nothing is lost by it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SHIM = Path(__file__).parents[2] / "crates" / "cli" / "tests" / "slow_disk.c"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None or not SHIM.exists(),
    reason="slows a disk down by a library that is preloaded, which takes Linux, a C compiler and its source",
)

# How long a sync that is stuck takes, and each read of a slow disk; and far more than a call takes to end.
STUCK_MS = 120_000
READ_MS = 300
LIMIT_S = 20.0
BESIDE_EACH_OTHER = 6

# Makes the calls. Its tables have something to do for each of them; each read is one of the file's.
CHILD = """
import os, signal, sys
import pyarrow as pa
import drillcore

# Also where the parent ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder, durability, call, trigger = sys.argv[1:]


def rows(first, count):
    ids = pa.array(range(first, first + count))
    sets = pa.array([i % 3 for i in range(count)])
    return pa.table({"id": ids, "part": sets, "x": ids.cast(pa.float64())})


def opened():
    return drillcore.open(folder, durability=durability, memory_bytes=1 << 20, cache_bytes=0)


db = opened()
schema = {"id": "int64", "part": "int64", "x": "float64"}
t = db.create_table("t", schema, key="id", set="part", set_index=False)
u = db.create_table("u", schema, key="id", merge="upsert")
for first in (0, 8_000, 16_000):
    for table in (t, u):
        table.append(rows(first, 8_000))
    db.flush()
db.snapshot("old")
db.append({"t": rows(24_000, 1_000), "u": rows(24_000, 1_000)})
if call in READS:
    db.compact()
reopened = call == "open"
if reopened:
    db.close()


def stalled():
    first = 100_000
    while True:
        t.append(rows(first, 2_000))
        first += 2_000


def drained(scan):
    for _ in scan.batches():
        pass


CALLS = {
    "append": lambda: t.append(rows(25_000, 10)),
    "append to several": lambda: db.append({"t": rows(25_000, 10), "u": rows(25_000, 10)}),
    "delete": lambda: u.delete([1]),
    "stalled append": stalled,
    "load": lambda: t.load((rows(100_000 + 2_000 * i, 2_000).to_batches()[0] for i in range(100_000))),
    "flush": lambda: db.flush(),
    "compact": lambda: db.compact(),
    "snapshot": lambda: db.snapshot("new"),
    "drop_snapshot": lambda: db.drop_snapshot("old"),
    "create_table": lambda: db.create_table("new", schema, key="id"),
    "drop_table": lambda: db.drop_table("u"),
    "add_column": lambda: t.add_column("added", "float64"),
    "index_sets": lambda: t.index_sets(1),
    "index_all_sets": lambda: t.index_all_sets(),
    "index_all_sets that waits": lambda: t.index_all_sets(wait=True),
    "close": lambda: db.close(),
    "open": opened,
    "get_many": lambda: t.get_many(list(range(0, 25_000, 50))),
    "get_many of an upsert table": lambda: u.get_many(list(range(0, 25_000, 50))),
    "count": lambda: t.count(where="x > 3"),
    "len": lambda: len(u),
    "scan": lambda: drained(t.scan()),
    "arrow": lambda: t.scan().arrow(),
    "sample": lambda: t.sample(2_000),
    "estimate": lambda: t.estimate("avg(x)", n=2_000),
    "sets": lambda: list(t.sets()),
    "sql": lambda: db.sql("select part, max(x) from t group by part").arrow(),
    "verify": lambda: db.verify(),
}

open(trigger, "w").close()
print("begins", flush=True)
try:
    CALLS[call]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("ended by itself", flush=True)
os.remove(trigger)
if reopened:
    # The opening that was left may hold the lock for a moment longer.
    while True:
        try:
            db = opened()
            break
        except drillcore.LockedError:
            pass
elif call == "close":
    db.close()
    db = opened()
t = db.table("t")
before = t.count()
assert before >= 25_000, before
t.append(rows(50_000, 10))
# An append that was left behind is in the log before this one, and counts by now.
after = t.count()
assert after >= before + 10, (before, after)
assert db.stats()["failure"] is None
db.verify()
db.close()
with opened() as db:
    assert db.table("t").count() == after
print("usable", flush=True)
"""

READS = [
    "get_many",
    "get_many of an upsert table",
    "count",
    "len",
    "scan",
    "arrow",
    "sample",
    "estimate",
    "sets",
    "sql",
    "verify",
]
# What waits for the disk at each durability; at others they need not wait for it.
WRITES = [
    *((call, "fsync") for call in ("append", "append to several", "delete")),
    *(
        (call, durability)
        for durability in ("os", "none")
        for call in (
            "stalled append",
            "load",
            "flush",
            "compact",
            "snapshot",
            "drop_snapshot",
            "create_table",
            "drop_table",
            "add_column",
            "index_sets",
            "index_all_sets",
            "index_all_sets that waits",
            "open",
        )
    ),
    ("close", "none"),
]


@pytest.fixture(scope="module")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a disk slow."""
    library = tmp_path_factory.mktemp("shim") / "slow_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SHIM), "-ldl"], check=True)
    return library


def wait_for(condition: Path, child: subprocess.Popen[str]) -> None:
    start = time.perf_counter()
    while not condition.exists():
        assert child.poll() is None, "the child has ended"
        assert time.perf_counter() - start < LIMIT_S, "it never waits for the disk"
        time.sleep(0.005)


def interrupted(slow_disk: Path, folder: Path, call: str, durability: str, waits: dict[str, int]) -> None:
    """Interrupt a call while it waits for the disk; it must end soon, and the database must be usable."""
    trigger, met = folder / "trigger", folder / "trigger.met"
    path = (folder / "db").resolve()
    settings = {
        "LD_PRELOAD": str(slow_disk),
        "SLOW_DISK_TRIGGER": str(trigger),
        "SLOW_DISK_FOLDER": str(path),
        **{name: str(ms) for name, ms in waits.items()},
    }
    source = f"READS = {READS!r}\n{CHILD}"
    child = subprocess.Popen(
        [sys.executable, "-c", source, str(path), durability, call, str(trigger)],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "begins\n"
        wait_for(met, child)
        if call in ("stalled append", "load"):
            # From the first stuck flush on memory fills up within moments.
            time.sleep(1.0)
        start = time.perf_counter()
        os.kill(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        took = time.perf_counter() - start
        assert took < LIMIT_S, f"it took {took:.1f} s"
        assert child.stdout.readline() == "usable\n"
        assert child.wait(LIMIT_S) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def all_interrupted(slow_disk: Path, folder: Path, calls: list[tuple[str, str]], waits: dict[str, int]) -> None:
    """Interrupt each call at its durability, some beside each other: what they do is wait."""

    def one(number: int) -> None:
        call, durability = calls[number]
        own = folder / str(number)
        own.mkdir()
        try:
            interrupted(slow_disk, own, call, durability, waits)
        except AssertionError as error:
            raise AssertionError(f"{call} at durability {durability}") from error

    with ThreadPoolExecutor(BESIDE_EACH_OTHER) as threads:
        list(threads.map(one, range(len(calls))))


def test_control_c_ends_calls_that_write_though_the_disk_is_stuck(slow_disk: Path, tmp_path: Path) -> None:
    all_interrupted(slow_disk, tmp_path, WRITES, {"SLOW_DISK_SYNC_MS": STUCK_MS})


def test_control_c_ends_calls_that_read_from_a_slow_disk(slow_disk: Path, tmp_path: Path) -> None:
    all_interrupted(slow_disk, tmp_path, [(call, "os") for call in READS], {"SLOW_DISK_READ_MS": READ_MS})
