"""Dicts on their way into a table, kept as tuples of their values until there are enough to convert.

What can be known of a dict at once is checked at once: its columns, and whether values of these types fit. So the work
for one row is little: a lookup by its columns and one by its types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.arguments.names import check_name, in_quotes, unknown_name
from drillcore.data import Discovery, Rejected, _column, _from_dicts, _lacking, split_bad_dicts
from drillcore.errors import Error, InvalidArgumentError

if TYPE_CHECKING:
    from drillcore.table import Table

ROW_BYTES = 64
"""What a row counts for besides its strings."""

Values = tuple[Any, ...]


@dataclass(frozen=True)
class FailedRow:
    """A row that a writer took, or was given with ``on_error="skip"``, and did not store.

    Attributes
    ----------
    table
        Name of the table that it was meant for.
    row
        The row, as a dict. It may have columns more than were given, with ``None``. Of a time beyond the years of
        Python, it has the number that is stored.
    reason
        Why it was not stored.
    """

    table: str
    row: dict[str, Any]
    reason: str


class Shape:
    """The columns of all rows of a buffer, and what was learned about rows with these. A wider one replaces it."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        """The columns, in the order of the values."""
        self.pickers: dict[tuple[str, ...], Callable[[Mapping[str, Any]], Values]] = {}
        """For each combination of columns that was seen, what gives the values of a row."""
        self.measures: dict[tuple[type, ...], tuple[int, ...]] = {}
        """For each combination of types that was seen, the values that have a length."""

    def as_dict(self, values: Values) -> dict[str, Any]:
        """Return a row as a dict."""
        return dict(zip(self.names, values, strict=True))


class Chunk(list[Any]):
    """What was added, and is handed over together.

    A call is in it or not: it comes by one ``append`` or ``extend``, which a signal handler that raises, as at Ctrl-C,
    cannot divide. What the items are is up to the writer.
    """

    __slots__ = ("began", "bytes", "number", "rows", "shape")

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        """No other chunk of its writer has it."""
        self.began: float | None = None
        """When its oldest row came, or somewhat earlier."""
        self.rows = 0
        """At most as many as there are."""
        self.bytes = 0
        self.shape: Shape | None = None
        """The columns of the items, where these are the values of rows."""


class DictRows:
    """The rows of one table."""

    def __init__(self, table: Table, fill_nulls: bool) -> None:
        self.table = table
        self.shape = Shape()
        self.rows: list[Values] = []
        """Those of the chunk that is being handed over."""
        self.given = Shape()
        """The columns of these."""
        self.calls: list[int] = []
        """For each of them the call that it is from."""
        self._fill_nulls = fill_nulls

    def lacks(self, row: Mapping[str, Any]) -> list[str]:
        """Return the columns of ``row`` that the shape lacks, if the row fits the table.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, NotFoundError
            If it does not.
        """
        names = [check_name("column name", name) for name in row]
        schema = self.table.append_schema
        unknown = next((name for name in names if name not in schema.names), None)
        if unknown is not None and not self._discovers:
            raise unknown_name("column", unknown, schema.names)
        if lacking := _lacking(row, self.table._needed(self._fill_nulls), schema):
            raise InvalidArgumentError(lacking)
        return [name for name in names if name not in self.shape.names]

    def learn(self, names: tuple[str, ...], more: Sequence[str]) -> None:
        """Take rows with the columns ``names`` from now on, which may add ``more``; there must be no rows then."""
        if more:
            self.shape = Shape((*self.shape.names, *more))
        known = self.shape.names
        self.shape.pickers[names] = _picker(known) if len(names) == len(known) else _lenient_picker(known)

    def measure(self, values: Values, shape: Shape) -> tuple[int, ...]:
        """Return which values have a length, if values of these types fit the table.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError
            If these do not.
        """
        schema = self.table.append_schema
        row = shape.as_dict(values)
        _from_dicts([row], schema)
        for name, value in row.items():
            if value is None and name in schema.names and not schema.field(name).nullable:
                raise InvalidArgumentError(
                    f"column {in_quotes(name)} is not nullable, but the value is null; give it a value"
                )
        # Of arrays, those of no dimension have no length.
        sized = tuple(at for at, value in enumerate(values) if hasattr(value, "__len__") and not hasattr(value, "ndim"))
        shape.measures[tuple(map(type, values))] = sized
        return sized

    def converted(self) -> tuple[pa.RecordBatch, list[int], list[Rejected]]:
        """Return the rows as Arrow, which of them these are, and the others with the reason."""
        schema = self.table.append_schema
        columns = map(list, zip(*self.rows, strict=True))
        try:
            given = dict(zip(self.given.names, columns, strict=True))
            # Columns that the table had before, and that these rows were not given.
            for name in set(self.given.names).difference(schema.names):
                if all(value is None for value in given[name]):
                    del given[name]
                elif not self._discovers:
                    raise unknown_name("column", name, schema.names)
            return from_columns(given, schema), list(range(len(self.rows))), []
        except Error:
            gone = [] if self._discovers else [name for name in self.given.names if name not in schema.names]
            dicts, positions, unknown = [], [], []
            for position, values in enumerate(self.rows):
                row = self.given.as_dict(values)
                has_value = [name for name in gone if row.pop(name) is not None]
                if has_value:
                    unknown.append(Rejected(position, str(unknown_name("column", has_value[0], schema.names))))
                else:
                    dicts.append(row)
                    positions.append(position)
            discovery = Discovery(self.table.schema.names) if self._discovers else None
            needed = self.table._needed(self._fill_nulls).given(dicts)
            good, bad, wider = split_bad_dicts(dicts, schema, needed, discovery)
            rejected = [Rejected(positions[one.row], one.reason) for one in bad] + unknown
            return _from_dicts([dicts[at] for at in good], wider), [positions[at] for at in good], rejected

    def leave_out(self, positions: set[int]) -> list[dict[str, Any]]:
        """Remove the rows at these positions, and return them."""
        removed = [self.given.as_dict(self.rows[at]) for at in sorted(positions)]
        self.rows = [row for at, row in enumerate(self.rows) if at not in positions]
        self.calls = [call for at, call in enumerate(self.calls) if at not in positions]
        return removed

    def widen(self, shapes: Sequence[Shape]) -> None:
        """Give the rows, which have these shapes, the columns of all of them."""
        self.given = Shape(tuple(dict.fromkeys(name for shape in dict.fromkeys(shapes) for name in shape.names)))
        pick = _lenient_picker(self.given.names)
        self.rows = [pick(shape.as_dict(values)) for shape, values in zip(shapes, self.rows, strict=True)]

    def follow(self, table: Table) -> None:
        """Have the rows go into another table, which got the name of the one before."""
        self.table = table
        self.forget_shapes()

    def clear(self) -> None:
        """Forget the rows."""
        self.rows, self.calls = [], []
        self.given = Shape()

    def forget_shapes(self) -> None:
        """Look at the next rows as if they were the first, because the table may have changed."""
        self.shape = Shape()

    @property
    def _discovers(self) -> bool:
        return self.table._native.discovers


def from_columns(columns: Mapping[str, list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return values as a record batch."""
    arrays = [_column(values, name, schema, "row") for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Values]:
    if len(names) == 1:
        (name,) = names
        return lambda row: (row[name],)
    return itemgetter(*names)


def _lenient_picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Values]:
    return lambda row: tuple(map(row.get, names))
