"""Ctrl-C at any step of a writer or a stream: rows are stored once, a call as a whole, and threads go on."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import drillcore


@contextmanager
def raising_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(call: Callable[[], object], seconds: tuple[float, float], rng: random.Random) -> None:
    """Make calls until a signal handler raises."""
    try:
        # Again after a second: what is raised in a destructor of anything is lost, as Python documents.
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(*seconds), 1)
        while True:
            call()
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_rows_are_stored_once_whenever_a_handler_raises(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "s": "string"}, key="id")
    added, rng = [-1], random.Random(1)
    begun = 0

    def add() -> None:
        nonlocal begun
        begun += 1
        w.add({"id": begun, "s": "x" * 200})
        added.append(begun)

    with t.writer() as w, raising_handler():
        w.add({"id": -1, "s": ""})
        for _ in range(30):
            interrupted(add, (0.02, 0.06), rng)
    stored = t.scan(columns=["id"]).arrow()["id"].to_pylist()
    assert len(stored) == len(set(stored)), "rows were stored twice"
    assert set(added) <= set(stored), "rows were lost"


def test_a_call_for_two_tables_is_not_divided(database: drillcore.Database) -> None:
    tables = [database.create_table(name, {"id": "int64"}, key="id") for name in ("a", "b")]
    w, rng, begun = database.writer(seconds=1_000), random.Random(2), 0

    def add() -> None:
        nonlocal begun
        begun += 1
        w.add({"a": {"id": begun}, "b": {"id": begun}})

    with raising_handler():
        w.add({"a": {"id": -1}, "b": {"id": -1}})
        for _ in range(500):
            interrupted(add, (0.001, 0.003), rng)
    w.close()
    a, b = (t.scan().arrow()["id"].to_pylist() for t in tables)
    assert a == b
    assert len(a) == len(set(a))


@pytest.mark.parametrize("of_table", [True, False])
def test_other_threads_add_after_a_handler_raised(of_table: bool) -> None:
    database = drillcore.open(":memory:")
    t = database.create_table("t", {"id": "int64"}, key="id")
    w = t.writer() if of_table else database.writer()
    rng, begun = random.Random(3), 0

    def add() -> None:
        nonlocal begun
        begun += 1
        row = {"id": begun}
        w.add(row if of_table else {"t": row})

    with raising_handler():
        add()
        for _ in range(150):
            interrupted(add, (0.002, 0.006), rng)
            other = threading.Thread(target=add, daemon=True)
            other.start()
            other.join(20)
            assert not other.is_alive(), "the lock was left locked"
    w.close()


def test_a_stream_goes_on_after_a_handler_raised() -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id")
    t.append([{"id": i} for i in range(1_000)])
    rng = random.Random(4)
    with t.stream(10, seed=1, refresh=None) as s, raising_handler():
        for _ in range(1_000):
            interrupted(lambda: next(s), (1e-5, 3e-4), rng)
        signal.setitimer(signal.ITIMER_REAL, 0)
        with t.stream(10, seed=1, refresh=None, first=s.position) as same:
            for _ in range(20):
                assert next(s).arrow() == next(same).arrow()


def test_rows_beside_those_that_do_not_fit_are_stored_once(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "w": "int64"}, key="id", weights=["w"])
    added, rng, begun = [-1], random.Random(5), 0

    def add() -> None:
        nonlocal begun
        begun += 1
        fits = begun % 50 > 0
        w.add({"t": {"id": begun, "w": 1 if fits else -1}})
        if fits:
            added.append(begun)

    with database.writer(on_error="skip") as w, raising_handler():
        w.add({"t": {"id": -1, "w": 1}})
        for _ in range(30):
            interrupted(add, (0.02, 0.06), rng)
    stored = t.scan(columns=["id"]).arrow()["id"].to_pylist()
    assert len(stored) == len(set(stored)), "rows were stored twice"
    assert set(added) <= set(stored), "rows were lost"
    assert all(i % 50 for i in stored)


@pytest.mark.parametrize("of_table", [True, False])
def test_a_handler_may_flush_unless_rows_are_handed_over_just_then(of_table: bool) -> None:
    database = drillcore.open(":memory:")
    t = database.create_table("t", {"id": "int64"}, key="id")
    flushed = refused = begun = 0

    def handler(*_: object) -> None:
        nonlocal flushed, refused
        try:
            w.flush()
            flushed += 1
        except RuntimeError as error:
            assert "signal handler" in str(error)
            refused += 1

    w = t.writer() if of_table else database.writer()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while flushed < 200:
            begun += 20
            rows = [{"id": i} for i in range(begun - 20, begun)]
            w.add(rows if of_table else {"t": rows})
            row = {"id": -begun}
            w.add(row if of_table else {"t": row})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    w.close()
    stored = t.scan().arrow()["id"].to_pylist()
    assert len(stored) == len(set(stored)) == begun + begun // 20
