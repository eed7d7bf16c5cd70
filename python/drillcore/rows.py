"""Rows that a read returns."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.arguments.names import listed, shown
from drillcore.arrow.pandas_frame import to_pandas
from drillcore.arrow.python_values import values_to_show
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError, MissingPackageError, StreamConsumedError
from drillcore.export.row_files import check_compression, packing, write_csv, write_ipc, write_parquet
from drillcore.export.whole_file import check_target
from drillcore.showing.notebook import escaped, html_table, muted, text, text_table
from drillcore.showing.progress import check_progress, counted, rows_shown

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
    ``scan`` and ``sql`` are a stream: they can be read once, and nothing is read before that. To show them (``repr``, a
    notebook) reads the first rows, which are kept: all rows can still be read.

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
        # What was read of a stream to show it, whether that was all, and how it failed.
        self._ahead: list[pa.RecordBatch] = []
        self._ended = False
        self._failure: Error | None = None
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
        return self._stream()

    def arrow(self) -> pa.Table:
        """Return all rows as one ``pyarrow.Table``."""
        return pa.Table.from_batches(list(self.batches()), schema=self._schema)

    def df(self) -> pandas.DataFrame:
        """Return all rows as a pandas data frame.

        Columns of whole numbers keep their type. Those with nulls get pandas's nullable type of the same width, such as
        ``Int64``, because the floats that pandas would otherwise use cannot hold all whole numbers.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("t", {"id": "int64", "n": "int64"}, key="id")
        >>> _ = t.append([{"id": 1, "n": 2**53 + 1}, {"id": 2, "n": None}])
        >>> frame = t.scan().df()
        >>> [str(kind) for kind in frame.dtypes], int(frame["n"][0])
        (['int64', 'Int64'], 9007199254740993)
        """
        require("pandas")
        return to_pandas(self.arrow())

    def pl(self) -> polars.DataFrame:
        """Return all rows as a polars data frame."""
        polars = require("polars")
        return polars.from_arrow(self.arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow C stream."""
        if self._held is not None:
            table = pa.Table.from_batches([self._held])
            return table.__arrow_c_stream__(requested_schema)
        if self._ahead or self._ended:
            reader = pa.RecordBatchReader.from_batches(self._schema, self._stream())
            return reader.__arrow_c_stream__(requested_schema)
        return self._take().__arrow_c_stream__(requested_schema)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        compression: str | None = "zstd",
        progress: Callable[[int], object] | bool = False,
    ) -> int:
        """Write all rows to a Parquet file, and return their number.

        All cores encode, with the interpreter released. Rows are written as they are read, so memory does not grow with
        their number: it holds two row groups. The file appears whole: rows go to a file beside it, which takes its
        place at the end. After an error or an interrupt, there is no file, or the one that was there before.

        pyarrow reads the types that the rows have. Parquet has no times in seconds and no dates in milliseconds: they
        become times in milliseconds, and dates in days.

        Parameters
        ----------
        path
            The file to write.
        overwrite
            Replace the file if it exists.
        compression
            ``"zstd"``, ``"snappy"``, ``"gzip"``, ``"lz4"``, ``"brotli"`` or ``None``. Row groups have up to 131,072
            rows, and statistics.
        progress
            ``True`` shows in a terminal or notebook how many rows are written. Otherwise a function to call as rows
            are written, with their number so far.

        Raises
        ------
        AlreadyExistsError
            If the file exists and ``overwrite`` is false. The rows can then still be read.
        StorageError
            If the file cannot be written.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> t = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id")
        >>> _ = t.append([{"id": i} for i in range(1000)])
        >>> with TemporaryDirectory() as folder:
        ...     t.scan(where="id < 10").to_parquet(f"{folder}/first.parquet")
        10
        """
        target, packed = check_target(path, bool(overwrite)), check_compression("parquet", compression)
        with rows_shown("to_parquet", check_progress(progress)) as report:
            return write_parquet(target, bool(overwrite), self._schema, counted(self._source(), report), packed)

    def to_csv(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        header: bool = True,
        delimiter: str = ",",
        progress: Callable[[int], object] | bool = False,
    ) -> int:
        """Write all rows to a CSV file, and return their number; see :meth:`to_parquet`.

        Strings are in quotes, so an empty string and a null, which is an empty cell, differ. Times with a zone are
        written with their offset from UTC. Lists and binary values have no form in CSV. A file whose name ends in
        ``.gz`` or ``.zst`` is compressed.

        Parameters
        ----------
        path, overwrite
            As for :meth:`to_parquet`.
        header
            Whether the first line names the columns.
        delimiter
            The character between values.
        progress
            As for :meth:`to_parquet`.

        Raises
        ------
        AlreadyExistsError, StorageError
            As for :meth:`to_parquet`.
        InvalidArgumentError
            If a column has no form in CSV.
        """
        if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise InvalidArgumentError(f"delimiter: expected one character of ASCII, not {shown(delimiter)}")
        target = check_target(path, bool(overwrite))
        with rows_shown("to_csv", check_progress(progress)) as report:
            batches = counted(self._source(), report)
            return write_csv(
                target,
                bool(overwrite),
                self._schema,
                batches,
                header=bool(header),
                delimiter=delimiter,
                packed=packing(path),
            )

    def to_ipc(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        compression: str | None = None,
        progress: Callable[[int], object] | bool = False,
    ) -> int:
        """Write all rows to an Arrow IPC file (Feather), and return their number; see :meth:`to_parquet`.

        Parameters
        ----------
        path, overwrite
            As for :meth:`to_parquet`.
        compression
            ``"zstd"``, ``"lz4"`` or ``None``.
        progress
            As for :meth:`to_parquet`.

        Raises
        ------
        AlreadyExistsError, StorageError
            As for :meth:`to_parquet`.
        """
        target, packed = check_target(path, bool(overwrite)), check_compression("ipc", compression)
        with rows_shown("to_ipc", check_progress(progress)) as report:
            return write_ipc(target, bool(overwrite), self._schema, counted(self._source(), report), packed)

    def __len__(self) -> int:
        if self._held is None:
            raise InvalidTypeError("the rows of a scan are a stream without a length; use count() or .arrow().num_rows")
        return self._held.num_rows

    def __bool__(self) -> bool:
        return self._held is None or self._held.num_rows > 0

    def __repr__(self) -> str:
        shown, facts = self._look()
        if shown is None:
            return f"<Rows: {facts}>"
        return "\n".join([f"<Rows: {facts}>", *text_table(_cells(shown), right=_numbers(shown.schema))])

    def _repr_html_(self) -> str:
        shown, facts = self._look()
        if shown is None:
            return f"<p>Rows: {escaped(facts)}</p>"
        return html_table(_cells(shown, null=muted("null")), facts, right=_numbers(shown.schema))

    def _look(self) -> tuple[pa.RecordBatch | pa.Table | None, str]:
        """The first rows, if there are any to show, and what they are."""
        if self._held is not None:
            return self._held, _shape(self._held)
        if self._scan is None:
            return None, f"a stream, already read; columns {listed(self._schema.names)}"
        self._read_ahead()
        if self._failure is not None:
            return None, f"a stream that failed: {self._failure}"
        first = pa.Table.from_batches(self._ahead, schema=self._schema)
        if self._ended:
            return first, _shape(first)
        more = f"first {_SHOWN_ROWS} rows of a stream, {first.num_columns} columns; .arrow() or .df() reads all"
        return first, more

    def _read_ahead(self) -> None:
        """Read and keep what is shown of a stream, and at least one row more, to know whether it ends."""
        while self._scan is not None and not self._ended and sum(map(len, self._ahead)) <= _SHOWN_ROWS:
            try:
                batch = self._scan.next_batch()
            except Error as error:
                # Nothing comes behind it. Who reads the rows is to have it, too.
                self._failure, self._ended = error, True
            except BaseException:
                self._scan = None
                raise
            else:
                if batch is None:
                    self._ended = True
                else:
                    self._ahead.append(pa.record_batch(batch))

    def _stream(self) -> Iterator[pa.RecordBatch]:
        ahead, ended, failure = self._ahead, self._ended, self._failure
        scan = self._take()
        self._ahead = []
        return _read(ahead, failure, None if ended else scan)

    def _source(self) -> Callable[[], Iterator[pa.RecordBatch]]:
        """What gives the batches, once they are wanted; refuses rows that were read already."""
        if self._held is None and self._scan is None:
            self._take()
        return self.batches

    def _take(self) -> _native.Scan:
        if self._scan is None:
            raise StreamConsumedError(
                "the rows of a scan can be read once, and were already read; scan again, or keep the result of .arrow()"
            )
        scan, self._scan = self._scan, None
        return scan


def _read(ahead: list[pa.RecordBatch], failure: Error | None, scan: _native.Scan | None) -> Iterator[pa.RecordBatch]:
    while ahead:
        yield ahead.pop(0)
    if failure is not None:
        raise failure
    while scan is not None and (batch := scan.next_batch()) is not None:
        yield pa.record_batch(batch)


def _numbers(schema: pa.Schema) -> list[int]:
    """The shown columns that hold numbers."""
    is_a = pa.types

    def is_number(kind: pa.DataType) -> bool:
        return is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind)

    return [at for at in range(min(len(schema), _SHOWN_COLUMNS)) if is_number(schema.field(at).type)]


def _cells(batch: pa.RecordBatch | pa.Table, null: str = "null") -> list[list[str]]:
    """The head and the first rows, of the first columns."""

    def cell(value: Any) -> str:
        return null if value is None else text(value)

    first = batch.slice(0, _SHOWN_ROWS)
    names = batch.schema.names[:_SHOWN_COLUMNS]
    columns = [[name, *map(cell, values_to_show(first.column(at)))] for at, name in enumerate(names)]
    if batch.num_columns > _SHOWN_COLUMNS:
        columns.append(["..."] * (1 + first.num_rows))
    rows = [list(row) for row in zip(*columns, strict=True)] or [[]]
    if batch.num_rows > _SHOWN_ROWS:
        rows.append(["..."] * len(columns))
    return rows


def _shape(batch: pa.RecordBatch | pa.Table) -> str:
    return f"{batch.num_rows:,} rows x {batch.num_columns} columns"


def require(module: str) -> Any:
    """Import a package that only some methods need."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{module} is not installed; run: pip install {module}") from error
