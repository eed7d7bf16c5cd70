"""The two tables of the demo: every flight, and the flights of each hour, airport and carrier folded into a row.

Both are fed by the same commits, so that any snapshot shows the same flights in both.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import drillcore
from flights_demo.answers import check, timed

KEY = ["time_hour", "carrier", "flight"]
SET = "carrier"
WEIGHT = "distance"
HOURLY_KEY = ["time_hour", "origin", "carrier"]
HOURLY = {
    "time": "time_hour",
    "granularity": "hour",
    "metrics": {"flights": "count", "delay": "sum(dep_delay)", "worst": "max(dep_delay)"},
}
HOURLY_COLUMNS = [*HOURLY_KEY, "dep_delay"]


def create(db: drillcore.Database, schema: pa.Schema) -> None:
    """Create both tables for flights of this schema."""
    db.create_table("flights", schema, key=KEY, set=SET, weights=WEIGHT)
    of_hourly = pa.schema([schema.field(name) for name in HOURLY_COLUMNS])
    db.create_table("hourly", of_hourly, key=HOURLY_KEY, set=SET, merge="rollup", rollup=HOURLY)


def append(db: drillcore.Database, batch: pa.RecordBatch) -> None:
    """Append flights to both tables as one commit."""
    db.append({"flights": batch, "hourly": batch.select(HOURLY_COLUMNS)})


def agree(db: drillcore.Database) -> bool:
    """Whether both tables have the same number of flights in one snapshot, taken now."""
    with db.snapshot() as snapshot:
        return len(snapshot.table("flights")) == snapshot.table("hourly").count(unit="events")


def check_hourly(db: drillcore.Database) -> list[tuple[str, str]]:
    """Compare every row of the hourly table with the flights it was folded from, and return its figures.

    Raises
    ------
    AssertionError
        If a row is missing or a figure differs by anything.
    """
    with db.snapshot() as snapshot:
        hourly, seconds = timed(lambda: snapshot.table("hourly").scan().arrow())
        flights = snapshot.table("flights").scan(columns=HOURLY_COLUMNS).arrow()
        rows, events = len(snapshot.table("hourly")), snapshot.table("hourly").count(unit="events")
    metrics: list[tuple[str | list[str], str]] = [([], "count_all"), ("dep_delay", "sum"), ("dep_delay", "max")]
    folded = flights.group_by(HOURLY_KEY).aggregate(metrics).sort_by([(name, "ascending") for name in HOURLY_KEY])
    names = ["count_all", "dep_delay_sum", "dep_delay_max"]
    for metric, name in zip(HOURLY["metrics"], names, strict=True):
        check(hourly[metric].equals(folded[name]), f"{metric} of the hourly table is not the {name} of its flights")
    check(hourly.num_rows == rows and hourly.select(HOURLY_KEY).equals(folded.select(HOURLY_KEY)), "hourly keys")
    check(events == flights.num_rows, f"{events:,} events for {flights.num_rows:,} flights")
    total, worst = pc.sum(hourly["delay"]).as_py(), pc.max(hourly["worst"]).as_py()
    check(total == pc.sum(flights["dep_delay"]).as_py(), "the sum of all delays differs")
    return [
        ("rows: one an hour, airport and carrier", f"{rows:,}"),
        ("events folded into them", f"{events:,}"),
        ("sum of all delays, folded and from the flights", f"{total:,} min, the same"),
        ("rows whose count, sum and maximum are exact", f"{rows:,} of {rows:,}"),
        ("longest delay", f"{worst:,} min"),
        ("time to read the whole hourly table", f"{seconds * 1e3:.1f} ms"),
    ]


def delay_by_hour(db: drillcore.Database) -> list[tuple[int, int, float]]:
    """Return hour of the day, flights and minutes of delay a flight, from the hourly table alone."""
    hourly = db.table("hourly").scan(columns=["time_hour", "flights", "delay"]).arrow()
    hourly = hourly.append_column("hour", pc.hour(hourly["time_hour"]))
    sums = hourly.group_by("hour").aggregate([("flights", "sum"), ("delay", "sum")]).sort_by("hour")
    return [(row["hour"], row["flights_sum"], (row["delay_sum"] or 0) / row["flights_sum"]) for row in sums.to_pylist()]
