"""Questions asked in SQL, over both tables in one snapshot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import drillcore
from flights_demo.answers import check, median_timed
from flights_demo.flights import Flights

REPETITIONS = 5
LATE = 60
"""Minutes from which a flight counts as late."""
SAMPLED = 400


@dataclass(frozen=True)
class Query:
    """A query, what it is for, and what came back."""

    question: str
    text: str
    plan: list[str]
    """What was left to the engine."""
    columns: list[str]
    rows: list[list[str]]
    seconds: float


def ask(db: drillcore.Database, flights: Flights) -> list[Query]:
    """Ask in SQL, and check against the file what can be checked."""
    with db.snapshot() as snapshot:
        routes = run(
            snapshot,
            "Which United routes most often leave at least an hour late?",
            f"""
select origin, dest, count(*) as flights
from flights
where carrier = 'UA' and dep_delay >= {LATE}
group by origin, dest order by flights desc, dest limit 5""",
        )
        united = [each for each in late(flights) if each["carrier"] == "UA"]
        expected = Counter((each["origin"], each["dest"]) for each in united).most_common(1)[0]
        check([*expected[0], f"{expected[1]:,}"] == routes.rows[0], f"the latest route is {routes.rows[0]}")
        hours = run(
            snapshot,
            "Which days lost the most time, by the flights and by the hourly table?",
            """
select f.day, f.minutes, h.minutes as hourly
from (select date_trunc('day', time_hour) as day, sum(dep_delay) as minutes from flights group by 1) f
join (select date_trunc('day', time_hour) as day, sum(delay) as minutes from hourly group by 1) h on f.day = h.day
order by h.minutes desc limit 3""",
        )
        check(all(row[1] == row[2] for row in hours.rows), f"the tables disagree: {hours.rows}")
        sampled = run(
            snapshot,
            f"Where did {SAMPLED} random flights start that were at least an hour late?",
            f"""
select origin, count(*) as flights, round(avg(dep_delay)) as minutes
from flights tablesample ({SAMPLED} rows) repeatable (7)
where dep_delay >= {LATE}
group by origin order by origin""",
        )
        drawn = sum(int(row[1].replace(",", "")) for row in sampled.rows)
        check(drawn == SAMPLED, f"{drawn} rows of {SAMPLED} were drawn")
    return [routes, sampled, hours]


def late(flights: Flights) -> list[dict[str, object]]:
    """Return the late flights of the file."""
    columns = flights.table.select(["carrier", "origin", "dest", "dep_delay"]).to_pylist()
    return [each for each in columns if each["dep_delay"] is not None and each["dep_delay"] >= LATE]


def run(snapshot: drillcore.Snapshot, question: str, text: str) -> Query:
    """Run one query, and ask how it is run."""
    found, seconds = median_timed(lambda: snapshot.sql(text).arrow(), REPETITIONS)
    plans = snapshot.sql(f"explain format indent {text}").arrow().to_pylist()
    lines = next(plan["plan"] for plan in plans if plan["plan_type"] == "physical_plan").splitlines()
    scans = [line.strip() for line in lines if "DrillcoreScan" in line]
    rows = [[shown(value) for value in row.values()] for row in found.to_pylist()]
    return Query(question, text.strip(), scans, found.column_names, rows, seconds)


def shown(value: object) -> str:
    """Return a value of a result as a reader wants it."""
    if isinstance(value, int | float):
        return f"{value:,.0f}"
    return str(value.date()) if hasattr(value, "date") else str(value)
