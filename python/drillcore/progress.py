"""Progress of calls that take long: a line in a terminal, a display in a notebook, and nothing elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa

from drillcore.errors import InvalidTypeError
from drillcore.names import shown

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

    def tick(self) -> None:
        """Show how long it has taken."""
        self._put(f"{self._what}: {time.monotonic() - self._started:.1f} s")

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


def check_progress(progress: Any) -> Callable[[int], object] | bool:
    """Return what an argument says of the number of rows: a function of it, or whether to show it.

    Raises
    ------
    InvalidTypeError
        If it is neither.
    """
    if progress is None or isinstance(progress, bool):
        return bool(progress)
    if not callable(progress):
        raise InvalidTypeError(
            f"progress: expected True, False or a function of the number of rows, not {shown(progress)}"
        )
    return cast("Callable[[int], object]", progress)


def check_time_shown(progress: Any) -> bool:
    """Return whether to show the time of a call that reports no rows.

    Raises
    ------
    InvalidTypeError
        If it is anything else.
    """
    if not (progress is None or isinstance(progress, bool)):
        raise InvalidTypeError(f"progress: expected True or False, not {shown(progress)}")
    return bool(progress)


@contextmanager
def rows_shown(what: str, progress: Callable[[int], object] | bool) -> Iterator[Callable[[int], object] | None]:
    """Give what is called with a number of rows, or ``None``."""
    if not isinstance(progress, bool):
        yield progress
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
            show(rows)
            yield batch

    return batches


@contextmanager
def time_shown(what: str, progress: bool) -> Iterator[None]:
    """Show from a thread how long the body takes."""
    line = ProgressLine(what) if progress else None
    if line is None or line._show is None:
        yield
        return
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_INTERVAL_SECONDS):
            line.tick()

    line.tick()
    thread = threading.Thread(target=tick, name="drillcore-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        line.close()
