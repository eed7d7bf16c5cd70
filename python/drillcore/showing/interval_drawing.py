"""Intervals as drawings: a line from end to end, and a dot at the estimate. They take the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from drillcore.showing.notebook import Html, escaped, figure

Interval = tuple[float | None, float | None, float | None]
"""The estimate and its ends. ``None`` is not known, and an end may be infinite."""

_WIDTH = 240
_HEIGHT = 18
_PAD = 8
_ARROW_ROOM = 24
# Reads well on white and on black.
_DOT = "#3b82f6"
_DAYS_MIN, _DAYS_MAX = -719_162, 2_932_897
"""The first of January of the years 1 and 10,000, between which matplotlib has dates, in days since 1970."""


@dataclass(frozen=True)
class Axis:
    """What the values of drawings count."""

    units_per_day: int | None = None
    """Of dates and times, which are counted from the beginning of 1970."""
    zone: str | None = None

    def label(self, value: float, width: float) -> str:
        """Return an end of an axis of some width: with three digits, or a date, or the time of a day."""
        if self.units_per_day is None:
            return figure(float(f"{value:.3g}"))
        is_wide = width >= 2 * self.units_per_day
        seconds = round(value * 86_400 / self.units_per_day)
        try:
            time = pa.scalar(seconds, pa.timestamp("s", self.zone)).as_py().replace(tzinfo=None)
        except (ValueError, OverflowError):
            return ""  # beyond the years of Python
        return str(time.date() if is_wide else time)


def axis_of(kind: pa.DataType) -> Axis:
    """Return the axis of values of a type."""
    if pa.types.is_timestamp(kind):
        return Axis(86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit], kind.tz)
    return Axis(1 if pa.types.is_date(kind) else None)


class Scale:
    """The range of values that drawings below each other share."""

    def __init__(self, intervals: Sequence[Interval], axis: Axis) -> None:
        self.axis = axis
        ends = [end for interval in intervals for end in interval if end is not None and math.isfinite(end)]
        self.low, self.high = (min(ends), max(ends)) if ends else (0.0, 0.0)
        self.is_known = bool(ends)
        if self.low == self.high:
            room = abs(self.low) / 10 or 1.0
            self.low, self.high = self.low - room, self.high + room
        # An arrow is longer than what is known.
        self.left = _PAD + _ARROW_ROOM * any(_is_open(low, high) for _, low, high in intervals)
        self.right = _WIDTH - _PAD - _ARROW_ROOM * any(_is_open(high, low) for _, low, high in intervals)

    def x(self, value: float) -> float:
        """Return where a value is, in pixels; an infinite one is at the edge."""
        if not math.isfinite(value):
            return _PAD if value < 0 else _WIDTH - _PAD
        if value == self.low or not math.isfinite(self.high - self.low):
            return self.left
        share = (value - self.low) / (self.high - self.low)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def head(self) -> Html:
        """Return the ends of the range, for the head of a column of drawings; nothing if no end is finite."""
        if not self.is_known:
            return Html("")
        low, high = (escaped(self.axis.label(end, self.high - self.low)) for end in (self.low, self.high))
        ends = f"<span>{low}</span><span>{high}</span>"
        style = (
            f"display:flex;justify-content:space-between;box-sizing:border-box;width:{_WIDTH}px;"
            f"padding:0 {_WIDTH - self.right}px 0 {self.left}px;font-weight:normal;opacity:.65"
        )
        return Html(f'<div style="{style}">{ends}</div>')


def _is_open(end: float | None, other: float | None) -> bool:
    """Whether an end is infinite, or cannot be known while the other is."""
    return other is not None if end is None else not math.isfinite(end)


def drawing(interval: Interval, scale: Scale, label: str) -> Html:
    """Return an interval as inline SVG, which ``label`` says in words. An exact value has no line.

    An infinite end has a filled arrow, one that cannot be known an open arrow.
    """
    value, low, high = interval
    middle = _HEIGHT / 2
    parts = []
    if scale.is_known and scale.low < 0 < scale.high:
        zero = f"{scale.x(0.0):.1f}"
        parts.append(_line(zero, 0, zero, _HEIGHT, 'stroke-opacity=".3" stroke-dasharray="2 2"'))
    has_line = low != high
    if has_line:
        left, right = (scale.x(end) if end is not None else side for end, side in ((low, _PAD), (high, _WIDTH - _PAD)))
        parts.append(_line(f"{left:.1f}", middle, f"{right:.1f}", middle, 'stroke-opacity=".75" stroke-width="2"'))
        parts += [_end(low, left, middle, -1), _end(high, right, middle, 1)]
    if value is not None and math.isfinite(value):
        parts.append(f'<circle cx="{scale.x(value):.1f}" cy="{middle}" r="4" fill="{_DOT}"/>')
    label = escaped(label)
    return Html(
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'style="vertical-align:middle;max-width:none"><title>{label}</title>{"".join(parts)}</svg>'
    )


def drawings(intervals: Sequence[Interval], labels: Sequence[str], axis: Axis) -> tuple[Html, list[Html]]:
    """Return the head of a column of intervals, and its cells."""
    scale = Scale(intervals, axis)
    cells = [drawing(interval, scale, label) for interval, label in zip(intervals, labels, strict=True)]
    return scale.head(), cells


def plot_intervals(ax: Any, intervals: Sequence[Interval], axis: Axis) -> None:
    """Draw intervals into matplotlib axes, from 0 on downwards, with the arrows of :func:`drawing`.

    Times beyond the years that matplotlib has are the numbers that are stored.
    """
    days = axis.units_per_day
    if days and all(_DAYS_MIN <= edge / days < _DAYS_MAX for edge in _edges(Scale(intervals, axis))):
        ax.xaxis_date(axis.zone)
        intervals = [
            (value and value / days, low and low / days, high and high / days) for value, low, high in intervals
        ]
    values = [(value, at) for at, (value, _, _) in enumerate(intervals) if value is not None and math.isfinite(value)]
    (dots,) = ax.plot([value for value, _ in values], [at for _, at in values], "o")
    colour = dots.get_color()
    scale = Scale(intervals, axis)
    # What is drawn to the edge must not move the edge.
    edges = _edges(scale)
    room = scale.low - edges[0]
    for at, (_, low, high) in enumerate(intervals):
        if low == high:
            continue
        ends = [end if end is not None and math.isfinite(end) else None for end in (low, high)]
        line = [edge if end is None else end for end, edge in zip(ends, edges, strict=True)]
        ax.plot(line, [at, at], color=colour, linewidth=1.5)
        for known, end, x, arrow in zip(ends, (low, high), line, "<>", strict=True):
            face = "none" if end is None else colour
            inside = x if known is not None else x + (room if arrow == "<" else -room) / 5
            ax.plot([inside], [at], marker="|" if known is not None else arrow, color=colour, markerfacecolor=face)
    ax.set_xlim(edges)
    if not scale.is_known:
        ax.set_xticks([])


def _edges(scale: Scale) -> tuple[float, float]:
    """The ends of an axis with some room."""
    room = 0.06 * (scale.high - scale.low)
    return scale.low - room, scale.high + room


def _end(end: float | None, x: float, middle: float, side: int) -> str:
    if end is None:
        points = f"{x:.1f},{middle - 4} {x + side * 6:.1f},{middle} {x:.1f},{middle + 4}"
        return (
            f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-opacity=".75" stroke-width="1.5"/>'
        )
    if math.isfinite(end):
        return _line(f"{x:.1f}", middle - 4, f"{x:.1f}", middle + 4, 'stroke-opacity=".75" stroke-width="2"')
    points = f"{x + side * 6:.1f},{middle} {x:.1f},{middle - 4} {x:.1f},{middle + 4}"
    return f'<polygon points="{points}" fill="currentColor" fill-opacity=".75"/>'


def _line(x1: str, y1: float, x2: str, y2: float, style: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="currentColor" {style}/>'
