"""Everything that can be read from a table, live or pinned.

:class:`Reads` is the shared face of :class:`~drillcore.table.Table`, where each call reads the newest snapshot,
and :class:`~drillcore.snapshot.TableSnapshot`, where all calls read the same one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.errors import InvalidArgumentError, InvalidTypeError, TooFewRowsError
from drillcore.estimate import Aggregates, Estimate, parse_aggregates, parse_stop
from drillcore.figures import check_confidence, check_count, check_optional_count, check_seed, check_threads
from drillcore.names import check_encodable, check_name, shown
from drillcore.rows import Rows, Sampling
from drillcore.values import NULL, Bounds, key_arrays, key_columns, many_keys, selection

if TYPE_CHECKING:
    from drillcore import _native

_CLOSED = ("both", "left", "right", "neither")
_UNITS = ("rows", "events")


class Reads(ABC):
    """Read methods over one snapshot.

    ``between=(low, high)`` keeps rows whose key lies between the ends, both included unless ``closed`` says
    ``"left"``, ``"right"`` or ``"neither"``. An end is ``None`` (open), a value of the first key column, or a
    tuple of values of the first key columns; as upper end a prefix includes every key that begins with it.
    ``set`` keeps the rows of one set or of a list of sets; ``drillcore.NULL`` is the rows without a value.
    ``where`` is a SQL condition on the columns, such as ``"delay > 15 and carrier in ('UA', 'DL')"``, which a row
    meets or not as it is shown, after equal keys were folded. What it says of the first key columns and of the set
    column is answered by the index like ``between`` and ``set``; for the rest, rows are read and tested.
    """

    @abstractmethod
    def _pin(self) -> _native.TableSnapshot:
        """Return the snapshot that the next call reads."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns, in order."""

    @property
    @abstractmethod
    def key(self) -> list[str]:
        """The names of the key columns, most significant first."""

    @property
    @abstractmethod
    def _set_column(self) -> str | None:
        """The name of the column whose values are the sets."""

    def get(self, *key: Any) -> dict[str, Any] | None:
        """Return the row with the key, or ``None``; of several, the newest.

        Parameters
        ----------
        *key
            One value per key column.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> t.get("UA", 1)
        {'carrier': 'UA', 'flight': 1, 'delay': 3.0}
        >>> t.get("UA", 999) is None
        True
        """
        arrays = key_arrays(key, key_columns(self.schema, self.key))
        found = pa.record_batch(self._pin().get(arrays, None)).to_pylist()
        return found[0] if found else None

    def get_many(self, keys: Any, *, columns: Sequence[str] | None = None) -> Rows:
        """Return the rows with the keys, in the order of the keys; a key without a row contributes none.

        Parameters
        ----------
        keys
            Tuples with one value per key column (plain values for a key of one column), or Arrow data with
            the key columns.
        columns
            The columns wanted; all by default.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> t.get_many([("DL", 2), ("XX", 0), ("UA", 1)], columns=["delay"]).arrow().to_pydict()
        {'delay': [-2.0, 3.0]}
        """
        arrays = many_keys(keys, key_columns(self.schema, self.key))
        wanted = check_columns(columns)
        # Without a column the native layer could not tell how many rows it found.
        found = pa.record_batch(self._pin().get(arrays, self.key[:1] if wanted == [] else wanted))
        return Rows(found if wanted != [] else found.select([]))

    def scan(
        self,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        reverse: bool = False,
        threads: int | None = None,
    ) -> Rows:
        """Stream rows in key order; rows with equal keys come in commit order.

        Parameters
        ----------
        between, closed, set, where
            What to read; see the class.
        columns
            The columns wanted; all by default.
        limit
            At most so many rows.
        reverse
            Whether to go from the last key to the first.
        threads
            How many threads read ahead, by default one a core; rows come in the same order. With 1, and for a few
            ten thousand rows or a limit of as many, no thread is started.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> t.scan(between=("DL", "DL"), columns=["flight"]).arrow().to_pydict()
        {'flight': [2, 4]}
        >>> t.scan(where="delay < 5 and flight <> 4", columns=["flight"]).arrow().to_pydict()
        {'flight': [2, 1]}
        >>> t.scan(set="UA", reverse=True, limit=1).arrow().to_pylist()
        [{'carrier': 'UA', 'flight': 3, 'delay': 9.0}]
        """
        limit = check_optional_count("limit", limit)
        asked = self._selection(between, closed, set, where)
        return Rows(self._pin().scan(asked, check_columns(columns), limit, bool(reverse), check_threads(threads)))

    def count(
        self,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        unit: str = "rows",
    ) -> int:
        """Count rows or events, exactly.

        Counts come from the index and read no rows, but for a ``where`` that the index cannot answer. In an upsert and
        in a rollup table, rows of equal keys may lie apart: the first count of rows of a selection merges its keys,
        once a snapshot. Events are always counted from the index.

        Parameters
        ----------
        between, closed, set, where
            What to count; see the class.
        unit
            ``"rows"``, or ``"events"`` for the appended rows that were folded into those of a rollup table. In
            other tables they are the same.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> t.count(), t.count(set="UA"), t.count(between=(("DL", 4), "UA"), closed="right")
        (4, 2, 2)

        Events of a rollup table:

        >>> hits = pa.table({"path": ["/", "/", "/help"]})
        >>> rollup = {"metrics": {"n": "count"}}
        >>> paths = db.create_table("paths", hits.schema, key="path", merge="rollup", rollup=rollup)
        >>> paths.append(hits).rows, paths.count(), paths.count(unit="events")
        (3, 2, 3)
        """
        if unit not in _UNITS:
            raise InvalidArgumentError(f"unit: expected {' or '.join(map(repr, _UNITS))}, not {shown(unit)}")
        asked = self._selection(between, closed, set, where)
        return self._pin().count(asked) if unit == "rows" else self._pin().count_events(asked)

    def sample(
        self,
        n: int,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        weight: str | None = None,
        replace: bool = False,
        at_most: bool = False,
        with_probability: bool = False,
        seed: int | None = None,
        columns: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> Rows:
        """Draw ``n`` rows, independently of every other call, in random order.

        Every row is equally likely unless ``weight`` is given. In a rollup table events are drawn, equally
        likely, and each gives the row that it was folded into.

        With ``where``, rows are drawn until enough pass: 16 draws a row at most, after which the rows that pass are
        listed once and drawn from. The chances are the same either way; :attr:`Rows.sampling` tells the draws.

        Parameters
        ----------
        n
            Rows to draw.
        between, closed, set, where
            What to draw from; see the class.
        weight
            A weight column of the table: rows are drawn exactly in proportion to it, so those of weight 0 never.
            Without replacement each draw is in proportion to the weights of the rows that are left.
        replace
            Whether a row may be drawn more than once.
        at_most
            Where fewer than ``n`` rows exist: return those instead of raising.
        with_probability
            Add a column ``probability``: with replacement the chance of the row in each draw, without the chance
            to be among the ``n``. Dividing by it makes up for rows being drawn unequally.
        seed
            Makes the draws repeatable on the same snapshot. A later snapshot, even of unchanged data, may give
            another, equally random sample.
        columns
            The columns wanted; all by default.
        threads
            How many threads read the rows drawn, each at least 16,384; by default one. The rows are the same whatever
            it is.

        Raises
        ------
        TooFewRowsError
            If fewer than ``n`` rows exist and neither ``replace`` nor ``at_most`` allows for it.
        InvalidArgumentError
            If ``with_probability`` is asked for weighted draws without replacement: it has no closed form.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> len(t.sample(2, set="UA", seed=7))
        2
        >>> t.sample(3, set="UA")
        Traceback (most recent call last):
        ...
        drillcore.errors.TooFewRowsError: ...
        >>> len(t.sample(3, set="UA", at_most=True))
        2
        >>> t.sample(2, where="delay > 2", columns=["delay"], seed=1).arrow().column(0).to_pylist()
        [3.0, 9.0]

        By weight:

        >>> seats = pa.table({"tail": ["N1", "N2"], "seats": [50, 150]})
        >>> planes = db.create_table("planes", seats.schema, key="tail", weights="seats")
        >>> planes.append(seats).rows
        2
        >>> planes.sample(1, weight="seats", replace=True, with_probability=True, seed=2).arrow().to_pylist()
        [{'tail': 'N2', 'seats': 150, 'probability': 0.75}]
        """
        if weight is not None:
            check_name("weight", weight)
        try:
            drawn = self._pin().sample(
                check_count("n", n),
                self._selection(between, closed, set, where),
                weight,
                bool(replace),
                bool(at_most),
                bool(with_probability),
                check_seed(seed),
                check_columns(columns),
                check_threads(threads),
            )
        except TooFewRowsError as error:
            raise TooFewRowsError(f"{error} (at_most=True)") from None
        rows, attempts, resolved = drawn
        return Rows(pa.record_batch(rows), Sampling(attempts, resolved))

    def estimate(
        self,
        aggregates: Aggregates,
        *,
        by: str | None = None,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        n: int | None = None,
        error: float | str | None = None,
        seconds: float | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        seed: int | None = None,
    ) -> Estimate:
        """Estimate aggregates from a sample that grows until it is told to stop.

        Of a rollup table, rows are drawn, each complete: an estimate comes close to what ``select avg(n)``
        and ``count(*)`` say, which see rows. :meth:`sample` draws events.

        Parameters
        ----------
        aggregates
            ``"count"`` or ``"avg(column)"``; several as a list, or as a dict from result name to aggregate.
        by
            Group by this column.
        between, closed, set, where
            What to draw from; see the class.
        n
            Stop after so many rows drawn, of which those that fail ``where`` are some. The interval is an ordinary one,
            wider where few rows may carry the average; see :attr:`Estimate.notes`.
        error
            Stop when every half-width is at most this: ``0.5`` absolute, ``"2%"`` relative. Because the data
            decides when to stop, the interval is one that holds at all looks together, and wider. Rows are read instead
            of drawn where that costs less, and what rests on them is exact: small sets, and all rows if these are few
            or drawing would take too long. Without known bounds of the column, as in sums of a rollup table, the
            interval leans on a limit theorem: see :attr:`Estimate.asymptotic`.
        seconds
            Stop after this time.
        confidence
            Confidence level of each interval, between 0 and 1.
        simultaneous
            All intervals of the result, of every group and aggregate, hold together with this confidence. They
            are wider then.
        seed
            As in :meth:`sample`.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> mean = t.estimate("avg(delay)", n=100)
        >>> mean.value, mean.exact
        (2.5, True)
        >>> t.estimate("avg(delay)", by="carrier", n=3, simultaneous=True).simultaneous
        True
        """
        asked = {
            "aggregates": parse_aggregates(aggregates),
            "by": None if by is None else check_name("by", by),
            "selection": self._selection(between, closed, set, where),
            "stop": parse_stop(n, error, seconds),
            "confidence": check_confidence(confidence),
            "simultaneous": bool(simultaneous),
            "seed": check_seed(seed),
        }
        return Estimate(self._pin().estimate(asked))

    def sets(self) -> Iterator[tuple[Any, int]]:
        """Return each set with its number of rows, in order; rows without a value come as ``NULL``.

        Examples
        --------
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> list(t.sets())
        [('DL', 2), ('UA', 2)]
        """
        values, rows = self._pin().sets()
        names = (NULL if name is None else name for name in pa.array(values).to_pylist())
        return zip(names, rows, strict=True)

    def __len__(self) -> int:
        return self._pin().rows()

    def __bool__(self) -> bool:
        # A table is not falsy for being empty.
        return True

    def _selection(self, between: Bounds | None, closed: str, set: Any, where: str | None) -> dict[str, Any]:
        if closed not in _CLOSED:
            raise InvalidArgumentError(f"closed: expected one of {', '.join(map(repr, _CLOSED))}, not {shown(closed)}")
        return selection(self.schema, self.key, self._set_column, between=between, closed=closed, set=set, where=where)


def check_columns(columns: Any) -> list[str] | None:
    """Return ``columns`` as a list of different names."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidTypeError(f"columns: expected a list of names, not {shown(columns)}")
    names: list[str] = []
    for name in columns:
        if not isinstance(name, str):
            raise InvalidTypeError(f"columns: expected a list of names, not one with {shown(name)}")
        if name in names:
            raise InvalidArgumentError(f"columns: {shown(name)} is listed twice")
        names.append(check_encodable("columns", name))
    return names
