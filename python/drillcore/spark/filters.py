"""Filters of Spark as conditions in SQL, where both mean the same rows."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from drillcore.export.lazy import in_sql, quoted

_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_LISTED_MAX = 1_000
_FIRST_YEAR = 1583
"""Spark hands over the ten days that the Gregorian calendar left out in 1582 as the day after them."""


def condition(pushed: Filter, schema: pa.Schema) -> str | None:
    """Return a condition that is true for exactly the rows for which a filter is; ``None`` if Spark has to test it.

    Comparisons of floats stay with Spark, for which NaN equals NaN and -0.0 equals 0.0; so do those with days before
    1583.

    Examples
    --------
    >>> schema = pa.schema({"id": pa.int64(), "name": pa.string(), "x": pa.float64()})
    >>> condition(Not(EqualTo(("name",), "it's")), schema)
    'not ("name" = \\'it\\'\\'s\\')'
    >>> condition(In(("id",), (1, 2)), schema), condition(GreaterThan(("x",), 1.0), schema)
    ('"id" in (1, 2)', None)
    """
    if isinstance(pushed, Not):
        # What is not known to be false is not true either way, except for <=>, which is never unknown.
        child = None if isinstance(pushed.child, EqualNullSafe) else condition(pushed.child, schema)
        return None if child is None else f"not ({child})"
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    name, kind = path[0], schema.field(path[0]).type
    if isinstance(pushed, IsNull):
        return f"{quoted(name)} is null"
    if isinstance(pushed, IsNotNull):
        return f"{quoted(name)} is not null"
    if isinstance(pushed, In):
        values = [_literal(value, kind) for value in pushed.value]
        listed = [value for value in values if value is not None]
        if not 0 < len(listed) == len(values) <= _LISTED_MAX:
            return None
        return f"{quoted(name)} in ({', '.join(listed)})"
    op = _COMPARISONS.get(type(pushed))
    literal = None if op is None else _literal(getattr(pushed, "value", None), kind)
    return None if literal is None else f"{quoted(name)} {op} {literal}"


def _literal(value: Any, kind: pa.DataType) -> str | None:
    if pa.types.is_floating(kind):
        return None
    is_zoned = isinstance(value, dt.datetime) and value.tzinfo is not None
    if (is_zoned or (isinstance(value, dt.date) and not isinstance(value, dt.datetime))) and value.year < _FIRST_YEAR:
        return None
    if isinstance(value, decimal.Decimal) and pa.types.is_integer(kind) and value == int(value):
        value = int(value)  # Spark has no unsigned integers.
    return in_sql(value, kind)
