"""Endless streams of random samples, drawn ahead of their use."""

from __future__ import annotations

import atexit
import datetime as dt
import hashlib
import os
import re
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.arguments.figures import check_count, check_seed, check_threads
from drillcore.arguments.names import check_columns, check_name, shown
from drillcore.errors import ClosedError, InvalidArgumentError, InvalidTypeError, TooFewRowsError, UnsupportedError
from drillcore.rows import Rows, Sampling
from drillcore.values import Bounds

if TYPE_CHECKING:
    from typing_extensions import Self

    from drillcore import _native
    from drillcore.reads import Reads

Refresh = int | dt.timedelta | None
"""How often a stream moves to the newest rows: after this many batches or this much time; ``None`` means never."""

AHEAD_MAX = 1_024
"""More batches ahead are a mistake."""

_PAUSE_SECONDS = 0.05
"""How long a thread waits for a batch before it looks again, if no one tells it."""

_ADVICE = re.compile(r"; (draw fewer rows|check the key range, sets and condition), or allow a smaller sample$")
"""What a sample advises, and a stream cannot do."""


class _Batch:
    """A batch on its way.

    A signal handler may raise at any step, as at Ctrl-C, and those of ``threading`` and ``concurrent.futures`` that are
    written in Python may then stay locked. So who waits uses none of them.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: Rows | None = None
        self.error: BaseException | None = None
        self._is_drawn = False
        self._news = threading.Lock()
        self._news.acquire()

    def draw(self, draw: Callable[[int], Rows]) -> None:
        try:
            self.rows = draw(self.number)
        except BaseException as error:
            self.error = error
        self.end()

    def end(self) -> None:
        self._is_drawn = True
        with suppress(RuntimeError):
            self._news.release()

    def wait(self) -> None:
        while not self._is_drawn:
            # Who was stopped behind it has the lock.
            self._news.acquire(timeout=_PAUSE_SECONDS)


def _draw_all(work: SimpleQueue[_Batch | None], source: list[Callable[[int], Rows]]) -> None:
    for draw in tuple(source):
        while (batch := work.get()) is not None:
            batch.draw(draw)
    _RUNNING.discard(threading.current_thread())


class Stream:
    """An endless iterator of random samples: see :meth:`Table.stream <drillcore.reads.Reads.stream>`.

    Threads draw the next batches while the caller uses the last one. As a context manager, a stream closes itself; one
    that is deleted does, too. Several threads can take batches from one stream; each batch is given once.
    """

    def __init__(self, draw: Callable[[int], Rows], *, seed: int, first: int, ahead: int, threads: int) -> None:
        self._seed = seed
        self._process = os.getpid()
        self._ended: BaseException | None = None
        self._lock = threading.Lock()
        self._work: SimpleQueue[_Batch | None] = SimpleQueue()
        source = [draw]
        self._threads = [
            threading.Thread(target=_draw_all, args=(self._work, source), name="drillcore-stream", daemon=True)
            for _ in range(threads)
        ]
        self._ahead = max(ahead, threads)
        self._batches: deque[_Batch] = deque()
        """The next ones. A signal handler may raise at any step: then the next call goes on from what is here."""
        _OPEN.add(self)
        try:
            for thread in self._threads:
                _RUNNING.add(thread)
                thread.start()
            self._draw_until(self._ahead, first)
        except BaseException:
            # Python may keep a thread for good whose start was interrupted, so it must not hold the snapshot.
            source.clear()
            self._end_threads()
            _RUNNING.difference_update([thread for thread in self._threads if not thread.is_alive()])
            raise

    @property
    def seed(self) -> int:
        """The seed of the stream, which was chosen at random if none was given."""
        return self._seed

    @property
    def position(self) -> int:
        """The number of the next batch. As ``first`` of a stream with the same seed, that goes on from here."""
        return self._batches[0].number

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Rows:
        if os.getpid() != self._process:
            raise UnsupportedError(
                f"process {self._process} opened the stream, and this process is a fork of it; open the database and a "
                "stream here"
            )
        with self._lock:
            if self._ended is not None:
                raise self._ended
            batch = self._batches[0]
            batch.wait()
            if self._ended is not None:
                raise self._ended
            if batch.rows is None:
                self._ended = batch.error
                self._end_threads()
                raise batch.error or ClosedError("the stream is closed")
            self._draw_until(self._ahead + 1, batch.number + 1)
            del self._batches[0]
            return batch.rows

    def close(self) -> None:
        """Stop drawing. A second call does nothing."""
        if self._ended is None:
            self._ended = ClosedError("the stream is closed; open another one with stream()")
        if os.getpid() == self._process:
            self._end_threads()
            for thread in self._threads:
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_threads", None) is not None:
            self._end_threads()

    def __repr__(self) -> str:
        state = "" if self._ended is None else ", closed"
        return f"<Stream with seed {self._seed}: next is batch {self.position}{state}>"

    def _draw_until(self, count: int, first: int) -> None:
        while len(self._batches) < count:
            batch = _Batch(self._batches[-1].number + 1 if self._batches else first)
            # In this order: what is waited for is drawn.
            self._work.put(batch)
            self._batches.append(batch)

    def _end_threads(self) -> None:
        """Have the threads end after the batch that each draws now."""
        with suppress(Empty):
            while True:
                waiting = self._work.get_nowait()
                if waiting is not None:
                    waiting.end()
        for _ in self._threads:
            self._work.put(None)


_OPEN: weakref.WeakSet[Stream] = weakref.WeakSet()
_RUNNING: set[threading.Thread] = set()


def _close_all() -> None:
    """Python ends after its threads have come back: one that was in the engine then could not."""
    for stream in list(_OPEN):
        with suppress(Exception):
            stream.close()
    for thread in list(_RUNNING):
        thread.join()


atexit.register(_close_all)


def batch_seed(seed: int, *position: int) -> int:
    """Return the seed of one batch: a number of 64 bits that depends on all of the arguments.

    Examples
    --------
    >>> batch_seed(7, 0) == batch_seed(7, 0), batch_seed(7, 0) == batch_seed(7, 1)
    (True, False)
    """
    text = ",".join(map(str, (seed, *position)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def check_refresh(refresh: Any) -> Refresh:
    """Return ``refresh`` if it says how often newer rows come in."""
    if refresh is None:
        return None
    if isinstance(refresh, dt.timedelta):
        if refresh < dt.timedelta():
            raise InvalidArgumentError(f"refresh: expected a time of at least 0, not {refresh}")
        return refresh
    try:
        batches = check_count("refresh", refresh)
    except InvalidTypeError:
        raise InvalidTypeError(
            f"refresh: expected a number of batches, a datetime.timedelta, or None for never, not {shown(refresh)}"
        ) from None
    if batches == 0:
        raise InvalidArgumentError("refresh: expected at least 1 batch, not 0; use None for never")
    return batches


def check_batch_size(batch_size: Any) -> int:
    """Return ``batch_size`` if it is a number of rows above 0."""
    rows = check_count("batch_size", batch_size)
    if rows == 0:
        raise InvalidArgumentError("batch_size: expected a number of at least 1, not 0")
    return rows


def check_ahead(ahead: Any) -> int:
    """Return ``ahead`` if it is a number of batches that can be drawn ahead."""
    batches = check_count("ahead", ahead)
    if not 1 <= batches <= AHEAD_MAX:
        raise InvalidArgumentError(f"ahead: expected a number from 1 to {AHEAD_MAX:,}, not {batches}")
    return batches


def open_stream(
    reads: Reads,
    batch_size: int,
    *,
    between: Bounds | None = None,
    closed: str = "both",
    set: Any = None,  # the public name of the argument
    where: str | None = None,
    weight: str | None = None,
    replace: bool = False,
    with_probability: bool = False,
    columns: Sequence[str] | None = None,
    seed: int | None = None,
    refresh: Refresh = 1,
    first: int = 0,
    ahead: int = 2,
    threads: int = 1,
    of: tuple[int, ...] = (),
) -> Stream:
    """Return a stream of samples; ``of`` distinguishes streams with the same seed."""
    batch_size, ahead = check_batch_size(batch_size), check_ahead(ahead)
    first = check_count("first", first)
    threads = check_threads(threads) or 1
    seed = check_seed(seed)
    base = secrets.randbits(64) if seed is None else seed
    if weight is not None:
        check_name("weight", weight)
    selection = reads._selection(between, closed, set, where)
    names = check_columns(columns)
    replace, with_probability = bool(replace), bool(with_probability)
    pinned = _Pinned(reads, check_refresh(refresh))

    def advice(snapshot: _native.TableSnapshot) -> str:
        try:
            snapshot.sample(1, selection, weight, True, False, False, False, 0, [], None)
        except TooFewRowsError:
            return "there is nothing to draw: append rows, or select others, before the stream begins"
        return "a stream needs replace=True or a smaller batch_size"

    def draw(number: int) -> Rows:
        seed = batch_seed(base, *of, number)
        snapshot = pinned.now()
        try:
            rows, attempts, resolved = snapshot.sample(
                batch_size, selection, weight, replace, False, with_probability, False, seed, names, None
            )
        except TooFewRowsError as error:
            found = _ADVICE.sub("", str(error))
            raise TooFewRowsError(f"{found}; {advice(snapshot)}") from None
        return Rows(pa.record_batch(rows), Sampling(attempts, resolved))

    return Stream(draw, seed=base, first=first, ahead=ahead, threads=threads)


class _Pinned:
    """The snapshot that the next batch is drawn from."""

    def __init__(self, reads: Reads, refresh: Refresh) -> None:
        self._reads = reads
        self._refresh = refresh
        self._batches = 0
        self._taken_at = monotonic()
        self._snapshot = reads._pin()
        self._lock = threading.Lock()

    def now(self) -> _native.TableSnapshot:
        """Return it; a newer one if it is time for that."""
        with self._lock:
            if self._is_due():
                self._reads._renew()
                self._snapshot = self._reads._pin()
                self._batches, self._taken_at = 0, monotonic()
            self._batches += 1
            return self._snapshot

    def _is_due(self) -> bool:
        if self._refresh is None or self._batches == 0:
            return False
        if isinstance(self._refresh, dt.timedelta):
            return monotonic() - self._taken_at >= self._refresh.total_seconds()
        return self._batches >= self._refresh
