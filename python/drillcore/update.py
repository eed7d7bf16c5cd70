"""From what an update is given to batches of keys and new values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes, shown, unknown_name
from drillcore.arrow.arrow_data import to_table
from drillcore.arrow.cells import to_array
from drillcore.data import Needed, is_dicts, to_arrow
from drillcore.errors import InvalidArgumentError, InvalidTypeError

MISSING = ("error", "skip", "insert")


def rows_to_update(rows: Any, schema: pa.Schema, key: Sequence[str]) -> list[Any]:
    """Return batches in the order of ``rows``: dicts of different columns make several."""
    needed = Needed(key)
    if not is_dicts(rows):
        given = to_arrow(rows, schema, needed)
        # A stream is read once, and an update is one commit, so that all of it is held anyway.
        arrow = given if isinstance(getattr(given, "schema", None), pa.Schema) else to_table("rows", given)
        if absent := [in_quotes(name) for name in key if name not in arrow.schema.names]:
            if unknown := [name for name in arrow.schema.names if name not in schema.names]:
                raise unknown_name("column", unknown[0], schema.names)
            columns, them = ("column", "it") if len(absent) == 1 else ("columns", "them")
            raise InvalidArgumentError(
                f"the data lacks key {columns} {', '.join(absent)}; add {them}, so that the update finds its rows"
            )
        return [arrow]
    for position, row in enumerate(rows):
        if lacking := next((name for name in key if name not in row), None):
            raise InvalidArgumentError(
                f"row {position}: the dict lacks key column {in_quotes(lacking)}; add it, so that the update finds its "
                "row"
            )
    return [to_arrow(list(alike), schema, needed) for _, alike in groupby(rows, key=lambda row: frozenset(row))]


def values_to_set(values: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of one row with the values that ``set`` gives columns."""
    if not isinstance(values, Mapping):
        raise InvalidTypeError(f"set: expected a dict of columns and their new values, not {shown(values)}")
    if not values:
        raise InvalidArgumentError("set: there is no column to change; give one with its new value")
    for name in values:
        if name not in schema.names:
            raise unknown_name("column", name, schema.names)
    arrays = [to_array([value], schema.field(name)) for name, value in values.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(values))


def keys_with_values(keys: list[pa.Array], names: Sequence[str], values: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with these keys and the same values for each."""
    count = len(keys[0])
    repeated = [column.take(pa.array([0] * count, pa.int32())) for column in values.columns]
    return pa.RecordBatch.from_arrays([*keys, *repeated], names=[*names, *values.schema.names])
