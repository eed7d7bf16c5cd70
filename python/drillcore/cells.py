"""Python values as Arrow arrays of a column's type.

Conversion never changes a value. What the type cannot hold is an error that names the column and the value, and a
datetime without a zone is refused where the column has one. Only floats are rounded, to the nearest of a narrower
float, as everywhere. Numpy's scalars count as Python's own, and the marks of a missing value as ``None``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from drillcore.errors import InvalidArgumentError, InvalidTypeError
from drillcore.names import shown

_Rule = tuple[frozenset[type], Callable[[Any], Any]]
"""The types of values that pyarrow takes unchanged or refuses, and what makes another value one of these."""


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
    >>> to_array([1, None, 2.0], pa.field("flight", pa.int64())).to_pylist()
    [1, None, 2]
    >>> to_array(["x"], pa.field("flight", pa.int64()))
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: column 'flight' (int64): 'x' is no number
    """
    kind = field.type
    try:
        types = set(map(type, values)) - {type(None)}
        if pa.types.is_timestamp(kind) and types == {str}:
            return pa.array(values, type=pa.string()).cast(kind)
        taken, convert = _rule(kind)
        if not types <= taken:
            plain = (_plain(value) for value in values)
            values = [None if value is None else convert(value) for value in plain]
        return pa.array(values, type=kind, from_pandas=False)
    except (TypeError, NotImplementedError) as error:
        # The second is pyarrow's, of a pair of types that it cannot turn into each other: the value is of a wrong type.
        raise InvalidTypeError(f"column {field.name!r} ({kind}): {error}") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidArgumentError(f"column {field.name!r} ({kind}): {error}") from None


def is_missing(value: Any) -> bool:
    """Whether ``value`` is ``None`` or a mark of pandas or numpy for a value that is not there."""
    return _plain(value) is None


def is_nan(value: Any) -> bool:
    """Whether ``value`` is a number that is none."""
    return value.is_nan() if isinstance(value, decimal.Decimal) else isinstance(value, Real) and math.isnan(value)


def _rule(kind: pa.DataType) -> _Rule:
    is_a = pa.types
    if is_a.is_boolean(kind):
        return frozenset([bool]), _bool
    if is_a.is_integer(kind):
        return frozenset([int]), _whole_number
    if is_a.is_float64(kind):
        return frozenset([int, float]), _number
    if is_a.is_floating(kind):
        return frozenset(), _narrow_number
    if is_a.is_decimal(kind):
        return frozenset([int, decimal.Decimal]), _decimal
    if is_a.is_string(kind):
        return frozenset([str]), _text
    if is_a.is_binary(kind):
        return frozenset([bytes]), _bytes
    if is_a.is_date(kind):
        return frozenset([dt.date]), _date
    if is_a.is_timestamp(kind):
        return frozenset(), lambda value: _moment(value, kind)
    if is_a.is_list(kind):
        return frozenset(), _texts
    return frozenset(), lambda value: value  # no table has such a column


def _plain(value: Any) -> Any:
    """A scalar of numpy or pyarrow as Python's own, and a mark of a missing value as ``None``."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    package, name = type(value).__module__.split(".")[0], type(value).__name__
    if package == "pandas" and name in ("NaTType", "NAType"):
        return None
    if package != "numpy" or getattr(value, "shape", None) != ():
        return value
    if name == "datetime64":
        # As it is: a datetime would lose nanoseconds, and what `item` gives depends on the unit.
        return None if str(value) == "NaT" else value
    return value.item()


def _numpy_time(value: Any) -> str | None:
    """The text of a numpy datetime, with no digits that say nothing; ``None`` for other values."""
    if type(value).__name__ != "datetime64":
        return None
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is no bool")
    return value


def _whole_number(value: Any) -> int:
    if isinstance(value, Integral):
        return int(_not_bool(value))
    if not isinstance(value, Real | decimal.Decimal):
        raise ValueError(f"{shown(value)} is no number")
    if not math.isfinite(value) or int(value) != value:
        raise ValueError(f"{shown(value)} is not a whole number")
    return int(value)


def _number(value: Any) -> int | float:
    if isinstance(value, float):
        return value
    if isinstance(value, Integral):
        return int(_not_bool(value))
    if not isinstance(value, Real | decimal.Decimal):
        raise ValueError(f"{shown(value)} is no number")
    number = float(value)
    if number != value and not is_nan(value):
        raise ValueError(f"{shown(value)} is between two floats; float() rounds it")
    return number


def _narrow_number(value: Any) -> int | float:
    number = _number(value)
    if isinstance(number, float):
        try:
            struct.pack("<f", number)  # in native order it would give infinity
        except OverflowError:
            raise ValueError(f"{number!r} is too large") from None
    return number


def _decimal(value: Any) -> int | decimal.Decimal:
    if isinstance(value, Integral):
        return int(_not_bool(value))
    if not isinstance(value, decimal.Decimal):
        raise TypeError(f"{shown(value)} is no Decimal")
    return value


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is a bool")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not text")
    return value


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        raise TypeError(f"{shown(value)} is text")
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{shown(value)} is not bytes")
    return bytes(value)


def _date(value: Any) -> dt.date:
    text = _numpy_time(value)
    if isinstance(value, dt.datetime) or (text and "T" in text):
        raise TypeError(f"{text or value.isoformat()} has a time of day")
    if text:
        return dt.date.fromisoformat(text)
    if not isinstance(value, dt.date):
        raise TypeError(f"{shown(value)} is no date")
    return value


def _texts(value: Any) -> list[str | None]:
    if isinstance(value, str | bytes):
        raise TypeError(f"{shown(value)} is text" if isinstance(value, str) else f"{shown(value)} is bytes")
    if not isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "tolist"):
        raise TypeError(f"{shown(value)} is no list of texts")
    items = value.tolist() if hasattr(value, "tolist") else value
    return [None if is_missing(item) else _text(item) for item in items]


def _moment(value: Any, kind: pa.TimestampType) -> dt.datetime | int:
    """A datetime, or the number that a text stands for in the column's unit."""
    text = value if isinstance(value, str) else _numpy_time(value)
    if text is not None:
        return pa.scalar(str(text), pa.string()).cast(kind).value
    if not isinstance(value, dt.datetime):
        raise TypeError(f"{shown(value)} is no datetime")
    if (value.tzinfo is None) != (kind.tz is None):
        wanted = f"the zone {kind.tz}" if kind.tz else "no zone"
        given = "none" if value.tzinfo is None else str(value.tzinfo)
        raise ValueError(f"the column has {wanted}, but {value.isoformat()} has {given}")
    is_finer = value.microsecond % {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
    # Pandas counts nanoseconds apart.
    if is_finer or (kind.unit != "ns" and getattr(value, "nanosecond", 0)):
        raise ValueError(f"{value.isoformat()} is finer than the column's unit")
    return value
