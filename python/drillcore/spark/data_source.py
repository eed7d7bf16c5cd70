"""Drillcore as a data source of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from drillcore.errors import Error, InvalidArgumentError, UnsupportedError
from drillcore.spark.driver import ask, driver
from drillcore.spark.filters import condition
from drillcore.spark.options import NO_CATALOG, ReadOptions, parse_read, parse_write
from drillcore.spark.sampling import Task
from drillcore.spark.spark_types import spark_batch_schema, spark_schema, to_spark
from drillcore.spark.writer import open_writer

LOAD_KEY = "drillcore_load"
"""The key of a field's metadata that holds the name of the load that it belongs to."""


class DrillcoreDataSource(DataSource):  # type: ignore[misc]
    """Databases as tables of Spark, live or sampled, and directories of databases that Spark writes.

    Register it once per session. Each ``load()`` sees its databases at one moment, whatever their writers do. It holds
    them at that moment until :func:`drillcore.spark.release` or the end of the driver's process.

    Options of a read, of which strings, numbers and booleans are given as usual, and ``between`` and ``set`` as JSON:

    ``path``
        The directory of a database, that of a collection, or several of these with commas between them. Databases whose
        table has one schema are read as one table.
    ``table``
        The name of the table.
    ``columns``
        The columns to read, with commas between them or as a JSON list; by default all. Spark 4 does not say which
        columns a query needs.
    ``between``, ``closed``, ``set``, ``where``
        The rows to read; see :class:`drillcore.Table`. ``between`` is ``[low, high]``, ``set`` a name, a list, or
        ``null`` for the rows without a value.
    ``split_rows``
        Rows per task, 1,000,000 by default. Splits depend on the moment and on this number, never on the cluster.
    ``sample``, ``seed``, ``weight``, ``replace``, ``at_most``
        Draw that many random rows, at most 2**31, from the union of the databases; see :meth:`drillcore.Table.sample`.
        All actions see the same rows. Rows come in no particular order.
    ``push_filters``
        Hand on the filters of a query, and show them in the plan of ``explain("formatted")``. Spark 4 keeps one plan
        per ``load()``, so load anew for each query. Needs ``spark.sql.python.filterPushdown.enabled``: without it,
        Spark refuses the query with ``DATA_SOURCE_PUSHDOWN_DISABLED``.

    Options of a write, with ``mode("append")``:

    ``path``
        The directory of a collection, or one that is missing or empty, which becomes a collection.
    ``table``, ``key``, ``set``, ``merge``, ``weights``
        The shape of the table in a new collection; see :meth:`drillcore.Database.create_table`. In one that is there,
        they may be left out.

    Examples
    --------
    >>> spark.dataSource.register(DrillcoreDataSource)  # doctest: +SKIP
    >>> reading = spark.read.format("drillcore").options(path="a.drill,b.drill", table="flights")  # doctest: +SKIP
    >>> flights = reading.load()  # doctest: +SKIP
    """

    _options: ReadOptions | None = None
    _load: str | None = None
    _columns: pa.Schema | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        context = SparkContext._active_spark_context
        if context is not None:
            # Spark asks for the name when it registers the source, and then stores the environment of its workers.
            context.environment.update(driver().environment())
        return "drillcore"

    def schema(self) -> StructType:
        """Return the columns, and fix the moment of the load."""
        with _message_first():
            self._options = parse_read(dict(self.options))
            self._load, serialized = ask("open", self._options)
            self._columns = pa.ipc.read_schema(pa.py_buffer(serialized))
            return spark_schema(self._columns, {LOAD_KEY: self._load})

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what plans and reads."""
        with _message_first():
            if self._load is None or self._options is None or self._columns is None:
                if not self.options:
                    raise UnsupportedError(NO_CATALOG)  # So Spark reads one.
                raise InvalidArgumentError(
                    'a schema was given, and a table has its own: leave out .schema(), and use .option("columns", '
                    '"a, b") to read some columns'
                )
            made = FilteringReader if self._options.push_filters else TableReader
            return made(self._load, self._columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a collection."""
        with _message_first():
            return open_writer(parse_write(dict(self.options)), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what refuses to read a stream."""
        return NoStreamReader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Refuse to write a stream."""
        with _message_first():
            raise UnsupportedError(
                'streams are not written: save each batch with foreachBatch and batch.write.format("drillcore")'
            )


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task, as Spark sends it to a worker."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Plans a load, in a planning worker, and reads its tasks, in workers."""

    def __init__(self, load: str, columns: pa.Schema) -> None:
        self._load = load
        self._columns = columns
        self._filters: list[str] = []

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        with _message_first():
            return [TaskPartition(task) for task in ask("plan", self._load, self._filters)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read a task."""
        if partition is None or partition.value is None:
            return  # Spark has a partition even where there is none; in 4.1 it is None.
        schema = spark_batch_schema(self._columns)
        with _message_first():
            for batch in partition.value.batches():
                yield to_spark(batch, schema)


class FilteringReader(TableReader):
    """A reader that filters, too."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that mean the same in SQL, and return the others."""
        rest = []
        for each in filters:
            pushed = condition(each, self._columns)
            if pushed is None:
                rest.append(each)
            else:
                self._filters.append(pushed)
        return rest


class NoStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Refuses to read a stream. Spark hides what is raised where a reader is made, and not where it begins."""

    def initialOffset(self) -> Any:
        """Refuse to begin."""
        with _message_first():
            raise UnsupportedError("streams are not read: load() a frame with spark.read, again for each newer moment")

    def latestOffset(self, *given: Any) -> Any:
        """Refuse to go on from what a checkpoint has."""
        return self.initialOffset()

    def partitions(self, start: Any, end: Any) -> Any:
        """Refuse to plan."""
        return self.initialOffset()

    def read(self, partition: Any) -> Any:
        """Refuse to read."""
        return self.initialOffset()


@contextmanager
def _message_first() -> Iterator[None]:
    """Have Spark show an error of ours without the lines of code above it."""
    try:
        yield
    except Error:
        # The worker ends with the error, so nothing else sees this.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
