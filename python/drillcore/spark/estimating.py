"""Estimates over several databases: a sample of each split, and figures of their union."""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drillcore.arguments.figures import check_confidence, check_count, check_seed
from drillcore.arguments.names import shown, unknown_name
from drillcore.arrow.pandas_frame import to_pandas
from drillcore.arrow.type_names import type_name
from drillcore.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from drillcore.estimate import Aggregates, By, parse_aggregates, parse_by
from drillcore.rows import require
from drillcore.showing.notebook import figure, text
from drillcore.spark.allocation import split_seed
from drillcore.spark.asking import on_cluster, one_by_one
from drillcore.spark.driver import driver
from drillcore.spark.load import Load, load_beside, open_load
from drillcore.spark.naming import named
from drillcore.spark.options import SPLIT_ROWS, ReadOptions
from drillcore.spark.releasing import loads_of
from drillcore.spark.strata import Figure, Stratum, allocate_in_proportion, averages, counts, exact, totals

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame

_AGGREGATE = re.compile(r'(sum|avg)\(\s*("?)(.+?)\2\s*\)|(count)(?:\(\s*\*?\s*\))?')
_SHOWN_GROUPS = 20


class UnionEstimate:
    """Aggregates over several databases estimated from a sample of each split, each with a confidence interval.

    With one aggregate and no groups, use :attr:`value`, :attr:`low` and :attr:`high`. Otherwise, :meth:`arrow` and
    :meth:`df` have one row per group.
    """

    method = "stratified t; of counts, stratified Wilson"
    """The name of the interval method, valid for a number of draws that is fixed beforehand."""

    def __init__(
        self, groups: pa.Table, figures: dict[str, list[Figure]], confidence: float, sampled: int, facts: _Facts
    ) -> None:
        self._groups = groups
        self._figures = figures
        self.confidence = confidence
        """The confidence level of each interval."""
        self.sampled = sampled
        """Number of rows drawn."""
        self.population = facts.population
        """Number of rows of the union."""
        self.databases = facts.databases
        """Number of databases."""
        self.strata = facts.strata
        """Number of splits, each of which was drawn by itself."""
        self.unseen_share = facts.unseen_share
        """Estimated share of the rows in groups of which no row was drawn, by Good and Turing; without an upper bound,
        as their rows may all be in splits that differ from the others."""

    @property
    def value(self) -> float:
        """The estimate; NaN if no drawn row has a value."""
        return self._only().value

    @property
    def low(self) -> float:
        """The lower end of the interval; ``-inf`` if fewer than two values were drawn."""
        return self._only().low

    @property
    def high(self) -> float:
        """The upper end of the interval; ``inf`` if fewer than two values were drawn."""
        return self._only().high

    @property
    def exact(self) -> bool:
        """Whether all rows were drawn. A count without groups is exact anyway."""
        return self.sampled == self.population

    def arrow(self) -> pa.Table:
        """Return one row per group: the groups' columns, each aggregate with ``_low`` and ``_high``, and rows drawn."""
        table = self._groups
        for name, figures in self._figures.items():
            for ending, part in (("", "value"), ("_low", "low"), ("_high", "high")):
                values = [None if math.isnan(each) else each for each in (getattr(one, part) for one in figures)]
                table = table.append_column(name + ending, pa.array(values, pa.float64()))
        drawn = next(iter(self._figures.values()))
        return table.append_column("sampled", pa.array([each.drawn for each in drawn], pa.int64()))

    def df(self) -> pandas.DataFrame:
        """Return :meth:`arrow` as a pandas data frame, as :meth:`Rows.df <drillcore.rows.Rows.df>` does."""
        require("pandas")
        return to_pandas(self.arrow())

    def __repr__(self) -> str:
        facts = "exact" if self.exact else f"{self.confidence:.0%} intervals ({self.method})"
        head = (
            f"<UnionEstimate: {self.sampled:,} of {self.population:,} rows drawn from {self.databases:,} databases, "
            f"{facts}>"
        )
        lines = []
        for at, group in enumerate(self._groups.slice(0, _SHOWN_GROUPS).to_pylist()):
            group_text = ", ".join(text(value) for name, value in group.items() if name != _NO_GROUP)
            for name, figures in self._figures.items():
                one = figures[at]
                ends = "exact" if one.is_exact else f"[{figure(one.low)}, {figure(one.high)}]"
                lines.append(f"{group_text} {name}".strip() + f" = {figure(one.value)}  {ends}")
        if (more := self._groups.num_rows - _SHOWN_GROUPS) > 0:
            lines.append(f"... and {more:,} more groups")
        if self.unseen_share:
            lines.append(f"About {self.unseen_share:.2%} of the rows are in groups of which none was drawn.")
        return "\n".join([head, *lines])

    def _only(self) -> Figure:
        if len(self._figures) != 1 or self._groups.column_names != [_NO_GROUP]:
            raise InvalidArgumentError(
                "the estimate has several aggregates or groups, so it has no single value; use .arrow() or .df()"
            )
        return next(iter(self._figures.values()))[0]


@dataclass(frozen=True)
class _Facts:
    population: int
    databases: int
    strata: int
    unseen_share: float


_NO_GROUP = ""


def estimate(
    spark: Any,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | DataFrame,
    table: str,
    aggregates: Aggregates,
    *,
    by: By | None = None,
    between: Any = None,
    closed: str = "both",
    set: Any = None,
    where: str | None = None,
    n: int = 10_000,
    confidence: float = 0.95,
    seed: int | None = None,
    split_rows: int = SPLIT_ROWS,
) -> UnionEstimate:
    """Estimate aggregates over the tables of several databases, from ``n`` rows and with intervals.

    Each database is opened at one moment. Each split is drawn by itself, in proportion to its rows, in tasks of the
    cluster, so differences between databases add nothing to the width of an interval.

    Parameters
    ----------
    spark
        The session.
    paths
        Directories of databases or collections, or a frame that ``load()`` returned, for its databases at its moment
        and the rows that its ``between``, ``set`` and ``where`` select.
    table
        Name of the table, which is to have the same columns in all of them.
    aggregates
        ``"count"``, ``"sum(column)"`` or ``"avg(column)"``, a list of these, or a dict from result name to aggregate.
    by
        The column to group by, or several. Groups of which no row was drawn are not in the result, which has their
        ``unseen_share``. The average and the sum of one of which a single value was drawn have intervals without ends.
    between, closed, set, where
        What to estimate over; see :class:`drillcore.Table`. ``between`` and ``set`` are written as in JSON: dates and
        times as strings, ``[None]`` or :data:`drillcore.NULL` for the set of rows without a value. A ``where`` that no
        index answers costs a scan.
    n
        Number of rows to draw: at least two of each split, so there may be some more.
    confidence
        Confidence level of each interval, between 0 and 1. If few rows carry most of a sum, intervals of sums and
        averages hold less often.
    seed
        Makes the estimate repeatable at the same moments.
    split_rows
        Rows per split.

    Raises
    ------
    InvalidArgumentError
        If an argument is invalid, or a frame is a sample or was made of one that ``load()`` returned.
    NotFoundError
        If there is no such database, table or column.
    UnsupportedError
        For other aggregates, and for rollup tables.

    Examples
    --------
    >>> drillcore.spark.estimate(spark, ["a.drill", "b.drill"], "flights", "avg(delay)", by="carrier")  # doctest: +SKIP
    """
    if not hasattr(spark, "sparkContext"):
        raise InvalidTypeError(f"spark: expected a classic Spark session, not {shown(spark)}")
    asked = [(name, *_parse(aggregate)) for name, aggregate in parse_aggregates(aggregates)]
    groups, confidence = parse_by(by), check_confidence(confidence)
    n = _at_least_1("n", n)
    given = secrets.randbits(64) if check_seed(seed) is None else int(seed or 0)
    frame = _load_of(paths) if hasattr(paths, "_jdf") else None
    options = ReadOptions(
        paths=_paths(paths) if frame is None else frame.paths,
        table=table,
        between=between,
        closed=closed,
        set=set if set is None or isinstance(set, list | tuple) else [set],
        where=where,
        split_rows=_at_least_1("split_rows", split_rows),
    )
    if frame is not None:
        options = _selected_too(options, frame.options)
        return _estimate(load_beside(frame, options), asked, groups, n, confidence, given)
    load = open_load(options)
    try:
        return _estimate(load, asked, groups, n, confidence, given)
    finally:
        load.close()


def _estimate(
    load: Load, asked: list[tuple[str, str, str | None]], by: list[str], n: int, confidence: float, seed: int
) -> UnionEstimate:
    columns = list(dict.fromkeys([*by, *(column for _, _, column in asked if column is not None)]))
    for name in columns:
        if name not in load.schema.names:
            raise unknown_name("column", name, load.schema.names)
    for name in by:
        if pa.types.is_nested(load.schema.field(name).type):
            raise InvalidArgumentError(f'by: column "{name}" has lists; group by another')
    for _, _, column in asked:
        kind = None if column is None else load.schema.field(column).type
        if kind is not None and not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        ):
            raise InvalidArgumentError(
                f'aggregates: column "{column}" has type {type_name(kind)}; sums and averages need numbers'
            )
    if any(each == "rollup" for each in load.merges):
        raise UnsupportedError(
            f"table {shown(load.options.table)} is a rollup table, whose rows hold sums and counts already; read it "
            "and add them up"
        )
    splits = [split for of_database in load.splits() for split in of_database]
    sizes = (one_by_one if load.is_plain else on_cluster)(_rows_of, splits)
    drawn = allocate_in_proportion(n, sizes)
    tasks = [
        (split, rows, columns, split_seed(seed, at)) for at, (split, rows) in enumerate(zip(splits, drawn, strict=True))
    ]
    parts = [pa.ipc.open_stream(pa.py_buffer(sent)).read_all() for sent in on_cluster(_draw, tasks)]
    keys, numbers = _numbered(parts, by, load.schema)
    population, sampled = sum(sizes), sum(part.num_rows for part in parts)
    figures = {}
    for name, function, column in asked:
        if function == "count" and not by:
            figures[name] = [exact(float(population), sampled)]  # What splits know is no estimate.
            continue
        strata = [
            Stratum(size, number, _floats(part, column))
            for size, part, number in zip(sizes, parts, numbers, strict=True)
        ]
        figures[name] = _FUNCTIONS[function](strata, keys.num_rows, confidence)
    unseen_share = _unseen_share(sizes, numbers, keys.num_rows) if by and sampled < population else 0.0
    facts = _Facts(population, len(load.paths), sum(1 for size in sizes if size), unseen_share)
    return UnionEstimate(keys, figures, confidence, sampled, facts)


def _unseen_share(sizes: Sequence[int], numbers: Sequence[Any], groups: int) -> float:
    """The share of the rows whose group was not met: that of the rows whose group was met once (Good 1953)."""
    met = sum(np.bincount(number, minlength=groups) for number in numbers)
    once = [
        size * float(np.count_nonzero(met[number] == 1)) / len(number)
        for size, number in zip(sizes, numbers, strict=True)
        if len(number)
    ]
    return sum(once) / sum(sizes)


_FUNCTIONS = {"count": counts, "sum": totals, "avg": averages}


def _parse(aggregate: str) -> tuple[str, str | None]:
    matched = _AGGREGATE.fullmatch(aggregate.strip())
    if matched is None:
        raise UnsupportedError(
            f"aggregates: over several databases there are count, sum(column) and avg(column), not {shown(aggregate)}; "
            "for others, draw a sample, or ask each database"
        )
    return (matched[1], matched[3]) if matched[1] else ("count", None)


def _at_least_1(name: str, given: Any) -> int:
    number = check_count(name, given)
    if number == 0:
        raise InvalidArgumentError(f"{name}: expected a number of at least 1, not 0")
    return number


def _load_of(frame: Any) -> Load:
    """The load that a frame is, and not only reads."""
    names = loads_of(frame)
    if len(names) != 1:
        raise InvalidArgumentError(
            f"paths: the frame reads {len(names)} loads of Drillcore; give one that load() returned"
        )
    plan = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() in _SAME_ROWS:
        plan = plan.children().head()
    if plan.nodeName() != _LOADED:
        raise InvalidArgumentError(
            f"paths: the frame was made of one that load() returned ({plan.nodeName()}), and an estimate reads that "
            "one's rows; give the frame of load(), and select rows by where, set or between, here or as its options"
        )
    load = driver().load(names.pop())
    if load.options.sample is not None:
        raise InvalidArgumentError(
            "paths: the frame is a sample, and an estimate draws its own; load() without sample, or give directories"
        )
    return load


_LOADED = "DataSourceV2Relation"
"""What Spark calls the frame of a load."""
_SAME_ROWS = ("SubqueryAlias", "View")
"""What is around the frame of a load that has a name."""


def _selected_too(asked: ReadOptions, of_frame: ReadOptions) -> ReadOptions:
    """Return the options of an estimate with the selection of the frame that it is over."""
    selection = {name: getattr(of_frame, name) for name in ("between", "set", "where")}
    if asked.table != of_frame.table and any(each is not None for each in selection.values()):
        raise InvalidArgumentError(
            f"table: the frame selects rows of {shown(of_frame.table)}, which says nothing of {shown(asked.table)}; "
            "give the directories, or a frame without a selection"
        )
    for name in ("between", "set"):
        if selection[name] is not None and getattr(asked, name) is not None:
            raise InvalidArgumentError(f"{name}: the frame was loaded with another already; give it in one place")
    both = " and ".join(f"({each})" for each in (of_frame.where, asked.where) if each)
    return replace(
        asked,
        between=asked.between if of_frame.between is None else of_frame.between,
        closed=asked.closed if of_frame.between is None else of_frame.closed,
        set=asked.set if of_frame.set is None else of_frame.set,
        where=both or None,
    )


def _paths(paths: Any) -> list[str]:
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if (
        not isinstance(given, list | tuple)
        or not given
        or not all(isinstance(each, str | os.PathLike) for each in given)
    ):
        raise InvalidTypeError(f"paths: expected a directory or a list of directories, not {shown(paths)}")
    names = [os.fspath(each) for each in given]
    if len(dict.fromkeys(names)) < len(names):
        raise InvalidArgumentError("paths: a directory is listed twice, so its rows would count twice; remove one")
    return names


def _rows_of(split: Any) -> int:
    with named(split.path):
        return int(split.rows)


def _draw(task: tuple[Any, int, list[str], int]) -> bytes:
    """The rows of a split's sample, with at least one column, as a table without any has no number of rows."""
    split, rows, columns, seed = task
    with named(split.path):
        found = split.sample(rows, seed=seed, columns=columns or split.schema.names[:1]).arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as stream:
        stream.write_table(found)
    return bytes(sink.getvalue().to_pybytes())


def _numbered(parts: list[pa.Table], by: list[str], schema: pa.Schema) -> tuple[pa.Table, list[Any]]:
    """The groups that were met, and for each part the number of each row's group."""
    if not by:
        return pa.table({_NO_GROUP: pa.nulls(1)}), [np.zeros(part.num_rows, np.int64) for part in parts]
    rows = [list(zip(*(part.column(name).to_pylist() for name in by), strict=True)) for part in parts]
    met = sorted(
        {key for of_part in rows for key in of_part}, key=lambda key: [(each is not None, each) for each in key]
    )
    number = {key: at for at, key in enumerate(met)}
    keys = {name: pa.array([key[at] for key in met], schema.field(name).type) for at, name in enumerate(by)}
    return pa.table(keys), [np.array([number[key] for key in of_part], np.int64) for of_part in rows]


def _floats(part: pa.Table, column: str | None) -> Any:
    """The values of a column, NaN where they are null; NaN itself makes a figure infinite, as it has no other."""
    if column is None:
        return np.zeros(part.num_rows)
    values = pc.cast(part.column(column), pa.float64(), safe=False).combine_chunks()
    values = pc.if_else(pc.fill_null(pc.is_nan(values), False), pa.scalar(math.inf), values)
    return values.to_numpy(zero_copy_only=False)
