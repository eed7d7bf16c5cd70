"""What the demo asks once the rows are in, and how long each answer took."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import drillcore
from flights_demo.flights import ZONE, Flights

T = TypeVar("T")
FINAL_DRAWS = 20_000
FEW_DRAWS = 50


@dataclass(frozen=True)
class CarrierDelay:
    """A carrier's average departure delay in minutes, estimated and exact."""

    carrier: str
    name: str
    value: float
    low: float
    high: float
    drawn: int
    exact: float

    @property
    def met(self) -> bool:
        """Whether any of its flights was drawn."""
        return math.isfinite(self.value)

    @property
    def few(self) -> bool:
        """Whether so few rows were drawn that the interval has to allow for a tail that they did not meet."""
        return self.drawn < FEW_DRAWS

    @property
    def covered(self) -> bool:
        """Whether the exact value lies in the interval."""
        # The exact mean and a mean over all rows read may differ in the last bits.
        slack = 1e-9 * max(1.0, abs(self.exact))
        return self.low - slack <= self.exact <= self.high + slack


@dataclass(frozen=True)
class Answer:
    """A question, its answer and the seconds it took."""

    question: str
    call: str
    answer: str
    seconds: float


def estimate_carriers(table: drillcore.Table, flights: Flights) -> tuple[list[CarrierDelay], drillcore.Estimate, float]:
    """Return each carrier's delay estimated from one sample, worst first, the estimate and its seconds."""
    estimate, seconds = timed(lambda: table.estimate({"delay": "avg(dep_delay)"}, by="carrier", n=FINAL_DRAWS))
    exact = flights.exact_delays()
    delays = [
        CarrierDelay(
            carrier=row["carrier"],
            name=flights.airlines.get(row["carrier"], row["carrier"]),
            # Of a carrier that was not drawn the sample says nothing.
            value=math.nan if row["delay"] is None else row["delay"],
            low=-math.inf if row["delay_low"] is None else row["delay_low"],
            high=math.inf if row["delay_high"] is None else row["delay_high"],
            drawn=row["sampled"],
            exact=exact[row["carrier"]],
        )
        for row in estimate.arrow().to_pylist()
    ]
    return sorted(delays, key=lambda each: -each.exact), estimate, seconds


def expected_misses(delays: list[CarrierDelay], confidence: float) -> tuple[int, float]:
    """Return how many carriers have an interval to be trusted, and how many of those should miss."""
    trusted = sum(not each.few for each in delays)
    return trusted, (1 - confidence) * trusted


def ask_around(table: drillcore.Table, flights: Flights) -> list[Answer]:
    """Ask one question of each kind and check what can be checked against the file."""
    zone = ZoneInfo(ZONE)
    july = (datetime(2013, 7, 1, tzinfo=zone), datetime(2013, 8, 1, tzinfo=zone))
    row = flights.table.slice(flights.table.num_rows // 2, 1).to_pylist()[0]
    key = (row["time_hour"], row["carrier"], row["flight"])
    found, seconds = median_timed(lambda: table.get(*key))
    if found != row:
        raise AssertionError(f"the database and the file disagree: get{key} found {found}")
    answers = [
        Answer(
            "one flight by its key",
            f"t.get({key[0]:%Y-%m-%d %H:%M}, {key[1]!r}, {key[2]})",
            f"{row['origin']} to {row['dest']}, {delay_text(row['dep_delay'])}",
            seconds,
        )
    ]
    hawaiian, seconds = timed(lambda: table.scan(set="HA", columns=["dest"]).arrow().num_rows)
    check(hawaiian == count_in(flights, "carrier", "HA"), f"the set HA has {hawaiian} rows")
    answers.append(Answer("every Hawaiian flight (a set)", 't.scan(set="HA")', f"{hawaiian:,} rows", seconds))
    in_july, seconds = median_timed(lambda: table.count(between=july, closed="left"))
    check(in_july == count_in(flights, "month", 7), f"July has {in_july} rows")
    answers.append(Answer("how many flights in July (a key range)", "t.count(between=july)", f"{in_july:,}", seconds))
    drawn, seconds = median_timed(lambda: table.sample(5, set="DL", between=july, closed="left"))
    rows = drawn.arrow().to_pylist()
    check(all(each["carrier"] == "DL" and each["month"] == 7 for each in rows), f"drew {rows}")
    flown = ", ".join(f"DL{each['flight']}" for each in rows)
    answers.append(Answer("five random Delta flights in July", 't.sample(5, set="DL", between=july)', flown, seconds))
    hour_late = "dep_delay >= 60"
    late, seconds = median_timed(lambda: table.count(where=hour_late), 5)
    delays = flights.table["dep_delay"].to_pylist()
    check(late == sum(delay is not None and delay >= 60 for delay in delays), f"{late} flights left an hour late")
    answers.append(
        Answer(
            "how many left at least an hour late (a condition)", f't.count(where="{hour_late}")', f"{late:,}", seconds
        )
    )
    drawn, seconds = median_timed(lambda: table.sample(100, where=hour_late))
    assert drawn.sampling is not None, "rows of a sample say how they were drawn"
    answers.append(
        Answer(
            "a hundred random ones of those",
            f't.sample(100, where="{hour_late}")',
            f"{len(drawn)} of {drawn.sampling.attempts:,} flights drawn",
            seconds,
        )
    )
    mean, seconds = timed(lambda: table.estimate("avg(arr_delay)", set="UA", error=1.0))
    answers.append(
        Answer(
            "United's average arrival delay, within a minute",
            't.estimate("avg(arr_delay)", set="UA", error=1.0)',
            f"{mean.value:.1f} min, {mean.confidence:.0%} in [{mean.low:.1f}, {mean.high:.1f}], "
            f"{mean.sampled:,} of {mean.population:,} rows",
            seconds,
        )
    )
    return answers


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what ``work`` returns, and its seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def median_timed(work: Callable[[], T], repetitions: int = 50) -> tuple[T, float]:
    """Return what ``work`` returned last, and the median of its seconds."""
    runs = [timed(work) for _ in range(repetitions)]
    return runs[-1][0], statistics.median(seconds for _, seconds in runs)


def check(holds: bool, found: str) -> None:
    """Stop the demo if the database and the file disagree."""
    if not holds:
        raise AssertionError(f"the database and the file disagree: {found}")


def count_in(flights: Flights, column: str, value: Any) -> int:
    """Return how many flights of the file have ``value`` in ``column``."""
    return flights.table[column].to_pylist().count(value)


def delay_text(minutes: int | None) -> str:
    """Return a departure delay in words."""
    if minutes is None:
        return "cancelled"
    return "on time" if minutes == 0 else f"{abs(minutes)} min {'late' if minutes > 0 else 'early'}"


def duration_text(seconds: float) -> str:
    """Return a duration in the unit that reads best."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
