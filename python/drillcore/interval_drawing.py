"""Intervals as drawings: a line from end to end, and a dot at the estimate. They take the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from drillcore.notebook import Html, escaped, figure

Interval = tuple[float | None, float | None, float | None]
"""The estimate and its ends. ``None`` is not known, and an end may be infinite."""

_WIDTH = 240
_HEIGHT = 18
_PAD = 8
# Reads well on white and on black.
_DOT = "#3b82f6"


class Scale:
    """The range of values that drawings below each other share."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        ends = [end for interval in intervals for end in interval if end is not None and math.isfinite(end)]
        self.low, self.high = (min(ends), max(ends)) if ends else (0.0, 0.0)
        if self.low == self.high:
            room = abs(self.low) / 10 or 1.0
            self.low, self.high = self.low - room, self.high + room

    def x(self, value: float) -> float:
        """Return where a value is, in pixels; what is beyond the range is at its end."""
        if value == self.low or not math.isfinite(self.high - self.low):
            return _PAD
        share = (value - self.low) / (self.high - self.low)
        return _PAD + min(max(share, 0.0), 1.0) * (_WIDTH - 2 * _PAD)

    def head(self) -> Html:
        """Return the ends of the range, for the head of a column of drawings."""
        ends = f"<span>{escaped(figure(self.low))}</span><span>{escaped(figure(self.high))}</span>"
        style = f"display:flex;justify-content:space-between;width:{_WIDTH}px;font-weight:normal;opacity:.65"
        return Html(f'<div style="{style}">{ends}</div>')


def drawing(interval: Interval, scale: Scale) -> Html:
    """Return an interval as inline SVG. An infinite end has an arrow; an exact value has no line."""
    value, low, high = interval
    middle = _HEIGHT / 2
    parts = []
    if scale.low < 0 < scale.high:
        zero = f"{scale.x(0.0):.1f}"
        parts.append(_line(zero, 0, zero, _HEIGHT, 'stroke-opacity=".3" stroke-dasharray="2 2"'))
    if low is not None and high is not None and low != high:
        left, right = scale.x(low), scale.x(high)
        parts.append(_line(f"{left:.1f}", middle, f"{right:.1f}", middle, 'stroke-opacity=".75" stroke-width="2"'))
        parts += [_end(low, left, middle, -1), _end(high, right, middle, 1)]
    if value is not None and math.isfinite(value):
        parts.append(f'<circle cx="{scale.x(value):.1f}" cy="{middle}" r="4" fill="{_DOT}"/>')
    label = escaped(_spoken(interval))
    return Html(
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'style="vertical-align:middle;max-width:none"><title>{label}</title>{"".join(parts)}</svg>'
    )


def drawings(intervals: Sequence[Interval]) -> tuple[Html, list[Html]]:
    """Return the head of a column of intervals, and its cells."""
    scale = Scale(intervals)
    return scale.head(), [drawing(interval, scale) for interval in intervals]


def _end(end: float, x: float, middle: float, side: int) -> str:
    if math.isfinite(end):
        return _line(f"{x:.1f}", middle - 4, f"{x:.1f}", middle + 4, 'stroke-opacity=".75" stroke-width="2"')
    points = f"{x + side * 6:.1f},{middle} {x:.1f},{middle - 4} {x:.1f},{middle + 4}"
    return f'<polygon points="{points}" fill="currentColor" fill-opacity=".75"/>'


def _line(x1: str, y1: float, x2: str, y2: float, style: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="currentColor" {style}/>'


def _spoken(interval: Interval) -> str:
    value, low, high = (figure(number) for number in interval)
    return f"{value}, exact" if low == value == high else f"{value}, from {low} to {high}"
