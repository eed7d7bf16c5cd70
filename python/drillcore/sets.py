"""The sets of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes
from drillcore.arrow.python_values import to_python, values_to_show
from drillcore.showing.notebook import SHOWN_ROWS, counted, html_table, text_table
from drillcore.showing.notebook import text as cell
from drillcore.values import NULL


class Sets:
    """The sets of a table, each with its number of rows, in order.

    It can be iterated over any number of times, and gives pairs. The set of the rows without a value is
    ``drillcore.NULL``. ``dict(t.sets())`` looks up one set.

    Examples
    --------
    >>> import drillcore
    >>> t = drillcore.open(":memory:").create_table("t", {"id": "int64", "name": "string"}, key="id", set="name")
    >>> _ = t.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "b"}])
    >>> t.sets()
    <Sets of 'name': 2 sets, 3 rows>
    name  rows
    a        1
    b        2
    """

    def __init__(self, column: str | None, values: pa.Array, rows: list[int]) -> None:
        self._column = column
        self._values = values
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        values = to_python(f"set column {in_quotes(self._column)}", self._values, ".arrow()")
        names = (NULL if name is None else name for name in values)
        return zip(names, self._rows, strict=True)

    def __len__(self) -> int:
        return len(self._rows)

    def arrow(self) -> pa.Table:
        """Return a table with the set column and ``rows``."""
        return pa.table([self._values, pa.array(self._rows, pa.uint64())], [self._column or "set", "rows"])

    def __repr__(self) -> str:
        return "\n".join([f"<Sets of {self._column!r}: {self._facts()}>", *text_table(self._cells(), right=[1])])

    def _repr_html_(self) -> str:
        return html_table(self._cells(), f"Sets of {self._column!r}: {self._facts()}", right=[1])

    def _facts(self) -> str:
        return f"{counted(len(self), 'set')}, {counted(sum(self._rows), 'row')}"

    def _cells(self) -> list[list[str]]:
        shown = zip(values_to_show(self._values.slice(0, SHOWN_ROWS)), self._rows, strict=False)
        cells = [[cell(name), f"{rows:,}"] for name, rows in shown]
        if len(self) > SHOWN_ROWS:
            cells.append(["...", "..."])
        return [[self._column or "set", "rows"], *cells]
