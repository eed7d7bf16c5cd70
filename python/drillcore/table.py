"""A live table."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.data import AppendResult, DeleteResult, Discovery, Needed, Rejected, is_dicts, split_bad_dicts, to_arrow
from drillcore.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from drillcore.figures import check_optional_count
from drillcore.load import Loader, LoadResult, most_bytes, usual_rows
from drillcore.names import listed, shown
from drillcore.reads import Reads
from drillcore.schema import parse_type
from drillcore.values import key_columns, many_keys, set_values

if TYPE_CHECKING:
    from drillcore import _native


class Table(Reads):
    """A table of an open database; see :class:`~drillcore.reads.Reads` for reading.

    Any number of threads may write and read at once. Each read sees one snapshot, taken when it is called; with
    ``read_only=True``, that of the last :meth:`~drillcore.database.Database.refresh`.
    """

    def __init__(self, native: _native.Table, database: _native.Database) -> None:
        self._native = native
        self._database = database
        self._schemas = _schemas(native)

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._native.name

    @property
    def schema(self) -> pa.Schema:
        return self._newest_schemas()[0]

    @property
    def key(self) -> list[str]:
        return self._native.key

    @property
    def merge(self) -> str:
        """What equal keys mean: ``"append"``, ``"upsert"`` or ``"rollup"``."""
        return self._native.merge

    @property
    def weights(self) -> list[str]:
        """The columns that rows can be drawn by."""
        return self._native.weights

    @property
    def append_schema(self) -> pa.Schema:
        """The columns of appended rows: those of :attr:`schema`, in a rollup table those of the events.

        Examples
        --------
        >>> schema = {"at": "timestamp[s]", "host": "string", "load": "float64"}
        >>> rollup = {"time": "at", "granularity": "hour", "metrics": {"n": "count", "load": "sum(load)"}}
        >>> db = drillcore.open(":memory:")
        >>> hourly = db.create_table("hourly", schema, key=["at", "host"], merge="rollup", rollup=rollup)
        >>> hourly.append_schema.names, hourly.schema.names
        (['at', 'host', 'load'], ['at', 'host', 'n', 'load'])
        """
        return self._newest_schemas()[1]

    def add_column(self, name: str, type: Any) -> None:
        """Add a column behind the others, while others append and read.

        It takes nulls and is a value: neither key, nor set, nor weight. In a rollup table it is a dimension, the
        last of the key. Rows appended before, and data without the column, are null there. Snapshots taken before
        do not show it. No row is touched, so it takes as long for ten rows as for ten billion.

        Parameters
        ----------
        name
            Its name.
        type
            A type name, as in :meth:`~drillcore.database.Database.create_table`, or a ``pyarrow.DataType``.

        Raises
        ------
        AlreadyExistsError
            If the table has a column of that name.
        InvalidArgumentError
            If no column can have that type, or in a rollup table if a metric reads the column.
        ReadOnlyError
            With ``read_only=True``; such a table has the column from the next refresh on.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("flights", {"flight": "int64"}, key="flight")
        >>> t.append([{"flight": 1}]).rows
        1
        >>> t.add_column("gate", "string")
        >>> t.append([{"flight": 5, "gate": "B7"}]).rows
        1
        >>> t.get(1), t.get(5)
        ({'flight': 1, 'gate': None}, {'flight': 5, 'gate': 'B7'})
        """
        self._native.add_column(name, parse_type(name, type))

    def index_sets(self, *names: Any, wait: bool = False) -> None:
        """Index some sets, while others append and read.

        An index makes the rows of a set cost what the set costs; without one, a read takes a pass over the set
        column. Answers are the same, also the same seed's samples. Rows appended from now on are indexed as they are
        written. For older ones the lists are written in the background, and no row is; ``t.stats()["indexed_sets"]``
        tells how many rows are left. A restart goes on with it.

        Parameters
        ----------
        names
            Sets, also such as no row has yet; ``drillcore.NULL`` is the rows without a value.
        wait
            Whether to return only when nothing is left. Can be interrupted; the work goes on.

        Raises
        ------
        InvalidArgumentError
            If the table has no set column, or a name is none of its values.
        ReadOnlyError
            With ``read_only=True``; such a table uses the lists from the next refresh on.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("visits", {"at": "int64", "page": "string"}, key="at", set="page", set_index=False)
        >>> t.append([{"at": 1, "page": "home"}, {"at": 2, "page": "help"}]).rows
        2
        >>> t.index_sets("help", wait=True)
        >>> t.stats()["indexed_sets"]
        {'all': False, 'exceptions': 1, 'rows_to_index': 0, 'fault': None}
        >>> t.count(set="help"), t.count(set="home")
        (1, 1)
        """
        self._native.index_sets(self._named_sets("index_sets", names))
        if wait:
            self._native.wait_for_set_index()

    def index_all_sets(self, *, wait: bool = False) -> None:
        """Index all sets, also those that come up later; see :meth:`index_sets`.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("visits", {"at": "int64", "page": "string"}, key="at", set="page")
        >>> t.append([{"at": 1, "page": "home"}, {"at": 2, "page": "help"}]).rows
        2
        >>> t.unindex_all_sets()
        >>> list(t.sets())
        [('help', 1), ('home', 1)]
        >>> t.index_all_sets(wait=True)
        """
        self._native.index_sets(None)
        if wait:
            self._native.wait_for_set_index()

    def unindex_sets(self, *names: Any) -> None:
        """Index some sets no more: appends and background work save the cost from now on.

        What is listed already is used until it is merged away.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("visits", {"at": "int64", "page": "string"}, key="at", set="page")
        >>> t.append([{"at": 1, "page": "home"}, {"at": 2, "page": "help"}]).rows
        2
        >>> t.unindex_sets("home")
        >>> t.count(set="home"), t.stats()["indexed_sets"]
        (1, {'all': True, 'exceptions': 1, 'rows_to_index': 0, 'fault': None})
        """
        self._native.unindex_sets(self._named_sets("unindex_sets", names))

    def unindex_all_sets(self) -> None:
        """Index no set any more; see :meth:`unindex_sets`."""
        self._native.unindex_sets(None)

    def _named_sets(self, call: str, names: tuple[Any, ...]) -> pa.Array:
        if not names:
            every = call.replace("_set", "_all_sets")
            raise InvalidArgumentError(f"{call}: name at least one set; {every}() is for all of them")
        return set_values(list(names), self.schema, self._native.set)

    def append(self, data: Any, *, on_error: str = "raise", fill_nulls: bool = False) -> AppendResult:
        """Append rows as one commit: later snapshots see all of them, earlier ones none.

        Columns are matched by name and cast to the table's types where no value changes; a nullable column
        that is missing reads as null. In an upsert table a row replaces the whole row of its key, so there the rows
        have every column that the table was made with, unless ``fill_nulls`` is set. Columns added later may be
        missing, so that programs which append need not change first.

        Parameters
        ----------
        data
            Arrow data (pyarrow, polars, pandas, duckdb, ...) or a list of dicts. A dict may lack columns that take
            nulls, but not those of the key: ``None`` stands for null. Of a rollup table's key, it may lack dimensions
            that were discovered or added.
        on_error
            ``"raise"`` appends everything or nothing. ``"skip"`` appends the rows that fit and reports the
            others; of dicts also those with a column that the table does not have, or without one that an upsert
            needs. Where dicts give a new dimension values of several types, the first decides which of them fit.
        fill_nulls
            Whether columns that rows of an upsert table lack become null. In other tables they do so anyway.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, NotFoundError
            If a row or a column does not fit, with ``on_error="raise"``; nothing is stored then.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", {"flight": "int64", "delay": "float64"}, key="flight")
        >>> t.append([{"flight": 5, "delay": 0.5}]).rows
        1
        >>> result = t.append([{"flight": 6}, {"flight": "x"}], on_error="skip")
        >>> result.rows, result.rejected[0].row
        (1, 1)

        An upsert replaces whole rows:

        >>> planes = db.create_table("planes", {"tail": "string", "seats": "int64"}, key="tail", merge="upsert")
        >>> planes.append([{"tail": "N1", "seats": 50}]).rows
        1
        >>> planes.append([{"tail": "N1"}])
        Traceback (most recent call last):
        ...
        drillcore.errors.InvalidArgumentError: the batch lacks column "seats", which an upsert would set to null; ...
        >>> planes.append([{"tail": "N1"}], fill_nulls=True).rows, planes.get("N1")
        (1, {'tail': 'N1', 'seats': None})
        """
        skip = check_on_error(on_error) == "skip"
        fill_nulls = bool(fill_nulls)
        try:
            arrow = self._to_arrow(data, fill_nulls)
            rows, rejected, lsn = self._native.append(arrow, skip, fill_nulls)
        except (InvalidArgumentError, InvalidTypeError, NotFoundError):
            if not skip or not is_dicts(data):
                raise
            return self._append_good(data, fill_nulls)
        return AppendResult(rows, [Rejected(row, reason) for row, reason in rejected], lsn)

    def load(
        self,
        stream: Any,
        *,
        commit_rows: int | None = None,
        on_error: str = "raise",
        fill_nulls: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> LoadResult:
        """Load a stream of any size: rows are committed chunk by chunk, and only one chunk is held in memory.

        An error, and an interrupt, leave the chunks before in: unlike :meth:`append`, a load is not one commit. The
        chunk that is being committed when an interrupt comes is in as a whole, or not at all.

        Parameters
        ----------
        stream
            Arrow data (a ``RecordBatchReader``, a dataset or its scanner, pyarrow, polars, pandas, duckdb, ...),
            a list of dicts, or an iterator of any of these.
        commit_rows
            Rows a commit; by default 65,536, fewer where ``memory_bytes`` is below 512 MiB. Wide rows are committed
            sooner, so that a chunk stays small beside the memory budget.
        on_error
            ``"raise"`` ends the load at the first row that does not fit. ``"skip"`` leaves such rows out and
            reports them.
        fill_nulls
            As :meth:`append` takes it.
        progress
            Called after each commit with the rows stored so far.

        Raises
        ------
        InvalidArgumentError
            If a row or a column does not fit, with ``on_error="raise"``. Like every Drillcore error raised here,
            it says how many rows are in, and has them as ``rows_loaded``.
        LoadError
            If the stream itself fails.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("flights", {"flight": "int64"}, key="flight")
        >>> batches = (pa.table({"flight": range(i, i + 500)}) for i in (0, 500, 1000))
        >>> result = t.load(batches, commit_rows=1000)
        >>> result.rows, result.commits
        (1500, 2)
        """
        check_on_error(on_error)
        budget_bytes = self._native.load_budget_bytes()
        commit_rows = check_optional_count("commit_rows", commit_rows)
        if commit_rows is None:
            commit_rows = usual_rows(budget_bytes)
        elif commit_rows == 0:
            raise InvalidArgumentError("commit_rows: a commit has at least one row, not 0")
        if progress is not None and not callable(progress):
            raise InvalidTypeError(f"progress: expected a function of the rows so far, not {shown(progress)}")
        loader = Loader(
            partial(self.append, fill_nulls=fill_nulls),
            self.append_schema,
            chunk_rows=commit_rows,
            chunk_bytes=most_bytes(budget_bytes),
            on_error=on_error,
            progress=progress,
        )
        return loader.load(stream, lambda: self._pin().lsn)

    def delete(self, keys: Any) -> DeleteResult:
        """Delete the rows with the keys, as one commit; a key without a row is no error. Upsert tables only.

        Parameters
        ----------
        keys
            As :meth:`get_many` takes them: tuples with one value per key column (plain values for a key of one
            column), or Arrow data with the key columns.

        Raises
        ------
        InvalidArgumentError
            If the table is not of ``merge="upsert"``, or a key does not fit.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> planes = db.create_table("planes", {"tail": "string", "seats": "int64"}, key="tail", merge="upsert")
        >>> planes.append([{"tail": "N1", "seats": 50}, {"tail": "N2", "seats": 150}]).rows
        2
        >>> planes.delete(["N1", "N9"]).keys
        2
        >>> len(planes), planes.get("N1")
        (1, None)
        """
        if self.merge != "upsert":
            raise InvalidArgumentError(
                f"table {self.name!r} has merge={self.merge!r} and keeps what was appended; "
                'only tables made with merge="upsert" delete'
            )
        arrays = many_keys(keys, key_columns(self.schema, self.key))
        return DeleteResult(len(arrays[0]), self._native.delete(arrays))

    def stats(self) -> dict[str, Any]:
        """Return figures about this table: its entry in :meth:`Database.stats <drillcore.database.Database.stats>`.

        Raises
        ------
        NotFoundError
            If the table was dropped.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("flights", {"flight": "int64"}, key="flight")
        >>> t.append([{"flight": 1}, {"flight": 2}]).rows
        2
        >>> t.stats()["name"], t.stats()["rows"]
        ('flights', 2)
        """
        self._pin()  # which fails if this table was dropped, another of its name made since or not
        for stats in json.loads(self._database.stats())["tables"]:
            if stats["name"] == self.name:
                return stats
        raise NotFoundError(f'table "{self.name}" was dropped')

    def __repr__(self) -> str:
        merge = "" if self.merge == "append" else f", merge={self.merge!r}"
        weights = f", weights={self.weights}" if self.weights else ""
        sets = f", set={self._set_column!r}" if self._set_column else ""
        columns = listed([f"{field.name}: {field.type}" for field in self.schema])
        return f"<Table {self.name!r}: key={self.key}{sets}{weights}{merge}; {columns}>"

    def _append_good(self, data: Any, fill_nulls: bool) -> AppendResult:
        """Append the dicts that convert; the engine judges the rest of what makes a row fit."""
        discovery = Discovery(self.schema.names) if self._native.discovers else None
        good, bad, schema = split_bad_dicts(data, self.append_schema, self._needed(fill_nulls), discovery)
        arrow = to_arrow([data[position] for position in good], schema)
        rows, rejected, lsn = self._native.append(arrow, True, fill_nulls)
        bad += [Rejected(good[row], reason) for row, reason in rejected]
        return AppendResult(rows, sorted(bad, key=lambda each: each.row), lsn)

    def _to_arrow(self, data: Any, fill_nulls: bool) -> Any:
        return to_arrow(data, self.append_schema, self._needed(fill_nulls))

    def _needed(self, fill_nulls: bool) -> Needed:
        return Needed(self._native.required, () if fill_nulls else self._native.whole_row)

    @property
    def _set_column(self) -> str | None:
        return self._native.set

    def _pin(self) -> _native.TableSnapshot:
        return self._native.snapshot()

    def _newest_schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """Return the columns of the table and of appended rows, converted once for each added column."""
        if len(self._schemas[0]) != self._native.column_count:
            self._schemas = _schemas(self._native)
        return self._schemas


def _schemas(native: _native.Table) -> tuple[pa.Schema, pa.Schema]:
    return pa.schema(native.schema), pa.schema(native.append_schema)


def check_on_error(on_error: Any) -> str:
    """Return ``on_error`` if it is one of its values."""
    if on_error not in ("raise", "skip"):
        raise InvalidArgumentError(f'on_error: expected "raise" or "skip", not {shown(on_error)}')
    return on_error
