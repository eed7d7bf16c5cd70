"""Writing rows to several tables in the background, such that they stay in step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drillcore import _native
from drillcore.arguments.names import in_quotes
from drillcore.arrow.arrow_data import to_table
from drillcore.arrow.python_values import rows_to_show
from drillcore.data import to_arrow
from drillcore.dict_rows import ROW_BYTES, Chunk, DictRows, FailedRow, Shape, Values
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError, NotFoundError
from drillcore.writer import Writer

if TYPE_CHECKING:
    from drillcore.table import Table


class DatabaseWriter(Writer):
    """Gathers rows for several tables: see :meth:`Database.writer <drillcore.database.Database.writer>`.

    The rows of one ``add`` are in one commit. If one of them does not fit, none of them is stored. For what all writers
    do see :class:`~drillcore.writer.Writer`.

    Examples
    --------
    >>> db = drillcore.open(":memory:")
    >>> flights = db.create_table("flights", {"flight": "int64", "hour": "int64"}, key="flight")
    >>> rollup = {"metrics": {"n": "count"}}
    >>> hourly = db.create_table("hourly", {"hour": "int64"}, key="hour", merge="rollup", rollup=rollup)
    >>> with db.writer() as w:
    ...     for i in range(1000):
    ...         w.add({"flights": {"flight": i, "hour": i % 24}, "hourly": {"hour": i % 24}})
    >>> len(flights), len(hourly), hourly.count(unit="events")
    (1000, 24, 1000)
    """

    _keeps_calls_whole = True

    def __init__(self, database: _native.Database, open_table: Callable[[str], Table], **options: Any) -> None:
        self._open_table = open_table
        super().__init__(database, lambda *limits: _native.Writer.of_database(database, *limits), **options)

    def add(self, data: Mapping[str, Any]) -> None:
        """Add rows to tables, all in one commit. Waits while two batches are full.

        Parameters
        ----------
        data
            A dict from table name to a row or rows, as for
            :meth:`TableWriter.add <drillcore.table_writer.TableWriter.add>`.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, NotFoundError
            If a row cannot be stored, as far as that is known at once. Nothing of ``data`` is added.
        Error
            As :meth:`TableWriter.add <drillcore.table_writer.TableWriter.add>`.
        """
        if self._error is not None:
            self._raise_error()
        if not self._raised.adds:
            self._begin_to_add()
        if not isinstance(data, Mapping):
            raise InvalidTypeError(f"data: expected a dict from table name to rows, not {type(data).__name__}")
        if not self._add_at_once(data):
            self._add_in_steps(data)

    def _add_at_once(self, data: Mapping[str, Any]) -> bool:
        """Add one dict for each table, if the shapes of all are known. The way of most rows."""
        picked = []
        size = 0
        for name, row in data.items():
            buffer = self._buffers.get(name)
            if buffer is None or type(row) is not dict:
                return False
            shape = buffer.shape
            pick = shape.pickers.get(tuple(row))
            if pick is None:
                return False
            values = pick(row)
            sized = shape.measures.get(tuple(map(type, values)))
            if sized is None:
                return False
            size += ROW_BYTES
            for at in sized:
                size += len(values[at])
            picked.append((buffer, shape, values))
        call = tuple(picked)
        if self._busy:
            self._wait_while_busy()
        with self._lock:
            self._busy = True
            try:
                for buffer, shape, _ in call:
                    if buffer.shape is not shape:
                        return False
                # No step may come between that has a signal handler called: it may hand this chunk over.
                chunk = self._queue[-1]
                if chunk.began is None or self._closed is not None:
                    return False
                chunk.append(call)
                chunk.rows += len(call)
                chunk.bytes += size
                self._hand_over_if_full()
            finally:
                self._busy = False
        return True

    def _add_in_steps(self, data: Mapping[str, Any]) -> None:
        # In a fork, pyarrow may have been left locked.
        if self._closed is not None:
            raise self._closed
        given = {name: [rows] if isinstance(rows, Mapping) else rows for name, rows in data.items()}
        if any(not isinstance(rows, list | tuple) for rows in given.values()):
            return self._add_arrow(data)
        while True:
            try:
                picked = self._picked(given)
            except (InvalidArgumentError, InvalidTypeError, NotFoundError) as error:
                if not self._skip or not all(isinstance(row, Mapping) for rows in given.values() for row in rows):
                    raise
                failed = [FailedRow(name, dict(row), str(error)) for name, rows in given.items() for row in rows]
                with self._lock:
                    self._note_failed(failed)
                return
            with self._lock:
                if self._closed is not None:
                    raise self._closed
                if all(shape is buffer.shape for buffer, rows in picked for _, _, shape in rows):
                    self._put(picked)
                    self._hand_over_if_full()
                    return

    def _picked(self, given: Mapping[str, Sequence[Any]]) -> list[tuple[DictRows, list[tuple[Values, int, Shape]]]]:
        picked = []
        for name, rows in given.items():
            buffer = self._buffers.get(name)
            if buffer is None:
                opened = DictRows(self._open_table(name), self._fill_nulls)
                with self._lock:
                    buffer = self._buffers.setdefault(name, opened)
            elif self._database.table(name).number != buffer.table._native.number:
                with self._lock:
                    # What is here has the shape that was learned for the other one.
                    self._hand_over()
                    self._follow_table(name, buffer)
            picked.append((buffer, self._all_values(buffer, rows)))
        return picked

    def _put(self, picked: Sequence[tuple[DictRows, Sequence[tuple[Values, int, Shape]]]]) -> None:
        """Take the rows of a call. To be called with the lock."""
        call = tuple([(buffer, shape, values) for buffer, rows in picked for values, _, shape in rows])
        size = sum(size for _, rows in picked for _, size, _ in rows)
        now = self._begin()
        # No step may come between that has a signal handler called: it may hand this chunk over.
        chunk = self._queue[-1]
        if chunk.began is None:
            chunk.began = now
        chunk.append(call)
        chunk.rows += len(call)
        chunk.bytes += size

    def _distribute(self, chunk: Chunk) -> None:
        for buffer in self._buffers.values():
            buffer.clear()
        of_several: set[DictRows] = set()
        for number, call in enumerate(chunk):
            for buffer, shape, values in call:
                if shape is not buffer.given:
                    if buffer.rows:
                        of_several.add(buffer)
                    buffer.given = shape
                buffer.rows.append(values)
                buffer.calls.append(number)
        for buffer in of_several:
            buffer.widen([shape for call in chunk for of, shape, _ in call if of is buffer])
        for name, buffer in self._buffers.items():
            # Of a table that is gone, the rows fail once they are added.
            with contextlib.suppress(Error):
                self._follow_table(name, buffer)

    def _follow_table(self, name: str, buffer: DictRows) -> None:
        """See whether another table has the name now."""
        if self._database.table(name).number != buffer.table._native.number:
            buffer.follow(self._open_table(name))

    def _add_arrow(self, data: Mapping[str, Any]) -> None:
        parts = []
        for name, rows in data.items():
            table = self._open_table(name)
            given = [rows] if isinstance(rows, Mapping) else rows
            arrow = to_arrow(given, table.append_schema, table._needed(self._fill_nulls))
            parts.append((name, to_table("data", arrow)))
        if rejected := self._add_parts(parts):
            part, row, reason = rejected[0]
            why = f"table {in_quotes(parts[part][0])}, row {row}: {reason}"
            with self._lock:
                self._note_failed([FailedRow(name, row, why) for name, batch in parts for row in rows_to_show(batch)])
