"""Plots as SVG text: axes, and the pictures of the report."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flights_demo.answers import CarrierDelay
from flights_demo.ingest import Ingest, Look
from flights_demo.weighted import BIN_MILES, BINS, Comparison

WIDTH = 920


@dataclass(frozen=True)
class Axis:
    """A linear map from values to pixels, with round ticks."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of ``value``; values outside lie on the rim."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int) -> list[float]:
        """Return about ``count`` round values on the axis."""
        step = round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def round_step(raw: float) -> float:
    """Return the number 1, 2, 2.5 or 5 times a power of ten that is next above ``raw``."""
    power = 10 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * (1 - 1e-9))


def carriers_plot(delays: Sequence[CarrierDelay]) -> str:
    """Return dots with whiskers, a carrier a line: the estimate with its interval, and the exact value."""
    row_height, top, left, right = 30, 34, 250, 150
    height = top + row_height * len(delays) + 44
    bottom = top + row_height * len(delays)
    low, high = shown_range(delays)
    x = Axis(low, high, left, WIDTH - right)
    parts = []
    for i in range(0, len(delays), 2):
        y: float = top + row_height * i
        parts.append(f'<rect class="band" x="0" y="{y}" width="{WIDTH}" height="{row_height}"/>')
    parts.append(grid_x(x, top - 6, bottom, 8, "average departure delay, minutes"))
    parts.append(label(WIDTH - 16, top - 14, "flights drawn", "end", "small"))
    for i, each in enumerate(delays):
        y = top + row_height * (i + 0.5)
        parts.append(carrier_line(each, x, y))
    return svg(height, parts, "Average departure delay by carrier: estimates with intervals, and exact values")


def ingest_plot(run: Ingest) -> str:
    """Return the rows per second over time, in windows of equal length."""
    top, bottom, left, right = 20, 190, 70, 24
    seconds = max(run.seconds, 1e-9)
    x = Axis(0, seconds, left, WIDTH - right)
    windows = window_rates(run.progress, seconds, 24)
    y = Axis(0, max(rate for _, _, rate in windows) * 1.1, bottom, top)
    parts = [
        grid_y(y, left, WIDTH - right, 4, thousands),
        grid_x(x, top, bottom, 8, "seconds since the start"),
    ]
    for begin, end, rate in windows:
        x0, x1, y0 = x.at(begin), x.at(end), y.at(rate)
        title = f"{begin:.2f} to {end:.2f} s: {rate:,.0f} rows per second"
        parts.append(
            f'<rect class="bar" x="{x0 + 0.75:.1f}" y="{y0:.1f}" width="{max(x1 - x0 - 1.5, 0.5):.1f}" '
            f'height="{bottom - y0:.1f}"><title>{title}</title></rect>'
        )
    parts.append(label(left, top - 6, "rows stored per second", "start", "small"))
    return svg(bottom + 46, parts, "Rows stored per second while four threads write")


def looks_plot(looks: Sequence[Look], seconds: float, exact: float) -> str:
    """Return the estimate of the overall average with its interval, look by look, on the same time axis."""
    top, bottom, left, right = 20, 270, 70, 24
    x = Axis(0, max(seconds, looks[-1].seconds), left, WIDTH - right)
    settled = looks[len(looks) // 10 :]
    reach = 1.15 * max(max(abs(each.low - exact), abs(each.high - exact)) for each in settled)
    y = Axis(exact - reach, exact + reach, bottom, top)
    upper = [(x.at(each.seconds), y.at(each.high)) for each in looks]
    lower = [(x.at(each.seconds), y.at(each.low)) for each in looks]
    middle = [(x.at(each.seconds), y.at(each.value)) for each in looks]
    parts = [grid_y(y, left, WIDTH - right, 6, plain), grid_x(x, top, bottom, 8, "seconds since the start")]
    parts.append(f'<path class="fan" d="{path([*upper, *reversed(lower)])}Z"/>')
    parts.append(f'<path class="line" d="{path(middle)}"/>')
    exact_y = y.at(exact)
    parts.append(f'<line class="exact-line" x1="{left}" x2="{WIDTH - right}" y1="{exact_y:.1f}" y2="{exact_y:.1f}"/>')
    parts.append(
        label(WIDTH - right - 4, bottom - 10, f"dashed: exact, over all flights: {exact:.2f}", "end", "exact-text")
    )
    for share in (0.2, 0.55, 1.0):
        parts.append(look_note(looks, share, x, y))
    for (cx, cy), each in zip(middle, looks, strict=True):
        title = f"{each.seconds:.2f} s, {each.rows:,} rows: {each.value:.2f} [{each.low:.2f}, {each.high:.2f}]"
        parts.append(f'<circle class="look" cx="{cx:.1f}" cy="{cy:.1f}" r="2"><title>{title}</title></circle>')
    parts.append(label(left, top - 6, "average departure delay, minutes", "start", "small"))
    return svg(bottom + 46, parts, "The interval of the overall average while rows come in")


def weighted_plot(comparison: Comparison) -> str:
    """Return the shares of the rows drawn by distance, plainly and weighted, with the exact ones."""
    top, bottom, left, right = 24, 230, 70, 24
    draws = [("bar plain", comparison.plain), ("bar", comparison.weighted)]
    most = max(max(*draw.shares, *draw.expected_shares) for _, draw in draws)
    x = Axis(0, BINS, left, WIDTH - right)
    y = Axis(0, most * 1.1, bottom, top)
    parts = [grid_y(y, left, WIDTH - right, 5, percent)]
    for i in range(BINS):
        end = "longer" if i == BINS - 1 else f"{(i + 1) * BIN_MILES:,}"
        miles = f"{i * BIN_MILES:,} to {end}"
        for side, (kind, draw) in enumerate(draws):
            x0 = x.at(i + 0.12 + 0.38 * side)
            middle, width = x0 + (x.at(0.36) - left) / 2, x.at(0.36) - left
            title = f"{miles} miles: {draw.shares[i]:.1%} drawn, exactly {draw.expected_shares[i]:.1%}"
            parts.append(bar(kind, x0, width, y.at(draw.shares[i]), bottom, title))
            parts.append(diamond(middle, y.at(draw.expected_shares[i])))
        parts.append(label(x.at(i), bottom + 16, f"{i * BIN_MILES:,}", "middle", "tick"))
    parts.append(
        label((x.start + x.end) / 2, bottom + 36, "distance in miles (last bar: and longer)", "middle", "small")
    )
    parts.append(label(left, top - 8, "share of the flights drawn", "start", "small"))
    return svg(bottom + 46, parts, "Distances of flights drawn uniformly and by distance")


def hours_plot(by_hour: Sequence[tuple[int, int, float]]) -> str:
    """Return the delay a flight by hour of the day."""
    top, bottom, left, right = 24, 190, 70, 24
    x = Axis(0, 24, left, WIDTH - right)
    y = Axis(0, max(delay for _, _, delay in by_hour) * 1.1, bottom, top)
    parts = [grid_y(y, left, WIDTH - right, 4, plain)]
    for hour, flights, delay in by_hour:
        title = f"{hour}:00 to {hour}:59: {delay:.1f} min per flight, {flights:,} flights"
        parts.append(bar("bar", x.at(hour + 0.1), x.at(0.8) - left, y.at(delay), bottom, title))
    parts += [label(x.at(hour + 0.5), bottom + 16, f"{hour}", "middle", "tick") for hour in range(24)]
    parts.append(
        label((x.start + x.end) / 2, bottom + 36, "scheduled hour of departure in New York", "middle", "small")
    )
    parts.append(label(left, top - 8, "departure delay, minutes per scheduled flight", "start", "small"))
    return svg(bottom + 46, parts, "Departure delay by hour of the day, from the hourly table")


def bar(kind: str, x: float, width: float, top: float, bottom: float, title: str) -> str:
    """Return an upright bar."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{max(bottom - top, 0):.1f}">'
        f"<title>{html.escape(title)}</title></rect>"
    )


def diamond(x: float, y: float) -> str:
    """Return the mark of an exact value."""
    return f'<g class="estimate"><path class="exact" d="M{x:.1f},{y - 6:.1f}l5,6l-5,6l-5,-6Z"/></g>'


def look_note(looks: Sequence[Look], share: float, x: Axis, y: Axis) -> str:
    """Return the draws and the half-width of the look at a share of the way, above the looks around it."""
    at = min(int(share * len(looks)), len(looks) - 1)
    reach = len(looks) // 8
    around = looks[max(at - reach, 0) : at + reach + 1]
    top = min(y.at(each.high) for each in around) - 8
    look = looks[at]
    text = f"{look.drawn:,} draws: ±{(look.high - look.low) / 2:.2f} min"
    return label(x.at(look.seconds), max(top, y.end + 10), text, "end" if share == 1.0 else "middle", "note")


def carrier_line(each: CarrierDelay, x: Axis, y: float) -> str:
    """Return one carrier's name, whisker, dot, exact value and number of draws."""
    kind = "estimate" + ("" if each.covered else " missed") + (" few" if each.few else "")
    name = label(16, y + 4, each.carrier, "start", "code") + label(52, y + 4, each.name, "start", "name")
    drawn = label(WIDTH - 16, y + 4, f"{each.drawn:,}", "end", "number")
    exact = f'<path class="exact" d="M{x.at(each.exact):.1f},{y - 6}l5,6l-5,6l-5,-6Z"/>'
    if not each.met:
        # Nothing was drawn, so nothing can be said.
        return f'<g class="{kind}">{name}{exact}{drawn}</g>'
    title = html.escape(
        f"{each.name}: {each.value:.2f} [{each.low:.2f}, {each.high:.2f}] from {each.drawn:,} draws; "
        f"exact {each.exact:.2f}"
    )
    whisker = f'<line x1="{x.at(each.low):.1f}" x2="{x.at(each.high):.1f}" y1="{y}" y2="{y}"/>'
    ends = whisker_end(x, each.low, -1, y) + whisker_end(x, each.high, 1, y)
    dot = ""
    if x.low <= each.value <= x.high:
        dot = f'<circle cx="{x.at(each.value):.1f}" cy="{y}" r="4.5"/>'
    return f'<g class="{kind}"><title>{title}</title>{name}{whisker}{ends}{dot}{exact}{drawn}</g>'


def whisker_end(x: Axis, value: float, side: int, y: float) -> str:
    """Return the bar that ends a whisker, or an arrow where it goes on beyond the picture."""
    at = x.at(value)
    if x.low <= value <= x.high:
        return f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 5}" y2="{y + 5}"/>'
    return f'<path class="beyond" d="M{at + 7 * side:.1f},{y}l{-8 * side},-5v10Z"/>'


def shown_range(delays: Sequence[CarrierDelay]) -> tuple[float, float]:
    """Return the values to show: every exact value, and the estimates with enough draws to their whiskers' ends."""
    points = [each.exact for each in delays]
    points += [value for each in delays if not each.few for value in (each.value, each.low, each.high)]
    margin = 0.06 * (max(points) - min(points) or 1.0)
    return min(*points, 0.0) - margin, max(points) + margin


def window_rates(progress: Sequence[tuple[float, int]], seconds: float, count: int) -> list[tuple[float, float, float]]:
    """Return ``(begin, end, rows per second)`` for ``count`` windows of equal length."""
    width = seconds / count
    stored = [0] * count
    before = 0
    for at, rows in sorted(progress):
        stored[min(int(at / width), count - 1)] += max(rows - before, 0)
        before = max(before, rows)
    return [(i * width, (i + 1) * width, rows / width) for i, rows in enumerate(stored)]


def grid_x(axis: Axis, top: float, bottom: float, count: int, title: str) -> str:
    """Return vertical grid lines with values below them."""
    parts = []
    for tick in axis.ticks(count):
        at = axis.at(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(label(at, bottom + 16, plain(tick), "middle", "tick"))
    parts.append(label((axis.start + axis.end) / 2, bottom + 36, title, "middle", "small"))
    return "".join(parts)


def grid_y(axis: Axis, left: float, right: float, count: int, shown: Callable[[float], str]) -> str:
    """Return horizontal grid lines with values beside them."""
    parts = []
    for tick in axis.ticks(count):
        at = axis.at(tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(label(left - 8, at + 4, shown(tick), "end", "tick"))
    return "".join(parts)


def label(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    """Return a text element."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def path(points: Iterable[tuple[float, float]]) -> str:
    """Return the data of a path through ``points``."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def svg(height: float, parts: Iterable[str], title: str) -> str:
    """Return the element around a picture."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>'
    )


def plain(value: float) -> str:
    """Return a tick's value without needless digits."""
    return f"{value:g}"


def percent(value: float) -> str:
    """Return a tick's share in percent."""
    return f"{value * 100:g}%"


def thousands(value: float) -> str:
    """Return a tick's value in thousands."""
    return "0" if value == 0 else f"{value / 1000:g}k"
