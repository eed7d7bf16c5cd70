"""Databases and tables as notebooks show them. Figures come from statistics, so no row is read for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import listed
from drillcore.arrow.type_names import type_name
from drillcore.showing.notebook import counted, html_table, muted

_SHOWN_TABLES = 50
_SHOWN_COLUMNS = 50


def tables_html(caption: str, tables: Sequence[tuple[str, pa.Schema, list[str], str | None, int | None]]) -> str:
    """Return a list of tables: name, columns, key, set column, and stored rows where they are known."""
    if not tables:
        return html_table([["no tables"]], caption)
    counts = all(rows is not None for *_, rows in tables)
    cells = [["table", *(["stored rows"] if counts else []), "key", "set", "columns"]]
    for name, schema, key, set_column, rows in tables[:_SHOWN_TABLES]:
        figures = [f"{rows:,}"] if counts else []
        cells.append([name, *figures, ", ".join(key), set_column or "", listed(schema.names)])
    if len(tables) > _SHOWN_TABLES:
        cells.append(["..."] * len(cells[0]))
    return html_table(cells, caption, right=[1] if counts else [])


def columns_html(
    caption: str, schema: pa.Schema, key: Sequence[str], set_column: str | None, weights: Sequence[str] = ()
) -> str:
    """Return the columns of a table with their types and what they are for."""
    cells = [["column", "type", ""]]
    for field in list(schema)[:_SHOWN_COLUMNS]:
        uses = []
        if field.name in key:
            uses.append("key" if len(key) == 1 else f"key {list(key).index(field.name) + 1}")
        uses += ["set"] if field.name == set_column else []
        uses += ["weight"] if field.name in weights else []
        cells.append([field.name, muted(type_name(field.type)), ", ".join(uses)])
    if len(schema) > _SHOWN_COLUMNS:
        cells.append([f"... and {len(schema) - _SHOWN_COLUMNS:,} more", "", ""])
    return html_table(cells, caption)


def table_caption(name: str, merge: str, stats: Mapping[str, Any] | None) -> str:
    """Return what a table is: its name, its merge policy and how much is stored, if that is known."""
    if stats is None:
        return f"Table {name!r}, {merge}"
    return f"Table {name!r}, {merge}, {counted(stats['rows'] - stats['erased_rows'], 'stored row')}"
