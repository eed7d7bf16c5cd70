"""Runs the demo; see :mod:`flights_demo`."""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import sys
import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table as ConsoleTable

import drillcore
from flights_demo import answers, flights, ingest, queries, report, tables, weighted
from flights_demo.answers import Answer, CarrierDelay, duration_text

SHUFFLE_SEED = 2013


def main() -> int:
    """Run the demo and return the exit code."""
    options = parse_arguments()
    console = Console()
    input_flights, load_seconds = answers.timed(flights.load)
    rows = input_flights.table.num_rows
    console.print(f"[bold]{rows:,} flights[/] that left New York in 2013, read in {duration_text(load_seconds)}")
    batches = input_flights.shuffled_batches(options.batch_rows, SHUFFLE_SEED)

    if options.database.exists():
        shutil.rmtree(options.database)
    with drillcore.open(options.database) as db:
        tables.create(db, input_flights.table.schema)
        run = watch_ingest(console, db, batches, options)
        table = db.table("flights")
        answers.check(len(table) == rows, f"{len(table):,} rows stored, {rows:,} in the file")
        delays, estimate, estimate_seconds = answers.estimate_carriers(table, input_flights)
        print_delays(console, delays, estimate)
        asked = answers.ask_around(table, input_flights)
        print_answers(console, asked)
        asked_in_sql = queries.ask(db, input_flights)
        print_queries(console, asked_in_sql)
        comparison = weighted.compare(table, input_flights)
        print_facts(console, "Drawn by distance", comparison.facts())
        answers.check(not run.mismatches, f"{run.mismatches} of {run.checks} snapshots showed half a commit")
        hourly = [*tables.check_hourly(db), checked(run)]
        by_hour = tables.delay_by_hour(db)
        print_facts(console, "Folded on arrival", hourly)
        _, flush_seconds = answers.timed(db.flush)
        _, close_seconds = answers.timed(db.close)

    db, open_seconds = answers.timed(lambda: drillcore.open(options.database))
    with db:
        answers.check(len(db.table("flights")) == rows, "rows are missing after opening again")
        answers.check(db.table("hourly").count(unit="events") == rows, "events are missing after opening again")
        _, verify_seconds = answers.timed(db.verify)
    unpaced = unpaced_rate(options.database.with_name("unpaced.drill"), batches, input_flights, options.writers)
    disk_bytes = sum(file.stat().st_size for file in options.database.rglob("*") if file.is_file())
    facts = [
        ("rows in the file, and in the table after opening again", f"{rows:,}"),
        ("writers, batches, rows per batch", f"{options.writers}, {run.batches:,}, {options.batch_rows:,}"),
        ("time from the first row to the last", duration_text(run.seconds)),
        ("time per append, median and slowest", spread(run.append_seconds)),
        ("estimates made while rows came in", f"{len(run.looks):,}"),
        ("the same batches into a new database, at full speed", f"{unpaced:,.0f} rows/s"),
        ("bytes on disk of both tables, in total and per flight", f"{disk_bytes:,}, {disk_bytes / rows:.1f}"),
        (
            "time to flush, close, open again, verify every segment",
            ", ".join(map(duration_text, (flush_seconds, close_seconds, open_seconds, verify_seconds))),
        ),
    ]
    print_facts(console, "Facts of this run", facts)
    page = report.render(
        report.Report(
            run=run,
            writers=options.writers,
            rate=options.rate,
            delays=delays,
            exact_mean=mean_delay(input_flights),
            sampled=estimate.sampled,
            population=estimate.population,
            confidence=estimate.confidence,
            method=estimate.method,
            estimate_seconds=estimate_seconds,
            unpaced=unpaced,
            answers=asked,
            queries=asked_in_sql,
            comparison=comparison,
            hourly=hourly,
            by_hour=by_hour,
            facts=facts,
        )
    )
    options.report.write_text(page, encoding="utf-8")
    console.print(f"\nThe report is in [bold]{options.report}[/], the database in [bold]{options.database}[/].")
    return 0


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="flights_demo", description=report.TITLE)
    parser.add_argument(
        "--database",
        type=Path,
        default=Path(".demo/flights.drill"),
        help="database directory; an existing one is replaced",
    )
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), help="HTML file to write")
    parser.add_argument("--writers", type=int, default=4, help="number of threads that append")
    parser.add_argument("--batch-rows", type=int, default=2000, help="rows per append")
    parser.add_argument("--rate", type=float, default=80_000, help="total rows per second; 0 for full speed")
    return parser.parse_args()


def watch_ingest(
    console: Console, db: drillcore.Database, batches: list[pa.RecordBatch], options: argparse.Namespace
) -> ingest.Ingest:
    """Run the ingest under a progress bar that shows the shrinking interval."""
    columns = [
        BarColumn(bar_width=16),
        TextColumn("{task.completed:>7,.0f} rows {task.fields[rate]:>9,.0f}/s"),
        TextColumn("[cyan]{task.fields[look]}"),
    ]
    with Progress(*columns, console=console) as progress:
        total = sum(batch.num_rows for batch in batches)
        task = progress.add_task("", total=total, rate=0.0, look="")

        def show(run: ingest.Ingest) -> None:
            rate = run.rows_per_second if run.seconds else 0.0
            progress.update(task, completed=run.rows, rate=rate, look=look_text(run))

        return ingest.run_ingest(db, batches, writers=options.writers, rate=options.rate, on_step=show)


def look_text(run: ingest.Ingest) -> str:
    """Return the newest look in a few words."""
    if not run.looks:
        return ""
    look = run.looks[-1]
    half = (look.high - look.low) / 2
    return f"{look.value:5.2f} ± {half:4.2f} min, {look.drawn:,} draws"


def print_delays(console: Console, delays: list[CarrierDelay], estimate: drillcore.Estimate) -> None:
    """Print the estimates beside the exact values, and warn where one lies outside."""
    share = estimate.sampled / estimate.population
    title = f"Average departure delay, minutes: {share:.1%} of the rows read, {estimate.confidence:.0%} intervals"
    table = ConsoleTable(title=title, title_justify="left", title_style="bold")
    table.add_column("carrier")
    for column in ("estimate", "low", "high", "exact", "draws"):
        table.add_column(column, justify="right")
    for each in delays:
        numbers = [shown(value) for value in (each.value, each.low, each.high, each.exact)]
        table.add_row(each.name, *numbers, f"{each.drawn:,}", style=None if each.covered else "yellow")
    console.print()
    console.print(table)
    trusted, expected = answers.expected_misses(delays, estimate.confidence)
    missed = sum(not each.covered for each in delays if not each.few)
    verdict = f"{missed} of {trusted} exact values are outside their interval; about {expected:.1f} are expected."
    console.print(f"[yellow]Warning:[/] {verdict}" if missed else verdict)
    if trusted < len(delays):
        outside = sum(not each.covered for each in delays if each.few)
        console.print(
            f"Not counted: {len(delays) - trusted} carriers with fewer than {answers.FEW_DRAWS} draws, "
            f"{outside} of them outside. Delays have a long tail, which few draws may miss, so such intervals are wide."
        )


def shown(value: float) -> str:
    """Return a delay, or a dash where the draws say nothing."""
    return f"{value:.2f}" if math.isfinite(value) else "-"


def print_answers(console: Console, asked: list[Answer]) -> None:
    """Print one line per question."""
    table = ConsoleTable(title="One question of each kind", title_justify="left", title_style="bold")
    table.add_column("question")
    table.add_column("answer")
    table.add_column("time", justify="right", no_wrap=True)
    for each in asked:
        table.add_row(each.question, each.answer, duration_text(each.seconds))
    console.print()
    console.print(table)


def print_queries(console: Console, asked: list[queries.Query]) -> None:
    """Print each query with its result."""
    for each in asked:
        table = ConsoleTable()
        for column in each.columns:
            table.add_column(column)
        for row in each.rows:
            table.add_row(*row)
        console.print(f"\n[bold]{escape(each.question)}[/] [dim]{duration_text(each.seconds)}[/]", highlight=False)
        console.print(f"[dim]{escape(each.text)}[/]", highlight=False)
        console.print(table)


def checked(run: ingest.Ingest) -> tuple[str, str]:
    """Return how often both tables were compared while rows came in."""
    held = f"{run.checks - run.mismatches:,} of {run.checks:,}, {run.mismatches} mismatches"
    return ("snapshots taken while writing in which both tables agree", held)


def print_facts(console: Console, title: str, facts: list[tuple[str, str]]) -> None:
    """Print names and values."""
    table = ConsoleTable.grid(padding=(0, 2))
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in facts:
        table.add_row(escape(name), escape(value))
    console.print()
    console.print(table)


def unpaced_rate(directory: Path, batches: list[pa.RecordBatch], input_flights: flights.Flights, writers: int) -> float:
    """Return the rows per second when nothing paces the writers and nothing else runs."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        with drillcore.open(directory) as db:
            tables.create(db, input_flights.table.schema)
            run = ingest.run_ingest(db, batches, writers=writers, looking=False)
            return run.rows_per_second
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def mean_delay(input_flights: flights.Flights) -> float:
    """Return the exact average departure delay of all flights."""
    delays = [delay for delay in input_flights.table["dep_delay"].to_pylist() if delay is not None]
    return sum(delays) / len(delays)


def spread(seconds: list[float]) -> str:
    """Return the median and the largest of some durations."""
    return f"{duration_text(statistics.median(seconds))}, {duration_text(max(seconds))}"


if __name__ == "__main__":
    began = time.perf_counter()
    code = main()
    Console().print(f"[dim]{duration_text(time.perf_counter() - began)} in total[/]")
    sys.exit(code)
