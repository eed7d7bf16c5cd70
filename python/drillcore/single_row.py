"""One dict as Arrow data, for appends of one row: the same as for many, but all columns in one conversion."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from drillcore.arrow_data import NO_ARROW_FORM
from drillcore.cells import plain_types
from drillcore.data import Needed


class SingleRow:
    """Converts dicts of plain values. Other dicts are left to :func:`~drillcore.data.to_arrow`, and so are errors."""

    def __init__(self, schema: pa.Schema, needed: Needed) -> None:
        self._fields = {field.name: field for field in schema}
        self._needed = {name for names in needed.lists() for name in names}
        self._plans: dict[tuple[str, ...], _Plan | None] = {}

    def batch(self, row: dict[str, Any]) -> pa.RecordBatch | None:
        """Return ``row`` as Arrow data, or ``None`` where it takes more than that."""
        names = tuple(row)
        try:
            plan = self._plans[names]
        except KeyError:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            plan = self._plans[names] = self._plan(names)
        return None if plan is None else plan.batch(row)

    def _plan(self, names: tuple[str, ...]) -> _Plan | None:
        if not names or not self._needed.issubset(names) or not self._fields.keys() >= set(names):
            return None
        return _Plan([self._fields[name] for name in names])


_PLANS_MAX = 256
"""Combinations of columns that are remembered."""


class _Plan:
    """How dicts with some columns are converted."""

    def __init__(self, fields: list[pa.Field]) -> None:
        # The engine says which column cannot hold null.
        fields = [field.with_nullable(True) for field in fields]
        self._struct = pa.struct(fields)
        self._types = [plain_types(field.type) | {type(None)} for field in fields]
        self._times = {
            at: field.type.tz is not None for at, field in enumerate(fields) if pa.types.is_timestamp(field.type)
        }

    def batch(self, row: dict[str, Any]) -> pa.RecordBatch | None:
        values = list(row.values())
        for value, types in zip(values, self._types, strict=True):
            if type(value) not in types:
                return None
        for at, is_zoned in self._times.items():
            value = values[at]
            if isinstance(value, dt.datetime) and (value.tzinfo is not None) != is_zoned:
                return None
        try:
            return pa.RecordBatch.from_struct_array(pa.array([row], type=self._struct, from_pandas=False))
        except NO_ARROW_FORM:
            return None
