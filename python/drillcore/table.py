"""A live table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.altering import Altering
from drillcore.arguments.duration import duration_text
from drillcore.arguments.figures import check_optional_count
from drillcore.arguments.names import in_quotes, listed, shown
from drillcore.arrow.arrow_data import is_pandas
from drillcore.arrow.type_names import type_name
from drillcore.data import (
    AppendResult,
    DeleteResult,
    Discovery,
    Needed,
    Rejected,
    UpdateResult,
    is_dicts,
    split_bad_dicts,
    split_bad_rows,
    to_arrow,
)
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError, NotFoundError
from drillcore.load import Loader, LoadResult, most_bytes, usual_rows
from drillcore.reads import Reads
from drillcore.showing.notebook import escaped
from drillcore.showing.overview import columns_html, table_caption
from drillcore.showing.progress import check_progress, rows_shown
from drillcore.table_writer import TableWriter
from drillcore.update import MISSING, keys_with_values, rows_to_update, values_to_set
from drillcore.values import Bounds, many_keys

if TYPE_CHECKING:
    from drillcore import _native


class Table(Altering, Reads):
    """A table of an open database; see :class:`~drillcore.reads.Reads` for reading.

    Any number of threads can write and read at once. Each read uses a snapshot taken at the call; with
    ``read_only=True``, the snapshot of the last :meth:`~drillcore.database.Database.refresh`.
    """

    def __init__(self, native: _native.Table, database: _native.Database) -> None:
        self._native = native
        self._database = database
        self._schemas = (native.schema_version, _schemas(native))

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
        """The merge policy: ``"append"``, ``"upsert"`` or ``"rollup"``."""
        return self._native.merge

    @property
    def weights(self) -> list[str]:
        """The columns that samples can be weighted by."""
        return self._native.weights

    @property
    def append_schema(self) -> pa.Schema:
        """The columns of appended rows: those of :attr:`schema`, or in a rollup table, those of the events.

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

    def append(self, data: Any, *, on_error: str = "raise", fill_nulls: bool = False) -> AppendResult:
        """Append rows as one commit: later snapshots show all of them, earlier ones none.

        Columns are matched by name and cast to the table's types if no value changes. A missing nullable column is
        null. In an upsert table, a row replaces the whole row of its key, so it must have every column that the table
        was created with, unless ``fill_nulls`` is set. Columns that were added later may be missing.

        Parameters
        ----------
        data
            Arrow data (pyarrow, polars, pandas, duckdb, ...) or a list of dicts. A dict may lack nullable columns, but
            not key columns: use ``None`` for null. In a rollup table, it may lack dimensions that were discovered or
            added. In a pandas frame, NaN is null, too; its columns of Python objects are taken as values of dicts are.
        on_error
            ``"raise"`` appends everything or nothing. ``"skip"`` appends the rows that fit and reports the others,
            including dicts with an unknown column or without one that an upsert needs. If dicts have values of
            several types for a new dimension, the first value decides the type.
        fill_nulls
            Whether to store null in columns that rows of an upsert table lack. Other tables always do. Weights cannot
            be null, nor can columns that are not nullable: rows must have them, a weight as 0 if it is not to be drawn.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, NotFoundError
            With ``on_error="raise"``, if a row or a column does not fit. Nothing is stored.

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
        drillcore.errors.InvalidArgumentError: the batch lacks column "seats"; an upsert replaces the whole row, so ...
        >>> planes.append([{"tail": "N1"}], fill_nulls=True).rows, planes.get("N1")
        (1, {'tail': 'N1', 'seats': None})
        """
        skip = check_on_error(on_error) == "skip"
        fill_nulls = bool(fill_nulls)
        try:
            # Of one dict of plain values, the engine makes a row itself.
            appended = self._native.append_plain(data, skip, fill_nulls)
            if appended is None:
                appended = self._native.append(self._to_arrow(data, fill_nulls), skip, fill_nulls)
        except (InvalidArgumentError, InvalidTypeError, NotFoundError):
            if not skip or not (is_dicts(data) or is_pandas(data)):
                raise
            return self._append_good(data, fill_nulls)
        rows, rejected, lsn = appended
        return AppendResult(rows, [Rejected(row, reason) for row, reason in rejected], lsn)

    def load(
        self,
        stream: Any,
        *,
        commit_rows: int | None = None,
        on_error: str = "raise",
        fill_nulls: bool = False,
        progress: Callable[[int], object] | bool | None = None,
    ) -> LoadResult:
        """Load a stream of any size. Rows are committed in chunks, and memory holds one chunk at a time.

        Unlike :meth:`append`, a load is not one commit: after an error or an interrupt, earlier chunks remain. Each
        chunk is stored completely or not at all.

        Parameters
        ----------
        stream
            Arrow data (a ``RecordBatchReader``, a dataset or its scanner, pyarrow, polars, pandas, duckdb, ...),
            a list of dicts, or an iterator of any of these.
        commit_rows
            Maximum rows per commit; by default 65,536, or fewer if ``memory_bytes`` is below 512 MiB. Chunks of long
            rows are smaller, to stay well below the memory budget.
        on_error
            ``"raise"`` stops the load at the first row that does not fit. ``"skip"`` leaves such rows out and
            reports them.
        fill_nulls
            As for :meth:`append`.
        progress
            ``True`` shows in a terminal or notebook how many rows are stored. Otherwise a function to call after each
            commit, with the number of rows stored so far.

        Raises
        ------
        InvalidArgumentError
            With ``on_error="raise"``, if a row or a column does not fit. Like every Drillcore error of this method, it
            has the number of rows stored before it as ``rows_loaded``.
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
            raise InvalidArgumentError("commit_rows: expected a number of at least 1, not 0")
        with rows_shown(f"load {self.name}", check_progress(progress)) as report:
            loader = Loader(
                partial(self.append, fill_nulls=fill_nulls),
                self.append_schema,
                chunk_rows=commit_rows,
                chunk_bytes=most_bytes(budget_bytes),
                on_error=on_error,
                progress=report,
            )
            return loader.load(stream, lambda: self._pin().lsn)

    def writer(
        self,
        *,
        rows: int = 8_192,
        seconds: float = 0.1,
        bytes: int | None = None,
        on_error: str = "raise",
        fill_nulls: bool = False,
    ) -> TableWriter:
        """Return a writer that collects single rows or batches and commits them in the background.

        Parameters
        ----------
        rows
            Maximum rows per commit, unless one ``add`` has more.
        seconds
            How long a row waits at most before its commit begins, unless an earlier commit is still under way.
        bytes
            Maximum bytes per commit, as Arrow counts them; by default a 32nd of ``memory_bytes``, up to 32 MiB.
        on_error
            ``"raise"`` raises an error for a row that does not fit: at its ``add`` if that can be known at once, else
            at the next call. ``"skip"`` leaves such rows out and reports them in the result of ``close``. The other
            rows are stored either way.
        fill_nulls
            As for :meth:`append`.

        Examples
        --------
        See :class:`~drillcore.table_writer.TableWriter`.
        """
        return TableWriter(self, rows=rows, seconds=seconds, bytes=bytes, on_error=on_error, fill_nulls=fill_nulls)

    def delete(
        self,
        keys: Any = None,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
    ) -> DeleteResult:
        """Delete rows as one commit: those with some keys, or all that a selection takes.

        The delete takes what is committed before it. Snapshots taken before still show the rows, and later rows with
        the same keys are new. Nothing is rewritten at once: files shrink as segments are merged, and ``erased_rows`` of
        :meth:`stats` counts the rows that are left to reclaim.

        Parameters
        ----------
        keys
            As for :meth:`get_many`: tuples with one value per key column (plain values for a key of one column), or
            Arrow data with the key columns. Keys without a row are ignored. Only for upsert tables.
        between, closed, set, where
            Which rows; see :class:`~drillcore.reads.Reads`. A row for which the condition is unknown stays. In a rollup
            table, the condition can use dimensions and time only; later events with the same key start a new row. A key
            range takes the time to find its ends; any other selection takes the time to read its columns.

        Raises
        ------
        InvalidArgumentError
            If there is neither a key nor a selection (:meth:`truncate` deletes all rows), or both; if keys are given
            and the table does not have ``merge="upsert"``; or if a key does not fit.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> planes = db.create_table("planes", {"tail": "string", "seats": "int64"}, key="tail", merge="upsert")
        >>> planes.append([{"tail": f"N{i}", "seats": 50 * i} for i in range(1, 9)]).rows
        8
        >>> planes.delete(["N1", "N9"]).rows
        1
        >>> planes.delete(where="seats > 300").rows
        2
        >>> planes.delete(between=("N2", "N3")).rows
        2
        >>> len(planes), planes.get("N1")
        (3, None)
        """
        selects = not (between is None and set is None and where is None)
        if keys is not None:
            if selects:
                raise InvalidArgumentError("delete takes keys, or between, set and where, not both; call it twice")
            if self.merge != "upsert":
                raise InvalidArgumentError(
                    f"table {in_quotes(self.name)} has merge={in_quotes(self.merge)}, which cannot delete rows by "
                    "their keys; give between, set or where"
                )
            return DeleteResult(*self._native.delete(many_keys(keys, self._key_columns())))
        if not selects:
            raise InvalidArgumentError("delete needs keys, between, set or where; to delete all rows, call truncate()")
        asked = self._selection(between, closed, set, where)
        return DeleteResult(*self._native.delete_selected(asked))

    def truncate(self) -> DeleteResult:
        """Delete all rows as one commit; see :meth:`delete`.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("flights", {"flight": "int64"}, key="flight")
        >>> t.append([{"flight": 1}, {"flight": 2}]).rows
        2
        >>> t.truncate().rows, len(t)
        (2, 0)
        """
        return DeleteResult(*self._native.truncate())

    def update(
        self,
        rows: Any = None,
        *,
        set: Mapping[str, Any] | None = None,
        keys: Any = None,
        where: str | None = None,
        between: Bounds | None = None,
        closed: str = "both",
        missing: str = "error",
    ) -> UpdateResult:
        """Change some columns of rows of an upsert table, as one commit.

        Either ``rows`` say what changes in each, or ``set`` gives the same values to the rows with some keys, or to all
        that a selection takes. Other writers of the table wait while the rows are read, so no change is lost: of two
        updates of different columns of one row, both stay.

        Parameters
        ----------
        rows
            Dicts or Arrow data with the key columns and the columns to change. Dicts need not have the same columns.
            Of rows with the same key, later ones are applied after earlier ones.
        set
            Columns and their new values, for the rows that ``keys``, ``where`` or ``between`` select.
        keys
            As for :meth:`get_many`.
        where, between, closed
            Which rows; see :class:`~drillcore.reads.Reads`.
        missing
            What to do with a key that has no row: ``"error"`` changes nothing and raises, ``"skip"`` ignores it, and
            ``"insert"`` inserts a row that is null in the other columns.

        Raises
        ------
        InvalidArgumentError
            If the table does not have ``merge="upsert"``, if a value does not fit, if ``set`` names a key column, or if
            it is unclear what to update.
        NotFoundError
            With ``missing="error"``, if a key has no row. Nothing was changed.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> tasks = db.create_table("tasks", {"id": "int64", "prio": "int64", "by": "string"}, key="id", merge="upsert")
        >>> tasks.append([{"id": i, "prio": i, "by": "me"} for i in range(4)]).rows
        4
        >>> tasks.update([{"id": 1, "prio": 9}, {"id": 2, "by": "you"}]).rows
        2
        >>> tasks.update(set={"prio": 0}, where="by = 'me' and prio < 9").rows
        2
        >>> tasks.get(1), tasks.get(2), tasks.get(3)
        ({'id': 1, 'prio': 9, 'by': 'me'}, {'id': 2, 'prio': 2, 'by': 'you'}, {'id': 3, 'prio': 0, 'by': 'me'})
        """
        if missing not in MISSING:
            raise InvalidArgumentError(
                f"missing: expected {listed([repr(way) for way in MISSING])}, not {shown(missing)}"
            )
        selects = not (between is None and where is None)
        if (rows is None) == (set is None) or (rows is not None and (keys is not None or selects)):
            raise InvalidArgumentError(
                "update takes rows with their keys and new values, or set= with keys=, where= or between="
            )
        if rows is not None:
            return self._update(rows_to_update(rows, self.schema, self.key), missing)
        if (keys is None) != selects:
            raise InvalidArgumentError("update with set= takes either keys=, or where= or between=")
        values = values_to_set(set, self.schema)
        if keys is None:
            return UpdateResult(*self._native.update_selected(self._selection(between, closed, None, where), values))
        if names := [name for name in values.schema.names if name in self.key]:
            raise InvalidArgumentError(
                f"set: {in_quotes(names[0])} is a key column, and updates cannot change keys; delete the row and "
                "append it with the new key"
            )
        arrays = many_keys(keys, self._key_columns())
        return self._update([keys_with_values(arrays, self.key, values)], missing)

    def _update(self, batches: list[Any], missing: str) -> UpdateResult:
        try:
            return UpdateResult(*self._native.update(batches, missing))
        except NotFoundError as error:
            hint = ' (missing="skip" or "insert")' if "no row has the key" in str(error) else ""
            raise NotFoundError(f"{error}{hint}") from None

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
        raise NotFoundError(f"table {in_quotes(self.name)} was dropped; create it again, or use another table")

    def __repr__(self) -> str:
        if self._is_gone():
            return f"<Table {self.name!r}, dropped>"
        merge = "" if self.merge == "append" else f", merge={self.merge!r}"
        weights = f", weights={self.weights}" if self.weights else ""
        ttl = f", ttl=({self.ttl[0]!r}, {duration_text(self.ttl[1])!r})" if self.ttl else ""
        sets = f", set={self._set_column!r}" if self._set_column else ""
        columns = listed([f"{field.name}: {type_name(field.type)}" for field in self.schema])
        return f"<Table {self.name!r}: key={self.key}{sets}{weights}{ttl}{merge}; {columns}>"

    def _repr_html_(self) -> str:
        if self._is_gone():
            return f"<p>Table {escaped(repr(self.name))}, dropped</p>"
        try:
            stats: dict[str, Any] | None = self.stats()
        except Error:
            stats = None  # The database is closed.
        caption = table_caption(self.name, self.merge, stats)
        return columns_html(caption, self.schema, self.key, self._set_column, self.weights)

    def _is_gone(self) -> bool:
        """Whether the table was dropped, so that what is remembered of it says nothing."""
        try:
            self._native.snapshot()
        except NotFoundError:
            return True
        except Error:
            # Of a database that is closed, the table is what it was.
            pass
        return False

    def _append_good(self, data: Any, fill_nulls: bool) -> AppendResult:
        """Append the rows that convert; the engine judges the rest of what makes a row fit."""
        if is_pandas(data):
            good, bad = split_bad_rows(data, self.append_schema)
            arrow = self._to_arrow(data.iloc[good], fill_nulls)
        else:
            discovery = Discovery(self.schema.names) if self._native.discovers else None
            good, bad, schema = split_bad_dicts(data, self.append_schema, self._needed(fill_nulls), discovery)
            arrow = to_arrow([data[position] for position in good], schema)
        rows, rejected, lsn = self._native.append(arrow, True, fill_nulls)
        bad += [Rejected(good[row], reason) for row, reason in rejected]
        return AppendResult(rows, sorted(bad, key=lambda each: each.row), lsn)

    def _to_arrow(self, data: Any, fill_nulls: bool) -> Any:
        return to_arrow(data, self.append_schema, self._needed(fill_nulls))

    def _needed(self, fill_nulls: bool) -> Needed:
        never_null, weights = self._native.never_null, self._native.weights
        not_nullable = [name for name in never_null if name not in weights]
        return Needed(self._native.required, weights, not_nullable, () if fill_nulls else self._native.whole_row)

    @property
    def _set_column(self) -> str | None:
        return self._native.set

    def _pin(self) -> _native.TableSnapshot:
        return self._native.snapshot()

    def _renew(self) -> None:
        if self._database.read_only:
            self._database.refresh(0, 0.0)

    def _newest_schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """Return the columns of the table and of appended rows, converted once for each change of columns."""
        version = self._native.schema_version
        if self._schemas[0] != version:
            self._schemas = (version, _schemas(self._native))
        return self._schemas[1]


def _schemas(native: _native.Table) -> tuple[pa.Schema, pa.Schema]:
    return pa.schema(native.schema), pa.schema(native.append_schema)


def check_on_error(on_error: Any) -> str:
    """Return ``on_error`` if it is one of its values."""
    if on_error not in ("raise", "skip"):
        raise InvalidArgumentError(f'on_error: expected "raise" or "skip", not {shown(on_error)}')
    return on_error
