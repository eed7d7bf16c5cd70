"""Endless streams of random samples, drawn ahead of their use."""

from __future__ import annotations

import atexit
import datetime as dt
import hashlib
import os
import queue
import secrets
import threading
import weakref
from collections.abc import Callable, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.errors import ClosedError, InvalidArgumentError, InvalidTypeError, TooFewRowsError, UnsupportedError
from drillcore.figures import check_count, check_seed
from drillcore.names import check_columns, check_name, shown
from drillcore.rows import Rows, Sampling
from drillcore.values import Bounds

if TYPE_CHECKING:
    from typing_extensions import Self

    from drillcore import _native
    from drillcore.reads import Reads

Refresh = int | dt.timedelta | None
"""After how many batches, or after what time, the newest rows come in; ``None`` means never."""

AHEAD_MAX = 1_024
"""More batches ahead are a mistake."""


class Stream:
    """An endless iterator of random samples: see :meth:`Table.stream <drillcore.reads.Reads.stream>`.

    A thread draws the next batches while the caller uses the last one. As a context manager, a stream closes itself;
    one that is deleted does, too. Several threads can take batches from one stream; each batch is given once.
    """

    def __init__(self, draw: Callable[[int], Rows], *, seed: int, first: int, ahead: int) -> None:
        self._seed = seed
        self._position = first
        self._process = os.getpid()
        self._ended: BaseException | None = None
        self._drawn: queue.Queue[Rows | BaseException] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        arguments = (draw, first, self._drawn, self._stop)
        self._thread = threading.Thread(target=_draw_ahead, args=arguments, name="drillcore-stream", daemon=True)
        self._thread.start()
        _OPEN.add(self)

    @property
    def seed(self) -> int:
        """The seed of the stream, which was chosen at random if none was given."""
        return self._seed

    @property
    def position(self) -> int:
        """The number of the next batch. As ``first`` of a stream with the same seed, that goes on from here."""
        return self._position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Rows:
        if self._ended is not None:
            raise self._ended
        if os.getpid() != self._process:
            raise UnsupportedError(
                f"process {self._process} opened the stream, and this process is a fork of it; open the database and a "
                "stream here"
            )
        drawn = self._drawn.get()
        if isinstance(drawn, BaseException):
            self._ended = drawn
            # For other threads that wait.
            self._drawn.put(drawn)
            raise drawn
        self._position += 1
        return drawn

    def close(self) -> None:
        """Stop drawing. A second call does nothing."""
        if self._ended is None:
            self._ended = ClosedError("the stream is closed; open another one with stream()")
        self._stop.set()
        if os.getpid() == self._process:
            _empty(self._drawn)
            self._thread.join()
            _empty(self._drawn)
            self._drawn.put(self._ended)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_thread", None) is not None:
            self._stop.set()
            _empty(self._drawn)

    def __repr__(self) -> str:
        state = "" if self._ended is None else ", closed"
        return f"<Stream with seed {self._seed}: next is batch {self._position}{state}>"


def _draw_ahead(
    draw: Callable[[int], Rows], number: int, drawn: queue.Queue[Rows | BaseException], stop: threading.Event
) -> None:
    """Draw batches until the stream stops or an error comes, which the one who takes the next batch gets."""
    while not stop.is_set():
        try:
            batch: Rows | BaseException = draw(number)
        except BaseException as error:
            batch = error
        drawn.put(batch)
        if isinstance(batch, BaseException):
            return
        number += 1


def _empty(drawn: queue.Queue[Any]) -> None:
    """Make room for a thread that waits to put something in."""
    try:
        while True:
            drawn.get_nowait()
    except queue.Empty:
        pass


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
    of: tuple[int, ...] = (),
) -> Stream:
    """Return a stream of samples, of which ``of`` tells those of one seed apart."""
    batch_size = check_count("batch_size", batch_size)
    if batch_size == 0:
        raise InvalidArgumentError("batch_size: expected a number of at least 1, not 0")
    ahead = check_count("ahead", ahead)
    if not 1 <= ahead <= AHEAD_MAX:
        raise InvalidArgumentError(f"ahead: expected a number from 1 to {AHEAD_MAX:,}, not {ahead}")
    first = check_count("first", first)
    seed = check_seed(seed)
    base = secrets.randbits(64) if seed is None else seed
    if weight is not None:
        check_name("weight", weight)
    selection = reads._selection(between, closed, set, where)
    names = check_columns(columns)
    replace, with_probability = bool(replace), bool(with_probability)
    pinned = _Pinned(reads, check_refresh(refresh))

    def draw(number: int) -> Rows:
        seed = batch_seed(base, *of, number)
        snapshot = pinned.now()
        try:
            rows, attempts, resolved = snapshot.sample(
                batch_size, selection, weight, replace, False, with_probability, seed, names, None
            )
        except TooFewRowsError as error:
            raise TooFewRowsError(f"{error}; a stream needs replace=True or a smaller batch_size") from None
        return Rows(pa.record_batch(rows), Sampling(attempts, resolved))

    return Stream(draw, seed=base, first=first, ahead=ahead)


class _Pinned:
    """The snapshot that the next batch is drawn from."""

    def __init__(self, reads: Reads, refresh: Refresh) -> None:
        self._reads = reads
        self._refresh = refresh
        self._batches = 0
        self._taken_at = monotonic()
        self._snapshot = reads._pin()

    def now(self) -> _native.TableSnapshot:
        """Return it; a newer one if it is time for that."""
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


_OPEN: weakref.WeakSet[Stream] = weakref.WeakSet()


def _close_all() -> None:
    """End all threads: one that is in the engine when the interpreter ends could not come back."""
    for stream in list(_OPEN):
        stream.close()


atexit.register(_close_all)
