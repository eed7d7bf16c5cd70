"""A database as it was at one moment."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from drillcore.arguments.figures import check_optional_count, check_threads
from drillcore.arguments.names import check_name, listed
from drillcore.arrow.parameters import Parameters, parse_parameters
from drillcore.arrow.type_names import type_name
from drillcore.errors import ClosedError, InvalidArgumentError
from drillcore.reads import Reads
from drillcore.rows import Rows
from drillcore.showing.notebook import counted
from drillcore.showing.overview import columns_html, tables_html
from drillcore.values import check_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from drillcore import _native


class Snapshot:
    """All tables at one LSN. A snapshot does not change while writers continue.

    Rows that only a snapshot shows stay in memory or on disk until it is closed, or, for a named snapshot, until it is
    dropped.

    Examples
    --------
    >>> db = drillcore.open(":memory:")
    >>> t = db.create_table("flights", {"carrier": "string", "flight": "int64"}, key=["carrier", "flight"])
    >>> with db.snapshot() as before:
    ...     _ = t.append([{"carrier": "AA", "flight": 5}])
    ...     len(before.table("flights")), len(t)
    (0, 1)
    """

    def __init__(self, native: _native.Snapshot) -> None:
        self._native: _native.Snapshot | None = native
        self._lsn = native.lsn

    @property
    def lsn(self) -> int:
        """The LSN of the newest commit that it shows."""
        return self._lsn

    def tables(self) -> list[str]:
        """Return the names of the tables."""
        return self._open().tables()

    def table(self, name: str) -> TableSnapshot:
        """Return a table as of this snapshot.

        Raises
        ------
        NotFoundError
            If there was no table of that name.
        """
        return TableSnapshot(name, self, self._open().table(check_name("name", name)))

    def sql(
        self,
        query: str,
        parameters: Parameters | None = None,
        *,
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> Rows:
        """Run a SQL query over the tables as of this snapshot.

        ``FROM t TABLESAMPLE (k ROWS)`` draws ``k`` random rows of ``t`` from those that meet the ``WHERE``.
        ``TABLESAMPLE (p PERCENT)`` draws each of them with that probability. ``REPEATABLE (seed)`` makes the draws
        repeatable. (The SQL standard samples first and tests later, so it returns fewer rows; for that, use
        ``FROM sample('t', k)``.) ``EXPLAIN`` shows which parts use the index. Names are case-sensitive; double quotes
        are needed only for names that are not plain words.

        Parameters
        ----------
        query
            One ``SELECT``, ``EXPLAIN``, ``SHOW TABLES`` or ``DESCRIBE``. Queries are read-only.
        parameters
            Values of the placeholders in the query: a list for ``?`` (or ``$1``, ``$2``), a dict for ``$name``. A
            placeholder can stand wherever a literal can. Values are ``None``, ``bool``, ``int``, ``float``, ``str``,
            ``bytes``, ``date``, ``datetime``, ``time``, ``timedelta``, ``Decimal`` and scalars of pyarrow. They are
            never read as SQL, and indexes answer them as they answer literals.
        threads
            Number of threads; by default one per core.
        memory_bytes
            Memory budget of joins, sorts and aggregates, separate from the budgets of the database; by default 1 GiB.
            Sorts and aggregates that need more use temporary files.

        Raises
        ------
        InvalidArgumentError, NotFoundError
            If the query is invalid, is not read-only, or names something that does not exist, or if a placeholder
            has no value or a parameter no placeholder.
        OutOfMemoryError
            If a join needs more than ``memory_bytes``. Reading the rows can also raise this.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> snapshot = db.snapshot()
        >>> worst = snapshot.sql("select carrier, max(delay) as worst from flights group by carrier order by 1")
        >>> worst.arrow().to_pylist()
        [{'carrier': 'DL', 'worst': 0.0}, {'carrier': 'UA', 'worst': 9.0}]
        >>> len(snapshot.sql("select * from flights tablesample (2 rows) where delay < 5").arrow())
        2
        >>> snapshot.sql("select flight from flights where carrier = ? and delay > ?", ["UA", 5]).arrow().to_pylist()
        [{'flight': 3}]
        >>> snapshot.sql("select count(*) as n from flights where delay >= $low", {"low": 0}).arrow().to_pylist()
        [{'n': 3}]
        """
        memory_bytes = check_optional_count("memory_bytes", memory_bytes)
        if memory_bytes == 0:
            raise InvalidArgumentError("memory_bytes: expected a number of at least 1, not 0")
        values = parse_parameters(parameters)
        return Rows(self._open().sql(check_text("query", query), values, check_threads(threads), memory_bytes))

    def close(self) -> None:
        """Release what only this snapshot needs. Its tables cannot be read after that."""
        self._native = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self._facts()}>"

    def _repr_html_(self) -> str:
        if self._native is None:
            return tables_html(self._facts(), [])
        tables = [self.table(name) for name in self.tables()]
        return tables_html(self._facts(), [(t.name, t.schema, t.key, t._set_column, None) for t in tables])

    def _facts(self) -> str:
        name = f"Snapshot at LSN {self._lsn}"
        if self._native is None:
            return f"{name}, closed"
        tables = self._native.tables()
        return f"{name}, {counted(len(tables), 'table')}{': ' if tables else ''}{listed(tables)}"

    def _open(self) -> _native.Snapshot:
        if self._native is None:
            raise ClosedError("the snapshot is closed; take another with db.snapshot()")
        return self._native


class TableSnapshot(Reads):
    """A table of a :class:`Snapshot`; see :class:`~drillcore.reads.Reads` for reading."""

    def __init__(self, name: str, owner: Snapshot, native: _native.TableSnapshot) -> None:
        self._name = name
        self._owner = owner
        self._native = native
        self._schema = pa.schema(native.schema)

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._name

    @property
    def lsn(self) -> int:
        """The LSN of the newest commit that it shows."""
        return self._native.lsn

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def key(self) -> list[str]:
        return self._native.key

    def __repr__(self) -> str:
        sets = f", set={self._set_column!r}" if self._set_column else ""
        columns = listed([f"{field.name}: {type_name(field.type)}" for field in self.schema])
        return f"<TableSnapshot {self._name!r} at LSN {self.lsn}: key={self.key}{sets}; {columns}>"

    def _repr_html_(self) -> str:
        return columns_html(f"Table {self._name!r} at LSN {self.lsn}", self.schema, self.key, self._set_column)

    @property
    def _set_column(self) -> str | None:
        return self._native.set

    def _pin(self) -> _native.TableSnapshot:
        self._owner._open()
        return self._native
