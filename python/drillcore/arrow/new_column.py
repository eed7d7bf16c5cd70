"""Columns that a table does not have yet: the type that values make, as dimensions on the way and frames need it.

Pyarrow finds a type for most values, but the type need not hold all of them unchanged. So values become an array of the
type as those of a column do: each unchanged, or an error that names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes, shown
from drillcore.arrow.arrow_data import NO_ARROW_FORM
from drillcore.arrow.cells import is_missing, plain, to_array, without_marks
from drillcore.errors import Error, InvalidArgumentError


def type_of(values: Sequence[Any]) -> pa.DataType | None:
    """Return the type that all of ``values`` have, or else the first of them has; ``None`` if Arrow has none.

    Examples
    --------
    >>> type_of([1, None, 2.5]), type_of([2**63, 1]), type_of([1, "x"]), type_of([object()])
    (DataType(double), DataType(uint64), DataType(int64), None)
    """
    given = [value for value in map(plain, values) if value is not None]
    if not given:
        return pa.null()
    kind = _common_type(given) or _common_type(given[:1])
    if kind is not None and pa.types.is_timestamp(kind) and any(getattr(value, "nanosecond", 0) for value in given):
        return pa.timestamp("ns", kind.tz)
    if kind is not None and pa.types.is_duration(kind) and any(getattr(value, "nanoseconds", 0) for value in given):
        return pa.duration("ns")
    return kind


def new_array(values: Sequence[Any], name: str, *, place: str = "", nan_is_null: bool = False) -> pa.Array:
    """Return ``values`` as an array of the type that they have; the arguments are those of :func:`to_array`.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If the values have no type together.

    Examples
    --------
    >>> new_array([2.5, True], "load", place="row")
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidTypeError: row 1: column "load" (float64): True is a bool, not a number; all values of ...
    """
    field = new_field(name, values, place=place, nan_is_null=nan_is_null)
    try:
        return to_array(values, field, place=place, nan_is_null=nan_is_null)
    except Error as error:
        raise type(error)(f"{error}; all values of a new column must have one type") from None


def new_field(name: str, values: Sequence[Any], *, place: str = "", nan_is_null: bool = False) -> pa.Field:
    """Return the column that ``values`` make: if they have no type together, that of the first of them.

    Raises
    ------
    InvalidArgumentError
        If Arrow has no type for the first of them.
    """
    values = without_marks(values, nan_is_null=nan_is_null)
    kind = type_of(values)
    if kind is not None:
        return pa.field(name, kind)
    position, value = next((at, value) for at, value in enumerate(values) if not is_missing(value))
    where = f"{place} {position}: " if place else ""
    raise InvalidArgumentError(
        f"{where}column {in_quotes(name)}: {shown(value)} is of type {type(value).__name__}, which Arrow does not "
        "support; convert it, or leave the column out"
    )


def _common_type(values: Sequence[Any]) -> pa.DataType | None:
    if all(isinstance(value, Integral) and not isinstance(value, bool) for value in values):
        return pa.int64() if all(value < 2**63 for value in values) else pa.uint64()
    classes = set(map(type, values))
    if len(classes) == 1 and isinstance(values[0], pa.Scalar):
        return values[0].type
    try:
        if len(classes) == 1 and classes.pop().__name__ == "datetime64":
            return pa.from_numpy_dtype(max(value.dtype for value in values))
        return pa.array(values).type
    except NO_ARROW_FORM:
        return None
