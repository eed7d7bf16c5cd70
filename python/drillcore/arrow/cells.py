"""Python values as Arrow arrays of a column's type.

Conversion never changes a value. What the type cannot hold is an error that names the column and the value, in words
of our own, and a datetime without a zone is refused where the column has one. Only floats are rounded, to the nearest
of a narrower float, as everywhere. Numpy's scalars count as Python's own, and the marks of a missing value as ``None``.
In a frame of pandas, NaN is such a mark, too.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from numbers import Integral, Rational, Real
from operator import attrgetter
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes, shown
from drillcore.arrow.arrow_data import NO_ARROW_FORM
from drillcore.arrow.type_names import type_name
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError

_Rule = tuple[frozenset[type], Callable[[Any], Any]]
"""The types of values that pyarrow takes unchanged or refuses, and what makes another value one of these."""


class _MisfitError(ValueError):
    """A value that the column cannot hold; the text says why."""


class _WrongTypeError(TypeError):
    """A value of a type that the column cannot hold; the text says why."""


def to_array(values: Sequence[Any], field: pa.Field, *, place: str = "", nan_is_null: bool = False) -> pa.Array:
    """Return ``values`` as an array of the type of ``field``.

    Timestamps may be given as text with an offset, ``"2013-07-04T09:00-04:00"``, or without one where the
    column has no zone. ``place`` is what the values come from, one each: an error begins with it and the position.
    ``nan_is_null`` stores null for floats that are NaN.

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
        return _array(values, field.type, nan_is_null)
    except NO_ARROW_FORM:
        raise _first_refusal(values, field, place, nan_is_null) from None


def refusals(values: Sequence[Any], field: pa.Field, *, nan_is_null: bool = False) -> dict[int, Error]:
    """Return the errors of those of ``values`` that the column cannot hold, by their positions.

    Halves of the values are tried, so that the time grows with the number of errors.

    Examples
    --------
    >>> refusals(["a", 5, "b"], pa.field("name", pa.string()))
    {1: InvalidTypeError('column "name" (string): 5 is not a string')}
    """
    found: dict[int, Error] = {}
    parts = [(0, len(values))]
    while parts:
        first, end = parts.pop()
        try:
            _array(values[first:end], field.type, nan_is_null)
        except NO_ARROW_FORM:
            middle = (first + end) // 2
            if middle > first:
                parts += [(middle, end), (first, middle)]
            else:
                found[first] = _first_refusal(values[first:end], field, "", nan_is_null)
    return found


def _array(values: Sequence[Any], kind: pa.DataType, nan_is_null: bool) -> pa.Array:
    taken, convert = _rule(kind)
    types = set(map(type, values)) - {type(None)}
    if nan_is_null or not types <= taken:
        values = without_marks(values, nan_is_null=nan_is_null)
        types = set(map(type, values)) - {type(None)}
    if pa.types.is_timestamp(kind) and types == {str}:
        return pa.array(values, type=pa.string()).cast(kind)
    if pa.types.is_timestamp(kind) and _are_datetimes(values, types, kind):
        taken = frozenset(types)
    if not types <= taken:
        values = [None if value is None else convert(value) for value in map(plain, values)]
    return pa.array(values, type=kind, from_pandas=False)


def _are_datetimes(values: Sequence[Any], types: AbstractSet[type], kind: pa.TimestampType) -> bool:
    """Whether ``values`` are datetimes of one class, perhaps that of pandas, that pyarrow takes unchanged."""
    is_of_pandas = len(types) == 1 and all(map(_is_pandas_time, types))
    if (types != {dt.datetime} and not is_of_pandas) or kind.unit not in ("us", "ns"):
        return False
    times, is_naive = [value for value in values if value is not None], kind.tz is None
    if any((zone is None) != is_naive for zone in map(attrgetter("tzinfo"), times)):
        return False
    if not is_of_pandas:
        return True
    if kind.unit == "us" and any(map(attrgetter("nanosecond"), times)):
        return False
    return all(dt.MINYEAR <= year <= dt.MAXYEAR for year in map(attrgetter("year"), times))


def _first_refusal(values: Sequence[Any], field: pa.Field, place: str, nan_is_null: bool) -> Error:
    """Return the error for the first of ``values`` that is not taken."""
    for position, value in enumerate(values):
        where = f"{place} {position}: " if place else ""
        start = f"{where}column {in_quotes(field.name)} ({type_name(field.type)}): "
        try:
            _array([value], field.type, nan_is_null)
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
    is_a, value = pa.types, plain(value)
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
    text = value if isinstance(value, str) else _scalar_text(value) or _numpy_time(value)
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
    return plain(value) is None


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
        if not (pa.types.is_timestamp(kind) or pa.types.is_list(kind)):
            _RULES[kind.id] = rule
    return rule


_RULES: dict[int, _Rule] = {}
"""The rules of types that were met, by their number, which all types of one rule share but for timestamps and lists."""


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
    if is_a.is_list(kind) and is_a.is_string(kind.value_type):
        return frozenset(), _texts
    return frozenset(), lambda value: value  # no table has such a column


def without_marks(values: Sequence[Any], *, nan_is_null: bool) -> Sequence[Any]:
    """Return ``values`` with ``None`` for each mark of a missing value.

    Examples
    --------
    >>> without_marks([1.5, float("nan")], nan_is_null=True)
    [1.5, None]
    """
    types = set(map(type, values))
    marks = {kind for kind in types if _is_mark(kind)}
    floats = {kind for kind in types if nan_is_null and _is_float(kind)}
    if not marks and not floats:
        return values
    return [None if type(one) in marks or (type(one) in floats and one != one) else one for one in values]


def _is_mark(kind: type) -> bool:
    """Whether values of a class say that there is none: those of pandas."""
    return kind.__name__ in ("NaTType", "NAType") and kind.__module__.split(".")[0] == "pandas"


def _is_pandas_time(kind: type) -> bool:
    return kind.__name__ == "Timestamp" and kind.__module__.split(".")[0] == "pandas"


def _is_float(kind: type) -> bool:
    """Whether NaN may be of a class; that of a decimal is no mark of a missing value."""
    return issubclass(kind, Real) and not issubclass(kind, Rational)


def plain(value: Any) -> Any:
    """Return a scalar of numpy or pyarrow as Python's own, and a mark of a missing value as ``None``.

    Times of numpy and pyarrow stay as they are: a datetime has no nanoseconds, and not all years.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, pa.Scalar):
        return _plain_scalar(value)
    if _is_mark(type(value)):
        return None
    if type(value).__module__.split(".")[0] != "numpy" or getattr(value, "shape", None) != ():
        return value
    if type(value).__name__ == "datetime64":
        # What `item` gives depends on the unit.
        return None if str(value) == "NaT" else value
    return value.item()


_PLAIN = frozenset([bool, int, float, str, bytes, list, tuple, dt.date, dt.datetime, decimal.Decimal, type(None)])
"""Classes whose values are what they are, looked up first because most values are of one."""


def _plain_scalar(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return value
    try:
        return value.as_py()
    except NO_ARROW_FORM:
        return value  # a date or a duration beyond those of Python


def _scalar_text(value: Any) -> str | None:
    """The text of a timestamp of pyarrow; ``None`` for other values, and for those beyond the years that have one."""
    if not isinstance(value, pa.TimestampScalar):
        return None
    try:
        text: str = value.cast(pa.string()).as_py()
    except NO_ARROW_FORM:
        return None
    return None if text.startswith("<") else text


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
    if type(value) is list and set(map(type, value)) <= _TEXTS:
        return value
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
    if isinstance(value, pa.TimestampScalar):
        _check_zone(_scalar_text(value) or shown(value), value.type.tz, kind, "cast it")
        return value.cast(kind).value
    if not isinstance(value, dt.datetime):
        raise _WrongTypeError(f"{shown(value)} is not a datetime")
    advice = "give it one, as in datetime(..., tzinfo=timezone.utc)" if kind.tz else "remove its tzinfo"
    _check_zone(value.isoformat(), value.tzinfo, kind, advice)
    if not dt.MINYEAR <= value.year <= dt.MAXYEAR:
        # Of pandas, which has more years; pyarrow takes them for others.
        far: Any = value
        return pa.scalar(int(far.asm8.view("i8")), pa.timestamp(far.unit)).cast(pa.timestamp(kind.unit)).value
    is_finer = value.microsecond % {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
    # Pandas counts nanoseconds apart.
    if is_finer or (kind.unit != "ns" and getattr(value, "nanosecond", 0)):
        raise _MisfitError(f"{value.isoformat()} is finer than the unit of the column, {kind.unit}; round it")
    return value


_TEXTS = frozenset([str, type(None)])


def _check_zone(text: str, zone: Any, kind: pa.TimestampType, advice: str) -> None:
    if (zone is None) != (kind.tz is None):
        wanted = f"the time zone {kind.tz}" if kind.tz else "no time zone"
        raise _MisfitError(f"the column has {wanted}, but {text} has {zone or 'none'}; {advice}")
