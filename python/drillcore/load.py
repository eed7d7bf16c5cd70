"""Loading streams of any size: rows are committed chunk by chunk, and only one chunk is held."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from drillcore.arguments.names import in_quotes
from drillcore.arrow.arrow_data import as_rows, is_arrow, is_pandas
from drillcore.arrow.schema import plain_type
from drillcore.data import AppendResult, Rejected, described, is_dicts, to_arrow
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError, LoadError
from drillcore.rows import Rows

CHUNK_ROWS_MAX = 65_536
ROW_BYTES = 8_192
"""There is this much of the memory budget for each row of a chunk, so that rows which grow as they are stored, such
as small numbers with many sums in a rollup table, still fit a commit."""
CHUNK_BYTES_MAX = 32 << 20
CHUNK_SHARE = 32
"""A chunk takes at most this part of the memory budget: a commit may take a quarter, indexes and keys included."""
REJECTED_LISTED_MAX = 1_000
"""Rows left out that a result lists; more are only counted, so that memory stays bounded."""

_ROW = re.compile(r"^row (\d+):")


@dataclass(frozen=True)
class LoadResult:
    """The result of a load.

    Attributes
    ----------
    rows
        Number of rows stored.
    rejected
        The first 1,000 rows left out, with their position in the stream; empty unless ``on_error="skip"``.
    rejected_count
        Number of all rows left out.
    lsn
        LSN of the last commit. A snapshot with this LSN or a higher one shows all rows.
    commits
        Number of commits.
    """

    rows: int
    rejected: list[Rejected] = field(default_factory=list)
    lsn: int = 0
    commits: int = 0
    rejected_count: int = 0


class AppendChunk(Protocol):
    """Stores one chunk as one commit."""

    def __call__(self, data: Any, *, on_error: str) -> AppendResult: ...


class Loader:
    """Gathers what a stream gives into chunks and commits each when it is full.

    An error leaves the chunks before it in: it carries their number of rows as ``rows_loaded``. So does an
    interrupt; the chunk that was being committed is in as a whole, then, or not at all.
    """

    def __init__(
        self,
        append: AppendChunk,
        schema: pa.Schema,
        *,
        chunk_rows: int,
        chunk_bytes: int,
        on_error: str,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._append = append
        self._schema = schema
        self._chunk_rows = chunk_rows
        self._chunk_bytes = chunk_bytes
        self._on_error = on_error
        self._progress = progress
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._seen = 0
        """Rows of the stream that went into a chunk, stored or left out: the position of the next."""
        self._stored = 0
        self._commits = 0
        self._rejected: list[Rejected] = []
        self._rejected_count = 0
        self._lsn: int | None = None

    def load(self, stream: Any, lsn_without_rows: Callable[[], int]) -> LoadResult:
        """Load the whole of ``stream``; without a commit the LSN is that of ``lsn_without_rows``."""
        items = self._pulled(stream)
        for item in items:
            if isinstance(item, pa.RecordBatch):
                self._add(item)
            else:
                # Dicts, and frames with objects, are judged one by one where rows may be left out, which `append` does.
                self._flush()
                for first in range(0, len(item), self._chunk_rows):
                    rows = item if is_pandas(item) else item[first : first + self._chunk_rows]
                    self._commit(rows, len(rows))
        self._flush()
        lsn = lsn_without_rows() if self._lsn is None else self._lsn
        return LoadResult(self._stored, self._rejected, lsn, self._commits, self._rejected_count)

    def _pulled(self, stream: Any) -> Iterator[Any]:
        """What the stream gives, with the failures of its source distinguished from those of this table."""
        try:
            yield from pieces(stream, self._schema, self._chunk_rows)
        except Error as error:
            raise self._error_with_count(error, str(error)) from error.__cause__
        except Exception as error:
            error_with_count = LoadError(f"the stream failed: {type(error).__name__}: {error}; {self._stored_text()}")
            error_with_count.rows_loaded = self._stored
            raise error_with_count from error

    def _add(self, batch: pa.RecordBatch) -> None:
        """Put a batch with the waiting ones, and commit as often as they fill a chunk."""
        if self._waiting and batch.schema != self._waiting[0].schema:
            self._flush()
        first = 0
        while first < batch.num_rows:
            room = self._chunk_rows - self._waiting_rows
            part = self._fitting(plain_batch(batch.slice(first, room)))
            first += part.num_rows
            if self._waiting_bytes + part.nbytes > self._chunk_bytes:
                self._flush()
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            self._waiting_bytes += part.nbytes
            if self._waiting_rows == self._chunk_rows:
                self._flush()

    def _fitting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The first rows of ``batch``, at least one, that are not too large for a chunk."""
        while batch.nbytes > self._chunk_bytes and batch.num_rows > 1:
            batch = batch.slice(0, batch.num_rows // 2)
        return batch

    def _flush(self) -> None:
        if self._waiting:
            chunk = pa.Table.from_batches(self._waiting)
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
            self._commit(chunk, chunk.num_rows)

    def _commit(self, chunk: Any, rows: int) -> None:
        """Store a chunk of ``rows`` rows, those that fit, as one commit."""
        try:
            result = self._append(chunk, on_error=self._on_error)
        except Error as error:
            # The engine counts rows from the start of the chunk, the caller from the start of the stream.
            text = _ROW.sub(lambda row: f"row {self._seen + int(row[1])}:", str(error))
            raise self._error_with_count(error, text) from error.__cause__
        self._stored += result.rows
        self._commits += result.rows > 0
        self._lsn = result.lsn
        self._rejected_count += len(result.rejected)
        listed = result.rejected[: REJECTED_LISTED_MAX - len(self._rejected)]
        self._rejected += [Rejected(self._seen + each.row, each.reason) for each in listed]
        self._seen += rows
        if self._progress is not None:
            self._progress(self._stored)

    def _error_with_count(self, error: Error, text: str) -> Error:
        """An error of the same class that says how many rows are in."""
        error_with_count = type(error)(f"{text}; {self._stored_text()}")
        error_with_count.rows_loaded = self._stored
        return error_with_count

    def _stored_text(self) -> str:
        return f"{self._stored:,} rows were loaded before the error"


def pieces(stream: Any, schema: pa.Schema, chunk_rows: int) -> Iterator[Any]:
    """Return what ``stream`` gives, as record batches, lists of dicts and frames.

    Raises
    ------
    InvalidTypeError
        If ``stream``, or something it gives, is not data.
    """
    if is_data(stream):
        yield from batches(stream, schema, chunk_rows)
        return
    if not isinstance(stream, Iterable) or isinstance(stream, str | bytes | Mapping):
        raise InvalidTypeError(
            "stream: expected Arrow data (pyarrow, polars, pandas, duckdb, ...), or an iterator of Arrow data or lists "
            f"of dicts, not {described(stream)}"
        )
    for position, item in enumerate(stream):
        if not is_data(item):
            raise InvalidTypeError(
                f"stream: item {position} must be Arrow data or a list of dicts, not {described(item)}"
            )
        yield from batches(item, schema, chunk_rows)


def is_data(data: Any) -> bool:
    """Whether ``data`` is rows, not something that gives them piece by piece."""
    return is_scanner(data) or is_dicts(data) or is_arrow(data)


def is_scanner(data: Any) -> bool:
    """Whether ``data`` is a ``pyarrow.dataset`` scanner or dataset, without importing that module."""
    return type(data).__module__ in ("pyarrow._dataset", "pyarrow.dataset", "drillcore.export.arrow_dataset")


def batches(data: Any, schema: pa.Schema, chunk_rows: int) -> Iterator[Any]:
    """Return rows as record batches, as few of them in memory as their source allows.

    Dicts are returned as they are, and so are frames of objects that do not all fit.
    """
    data = as_rows("stream", data)
    if is_dicts(data) or isinstance(data, pa.RecordBatch):
        yield data
    elif is_pandas(data):
        # A slice at a time: the Arrow form of the whole frame may not fit beside it.
        for first in range(0, len(data), chunk_rows):
            part = data.iloc[first : first + chunk_rows]
            try:
                rows = to_arrow(part, schema).to_batches()
            except Error:
                rows = [part]  # an append finds the rows that do not fit
            yield from rows
    elif isinstance(data, Rows):
        yield from data.batches()
    elif is_scanner(data):
        yield from (data.scanner() if hasattr(data, "scanner") else data).to_batches()
    else:
        # A reader is read as it is: what its Python source raises would be text behind a C stream.
        is_reader = isinstance(data, pa.RecordBatchReader)
        yield from data if is_reader else pa.RecordBatchReader.from_stream(data)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return ``batch`` with strings and dictionaries as plain strings.

    Their size is then that of its own rows, where a slice would share the values of all.
    """
    fields = [each.with_type(plain_type(each.type)) for each in batch.schema]
    if all(new.type == old.type for new, old in zip(fields, batch.schema, strict=True)):
        return batch
    columns = [_plain_column(column, each) for column, each in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _plain_column(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return _plain_array(column, field.type)
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"column {in_quotes(field.name)} cannot be read: {error}") from error


def _plain_array(column: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc

    # Pyarrow casts no dictionaries of lists, and takes none of views, nor lists of such dictionaries.
    if isinstance(column, pa.DictionaryArray):
        return _plain_array(column.dictionary, kind).take(column.indices)
    if pa.types.is_list(kind) and pa.types.is_dictionary(column.type.value_type):
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0))
        offsets = pa.concat_arrays([pa.array([0], ends.type), ends]).cast(pa.int32())
        texts = _plain_array(column.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(offsets, texts, mask=column.is_null())
    return column.cast(kind)


def usual_rows(memory_bytes: int) -> int:
    """Return the rows of a chunk unless the caller chooses, for a database with that budget."""
    return max(1, min(CHUNK_ROWS_MAX, memory_bytes // ROW_BYTES))


def most_bytes(memory_bytes: int) -> int:
    """Return the most bytes of a chunk, for a database with that budget."""
    return min(CHUNK_BYTES_MAX, memory_bytes // CHUNK_SHARE)
