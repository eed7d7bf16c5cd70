"""Objects of other libraries that hold Arrow data: which they are, and whether they are rows or one column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError

NO_ARROW_FORM = (ValueError, TypeError, ArithmeticError, NotImplementedError)
"""What pyarrow raises of values that it has no array for; its own exceptions derive from these."""


def is_arrow(data: Any) -> bool:
    """Whether ``data`` has an Arrow capsule."""
    return hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__")


def is_pandas(data: Any) -> bool:
    """Whether ``data`` is a pandas data frame, without importing pandas."""
    return _is_of("pandas", "DataFrame", data)


def is_pandas_series(data: Any) -> bool:
    """Whether ``data`` is a column of pandas, without importing pandas."""
    return _is_of("pandas", "Series", data)


def is_polars(data: Any) -> bool:
    """Whether ``data`` is a polars data frame, without importing polars."""
    return _is_of("polars", "DataFrame", data)


def _is_of(package: str, name: str, data: Any) -> bool:
    """Whether ``data`` is of a class of ``package`` with this name, or of one derived from it."""
    return any(kind.__name__ == name and kind.__module__.split(".")[0] == package for kind in type(data).__mro__)


def check_polars(frame: Any) -> None:
    """Refuse a polars data frame with a column that has no Arrow form which says its values.

    Raises
    ------
    InvalidArgumentError
        If a column has Python objects, of which polars hands over their addresses, or a type that pyarrow lacks.
    """
    for name, kind in frame.schema.items():
        if _has_objects(kind):
            raise InvalidArgumentError(
                f"column {in_quotes(name)} has the polars type {kind}, which has no Arrow form; give the rows as "
                "dicts, with frame.to_dicts()"
            )
    try:
        pa.table(frame.clear())
    except NO_ARROW_FORM:
        for name, kind in frame.schema.items():
            try:
                pa.table(frame.select(name).clear())
            except NO_ARROW_FORM:
                raise InvalidArgumentError(
                    f"column {in_quotes(name)} has the polars type {kind}, which pyarrow cannot read; cast it to "
                    "another type, such as Int64, or give the rows as dicts, with frame.to_dicts()"
                ) from None


def _has_objects(kind: Any) -> bool:
    """Whether values of a polars type are, or have, Python objects."""
    if str(kind) == "Object":
        return True
    inner = [each.dtype for each in getattr(kind, "fields", [])] + [getattr(kind, "inner", None)]
    return any(each is not None and _has_objects(each) for each in inner)


def column_of(argument: str, data: Any) -> pa.ChunkedArray | None:
    """Return Arrow data that is one column, such as a series, as an Arrow column, and ``None`` for rows.

    Raises
    ------
    InvalidArgumentError
        If it has no Arrow form.
    """
    column = _array_of(argument, data)
    return None if column is None or pa.types.is_struct(column.type) else column


def as_rows(argument: str, data: Any) -> Any:
    """Return data that holds Arrow data, if it is rows. An array of structs becomes a table.

    Pyarrow itself reads such an array only if it is no slice, and the engine does not see which structs are null.

    Raises
    ------
    InvalidTypeError
        If ``data`` is an Arrow array or a series, but not of structs.
    InvalidArgumentError
        If a struct is null, or if it is a polars data frame that has no Arrow form.
    """
    if is_polars(data):
        check_polars(data)
    column = None if is_pandas_series(data) else _array_of(argument, data)
    if is_pandas_series(data) or (column is not None and not pa.types.is_struct(column.type)):
        raise InvalidTypeError(
            f"{argument}: a {type(data).__name__} is one column without a name; "
            'give a table, for example pyarrow.table({"name": ...})'
        )
    if column is None:
        return data
    if column.null_count:
        position = column.is_null().index(True).as_py()
        raise InvalidArgumentError(f"{argument}: row {position} is null; remove it, or give a struct of nulls")
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in column.chunks]
    return pa.Table.from_batches(batches, schema=pa.schema(column.type))


def to_table(argument: str, data: Any) -> pa.Table:
    """Read Arrow rows, but not those of pandas, to their end as one table.

    Raises
    ------
    InvalidArgumentError
        If they cannot be read.
    """
    rows = as_rows(argument, data)
    try:
        # What the Python source of a reader raises would be text behind a C stream.
        return rows.read_all() if isinstance(rows, pa.RecordBatchReader) else pa.table(rows)
    except Error:
        raise
    except Exception as error:
        raise _unreadable(argument, error) from error


def _array_of(argument: str, data: Any) -> pa.ChunkedArray | None:
    """Arrow data that is an array, of structs or of other values, and ``None`` for what has rows in batches."""
    if isinstance(data, pa.ChunkedArray):
        return data
    if _is_of("polars", "Series", data):
        check_polars(data.to_frame())
        return pa.chunked_array(data)
    if hasattr(data, "__arrow_c_stream__") or not hasattr(data, "__arrow_c_array__"):
        return None
    try:
        return pa.chunked_array([pa.array(data)])
    except Exception as error:
        raise _unreadable(argument, error) from error


def _unreadable(argument: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(f"{argument}: the data cannot be read: {error}")
