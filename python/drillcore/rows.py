"""Rows that a read returns."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.errors import InvalidTypeError, MissingPackageError, StreamConsumedError
from drillcore.names import listed, shortened

if TYPE_CHECKING:
    import pandas
    import polars

    from drillcore import _native

_SHOWN_ROWS = 10
_SHOWN_COLUMNS = 20


@dataclass(frozen=True)
class Sampling:
    """How a sample was drawn."""

    attempts: int
    """Number of rows drawn, including those that failed ``where`` or have a newer row with their key."""
    resolved: bool
    """Whether the rows that pass were listed first, because few pass."""


class Rows:
    """Rows of a read, as Arrow data.

    Rows of ``sample`` and ``get_many`` are in memory: they have a length and can be read any number of times. Rows of
    ``scan`` and ``sql`` are a stream: they can be read once, and nothing is read before that.

    Examples
    --------
    >>> import drillcore
    >>> with drillcore.open(":memory:") as db:
    ...     t = db.create_table("t", {"id": "int64", "name": "string"}, key="id")
    ...     _ = t.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    ...     t.scan(columns=["name"]).arrow().to_pydict()
    {'name': ['a', 'b']}
    """

    def __init__(self, source: _native.Scan | pa.RecordBatch, sampling: Sampling | None = None) -> None:
        self._sampling = sampling
        self._scan: _native.Scan | None = None
        self._held: pa.RecordBatch | None = None
        if isinstance(source, pa.RecordBatch):
            self._held = source
            self._schema = source.schema
        else:
            self._scan = source
            self._schema = pa.schema(source.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns; this reads no rows."""
        return self._schema

    @property
    def sampling(self) -> Sampling | None:
        """How the sample was drawn; ``None`` for other rows."""
        return self._sampling

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows batch by batch.

        Raises
        ------
        StreamConsumedError
            If the rows are a stream that was already read.
        """
        if self._held is not None:
            return iter([self._held])
        return _read(self._take())

    def arrow(self) -> pa.Table:
        """Return all rows as one ``pyarrow.Table``."""
        return pa.Table.from_batches(list(self.batches()), schema=self._schema)

    def df(self) -> pandas.DataFrame:
        """Return all rows as a pandas data frame."""
        require("pandas")
        return self.arrow().to_pandas()

    def pl(self) -> polars.DataFrame:
        """Return all rows as a polars data frame."""
        polars = require("polars")
        return polars.from_arrow(self.arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow C stream."""
        if self._held is not None:
            table = pa.Table.from_batches([self._held])
            return table.__arrow_c_stream__(requested_schema)
        return self._take().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        if self._held is None:
            raise InvalidTypeError("the rows of a scan are a stream without a length; use count() or .arrow().num_rows")
        return self._held.num_rows

    def __bool__(self) -> bool:
        return self._held is None or self._held.num_rows > 0

    def __repr__(self) -> str:
        if self._held is None:
            return f"<Rows: {self._streamed()}>"
        shown = _cells(self._held)
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
        ]
        return "\n".join([f"<Rows: {_shape(self._held)}>", *lines])

    def _repr_html_(self) -> str:
        if self._held is None:
            return f"<p>Rows: {html.escape(self._streamed())}</p>"
        return html_table(_cells(self._held), _shape(self._held))

    def _streamed(self) -> str:
        state = "a scan, not yet read" if self._scan is not None else "a scan, already read"
        return f"{state}; columns {listed(self._schema.names)}"

    def _take(self) -> _native.Scan:
        if self._scan is None:
            raise StreamConsumedError(
                "the rows of a scan can be read once, and were already read; scan again, or keep the result of .arrow()"
            )
        scan, self._scan = self._scan, None
        return scan


def html_table(cells: list[list[str]], caption: str) -> str:
    """Return a notebook table; the first row of ``cells`` is the head."""
    head, *body = [[html.escape(cell) for cell in row] for row in cells]
    lines = ["<table>", f"<caption>{html.escape(caption)}</caption>"]
    lines.append("<thead><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead><tbody>")
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body]
    return "\n".join([*lines, "</tbody></table>"])


def text(value: Any) -> str:
    """Return one cell as it is shown, cut where it is long."""
    if value is None:
        return "null"
    return shortened(f"{value:.6g}" if isinstance(value, float) else str(value))


def _read(scan: _native.Scan) -> Iterator[pa.RecordBatch]:
    while (batch := scan.next_batch()) is not None:
        yield pa.record_batch(batch)


def _cells(batch: pa.RecordBatch) -> list[list[str]]:
    """The head and the first rows, of the first columns."""
    first = batch.slice(0, _SHOWN_ROWS)
    names = batch.schema.names[:_SHOWN_COLUMNS]
    columns = [[name, *map(text, first.column(at).to_pylist())] for at, name in enumerate(names)]
    if batch.num_columns > _SHOWN_COLUMNS:
        columns.append(["..."] * (1 + first.num_rows))
    rows = [list(row) for row in zip(*columns, strict=True)] or [[]]
    if batch.num_rows > _SHOWN_ROWS:
        rows.append(["..."] * len(columns))
    return rows


def _shape(batch: pa.RecordBatch) -> str:
    return f"{batch.num_rows:,} rows x {batch.num_columns} columns"


def require(module: str) -> Any:
    """Import a package that only some methods need."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{module} is not installed; run: pip install {module}") from error
