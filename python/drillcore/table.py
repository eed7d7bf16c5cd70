"""A live table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.data import AppendResult, Rejected, is_dicts, split_bad_dicts, to_arrow
from drillcore.errors import Error, InvalidArgumentError
from drillcore.reads import Reads

if TYPE_CHECKING:
    from drillcore import _native


class Table(Reads):
    """A table of an open database; see :class:`~drillcore.reads.Reads` for reading.

    Any number of threads may write and read at once. Each read sees one snapshot, taken when it is called.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native
        self._schema = pa.schema(native.schema)

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._native.name

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def key(self) -> list[str]:
        return self._native.key

    def append(self, data: Any, *, on_error: str = "raise") -> AppendResult:
        """Append rows as one commit: later snapshots see all of them, earlier ones none.

        Columns are matched by name and cast to the table's types where no value changes; a nullable column
        that is missing reads as null.

        Parameters
        ----------
        data
            Arrow data (pyarrow, polars, pandas, duckdb, ...) or a list of dicts.
        on_error
            ``"raise"`` appends everything or nothing. ``"skip"`` appends the rows that fit and reports the
            others.

        Raises
        ------
        InvalidArgumentError
            If a row or a column does not fit, with ``on_error="raise"``; nothing is stored then.

        Examples
        --------
        >>> t = getfixture("flights")
        >>> t.append([{"carrier": "AA", "flight": 5, "delay": 0.5}]).rows
        1
        >>> result = t.append([{"carrier": "AA", "flight": 6}, {"carrier": "AA", "flight": "x"}], on_error="skip")
        >>> result.rows, result.rejected[0].row
        (1, 1)
        """
        if on_error not in ("raise", "skip"):
            raise InvalidArgumentError(f'on_error: expected "raise" or "skip", not {on_error!r}')
        skip = on_error == "skip"
        try:
            arrow = to_arrow(data, self._schema)
        except Error:
            if not skip or not is_dicts(data):
                raise
            return self._append_good(data)
        rows, rejected, lsn = self._native.append(arrow, skip)
        return AppendResult(rows, [Rejected(row, reason) for row, reason in rejected], lsn)

    def __repr__(self) -> str:
        sets = f", set={self._set_column!r}" if self._set_column else ""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
        return f"<Table {self.name!r}: key={self.key}{sets}; {columns}>"

    def _append_good(self, data: Any) -> AppendResult:
        """Append the dicts that convert; the engine judges the rest of what makes a row fit."""
        good, bad = split_bad_dicts(data, self._schema)
        arrow = to_arrow([data[position] for position in good], self._schema)
        rows, rejected, lsn = self._native.append(arrow, True)
        bad += [Rejected(good[row], reason) for row, reason in rejected]
        return AppendResult(rows, sorted(bad, key=lambda each: each.row), lsn)

    @property
    def _set_column(self) -> str | None:
        return self._native.set

    def _pin(self) -> _native.TableSnapshot:
        return self._native.snapshot()
