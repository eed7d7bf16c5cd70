"""Arrow values as Python's own, whose dates and times have the years 1 to 9999, and those of Arrow more."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from drillcore.errors import OutOfRangeError


def to_python(what: str, values: pa.Array | pa.ChunkedArray | pa.RecordBatch, instead: str) -> list[Any]:
    """Return values, or rows as dicts; an error says ``what`` does not fit Python, and what to use ``instead``.

    Raises
    ------
    OutOfRangeError
        If one of them is, or has, a time beyond the years of Python.

    Examples
    --------
    >>> to_python("the row", pa.array([3_000_000], pa.int32()).cast(pa.date32()), "get_many([...]).arrow()")
    Traceback (most recent call last):
    ...
    drillcore.errors.OutOfRangeError: the row has a time beyond the years of Python's datetime (date value out of ...
    """
    try:
        return values.to_pylist()
    # Where pandas is installed, its times of nanoseconds raise an error of its own, which is a ValueError.
    except (OverflowError, ValueError) as error:
        raise OutOfRangeError(
            f"{what} has a time beyond the years of Python's datetime ({error}); use {instead}"
        ) from error


def values_to_show(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values as Python has them; of times beyond its years the numbers that are stored.

    Examples
    --------
    >>> values_to_show(pa.array([3_000_000, 0], pa.int32()).cast(pa.date32()))
    [3000000, datetime.date(1970, 1, 1)]
    """
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        return [_value_to_show(scalar) for scalar in column]


def rows_to_show(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts, with values as of :func:`values_to_show`.

    Examples
    --------
    >>> rows_to_show(pa.table({"id": [1], "day": pa.array([3_000_000], pa.int32()).cast(pa.date32())}))
    [{'id': 1, 'day': 3000000}]
    """
    columns = map(values_to_show, rows.columns)
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value_to_show(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar.value if hasattr(scalar, "value") else "..."
