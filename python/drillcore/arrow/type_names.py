"""Names of types as schemas have them, for messages: those of pyarrow differ for some."""

from __future__ import annotations

import pyarrow as pa

_NAMES: dict[pa.DataType, str] = {
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.date32(): "date32",
    pa.date64(): "date64",
}


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type, as schemas and the messages of the engine have it.

    Examples
    --------
    >>> type_name(pa.float64()), type_name(pa.timestamp("us", "UTC")), type_name(pa.list_(pa.string()))
    ('float64', 'timestamp[us, UTC]', 'list<string>')
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp[{kind.unit}, {kind.tz}]"
    if pa.types.is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_large_list(kind):
        return f"large_list<{type_name(kind.value_type)}>"
    return str(kind)
