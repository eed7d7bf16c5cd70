"""What notebooks show: tables in HTML, in the colours of the notebook, light or dark.

Only alignment, size and shade are set, so text and background stay those of the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from drillcore.arguments.names import shortened

SHOWN_ROWS = 20
_MUTED = "opacity:.65"
_CAPTION_LEN_MAX = 80
_STRUCT_LEN_MAX = 240


class Html(str):
    """Text that is HTML already."""


def escaped(value: str) -> str:
    """Return ``value`` as HTML, unless it is that already."""
    return value if isinstance(value, Html) else html.escape(value)


def muted(value: str) -> Html:
    """Return ``value`` in a lighter shade."""
    return Html(f'<span style="{_MUTED}">{escaped(value)}</span>')


def html_table(cells: Sequence[Sequence[str]], caption: str, right: Sequence[int] = ()) -> str:
    """Return a table; the first row of ``cells`` is the head, and the columns ``right`` are numbers."""
    head, *body = [[escaped(cell) for cell in row] for row in cells]
    # A narrow table does not break a short caption.
    wrap = "" if len(caption) > _CAPTION_LEN_MAX else ";white-space:nowrap"
    lines = ["<table>", f'<caption style="text-align:left{wrap}">{escaped(caption)}</caption>']
    aligned = [' style="text-align:right"' if at in right else ' style="text-align:left"' for at in range(len(head))]

    def row(name: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{name}{aligned[at]}>{cell}</{name}>" for at, cell in enumerate(cells)) + "</tr>"

    lines.append(f"<thead>{row('th', head)}</thead><tbody>")
    lines += [row("td", cells) for cells in body]
    return "\n".join([*lines, "</tbody></table>"])


def text(value: Any) -> str:
    """Return one cell as it is shown, cut where it is long.

    Examples
    --------
    >>> text({"value": 4.963579634927614, "low": 4.91316604697528, "high": 5.0, "note": None})
    '{value: 4.96358, low: 4.91317, high: 5, note: null}'
    """
    if value is None:
        return "null"
    if isinstance(value, dict):
        return _struct_text(value)
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    # What a terminal would obey, and what would break the line, is spelled out.
    return shortened("".join(c if c.isprintable() else repr(c)[1:-1] for c in shown))


def _struct_text(value: dict[str, Any]) -> str:
    """Each part is cut where it is long: so no part hides those behind it, such as the upper end of an interval."""
    parts = (f"{text(name)}: {_whole(part) or text(part)}" for name, part in value.items())
    shown = f"{{{', '.join(parts)}}}"
    return shown if len(shown) <= _STRUCT_LEN_MAX else shown[: _STRUCT_LEN_MAX - 3] + "..."


def _whole(value: Any) -> str | None:
    """Return all digits of a float that is a whole number."""
    if isinstance(value, float) and value == value // 1 and abs(value) < 2**53:
        return f"{value + 0.0:.0f}"
    return None


def figure(value: float | None) -> str:
    """Return a figure as it is shown: whole numbers with all digits, others with six.

    Examples
    --------
    >>> figure(3469478.0), figure(12.3456789), figure(None)
    ('3,469,478', '12.3457', 'null')
    """
    if value is not None and value == value // 1 and abs(value) < 2**53:
        return f"{value:,.0f}"
    return text(value)


def text_table(cells: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table in text; the first row of ``cells`` is the head."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "table"), counted(2000, "row")
    ('1 table', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
