"""Python values as Arrow arrays of a column's type: keys, bounds, set names, cells.

Conversion never guesses: a value that the type cannot hold is an error that names the column, and a datetime
without a zone is refused where the column has one.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from drillcore.errors import InvalidArgumentError, InvalidTypeError


class _Null:
    """The type of :data:`NULL`."""

    def __repr__(self) -> str:
        return "drillcore.NULL"


NULL: Final = _Null()
"""As a set: the rows without a value in the set column."""

Bounds = tuple[Any, Any]
"""The two ends of a key range: ``None``, a value of the first key column, or a tuple (a key prefix)."""

NativeSelection = dict[str, Any]


def to_array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Return ``values`` as an array of the type of ``field``.

    Timestamps may be given as text with an offset, ``"2013-07-04T09:00-04:00"``, or without one where the
    column has no zone.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If the column cannot hold a value.

    Examples
    --------
    >>> to_array([1, None], pa.field("flight", pa.int64())).to_pylist()
    [1, None]
    >>> to_array(["x"], pa.field("flight", pa.int64()))
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: column 'flight' (int64): Could not convert 'x' with type str: tried
    to convert to int64
    """
    try:
        if pa.types.is_timestamp(field.type):
            return _timestamps(values, field.type)
        for value in values:
            _check_value(value, field.type)
        return pa.array(values, type=field.type, from_pandas=False)
    except (TypeError, NotImplementedError) as error:
        raise InvalidTypeError(f"column {field.name!r} ({field.type}): {error}") from None
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"column {field.name!r} ({field.type}): {error}") from None


def key_columns(schema: pa.Schema, key: Sequence[str]) -> list[pa.Field]:
    """Return the fields of the key columns, most significant first."""
    return [schema.field(name) for name in key]


def key_arrays(key: Sequence[Any], columns: Sequence[pa.Field]) -> list[pa.Array]:
    """Return one whole key as arrays of one value; the engine knows whether it may lack values at its end.

    Raises
    ------
    InvalidArgumentError
        If the key has more values than there are key columns.
    """
    if len(key) > len(columns):
        names = ", ".join(field.name for field in columns)
        raise InvalidArgumentError(f"the key is ({names}): expected {len(columns)} values, got {len(key)}")
    return [to_array([value], field) for value, field in zip(key, columns, strict=False)]


def many_keys(keys: Any, columns: Sequence[pa.Field]) -> list[pa.Array]:
    """Return many whole keys, one array per key column; they may all lack the same columns at their end.

    ``keys`` is Arrow data with the key columns, an Arrow array for a key of one column, or an iterable of
    tuples (of plain values for a key of one column).
    """
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        if len(columns) != 1:
            raise InvalidArgumentError(f"the key has {len(columns)} columns: give a table with all of them")
        return [_cast(keys, columns[0])]
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        table = pa.table(keys)
        given = [field for field in columns if field.name in table.column_names]
        for field, expected in zip(given, columns, strict=False):
            if field.name != expected.name:
                raise InvalidArgumentError(f"the keys lack the key column {expected.name!r}")
        return [_cast(table.column(field.name), field) for field in given]
    rows = _key_rows(keys, columns)
    width = len(rows[0]) if rows else len(columns)
    return [to_array([row[i] for row in rows], field) for i, field in enumerate(columns[:width])]


def selection(
    schema: pa.Schema,
    key: Sequence[str],
    set_column: str | None,
    *,
    between: Bounds | None,
    closed: str,
    set: Any,  # the public name of the argument
    where: str | None,
) -> NativeSelection:
    """Return the arguments that narrow a read, checked, in the form the native layer takes."""
    return {
        "between": None if between is None else _bounds(between, key_columns(schema, key)),
        "closed": closed,
        "sets": None if set is None else _set_values(set, schema, set_column),
        "where": None if where is None else check_text("where", where),
    }


def check_text(name: str, value: Any) -> str:
    """Return ``value`` if it is text."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name}: expected SQL as text, not {value!r}")
    return value


def _bounds(between: Any, columns: list[pa.Field]) -> tuple[list[pa.Array] | None, list[pa.Array] | None]:
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise InvalidTypeError(f"between: expected a pair (low, high), not {between!r}")
    low, high = (_prefix(end, columns) for end in between)
    return low, high


def _prefix(end: Any, columns: list[pa.Field]) -> list[pa.Array] | None:
    if end is None:
        return None
    values = end if isinstance(end, tuple) else (end,)
    if not 1 <= len(values) <= len(columns):
        names = ", ".join(field.name for field in columns)
        raise InvalidArgumentError(f"between: {end!r} is not a prefix of the key ({names})")
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        raise InvalidArgumentError("between: NaN is not a bound; None leaves an end open")
    return [to_array([value], field) for value, field in zip(values, columns, strict=False)]


def _set_values(names: Any, schema: pa.Schema, set_column: str | None) -> pa.Array:
    if set_column is None:
        raise InvalidArgumentError("the table has no set column; create_table(..., set=column) declares one")
    listed = list(names) if isinstance(names, list | tuple | set | frozenset) else [names]
    if any(name is None for name in listed):
        raise InvalidArgumentError("set: None is no set; drillcore.NULL is the rows without a value")
    return to_array([None if name is NULL else name for name in listed], schema.field(set_column))


def _key_rows(keys: Any, columns: Sequence[pa.Field]) -> list[Sequence[Any]]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidTypeError(f"keys: expected a list of keys or Arrow data, not {type(keys).__name__}")
    if len(columns) == 1:
        return [key if isinstance(key, tuple) else (key,) for key in keys]
    rows = list(keys)
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) > len(columns):
            names = ", ".join(field.name for field in columns)
            raise InvalidArgumentError(f"keys: {row!r} is not a tuple of {len(columns)} values ({names})")
        if len(row) != len(rows[0]):
            raise InvalidArgumentError(f"keys: {row!r} has {len(row)} values, but {rows[0]!r} has {len(rows[0])}")
    return rows


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    try:
        cast = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"key column {field.name!r} ({field.type}): {error}") from None
    return cast.combine_chunks() if isinstance(cast, pa.ChunkedArray) else cast


def _check_value(value: Any, kind: pa.DataType) -> None:
    """Refuse what pyarrow would take by changing it.

    Bools as numbers, fractions as whole numbers, times as dates, text as bytes or as a list of its letters.
    """
    if isinstance(value, bool) and not pa.types.is_boolean(kind):
        raise TypeError(f"{value!r} is a bool")
    if isinstance(value, float) and pa.types.is_integer(kind) and not value.is_integer():
        raise ValueError(f"{value!r} is not a whole number")
    if isinstance(value, dt.datetime) and pa.types.is_date(kind):
        raise TypeError(f"{value.isoformat()} has a time of day")
    if isinstance(value, str) and (pa.types.is_binary(kind) or pa.types.is_list(kind)):
        raise TypeError(f"{value!r} is text")


def _timestamps(values: Sequence[Any], kind: pa.TimestampType) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        texts = [value.isoformat() if isinstance(value, dt.datetime) else value for value in values]
        return pa.array(texts, type=pa.string()).cast(kind)
    for value in values:
        if isinstance(value, bool | int | float):
            raise TypeError(f"{value!r} is no datetime")
        if isinstance(value, dt.datetime):
            _check_datetime(value, kind)
    return pa.array(values, type=kind, from_pandas=False)


def _check_datetime(value: dt.datetime, kind: pa.TimestampType) -> None:
    if (value.tzinfo is None) != (kind.tz is None):
        wanted = f"the zone {kind.tz}" if kind.tz else "no zone"
        given = "none" if value.tzinfo is None else str(value.tzinfo)
        raise ValueError(f"the column has {wanted}, but {value.isoformat()} has {given}")
    if value.microsecond % {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1):
        raise ValueError(f"{value.isoformat()} is finer than the column's unit")
