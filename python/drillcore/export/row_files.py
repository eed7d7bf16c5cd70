"""Rows written to files: Parquet, CSV and Arrow. Batch by batch, so memory does not grow with the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

import pyarrow as pa

from drillcore import _native
from drillcore.arguments.names import in_quotes, shown
from drillcore.arrow.arrow_data import NO_ARROW_FORM
from drillcore.arrow.type_names import type_name
from drillcore.errors import Error, InvalidArgumentError
from drillcore.export.whole_file import whole_file

_COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "ipc": ("zstd", "lz4", "none"),
}

_WHOLE_MINUTES_FROM = 64_000_000
"""Seconds since 1970 from which on every clock is off from UTC by whole minutes: behind 7 January 1972."""

_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
"""How a text is compressed, by the end of its name."""

Batches = Callable[[], Iterable[pa.RecordBatch]]
"""Gives the rows; called once the file could be created."""


def check_compression(format: str, compression: Any) -> str | None:
    """Return the name of a compression, or ``None``."""
    names = _COMPRESSIONS[format]
    if compression is None:
        return None
    if compression not in names:
        raise InvalidArgumentError(
            f"compression: expected one of {', '.join(map(repr, names))}, not {shown(compression)}"
        )
    return None if compression == "none" else str(compression)


def packing(path: str | os.PathLike[str]) -> str | None:
    """Return how a text of this name is compressed; ``None`` if it is not.

    Examples
    --------
    >>> packing("x.csv.gz"), packing("x.csv")
    ('gzip', None)
    """
    return _PACKINGS.get(os.path.splitext(os.fsdecode(path))[1])


def write_parquet(target: str, overwrite: bool, schema: pa.Schema, batches: Batches, compression: str | None) -> int:
    """Write Parquet with statistics, in row groups of some hundred thousand rows; return the number of rows."""
    rows = 0
    with _written("Parquet", target, overwrite) as part:
        writer = _native.ParquetWriter(part, schema, compression or "none")
        # Without this, threads would go on to encode what failed.
        with closing(writer):
            for batch in batches():
                writer.write(batch)
                rows += batch.num_rows
            writer.finish()
    return rows


def write_csv(
    target: str,
    overwrite: bool,
    schema: pa.Schema,
    batches: Batches,
    *,
    header: bool,
    delimiter: str,
    packed: str | None,
) -> int:
    """Write CSV, compressed if ``packed`` says how; return the number of rows."""
    from pyarrow import csv

    for field in schema:
        if _has_no_text(field.type):
            raise InvalidArgumentError(
                f"column {in_quotes(field.name)} ({type_name(field.type)}) has no form in CSV; leave it out, or use "
                "to_parquet or to_ipc"
            )

    @contextmanager
    def open_writer(part: str) -> Iterator[Any]:
        options = csv.WriteOptions(include_header=header, delimiter=delimiter)
        with ExitStack() as stack:
            out = part if packed is None else stack.enter_context(pa.CompressedOutputStream(part, packed))
            yield stack.enter_context(closing(csv.CSVWriter(out, schema, write_options=options)))

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in batches():
            _check_offsets(batch)
            yield batch

    return _write("CSV", target, overwrite, checked, open_writer)


def _check_offsets(batch: pa.RecordBatch) -> None:
    """Refuse times that offsets in whole minutes would shift: until 1972 clocks in some zones were off by seconds."""
    import pyarrow.compute as pc

    for field, times in zip(batch.schema, batch.columns, strict=True):
        if not pa.types.is_timestamp(field.type) or field.type.tz is None:
            continue
        second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[field.type.unit]
        earliest = pc.min(times).value
        if earliest is None or earliest >= _WHOLE_MINUTES_FROM * second:
            continue
        off = pc.subtract(pc.local_timestamp(times).cast(pa.int64()), times.cast(pa.int64()))
        minutes = pc.multiply(pc.divide(off, 60 * second), 60 * second)
        if pc.any(pc.not_equal(minutes, off)).as_py():
            raise InvalidArgumentError(
                f"column {in_quotes(field.name)} ({type_name(field.type)}) has times when clocks in its zone were "
                "off from UTC by seconds, for which CSV has no form; use to_parquet, or write a query that "
                "casts the column to UTC"
            )


def write_ipc(target: str, overwrite: bool, schema: pa.Schema, batches: Batches, compression: str | None) -> int:
    """Write an Arrow IPC file, also called Feather; return the number of rows."""

    def open_writer(part: str) -> AbstractContextManager[Any]:
        return closing(pa.ipc.new_file(part, schema, options=pa.ipc.IpcWriteOptions(compression=compression)))

    return _write("Arrow", target, overwrite, batches, open_writer)


def _write(
    format: str,
    target: str,
    overwrite: bool,
    batches: Batches,
    open_writer: Callable[[str], AbstractContextManager[Any]],
) -> int:
    rows = 0
    with _written(format, target, overwrite) as part, open_writer(part) as writer:
        for batch in batches():
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


@contextmanager
def _written(format: str, target: str, overwrite: bool) -> Iterator[str]:
    """Give the name of the file to write, which takes its place at the end; see :func:`whole_file`."""
    with whole_file(target, overwrite) as part:
        try:
            yield part
        except (Error, OSError):
            raise
        except NO_ARROW_FORM as error:
            raise InvalidArgumentError(f"the rows cannot be written as {format}: {error}") from error


def _has_no_text(kind: pa.DataType) -> bool:
    is_a = pa.types
    return is_a.is_nested(kind) or is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind)
