"""Rows written to files: Parquet, CSV and Arrow. Batch by batch, so memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from drillcore.arrow_data import NO_ARROW_FORM
from drillcore.errors import Error, InvalidArgumentError
from drillcore.names import shown
from drillcore.whole_file import whole_file

_ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 128 << 20
_COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "ipc": ("zstd", "lz4", "none"),
}

Batches = Callable[[], Iterable[pa.RecordBatch]]
"""Gives the rows; called once the file could be created."""


def check_compression(format: str, compression: Any) -> str | None:
    """Return the name of a compression as pyarrow takes it."""
    names = _COMPRESSIONS[format]
    if compression is None:
        return None
    if compression not in names:
        raise InvalidArgumentError(
            f"compression: expected one of {', '.join(map(repr, names))}, not {shown(compression)}"
        )
    return None if compression == "none" else str(compression)


def write_parquet(target: str, overwrite: bool, schema: pa.Schema, batches: Batches, compression: str | None) -> int:
    """Write Parquet with statistics, in row groups of some hundred thousand rows; return the number of rows."""
    from pyarrow import parquet

    def open_writer(part: str) -> Any:
        return parquet.ParquetWriter(part, schema, compression=compression or "none", write_statistics=True)

    def write(writer: Any, batch: pa.RecordBatch) -> None:
        writer.write_batch(batch, row_group_size=_ROW_GROUP_ROWS)

    def grouped() -> Iterator[pa.RecordBatch]:
        return _gathered(batches())

    return _write("Parquet", target, overwrite, grouped, open_writer, write)


def write_csv(target: str, overwrite: bool, schema: pa.Schema, batches: Batches, header: bool, delimiter: str) -> int:
    """Write CSV; return the number of rows."""
    from pyarrow import csv

    for field in schema:
        if _has_no_text(field.type):
            raise InvalidArgumentError(
                f"column {field.name!r} ({field.type}) has no form in CSV; leave it out, or use to_parquet or to_ipc"
            )

    def open_writer(part: str) -> Any:
        options = csv.WriteOptions(include_header=header, delimiter=delimiter)
        return csv.CSVWriter(part, schema, write_options=options)

    return _write("CSV", target, overwrite, batches, open_writer, lambda writer, batch: writer.write_batch(batch))


def write_ipc(target: str, overwrite: bool, schema: pa.Schema, batches: Batches, compression: str | None) -> int:
    """Write an Arrow IPC file, also called Feather; return the number of rows."""

    def open_writer(part: str) -> Any:
        return pa.ipc.new_file(part, schema, options=pa.ipc.IpcWriteOptions(compression=compression))

    return _write("Arrow", target, overwrite, batches, open_writer, lambda writer, batch: writer.write_batch(batch))


def _write(
    format: str,
    target: str,
    overwrite: bool,
    batches: Batches,
    open_writer: Callable[[str], Any],
    write: Callable[[Any, pa.RecordBatch], None],
) -> int:
    rows = 0
    with whole_file(target, overwrite) as part:
        try:
            with closing(open_writer(part)) as writer:
                for batch in batches():
                    write(writer, batch)
                    rows += batch.num_rows
        except (Error, OSError):
            raise
        except NO_ARROW_FORM as error:
            raise InvalidArgumentError(f"the rows cannot be written as {format}: {error}") from error
    return rows


def _has_no_text(kind: pa.DataType) -> bool:
    is_a = pa.types
    return is_a.is_nested(kind) or is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches until they make a row group, so that groups are large enough to compress and to skip."""
    held: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        held.append(batch)
        rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if rows >= _ROW_GROUP_ROWS or nbytes >= _ROW_GROUP_BYTES:
            yield from _joined(held)
            held, rows, nbytes = [], 0, 0
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) < 2:
        return iter(batches)
    return iter(pa.Table.from_batches(batches).combine_chunks().to_batches())
