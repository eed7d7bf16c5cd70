"""Estimates: the request, and the result with its intervals."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.arguments.figures import check_count, check_positive
from drillcore.arguments.names import check_encodable, check_name, shown
from drillcore.arrow.pandas_frame import to_pandas
from drillcore.arrow.python_values import to_python, values_to_show
from drillcore.errors import InvalidArgumentError, InvalidTypeError
from drillcore.rows import require
from drillcore.showing.interval_drawing import Interval, axis_of, drawings, plot_intervals
from drillcore.showing.notebook import Html, html_table, text

if TYPE_CHECKING:
    import pandas

    from drillcore import _native

Aggregates = str | Sequence[str] | Mapping[str, str]
"""``"avg(delay)"``, a list of such, or a dict from result name to aggregate."""

By = str | Sequence[str]
"""A column or an expression to group by, or several."""

_SHOWN_GROUPS = 20
_USUAL_DRAWS = 10_000.0
_TITLE_LEN = 90
_EXACT = "exact"
_LOWER_BOUND = "lower bound"
_PERCENT = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*%\s*")


class Estimate:
    """Aggregates estimated from a sample, each with a confidence interval.

    With one aggregate and no groups, use :attr:`value`, :attr:`low` and :attr:`high`. Otherwise, :meth:`arrow` and
    :meth:`df` have one row per group.
    """

    def __init__(self, native: _native.Estimate) -> None:
        self._native = native

    @property
    def value(self) -> Any:
        """The estimate: a float, or of ``min`` and ``max`` a value of the column.

        The median and other quantiles of dates and times are values of the column, too. If the estimate needs values
        and no drawn row has one, it is NaN, or ``None`` if it is not a float.
        """
        return self._only()[0]

    @property
    def low(self) -> Any:
        """The lower end of the interval.

        If too few rows were drawn, it is ``-inf``, or ``None`` if the value is not a float.
        """
        return self._only()[1]

    @property
    def high(self) -> Any:
        """The upper end of the interval.

        If too few rows were drawn, it is ``inf``, or ``None`` if the value is not a float. It is also ``None`` if the
        value is a lower bound.
        """
        return self._only()[2]

    @property
    def confidence(self) -> float:
        """The confidence level of the intervals; see :attr:`simultaneous`."""
        return self._native.confidence

    @property
    def simultaneous(self) -> bool:
        """Whether the confidence level applies to all intervals together, over groups and aggregates."""
        return self._native.simultaneous

    @property
    def method(self) -> str:
        """The name of the interval method, which depends on the stopping condition."""
        return self._native.method

    @property
    def unit(self) -> str:
        """What was drawn and counted: ``"rows"``, or ``"events"`` of a rollup table."""
        return self._native.unit

    @property
    def sampled(self) -> int:
        """Number of rows drawn, or of events; see :attr:`unit`."""
        return self._native.sampled

    @property
    def scanned(self) -> int:
        """Number of rows read instead of drawn, where that costs less: those of small sets, or all rows."""
        return self._native.scanned

    @property
    def population(self) -> int:
        """Number of rows that could have been drawn."""
        return self._native.population

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The known bounds of the column, for each aggregate whose intervals use them."""
        return {name: (low, high) for name, low, high in self._native.bounds()}

    @property
    def asymptotic(self) -> bool:
        """Whether an interval relies on a limit theorem, because no bounds of the values are known.

        This concerns averages, sums, ratios, variances and standard deviations.

        If few rows carry most of the sum, such an interval may hold less often than :attr:`confidence` says, and the
        drawn rows may not show it.
        """
        return self._native.asymptotic

    @property
    def unseen_share(self) -> float:
        """The estimated share of rows in groups that no draw met; 0 without groups, or if an index lists the groups."""
        return self._native.unseen_share

    @property
    def unseen_share_high(self) -> float:
        """The upper confidence bound of :attr:`unseen_share`."""
        return self._native.unseen_share_high

    @property
    def notes(self) -> list[str]:
        """Notes on the intervals, on groups that no draw met, and on rows read instead of drawn."""
        return self._native.notes

    @property
    def unreached(self) -> list[dict[str, Any]]:
        """With ``error``, the intervals that are wider than asked for.

        Each is a dict of the group's columns, ``aggregate`` and ``reason``. A group is not waited for if no value was
        met among 1,000 rows drawn of it. Looks of ``progressive`` list what is too wide as yet.
        """
        found = self._native.unreached()
        if not found:
            return []
        names = self.arrow().column_names[: self._native.group_columns]
        groups = self.arrow().select(names)
        return [
            {name: _value(groups.column(name), group) for name in names} | {"aggregate": aggregate, "reason": reason}
            for aggregate, group, reason in found
        ]

    @property
    def exact(self) -> bool:
        """Whether every figure is exact, from an index or because all its rows were read."""
        return self._native.exact

    def arrow(self) -> pa.Table:
        """Return one row per group: the groups' columns, each aggregate with ``_low`` and ``_high``, and the rows read.

        What needs values and has none, such as an average, is null. So is the upper end of a lower bound.
        """
        return pa.Table.from_batches([pa.record_batch(self._native.batch())])

    def df(self) -> pandas.DataFrame:
        """Return :meth:`arrow` as a pandas data frame, as :meth:`Rows.df <drillcore.rows.Rows.df>` does."""
        require("pandas")
        return to_pandas(self.arrow())

    def __repr__(self) -> str:
        lines = []
        for group, cells in self._shown():
            for name, value, low, high in cells:
                lines.append(f"{group} {name}".strip() + f" = {value}  {_interval(low, high)}")
        return "\n".join([f"<Estimate: {self._facts()}>", *lines, *self._more(), *self.notes])

    def _repr_html_(self) -> str:
        table = self.arrow().slice(0, _SHOWN_GROUPS)
        names = table.column_names
        group_columns = self._native.group_columns
        shown_groups = self._shown()
        head: list[str] = names[:group_columns]
        columns: list[Sequence[str]] = [
            [text(group) for group in values_to_show(table.column(at))] for at in range(group_columns)
        ]
        for at, (name, _) in enumerate(self._native.intervals(0)):
            of_name = [cells[at] for _, cells in shown_groups]
            intervals = [ends for _, ends in self._ends(name)]
            head.append(name)
            columns.append([cell[1] for cell in of_name])
            # What is exact throughout has nothing to draw.
            if any(low != high for _, low, high in intervals):
                labels = [f"{cell[1]}, {_interval(*cell[2:])}" for cell in of_name]
                axis, drawn = drawings(intervals, labels, axis_of(table.field(group_columns + 3 * at).type))
                head.append(axis)
                columns.append(drawn)
            head += [f"{name}_low", f"{name}_high"]
            columns += [[cell[end] for cell in of_name] for end in (2, 3)]
        head.append(names[-1])
        columns.append([f"{rows:,}" for rows in table.column(table.num_columns - 1).to_pylist()])
        rows = [list(row) for row in zip(*columns, strict=True)]
        if self._native.group_count > _SHOWN_GROUPS:
            rows.append(["..."] * len(head))
        is_drawing = [isinstance(cell, Html) for cell in head]
        right = [at for at in range(len(head)) if not is_drawing[at] and at >= group_columns]
        remarks = [f"<p>{html.escape(remark)}</p>" for remark in [*self._more(), *self.notes]]
        return "\n".join([html_table([head, *rows], self._facts(), right), *remarks])

    def plot(self, aggregate: str | None = None, *, ax: Any = None) -> Any:
        """Draw the intervals with matplotlib, one per group, and return the axes.

        Of many groups, the first 20 are drawn, and the title says how many there are besides. A filled arrow at the
        edge is an end that is unbounded, an open arrow one that cannot be known, as of ``distinct``.

        Parameters
        ----------
        aggregate
            The aggregate to draw, by its name in the result; needed if there are several.
        ax
            Axes to draw into; by default new ones.

        Raises
        ------
        MissingPackageError
            If matplotlib is not installed.
        InvalidArgumentError
            If ``aggregate`` is needed and missing, or unknown.
        InvalidTypeError
            If ``ax`` is not axes.

        Examples
        --------
        >>> t = drillcore.open(":memory:").create_table("t", {"id": "int64", "x": "float64"}, key="id")
        >>> _ = t.append([{"id": i, "x": i / 2} for i in range(1000)])
        >>> axes = t.estimate("avg(x)", n=100, seed=1).plot()  # doctest: +SKIP
        """
        name = self._named(aggregate)
        groups = self._ends(name)
        if ax is None:
            # One line of text per group, and room for the title and the axis.
            size = (6.4, 1.6 + 0.3 * len(groups))
            ax = require("matplotlib.pyplot").subplots(figsize=size, layout="constrained")[1]
        elif not isinstance(ax, require("matplotlib.axes").Axes):
            raise InvalidTypeError(f"ax: expected axes of matplotlib, not {shown(ax)}")
        plot_intervals(ax, [ends for _, ends in groups], axis_of(self.arrow().field(name).type))
        if self._native.group_columns:
            ax.set_yticks(range(len(groups)), [group for group, _ in groups])
        else:
            ax.set_yticks([])
        ax.set_ylim(len(groups) - 0.5, -0.5)
        ax.set_xlabel(name)
        ax.set_title("\n".join([*textwrap.wrap(self._facts(), _TITLE_LEN), *self._more()]), fontsize="small")
        return ax

    def _named(self, aggregate: str | None) -> str:
        names = [name for name, _ in self._native.intervals(0)]
        if aggregate is None and len(names) == 1:
            return names[0]
        if aggregate not in names:
            missing = "name one of the aggregates" if aggregate is None else f"unknown aggregate {shown(aggregate)}"
            raise InvalidArgumentError(f"aggregate: {missing}; there are: {', '.join(names)}")
        return aggregate

    def _ends(self, name: str) -> list[tuple[str, Interval]]:
        """The first groups with the value and the ends of an aggregate; an exact value is its own ends."""
        groups = [group for group, _ in self._shown()]
        (of_name,) = [each for found, each in self._native.intervals(_SHOWN_GROUPS) if found == name]
        ends = [
            (value, value, value) if method == _EXACT else (value, low, high) for value, low, high, method in of_name
        ]
        return list(zip(groups, ends, strict=True))

    def _facts(self) -> str:
        if self.exact:
            known = "" if self.sampled or self.scanned else "known without a draw, "
            return f"exact, {known}{self.population:,} {self.unit}"
        read = f", {self.scanned:,} read" if self.scanned else ""
        intervals = f"{self.confidence:.0%} intervals{' together' if self.simultaneous else ''} ({self.method})"
        return f"{self.sampled:,} of {self.population:,} {self.unit} drawn{read}, {intervals}"

    def _shown(self) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
        """The first groups, each with its name, and name, value and ends of each aggregate."""
        groups = [""]
        group_columns = self._native.group_columns
        if group_columns:
            table = self.arrow().slice(0, _SHOWN_GROUPS)
            cells_of = [[text(group) for group in values_to_show(table.column(at))] for at in range(group_columns)]
            groups = [", ".join(cells) for cells in zip(*cells_of, strict=True)]
        intervals = self._native.intervals(_SHOWN_GROUPS)
        figures = dict(self._native.shown(_SHOWN_GROUPS))
        shown = []
        for i, group in enumerate(groups):
            cells = []
            for name, per_group in intervals:
                value, low, high = figures[name][i]
                is_exact = per_group[i][3] == _EXACT
                cells.append((name, value, *((_EXACT, _EXACT) if is_exact else (low, high))))
            shown.append((group, cells))
        return shown

    def _more(self) -> list[str]:
        more = self._native.group_count - _SHOWN_GROUPS
        return [f"... and {more:,} more groups"] if more > 0 else []

    def _only(self) -> tuple[Any, Any, Any]:
        intervals = self._native.intervals(1)
        if self._native.group_columns or len(intervals) != 1:
            raise InvalidArgumentError(
                "the estimate has several aggregates or groups, so it has no single value; use .arrow() or .df()"
            )
        ends = self.arrow().columns[:3]
        if not pa.types.is_floating(ends[0].type):
            value, low, high = (_value(end, 0) for end in ends)
            return value, low, high
        value, low, high, method = intervals[0][1][0]
        value, low = (math.nan if number is None else number for number in (value, low))
        return value, low, math.nan if high is None and method != _LOWER_BOUND else high


def _value(column: pa.ChunkedArray, at: int) -> Any:
    return to_python("the estimate", column.slice(at, 1), ".arrow()")[0]


def looks(native: _native.EstimateLooks) -> Iterator[Estimate]:
    """Give the looks at an estimate, of which the last is its result; ends it when it is closed."""
    try:
        while (look := native.next()) is not None:
            yield Estimate(look)
    finally:
        native.close()


def _interval(low: str, high: str) -> str:
    """Both ends, as text, in a few words."""
    if low == high == _EXACT:
        return _EXACT
    is_open = [end in ("unbounded", "unknown") for end in (low, high)]
    if all(is_open):
        return low
    if any(is_open):
        return f"at least {low}" if is_open[1] else f"at most {high}"
    return f"[{low}, {high}]"


def parse_aggregates(aggregates: Any) -> list[tuple[str, str]]:
    """Return pairs of result name and aggregate.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If these are no names.

    Examples
    --------
    >>> parse_aggregates("avg(delay)")
    [('avg(delay)', 'avg(delay)')]
    >>> parse_aggregates({"mean": "avg(delay)", "n": "count"})
    [('mean', 'avg(delay)'), ('n', 'count')]
    """
    if isinstance(aggregates, str):
        pairs = [(aggregates, aggregates)]
    elif isinstance(aggregates, Mapping):
        pairs = list(aggregates.items())
    elif isinstance(aggregates, Sequence):
        pairs = [(each, each) for each in aggregates]
    else:
        raise InvalidTypeError(
            'aggregates: expected "avg(column)", a list of these or a dict from name to aggregate, '
            f"not {type(aggregates).__name__}"
        )
    if not pairs:
        raise InvalidArgumentError('aggregates: give at least one, such as "count" or "avg(column)"')
    for name, aggregate in pairs:
        if not isinstance(name, str) or not isinstance(aggregate, str):
            raise InvalidTypeError(
                f"aggregates: names and aggregates must be strings, not {shown(name)}: {shown(aggregate)}"
            )
        check_encodable("aggregates", name)
        check_encodable("aggregates", aggregate)
    return pairs


def parse_by(by: Any) -> list[str]:
    """Return the columns or expressions to group by.

    Raises
    ------
    InvalidTypeError
        If these are no names.

    Examples
    --------
    >>> parse_by("carrier"), parse_by(["carrier", "origin"]), parse_by(None)
    (['carrier'], ['carrier', 'origin'], [])
    """
    if by is None:
        return []
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, Sequence):
        raise InvalidTypeError(f"by: expected a name or a list of names, not {type(by).__name__}")
    return [check_name("by", name) for name in names]


def parse_stop(n: Any, error: Any, seconds: Any) -> tuple[str, float]:
    """Return the one way to stop that was given, or after 10,000 rows, in the form the native layer takes.

    Examples
    --------
    >>> parse_stop(1000, None, None)
    ('rows', 1000.0)
    >>> parse_stop(None, "2%", None)
    ('relative', 0.02)
    >>> parse_stop(None, None, None)
    ('rows', 10000.0)
    >>> parse_stop(1000, None, 2.0)
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: give one stopping condition: n=1000, error=0.5, error="2%" or seconds=1.0
    """
    given = [each for each in (n, error, seconds) if each is not None]
    if len(given) > 1:
        raise InvalidArgumentError('give one stopping condition: n=1000, error=0.5, error="2%" or seconds=1.0')
    if not given:
        return "rows", _USUAL_DRAWS
    if n is not None:
        if check_count("n", n) == 0:
            raise InvalidArgumentError("n: expected a number of at least 1, not 0")
        return "rows", float(n)
    if seconds is not None:
        return "seconds", check_positive("seconds", seconds)
    if isinstance(error, str):
        matched = _PERCENT.fullmatch(error)
        if matched is None:
            raise InvalidArgumentError(f'error: expected a number or a percentage such as "2%", not {shown(error)}')
        return "relative", check_positive("error", float(matched[1]) / 100)
    return "absolute", check_positive("error", error)
