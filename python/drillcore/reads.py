"""All read methods of a table, live or in a snapshot.

:class:`Reads` is the common base of :class:`~drillcore.table.Table`, where each call reads the newest snapshot,
and :class:`~drillcore.snapshot.TableSnapshot`, where all calls read the same one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from drillcore.arguments.figures import check_confidence, check_optional_count, check_seed, check_threads, check_unit
from drillcore.arguments.names import check_columns
from drillcore.arrow.python_values import to_python
from drillcore.estimate import Aggregates, By, Estimate, looks, parse_aggregates, parse_by, parse_stop
from drillcore.export.lazy import Scan, lazy_frame
from drillcore.rows import Rows
from drillcore.sample import draw
from drillcore.sets import Sets
from drillcore.stream import Refresh, Stream, open_stream
from drillcore.values import Bounds, ColumnValues, key_columns, key_values, many_keys, selection

if TYPE_CHECKING:
    import polars
    import pyarrow.dataset

    from drillcore import _native


class Reads(ABC):
    """Read methods over one snapshot.

    ``between=(low, high)`` selects rows whose key is between the ends. Both ends are included, unless ``closed`` is
    ``"left"``, ``"right"`` or ``"neither"``. An end is ``None`` (open), a value of the first key column, or a tuple of
    values of the first key columns. As upper end, a tuple includes every key that begins with it.

    ``set`` selects the rows of one set or of a list of sets; ``drillcore.NULL`` means the rows without a value.

    ``where`` is a SQL condition on the columns, such as ``"delay > 15 and carrier in ('UA', 'DL')"``. It applies to
    rows as they are shown, after equal keys were merged. Conditions on the first key columns and on the set column use
    the index, like ``between`` and ``set``; for other conditions, rows are read and tested.
    """

    _key_fields: tuple[pa.Schema, list[pa.Field]] | None = None

    @abstractmethod
    def _pin(self) -> _native.TableSnapshot:
        """Return the snapshot that the next call reads."""

    def _renew(self) -> None:  # noqa: B027
        """Have the next snapshot show the newest rows, where that takes a call."""

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

    def get(self, *key: Any, columns: Sequence[str] | None = None) -> dict[str, Any] | None:
        """Return the row with this key, or ``None``. If several rows have the key, return the newest.

        Parameters
        ----------
        *key
            One value per key column.
        columns
            The columns to return; by default all. Values of other columns are not decoded, and long ones, which lie
            apart from their rows, not read.

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
        >>> t.get("UA", 1, columns=["delay"])
        {'delay': 3.0}
        """
        values = key_values(key, self._key_columns())
        found = self._get(values, columns)
        rows = to_python("the row", found, "get_many([...]).arrow()")
        return rows[0] if rows else None

    def get_many(self, keys: Any, *, columns: Sequence[str] | None = None) -> Rows:
        """Return the rows with these keys, in the order of the keys. Keys without a row are ignored.

        Parameters
        ----------
        keys
            Tuples with one value per key column (plain values for a key of one column), or Arrow data with
            the key columns.
        columns
            The columns to return; by default all.

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
        return Rows(self._get(many_keys(keys, self._key_columns()), columns))

    def _get(self, keys: Sequence[ColumnValues], columns: Sequence[str] | None) -> pa.RecordBatch:
        wanted = check_columns(columns)
        # Without a column the native layer could not tell how many rows it found.
        found = pa.record_batch(self._pin().get(keys, self.key[:1] if wanted == [] else wanted))
        return found if wanted != [] else found.select([])

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
        """Stream rows in key order. Rows with equal keys come in commit order.

        Parameters
        ----------
        between, closed, set, where
            What to read; see :class:`Reads`.
        columns
            The columns to return; by default all.
        limit
            Maximum number of rows.
        reverse
            Whether to read from the last key to the first.
        threads
            Number of threads that read; by default one per core, or with ``direct_io`` two, and at least eight. The
            order of rows does not depend on it. With 1, or for less than a few ten thousand rows, no thread is started.

        Raises
        ------
        NotFoundError
            If the table was dropped, or a column does not exist.
        InvalidArgumentError, InvalidTypeError
            If an argument is invalid.
        InvalidArgumentError, OutOfRangeError
            While the rows are read, if ``where`` fails on a row, or an integer sum of a rollup table does not fit its
            type.

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
        """Return the exact number of rows or events.

        Counts come from the index and read no rows, except for a ``where`` that the index cannot answer. In upsert and
        rollup tables, the first count of all rows merges their keys; later ones look for the keys of newer commits in
        older data. Counts of events always come from the index.

        Parameters
        ----------
        between, closed, set, where
            What to count; see :class:`Reads`.
        unit
            ``"rows"``, or ``"events"`` for the appended rows that a rollup table folded into its rows. In other
            tables, both are the same.

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
        check_unit(unit)
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
        """Draw ``n`` random rows, in random order, independently of every other call.

        Every row is equally likely, unless ``weight`` is given. In a rollup table, events are drawn, each equally
        likely; an event returns the row that it was folded into.

        With ``where``, rows are drawn until enough meet the condition. After 16 draws per row, the rows that meet it
        are listed once, and drawn from that list. The probabilities are the same either way; :attr:`Rows.sampling`
        reports the number of draws.

        Parameters
        ----------
        n
            Number of rows to draw.
        between, closed, set, where
            What to draw from; see :class:`Reads`.
        weight
            A weight column of the table. Rows are drawn exactly in proportion to it; rows of weight 0 are never
            drawn. Without replacement, each draw is in proportion to the weights of the remaining rows.
        replace
            Draw with replacement: a row may be drawn more than once.
        at_most
            If fewer than ``n`` rows exist, return those instead of raising an error.
        with_probability
            Add a column ``probability``: with replacement, the probability of the row in each draw; without, the
            probability that the row is in the sample. Divide by it to correct for unequal probabilities.
        seed
            Makes the sample repeatable on the same snapshot. A later snapshot, even of unchanged data, may give another
            sample, which is equally random.
        columns
            The columns to return; by default all.
        threads
            Number of threads that read the drawn rows, at least 16,384 rows per thread; by default one. The rows do
            not depend on it.

        Raises
        ------
        TooFewRowsError
            If fewer than ``n`` rows exist, and neither ``replace`` nor ``at_most`` is set.
        InvalidArgumentError
            If ``with_probability`` is set for weighted draws without replacement: they have no closed form.

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
        return draw(
            self._pin(),
            n,
            self._selection(between, closed, set, where),
            weight=weight,
            replace=replace,
            at_most=at_most,
            with_probability=with_probability,
            seed=seed,
            columns=columns,
            threads=threads,
        )

    def stream(
        self,
        batch_size: int,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        weight: str | None = None,
        replace: bool = False,
        with_probability: bool = False,
        seed: int | None = None,
        columns: Sequence[str] | None = None,
        refresh: Refresh = 1,
        first: int = 0,
        ahead: int = 2,
        threads: int = 1,
    ) -> Stream:
        """Return an endless iterator of samples, for example for training.

        Each batch is a sample as :meth:`sample` draws it, independent of all others: a row can be in several batches,
        and more than once within a batch only with ``replace``. The next batches are drawn in the background while the
        caller uses the last one.

        Parameters
        ----------
        batch_size
            Rows per batch.
        between, closed, set, where
            What to draw from; see :class:`Reads`.
        weight, replace, with_probability, columns
            As for :meth:`sample`. Probabilities of weighted draws from an upsert table need the weight of all its rows,
            which is added up anew after each refresh. Where a factor does not matter, use the weight column instead.
        seed
            Makes the batches repeatable on the same snapshot. Each batch has a seed of its own, made of this and its
            number.
        refresh
            How often new commits come in: after this number of batches (by default 1), after a ``datetime.timedelta``,
            or with ``None`` never. For a ``where`` that few rows meet, these are listed anew
            then. Batches that were drawn ahead do not show newer rows. A snapshot never changes.
        first
            Number of the first batch: with the :attr:`~drillcore.stream.Stream.position` of an earlier stream and its
            seed, the batches that it would have given next.
        ahead
            Number of batches to draw ahead, which memory holds.
        threads
            Number of threads that draw, each a batch. The batches do not depend on it.

        Raises
        ------
        TooFewRowsError
            From ``next``, if there are fewer than ``batch_size`` rows, unless ``replace`` is set.

        Examples
        --------
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", {"flight": "int64", "delay": "float64"}, key="flight", weights="delay")
        >>> t.append([{"flight": i, "delay": i % 60} for i in range(1000)]).rows
        1000
        >>> with t.stream(256, weight="delay", seed=7) as batches:
        ...     first, second = next(batches), next(batches)
        >>> len(first), first.arrow().equals(second.arrow())
        (256, False)
        """
        return open_stream(
            self,
            batch_size,
            between=between,
            closed=closed,
            set=set,
            where=where,
            weight=weight,
            replace=replace,
            with_probability=with_probability,
            columns=columns,
            seed=seed,
            refresh=refresh,
            first=first,
            ahead=ahead,
            threads=threads,
        )

    @overload
    def estimate(
        self,
        aggregates: Aggregates,
        *,
        by: By | None = None,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        unit: str = "rows",
        n: int | None = None,
        error: float | str | None = None,
        seconds: float | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        seed: int | None = None,
        progressive: Literal[False] = False,
    ) -> Estimate: ...

    @overload
    def estimate(
        self,
        aggregates: Aggregates,
        *,
        by: By | None = None,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        unit: str = "rows",
        n: int | None = None,
        error: float | str | None = None,
        seconds: float | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        seed: int | None = None,
        progressive: Literal[True],
    ) -> Iterator[Estimate]: ...

    def estimate(
        self,
        aggregates: Aggregates,
        *,
        by: By | None = None,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        unit: str = "rows",
        n: int | None = None,
        error: float | str | None = None,
        seconds: float | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        seed: int | None = None,
        progressive: bool = False,
    ) -> Estimate | Iterator[Estimate]:
        """Estimate aggregates from a sample that grows until a stopping condition is met.

        Give one of ``n``, ``error`` and ``seconds``; without any, 10,000 rows are drawn. In a rollup table, an
        estimate draws rows: it approximates ``select avg(n)`` and ``count(*)`` over rows. With ``unit="events"`` it
        draws events, as :meth:`sample` does.

        Parameters
        ----------
        aggregates
            ``"count"``, ``"count(x)"``, ``"avg(x)"``, ``"sum(x)"``, ``"ratio(x, y)"`` (the sum of x over the sum of
            y), ``"variance(x)"``, ``"stddev(x)"``, ``"quantile(x, 0.95)"``, ``"median(x)"``, ``"distinct(x)"``,
            ``"min(x)"`` or ``"max(x)"``; several as a list, or as a dict from result name to aggregate. ``x`` is a
            column or an expression in SQL, and each may have a filter: ``"avg(a * b) filter (where c > 1)"``,
            ``"count(*) filter (where c > 1)"``. From a sample, ``distinct`` is a lower bound. ``min`` and ``max`` are
            exact, from an index or with ``error``; otherwise they are refused. They and quantiles also take dates and
            timestamps, and give values of the column.
        by
            Group by this column or expression, such as ``"date_trunc('hour', ts)"``, or by several.
        between, closed, set, where
            What to draw from; see :class:`Reads`.
        unit
            ``"rows"``, or ``"events"``: in a rollup table, ``count`` counts events, and each event has the values of
            the row it was folded into. So ``avg`` of an average over events is that of the events,
            if no value was null.
        n
            Stop after drawing this many rows, including those that fail ``where``. The interval is wider where few
            rows may carry the figure; see :attr:`Estimate.notes`.
        error
            Stop when every half-width is at most this: ``0.5`` absolute, or ``"2%"`` relative; of dates a number of
            days, of timestamps one of the column's unit. The data decides when
            to stop, so the interval must hold at every look, and is wider. Small sets are read completely where that
            costs less than drawing, and so are all rows if there are few or drawing would take too long; those
            results are exact. If the bounds of the column are not known, as for metrics of a rollup table, the
            interval relies on a limit theorem; see :attr:`Estimate.asymptotic`.
        seconds
            Stop after this many seconds.
        confidence
            Confidence level of each interval, between 0 and 1.
        simultaneous
            Apply the confidence level to all intervals of the result together, over groups and aggregates. The
            intervals are wider.
        seed
            As for :meth:`sample`.
        progressive
            Return an iterator of estimates, each from more rows, of which the last is the result. The intervals of
            all of them hold together, so you may stop whenever you like; leaving the loop ends the work. Drawing goes
            on in another thread, which waits for you.

        Raises
        ------
        InvalidArgumentError
            If an aggregate does not fit its column, a quantile is outside of 0 to 1, a sample cannot estimate it, or
            an expression fails on a row, which the message shows.
        NotFoundError
            If an aggregate or a column does not exist.

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
        >>> t.estimate("sum(delay * 60) filter (where carrier = 'UA')").value
        720.0
        >>> t.estimate("count(*) filter (where delay > 0)").value
        2.0
        >>> t.estimate("max(flight)").value
        4
        >>> [look.exact for look in t.estimate("median(delay)", error="5%", progressive=True)][-1]
        True
        """
        asked = {
            "aggregates": parse_aggregates(aggregates),
            "by": parse_by(by),
            "selection": self._selection(between, closed, set, where),
            "events": check_unit(unit) == "events",
            "stop": parse_stop(n, error, seconds),
            "confidence": check_confidence(confidence),
            "simultaneous": bool(simultaneous),
            "seed": check_seed(seed),
        }
        if progressive:
            return looks(self._pin().estimate_looks(asked))
        return Estimate(self._pin().estimate(asked))

    def lazy(self) -> polars.LazyFrame:
        """Return a lazy polars frame of the table as of now. A query reads only the columns and rows that it needs.

        Polars passes the columns, a ``head``, and conditions to the table: comparisons of a column with a value,
        ``is_between``, ``is_in`` and ``is_null``, joined by ``&``, ``|`` and ``~``. Conditions on the key and on the
        set column use the index, as in ``where``. Polars tests other conditions after it has read the rows, and then
        applies a ``head`` that follows a condition. The frame pins a snapshot until it is released.

        Raises
        ------
        MissingPackageError
            If polars is not installed.

        Examples
        --------
        >>> import polars as pl
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> t.lazy().filter(pl.col("carrier") == "UA").select("delay").collect()["delay"].to_list()
        [3.0, 9.0]
        """
        return lazy_frame(self.schema, self._pinned_scan())

    def dataset(self) -> pyarrow.dataset.Dataset:
        """Return a pyarrow dataset of the table as of now. DuckDB reads only the columns and rows that a query needs.

        DuckDB passes the columns and conditions to the table: comparisons of a column with a value, ``between``,
        ``in`` and ``is null``, joined by ``and`` and ``or``. Conditions on the key and on the set column use the index,
        as in ``where``. DuckDB tests other conditions after it has read the rows. With ``limit``, it stops reading. The
        dataset pins a snapshot until it is released. Its own scans read columns and rows in the same way, and
        ``pyarrow.dataset.write_dataset`` writes it.

        Examples
        --------
        >>> import duckdb
        >>> rows = pa.table({"carrier": ["UA", "DL"] * 2, "flight": [1, 2, 3, 4], "delay": [3.0, -2.0, 9.0, 0.0]})
        >>> db = drillcore.open(":memory:")
        >>> t = db.create_table("flights", rows.schema, key=["carrier", "flight"], set="carrier")
        >>> t.append(rows).rows
        4
        >>> flights = t.dataset()
        >>> duckdb.sql("select max(delay) from flights where carrier = 'UA'").fetchall()
        [(9.0,)]
        """
        from drillcore.export.arrow_dataset import TableDataset

        return TableDataset(self.schema, self._pinned_scan())

    def _pinned_scan(self) -> Scan:
        """What reads columns of the table as of now."""
        pinned, schema, key, set_column = self._pin(), self.schema, self._key_columns(), self._set_column

        def scan(columns: list[str] | None, where: str | None, limit: int | None) -> Rows:
            asked = selection(schema, key, set_column, between=None, closed="both", set=None, where=where)
            return Rows(pinned.scan(asked, columns, limit, False, None))

        return scan

    def sets(self) -> Sets:
        """Return each set with its number of rows, in order. The set of rows without a value is ``drillcore.NULL``.

        The result gives pairs, and shows itself as a table.

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
        return Sets(self._set_column, pa.array(values), rows)

    def __len__(self) -> int:
        return self._pin().rows()

    def __bool__(self) -> bool:
        # A table is not falsy for being empty.
        return True

    def _selection(self, between: Bounds | None, closed: str, set: Any, where: str | None) -> dict[str, Any]:
        return selection(
            self.schema,
            [] if between is None else self._key_columns(),
            self._set_column,
            between=between,
            closed=closed,
            set=set,
            where=where,
        )

    def _key_columns(self) -> list[pa.Field]:
        """Return the fields of the key columns, found once for each change of columns."""
        schema = self.schema
        if self._key_fields is None or self._key_fields[0] is not schema:
            self._key_fields = (schema, key_columns(schema, self.key))
        return self._key_fields[1]
