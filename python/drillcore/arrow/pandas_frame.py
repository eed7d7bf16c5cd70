"""Frames of pandas as Arrow, and Arrow as frames of pandas: no value changes on the way.

Columns of Python objects become arrays as values of dicts do, not by the type that pyarrow finds for them, which need
not hold them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.arguments.names import check_encodable, check_no_nul, in_quotes
from drillcore.arrow.arrow_data import NO_ARROW_FORM
from drillcore.arrow.cells import refusals, to_array, without_marks
from drillcore.arrow.new_column import new_array, new_field
from drillcore.arrow.python_values import to_python
from drillcore.errors import Error, InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import pandas


def from_pandas(frame: Any, schema: pa.Schema) -> pa.Table:
    """Return a pandas data frame as a table. Its index is a label, not a column; NaN is how it writes "no value".

    Objects become values of the columns that ``schema`` has for them.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If a cell does not fit or has no Arrow form, or two columns have one name.
    """
    names = _names(frame)
    columns = [_column(frame.iloc[:, at], name, schema) for at, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names=names)


def frame_refusals(frame: Any, schema: pa.Schema) -> dict[int, Error]:
    """Return the errors of the rows with an object that does not fit, by their positions."""
    found: dict[int, Error] = {}
    for at, name in enumerate(_names(frame)):
        series = frame.iloc[:, at]
        if _holds_objects(series):
            values = list(series)
            field = schema.field(name) if name in schema.names else new_field(name, values, nan_is_null=True)
            for position, error in refusals(values, field, nan_is_null=True).items():
                found.setdefault(position, error)
    return found


def to_pandas(table: pa.Table) -> pandas.DataFrame:
    """Return a table as a pandas data frame, where whole numbers stay whole numbers.

    Columns of them that have nulls get the nullable type of their width, such as ``Int64``: pyarrow makes floats of
    them, which not all numbers fit.

    Raises
    ------
    OutOfRangeError
        If a column has a time that neither pandas nor Python has.
    """
    import pandas

    types = {kind: pandas.api.types.pandas_dtype(name) for kind, name in _NULLABLE.items()}
    try:
        frame = table.to_pandas()
    except NO_ARROW_FORM:
        for name, column in zip(table.column_names, table.columns, strict=True):
            to_python(f"column {in_quotes(name)}", column, ".arrow()")
        raise
    for at, column in enumerate(table.columns):
        if column.null_count and column.type in types:
            frame.isetitem(at, column.to_pandas(types_mapper=types.get))
    return frame


_NULLABLE = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
}


def _names(frame: Any) -> list[str]:
    names: dict[str, None] = {}
    for label in frame.columns:
        name = check_no_nul("column name", check_encodable("column name", str(label)))
        if name in names:
            raise InvalidArgumentError(f"the data frame has two columns {in_quotes(name)}; rename one")
        names[name] = None
    return list(names)


def _column(series: Any, name: str, schema: pa.Schema) -> Any:
    if not _holds_objects(series):
        return _typed_column(series, name)
    field = schema.field(name) if name in schema.names else None
    if field is not None and _is_category(series.dtype):
        try:
            entries = to_array(series.cat.categories.to_numpy(), field, nan_is_null=True)
        except Error:
            pass  # of a category that perhaps no row has
        else:
            codes = series.cat.codes.to_numpy()
            return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), entries)
    objects = series.to_numpy(dtype=object)
    if (field is None or pa.types.is_string(field.type)) and (texts := _texts(objects)) is not None:
        return texts
    if field is None:
        return new_array(objects, name, place="row", nan_is_null=True)
    return to_array(objects, field, place="row", nan_is_null=True)


def _typed_column(series: Any, name: str) -> Any:
    """An array of a column whose values are no Python objects."""
    kind = _value_type(series)
    if type(kind).__name__ == "PeriodDtype":
        # Pyarrow has a type of its own for these, which the engine would take for whole numbers.
        raise InvalidTypeError(
            f"column {in_quotes(name)} has the type {kind}, which a table cannot have; use .dt.to_timestamp() or "
            ".astype(str) of it"
        )
    try:
        return pa.array(series, from_pandas=True)
    except NO_ARROW_FORM:
        if type(kind).__name__ == "DatetimeTZDtype":
            # Arrow has no name for the zone, such as one that is off from UTC by seconds.
            return pa.array(series.dt.tz_convert("UTC"), from_pandas=True)
        raise InvalidArgumentError(f"column {in_quotes(name)} {_why_no_form(kind)}") from None


def _texts(objects: Any) -> Any:
    """An array of objects if these are texts and marks of missing values, which most columns of objects are.

    Pyarrow finds a type faster than the types of all objects are looked at, and takes nothing else for texts.
    """
    try:
        found = pa.array(objects, from_pandas=True)
    except NO_ARROW_FORM:
        return None
    if not pa.types.is_string(found.type):
        return None
    nulls = objects[found.is_null().to_numpy(zero_copy_only=False)] if found.null_count else []
    return found if all(value is None for value in without_marks(nulls, nan_is_null=True)) else None


def _holds_objects(series: Any) -> bool:
    """Whether the values of a column are Python objects."""
    return str(_value_type(series)) == "object"


def _value_type(series: Any) -> Any:
    """The type of the values of a column: if these are categories, of the categories."""
    return series.dtype.categories.dtype if _is_category(series.dtype) else series.dtype


def _is_category(kind: Any) -> bool:
    return type(kind).__name__ == "CategoricalDtype"


def _why_no_form(kind: Any) -> str:
    if type(kind).__name__ == "SparseDtype":
        return "is sparse, which Arrow does not support; use .sparse.to_dense() of it"
    if hasattr(kind, "newbyteorder") and not kind.isnative:
        native = kind.newbyteorder("=").name
        return f"has numbers in the byte order of other machines; use .astype({native!r}) of it"
    return f"has the type {kind}, which Arrow does not support; convert it, or leave it out"
