"""Splits: shares of a selection, which other processes read at the same moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from drillcore import _native
from drillcore.arguments.figures import check_count, check_optional_count, check_threads, check_unit
from drillcore.arguments.names import check_columns, check_name
from drillcore.errors import ClosedError, InvalidArgumentError
from drillcore.moment import Moment
from drillcore.rows import Rows
from drillcore.sample import draw
from drillcore.values import Bounds, NativeSelection, key_columns, selection

_FLOAT_STEPS = 2**32
"""Units in a float weight of one."""


class SharedReader:
    """A reader at a moment, which the splits of a process share; it is closed with the last of them."""

    def __init__(self, path: str, moment: Moment) -> None:
        self.process = os.getpid()
        self._native = _native.Database.open_reader(path, moment._as_tuple(), None, False, True)
        _, self._snapshot = self._native.snapshot_with_moment()
        self._tables: dict[str, _native.TableSnapshot] = {}

    def table(self, name: str) -> _native.TableSnapshot:
        """The table at the moment."""
        # One for all splits: it keeps what it finds out about the table.
        return self._tables.setdefault(name, self._snapshot.table(name))


_readers: WeakValueDictionary[tuple[str, Moment], SharedReader] = WeakValueDictionary()
_noting = threading.Lock()


def shared_reader(path: str, moment: Moment) -> SharedReader:
    """The process's reader at a moment, opened if there is none."""
    known = _readers.get((path, moment))
    if known is not None and known.process == os.getpid():
        return known
    # Readers of several databases are opened side by side; of two that are opened for one, the second goes.
    opened = SharedReader(path, moment)
    with _noting:
        known = _readers.get((path, moment))
        if known is None or known.process != opened.process:
            _readers[path, moment] = known = opened
    return known


def _renew_lock() -> None:
    """In a fork, the thread that had the lock is not there to let go of it."""
    global _noting
    _noting = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class Split:
    """The selected rows of a table in one key range, at one moment.

    :meth:`Database.splits <drillcore.database.Database.splits>` makes them. A split can be pickled and read in any
    process that can open the database: it opens a reader at the moment when it is first read, which all splits of the
    process at that moment share. So the moment must be held until then: the splits that were not pickled hold it, and
    so does a reader at the moment.

    As a context manager, a split closes itself.

    Examples
    --------
    >>> import pickle
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> db = drillcore.open(folder.name)
    >>> t = db.create_table("t", {"id": "int64", "size": "int64"}, key="id", weights="size")
    >>> _ = t.append([{"id": i, "size": i % 3} for i in range(1000)])
    >>> reader = drillcore.open(folder.name, read_only=True)
    >>> splits = reader.splits("t", 4)
    >>> sum(split.rows for split in splits), sum(split.weight("size") for split in splits)
    (1000, 999)
    >>> sent = pickle.dumps(splits[0])
    >>> with pickle.loads(sent) as split:                      # mostly in another process
    ...     len(split.sample(10, seed=7)), split.count() == len(split.scan().arrow()) == splits[0].rows
    (10, True)
    """

    def __init__(
        self,
        path: str,
        moment: Moment,
        table: str,
        asked: NativeSelection,
        rows: int | None,
        reader: SharedReader | None,
        bound: _native.TableSnapshot | None,
    ) -> None:
        self._path = path
        self._moment = moment
        self._table = table
        self._asked = asked
        self._rows = rows
        self._events: int | None = None
        self._weights: dict[str, int | Fraction] = {}
        self._reader = reader
        self._bound = bound
        self._closed = False

    @property
    def path(self) -> str:
        """The directory of the database."""
        return self._path

    @property
    def moment(self) -> Moment:
        """What it shows."""
        return self._moment

    @property
    def table(self) -> str:
        """The name of the table."""
        return self._table

    @property
    def schema(self) -> pa.Schema:
        """The columns, in order."""
        return pa.schema(self._pin().schema)

    @property
    def rows(self) -> int:
        """The exact number of rows.

        In an append table, indexes say it when the selection is split. With a ``where`` that they do not answer, and in
        upsert and rollup tables, the rows of the split are counted when this is first asked for, which is a scan of the
        columns of ``where``, or of the key. A split that is pickled then takes the number with it.
        """
        if self._rows is None:
            self._rows = self._pin().count(self._asked)
        return self._rows

    @property
    def events(self) -> int:
        """The exact number of events that a rollup table folded into the rows; in other tables the number of rows.

        It is what :meth:`sample` draws from. Without ``where``, it costs a few pages of the index.
        """
        if self._events is None:
            self._events = self._pin().count_events(self._asked)
        return self._events

    def weight(self, column: str) -> int | Fraction:
        """Return the exact sum of a weight column: an integer, or of a float column a fraction.

        Float weights are rounded to multiples of 2**-32 for it, as they are for draws. In an append table without a
        ``where`` that indexes do not answer, it costs a few pages of the index; otherwise the rows of the split are
        resolved once.

        Raises
        ------
        NotFoundError
            If the column is no weight of the table.
        InvalidArgumentError
            If the table is a rollup table, which has no weights.
        """
        check_name("column", column)
        if column not in self._weights:
            pinned = self._pin()
            units = pinned.weight(column, self._asked)
            is_float = pa.types.is_floating(pa.schema(pinned.schema).field(column).type)
            self._weights[column] = Fraction(units, _FLOAT_STEPS) if is_float else units
        return self._weights[column]

    def count(self, *, unit: str = "rows") -> int:
        """Return :attr:`rows`, or :attr:`events` with ``unit="events"``."""
        return self.rows if check_unit(unit) == "rows" else self.events

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
        threads: int | None = None,
    ) -> Rows:
        """Stream the rows in key order.

        The rows of all splits, one after the other, are those of a scan of the selection.

        Parameters
        ----------
        columns, limit, reverse, threads
            As for :meth:`Table.scan <drillcore.reads.Reads.scan>`.
        """
        limit = check_optional_count("limit", limit)
        return Rows(self._pin().scan(self._asked, check_columns(columns), limit, bool(reverse), check_threads(threads)))

    def sample(
        self,
        n: int,
        *,
        weight: str | None = None,
        replace: bool = False,
        at_most: bool = False,
        with_probability: bool = False,
        arrival_times: bool = False,
        seed: int | None = None,
        columns: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> Rows:
        """Draw ``n`` random rows of the split, as :meth:`Table.sample <drillcore.reads.Reads.sample>` does.

        The same seed draws the same rows in every process that opens the moment. Give each split a seed of its own:
        with one seed, the samples of two splits depend on each other.

        For a sample of the whole selection, draw how many rows come from each split, and then these: with
        replacement, the numbers are multinomial in :attr:`events` or :meth:`weight`; without, they are multivariate
        hypergeometric in :attr:`events`. By weight without replacement, draw ``n`` rows of each split with
        ``arrival_times`` and ``at_most``, and keep the ``n`` earliest. With a ``where`` that indexes do not answer,
        the numbers need :attr:`events` or :meth:`weight` of each split, which is one scan of it; arrival times need
        neither.

        Parameters
        ----------
        n
            Number of rows to draw.
        weight, replace, at_most, with_probability, seed, columns, threads
            As for :meth:`Table.sample <drillcore.reads.Reads.sample>`.
        arrival_times
            Add a column ``arrival_time`` to draws by weight without replacement. The time of each row is exponential
            with its weight as the rate, and independent of the others'. Rows come in the order of their times; so the
            ``n`` earliest of several splits, or of several databases, are ``n`` successive draws by weight from all
            of them (Efraimidis and Spirakis 2006).

        Raises
        ------
        TooFewRowsError
            If fewer than ``n`` rows exist, and neither ``replace`` nor ``at_most`` is set.
        """
        return draw(
            self._pin(),
            n,
            self._asked,
            weight=weight,
            replace=replace,
            at_most=at_most,
            with_probability=with_probability,
            arrival_times=arrival_times,
            seed=seed,
            columns=columns,
            threads=threads,
        )

    def close(self) -> None:
        """Let go of the reader. The split cannot be read after that; a pickled copy can."""
        self._closed = True
        self._reader = self._bound = None

    def __enter__(self) -> Split:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        known = (self._rows, self._events, self._weights)
        return _unpickled, (self._path, self._moment, self._table, self._asked, known)

    def __repr__(self) -> str:
        rows = "" if self._rows is None else f", {self._rows:,} rows"
        return f"<Split of {self._table!r} at LSN {self._moment.lsn}{rows}>"

    def _to(self, bound: _native.TableSnapshot) -> Split:
        """The same, read by another reader."""
        split = Split(self._path, self._moment, self._table, self._asked, self._rows, None, bound)
        split._events, split._weights = self._events, dict(self._weights)
        return split

    def _pin(self) -> _native.TableSnapshot:
        if self._closed:
            raise ClosedError("the split is closed; unpickle it again, or make new ones with reader.splits()")
        if self._bound is not None:
            return self._bound
        if self._reader is None or self._reader.process != os.getpid():
            self._reader = shared_reader(self._path, self._moment)
        return self._reader.table(self._table)


def _unpickled(
    path: str,
    moment: Moment,
    table: str,
    asked: NativeSelection,
    known: tuple[int | None, int | None, dict[str, int | Fraction]],
) -> Split:
    rows, events, weights = known
    split = Split(path, moment, table, asked, rows, None, None)
    split._events, split._weights = events, dict(weights)
    return split


def split_up(
    path: str,
    native: _native.Database,
    table: str,
    n: int,
    *,
    between: Bounds | None,
    closed: str,
    set: Any,
    where: str | None,
) -> list[Split]:
    """Split a selection of a table that a reader shows."""
    count = check_count("n", n)
    if count == 0:
        raise InvalidArgumentError("n: expected a number of at least 1, not 0")
    parts, _ = native.snapshot_with_moment()
    moment = Moment(*parts)
    # A reader of its own: that of the caller may move on, and one that has moved on holds its rows in other pieces,
    # of which the same seed draws others.
    reader = shared_reader(os.path.abspath(path), moment)
    pinned = reader.table(table)
    schema = pa.schema(pinned.schema)
    key = key_columns(schema, pinned.key)
    asked = selection(schema, key, pinned.set, between=between, closed=closed, set=set, where=where)
    return [
        Split(os.path.abspath(path), moment, table, {**asked, "split": (low, high)}, rows, reader, None)
        for low, high, rows in pinned.splits(count, asked)
    ]
