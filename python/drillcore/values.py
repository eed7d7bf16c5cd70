"""What callers give to choose rows, as Arrow arrays: keys, bounds and set names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from drillcore.arguments.names import check_encodable, in_quotes, shown
from drillcore.arrow.arrow_data import column_of, is_arrow, is_pandas, is_pandas_series, to_table
from drillcore.arrow.cells import is_missing, is_nan, to_array
from drillcore.arrow.pandas_frame import from_pandas
from drillcore.arrow.type_names import type_name
from drillcore.errors import InvalidArgumentError, InvalidTypeError


class _Null:
    """The type of :data:`NULL`."""

    def __repr__(self) -> str:
        return "drillcore.NULL"

    def __reduce__(self) -> str:
        # By its name: a copy is the same object, as comparisons with `is` need.
        return "NULL"


NULL: Final = _Null()
"""The set of the rows without a value in the set column."""

Bounds = tuple[Any, Any]
"""The two ends of a key range: ``None``, a value of the first key column, or a tuple (a key prefix)."""

NativeSelection = dict[str, Any]

ColumnValues: TypeAlias = "pa.Array | int | str"
"""The values of one column, in the form the native layer takes: an array, or one value."""

_INT64, _STRING = pa.int64().id, pa.string().id
_CLOSED = ("both", "left", "right", "neither")


def key_columns(schema: pa.Schema, key: Sequence[str]) -> list[pa.Field]:
    """Return the fields of the key columns, most significant first."""
    return [schema.field(name) for name in key]


def one_value(value: Any, field: pa.Field) -> ColumnValues:
    """Return a value of a column in the form the native layer takes.

    Most values are taken as they are: to make an array of one takes longer than most reads.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If the column cannot hold it.
    """
    kind = field.type.id
    if kind == _INT64 and type(value) is int and -(2**63) <= value < 2**63:
        return value
    # Others may be text that has no encoding.
    if kind == _STRING and type(value) is str and value.isascii():
        return value
    return to_array([value], field)


def key_values(key: Sequence[Any], columns: Sequence[pa.Field]) -> list[ColumnValues]:
    """Return the values of one whole key; the engine knows whether it may lack values at its end.

    Raises
    ------
    InvalidArgumentError
        If the key has more values than there are key columns.
    """
    if len(key) > len(columns):
        raise InvalidArgumentError(_not_a_key("key", key, columns))
    return [one_value(value, field) for value, field in zip(key, columns, strict=False)]


def many_keys(keys: Any, columns: Sequence[pa.Field]) -> list[pa.Array]:
    """Return many whole keys, one array per key column; they may all lack the same columns at their end.

    ``keys`` is Arrow data with the key columns, an Arrow array for a key of one column, or an iterable of
    tuples (of plain values for a key of one column).
    """
    if is_arrow(keys):
        return _key_columns_of(keys, columns)
    rows = _key_rows(keys, columns)
    width = len(rows[0]) if rows else len(columns)
    return [to_array([row[i] for row in rows], field, place="key") for i, field in enumerate(columns[:width])]


def selection(
    schema: pa.Schema,
    key: list[pa.Field],
    set_column: str | None,
    *,
    between: Bounds | None,
    closed: str,
    set: Any,  # the public name of the argument
    where: str | None,
) -> NativeSelection:
    """Return the arguments that narrow a read, checked, in the form the native layer takes.

    ``key`` has the fields of the key columns.
    """
    if closed not in _CLOSED:
        raise InvalidArgumentError(f"closed: expected one of {', '.join(map(repr, _CLOSED))}, not {shown(closed)}")
    return {
        "between": None if between is None else _bounds(between, key),
        "closed": closed,
        "sets": None if set is None else _sets(set, schema, set_column),
        "where": None if where is None else check_text("where", where),
        "split": None,
    }


def _sets(names: Any, schema: pa.Schema, set_column: str | None) -> ColumnValues:
    if set_column is not None and type(names) is str:
        return one_value(names, schema.field(set_column))
    return set_values(names, schema, set_column)


def check_text(name: str, value: Any) -> str:
    """Return ``value`` if it is text."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name}: expected SQL as a string, not {shown(value)}")
    return check_encodable(name, value)


def _bounds(between: Any, columns: list[pa.Field]) -> tuple[list[ColumnValues] | None, ...]:
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise InvalidTypeError(f"between: expected a pair (low, high), not {shown(between)}")
    low, high = between
    return _prefix(low, columns), _prefix(high, columns)


def _prefix(end: Any, columns: list[pa.Field]) -> list[ColumnValues] | None:
    if end is None:
        return None
    values = end if isinstance(end, tuple) else (end,)
    if not 1 <= len(values) <= len(columns):
        names = ", ".join(field.name for field in columns)
        raise InvalidArgumentError(f"between: expected values of the first key columns ({names}), not {shown(end)}")
    return [_end(value, field) for value, field in zip(values, columns, strict=False)]


def _end(value: Any, field: pa.Field) -> ColumnValues:
    if type(value) is int or type(value) is str:
        return one_value(value, field)
    if is_nan(value) or (value is not None and is_missing(value)):
        name = "NaN" if is_nan(value) else value
        raise InvalidArgumentError(f"between: {name} is not a valid end; use None for an open end")
    return one_value(value, field)


def set_values(names: Any, schema: pa.Schema, set_column: str | None) -> pa.Array:
    """Return one set's name, or several, as values of the set column."""
    if set_column is None:
        raise InvalidArgumentError("the table has no set column; use create_table(..., set=column) to have sets")
    listed = list(names) if isinstance(names, list | tuple | set | frozenset) else [names]
    for name in listed:
        if is_missing(name):
            raise InvalidArgumentError(f"set: {name} is not a set; use drillcore.NULL for the rows without a value")
    return to_array([None if name is NULL else name for name in listed], schema.field(set_column))


def _key_columns_of(keys: Any, columns: Sequence[pa.Field]) -> list[pa.Array]:
    """The key columns of Arrow data; the engine casts them where no value changes."""
    is_series, column = is_pandas_series(keys), column_of("keys", keys)
    if is_series or column is not None:
        if len(columns) != 1:
            raise InvalidArgumentError(f"keys: the key has {len(columns)} columns; give a table with all of them")
        if column is not None:
            return [_key_column(column, columns[0])]
        keys = keys.to_frame(columns[0].name)
    table = from_pandas(keys, pa.schema(columns)) if is_pandas(keys) else to_table("keys", keys)
    given = [field for field in columns if field.name in table.column_names]
    for field, expected in zip(given, columns, strict=False):
        if table.column_names.count(field.name) > 1:
            raise InvalidArgumentError(f"keys: the key column {in_quotes(field.name)} appears twice; remove one")
        if field.name != expected.name:
            raise InvalidArgumentError(f"keys: the key column {in_quotes(expected.name)} is missing; add it")
    if not given:
        raise InvalidArgumentError(f"keys: the key column {in_quotes(columns[0].name)} is missing; add it")
    return [_key_column(table.column(field.name), field) for field in given]


def _key_column(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    if pa.types.is_decimal(field.type) and pa.types.is_decimal(column.type):
        try:
            column = column.cast(field.type)
        except pa.ArrowInvalid:
            fits = f"{field.type.precision} digits, {field.type.scale} of them after the decimal point"
            raise InvalidArgumentError(
                f"keys: column {in_quotes(field.name)} ({type_name(field.type)}): a key has more than {fits}"
            ) from None
    return column.combine_chunks()


def _key_rows(keys: Any, columns: Sequence[pa.Field]) -> list[Sequence[Any]]:
    try:
        # Arrays of no dimension are iterable by their class alone.
        each = None if isinstance(keys, str | bytes | Mapping) else iter(keys)
    except TypeError:
        each = None
    if each is None:
        raise InvalidTypeError(f"keys: expected a list of keys or Arrow data, not {type(keys).__name__}")
    rows = list(each)
    if len(columns) == 1:
        rows = [row if isinstance(row, tuple) else (row,) for row in rows]
    for row in rows:
        if not isinstance(row, tuple | list) or not 1 <= len(row) <= len(columns):
            raise InvalidArgumentError(_not_a_key("keys", row, columns))
        if len(row) != len(rows[0]):
            raise InvalidArgumentError(
                f"keys: {shown(row)} has {len(row)} values, but {shown(rows[0])} has {len(rows[0])}"
            )
    return rows


def _not_a_key(argument: str, key: Any, columns: Sequence[pa.Field]) -> str:
    names = ", ".join(field.name for field in columns)
    values = "1 value" if len(columns) == 1 else f"{len(columns)} values"
    return f"{argument}: expected a tuple of {values} ({names}), not {shown(key)}"
