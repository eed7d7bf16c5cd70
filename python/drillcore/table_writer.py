"""Writing rows to one table in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drillcore import _native
from drillcore.arrow.arrow_data import is_pandas, to_table
from drillcore.arrow.python_values import rows_to_show
from drillcore.data import split_bad_rows, to_arrow
from drillcore.dict_rows import ROW_BYTES, Chunk, DictRows, FailedRow, Shape, Values
from drillcore.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from drillcore.writer import Writer

if TYPE_CHECKING:
    from drillcore.table import Table


class TableWriter(Writer):
    """Gathers rows for one table: see :meth:`Table.writer <drillcore.table.Table.writer>`.

    For what all writers do see :class:`~drillcore.writer.Writer`.

    Examples
    --------
    >>> t = drillcore.open(":memory:").create_table("flights", {"flight": "int64", "delay": "float64"}, key="flight")
    >>> with t.writer(rows=1000) as w:
    ...     for i in range(2500):
    ...         w.add({"flight": i, "delay": i / 2})
    ...     lsn = w.flush()
    >>> len(t), w.close().rows, w.close().failed
    (2500, 2500, [])

    A row that does not fit:

    >>> with t.writer() as w:
    ...     w.add({"flight": 2500, "dealy": 1.0})
    Traceback (most recent call last):
    ...
    drillcore.errors.NotFoundError: unknown column "dealy"; did you mean "delay"?
    """

    _keeps_calls_whole = False

    def __init__(self, table: Table, **options: Any) -> None:
        self._name = table.name
        self._table = table
        super().__init__(table._database, lambda *limits: _native.Writer.of_table(table._native, *limits), **options)
        self._only = self._buffers[self._name] = DictRows(table, self._fill_nulls)

    def add(self, data: Any) -> None:
        """Add rows. Waits while two batches are full.

        Parameters
        ----------
        data
            A dict, a list of dicts, or Arrow data, as for :meth:`Table.append <drillcore.table.Table.append>`. A dict
            may be changed after the call. Arrow data should be small: it is not split over several commits.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, NotFoundError
            If a row has a column that the table lacks, lacks one that it needs, or has a value of a type that does not
            fit. Nothing of ``data`` is added.
        Error
            If a row that was added earlier could not be stored, for example because its number is out of range. The
            error has such rows as ``failed_rows``, and is raised once. Nothing of ``data`` is added, and the writer
            can be used as before. With ``on_error="skip"``, such rows are left out instead, unless the database
            cannot store any rows.
        ClosedError
            If the writer or the database is closed.
        """
        if self._error is not None:
            self._raise_error()
        if not self._raised.adds:
            self._begin_to_add()
        if type(data) is dict:
            # The way of most rows, without a call that it could do without.
            buffer = self._only
            shape = buffer.shape
            pick = shape.pickers.get(tuple(data))
            if pick is not None:
                values = pick(data)
                sized = shape.measures.get(tuple(map(type, values)))
                if sized is not None:
                    size = ROW_BYTES
                    for at in sized:
                        size += len(values[at])
                    if self._busy:
                        self._wait_while_busy()
                    with self._lock:
                        self._busy = True
                        try:
                            chunk = self._queue[-1]
                            if chunk.shape is shape and buffer.shape is shape and self._closed is None:
                                chunk.append(values)
                                chunk.rows += 1
                                chunk.bytes += size
                                if chunk.rows >= self._chunk_rows or chunk.bytes >= self._chunk_bytes:
                                    self._hand_over()
                                return
                        finally:
                            self._busy = False
        # In a fork, pyarrow may have been left locked.
        if self._closed is not None:
            raise self._closed
        if isinstance(data, Mapping):
            self._add_dicts([data])
        elif isinstance(data, list | tuple):
            for position, row in enumerate(data):
                if not isinstance(row, Mapping):
                    raise InvalidTypeError(f"row {position}: expected a dict, not {type(row).__name__}")
            # What does not fit is left out row by row.
            for rows in [[row] for row in data] if self._skip else [data]:
                self._add_dicts(rows)
        else:
            self._add_arrow(data)

    def _add_dicts(self, rows: Sequence[Any]) -> None:
        """Add all of these, or none of them."""
        buffer = self._only
        while True:
            try:
                picked = self._all_values(buffer, rows)
            except (InvalidArgumentError, InvalidTypeError, NotFoundError) as error:
                if not self._skip or not isinstance(rows[0], Mapping):
                    raise
                with self._lock:
                    self._note_failed([FailedRow(self._name, dict(rows[0]), str(error))])
                return
            with self._lock:
                if self._closed is not None:
                    raise self._closed
                if all(shape is buffer.shape for _, _, shape in picked):
                    self._put(buffer.shape, picked)
                    self._hand_over_if_full()
                    return

    def _put(self, shape: Shape, picked: Sequence[tuple[Values, int, Shape]]) -> None:
        """Take rows of one shape. To be called with the lock."""
        values = [values for values, _, _ in picked]
        size = sum(size for _, size, _ in picked)
        now = self._begin()
        while self._queue[-1] and self._queue[-1].shape is not shape:
            self._queue.append(Chunk(next(self._numbers)))
        # No step may come between that has a signal handler called: it may hand this chunk over.
        chunk = self._queue[-1]
        if chunk.began is None:
            chunk.began = now
        chunk.shape = shape
        chunk.extend(values)
        chunk.rows += len(values)
        chunk.bytes += size

    def _distribute(self, chunk: Chunk) -> None:
        self._only.clear()
        self._only.rows = list(chunk)
        self._only.given = chunk.shape or Shape()

    def _add_arrow(self, data: Any) -> None:
        schema, failed = self._table.append_schema, []
        try:
            batch = to_table("data", to_arrow(data, schema))
        except (InvalidArgumentError, InvalidTypeError):
            if not self._skip or not is_pandas(data):
                raise
            good, bad = split_bad_rows(data, schema)
            batch = to_table("data", to_arrow(data.iloc[good], schema))
            rows = data.iloc[[one.row for one in bad]].to_dict("records")
            failed = [FailedRow(self._name, row, one.reason) for row, one in zip(rows, bad, strict=True)]
        if rejected := self._add_parts([(self._name, batch)]):
            rows = rows_to_show(batch.take([row for _, row, _ in rejected]))
            reasons = [reason for _, _, reason in rejected]
            failed += [FailedRow(self._name, *pair) for pair in zip(rows, reasons, strict=True)]
        if failed:
            with self._lock:
                self._note_failed(failed)
