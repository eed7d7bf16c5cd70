"""A sandbox may forbid io_uring at any time: reads go on by threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import drillcore

# Forbids system calls to the thread that runs it, by a filter that the kernel runs before each.
FORBIDDING = """
import ctypes, struct, sys
import drillcore

def forbid(calls):
    load, jump_if_equal, give = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 0)]
    steps += [(jump_if_equal, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    steps += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | 1)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))

    class Filter(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    filter = Filter(len(steps), ctypes.addressof(program))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(filter), 0, 0):
        sys.exit(77)

path, calls = sys.argv[1], [int(call) for call in sys.argv[3:]]
if sys.argv[2] == "before":
    forbid(calls)
database = drillcore.open(path, read_only=True, cache_bytes=0)
table = database.table("t")
expected = table.sample(500, seed=1) if sys.argv[2] == "after" else None
if sys.argv[2] == "after":
    forbid(calls)
drawn = [table.sample(500, seed=1) for _ in range(3)]
drawn = [rows.arrow() for rows in drawn]
assert all(rows.num_rows == 500 and rows == drawn[0] for rows in drawn)
assert expected is None or expected.arrow() == drawn[0]
assert database.stats()["reads_by"] == "threads", database.stats()["reads_by"]
"""

SETUP, ENTER, REGISTER = 425, 426, 427


@pytest.mark.skipif(sys.platform != "linux", reason="io_uring is Linux's")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("calls", [[ENTER], [SETUP, ENTER, REGISTER]], ids=["enter", "all"])
def test_reads_go_on_where_rings_are_forbidden(tmp_path: Path, when: str, calls: list[int]) -> None:
    path = tmp_path / "db"
    with drillcore.open(path) as database:
        table = database.create_table("t", {"id": "int64", "note": "string"}, key="id")
        table.append(pa.table({"id": range(50_000), "note": [f"{i * 7919:080}" for i in range(50_000)]}))
        database.flush()
    script = [sys.executable, "-c", FORBIDDING, str(path), when, *map(str, calls)]
    done = subprocess.run(script, capture_output=True, text=True)
    # Some containers refuse filters: then nothing can be forbidden here, and there is nothing to see.
    if done.returncode == 77:
        pytest.skip("this system takes no filters of system calls")
    assert done.returncode == 0, done.stderr
