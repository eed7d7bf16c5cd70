"""A database that is held at one moment, by one reader at a time; and what a collection without any has instead."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from drillcore import opening
from drillcore.errors import ClosedError
from drillcore.spark.collection import Shape
from drillcore.spark.naming import named


class HeldDatabase:
    """A database at the moment it was first opened at, until it is let go.

    A reader keeps the log above the segments in memory, and splits have a reader of their own, which all splits of the
    process at the moment share. So once there are splits, they hold the moment, and the first reader is closed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._splits: list[Any] = []
        with named(path):
            self._reader: Any = opening.open(path, read_only=True)
        self._moment = self._reader.moment
        self._is_closed = False

    def table(self, name: str) -> Any:
        """Return a table at the moment."""
        with self._lock, named(self.path):
            return self._opened().table(name)

    def splits(self, table: str, parts: int, **selection: Any) -> list[Any]:
        """Return the splits of a selection, which hold the moment, too."""
        with self._lock, named(self.path):
            made = self._opened().splits(table, parts, **selection)
            self._keep(made)
            return made

    def close(self) -> None:
        """Release the moment: files that only it needs can be removed once no process holds a split of it."""
        with self._lock:
            self._is_closed = True
            self._splits = []
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _opened(self) -> Any:
        if self._is_closed:
            raise ClosedError("the data frame was released by drillcore.spark.release(); load() it again")
        if self._reader is None:
            self._reader = opening.open(self.path, read_only=True, at=self._moment)
        return self._reader

    def _keep(self, splits: Sequence[Any]) -> None:
        if splits and not self._splits:
            self._splits = list(splits)
        if self._splits:
            self._reader.close()
            self._reader = None


class NoDatabase:
    """What a collection without rows has for a database: its table, of which there are no splits."""

    def __init__(self, path: str, shape: Shape) -> None:
        self.path = path
        self._database = opening.open(":memory:")
        shape.create(self._database)

    def table(self, name: str) -> Any:
        """Return the table, which is empty."""
        return self._database.table(name)

    def splits(self, table: str, parts: int, **selection: Any) -> list[Any]:
        """Return no splits."""
        return []

    def close(self) -> None:
        """Let go of the table."""
        self._database.close()
