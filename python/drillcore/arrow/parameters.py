"""Parameters of queries: Python values as Arrow arrays of one value."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import check_encodable, check_name, in_quotes, shown
from drillcore.arrow.arrow_data import NO_ARROW_FORM
from drillcore.arrow.cells import is_missing, to_array
from drillcore.arrow.new_column import type_of
from drillcore.errors import InvalidArgumentError, InvalidTypeError

Parameters = Sequence[Any] | Mapping[str, Any]
"""The values of ``?`` as a list, or those of ``$name`` as a dict."""

NativeParameters = list[pa.Array] | list[tuple[str, pa.Array]]

_TYPES = "None, bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal or a pyarrow scalar"
_DIGITS_MAX = 38


def parse_parameters(parameters: Any) -> NativeParameters | None:
    """Return the parameters of a query in the form the native layer takes.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If a value has no type in SQL, or these are neither a list nor a dict.

    Examples
    --------
    >>> [value.type for value in parse_parameters([1, "a", None])]
    [DataType(int64), DataType(string), DataType(null)]
    >>> parse_parameters({"low": [1]})
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidTypeError: parameter "low": [1] is a list; use one placeholder for each value
    """
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        names = [check_name("parameters", name) for name in parameters]
        return [(name, _array(f"parameter {in_quotes(name)}", parameters[name])) for name in names] or None
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InvalidTypeError(
            f"parameters: expected a list of values for ?, or a dict for $name, not {shown(parameters)}"
        )
    return [_array(f"parameter {place}", value) for place, value in enumerate(parameters, 1)] or None


def _array(name: str, value: Any) -> pa.Array:
    if isinstance(value, pa.Scalar):
        return pa.array([value.as_py()], pa.null()) if not value.is_valid else pa.repeat(value, 1)
    try:
        return _of_python(name, value)
    except NO_ARROW_FORM as error:
        if isinstance(error, InvalidTypeError | InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"{name}: {shown(value)} does not fit a type of SQL: {error}") from None


def _of_python(name: str, value: Any) -> pa.Array:
    if is_missing(value):
        return pa.nulls(1)
    if getattr(value, "shape", None) == () and type(value).__module__.split(".")[0] == "numpy":
        # A scalar of numpy keeps its type.
        return pa.array(value.reshape(1))
    if isinstance(value, bool | float):
        return pa.array([value])
    if isinstance(value, Integral):
        return _whole_number(name, int(value))
    if isinstance(value, str):
        return pa.array([check_encodable(name, value)])
    if isinstance(value, bytes | bytearray | memoryview):
        return pa.array([bytes(value)])
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise InvalidArgumentError(f"{name}: {shown(value)} is not a finite decimal; use a float")
        return pa.array([value])
    if isinstance(value, dt.date | dt.time | dt.timedelta):
        return to_array([value], pa.field(name, type_of([value])))
    if isinstance(value, list | tuple | set | frozenset):
        kind = type(value).__name__
        raise InvalidTypeError(f"{name}: {shown(value)} is a {kind}; use one placeholder for each value")
    raise InvalidTypeError(f"{name}: expected {_TYPES}, not {shown(value)}")


def _whole_number(name: str, value: int) -> pa.Array:
    """The narrowest of the types that literals of whole numbers have; beyond these, a decimal."""
    if -(2**63) <= value < 2**63:
        return pa.array([value], pa.int64())
    if 0 <= value < 2**64:
        return pa.array([value], pa.uint64())
    if abs(value) >= 10**_DIGITS_MAX:
        raise InvalidArgumentError(
            f"{name}: {shown(value)} has more than {_DIGITS_MAX} digits; use a float or a string"
        )
    return pa.array([decimal.Decimal(value)], pa.decimal128(_DIGITS_MAX, 0))
