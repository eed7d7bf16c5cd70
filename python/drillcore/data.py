"""Rows on their way into a table: anything that speaks Arrow, or a list of dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from drillcore.arrow_data import from_pandas, is_arrow, is_pandas, refuse_column
from drillcore.cells import to_array
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError
from drillcore.names import check_encodable, shown, unknown_name


@dataclass(frozen=True)
class Rejected:
    """A row that an append left out, by its position in the data given."""

    row: int
    reason: str


@dataclass(frozen=True)
class AppendResult:
    """What an append did.

    Attributes
    ----------
    rows
        Rows stored.
    rejected
        Rows left out; empty unless ``on_error="skip"``.
    lsn
        The commit's position in the order of all commits. A snapshot with this LSN or a higher one sees it.
    """

    rows: int
    rejected: list[Rejected] = field(default_factory=list)
    lsn: int = 0


@dataclass(frozen=True)
class DeleteResult:
    """What a delete did.

    Attributes
    ----------
    keys
        Keys given, with those that had no row.
    lsn
        The commit's position in the order of all commits.
    """

    keys: int
    lsn: int


def to_arrow(data: Any, schema: pa.Schema, required: Sequence[str] = ()) -> Any:
    """Return ``data`` as an object with an Arrow capsule; ``required`` are the columns that each dict has.

    Raises
    ------
    InvalidTypeError
        If it is neither Arrow data nor a list of dicts.
    InvalidArgumentError
        If a dict has no value for a required column, or a cell has no Arrow form.
    """
    if is_pandas(data):
        return from_pandas(data)
    if is_arrow(data):
        refuse_column("data", data)
        return data
    if is_dicts(data):
        # What no dict has, the engine may know a better name for.
        given = {name for name in required if any(name in row for row in data)}
        for position, row in enumerate(data if given else ()):
            if lacking := _lacking(row, given, schema):
                raise InvalidArgumentError(f"row {position}: {lacking}")
        return _from_dicts(data, schema)
    raise InvalidTypeError(
        "data: expected Arrow data (pyarrow, polars, pandas, duckdb, ...) or a list of dicts, "
        f"not {type(data).__name__}"
    )


def split_bad_dicts(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, required: Sequence[str]
) -> tuple[list[int], list[Rejected]]:
    """Return the positions of the dicts that fit ``schema``, and the others with the reason."""
    good: list[int] = []
    bad: list[Rejected] = []
    for position, row in enumerate(rows):
        try:
            if lacking := _lacking(row, required, schema):
                raise InvalidArgumentError(lacking)
            _from_dicts([row], schema)
        except Error as error:
            bad.append(Rejected(position, str(error)))
        else:
            good.append(position)
    return good, bad


def unknown_column(row: Mapping[str, Any], schema: pa.Schema) -> str | None:
    """Return why ``row`` does not fit ``schema``, if it has a column that is not there."""
    unknown = next((name for name in row if name not in schema.names), None)
    return None if unknown is None else str(unknown_name("column", unknown, schema.names))


def is_dicts(data: Any) -> bool:
    """Whether ``data`` is rows as dicts."""
    return isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data)


def _lacking(row: Mapping[str, Any], required: Iterable[str], schema: pa.Schema) -> str | None:
    """Return why ``row`` does not fit, if it lacks a required column."""
    for name in required:
        if name not in row:
            return unknown_column(row, schema) or f'the dict lacks key column "{name}"; None stands for null'
    return None


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    names = []
    for name in dict.fromkeys(name for row in rows for name in row):
        if not isinstance(name, str):
            raise InvalidArgumentError(f"column names are strings, not {shown(name)}")
        names.append(check_encodable("column name", name))
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    columns = [_column([row.get(name) for row in rows], name, schema) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _column(values: list[Any], name: str, schema: pa.Schema) -> pa.Array:
    index = schema.get_field_index(name)
    if index >= 0:
        return to_array(values, schema.field(index))
    # The engine knows whether it is a dimension that is new, or a mistake, for which it has a better name.
    try:
        return pa.array(values)
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
        raise InvalidArgumentError(f"column {name!r} is new, and its values have no common type: {error}") from None
