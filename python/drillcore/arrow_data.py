"""Objects of other libraries that hold Arrow data: which they are, and whether they are rows or one column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from drillcore.errors import InvalidArgumentError, InvalidTypeError
from drillcore.names import in_quotes, shown

NO_ARROW_FORM = (ValueError, TypeError, ArithmeticError, NotImplementedError)
"""What pyarrow raises of values that it has no array for; its own exceptions derive from these."""


def is_arrow(data: Any) -> bool:
    """Whether ``data`` has an Arrow capsule."""
    return hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__")


def is_pandas(data: Any) -> bool:
    """Whether ``data`` is a pandas data frame, without importing pandas."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "pandas"


def is_polars(data: Any) -> bool:
    """Whether ``data`` is a polars data frame, without importing polars."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "polars"


def from_pandas(frame: Any) -> pa.Table:
    """Return a pandas data frame as a table. Its index is a label, not a column; NaN is how it writes "no value".

    Raises
    ------
    InvalidArgumentError
        If a cell has no Arrow form, or two columns have one name.
    """
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except NO_ARROW_FORM:
        raise InvalidArgumentError(f"the data frame cannot be converted to Arrow: {_why_no_form(frame)}") from None


def no_common_type(values: Any) -> str | None:
    """Return which of ``values``, a list or a series, has no type of Arrow together with those before it.

    Examples
    --------
    >>> no_common_type([1, 2, "x"])
    "row 2: 'x' is a str, but the values before it have another type"
    >>> no_common_type([object()]).split(" is ")[1]
    'an object, which Arrow does not support'
    >>> no_common_type([1, 2.5])
    """
    fits, no_more = 0, len(values) + 1
    while no_more - fits > 1:
        count = (fits + no_more) // 2
        try:
            pa.array(values[:count], from_pandas=True)
            fits = count
        except NO_ARROW_FORM:
            no_more = count
    if fits == len(values):
        return None
    value = values.iloc[fits] if hasattr(values, "iloc") else values[fits]
    name = type(value).__name__
    kind = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    try:
        pa.array([value], from_pandas=True)
    except NO_ARROW_FORM:
        return f"row {fits}: {shown(value)} is {kind}, which Arrow does not support"
    return f"row {fits}: {shown(value)} is {kind}, but the values before it have another type"


def _why_no_form(frame: Any) -> str:
    names = [str(name) for name in frame.columns]
    for position, name in enumerate(names):
        if name in names[:position]:
            return f"it has two columns {in_quotes(name)}; rename one"
        if why := no_common_type(frame.iloc[:, position]):
            return f"column {in_quotes(name)}, {why}"
    return "its columns have different lengths or types"


def column_of(data: Any) -> pa.ChunkedArray | None:
    """Return Arrow data that is one column, such as a series, as an Arrow column, and ``None`` for rows.

    Raises
    ------
    InvalidArgumentError
        If it has no Arrow form.
    """
    try:
        if isinstance(data, pa.Array):
            column = pa.chunked_array([data])
        elif isinstance(data, pa.ChunkedArray):
            column = data
        elif type(data).__name__ == "Series" and is_arrow(data):
            column = pa.chunked_array(data)
        else:
            return None
    except NO_ARROW_FORM:
        why = no_common_type(data) or "its values have different types"
        raise InvalidArgumentError(f"the series cannot be converted to Arrow: {why}") from None
    return None if pa.types.is_struct(column.type) else column


def refuse_column(argument: str, data: Any) -> None:
    """Refuse one column where rows are wanted.

    Raises
    ------
    InvalidTypeError
        If ``data`` is an Arrow array or a series, but not of structs.
    """
    if column_of(data) is not None:
        raise InvalidTypeError(
            f"{argument}: a {type(data).__name__} is one column without a name; "
            'give a table, for example pyarrow.table({"name": ...})'
        )


def to_table(argument: str, data: Any) -> pa.Table:
    """Read Arrow rows to their end as one table.

    Raises
    ------
    InvalidArgumentError
        If they cannot be read.
    """
    if is_pandas(data):
        return from_pandas(data)
    try:
        return pa.table(data) if hasattr(data, "__arrow_c_stream__") else pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"{argument}: the data cannot be read: {error}") from None
