"""Python values as Arrow arrays of a column's type.

Conversion never changes a value. What the type cannot hold is an error that names the column and the value, in words
of our own, and a datetime without a zone is refused where the column has one. Only floats are rounded, to the nearest
of a narrower float, as everywhere. Numpy's scalars count as Python's own, and the marks of a missing value as ``None``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from numbers import Integral, Rational, Real
from typing import Any

import pyarrow as pa

from drillcore.arrow_data import NO_ARROW_FORM
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError
from drillcore.names import in_quotes, shown
from drillcore.type_names import type_name

_Rule = tuple[frozenset[type], Callable[[Any], Any]]
"""The types of values that pyarrow takes unchanged or refuses, and what makes another value one of these."""


class _MisfitError(ValueError):
    """A value that the column cannot hold; the text says why."""


class _WrongTypeError(TypeError):
    """A value of a type that the column cannot hold; the text says why."""


def to_array(values: Sequence[Any], field: pa.Field, *, place: str = "") -> pa.Array:
    """Return ``values`` as an array of the type of ``field``.

    Timestamps may be given as text with an offset, ``"2013-07-04T09:00-04:00"``, or without one where the
    column has no zone. ``place`` is what the values come from, one each: an error begins with it and the position.

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
    drillcore.errors.InvalidArgumentError: column "flight" (int64): 'x' is not a number
    """
    try:
        return _array(values, field.type)
    except NO_ARROW_FORM:
        raise _first_refusal(values, field, place) from None


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    types = set(map(type, values)) - {type(None)}
    if pa.types.is_timestamp(kind) and types == {str}:
        return pa.array(values, type=pa.string()).cast(kind)
    taken, convert = _rule(kind)
    if types == _DATETIMES and _takes_all_datetimes(kind):
        is_naive = kind.tz is None
        if all(value is None or (value.tzinfo is None) == is_naive for value in values):
            taken = _DATETIMES
    if not types <= taken:
        plain = (_plain(value) for value in values)
        values = [None if value is None else convert(value) for value in plain]
    return pa.array(values, type=kind, from_pandas=False)


_DATETIMES = frozenset([dt.datetime])


def _takes_all_datetimes(kind: pa.DataType) -> bool:
    """Whether no datetime is finer than the type."""
    return pa.types.is_timestamp(kind) and kind.unit in ("us", "ns")


def _first_refusal(values: Sequence[Any], field: pa.Field, place: str) -> Error:
    """Return the error for the first of ``values`` that is not taken."""
    for position, value in enumerate(values):
        where = f"{place} {position}: " if place else ""
        start = f"{where}column {in_quotes(field.name)} ({type_name(field.type)}): "
        try:
            _array([value], field.type)
        except _MisfitError as error:
            return InvalidArgumentError(f"{start}{error}")
        except _WrongTypeError as error:
            return InvalidTypeError(f"{start}{error}")
        except NO_ARROW_FORM:
            # The words of pyarrow, or of Python, are about their own types.
            return InvalidArgumentError(f"{start}{_why(value, field.type)}")
    return InvalidArgumentError(
        f"column {in_quotes(field.name)} ({type_name(field.type)}): too many values; append in smaller batches"
    )


def _why(value: Any, kind: pa.DataType) -> str:
    """Return why there is no array of ``kind`` with ``value``."""
    is_a, value = pa.types, _plain(value)
    if is_a.is_integer(kind) and isinstance(value, Integral):
        low = -(2 ** (kind.bit_width - 1)) if is_a.is_signed_integer(kind) else 0
        return f"{shown(value)} is out of range; use {low} to {low + 2**kind.bit_width - 1}"
    if is_a.is_integer(kind):
        return f"{shown(value)} is not a whole number"
    if is_a.is_floating(kind):
        return f"{shown(value)} is not a float"
    if is_a.is_decimal(kind):
        digits = f"{kind.precision} digits, {kind.scale} of them after the decimal point"
        return f"{shown(value)} does not fit; use up to {digits}"
    if is_a.is_timestamp(kind):
        return _why_no_time(value, kind)
    if is_a.is_string(kind) or is_a.is_list(kind) or is_a.is_large_list(kind):
        return f"{shown(value)} cannot be encoded as UTF-8; remove lone surrogates"
    return f"{shown(value)} does not fit"


def _why_no_time(value: Any, kind: pa.TimestampType) -> str:
    """Return why ``value``, a datetime or a text, is none of the times of ``kind``."""
    text = value if isinstance(value, str) else _numpy_time(value)
    if text is None:
        return f"{shown(value)} is out of range of a timestamp in {kind.unit}; use a column with a larger unit"
    if _is_time(text, pa.timestamp(kind.unit, None if kind.tz else "UTC")):
        if kind.tz:
            return f"{shown(text)} has no offset; add one, as in '2013-07-04T09:00:00Z' or '2013-07-04T09:00:00+01:00'"
        return f"{shown(text)} has an offset, but the column has no time zone; remove the offset"
    if _is_time(text, pa.timestamp("ns", kind.tz)):
        return f"{shown(text)} is finer than the unit of the column, {kind.unit}; round it"
    if _is_time(text, pa.timestamp("s", kind.tz)):
        return f"{shown(text)} is out of range of a timestamp in {kind.unit}; use a column with a larger unit"
    return f"{shown(text)} is not a time, such as '2013-07-04T09:00:00'"


def _is_time(text: str, kind: pa.TimestampType) -> bool:
    try:
        pa.scalar(text, pa.string()).cast(kind)
    except NO_ARROW_FORM:
        return False
    return True


def is_missing(value: Any) -> bool:
    """Return whether ``value`` is ``None`` or a missing value of pandas or numpy."""
    return _plain(value) is None


def is_nan(value: Any) -> bool:
    """Return whether ``value`` is NaN."""
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    # Whole numbers and fractions may be beyond all floats.
    return isinstance(value, Real) and not isinstance(value, Rational) and math.isnan(value)


def _rule(kind: pa.DataType) -> _Rule:
    rule = _RULES.get(kind.id)
    if rule is None:
        rule = _rule_of(kind)
        if not pa.types.is_timestamp(kind):
            _RULES[kind.id] = rule
    return rule


_RULES: dict[int, _Rule] = {}
"""The rules of types that were met, by their number, which all types of one rule share but for timestamps."""


def _rule_of(kind: pa.DataType) -> _Rule:
    is_a = pa.types
    if is_a.is_boolean(kind):
        return frozenset([bool]), _bool
    if is_a.is_integer(kind):
        return frozenset([int]), _whole_number
    if is_a.is_float64(kind):
        return frozenset([float]), _number
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
        raise _MisfitError(f"{shown(value)} is not a bool")
    return value


def _whole_number(value: Any) -> int:
    if isinstance(value, Integral):
        return int(_not_bool(value))
    if not isinstance(value, Real | decimal.Decimal):
        raise _MisfitError(f"{shown(value)} is not a number")
    # Not all of these can become an integer in the eyes of a type checker.
    number: Any = value
    if not math.isfinite(number) or int(number) != number:
        raise _MisfitError(f"{shown(value)} is not a whole number")
    return int(number)


def _number(value: Any) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value, Real | decimal.Decimal):
        raise _MisfitError(f"{shown(value)} is not a number")
    try:
        number = float(_not_bool(value))
    except OverflowError:
        raise _MisfitError(f"{shown(value)} is out of range of a float") from None
    if number != value and not is_nan(value):
        raise _MisfitError(f"{shown(value)} is not exactly a float; use float() to round it")
    return number


def _narrow_number(value: Any) -> float:
    number = _number(value)
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", number))[0]  # in native order it would give infinity
    except OverflowError:
        raise _MisfitError(f"{shown(value)} is out of range of a 32-bit float") from None
    if isinstance(value, Integral) and narrow != value:
        raise _MisfitError(f"{shown(value)} is not exactly a 32-bit float; use float() to round it")
    return number


def _decimal(value: Any) -> int | decimal.Decimal:
    if isinstance(value, Integral):
        return int(_not_bool(value))
    if not isinstance(value, decimal.Decimal):
        raise _WrongTypeError(f"{shown(value)} is not a Decimal")
    return value


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise _WrongTypeError(f"{value!r} is a bool, not a number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongTypeError(f"{shown(value)} is not a string")
    return value


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        raise _WrongTypeError(f"{shown(value)} is a string, not bytes")
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _WrongTypeError(f"{shown(value)} is not bytes")
    return bytes(value)


def _date(value: Any) -> dt.date:
    text = _numpy_time(value)
    if isinstance(value, dt.datetime) or (text and "T" in text):
        raise _WrongTypeError(f"{text or value.isoformat()} has a time of day; use a date")
    if text:
        return dt.date.fromisoformat(text)
    if not isinstance(value, dt.date):
        raise _WrongTypeError(f"{shown(value)} is not a date")
    return value


def _texts(value: Any) -> list[str | None]:
    if isinstance(value, str | bytes):
        kind = "a string" if isinstance(value, str) else "bytes"
        raise _WrongTypeError(f"{shown(value)} is {kind}, not a list of strings")
    if not isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "tolist"):
        raise _WrongTypeError(f"{shown(value)} is not a list of strings")
    items = value.tolist() if hasattr(value, "tolist") else value
    return [None if is_missing(item) else _text(item) for item in items]


def _moment(value: Any, kind: pa.TimestampType) -> dt.datetime | int:
    """A datetime, or the number that a text stands for in the column's unit."""
    text = value if isinstance(value, str) else _numpy_time(value)
    if text is not None:
        return pa.scalar(str(text), pa.string()).cast(kind).value
    if not isinstance(value, dt.datetime):
        raise _WrongTypeError(f"{shown(value)} is not a datetime")
    if (value.tzinfo is None) != (kind.tz is None):
        wanted = f"the time zone {kind.tz}" if kind.tz else "no time zone"
        given = "none" if value.tzinfo is None else str(value.tzinfo)
        advice = "give it one, as in datetime(..., tzinfo=timezone.utc)" if kind.tz else "remove its tzinfo"
        raise _MisfitError(f"the column has {wanted}, but {value.isoformat()} has {given}; {advice}")
    is_finer = value.microsecond % {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
    # Pandas counts nanoseconds apart.
    if is_finer or (kind.unit != "ns" and getattr(value, "nanosecond", 0)):
        raise _MisfitError(f"{value.isoformat()} is finer than the unit of the column, {kind.unit}; round it")
    return value
