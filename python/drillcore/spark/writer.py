"""Writes a frame into a collection: a database per attempt of a task, and a commit that names those that count."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from drillcore import opening
from drillcore.arguments.names import in_quotes
from drillcore.errors import ClosedError, Error, InvalidArgumentError, UnsupportedError
from drillcore.spark.collection import (
    JOBS,
    Member,
    Shape,
    check_folder,
    is_running,
    read_collection,
    remove_attempt,
)
from drillcore.spark.driver import ask
from drillcore.spark.options import WriteOptions
from drillcore.spark.spark_types import table_schema, to_table


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """What an attempt wrote: its database, from the directory of the collection on; ``None`` if it had no rows."""

    member: Member | None


class CollectionWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes one job: each attempt of a task into a database of its own, which counts once the job is committed."""

    def __init__(self, folder: str, shape: Shape, job: str) -> None:
        self.folder = folder
        self.shape = shape
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task's attempt."""
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return Written(None)
        path = os.path.join(JOBS, self.job, _attempt())
        directory = os.path.join(self.folder, path)
        try:
            os.mkdir(directory)
            rows = self._write(directory, first, batches)
            if not is_running(self.folder, self.job):
                raise ClosedError("the job ended before this attempt of a task did")
        except BaseException as error:
            remove_attempt(self.folder, self.job, directory)
            if isinstance(error, Error):
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise
        return Written(Member(path, rows))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows of the job part of the collection, in one step."""
        members = [each.member for each in messages if isinstance(each, Written) and each.member is not None]
        try:
            ask("commit", self.job, self.shape, members)
        except Error:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise  # Spark aborts the job.

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the job wrote."""
        ask("abort", self.job)

    def _write(self, directory: str, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
        schema = self.shape.schema
        # Nothing reads the rows before they are whole, so they need no log.
        with opening.open(directory, durability="none", threads=1) as db:
            table = self.shape.create(db)
            rows = table.append(to_table(first, schema)).rows
            for batch in rest:
                rows += table.append(to_table(batch, schema)).rows
        return rows


def open_writer(options: WriteOptions, schema: StructType, overwrite: bool) -> CollectionWriter:
    """Return the writer of a job, at the driver.

    Raises
    ------
    InvalidArgumentError
        If the directory is neither a collection nor empty, or the columns or options do not fit.
    UnsupportedError
        If the mode is not ``append``.
    """
    if overwrite:
        raise UnsupportedError('only mode("append") is supported: to replace a collection, write to another directory')
    if "://" in options.path:
        raise UnsupportedError(
            f"path: {in_quotes(options.path)} is not on a file system; collections are written to directories"
        )
    # The driver's process may have gone to another directory since Spark began.
    folder = ask("absolute", options.path)
    collection = read_collection(folder)
    if collection is None:
        check_folder(folder)
        shape = _new_shape(options, table_schema(schema))
        _try(shape)
        return _begun(folder, shape)
    shape = collection.shape
    given = Shape(
        options.table if options.table is not None else shape.table,
        table_schema(schema, shape.schema),
        options.key if options.key is not None else shape.key,
        options.set if options.set is not None else shape.set,
        options.merge if options.merge is not None else shape.merge,
        options.weights if options.weights is not None else shape.weights,
    )
    if (difference := shape.difference(given)) is not None:
        raise InvalidArgumentError(f"the frame does not fit the collection {in_quotes(folder)}: {difference}")
    return _begun(folder, shape)


def _begun(folder: str, shape: Shape) -> CollectionWriter:
    folder, job = ask("begin", folder)
    return CollectionWriter(folder, shape, job)


def _new_shape(options: WriteOptions, columns: pa.Schema) -> Shape:
    if options.table is None or options.key is None:
        missing = "table" if options.table is None else "key"
        raise InvalidArgumentError(
            f'{missing} is missing: a new collection needs .option("table", ...) and .option("key", "a, b")'
        )
    return Shape(options.table, columns, options.key, options.set, options.merge or "append", options.weights or [])


def _try(shape: Shape) -> None:
    """Have the engine refuse a shape now, and not in each task."""
    with opening.open(":memory:") as db:
        shape.create(db)


def _attempt() -> str:
    """The name of an attempt's database, which no other attempt has."""
    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    return f"part-{part:05}-{secrets.token_hex(6)}.drill"
