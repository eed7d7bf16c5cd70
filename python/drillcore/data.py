"""Rows on their way into a table: anything that speaks Arrow, or a list of dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError
from drillcore.schema import is_pandas
from drillcore.values import to_array


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


def to_arrow(data: Any, schema: pa.Schema) -> Any:
    """Return ``data`` as an object with an Arrow capsule.

    Raises
    ------
    InvalidTypeError
        If it is neither Arrow data nor a list of dicts.
    """
    if is_pandas(data):
        # The index is a label, not a column, and NaN is how pandas writes "no value".
        return _from_pandas(data)
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        return data
    if is_dicts(data):
        return _from_dicts(data, schema)
    raise InvalidTypeError(
        "data: expected Arrow data (pyarrow, polars, pandas, duckdb, ...) or a list of dicts, "
        f"not {type(data).__name__}"
    )


def split_bad_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> tuple[list[int], list[Rejected]]:
    """Return the positions of the dicts that fit ``schema``, and the others with the reason."""
    good: list[int] = []
    bad: list[Rejected] = []
    for position, row in enumerate(rows):
        try:
            _from_dicts([row], schema)
        except Error as error:
            bad.append(Rejected(position, str(error)))
        else:
            good.append(position)
    return good, bad


def is_dicts(data: Any) -> bool:
    """Whether ``data`` is rows as dicts."""
    return isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data)


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    names = []
    for name in dict.fromkeys(name for row in rows for name in row):
        if not isinstance(name, str):
            raise InvalidArgumentError(f"column names are strings, not {name!r}")
        names.append(name)
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
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidArgumentError(f"column {name!r} is new, and its values have no common type: {error}") from None


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"the data frame has no Arrow form: {error}") from None
