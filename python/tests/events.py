"""The rows the tests share: events, one a minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa

ZONE = ZoneInfo("America/New_York")
START = datetime(2013, 1, 1, tzinfo=ZONE)
CARRIERS = ["AA", "DL", "UA", None]
TAGS: list[list[str | None] | None] = [["late", "nördlich"], [], None, ["", None], ["late"]]


def event_schema() -> pa.Schema:
    return pa.schema(
        [
            pa.field("ts", pa.timestamp("us", "America/New_York"), nullable=False),
            pa.field("flight", pa.int64(), nullable=False),
            pa.field("carrier", pa.string()),
            pa.field("delay", pa.float64()),
            pa.field("late", pa.bool_()),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("ticket", pa.binary()),
        ]
    )


def event_rows(first: int, past_last: int) -> pa.Table:
    numbers = range(first, past_last)
    return pa.table(
        {
            "ts": [moment(i) for i in numbers],
            "flight": list(numbers),
            "carrier": [CARRIERS[i % 4] for i in numbers],
            "delay": [None if i % 10 == 9 else float(i) for i in numbers],
            "late": [i % 3 == 0 for i in numbers],
            "tags": [TAGS[i % 5] for i in numbers],
            "ticket": [None if i % 6 == 5 else bytes([i % 256, 0xFF])[: i % 3] for i in numbers],
        },
        schema=event_schema(),
    )


def moment(minute: int) -> datetime:
    # Through UTC, since adding to a local time ignores changes of the clock.
    return (START.astimezone(ZoneInfo("UTC")) + timedelta(minutes=minute)).astimezone(ZONE)
