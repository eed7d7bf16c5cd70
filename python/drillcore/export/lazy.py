"""Lazy frames of polars over a table: polars says which columns, rows and conditions it needs, and only these are read.

Polars hands over a condition as an expression of its own. Those of its parts that are joined by ``&`` and that mean the
same in SQL become the ``where`` of a scan, which indexes answer. Polars tests the rows once more, with the whole
condition, so a part that is not understood costs time and changes no answer.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drillcore.rows import Rows, require

if TYPE_CHECKING:
    import polars

Scan = Callable[[list[str] | None, str | None, int | None], Rows]
"""Reads columns, under a condition in SQL, up to a number of rows."""

_COMPARISONS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ENDS = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_UNIT_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_LISTED_MAX = 1_000


def lazy_frame(schema: pa.Schema, scan: Scan) -> polars.LazyFrame:
    """Return a lazy frame of what ``scan`` reads."""
    frames = require("polars")
    empty = frames.from_arrow(schema.empty_table())

    def source(
        with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        # Rows are limited before they are tested, so a condition can be handed on only where all are asked for.
        where = None if predicate is None or n_rows is not None else pushed_condition(predicate, schema)
        is_any = False
        for batch in scan(with_columns, where, n_rows).batches():
            frame = frames.from_arrow(batch)
            is_any = True
            yield frame if predicate is None else frame.filter(predicate)
        if not is_any:
            yield empty if with_columns is None else empty.select(with_columns)

    return require("polars.io.plugins").register_io_source(source, schema=empty.schema)


def pushed_condition(predicate: polars.Expr, schema: pa.Schema) -> str | None:
    """Return a condition in SQL that holds for all rows for which ``predicate`` does; ``None`` if none is known.

    Examples
    --------
    >>> import polars as pl
    >>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    >>> pushed_condition((pl.col("id") > 3) & (pl.col("name").str.len_chars() > 3), schema)
    '"id" > 3'
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = json.loads(predicate.meta.serialize(format="json"))
            parts = [part for part in (_condition(each, schema) for each in _conjuncts(tree)) if part is not None]
    except Exception:
        # The form is polars' own and changes with it. All rows are read then.
        return None
    return " and ".join(parts) or None


def _conjuncts(tree: Any) -> Iterator[Any]:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield tree


def _condition(tree: Any, schema: pa.Schema) -> str | None:
    """The condition in SQL that is true for exactly the same rows."""
    match tree:
        case {"Column": str(name)} if pa.types.is_boolean(schema.field(name).type):
            return quoted(name)
        case {"BinaryExpr": {"left": left, "op": "And" | "Or" as op, "right": right}}:
            return _both(f" {op.lower()} ", _condition(left, schema), _condition(right, schema))
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": op, "right": {"Literal": _} as literal}}:
            return _compared(name, _COMPARISONS.get(op), _value(literal), schema)
        case {"BinaryExpr": {"left": {"Literal": _} as literal, "op": op, "right": {"Column": str(name)}}}:
            return _compared(name, _SWAPPED.get(_COMPARISONS.get(op, "")), _value(literal), schema)
        case {"Function": {"input": [operand], "function": {"Boolean": "Not"}}}:
            negated = _condition(operand, schema)
            return None if negated is None else f"not ({negated})"
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNull"}}}:
            return f"{quoted(name)} is null"
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNotNull"}}}:
            return f"{quoted(name)} is not null"
        case {
            "Function": {"input": [{"Column": str(name)}, low, high], "function": {"Boolean": {"IsBetween": options}}}
        }:
            above, below = _ENDS[options["closed"]]
            low, high = _compared(name, above, _value(low), schema), _compared(name, below, _value(high), schema)
            return _both(" and ", low, high)
        case {
            "Function": {
                "input": [{"Column": str(name)}, {"Literal": _} as literal],
                "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
            }
        }:
            return _listed(name, _value(literal), schema)
    return None


def _both(joint: str, left: str | None, right: str | None) -> str | None:
    return None if left is None or right is None else f"({left}{joint}{right})"


def _compared(name: str, op: str | None, value: Any, schema: pa.Schema) -> str | None:
    spelled = in_sql(value, schema.field(name).type)
    return None if op is None or spelled is None else f"{quoted(name)} {op} {spelled}"


def _listed(name: str, values: Any, schema: pa.Schema) -> str | None:
    spelled = [in_sql(value, schema.field(name).type) for value in values or ()]
    texts = [text for text in spelled if text is not None]
    if not 0 < len(texts) == len(spelled) <= _LISTED_MAX:
        return None
    return f"{quoted(name)} in ({', '.join(texts)})"


def _value(literal: Any) -> Any:
    """The Python value of a literal, or a list of its values; ``None`` if Python would round it."""
    frames = require("polars")
    expr = frames.Expr.deserialize(io.BytesIO(json.dumps(literal).encode()), format="json")
    series = frames.select(expr).to_series()
    is_list = isinstance(series.dtype, frames.List | frames.Array)
    kind = series.dtype.inner if is_list else series.dtype
    if isinstance(kind, frames.Datetime):
        if kind.time_unit == "ns":
            return None
        if kind.time_zone is not None:
            # Of old times, Python knows other offsets than polars: only in UTC do both name the same moment.
            utc = frames.Datetime(kind.time_unit, "UTC")
            series = series.cast(frames.List(utc) if is_list else utc)
    return series.to_list()[0]


def in_sql(value: Any, kind: pa.DataType) -> str | None:
    """Return a value in SQL, if it is one that a column of this type is compared with as it is."""
    is_a = pa.types
    if is_a.is_boolean(kind):
        return str(value).lower() if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if is_a.is_integer(kind) and isinstance(value, int):
        return str(value) if -(2**63) < value < 2**63 else None
    if is_a.is_float64(kind) and isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if is_a.is_string(kind) and isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if is_a.is_date32(kind) and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"date '{value.isoformat()}'"
    if is_a.is_timestamp(kind) and isinstance(value, dt.datetime):
        if (value.tzinfo is None) != (kind.tz is None) or value.microsecond % _UNIT_MICROSECONDS[kind.unit]:
            return None
        moment = value if value.tzinfo is None else value.astimezone(dt.timezone.utc)
        return f"'{moment.isoformat()}'"
    return None


def quoted(name: str) -> str:
    """Return a name in SQL."""
    return '"' + name.replace('"', '""') + '"'
