"""Changing what a table is while it is in use: its columns, which sets are indexed, how long rows are kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.arguments.duration import check_ttl
from drillcore.arguments.names import check_name
from drillcore.arrow.schema import parse_type
from drillcore.errors import InvalidArgumentError
from drillcore.showing.progress import check_progress, share_shown
from drillcore.values import set_values

if TYPE_CHECKING:
    from drillcore import _native


class Altering:
    """Methods that change a table. Other threads can append and read at the same time."""

    _native: _native.Table

    @property
    def ttl(self) -> tuple[str, timedelta] | None:
        """The column that sets when rows expire and how long after its time, or None if rows are kept for good."""
        ttl = self._native.ttl
        return None if ttl is None else (ttl[0], timedelta(seconds=ttl[1]))

    def set_ttl(self, column: str | None, lasting: str | float | timedelta | None = None) -> None:
        """Change how long rows are kept after the time in a column.

        A snapshot does not show rows that have expired when it is taken, by the system's clock in whole seconds; what
        it shows stays. Rows without a time never expire. In a rollup table, rows expire at the end of their time step,
        and the column must be in the key. Rows with a date expire at the end of the day in UTC. An expired row never
        comes back, even if the time to live is extended later.

        Background work gives the space back: it drops segments in which all rows have expired, without reading them,
        and rewrites those in which half have. In an upsert table with the column outside the key, it deletes the
        keys of expired rows after a twentieth of ``lasting``, an hour at most.

        Parameters
        ----------
        column
            A timestamp or date column. ``None`` keeps rows for good.
        lasting
            For how long: a text such as ``"7d"``, ``"12h"`` or ``"1h 30m"``, a number of seconds, or a ``timedelta``.
            Whole seconds, at least one.

        Raises
        ------
        InvalidArgumentError
            If the column has no times or is a metric, or if ``lasting`` is not a time.
        ReadOnlyError
            With ``read_only=True``.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> now = datetime.now(timezone.utc)
        >>> t = drillcore.open(":memory:").create_table("visits", {"at": "timestamp[us, UTC]"}, key="at")
        >>> t.append([{"at": now - timedelta(days=8)}, {"at": now}]).rows
        2
        >>> t.set_ttl("at", "7d")
        >>> t.count(), t.ttl
        (1, ('at', datetime.timedelta(days=7)))
        >>> t.set_ttl(None)
        >>> t.count()
        1
        """
        if column is None and lasting is not None:
            raise InvalidArgumentError("set_ttl: to keep rows for good, give neither a column nor a time")
        self._native.set_ttl(None if column is None else check_ttl((column, lasting)))

    def add_column(self, name: str, type: Any) -> None:
        """Add a column after the others. Other threads can append and read meanwhile.

        The column is nullable and a value: it cannot be a key, set or weight column. In a rollup table, it is a
        dimension, the last of the key. Existing rows, and data without the column, are null there. Earlier snapshots
        do not show it. The time does not depend on the number of rows, because no row is rewritten.

        Parameters
        ----------
        name
            Name of the column.
        type
            A type name, as in :meth:`~drillcore.database.Database.create_table`, or a ``pyarrow.DataType``.

        Raises
        ------
        AlreadyExistsError
            If the table already has a column of that name.
        InvalidArgumentError
            If the type is not supported, or if a metric of a rollup table reads the column.
        ReadOnlyError
            With ``read_only=True``. A reader has the column after the writer adds it and the reader refreshes.

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

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column, also a key, set or weight column. No row is rewritten.

        Earlier snapshots have the old name. Rows that still come with the old name are refused as those with any
        unknown column. Only a rollup table that discovers dimensions takes the old name for a new dimension.

        Raises
        ------
        NotFoundError
            If there is no column of that name.
        AlreadyExistsError
            If there is a column of the new name.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("flights", {"flight": "int64"}, key="flight")
        >>> _ = t.append([{"flight": 1}])
        >>> t.rename_column("flight", "number")
        >>> t.get(1)
        {'number': 1}
        """
        self._native.rename_column(check_name("old", old), check_name("new", new))

    def drop_column(self, name: str) -> None:
        """Drop a column. No row is rewritten: reads skip its values, and later merges remove them.

        Earlier snapshots still show it. A column of that name that is added later is another one, and null in
        existing rows. In a rollup table, metrics can be dropped; appended rows may lack what no metric is made of
        any more.

        Raises
        ------
        NotFoundError
            If there is no column of that name.
        InvalidArgumentError
            If it is a key, set or weight column, or a dimension of a rollup table.

        Examples
        --------
        >>> schema = {"flight": "int64", "gate": "string"}
        >>> t = drillcore.open(":memory:").create_table("flights", schema, key="flight")
        >>> _ = t.append([{"flight": 1, "gate": "B7"}])
        >>> t.drop_column("gate")
        >>> t.add_column("gate", "int32")
        >>> t.get(1)
        {'flight': 1, 'gate': None}
        """
        self._native.drop_column(check_name("name", name))

    def widen(self, column: str, type: Any) -> None:
        """Give a column a wider type. No row is rewritten.

        Existing rows keep their values. Earlier snapshots have the old type.

        Parameters
        ----------
        column
            A column that is neither a key nor the set column. In a rollup table, a column of the appended rows that
            metrics are made of; metrics have 64 bits already.
        type
            For an integer column a longer integer, signed or unsigned as it is; for ``float32`` ``float64``.

        Raises
        ------
        NotFoundError
            If there is no column of that name.
        InvalidArgumentError
            If the type does not hold every value of the column, or if it is a key or set column, a dimension or a
            metric.

        Examples
        --------
        >>> schema = {"flight": "int64", "delay": "int16"}
        >>> t = drillcore.open(":memory:").create_table("flights", schema, key="flight")
        >>> _ = t.append([{"flight": 1, "delay": 30_000}])
        >>> t.widen("delay", "int32")
        >>> _ = t.append([{"flight": 2, "delay": 40_000}])
        >>> t.scan().arrow()["delay"].to_pylist()
        [30000, 40000]
        """
        self._native.widen(check_name("column", column), parse_type(column, type))

    def index_sets(self, *names: Any, wait: bool = False, progress: Callable[[float], object] | bool = False) -> None:
        """Index sets, so that reading one costs time proportional to its size.

        Without an index, a read scans the set column. Answers do not depend on the index, nor do the samples of a
        seed. New rows are indexed as they are written. Existing rows are indexed in the background, without being
        rewritten, and after a restart if needed; ``t.stats()["indexed_sets"]`` reports how many rows are left. Other
        threads can append and read meanwhile.

        Parameters
        ----------
        names
            Values of the set column; they need not have rows yet. ``drillcore.NULL`` means the rows without a value.
        wait
            Whether to wait until existing rows are indexed. If the wait is interrupted, the work continues.
        progress
            For the wait, as for :meth:`Database.compact <drillcore.database.Database.compact>`.

        Raises
        ------
        InvalidArgumentError
            If the table has no set column, or the column cannot hold a name.
        ReadOnlyError
            With ``read_only=True``. A reader uses the indexes of the writer after a refresh.

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
        show = check_progress(progress, "share that is done")
        self._native.index_sets(self._named_sets("index_sets", names))
        if wait:
            self._wait_for_set_index(show)

    def index_all_sets(self, *, wait: bool = False, progress: Callable[[float], object] | bool = False) -> None:
        """Index all sets, including those that appear later; see :meth:`index_sets`.

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
        show = check_progress(progress, "share that is done")
        self._native.index_sets(None)
        if wait:
            self._wait_for_set_index(show)

    def unindex_sets(self, *names: Any) -> None:
        """Stop indexing sets, which makes appends and background work cheaper.

        Existing indexes are used until their segments are merged.

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
        """Stop indexing all sets; see :meth:`unindex_sets`."""
        self._native.unindex_sets(None)

    def _wait_for_set_index(self, show: Callable[[float], object] | bool) -> None:
        with share_shown("index sets", show) as counts:
            self._native.wait_for_set_index(counts)

    def _named_sets(self, call: str, names: tuple[Any, ...]) -> pa.Array:
        if not names:
            every = call.replace("_sets", "_all_sets")
            raise InvalidArgumentError(f"{call}: give at least one set, or use {every}() for all sets")
        return set_values(list(names), pa.schema(self._native.schema), self._native.set)
