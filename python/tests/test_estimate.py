"""Estimates as text and HTML, and what they say besides numbers."""

from __future__ import annotations

import html
import math
import re

import pyarrow as pa
import pytest

import drillcore

ROWS = 40_000


@pytest.fixture(name="sales", scope="module")
def _sales() -> drillcore.Table:
    """A table of two large sets, one small and one without values; and 3,001 customers."""
    db = drillcore.open(":memory:")
    table = db.create_table(
        "sales",
        {"id": "int64", "shop": "string", "customer": "int64", "price": "float64", "rare": "float64"},
        key="id",
        set="shop",
    )

    def shop(i: int) -> str:
        if i % 4_000 == 17:
            return "kiosk"
        return "closed" if i % 10 == 0 else ("north", "south")[i % 2]

    table.append(
        [
            {
                "id": i,
                "shop": shop(i),
                "customer": i * 7_919 % 3_001,
                "price": None if shop(i) == "closed" else 10.0 + i * 7_919 % 1_009 / 100,
                "rare": 1e6 if i == 4_711 else 1.0,
            }
            for i in range(ROWS)
        ]
    )
    return table


def numbers_of(text: str) -> list[str]:
    """Every number in a text, as it is written."""
    return re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?", text)


def text_of(page: str) -> str:
    """An HTML page without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


ESTIMATES = {
    "one average of few draws": {"aggregates": "avg(price)", "n": 100},
    "an average that one row carries": {"aggregates": "avg(rare)", "n": 100},
    "an average by set, stopped at a width": {"aggregates": ["avg(price)", "count"], "by": "shop", "error": "5%"},
    "many groups": {"aggregates": {"mean": "avg(price)", "n": "count"}, "by": "customer", "n": 2_000},
    "groups that hold together": {"aggregates": "count", "by": "customer", "n": 500, "simultaneous": True},
    "a width out of reach": {"aggregates": "avg(price)", "error": 1e-9},
    "a condition": {"aggregates": "avg(price)", "where": "price > 15 and id < 39000", "n": 300},
    "names of HTML": {"aggregates": {"<b>&": "avg(price)"}, "n": 100},
    "everything": {"aggregates": ["avg(price)", "count"], "by": "shop", "n": ROWS},
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_the_html_of_an_estimate_says_all_that_its_text_says(sales: drillcore.Table, name: str) -> None:
    asked = dict(ESTIMATES[name])
    found = sales.estimate(asked.pop("aggregates"), seed=3, **asked)
    text, page = repr(found), found._repr_html_()
    shown = text_of(page)
    for note in found.notes:
        assert note in text and note in shown
    assert set(numbers_of(text)) <= set(numbers_of(shown))
    words = {word for line in text.splitlines()[1:] for word in re.findall(r"[a-z]{3,}", line)}
    assert words <= set(re.findall(r"[a-z]{3,}", shown))


def test_groups_not_met_are_told_in_words_and_numbers(sales: drillcore.Table) -> None:
    found = sales.estimate("count", by="customer", n=2_000, seed=1)
    met = set(found.arrow()["customer"].to_pylist())
    truth = sum(i * 7_919 % 3_001 not in met for i in range(ROWS)) / ROWS
    assert 0 < found.unseen_share < found.unseen_share_high < 1
    assert truth <= found.unseen_share_high
    assert abs(found.unseen_share - truth) < 0.1
    [note] = found.notes
    assert note.startswith("groups not met hold an estimated ") and ", at most " in note
    assert note in repr(found) and note in found._repr_html_()
    # An index lists all sets.
    known = sales.estimate("count", by="shop", n=10)
    assert (known.unseen_share, known.unseen_share_high, known.notes) == (0, 0, [])


def test_an_average_that_is_not_there_is_null_with_its_count(sales: drillcore.Table) -> None:
    found = sales.estimate(["avg(price)", "count"], by="shop", error="5%", seed=1)
    closed = next(row for row in found.arrow().to_pylist() if row["shop"] == "closed")
    assert closed["avg(price)"] is None and closed["avg(price)_high"] is None
    assert closed["count"] == ROWS / 10
    assert "closed avg(price) = null  exact" in repr(found)
    whole = sales.estimate("avg(price)", where="shop = 'closed'", n=ROWS)
    assert math.isnan(whole.value) and whole.arrow()["avg(price)"].to_pylist() == [None]


def test_a_small_set_is_marked_as_exact_beside_estimates(sales: drillcore.Table) -> None:
    found = sales.estimate("avg(price)", by="shop", set=["kiosk", "north", "south"], error="5%", seed=1)
    assert found.scanned == 10 and not found.exact
    kiosk = found.arrow().to_pylist()[0]
    assert kiosk["sampled"] == 10
    assert kiosk["avg(price)_low"] == kiosk["avg(price)_high"] == kiosk["avg(price)"]
    first, second = repr(found).splitlines()[1:3]
    assert first.startswith("kiosk avg(price) = ") and first.endswith("  exact")
    assert second.startswith("north avg(price) = ") and second.endswith("]")
    assert "1 of 3 groups were read whole, 10 rows: their figures are exact" in found.notes


def test_the_bounds_that_an_interval_allows_for_are_told(sales: drillcore.Table) -> None:
    *_, found = sales.estimate({"mean": "avg(price)", "n": "count"}, n=3_000, seed=1, progressive=True)
    assert found.bounds == {"mean": (10.0, 20.08)}
    assert not found.asymptotic
    assert "10 to 20.08" in found.notes[0]
    # So few rows are read, which shows the one that carries the average.
    rare = sales.estimate("avg(rare)", error="10%", seed=1)
    assert rare.exact and rare.scanned == ROWS
    assert rare.value == pytest.approx((1e6 + ROWS - 1) / ROWS)
    assert any(note.startswith("all 40,000 rows were read") for note in rare.notes)


def test_an_average_without_bounds_says_what_it_leans_on() -> None:
    with drillcore.open(":memory:") as db:
        table = db.create_table(
            "t", {"id": "int64", "x": "float64"}, key="id", merge="rollup", rollup={"metrics": {"x": "sum(x)"}}
        )
        table.append([{"id": i, "x": 1e6 if i == 4_711 else 1.0 + i % 3} for i in range(ROWS)])
        *_, found = table.estimate("avg(x)", n=3_000, seed=1, progressive=True)
        assert found.asymptotic and found.bounds == {}
        assert found.method == "asymptotic confidence sequence"
        assert "the bounds of its values are unknown" in found.notes[0]
        assert found.notes[0] in repr(found) and found.notes[0] in html.unescape(found._repr_html_())


def test_events_of_a_rollup_table() -> None:
    db = drillcore.open(":memory:")
    rollup = {"dimensions": ["miles"], "metrics": {"n": "count", "delay": "avg(delay)"}}
    schema = {"id": "int64", "miles": "int64", "delay": "float64"}
    t = db.create_table("t", schema, key="id", merge="rollup", rollup=rollup)
    # Row i has i + 1 events, all with the same miles.
    events = [{"id": i, "miles": i, "delay": float(event)} for i in range(50) for event in range(i + 1)]
    t.append(events[::2])
    t.append(events[1::2])
    of = {"n": "count", "miles": "avg(miles)", "delay": "avg(delay)", "most": "quantile(miles, 1)"}
    whole = t.estimate(of, unit="events")
    assert (whole.exact, whole.unit, whole.population) == (True, "events", len(events))
    (row,) = whole.arrow().to_pylist()
    assert row["n"] == t.count(unit="events") == len(events)
    assert row["miles"] == pytest.approx(sum(event["miles"] for event in events) / len(events))
    assert row["delay"] == pytest.approx(sum(event["delay"] for event in events) / len(events))
    assert row["most"] == 49
    drawn = t.estimate("avg(miles)", unit="events", n=200, seed=1)
    assert (drawn.sampled, drawn.exact) == (200, False)
    assert repr(drawn).startswith("<Estimate: 200 of 1,275 events drawn")
    # By row, each counts once.
    by_row = t.estimate("avg(miles)")
    assert (by_row.unit, by_row.value) == ("rows", 24.5)
    with pytest.raises(drillcore.InvalidArgumentError, match="unit: expected 'rows' or 'events', not 'event'"):
        t.estimate("count", unit="event")


def test_what_an_index_knows_is_not_drawn(sales: drillcore.Table) -> None:
    for by in (None, "shop"):
        found = sales.estimate("count", by=by, n=100)
        assert (found.exact, found.sampled, found.scanned) == (True, 0, 0)
        assert repr(found).startswith("<Estimate: exact, known without a draw, 40,000 rows>")
        assert sum(found.arrow()["count"].to_pylist()) == ROWS


def test_groups_that_do_not_reach_the_width_are_named() -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64", "g": "string", "x": "float64"}, key="id", set="g")
    rows = 600_000
    ids = pa.array(range(rows))
    groups = pa.array(["full" if i % 2 else "void" for i in range(rows)])
    numbers = pa.array([float(i % 1_000) if i % 2 or i == 0 else None for i in range(rows)])
    t.append(pa.table({"id": ids, "g": groups, "x": numbers}))
    found = t.estimate("avg(x)", by="g", error="10%", seed=1)
    assert not found.exact
    [wide] = found.unreached
    assert (wide["g"], wide["aggregate"]) == ("void", "avg(x)")
    assert re.fullmatch(r"none of the \d+ drawn rows of the group has a value", wide["reason"])
    note = "avg(x): the interval is wider than the requested error in 1 of 2 groups (void): none of the "
    for text in (repr(found), text_of(found._repr_html_())):
        assert note in text
    full = found.arrow().to_pylist()[0]
    assert full["avg(x)_high"] - full["avg(x)"] <= 0.1 * full["avg(x)"]
    assert sum(look.unreached != [] for look in t.estimate("avg(x)", error="5%", progressive=True)) >= 1
    assert t.estimate("avg(x)", n=10).unreached == []


def test_an_average_of_no_row_says_so() -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64", "x": "float64", "y": "float64"}, key="id")
    t.append([{"id": i, "x": float(i), "y": 1.0} for i in range(20_000)])
    found = t.estimate("ratio(x, y)", where="x + y < 0", n=1_000, seed=1)
    assert math.isnan(found.value) and found.low == -math.inf
    assert repr(found).splitlines()[1] == "ratio(x, y) = unknown  unbounded"
    assert found.notes[0].startswith("ratio(x, y): none of the 1,000 rows drawn meets the condition; at most 0.")
    assert "inf" not in text_of(found._repr_html_())


def test_figures_are_shown_with_the_digits_that_the_interval_supports(sales: drillcore.Table) -> None:
    found = sales.estimate("avg(price)", n=1_000, seed=1)
    value, low, high = numbers_of(repr(found).splitlines()[1])
    digits = len(f"{float(value)}".split(".")[1])
    half = (found.high - found.low) / 2
    assert 10 ** (1 - digits) <= half < 10 ** (2 - digits), "two digits of the half width"
    assert float(low) <= found.low and found.high <= float(high), "ends are rounded outward"
    assert float(value) == round(found.value, digits)
