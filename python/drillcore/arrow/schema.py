"""Schemas as callers write them, turned into Arrow schemas.

A schema is a ``pyarrow.Schema``, a dict from column name to type name, or Arrow data whose schema is taken.
Which types a table can hold is the engine's to say.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import check_encodable, check_no_nul, in_quotes, shown
from drillcore.arrow.arrow_data import check_polars, is_pandas, is_polars
from drillcore.arrow.pandas_frame import from_pandas
from drillcore.errors import InvalidArgumentError, InvalidTypeError

TYPE_NAMES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date32": pa.date32(),
    "list<string>": pa.list_(pa.string()),
}

_USUAL_NAMES = {
    "int": "int64",
    "integer": "int64",
    "long": "int64",
    "float": "float64",
    "double": "float64",
    "str": "string",
    "text": "string",
    "datetime": "timestamp[us]",
    "timestamp": "timestamp[us]",
    "boolean": "bool",
    "date": "date32",
}
"""Names that other libraries and languages have for types, and those that are meant."""

_TIMESTAMP = re.compile(r"timestamp\[\s*(s|ms|us|ns)\s*(?:,\s*(?:tz=)?([^\]]+?)\s*)?\]")
_OFFSET = re.compile(r"[+-]\d\d:\d\d")
_DECIMAL = re.compile(r"decimal128\(\s*([0-9]{1,9})\s*,\s*(-?[0-9]{1,9})\s*\)")

_DIGITS_MAX = 38


def parse_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema that ``schema`` means.

    Parameters
    ----------
    schema
        A ``pyarrow.Schema``; a dict from column name to type name or ``pyarrow.DataType``, all columns
        nullable; or any Arrow data, such as a pyarrow table, a polars or a pandas data frame.

    Raises
    ------
    InvalidTypeError
        If ``schema`` is none of these.
    InvalidArgumentError
        If a type name or a time zone is unknown, or if a decimal cannot have that precision or scale.

    Examples
    --------
    >>> print(parse_schema({"ts": "timestamp[us, America/New_York]", "delay": "float64"}))
    ts: timestamp[us, tz=America/New_York]
    delay: double
    """
    if isinstance(schema, Mapping):
        fields = [pa.field(name, parse_type(name, kind)) for name, kind in schema.items()]
        return pa.schema(fields)
    found = _schema_of(schema)
    for field in found:
        check_no_nul("column name", field.name)
        _check_zone(field.name, field.type)
    return pa.schema([field.with_type(plain_type(field.type)) for field in found])


def parse_type(column: str, kind: Any) -> pa.DataType:
    """Return the Arrow type named ``kind``; ``column`` is for the message.

    Raises
    ------
    InvalidArgumentError
        If no type, or no time zone, has that name, or if a decimal cannot have that precision or scale.

    Examples
    --------
    >>> parse_type("delay", "float64")
    DataType(double)
    >>> parse_type("delay", "flaot64")
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: column "delay": unknown type "flaot64"; did you mean "float64"?
    """
    if not isinstance(column, str):
        raise InvalidTypeError(f"column names must be strings, not {shown(column)}")
    check_no_nul("column name", check_encodable("column name", column))
    if isinstance(kind, pa.DataType):
        _check_zone(column, kind)
        return plain_type(kind)
    if not isinstance(kind, str):
        raise InvalidTypeError(
            f"column {in_quotes(column)}: expected a type name or a pyarrow.DataType, not {shown(kind)}"
        )
    if kind in TYPE_NAMES:
        return TYPE_NAMES[kind]
    if matched := _TIMESTAMP.fullmatch(kind):
        check_encodable("time zone", kind)
        timestamp = pa.timestamp(matched[1], matched[2])
        _check_zone(column, timestamp)
        return timestamp
    if matched := _DECIMAL.fullmatch(kind):
        return _decimal(column, int(matched[1]), int(matched[2]))
    names = [*TYPE_NAMES, "timestamp[us]", "decimal128(10, 2)"]
    usual = _USUAL_NAMES.get(kind.lower())
    near = [usual] if usual else difflib.get_close_matches(kind, names, n=1)
    every = f"{', '.join(TYPE_NAMES)}, timestamp[us, zone] or decimal128(10, 2)"
    hint = f"did you mean {in_quotes(near[0])}?" if near else f"expected {every}"
    raise InvalidArgumentError(f"column {in_quotes(column)}: unknown type {in_quotes(kind)}; {hint}")


def _decimal(column: str, precision: int, scale: int) -> pa.DataType:
    if not 1 <= precision <= _DIGITS_MAX:
        raise InvalidArgumentError(
            f"column {in_quotes(column)}: the precision of a decimal must be from 1 to {_DIGITS_MAX}, got {precision}"
        )
    if not 0 <= scale <= precision:
        raise InvalidArgumentError(
            f"column {in_quotes(column)}: the scale of a decimal must be from 0 to its precision, {precision}, "
            f"got {scale}"
        )
    return pa.decimal128(precision, scale)


def _schema_of(data: Any) -> pa.Schema:
    if isinstance(data, pa.Schema):
        return data
    if is_pandas(data):
        return from_pandas(data, pa.schema([])).schema
    if is_polars(data):
        check_polars(data)
    if isinstance(schema := getattr(data, "schema", None), pa.Schema):
        return schema
    try:
        if hasattr(data, "__arrow_c_schema__"):
            return pa.schema(data)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).schema
        if hasattr(data, "__arrow_c_array__"):
            return pa.schema(pa.array(data).type)
    except pa.ArrowInvalid:
        pass  # one column, or one type
    raise InvalidTypeError(
        "schema: expected a pyarrow.Schema, a dict from column name to type name, or Arrow data, "
        f"not {type(data).__name__}"
    )


def _check_zone(column: str, kind: pa.DataType) -> None:
    """Refuse a time zone that rows could not be shown in."""
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    if zone is None or _OFFSET.fullmatch(zone):
        return
    try:
        zoneinfo.ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        if not known:
            return  # This system has no zones at all, and the table may be for another.
        folded = {name.casefold(): name for name in known}
        near = difflib.get_close_matches(zone.casefold(), folded, n=1)
        hint = (
            f"did you mean {in_quotes(folded[near[0]])}?"
            if near
            else 'use a name such as "UTC", "Europe/Oslo" or "+01:00"'
        )
        raise InvalidArgumentError(f"column {in_quotes(column)}: unknown time zone {in_quotes(zone)}; {hint}") from None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type a table stores for ``kind``: the ways to lay out strings, binary and lists are one type."""
    is_a = pa.types
    if is_a.is_dictionary(kind):
        kind = kind.value_type
    if is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return pa.string()
    if is_a.is_large_binary(kind) or is_a.is_binary_view(kind) or is_a.is_fixed_size_binary(kind):
        return pa.binary()
    is_list = is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind)
    if is_list and plain_type(kind.value_type) == pa.string():
        return pa.list_(pa.string())
    return kind
