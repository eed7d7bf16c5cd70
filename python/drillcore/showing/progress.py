"""Progress of calls that take long: a line in a terminal, a display in a notebook, and nothing elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa

from drillcore import _native
from drillcore.arguments.names import shown
from drillcore.errors import InvalidTypeError

_INTERVAL_SECONDS = 0.2


class ProgressLine:
    """Shows how far a call is. It is called with a number of rows, from any thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = self._shown = time.monotonic()
        self._show = _where_shown()
        self._len = 0

    def __call__(self, rows: int) -> None:
        """Show the number of rows so far, but not more often than five times per second."""
        now = time.monotonic()
        if now - self._shown >= _INTERVAL_SECONDS:
            self._shown = now
            seconds = now - self._started
            self._put(f"{self._what}: {rows:,} rows, {rows / seconds:,.0f}/s, {seconds:.1f} s")

    def tick(self, share: float | None) -> None:
        """Show which share of the work is done, if that is known, and how long it has taken."""
        percent = "" if share is None else f"{int(100 * share)} %, "
        self._put(f"{self._what}: {percent}{time.monotonic() - self._started:.1f} s")

    def close(self) -> None:
        """Take the line away."""
        if self._len:
            self._put("")

    def _put(self, text: str) -> None:
        if self._show is not None:
            # Closed streams and notebooks that are gone are no reason to fail.
            try:
                self._show(text, self._len)
                self._len = len(text)
            except Exception:
                self._show = None


def _where_shown() -> Callable[[str, int], object] | None:
    """What shows a text in place of one of some length before it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if type(shell).__name__ == "ZMQInteractiveShell":
        return _notebook()
    if sys.stderr is not None and sys.stderr.isatty():
        return lambda text, before: print(f"\r{text:<{before}}", end="" if text else "\r", file=sys.stderr, flush=True)
    return None


def _notebook() -> Callable[[str, int], object]:
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    handle: Any = None

    def show(text: str, before: int) -> None:
        nonlocal handle
        shown = {"text/plain": text}
        if handle is None:
            handle = display(shown, raw=True, display_id=True)
        else:
            handle.update(shown, raw=True)

    return show


def check_progress(progress: Any, of: str = "number of rows") -> Callable[[Any], object] | bool:
    """Return what an argument says of a number of rows or the like: a function of it, or whether to show it.

    Raises
    ------
    InvalidTypeError
        If it is neither.
    """
    if progress is None or isinstance(progress, bool):
        return bool(progress)
    if not callable(progress):
        raise InvalidTypeError(f"progress: expected True, False or a function of the {of}, not {shown(progress)}")
    return cast("Callable[[Any], object]", progress)


@contextmanager
def rows_shown(what: str, progress: Callable[[int], object] | bool) -> Iterator[Callable[[int], object] | None]:
    """Give what is called with a number of rows, or ``None``.

    What a function of the caller raises within :func:`counted` is raised after the body.
    """
    if not isinstance(progress, bool):
        raised: Exception | None = None
        try:
            yield progress
        except _CallbackError as error:
            raised = error.raised
        if raised is not None:
            raise raised
        return
    if not progress:
        yield None
        return
    line = ProgressLine(what)
    try:
        yield line
    finally:
        line.close()


def counted(
    source: Callable[[], Iterator[pa.RecordBatch]], show: Callable[[int], object] | None
) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Return what gives the same batches, and shows how many rows they have."""
    if show is None:
        return source

    def batches() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in source():
            rows += batch.num_rows
            try:
                show(rows)
            except Exception as error:
                raise _CallbackError(error) from error
            yield batch

    return batches


class _CallbackError(Exception):
    """Carries what a function of the caller raised past those who would take it for an error of a file."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(raised)
        self.raised = raised


@contextmanager
def share_shown(what: str, progress: Callable[[float], object] | bool) -> Iterator[_native.Progress]:
    """Give what a call counts its work in, and show from a thread how much of it is done.

    A function is called by that thread, and once more at the end. What it raises is raised after the body.
    """
    counts = _native.Progress()
    line = ProgressLine(what) if progress is True else None
    if progress is False or (line is not None and line._show is None):
        yield counts
        return
    ended = threading.Event()
    raised: list[BaseException] = []

    def show() -> None:
        if line is not None:
            line.tick(counts.share)
        elif callable(progress) and counts.share is not None:
            progress(counts.share)

    def keep_showing() -> None:
        try:
            while not ended.wait(_INTERVAL_SECONDS):
                show()
        except BaseException as error:
            raised.append(error)

    if line is not None:
        line.tick(None)
    thread = threading.Thread(target=keep_showing, name="drillcore-progress", daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()
        if line is not None:
            line.close()
    if raised:
        raise raised[0]
    if callable(progress):
        progress(1.0)
