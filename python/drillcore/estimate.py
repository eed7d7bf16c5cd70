"""Estimates: the request, and the result with its intervals."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.errors import InvalidArgumentError, InvalidTypeError
from drillcore.figures import check_count, check_positive
from drillcore.names import check_encodable, shown
from drillcore.rows import html_table, require, text

if TYPE_CHECKING:
    import pandas

    from drillcore import _native

Aggregates = str | Sequence[str] | Mapping[str, str]
"""``"avg(delay)"``, a list of such, or a dict from result name to aggregate."""

_SHOWN_GROUPS = 20
_EXACT = "exact"
_PERCENT = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*%\s*")


class Estimate:
    """Aggregates estimated from a sample, each with a confidence interval.

    With one aggregate and no groups, use :attr:`value`, :attr:`low` and :attr:`high`. Otherwise, :meth:`arrow` and
    :meth:`df` have one row per group.
    """

    def __init__(self, native: _native.Estimate) -> None:
        self._native = native

    @property
    def value(self) -> float:
        """The estimate; NaN if no drawn row has a value to average."""
        return self._only()[0]

    @property
    def low(self) -> float:
        """The lower end of the interval; ``-inf`` if too few rows were drawn."""
        return self._only()[1]

    @property
    def high(self) -> float:
        """The upper end of the interval; ``inf`` if too few rows were drawn."""
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
    def sampled(self) -> int:
        """Number of rows drawn."""
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
        """The known bounds of the column, for each average whose intervals use them."""
        return {name: (low, high) for name, low, high in self._native.bounds()}

    @property
    def asymptotic(self) -> bool:
        """Whether the interval of an average relies on a limit theorem, because no bounds of the values are known.

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
    def exact(self) -> bool:
        """Whether every figure is exact, from an index or because all its rows were read."""
        return self._native.exact

    def arrow(self) -> pa.Table:
        """Return one row per group: the group, each aggregate with ``_low`` and ``_high``, and the rows read.

        An average without values is null.
        """
        return pa.Table.from_batches([pa.record_batch(self._native.batch())])

    def df(self) -> pandas.DataFrame:
        """Return :meth:`arrow` as a pandas data frame."""
        require("pandas")
        return self.arrow().to_pandas()

    def __repr__(self) -> str:
        lines = []
        for group, cells in self._shown():
            for name, value, low, high in cells:
                interval = low if low == high == _EXACT else f"[{low}, {high}]"
                lines.append(f"{group} {name}".strip() + f" = {value}  {interval}")
        return "\n".join([f"<Estimate: {self._facts()}>", *lines, *self._more(), *self.notes])

    def _repr_html_(self) -> str:
        table = self.arrow().slice(0, _SHOWN_GROUPS)
        drawn = [text(rows) for rows in table.column(table.num_columns - 1).to_pylist()]
        rows = []
        for (group, cells), sampled in zip(self._shown(), drawn, strict=True):
            figures = [figure for cell in cells for figure in cell[1:]]
            rows.append([*([group] if self._native.grouped else []), *figures, sampled])
        if self._native.group_count > _SHOWN_GROUPS:
            rows.append(["..."] * table.num_columns)
        remarks = [f"<p>{html.escape(remark)}</p>" for remark in [*self._more(), *self.notes]]
        return "\n".join([html_table([table.column_names, *rows], self._facts()), *remarks])

    def _facts(self) -> str:
        if self.exact:
            return f"exact, {self.population:,} rows"
        read = f", {self.scanned:,} read" if self.scanned else ""
        intervals = f"{self.confidence:.0%} intervals{' together' if self.simultaneous else ''} ({self.method})"
        return f"{self.sampled:,} of {self.population:,} rows drawn{read}, {intervals}"

    def _shown(self) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
        """The first groups, each with its name, and name, value and ends of each aggregate."""
        groups = [""]
        if self._native.grouped:
            groups = [text(group) for group in self.arrow().column(0).slice(0, _SHOWN_GROUPS).to_pylist()]
        intervals = self._native.intervals(_SHOWN_GROUPS)
        shown = []
        for i, group in enumerate(groups):
            cells = []
            for name, per_group in intervals:
                value, low, high, method = per_group[i]
                ends = (_EXACT, _EXACT) if method == _EXACT else (text(low), text(high))
                cells.append((name, text(value), *ends))
            shown.append((group, cells))
        return shown

    def _more(self) -> list[str]:
        more = self._native.group_count - _SHOWN_GROUPS
        return [f"... and {more:,} more groups"] if more > 0 else []

    def _only(self) -> tuple[float, float, float]:
        intervals = self._native.intervals(1)
        if self._native.grouped or len(intervals) != 1:
            raise InvalidArgumentError(
                "the estimate has several aggregates or groups, so it has no single value; use .arrow() or .df()"
            )
        value, low, high = (math.nan if number is None else number for number in intervals[0][1][0][:3])
        return value, low, high


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


def parse_stop(n: Any, error: Any, seconds: Any) -> tuple[str, float]:
    """Return the one way to stop that was given, in the form the native layer takes.

    Examples
    --------
    >>> parse_stop(1000, None, None)
    ('rows', 1000.0)
    >>> parse_stop(None, "2%", None)
    ('relative', 0.02)
    >>> parse_stop(None, None, None)
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: give one stopping condition: n=1000, error=0.5, error="2%" or seconds=1.0
    """
    given = [each for each in (n, error, seconds) if each is not None]
    if len(given) != 1:
        raise InvalidArgumentError('give one stopping condition: n=1000, error=0.5, error="2%" or seconds=1.0')
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
