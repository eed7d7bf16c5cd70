"""A database: a directory of tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from drillcore import _native
from drillcore.data import AppendResult
from drillcore.errors import CorruptError, InvalidArgumentError, InvalidTypeError
from drillcore.figures import check_count, check_optional_count, check_threads, check_timeout
from drillcore.names import check_name, check_names, shown
from drillcore.rollup import RollupTuple, parse_rollup
from drillcore.rows import Rows
from drillcore.schema import parse_schema
from drillcore.snapshot import Snapshot
from drillcore.table import Table

if TYPE_CHECKING:
    from typing_extensions import Self

_DURABILITIES = ("none", "os", "fsync")
_MERGES = ("append", "upsert", "rollup")


def open(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    durability: str = "os",
    memory_bytes: int | None = None,
    cache_bytes: int | None = None,
    threads: int | None = None,
) -> Database:
    """Open the database in a directory, which is made if it does not exist.

    One opening may write at a time; beside it, or without it, any number may read. A directory that is made here
    belongs to its owner alone. In one that was there, files may be used by those who may use the directory, and a
    reader needs write permission on it, for the small file that tells the writer what it reads.

    Parameters
    ----------
    path
        A directory, or ``":memory:"`` for a database that ends with the process.
    read_only
        Open an existing database for reading, whether or not another process, or this one, has it open for
        writing. Everything that reads is as of the newest commit when it was opened, and then of the last
        :meth:`Database.refresh`; calls that write raise :class:`ReadOnlyError`. Of the other options
        only ``cache_bytes`` matters. Files that a reader's version needs stay until it refreshes, closes or dies,
        and rows that are not yet in segments are held in its memory too.
    durability
        What has happened when ``append`` returns: ``"none"``, nothing certain (a clean close keeps all);
        ``"os"``, the operating system has the rows, so they survive the process; ``"fsync"``, the disk has
        them, so they survive power loss.
    memory_bytes
        Budget for rows in memory, over all tables. Rows that were written out and that only snapshots hold come on
        top (``stats()["snapshot_row_bytes"]``); once all together take twice as much, appends are slowed.
    cache_bytes
        Budget of the page cache.
    threads
        Threads for maintenance in the background.

    Raises
    ------
    LockedError
        If another process, or this one, has it open for writing already, without ``read_only``.
    NotFoundError
        If there is no database in the directory, with ``read_only``.
    CorruptError
        If a file does not hold what was written, or the directory holds a database's files without its manifest.

    Examples
    --------
    >>> with drillcore.open(":memory:") as db:
    ...     db.tables()
    []

    A reader beside the writer:

    >>> from tempfile import TemporaryDirectory
    >>> with (
    ...     TemporaryDirectory() as folder,
    ...     drillcore.open(folder) as writer,
    ...     drillcore.open(folder, read_only=True) as reader,
    ... ):
    ...     t = writer.create_table("t", {"id": "int64"}, key="id")
    ...     lsn = t.append([{"id": 1}]).lsn
    ...     reader.refresh(at_least=lsn) == lsn, reader.table("t").get(1)
    (True, {'id': 1})
    """
    if durability not in _DURABILITIES:
        raise InvalidArgumentError(
            f"durability: expected one of {', '.join(map(repr, _DURABILITIES))}, not {shown(durability)}"
        )
    memory_bytes = check_optional_count("memory_bytes", memory_bytes)
    cache_bytes = check_optional_count("cache_bytes", cache_bytes)
    threads = check_threads(threads)
    directory = _directory(path)
    if read_only:
        if directory is None:
            raise InvalidArgumentError("read_only: a database in memory has no readers beside it; name a directory")
        return Database(str(path), _native.Database.open_reader(directory, cache_bytes))
    return Database(str(path), _native.Database.open(directory, durability, memory_bytes, cache_bytes, threads))


def _directory(path: Any) -> str | None:
    """The directory that ``path`` names; ``None`` for a database in memory."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidTypeError(f"path: expected a directory or ':memory:', not {shown(path)}")
    try:
        name = os.fsdecode(os.fsencode(path))
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"path: {shown(path)} cannot be the name of a directory") from None
    if not name or "\0" in name:
        raise InvalidArgumentError(f"path: expected a directory or ':memory:', not {shown(path)}")
    return None if name == ":memory:" else name


@dataclass(frozen=True)
class VerifyReport:
    """What a check that found no damage has read."""

    segments: int
    rows: int
    bytes: int


class Database:
    """An open database; :func:`drillcore.open` makes one. A context manager that closes it."""

    def __init__(self, path: str, native: _native.Database) -> None:
        self._path = path
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
        exist_ok: bool = False,
    ) -> Table:
        """Create a table.

        Parameters
        ----------
        name
            Its name.
        schema
            A ``pyarrow.Schema``, a dict from column name to type name, or any Arrow data. Type names are
            ``"bool"``, ``"int8"`` to ``"int64"``, ``"uint8"`` to ``"uint64"``, ``"float32"``, ``"float64"``,
            ``"string"``, ``"date32"``, ``"timestamp[us]"``, ``"timestamp[us, zone]"`` (also in ``s``, ``ms`` and
            ``ns``), ``"binary"`` and ``"list<string>"``. Columns of the last two are values only: neither keys nor
            sets, weights or metrics.
        key
            The columns that rows are sorted by, most significant first.
        merge
            What equal keys mean. ``"append"`` keeps every row, ``"upsert"`` the newest, and such rows can be
            deleted; ``"rollup"`` folds them into one.
        rollup
            How rows, then called events, are folded: a dict with

            - ``"time"``: the key column that is truncated,
            - ``"granularity"``: to what, counted from 1970-01-01 00:00 UTC: ``"second"``, ``"minute"``, ``"hour"``,
              ``"day"``, also ``"1s"``, ``"1m"``, ``"5m"``, ``"15m"``, ``"30m"``, ``"1h"``, ``"1d"``, or ``"none"``,
            - ``"dimensions"``: columns to group by; those that ``key`` lacks are appended to it. Or ``"discover"``:
              the columns of ``schema`` that are neither in ``key`` nor read by a metric, and later each unknown
              column of appended rows. Such a dimension is null in rows without it, also in those appended before;
              integers and floats are held in 64 bits,
            - ``"metrics"``: a dict from column name to ``"count"``, ``"sum(column)"``, ``"avg(column)"``,
              ``"min(column)"`` or ``"max(column)"``. Nulls do not count in averages.

            ``schema`` is that of the events; the table's has the key's columns and the metrics.
        set
            The column whose values name the sets; in a rollup table one of the key.
        set_index
            Whether all sets are indexed from the start. Without an index, finding a set's rows takes a pass over the
            set column, and appends save its cost; :meth:`~drillcore.table.Table.index_sets` and its kin change it at
            any time.
        weights
            Columns that rows can be drawn by: numbers, finite and not negative. Not in a rollup table, which is
            drawn from by event.
        exist_ok
            Whether to return the table if one of the same shape exists, whatever columns were added to it since.

        Raises
        ------
        AlreadyExistsError
            If a table of that name exists and ``exist_ok`` is false, or it has another shape.

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

        Dimensions may be found in the rows:

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
            raise InvalidArgumentError(f'rollup: goes with merge="rollup", not with merge={merge!r}')
        if set is not None:
            check_name("set", set)
        native = self._native.create_table(
            name,
            parse_schema(schema),
            columns,
            set,
            bool(set_index),
            check_names("weights", weights),
            merge,
            folding,
            bool(exist_ok),
        )
        return Table(native, self._native)

    def table(self, name: str) -> Table:
        """Return an existing table.

        Raises
        ------
        NotFoundError
            If there is none of that name.
        """
        return Table(self._native.table(check_name("name", name)), self._native)

    def tables(self) -> list[str]:
        """Return the names of the tables, in order."""
        return self._native.tables()

    def drop_table(self, name: str) -> None:
        """Drop a table. Snapshots that see it keep it until they are closed.

        Raises
        ------
        NotFoundError
            If there is none of that name.
        """
        self._native.drop_table(check_name("name", name))

    def append(self, data: Mapping[str, Any], *, fill_nulls: bool = False) -> AppendResult:
        """Append rows to several tables as one commit: a snapshot sees all of them or none.

        Parameters
        ----------
        data
            From table name to rows, as :meth:`Table.append <drillcore.table.Table.append>` takes them.
        fill_nulls
            As there.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> a = db.create_table("a", {"id": "int64"}, key="id")
        >>> b = db.create_table("b", {"id": "int64"}, key="id")
        >>> db.append({"a": [{"id": 1}], "b": [{"id": 1}, {"id": 2}]}).rows
        3
        """
        if not isinstance(data, Mapping):
            raise InvalidTypeError(f"data: expected a dict from table name to rows, not {type(data).__name__}")
        fill_nulls = bool(fill_nulls)
        parts = [(name, self.table(name)._to_arrow(rows, fill_nulls)) for name, rows in data.items()]
        rows, _, lsn = self._native.append(parts, fill_nulls)
        return AppendResult(rows, [], lsn)

    def refresh(self, at_least: int | None = None, timeout: float = 10.0) -> int:
        """Move a reader on to the newest commit, and return its LSN. For ``read_only=True`` only.

        Snapshots taken before stay as they are; tables read on from the new commit, and :meth:`snapshots` are those
        that there are now.

        Parameters
        ----------
        at_least
            An LSN, as ``append`` returns it, to wait for.
        timeout
            Seconds to wait for it. When they are over, the reader has moved as far as the writer has come.

        Raises
        ------
        BehindError
            If the writer has not come to ``at_least`` in time.

        Examples
        --------
        See :func:`drillcore.open`.
        """
        return self._native.refresh(
            0 if at_least is None else check_count("at_least", at_least), check_timeout(timeout)
        )

    def sql(self, query: str, *, threads: int | None = None, memory_bytes: int | None = None) -> Rows:
        """Run a SQL query over all tables as of now; see :meth:`Snapshot.sql <drillcore.snapshot.Snapshot.sql>`.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", {"carrier": "string", "flight": "int64"}, key=["carrier", "flight"])
        >>> t.append([{"carrier": "UA", "flight": 1}, {"carrier": "DL", "flight": 2}]).rows
        2
        >>> db.sql("select count(*) as n from flights where carrier = 'UA'").arrow().to_pylist()
        [{'n': 1}]
        """
        return self.snapshot().sql(query, threads=threads, memory_bytes=memory_bytes)

    def snapshot(self, name: str | None = None) -> Snapshot:
        """Pin all tables as they are now.

        Parameters
        ----------
        name
            Pin them for good under this name: rows in memory are written out for it, and it outlives the process.
            If there is a snapshot of that name, it is opened instead, and the same seed draws the same sample from
            it as ever. What it needs stays on disk until :meth:`drop_snapshot`; closing it only lets go of it here.
            With ``read_only=True`` it is opened if it was there at the last :meth:`refresh`, dropped since or not, and
            never made.

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
        """Return the snapshots that have a name, in the order of the names, each with its LSN.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> lsn = db.snapshot("before").lsn
        >>> db.snapshots() == {"before": lsn}
        True
        """
        return dict(self._native.snapshots())

    def drop_snapshot(self, name: str) -> None:
        """Drop a snapshot that has a name. Where it is open, it stays readable.

        Raises
        ------
        NotFoundError
            If there is none of that name.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> with db.snapshot("before"):
        ...     db.drop_snapshot("before")
        >>> db.snapshots()
        {}
        """
        self._native.drop_snapshot(check_name("name", name))

    def flush(self) -> None:
        """Write every row in memory to segments on disk."""
        self._native.flush()

    def compact(self) -> None:
        """Merge the segments of each table into one."""
        self._native.compact()

    def verify(self) -> VerifyReport:
        """Read every segment and check every checksum, order, count and index against the rows.

        With ``read_only=True`` the segments are those of the last :meth:`refresh`, and a live writer goes on.

        Raises
        ------
        CorruptError
            If a segment does not hold what was written; the message names every such segment.
        """
        segments, rows, bytes_read, faults = self._native.verify()
        if faults:
            raise CorruptError(f"{len(faults)} of {segments} segments are damaged: " + "; ".join(faults))
        return VerifyReport(segments, rows, bytes_read)

    def stats(self) -> dict[str, Any]:
        """Return figures about memory, files and work done, in all and per table.

        With ``read_only=True`` they are as of the last :meth:`refresh`, and those about memory and pages read are of
        this reader. What only the writer knows is ``None``: how much it appended, waited, compacted, flushed and
        merged, its limit of memory, the bytes that it holds back for readers, and why it failed.

        Of a writer, ``held_back_bytes`` are those of files that wait to be removed, ``untried_leases`` says which
        readers' leases count as held because they cannot be looked at (of another user, say), and
        ``unremoved_files`` which files could not be removed yet, and why.

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
        """Write what is in memory, unless read only, and let go of the directory. Closing twice is no error.

        Raises
        ------
        Error
            With durability ``"none"``, if rows could not be written out, now or by a write that failed earlier. The
            database is closed all the same.
        """
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self._path!r}{', read only' if self.read_only else ''}>"
