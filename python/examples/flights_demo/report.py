"""The report of the demo: one HTML file with everything in it."""

from __future__ import annotations

import html
from dataclasses import dataclass

from flights_demo import plots
from flights_demo.answers import FEW_DRAWS, Answer, CarrierDelay, duration_text, expected_misses
from flights_demo.ingest import SHARE, Ingest
from flights_demo.queries import Query
from flights_demo.weighted import DRAWS, Comparison


@dataclass(frozen=True)
class Report:
    """What a run found; every figure in the page comes from here."""

    run: Ingest
    writers: int
    rate: float
    delays: list[CarrierDelay]
    exact_mean: float
    sampled: int
    population: int
    confidence: float
    method: str
    estimate_seconds: float
    unpaced: float
    """Rows a second when nothing paces the writers and nothing else runs."""
    answers: list[Answer]
    queries: list[Query]
    comparison: Comparison
    hourly: list[tuple[str, str]]
    by_hour: list[tuple[int, int, float]]
    """Hour of the day, flights, and minutes of delay a flight."""
    facts: list[tuple[str, str]]


def render(report: Report) -> str:
    """Return the page."""
    missed = [each for each in report.delays if not each.covered]
    share = report.sampled / report.population
    trusted = [each for each in report.delays if not each.few]
    covered = f"{sum(each.covered for each in trusted)} of {len(trusted)}"
    tiles = [
        (f"{report.population:,}", "flights stored"),
        (f"{share:.1%}", f"of them read for the estimates ({report.sampled:,})"),
        (
            covered,
            f"exact values inside their {report.confidence:.0%} interval, for carriers with at least {FEW_DRAWS} draws",
        ),
        (duration_text(report.estimate_seconds), f"to estimate all {len(report.delays)} carriers"),
        (
            f"{report.run.mismatches} of {report.run.checks:,}",
            "snapshots in which the two tables disagreed while rows came in",
        ),
    ]
    return "\n".join(
        [
            f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{TITLE}</title>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            f"<style>{STYLE}</style></head><body><main>",
            f"<header><p class='eyebrow'>Drillcore demo</p><h1>{TITLE}</h1>{lead(report)}</header>",
            "<section class='tiles'>",
            *(
                f"<div><strong>{html.escape(big)}</strong><span>{html.escape(small)}</span></div>"
                for big, small in tiles
            ),
            "</section>",
            section("Who leaves late", carriers_text(report, missed), plots.carriers_plot(report.delays), LEGEND),
            section("The interval shrinks while rows come in", looks_text(report), looks(report), ""),
            section("Rows stored per second", ingest_text(report), plots.ingest_plot(report.run), ""),
            section(
                "Drawn by distance", weighted_text(report), plots.weighted_plot(report.comparison), WEIGHTED_LEGEND
            ),
            facts_figure(report.comparison.facts()),
            section("Folded on arrival", folded_text(report), plots.hours_plot(report.by_hour), ""),
            facts_figure(report.hourly),
            section("One question of each kind", ANSWERS_TEXT, answers_table(report.answers), ""),
            f"<section><h2>Asked in SQL</h2><p>{QUERIES_TEXT}</p>",
            *map(query_figure, report.queries),
            "</section>",
            section("Facts of this run", FACTS_TEXT, facts_table(report.facts), ""),
            "</main></body></html>",
        ]
    )


def lead(report: Report) -> str:
    """Return the opening paragraph."""
    return (
        f"<p class='lead'>{spelled(report.writers).capitalize()} threads stored every flight that left New York in "
        "2013, in random order. Meanwhile, one thread drew random flights from the rows stored so far, and another "
        "compared two tables. The writers did not stop: each read uses one consistent snapshot.</p>"
    )


def carriers_text(report: Report, missed: list[CarrierDelay]) -> str:
    """Return what the first picture shows."""
    outcome = "Here every exact value is inside."
    if missed:
        names = " and ".join(", ".join(each.name for each in missed).rsplit(", ", 1))
        outcome = f"Here {names} {'is' if len(missed) == 1 else 'are'} outside, in red."
    trusted, expected = expected_misses(report.delays, report.confidence)
    return (
        f"Each dot is an average estimated from one sample of {report.sampled:,} flights, each whisker its "
        f"{report.confidence:.0%} interval ({html.escape(report.method)}), each diamond the exact value from the "
        f"file. Of the {trusted} intervals from at least {FEW_DRAWS} draws, about {expected:.1f} should miss. "
        f"Intervals from fewer draws are dotted and wide: delays have a long tail, which few draws may miss. {outcome}"
    )


def looks_text(report: Report) -> str:
    """Return what the second picture shows."""
    return (
        f"The average delay over all carriers, estimated {len(report.run.looks)} times during the load, each time "
        f"from a fresh sample of {SHARE:.0%} of the rows in a fresh snapshot. Each interval holds by itself with 95% "
        "confidence. Four times as many draws halve its width."
    )


def ingest_text(report: Report) -> str:
    """Return what the third picture shows."""
    batches = f"{report.run.batches:,} batches went in, each one commit that survives a killed process"
    if not report.rate:
        return f"{batches}. The rate was {report.run.rows_per_second:,.0f} rows per second, while the estimates ran."
    return (
        f"{batches}. The writers were paced to {report.rate:,.0f} rows per second, to leave something to watch. "
        f"At full speed and alone, the same threads store {report.unpaced:,.0f} rows per second."
    )


def weighted_text(report: Report) -> str:
    """Return what the picture of the weighted draw shows."""
    plain, weighted = report.comparison.plain, report.comparison.weighted
    return (
        f"{DRAWS:,} flights drawn with equal chances, and {DRAWS:,} drawn in proportion to their distance: "
        f"a flight of 2,000 miles is drawn ten times as often as one of 200. "
        f"The average of the plain draw must be near E[d] = {plain.expected:,.0f} miles, "
        f"that of the weighted draw near E[d²]/E[d] = {weighted.expected:,.0f}."
    )


def folded_text(report: Report) -> str:
    """Return what the picture of the hourly table shows."""
    return (
        "Each batch went into two tables in one commit: the flights as they are, and a table that folds them by hour, "
        "airport and carrier into a count, a sum and a maximum of their departure delays. "
        f"Meanwhile, {report.run.checks:,} snapshots counted the flights of both tables: "
        f"{report.run.mismatches or 'none'} showed half a commit. The picture uses the hourly table only: delays "
        "grow over the day."
    )


def looks(report: Report) -> str:
    """Return the second picture, unless the load was over before the first look."""
    if not report.run.looks:
        return "<p>The load ended before the first estimate.</p>"
    return plots.looks_plot(report.run.looks, report.run.seconds, report.exact_mean)


def section(title: str, text: str, body: str, foot: str) -> str:
    """Return one part of the page."""
    return f"<section><h2>{title}</h2><p>{text}</p><figure>{body}</figure>{foot}</section>"


def answers_table(answers: list[Answer]) -> str:
    """Return the questions with their answers and times."""
    rows = [
        f"<tr><td>{html.escape(each.question)}<code>{html.escape(each.call)}</code></td>"
        f"<td>{html.escape(each.answer)}</td><td class='number'>{duration_text(each.seconds)}</td></tr>"
        for each in answers
    ]
    head = "<tr><th>question</th><th>answer</th><th class='number'>time</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def query_figure(query: Query) -> str:
    """Return a query with its result, and with what of it the engine did."""
    head = "".join(f"<th class='{kind(query, i)}'>{html.escape(name)}</th>" for i, name in enumerate(query.columns))
    rows = [
        "".join(f"<td class='{kind(query, i)}'>{html.escape(value)}</td>" for i, value in enumerate(row))
        for row in query.rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    plan = html.escape("\n".join(query.plan))
    return (
        f"<figure class='below query'><h3>{html.escape(query.question)}</h3><div class='pair'>"
        f"<pre>{html.escape(query.text)}</pre>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<pre class='plan'>{plan}</pre><p class='took'>{duration_text(query.seconds)}</p></figure>"
    )


def kind(query: Query, column: int) -> str:
    """Return the class of a column's cells: numbers stand to the right."""
    return "number" if all(row[column].replace(",", "").lstrip("-").isdigit() for row in query.rows) else ""


def facts_figure(facts: list[tuple[str, str]]) -> str:
    """Return names and values in a frame of their own, below a picture."""
    return f"<figure class='below'>{facts_table(facts)}</figure>"


def facts_table(facts: list[tuple[str, str]]) -> str:
    """Return names and values."""
    rows = [
        f"<tr><td>{html.escape(name)}</td><td class='number'>{html.escape(value)}</td></tr>" for name, value in facts
    ]
    return f"<table class='facts'><tbody>{''.join(rows)}</tbody></table>"


def spelled(count: int) -> str:
    """Return a small number as a word."""
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    return words[count] if count < len(words) else str(count)


TITLE = "A year of departures, sampled while it is stored"
ANSWERS_TEXT = (
    "These calls ran after the load, on the same table, as in any program. Times of short calls are the median of 50 "
    "calls. Answers were checked against the file where possible."
)
QUERIES_TEXT = (
    "Each query reads one snapshot of both tables. Below it are the scans of its plan: columns, key ranges and sets, "
    "tests of rows, samples. A sample draws from the rows that meet the condition, so it has the requested size. "
    "Times are the median of 5 runs."
)
FACTS_TEXT = (
    "Measured in this run, on this machine. The database was flushed, closed, opened again and verified: every segment "
    "was read, and its checksums and indexes were compared with its rows."
)


def legend_entry(kind: str, shapes: str, text: str) -> str:
    """Return one mark of the first picture with what it means."""
    return f"<span><svg viewBox='0 0 26 12'><g class='{kind}'>{shapes}</g></svg>{text}</span>"


WHISKER = "<line x1='1' x2='25' y1='6' y2='6'/><circle cx='13' cy='6' r='4.5'/>"
DIAMOND = "<path class='exact' d='M13,0l5,6l-5,6l-5,-6Z'/>"
LEGEND = "".join(
    [
        "<p class='legend'>",
        legend_entry("estimate", WHISKER, "estimate with interval"),
        legend_entry("estimate", DIAMOND, "exact"),
        legend_entry("estimate missed", WHISKER, "exact value outside"),
        legend_entry("estimate few", WHISKER, f"fewer than {FEW_DRAWS} draws"),
        "</p>",
    ]
)
WEIGHTED_LEGEND = "".join(
    [
        "<p class='legend'>",
        legend_entry("bars", "<rect class='bar plain' x='6' width='14' height='12'/>", "drawn with equal chances"),
        legend_entry("bars", "<rect class='bar' x='6' width='14' height='12'/>", "drawn by distance"),
        legend_entry("estimate", DIAMOND, "exact, from the file"),
        "</p>",
    ]
)
STYLE = """
:root { --paper: #fbfaf7; --card: #ffffff; --ink: #20242a; --soft: #646b75; --rule: #e5e2da; --band: #f6f4ee;
  --blue: #1c6e8c; --fan: #1c6e8c2e; --amber: #d08700; --red: #c2362b; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1b1f25; --ink: #e8e6e1; --soft: #9aa2ad;
  --rule: #2c323a; --band: #20252c; --blue: #5fb3d4; --fan: #5fb3d433; --amber: #f0b43c; --red: #ff7a6b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 48px 24px 72px; }
h1 { font-size: 34px; line-height: 1.2; margin: 4px 0 12px; letter-spacing: -0.01em; }
h2 { font-size: 21px; margin: 48px 0 6px; }
p { margin: 0 0 14px; max-width: 76ch; color: var(--soft); }
.lead { font-size: 18px; color: var(--ink); }
.eyebrow { color: var(--blue); font-weight: 600; letter-spacing: 0.06em; text-transform: uppercase; font-size: 13px;
  margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 14px; margin-top: 26px; }
.tiles div { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 14px 18px; }
.tiles strong { display: block; font-size: 27px; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: 14px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 16px 14px 10px; overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font-size: 13px; }
svg .small, svg .tick { fill: var(--soft); font-size: 12px; }
svg .code { font-weight: 600; } svg .name { fill: var(--soft); } svg .number { font-variant-numeric: tabular-nums; }
svg .note { fill: var(--blue); font-size: 12px; font-weight: 600; paint-order: stroke; stroke: var(--card);
  stroke-width: 4px; }
svg .exact-text { fill: var(--amber); font-size: 12px; font-weight: 600; paint-order: stroke; stroke: var(--card);
  stroke-width: 4px; }
.band { fill: var(--band); } .grid { stroke: var(--rule); stroke-width: 1; }
.estimate line { stroke: var(--blue); stroke-width: 2.25; } .estimate circle { fill: var(--blue); }
.estimate .beyond { fill: var(--blue); }
.few line { stroke-dasharray: 3 3; } .few circle { fill: var(--card) !important; stroke: var(--blue); stroke-width: 2; }
.missed line { stroke: var(--red); } .missed.few circle { stroke: var(--red); }
.missed circle, .missed .beyond { fill: var(--red); }
.estimate .exact { fill: none; stroke: var(--amber); stroke-width: 2; }
figure.below { margin-top: 14px; padding: 4px 14px; }
.bar { fill: var(--blue); } .bar.plain { fill: var(--soft); opacity: 0.55; }
.fan { fill: var(--fan); } .look { fill: var(--blue); }
.line { fill: none; stroke: var(--blue); stroke-width: 1.75; stroke-linejoin: round; }
.exact-line { stroke: var(--amber); stroke-width: 1.5; stroke-dasharray: 5 4; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 26px; font-size: 14px; margin-top: 10px; max-width: none; }
.legend span { display: flex; align-items: center; gap: 8px; white-space: nowrap; } .legend svg { width: 30px; }
table { width: 100%; border-collapse: collapse; font-size: 15px; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
th, td { padding: 9px 10px; border-bottom: 1px solid var(--rule); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td code { display: block; color: var(--soft); font: 13px ui-monospace, "DejaVu Sans Mono", monospace; }
figure.query { padding: 14px 16px 8px; } .query h3 { font-size: 16px; margin: 0 0 10px; }
.pair { display: flex; flex-wrap: wrap; gap: 18px 28px; align-items: flex-start; }
.pair table { width: auto; flex: 1 1 240px; }
pre { margin: 0; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; flex: 2 1 380px; }
pre.plan { color: var(--blue); margin-top: 12px; border-top: 1px solid var(--rule); padding-top: 10px; }
.took { text-align: right; font-size: 13px; margin: 2px 0 0; max-width: none; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""
