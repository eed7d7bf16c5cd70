"""Writers: rows come one by one, from any thread, and are committed in larger batches in the background.

Dicts are gathered here and converted to Arrow a chunk at a time. The native writer gathers chunks until a commit is
due, and commits on a thread of its own. :mod:`drillcore.table_writer` and :mod:`drillcore.database_writer` take the
rows.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore import _native
from drillcore.arguments.figures import check_count, check_optional_count, check_positive
from drillcore.arguments.names import in_quotes, shown
from drillcore.arrow.python_values import rows_to_show
from drillcore.dict_rows import ROW_BYTES, Chunk, DictRows, FailedRow, Shape, Values
from drillcore.errors import (
    ClosedError,
    Error,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    ReadOnlyError,
)

if TYPE_CHECKING:
    from typing_extensions import Self


CHUNK_ROWS_MAX = 1_024
"""Dicts that are converted at once."""
CHUNK_BYTES_MAX = 4 << 20
"""... or fewer, if their strings are longer than this together."""
FAILED_KEPT_MAX = 1_000
"""Failed rows that a result lists; more are only counted, so that memory stays bounded."""
_PAUSE_SECONDS = 0.0005
"""How long a thread leaves the rows to the one that holds them before it looks again."""


@dataclass(frozen=True)
class WriterResult:
    """What a writer stored.

    Attributes
    ----------
    rows
        Number of rows stored.
    commits
        Number of commits.
    lsn
        LSN of the last commit. A snapshot with this LSN or a higher one shows all rows.
    failed
        The first 1,000 rows left out; empty unless ``on_error="skip"``.
    failed_count
        Number of all rows that were not stored.
    """

    rows: int
    commits: int
    lsn: int
    failed: list[FailedRow] = field(default_factory=list)
    failed_count: int = 0


class _Raised(threading.local):
    """How many failures the calls of a thread have raised."""

    failures = 0
    adds = False
    """Whether it has added rows. Those that failed before are not its own."""


class Writer(ABC):
    """Common part of :class:`~drillcore.table_writer.TableWriter` and
    :class:`~drillcore.database_writer.DatabaseWriter`.

    Any number of threads can add rows to one writer. Rows are committed when a commit has enough of them, or when the
    oldest has waited long enough. While one batch is committed, the next one fills; when that is full as well, ``add``
    waits.

    As a context manager, a writer closes itself at the end, also if the body raises: what was added before is
    committed. A writer that is not closed commits its rows when it is deleted, or when the interpreter exits, but
    reports no error.
    """

    _keeps_calls_whole: bool
    """Whether all rows of a call of ``add`` are stored, or none of them."""

    def __init__(
        self,
        database: _native.Database,
        open_native: Callable[[int, float, int | None, bool], _native.Writer],
        *,
        rows: int,
        seconds: float,
        bytes: int | None,
        on_error: str,
        fill_nulls: bool,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise InvalidArgumentError(f'on_error: expected "raise" or "skip", not {shown(on_error)}')
        rows = check_count("rows", rows)
        if rows == 0:
            raise InvalidArgumentError("rows: expected a number of at least 1, not 0")
        bytes = check_optional_count("bytes", bytes)
        if bytes == 0:
            raise InvalidArgumentError("bytes: expected a number of at least 1, not 0")
        self._seconds = check_positive("seconds", seconds)
        self._skip = on_error == "skip"
        self._fill_nulls = bool(fill_nulls)
        self._database = database
        self._native = open_native(rows, self._seconds, bytes, self._fill_nulls)
        self._chunk_rows = min(rows, CHUNK_ROWS_MAX)
        self._chunk_bytes = min(bytes or CHUNK_BYTES_MAX, CHUNK_BYTES_MAX)
        self._buffers: dict[str, DictRows] = {}
        self._numbers = itertools.count()
        self._queue = [Chunk(next(self._numbers))]
        """Chunks, of which the last one takes rows. Those before it were not handed over to the end, because a signal
        handler raised."""
        self._busy = False
        """Whether a thread has the lock to add a row."""
        self._hands_over = False
        """Seen only by who has the lock: within a signal handler, perhaps, that came while rows are handed over."""
        self._error: Error | None = None
        """What the next call raises, with the rows that it is about."""
        self._unreported: list[FailedRow] = []
        self._failures = 0
        """How often such an error was noted. ``flush`` raises each in every thread, whose own rows may have failed."""
        self._last_failure: Error | None = None
        self._raised = _Raised()
        self._process = os.getpid()
        self._failed: list[FailedRow] = []
        self._failed_count = 0
        self._closed: Error | None = None
        """Why no more rows are taken."""
        self._result: WriterResult | None = None
        self._lock = threading.RLock()
        """A thread may take it again: see :func:`_watch`."""
        self._changed = threading.Condition(self._lock)
        _OPEN.add(self)
        watch = threading.Thread(
            target=_watch, args=(self._changed, weakref.ref(self)), name="drillcore-writer", daemon=True
        )
        watch.start()

    def flush(self) -> int:
        """Wait until all rows added before are committed, and return the LSN of the last commit.

        Raises
        ------
        Error
            If rows that were added before could not be stored; the error has them as ``failed_rows``. The others are
            stored. With several threads, ``flush`` raises it once in each; only the first error has the rows.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._check_free()
            self._hand_over()
        lsn = self._ask(self._native.flush)
        self._take_failed()
        self._raise_error(also_of_others=True)
        return lsn

    def close(self) -> WriterResult:
        """Commit all rows added before, and end the writer. A second call returns the same result.

        Raises
        ------
        Error
            If rows could not be stored, unless an earlier call reported them; the error has them as ``failed_rows``.
            The writer is closed anyway, and the other rows are stored.
        """
        with self._lock:
            if self._closed is None:
                self._check_free()
                self._hand_over()
                self._closed = ClosedError("the writer is closed; open another one with writer()")
                self._changed.notify_all()
        if self._result is None:
            lsn = self._ask(self._native.close)
            self._take_failed()
            rows, commits, *_ = self._native.stats()
            self._result = WriterResult(rows, commits, lsn, self._failed, self._failed_count)
            _OPEN.discard(self)
        self._raise_error()
        return self._result

    def stats(self) -> dict[str, Any]:
        """Return how many rows and commits were stored, how many rows failed or wait, and how often ``add`` waited.

        ``waits`` counts the calls that waited because both batches were full, and ``wait_seconds`` is their time.
        """
        rows, commits, _, waiting, waits, seconds = self._native.stats()
        return {
            "rows": rows,
            "commits": commits,
            "failed_rows": self._failed_count,
            "waiting_rows": waiting + sum(chunk.rows for chunk in self._queue),
            "waits": waits,
            "wait_seconds": seconds,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A writer whose construction failed has nothing to close.
        if getattr(self, "_changed", None) is not None and self._result is None:
            _close_quietly(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<{type(self).__name__}: {state}, {self.stats()['rows']:,} rows stored>"

    def _end_with_database(self) -> None:
        """Take no more rows, because the database was closed. Those that are here fail, as ``close`` reports."""
        with self._lock:
            if self._closed is None:
                self._hand_over()
                self._closed = ClosedError("the database is closed; open it again, and a writer with writer()")
                self._changed.notify_all()

    def _wait_while_busy(self) -> None:
        """Wait for who has the lock for a row, without queueing for it.

        Threads that queue each get it for one row, and wait for the interpreter with it, while the one that has the
        interpreter queues in turn.
        """
        while self._busy and not self._lock._is_owned():  # type: ignore[attr-defined]
            sleep(_PAUSE_SECONDS)

    def _begin_to_add(self) -> None:
        """Note that this thread adds rows from now on."""
        self._raised.failures = self._failures
        self._raised.adds = True

    def _add_parts(self, parts: list[tuple[str, pa.Table]]) -> list[tuple[int, int, str]]:
        """Add Arrow data after the rows that are here, and return what does not fit."""
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._check_free()
            self._hand_over()
            self._raise_error()
            try:
                return self._native.add(parts, self._skip, 0.0, None)
            except Error:
                if self._take_failed():
                    self._raise_error()
                raise

    def _values(self, buffer: DictRows, row: Any) -> tuple[Values, int, Shape]:
        """The values of a dict, what they count for, and the shape that says which is which."""
        if type(row) is not dict:
            if not isinstance(row, Mapping):
                raise InvalidTypeError(f"expected a dict, a list of dicts or Arrow data, not {type(row).__name__}")
            row = dict(row)
        names = tuple(row)
        shape = buffer.shape
        pick = shape.pickers.get(names)
        if pick is None:
            with self._lock:
                if more := buffer.lacks(row):
                    self._hand_over()
                    # If a row did not fit, what was known of the columns is forgotten.
                    more = buffer.lacks(row)
                buffer.learn(names, more)
                shape = buffer.shape
                pick = shape.pickers[names]
        values = pick(row)
        sized = shape.measures.get(tuple(map(type, values)))
        if sized is None:
            sized = buffer.measure(values, shape)
        return values, ROW_BYTES + sum(len(values[at]) for at in sized), shape

    def _all_values(self, buffer: DictRows, rows: Sequence[Any]) -> list[tuple[Values, int, Shape]]:
        """:meth:`_values` of several dicts; an error says which of them."""
        picked = []
        for position, row in enumerate(rows):
            try:
                picked.append(self._values(buffer, row))
            except (InvalidArgumentError, InvalidTypeError, NotFoundError) as error:
                if len(rows) == 1:
                    raise
                raise type(error)(f"row {position}: {error}") from None
        return picked

    def _begin(self) -> float:
        """Return the time, and wake the thread that watches: a chunk may have its first row soon. With the lock."""
        self._changed.notify()
        return monotonic()

    def _hand_over_if_full(self) -> None:
        chunk = self._queue[-1]
        if chunk.rows >= self._chunk_rows or chunk.bytes >= self._chunk_bytes:
            self._hand_over()

    def _hand_over(self) -> None:
        """Convert the rows that are here and give them to the native writer. To be called with the lock.

        A signal handler may raise at any step. What was not done to the end is done again then, from the beginning, by
        whatever comes next; a chunk that the native writer has taken already, it does not take again.
        """
        if self._hands_over:
            return
        self._hands_over = True
        try:
            queue = self._queue
            if queue[-1]:
                queue.append(Chunk(next(self._numbers)))
            while len(queue) > 1:
                self._hand_over_chunk(queue[0])
                del queue[0]
        finally:
            self._hands_over = False

    def _check_free(self) -> None:
        """Refuse what must hand rows over within a signal handler that came while this is done. With the lock."""
        if self._hands_over:
            # No error of ours: it must end the call that was interrupted, too.
            raise RuntimeError(
                "this signal handler interrupted the writer while it hands rows over; have the handler raise an "
                "exception or set a flag, and flush or close the writer where it is used"
            )

    def _hand_over_chunk(self, chunk: Chunk) -> None:
        waited_since = chunk.began or monotonic()
        failed_before = self._failed_count
        self._distribute(chunk)
        attempts = itertools.count()
        while parts := self._converted():
            named = [(name, batch) for name, batch, _ in parts]
            attempt = (chunk.number, next(attempts))
            try:
                rejected = self._native.add(named, True, monotonic() - waited_since, attempt)
            except Error:
                # Perhaps of an earlier commit: such an error comes once, and the rows of that are noted.
                self._take_failed()
                try:
                    rejected = self._native.add(named, True, monotonic() - waited_since, attempt)
                except Error as error:
                    self._fail_all(error)
                    break
            faults = {(parts[part][0], parts[part][2][row]): reason for part, row, reason in rejected}
            if faults:
                self._leave_out(faults)
            if not faults or not self._keeps_calls_whole:
                break
        for buffer in self._buffers.values():
            buffer.clear()
        self._take_failed()
        if self._failed_count > failed_before:
            # Perhaps the table has changed.
            for buffer in self._buffers.values():
                buffer.forget_shapes()

    @abstractmethod
    def _distribute(self, chunk: Chunk) -> None:
        """Have the buffers hold the rows of a chunk, and nothing else, and know the tables that these are for."""

    def _converted(self) -> list[tuple[str, pa.RecordBatch, list[int]]]:
        """For each table with rows their Arrow form, and where in its buffer they are.

        Rows without such a form are left out.
        """
        while True:
            parts: list[tuple[str, pa.RecordBatch, list[int]]] = []
            faults: dict[tuple[str, int], str] = {}
            for name, buffer in self._buffers.items():
                if buffer.rows:
                    batch, positions, bad = buffer.converted()
                    parts.append((name, batch, positions))
                    faults.update({(name, one.row): one.reason for one in bad})
            if not faults:
                return parts
            self._leave_out(faults)

    def _leave_out(self, faults: Mapping[tuple[str, int], str]) -> None:
        """Remove rows from the buffers and note them as failed, where calls count with all rows of their calls."""
        if not self._keeps_calls_whole:
            for name, buffer in self._buffers.items():
                reasons = {at: why for (table, at), why in sorted(faults.items()) if table == name}
                rows = zip(buffer.leave_out(set(reasons)), reasons.values(), strict=True)
                self._note_failed([FailedRow(name, row, why) for row, why in rows])
            return
        calls = {self._buffers[name].calls[at]: f"table {in_quotes(name)}: {why}" for (name, at), why in faults.items()}
        for name, buffer in self._buffers.items():
            reasons = {at: calls[call] for at, call in enumerate(buffer.calls) if call in calls}
            rows = zip(buffer.leave_out(set(reasons)), reasons.values(), strict=True)
            self._note_failed([FailedRow(name, row, why) for row, why in rows])

    def _fail_all(self, error: Error) -> None:
        """Note all rows that are here as failed."""
        self._take_failed()
        for name, buffer in self._buffers.items():
            failed = [FailedRow(name, buffer.given.as_dict(row), str(error)) for row in buffer.rows]
            self._note_failed(failed, error)

    def _take_failed(self) -> bool:
        """Note the rows that the native writer could not store, and return whether there are any."""
        # With the lock, so that a thread whose rows another one takes sees them noted.
        with self._lock:
            taken = self._native.take_failed()
            for name, rows, error in taken:
                failed = [FailedRow(name, row, str(error)) for row in rows_to_show(pa.record_batch(rows))]
                self._note_failed(failed, error)
        return bool(taken)

    def _note_failed(self, failed: list[FailedRow], error: Any = None) -> None:
        """Note rows that were not stored: for the next call to raise, or with ``on_error="skip"`` for the result."""
        if not failed:
            return
        self._failed_count += len(failed)
        is_grave = error is not None and not isinstance(error, InvalidArgumentError | KeyError | OverflowError)
        if self._skip and not is_grave:
            self._failed += failed[: FAILED_KEPT_MAX - len(self._failed)]
            return
        self._unreported += failed
        if self._error is None:
            self._note_error((type(error) if is_grave else InvalidArgumentError)(failed[0].reason))

    def _note_error(self, error: Error) -> None:
        self._error = self._last_failure = error
        self._failures += 1

    def _raise_error(self, *, also_of_others: bool = False) -> None:
        """Raise what was noted, once, or what another thread has raised and this one not."""
        with self._lock:
            error, self._error = self._error, None
            failed, self._unreported = self._unreported, []
            was_raised = self._raised.failures == self._failures
            self._raised.failures = self._failures
            last = self._last_failure
        if error is None:
            if also_of_others and not was_raised and last is not None:
                raise type(last)(f"rows added earlier could not be stored, and another thread was given them: {last}")
            return
        if failed:
            rows = "1 row" if len(failed) == 1 else f"{len(failed):,} rows"
            error = type(error)(
                f"{rows} added earlier could not be stored: {error}; failed_rows of this error has all of them"
            )
        error.failed_rows = failed
        raise error

    def _ask(self, call: Callable[[], int]) -> int:
        """Call the native writer. What it raises, which it does once, is noted."""
        try:
            return call()
        except Error as error:
            with self._lock:
                # It may be about rows that another thread has taken, and noted, meanwhile.
                if not self._take_failed() and self._error is None and self._raised.failures == self._failures:
                    self._note_error(error)
        try:
            return call()
        except Error:
            return 0

    def _forked(self) -> None:
        """End the writer in a fork of its process, where its threads are not."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._closed = ReadOnlyError(
            f"process {self._process} opened the writer, and this process is a fork of it; open the database again "
            "here, or write to it there"
        )
        self._buffers, self._queue, self._raised = {}, [Chunk(0)], _Raised()
        self._busy = self._hands_over = False
        self._result = WriterResult(0, 0, 0)


_OPEN: weakref.WeakSet[Writer] = weakref.WeakSet()


def _watch(changed: threading.Condition, reference: weakref.ref[Writer]) -> None:
    """Hand rows over that have waited long enough. The thread does not keep the writer alive."""
    while True:
        with changed:
            writer = reference()
            if writer is None or writer._closed is not None:
                return
            left = None
            if (began := writer._queue[0].began) is not None:
                left = began + writer._seconds - monotonic()
            if left is not None and left <= 0:
                writer._hand_over()
                left = None
            # Its end may come here, in which it takes the lock once more and notifies.
            del writer
            if reference() is not None:
                changed.wait(left)


def end_writers(database: _native.Database) -> None:
    """Have the writers of a database that was closed take no more rows."""
    for writer in list(_OPEN):
        if writer._database is database:
            writer._end_with_database()


def _close_quietly(writer: Writer) -> None:
    with contextlib.suppress(Error):
        writer.close()


def _close_all() -> None:
    for writer in list(_OPEN):
        _close_quietly(writer)


def _end_all_in_fork() -> None:
    for writer in list(_OPEN):
        writer._forked()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_end_all_in_fork)
