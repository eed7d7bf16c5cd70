"""Rows on their way into a table: anything that speaks Arrow, or a list of dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import check_encodable, check_no_nul, in_quotes, shown, unknown_name
from drillcore.arrow.arrow_data import as_rows, is_arrow, is_pandas, is_polars, to_table
from drillcore.arrow.cells import is_missing, to_array
from drillcore.arrow.new_column import new_array, new_field
from drillcore.arrow.pandas_frame import frame_refusals, from_pandas
from drillcore.arrow.type_names import type_name
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError


@dataclass(frozen=True)
class Rejected:
    """A row that an append left out: its position in the data, and the reason."""

    row: int
    reason: str


@dataclass(frozen=True)
class AppendResult:
    """The result of an append.

    Attributes
    ----------
    rows
        Number of rows stored.
    rejected
        Rows left out; empty unless ``on_error="skip"``.
    lsn
        The commit's position in the order of all commits. A snapshot with this LSN or a higher one shows it.
    """

    rows: int
    rejected: list[Rejected] = field(default_factory=list)
    lsn: int = 0


@dataclass(frozen=True)
class DeleteResult:
    """The result of a delete.

    Attributes
    ----------
    rows
        Number of rows deleted.
    lsn
        The commit's position in the order of all commits; if no row was deleted, that of the newest commit.
    """

    rows: int
    lsn: int


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update.

    Attributes
    ----------
    rows
        Number of rows changed or inserted.
    lsn
        The commit's position in the order of all commits; if no row was changed, that of the newest commit.
    """

    rows: int
    lsn: int


@dataclass(frozen=True)
class Needed:
    """The columns that each dict has, if only as ``None``.

    Attributes
    ----------
    key
        Those of the key.
    weights, not_nullable
        Others that cannot hold null.
    whole_row
        Others without which a row would not say all of the row that it replaces, in an upsert table.
    """

    key: Sequence[str] = ()
    weights: Sequence[str] = ()
    not_nullable: Sequence[str] = ()
    whole_row: Sequence[str] = ()

    def given(self, rows: Iterable[Mapping[str, Any]]) -> Needed:
        """Return those that some of ``rows`` have."""
        given = {name for row in rows for name in row}
        return Needed(*([name for name in names if name in given] for names in self.lists()))

    def lists(self) -> tuple[Sequence[str], ...]:
        """Return all lists of names."""
        return self.key, self.weights, self.not_nullable, self.whole_row


def to_arrow(data: Any, schema: pa.Schema, needed: Needed | None = None) -> Any:
    """Return ``data`` as an object with an Arrow capsule.

    Raises
    ------
    InvalidTypeError
        If it is neither Arrow data nor a list of dicts.
    InvalidArgumentError
        If a dict lacks a needed column, or a cell has no Arrow form.
    """
    if is_pandas(data):
        return from_pandas(data, schema)
    if is_polars(data):
        # What polars hands over of a column of type Null, only pyarrow takes.
        return to_table("data", data)
    if is_arrow(data):
        rows = as_rows("data", data)
        if isinstance(given := getattr(rows, "schema", None), pa.Schema):
            for name in given.names:
                check_no_nul("column name", name)
        return rows
    if is_dicts(data):
        if needed is not None:
            # What no dict has, the engine may know a better name for.
            given = needed.given(data)
            for position, row in enumerate(data):
                if lacking := _lacking(row, given, schema):
                    raise InvalidArgumentError(f"row {position}: {lacking}")
        return _from_dicts(data, schema, place="row")
    raise InvalidTypeError(
        f"data: expected Arrow data (pyarrow, polars, pandas, duckdb, ...) or a list of dicts, not {described(data)}"
    )


def split_bad_rows(frame: Any, schema: pa.Schema) -> tuple[list[int], list[Rejected]]:
    """Return the positions of the rows of a pandas data frame whose objects fit ``schema``, and the others."""
    found = frame_refusals(frame, schema)
    good = [position for position in range(len(frame)) if position not in found]
    return good, [Rejected(position, str(error)) for position, error in sorted(found.items())]


def split_bad_dicts(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, needed: Needed, discovery: Discovery | None
) -> tuple[list[int], list[Rejected], pa.Schema]:
    """Return the positions of the dicts that fit ``schema``, the others with the reason, and the columns of the former.

    These are more than those of ``schema`` only with ``discovery``. Where the values of a new column have no common
    type, that of the first decides.
    """
    good: list[int] = []
    bad: list[Rejected] = []
    for position, row in enumerate(rows):
        try:
            if lacking := _lacking(row, needed, schema):
                raise InvalidArgumentError(lacking)
            _from_dicts([row], schema)
            if unknown := None if discovery else unknown_column(row, schema):
                raise InvalidArgumentError(unknown)
        except Error as error:
            bad.append(Rejected(position, str(error)))
        else:
            good.append(position)
    for name in dict.fromkeys(name for position in good for name in rows[position] if name not in schema.names):
        values = {position: rows[position][name] for position in good if not is_missing(rows[position].get(name))}
        field = new_field(name, list(values.values()))
        refusals = {position: _refusal(value, field, discovery) for position, value in values.items()}
        bad += [Rejected(position, reason) for position, reason in refusals.items() if reason]
        good = [position for position in good if not refusals.get(position)]
        schema = schema.append(field)
    return good, bad, schema


@dataclass(frozen=True)
class Discovery:
    """How a table takes columns that it does not have: as dimensions, unless a metric has their name."""

    metrics: Sequence[str]


def unknown_column(row: Mapping[str, Any], schema: pa.Schema) -> str | None:
    """Return why ``row`` does not fit ``schema``, if it has a column that is not there."""
    unknown = next((name for name in row if name not in schema.names), None)
    return None if unknown is None else str(unknown_name("column", unknown, schema.names))


def is_dicts(data: Any) -> bool:
    """Whether ``data`` is rows as dicts."""
    return isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data)


def described(data: Any) -> str:
    """Return the type of invalid data, and how to fix it."""
    name = type(data).__name__
    if isinstance(data, Mapping):
        return f"{name}; use [data] for one row, or pyarrow.table(data) for columns"
    if hasattr(data, "collect"):
        return f"{name}; call .collect() first"
    if isinstance(data, list | tuple):
        other = next(row for row in data if not isinstance(row, Mapping))
        return f"a {name} with {type(other).__name__}"
    return name


_NEVER_NULL = "which cannot hold null; add it"


def _lacking(row: Mapping[str, Any], needed: Needed, schema: pa.Schema) -> str | None:
    """Return why ``row`` does not fit, if it lacks a needed column."""
    for kind, names, instead in (
        ("key column", needed.key, "; add it, with None for null"),
        ("weight column", needed.weights, f", {_NEVER_NULL}, with 0 for a row that samples by weight do not draw"),
        ("column", needed.not_nullable, f", {_NEVER_NULL}"),
    ):
        for name in names:
            if name not in row:
                return unknown_column(row, schema) or f"the dict lacks {kind} {in_quotes(name)}{instead}"
    if lacking := [in_quotes(name) for name in needed.whole_row if name not in row]:
        columns, they, them = ("column", "it", "it") if len(lacking) == 1 else ("columns", "they", "them")
        return unknown_column(row, schema) or (
            f"the dict lacks {columns} {', '.join(lacking)}; an upsert replaces the whole row, so {they} would become "
            f"null. Add {them}, with None for null, or set fill_nulls=True"
        )
    return None


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, *, place: str = "") -> pa.RecordBatch:
    names = [_checked(name) for name in dict.fromkeys(name for row in rows for name in row)]
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    columns = [_column([row.get(name) for row in rows], name, schema, place) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


@lru_cache(maxsize=4_096)
def _checked(name: Any) -> str:
    """The name of a column, if it can be one."""
    if not isinstance(name, str):
        raise InvalidArgumentError(f"column names must be strings, not {shown(name)}")
    return check_no_nul("column name", check_encodable("column name", name))


def _column(values: list[Any], name: str, schema: pa.Schema, place: str) -> pa.Array:
    index = schema.get_field_index(name)
    if index >= 0:
        return to_array(values, schema.field(index), place=place)
    # The engine knows whether it is a dimension that is new, or a mistake, for which it has a better name.
    return new_array(values, name, place=place)


def _refusal(value: Any, field: pa.Field, discovery: Discovery | None) -> str | None:
    """Return why ``value`` is none of the new dimension ``field``."""
    if discovery and field.name in discovery.metrics:
        return f"dimension {in_quotes(field.name)} has the name of a metric; rename it"
    if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
        return (
            f"new column {in_quotes(field.name)} has type {type_name(field.type)}, which a dimension cannot have; "
            "leave it out"
        )
    try:
        to_array([value], field)
    except Error as error:
        return f"{error}; the first value of a new column decides its type"
    return None
