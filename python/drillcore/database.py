"""A database: a directory of tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore import _native
from drillcore.arguments.directory import check_directory
from drillcore.arguments.duration import check_ttl
from drillcore.arguments.figures import check_count, check_timeout
from drillcore.arguments.names import check_name, check_names, in_quotes, listed, shown
from drillcore.arguments.positions import from_stored, to_stored
from drillcore.arguments.rollup import RollupTuple, parse_rollup
from drillcore.arrow.parameters import Parameters, parse_parameters
from drillcore.arrow.schema import parse_schema
from drillcore.at_moment import AtMoment
from drillcore.backup import BackupResult
from drillcore.data import AppendResult
from drillcore.database_writer import DatabaseWriter
from drillcore.errors import (
    AlreadyExistsError,
    ClosedError,
    CorruptError,
    Error,
    InvalidArgumentError,
    InvalidTypeError,
    StorageFullError,
)
from drillcore.rows import Rows
from drillcore.showing.notebook import counted
from drillcore.showing.overview import tables_html
from drillcore.showing.progress import check_progress, share_shown
from drillcore.snapshot import Snapshot
from drillcore.table import Table
from drillcore.values import check_text
from drillcore.verifying import VerifyReport
from drillcore.writer import end_writers

if TYPE_CHECKING:
    from typing_extensions import Self

_MERGES = ("append", "upsert", "rollup")


class Database(AtMoment):
    """An open database, from :func:`drillcore.open`. As a context manager, it closes itself."""

    def __init__(self, path: str, native: _native.Database) -> None:
        self._path = path
        self._directory = os.path.abspath(path)
        self._native = native

    @property
    def read_only(self) -> bool:
        """Whether it was opened with ``read_only=True``."""
        return self._native.read_only

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        key: str | Sequence[str],
        merge: str = "append",
        rollup: Mapping[str, Any] | None = None,
        set: str | None = None,
        set_index: bool = True,
        weights: str | Sequence[str] = (),
        streams: str | Sequence[str] | None = None,
        ttl: tuple[str, str | float | timedelta] | None = None,
        exist_ok: bool = False,
    ) -> Table:
        """Create a table.

        Parameters
        ----------
        name
            Name of the table.
        schema
            A ``pyarrow.Schema``, a dict from column name to type name, or any Arrow data. Type names are
            ``"bool"``, ``"int8"`` to ``"int64"``, ``"uint8"`` to ``"uint64"``, ``"float32"``, ``"float64"``,
            ``"decimal128(10, 2)"`` (precision and scale), ``"string"``, ``"date32"``, ``"timestamp[us]"``,
            ``"timestamp[us, zone]"`` (also in ``s``, ``ms`` and ``ns``), ``"binary"`` and ``"list<string>"``. Columns
            of the last two types are values only: they cannot be keys, sets, weights or metrics.
        key
            The columns that rows are sorted by, most significant first.
        merge
            What happens to rows with equal keys. ``"append"`` keeps all of them. ``"upsert"`` keeps the newest, and
            rows can also be deleted by key and updated. ``"rollup"`` folds them into one row.
        rollup
            How a rollup table folds appended rows, which are called events: a dict with

            - ``"time"``: the key column to truncate,
            - ``"granularity"``: the step to truncate it to, counted from 1970-01-01 00:00 UTC: ``"second"``,
              ``"minute"``, ``"hour"``, ``"day"``, also ``"1s"``, ``"1m"``, ``"5m"``, ``"15m"``, ``"30m"``, ``"1h"``,
              ``"1d"``, or ``"none"``,
            - ``"dimensions"``: columns to group by; those that ``key`` lacks are appended to it. Or ``"discover"``:
              the columns of ``schema`` that are neither in ``key`` nor read by a metric, and later each unknown
              column of appended rows. A discovered dimension is null in rows without it, including earlier rows;
              integers and floats have 64 bits,
            - ``"metrics"``: a dict from column name to ``"count"``, ``"sum(column)"``, ``"avg(column)"``,
              ``"min(column)"`` or ``"max(column)"``. Averages ignore nulls.

            ``schema`` describes the events. The table itself has the key columns and the metrics.
        set
            The column whose values name the sets. In a rollup table, it must be in the key.
        set_index
            Whether to index all sets from the start. Without an index, reading a set scans the set column, and
            appends are cheaper. :meth:`~drillcore.table.Table.index_sets` and related methods change it at any time.
        weights
            Columns that samples can be weighted by: finite numbers of at least 0. Not in a rollup table, whose
            samples draw events.
        streams
            Columns to store a second time by themselves, so that a scan of few columns reads only these. By default
            numbers, times, booleans and strings that repeat, unless all columns outside the key are long values. With
            ``[]`` there are none, which takes less disk space.
        ttl
            How long rows are kept: a timestamp or date column, and the time after which rows expire, as in
            ``("ts", "7d")``; for good without. See :meth:`~drillcore.table.Table.set_ttl`.
        exist_ok
            Return the table if one of the same shape exists. Columns that were added to it, and how long it keeps its
            rows, do not matter.

        Raises
        ------
        AlreadyExistsError
            If a table of that name exists, unless ``exist_ok`` is true and it has the same shape.
        NotFoundError
            If a key, set, weight, time or other named column is not a column of ``schema``.
        InvalidArgumentError, InvalidTypeError
            If a name, a type or an option is invalid.
        ReadOnlyError
            With ``read_only=True``, or if a write failed earlier.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> schema = {"ts": "timestamp[us, UTC]", "host": "string", "load": "float64"}
        >>> db.create_table("load", schema, key=["ts", "host"], set="host").key
        ['ts', 'host']
        >>> rollup = {
        ...     "time": "ts",
        ...     "granularity": "hour",
        ...     "dimensions": ["host"],
        ...     "metrics": {"n": "count", "total": "sum(load)", "worst": "max(load)"},
        ... }
        >>> hourly = db.create_table("hourly", schema, key="ts", merge="rollup", rollup=rollup)
        >>> hourly.key, hourly.schema.names
        (['ts', 'host'], ['ts', 'host', 'n', 'total', 'worst'])

        Discover dimensions in the rows:

        >>> rollup = {"time": "ts", "granularity": "hour", "dimensions": "discover", "metrics": {"n": "count"}}
        >>> hits = db.create_table("hits", {"ts": "timestamp[s]"}, key="ts", merge="rollup", rollup=rollup)
        >>> from datetime import datetime
        >>> at = datetime(2013, 1, 1)
        >>> hits.append([{"ts": at}, {"ts": at}]).rows, hits.append([{"ts": at, "path": "/", "status": 200}]).rows
        (2, 1)
        >>> hits.key
        ['ts', 'path', 'status']
        >>> [row["n"] for row in hits.scan(where="status is null").arrow().to_pylist()]
        [2]
        """
        check_name("name", name)
        if merge not in _MERGES:
            raise InvalidArgumentError(f"merge: expected one of {', '.join(map(repr, _MERGES))}, not {shown(merge)}")
        columns = check_names("key", key)
        folding: RollupTuple | None = None
        if merge == "rollup":
            if rollup is None:
                raise InvalidArgumentError('merge="rollup" needs rollup={"time": ..., "metrics": {...}, ...}')
            columns, folding = parse_rollup(rollup, columns)
        elif rollup is not None:
            raise InvalidArgumentError(f'rollup: needs merge="rollup", not merge={in_quotes(merge)}')
        if set is not None:
            check_name("set", set)
        try:
            native = self._native.create_table(
                name,
                parse_schema(schema),
                columns,
                set,
                bool(set_index),
                check_names("weights", weights),
                merge,
                folding,
                None if streams is None else check_names("streams", streams),
                check_ttl(ttl),
                bool(exist_ok),
            )
        except AlreadyExistsError as error:
            if exist_ok:
                raise
            raise AlreadyExistsError(f"{error} (exist_ok=True returns it if it has the same shape)") from None
        return Table(native, self._native)

    def table(self, name: str) -> Table:
        """Return an existing table.

        Raises
        ------
        NotFoundError
            If there is no table of that name.
        """
        return Table(self._native.table(check_name("name", name)), self._native)

    def tables(self) -> list[str]:
        """Return the names of the tables, in order."""
        return self._native.tables()

    def drop_table(self, name: str) -> None:
        """Drop a table. Open snapshots that show it keep it until they are closed.

        Raises
        ------
        NotFoundError
            If there is no table of that name.
        """
        self._native.drop_table(check_name("name", name))

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table. Existing ``Table`` objects keep working; earlier snapshots show the old name.

        Raises
        ------
        NotFoundError
            If there is no table of that name.
        AlreadyExistsError
            If there is a table of the new name.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flihgts", {"flight": "int64"}, key="flight")
        >>> db.rename_table("flihgts", "flights")
        >>> t.name, db.tables()
        ('flights', ['flights'])
        """
        self._native.rename_table(check_name("old", old), check_name("new", new))

    def copy_table(self, source: str, target: str) -> Table:
        """Make a table with the columns and the rows that another one has now.

        Other threads can use both tables meanwhile. The new table appears with all rows on disk, or not at all.
        Positions of sources, as :meth:`append` stores them, belong to the database and are not copied: a process that
        resumes from them can append to either table or both. ``drillcore ingest --resume`` into the new table begins
        anew.

        Raises
        ------
        NotFoundError
            If there is no table ``source``.
        AlreadyExistsError
            If there is a table ``target``.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", {"flight": "int64"}, key="flight")
        >>> _ = t.append([{"flight": 1}])
        >>> len(db.copy_table("flights", "before"))
        1
        """
        native = self._native.copy_table(check_name("source", source), check_name("target", target))
        return Table(native, self._native)

    def append(
        self, data: Mapping[str, Any], *, fill_nulls: bool = False, positions: Mapping[str, Any] | None = None
    ) -> AppendResult:
        """Append rows to several tables as one commit: a snapshot sees all of them or none.

        Parameters
        ----------
        data
            A dict from table name to rows, as for :meth:`Table.append <drillcore.table.Table.append>`.
        fill_nulls
            As for :meth:`Table.append <drillcore.table.Table.append>`.
        positions
            How far the sources of these rows have been read, such as the offset of each partition of a topic: a dict
            from the name of a source to a number, a string, or a list or dict of these. It is part of the commit, so
            after a crash the rows and the positions are there, or neither; :meth:`positions` gives them back. ``None``
            forgets a source.

        Raises
        ------
        InvalidArgumentError, InvalidTypeError, NotFoundError
            If a table does not exist, or a row, a column or a position does not fit. Nothing is stored.
        StorageFullError
            If the disk is full. Nothing is stored.
        ReadOnlyError
            With ``read_only=True``, or if a write failed earlier.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> a = db.create_table("a", {"id": "int64"}, key="id")
        >>> b = db.create_table("b", {"id": "int64"}, key="id")
        >>> db.append({"a": [{"id": 1}], "b": [{"id": 1}, {"id": 2}]}).rows
        3
        >>> db.append({"a": [{"id": 2}]}, positions={"topic-0": 123}).rows
        1
        >>> db.positions()
        {'topic-0': 123}
        """
        if not isinstance(data, Mapping):
            raise InvalidTypeError(f"data: expected a dict from table name to rows, not {type(data).__name__}")
        fill_nulls = bool(fill_nulls)
        parts = [(name, self.table(name)._to_arrow(rows, fill_nulls)) for name, rows in data.items()]
        rows, _, lsn = self._native.append(parts, fill_nulls, to_stored(positions))
        return AppendResult(rows, [], lsn)

    def positions(self) -> dict[str, Any]:
        """Return how far each source has been read, as of the newest commit; see :meth:`append`.

        A reader returns them as of its last :meth:`refresh`. ``drillcore ingest`` stores positions of files, too.
        """
        return from_stored(self._native.positions())

    def writer(
        self,
        *,
        rows: int = 8_192,
        seconds: float = 0.1,
        bytes: int | None = None,
        on_error: str = "raise",
        fill_nulls: bool = False,
    ) -> DatabaseWriter:
        """Return a writer for rows of several tables, of which one ``add`` is never split over two commits.

        Parameters
        ----------
        rows, seconds, bytes, on_error, fill_nulls
            As for :meth:`Table.writer <drillcore.table.Table.writer>`. A row that does not fit keeps all rows of its
            ``add`` out.

        Examples
        --------
        See :class:`~drillcore.database_writer.DatabaseWriter`.
        """
        return DatabaseWriter(
            self._native,
            self.table,
            rows=rows,
            seconds=seconds,
            bytes=bytes,
            on_error=on_error,
            fill_nulls=fill_nulls,
        )

    def refresh(self, at_least: int | None = None, timeout: float = 10.0) -> int:
        """Move a reader to the newest commit, and return its LSN. Only with ``read_only=True``.

        Earlier snapshots do not change. Tables and :meth:`snapshots` show the new commit.

        Parameters
        ----------
        at_least
            Wait for this LSN, as ``append`` returns it.
        timeout
            Seconds to wait. After that, the reader is at the newest commit of the writer.

        Raises
        ------
        BehindError
            If the writer did not reach ``at_least`` in time.

        Examples
        --------
        See :func:`drillcore.open`.
        """
        return self._native.refresh(
            0 if at_least is None else check_count("at_least", at_least), check_timeout(timeout)
        )

    def sql(
        self,
        query: str,
        parameters: Parameters | None = None,
        *,
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> Rows:
        """Run a SQL query over all tables as of now; see :meth:`Snapshot.sql <drillcore.snapshot.Snapshot.sql>`.

        ``delete from t where ...`` deletes rows, as :meth:`Table.delete <drillcore.table.Table.delete>` does, and
        returns one row with their number as ``count``. It takes no ``threads`` and no ``memory_bytes``.

        Parameters
        ----------
        query
            One ``SELECT``, ``EXPLAIN``, ``SHOW TABLES``, ``DESCRIBE``, or ``DELETE`` with a ``WHERE``.
        parameters, threads, memory_bytes
            As for :meth:`Snapshot.sql <drillcore.snapshot.Snapshot.sql>`.

        Raises
        ------
        InvalidArgumentError, NotFoundError, OutOfMemoryError
            As for :meth:`Snapshot.sql <drillcore.snapshot.Snapshot.sql>`.
        ReadOnlyError
            For a delete with ``read_only=True``, or if a write failed earlier.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", {"carrier": "string", "flight": "int64"}, key=["carrier", "flight"])
        >>> t.append([{"carrier": "UA", "flight": 1}, {"carrier": "DL", "flight": 2}]).rows
        2
        >>> db.sql("select count(*) as n from flights where carrier = 'UA'").arrow().to_pylist()
        [{'n': 1}]
        >>> db.sql("select flight from flights where carrier = ?", ["DL"]).arrow().to_pylist()
        [{'flight': 2}]
        >>> db.sql("delete from flights where flight > ?", [1]).arrow().to_pylist()
        [{'count': 1}]
        """
        if isinstance(query, str) and _native.is_delete(check_text("query", query)):
            if threads is not None or memory_bytes is not None:
                raise InvalidArgumentError("sql: a delete takes no threads and no memory_bytes; leave them out")
            rows = self._native.delete_in_sql(query, parse_parameters(parameters))
            return Rows(pa.record_batch({"count": pa.array([rows], pa.int64())}))
        return self.snapshot().sql(query, parameters, threads=threads, memory_bytes=memory_bytes)

    def snapshot(self, name: str | None = None) -> Snapshot:
        """Pin all tables as they are now.

        Parameters
        ----------
        name
            Create a named snapshot, which survives restarts; its rows in memory are written to disk. If a snapshot
            of that name exists, open it instead; the same seed always draws the same sample from it. Its files stay
            on disk until :meth:`drop_snapshot`; closing it does not remove them. With ``read_only=True``, snapshots
            that existed at the last :meth:`refresh` can be opened, and none is created.

        Raises
        ------
        NotFoundError
            With ``read_only=True``, if there was no snapshot of that name.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", {"flight": "int64"}, key="flight")
        >>> _ = t.append([{"flight": i} for i in range(10)])
        >>> drawn = db.snapshot("training").table("flights").sample(2, seed=7).arrow()
        >>> _ = t.append([{"flight": i} for i in range(100)])
        >>> db.compact()
        >>> again = db.snapshot("training").table("flights").sample(2, seed=7).arrow()
        >>> again.equals(drawn)
        True
        """
        if name is None:
            return Snapshot(self._native.snapshot())
        return Snapshot(self._native.named_snapshot(check_name("name", name)))

    def snapshots(self) -> dict[str, int]:
        """Return the named snapshots with their LSNs, in order of their names.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> lsn = db.snapshot("before").lsn
        >>> db.snapshots() == {"before": lsn}
        True
        """
        return dict(self._native.snapshots())

    def drop_snapshot(self, name: str) -> None:
        """Drop a named snapshot. Where it is open, it stays readable.

        Raises
        ------
        NotFoundError
            If there is no snapshot of that name.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> with db.snapshot("before"):
        ...     db.drop_snapshot("before")
        >>> db.snapshots()
        {}
        """
        self._native.drop_snapshot(check_name("name", name))

    def backup(self, path: str | os.PathLike[str], *, copy: bool = False) -> BackupResult:
        """Make a backup: a copy of all tables at one commit, and of the named snapshots.

        Other threads can append meanwhile. When the call returns, the backup survives power loss. It can be
        opened with ``read_only=True``, and :func:`drillcore.restore` makes a new database from it.

        If there is an earlier backup of this database at ``path``, only new files are stored. The earlier backup
        stays whole until the new one is.

        Parameters
        ----------
        path
            A directory that does not exist yet, or an earlier backup of this database.
        copy
            Copy all files. Otherwise they become hard links where the file system can make them: a backup then takes
            hardly any room or time, but if bytes of a file are damaged on the disk, the database and the backup are
            both damaged. On another file system, files are always copied.

        Raises
        ------
        AlreadyExistsError
            If there is something else at ``path``, or a backup that was opened for writing since.
        InvalidArgumentError
            If ``path`` is a backup of another database.
        ReadOnlyError
            With ``read_only=True``, if there is a backup at ``path`` already. A reader makes new backups only, of the
            newest complete commit.
        StorageFullError
            If there is no room. What was at ``path`` is unchanged.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> db = drillcore.open(f"{folder.name}/flights.drill")
        >>> t = db.create_table("flights", {"flight": "int64"}, key="flight")
        >>> _ = t.append([{"flight": i} for i in range(10)])
        >>> db.backup(f"{folder.name}/flights.backup").new_files
        1
        >>> _ = t.append([{"flight": i} for i in range(20)])
        >>> later = db.backup(f"{folder.name}/flights.backup")
        >>> later.files, later.new_files
        (2, 1)
        >>> with drillcore.open(f"{folder.name}/flights.backup", read_only=True) as backup:
        ...     len(backup.table("flights"))
        30
        """
        return BackupResult(*self._native.backup(check_directory("path", path), bool(copy)))

    def flush(self) -> None:
        """Flush: write all rows in memory to segments on disk.

        Raises
        ------
        StorageFullError
            If the disk is full. The rows stay in memory, and in the log if there is one.
        ReadOnlyError
            With ``read_only=True``, or if a write failed earlier.
        """
        self._native.flush()

    def compact(self, *, progress: Callable[[float], object] | bool = False) -> None:
        """Flush all rows, then merge the segments of each table into one.

        Needs free disk space for a second copy of the largest table.

        Parameters
        ----------
        progress
            ``True`` shows in a terminal or notebook how much of the work is done. Otherwise a function to call several
            times per second, from another thread, with the share that is done, from 0 to 1. What it raises is raised
            once the work is done.

        Raises
        ------
        StorageFullError
            If the segments of a table do not fit once more. That table is unchanged; others may be compacted.
        ReadOnlyError
            With ``read_only=True``, or if a write failed earlier.

        Examples
        --------
        >>> shares = []
        >>> drillcore.open(":memory:").compact(progress=shares.append)
        >>> shares[-1]
        1.0
        """
        with share_shown("compact", check_progress(progress, "share that is done")) as counts:
            self._native.compact(counts)

    def verify(self, *, progress: Callable[[float], object] | bool = False) -> VerifyReport:
        """Read every segment and check every checksum, order, count and index against the rows.

        With ``read_only=True``, it checks the segments of the last :meth:`refresh`, and a writer can continue.

        Parameters
        ----------
        progress
            As for :meth:`compact`.

        Raises
        ------
        CorruptError
            If a segment is damaged; the message names every damaged segment.
        """
        with share_shown("verify", check_progress(progress, "share that is done")) as counts:
            segments, rows, bytes_read, faults = self._native.verify(counts)
        if faults:
            found = f"{len(faults)} of {segments} segments are damaged: " + "; ".join(faults)
            raise CorruptError(f"{found}; restore the database from an undamaged backup")
        return VerifyReport(segments, rows, bytes_read)

    def stats(self) -> dict[str, Any]:
        """Return figures about memory, files and work done, in total and per table.

        With ``read_only=True``, they are as of the last :meth:`refresh`; figures about memory and pages read are those
        of this reader. Figures that only the writer knows are ``None``: how much it appended, waited, compacted,
        flushed and merged, its memory limit, the bytes of files that it keeps for readers, and why it failed.

        In a writer, ``held_back_bytes`` counts the bytes of files that wait to be removed. ``untried_leases`` lists
        the leases that count as held because they cannot be checked, for example those of another user.
        ``unremoved_files`` lists the files that could not be removed yet, and why.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with (
        ...     TemporaryDirectory() as folder,
        ...     drillcore.open(folder) as writer,
        ...     drillcore.open(folder, read_only=True) as reader,
        ... ):
        ...     writer.stats()["flushes"], reader.stats()["flushes"]
        (0, None)
        """
        return json.loads(self._native.stats())

    def close(self) -> None:
        """Write rows in memory to disk, unless read-only, and close the database. Closing twice is allowed.

        Raises
        ------
        StorageFullError
            With durability ``"none"``, if the disk has no room for the rows in memory. The database stays open; free
            disk space and close it again.
        Error
            With durability ``"none"``, if rows could not be written, now or earlier. The database is closed anyway.
        """
        try:
            self._native.close()
        except StorageFullError:
            raise
        except BaseException:
            end_writers(self._native)
            raise
        end_writers(self._native)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self._facts()}>"

    def _repr_html_(self) -> str:
        try:
            stats = sorted(self.stats()["tables"], key=lambda each: str(each["name"]))
            tables = [self.table(each["name"]) for each in stats]
        except Error:
            return tables_html(self._facts(), [])
        shown = zip(tables, stats, strict=True)
        return tables_html(
            self._facts(),
            [(t.name, t.schema, t.key, t._set_column, each["rows"] - each["erased_rows"]) for t, each in shown],
        )

    def _facts(self) -> str:
        name = f"Database {self._path!r}{', read only' if self.read_only else ''}"
        try:
            tables = self.tables()
        except ClosedError:
            return f"{name}, closed"
        return f"{name}, {counted(len(tables), 'table')}{': ' if tables else ''}{listed(tables)}"
