"""What notebooks and prompts show: the first rows without using them up, tables, sets, and intervals as drawings."""

from __future__ import annotations

import re
import threading
from typing import Any
from xml.etree import ElementTree

import duckdb
import pyarrow as pa
import pytest

import drillcore


def parsed(page: str) -> ElementTree.Element:
    """The HTML, which is XML too: so every tag is closed and every text escaped."""
    return ElementTree.fromstring(f"<div>{page}</div>")


def texts(page: str) -> str:
    return " ".join(parsed(page).itertext())


@pytest.fixture
def numbers(database: drillcore.Database) -> drillcore.Table:
    t = database.create_table("numbers", {"id": "int64", "name": "string", "x": "float64"}, key="id", set="name")
    t.append(
        pa.table(
            {"id": range(20_000), "name": [f"n{i % 3}" for i in range(20_000)], "x": [i / 7 for i in range(20_000)]}
        )
    )
    return t


def test_an_estimate_in_a_query_is_shown_with_both_ends_and_its_note(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "x": "float64"}, key="id")
    t.append(pa.table({"id": range(20_000), "x": [i / 7 for i in range(20_000)]}))
    query = "select approx_avg_ci(x, n => 5000, seed => 1) as v, approx_count_ci() as n from t"
    row = database.sql(query).arrow().to_pylist()[0]
    shown = [f"{name}: {row['v'][name]:.6g}" for name in ("value", "low", "high")]
    assert row["v"]["low"] < row["v"]["high"]
    for text in (repr(database.sql(query)), texts(database.sql(query)._repr_html_())):
        assert f"{{{', '.join(shown)}, note: " in text
        assert "{value: 20000, low: 20000, high: 20000, note: null}" in text


TAKES = {
    "arrow": lambda rows: rows.arrow(),
    "batches": lambda rows: pa.Table.from_batches(rows.batches(), schema=rows.schema),
    "stream": pa.table,
    "reader": lambda rows: pa.RecordBatchReader.from_stream(rows).read_all(),
    "polars": lambda rows: rows.pl().to_arrow().cast(rows.schema),
    "pandas": lambda rows: pa.Table.from_pandas(rows.df(), schema=rows.schema, preserve_index=False),
    "duckdb": lambda rows: duckdb.sql("select * from rows order by id").to_arrow_table(),
}


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("rows_shown", [0, 5, 10, 11, 20_000])
def test_rows_that_were_looked_at_can_all_be_read(numbers: drillcore.Table, take: str, rows_shown: int) -> None:
    wanted = numbers.scan(limit=rows_shown).arrow()
    rows = numbers.scan(limit=rows_shown)
    for _ in range(3):
        assert repr(rows) and rows._repr_html_()
    assert TAKES[take](rows).equals(wanted)
    with pytest.raises(drillcore.StreamConsumedError):
        rows.arrow()
    assert "already read; columns id, name, x" in repr(rows)
    assert "already read" in rows._repr_html_()


def test_the_first_rows_of_a_stream_are_shown_with_whether_more_follow(
    database: drillcore.Database, numbers: drillcore.Table
) -> None:
    short = database.sql("select id, name from numbers where id < 2 order by id")
    assert repr(short) == "<Rows: 2 rows x 2 columns>\nid  name\n 0  n0\n 1  n1"
    lines = repr(numbers.scan(columns=["id"])).splitlines()
    assert lines[0] == "<Rows: first 10 rows of a stream, 1 columns; .arrow() or .df() reads all>"
    assert lines[1:] == [" id", *(f"{i:>3}" for i in range(10)), "..."]
    assert repr(numbers.scan(limit=10)).startswith("<Rows: 10 rows x 3 columns>")
    assert "..." not in repr(numbers.scan(limit=10))
    assert repr(numbers.scan(where="id < 0")).startswith("<Rows: 0 rows x 3 columns>\nid  name  x")


def test_nothing_is_read_before_it_is_looked_at(database: drillcore.Database, numbers: drillcore.Table) -> None:
    # Planned, but not executed: the division fails once rows are read.
    rows = database.sql("select id, 1 / (id - id) as x from numbers")
    assert rows.schema.names == ["id", "x"]
    for shown in (repr(rows), rows._repr_html_()):
        assert "a stream that failed: division by zero" in shown
    # A read of the rows raises the error, and gives no short result.
    with pytest.raises(drillcore.InvalidArgumentError, match="division by zero"):
        rows.arrow()


def test_an_error_behind_what_was_shown_is_raised_where_it_comes(
    database: drillcore.Database, numbers: drillcore.Table
) -> None:
    rows = database.sql("select id, 1 / (19999 - id) as x from numbers order by id", threads=1)
    assert "first 10 rows" in repr(rows) or "failed" in repr(rows)
    with pytest.raises(drillcore.InvalidArgumentError, match="division by zero"):
        rows.arrow()


def test_html_escapes_names_and_values(database: drillcore.Database) -> None:
    t = database.create_table("<t>", {"<id>": "int64", "&s": "string"}, key="<id>", set="&s")
    t.append([{"<id>": 1, "&s": "<script>"}])
    objects: list[Any] = [t, t.scan(), t.sample(1), t.sets(), database, database.snapshot(), t.estimate("count", n=1)]
    objects += [database.snapshot().table("<t>"), t.estimate({"<b>": "avg(<id>)"}, by="&s", n=1)]
    for each in objects:
        page = each._repr_html_()
        parsed(page)
        assert "<script>" not in page and "<t>" not in page and "<b>" not in page


def test_a_database_and_a_snapshot_show_their_tables(database: drillcore.Database, numbers: drillcore.Table) -> None:
    assert re.fullmatch(r"<Database '.*', 1 table: numbers>", repr(database))
    shown = texts(database._repr_html_())
    assert all(word in shown for word in ("numbers", "20,000", "id, name, x", "key", "set"))
    with database.snapshot() as snapshot:
        assert repr(snapshot) == f"<Snapshot at LSN {snapshot.lsn}, 1 table: numbers>"
        assert "id, name, x" in texts(snapshot._repr_html_())
        pinned = snapshot.table("numbers")
        assert f"'numbers' at LSN {pinned.lsn}" in repr(pinned)
        assert "x: float64" in repr(pinned)
        assert "timestamp" not in texts(pinned._repr_html_()) and "float64" in texts(pinned._repr_html_())
    assert "closed" in repr(snapshot) and "closed" in snapshot._repr_html_()
    database.close()
    assert "closed" in repr(database) and "closed" in database._repr_html_()


def test_a_table_shows_its_columns_and_what_they_are_for(database: drillcore.Database) -> None:
    schema = {"a": "int64", "b": "string", "w": "float64"}
    t = database.create_table("t", schema, key=["b", "a"], set="b", weights="w", merge="upsert")
    t.append([{"a": 1, "b": "x", "w": 1.0}])
    cells = [[cell.text or "" for cell in row] for row in parsed(t._repr_html_()).iter("tr")]
    assert [row[0] for row in cells[1:]] == ["a", "b", "w"]
    assert [row[2] for row in cells[1:]] == ["key 2", "key 1, set", "weight"]
    assert "upsert, 1 stored row" in texts(t._repr_html_())
    database.drop_table("t")
    assert "dropped" in t._repr_html_()
    assert repr(t) == f"<Table {t.name!r}, dropped>"


def test_sets_are_listed(numbers: drillcore.Table) -> None:
    sets = numbers.sets()
    assert repr(sets).splitlines() == [
        "<Sets of 'name': 3 sets, 20,000 rows>",
        "name   rows",
        "n0    6,667",
        "n1    6,667",
        "n2    6,666",
    ]
    assert dict(sets) == {"n0": 6667, "n1": 6667, "n2": 6666} == dict(sets)
    assert len(sets) == 3 and "6,666" in texts(sets._repr_html_())
    assert sets.arrow().to_pydict() == {"name": ["n0", "n1", "n2"], "rows": [6667, 6667, 6666]}


def circles(page: str) -> list[float]:
    return [float(circle.attrib["cx"]) for circle in parsed(page).iter("circle")]


def test_an_estimate_draws_each_interval_on_one_scale(numbers: drillcore.Table) -> None:
    found = numbers.estimate("avg(x)", by="name", n=600, seed=1)
    page = found._repr_html_()
    svgs = list(parsed(page).iter("svg"))
    assert len(svgs) == 3
    rows = found.arrow().to_pylist()
    ends = [row[name] for row in rows for name in ("avg(x)", "avg(x)_low", "avg(x)_high")]
    width = float(svgs[0].attrib["width"])
    for row, svg in zip(rows, svgs, strict=True):
        value, low, high = (row[name] for name in ("avg(x)", "avg(x)_low", "avg(x)_high"))
        [line] = [line for line in svg.iter("line") if line.attrib["x1"] != line.attrib["x2"]]
        at = [(end - min(ends)) / (max(ends) - min(ends)) for end in (low, value, high)]
        [dot] = svg.iter("circle")
        drawn = [float(line.attrib["x1"]), float(dot.attrib["cx"]), float(line.attrib["x2"])]
        assert drawn == pytest.approx([8 + share * (width - 16) for share in at], abs=0.1)
        # The words of the text.
        assert " = " + svg.attrib["aria-label"].replace(", ", "  ", 1) in repr(found)
    assert "currentColor" in page and "#000" not in page and "background" not in page


def test_unbounded_and_missing_intervals_are_drawn_too(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "x": "float64"}, key="id")
    t.append(pa.table({"id": range(100), "x": [None] * 99 + [1.0]}))
    one = t.estimate("avg(x)", n=1, seed=1)
    assert "polygon" in one._repr_html_() or circles(one._repr_html_()) == []
    assert parsed(one._repr_html_()) is not None
    exact = t.estimate("count", n=1000)
    assert exact.exact and circles(exact._repr_html_()) == []
    # Nothing is known of a ratio without rows: no ends, so no axis, and no number is made up for it.
    none = t.estimate("ratio(x, id)", where="id + 0 > 200", n=10, seed=1)
    page = none._repr_html_()
    assert page.count("polygon") == 2 and "unbounded" in texts(page) and "inf" not in texts(page)
    assert "-1" not in texts(page)
    assert "ratio(x, id) = unknown  unbounded" in repr(none)


def test_an_end_that_cannot_be_known_is_an_open_arrow(numbers: drillcore.Table) -> None:
    page = numbers.estimate("distinct(x)", by="name", n=600, seed=1)._repr_html_()
    svgs = list(parsed(page).iter("svg"))
    assert len(svgs) == 3
    for svg in svgs:
        [arrow] = svg.iter("polyline")
        assert arrow.attrib["fill"] == "none" and not list(svg.iter("polygon"))
        assert "at least" in svg.attrib["aria-label"]


def test_notes_and_unseen_groups_show_in_text_and_html(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "g": "int64"}, key="id")
    t.append(pa.table({"id": range(50_000), "g": [i % 9_000 for i in range(50_000)]}))
    found = t.estimate("count", by="g", n=500, seed=1)
    assert found.unseen_share > 0
    [note] = found.notes
    assert note in repr(found) and note in texts(found._repr_html_())


def test_an_estimate_plots_itself(numbers: drillcore.Table) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = numbers.estimate(["avg(x)", "count"], by="name", n=600, seed=1)
    axes = found.plot("avg(x)")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["n0", "n1", "n2"]
    assert axes.get_xlabel() == "avg(x)"
    assert found.plot("count", ax=axes) is axes
    # Each group has a line from end to end, and a mark for each end.
    ends = found.arrow().select(["avg(x)_low", "avg(x)_high"]).to_pylist()
    alone = found.plot("avg(x)")
    lines = [tuple(line.get_xdata()) for line in alone.get_lines()]
    assert all((row["avg(x)_low"], row["avg(x)_high"]) in lines for row in ends)
    with pytest.raises(drillcore.InvalidArgumentError, match="name one of the aggregates; there are: avg"):
        found.plot()
    with pytest.raises(drillcore.InvalidArgumentError, match="unknown aggregate 'sum'"):
        found.plot("sum")
    with pytest.raises(drillcore.InvalidTypeError, match="ax: expected axes of matplotlib, not 5"):
        numbers.estimate("avg(x)", n=10).plot(ax=5)


def test_a_plot_shows_open_ends_at_the_edge_and_how_many_groups_it_leaves_out(numbers: drillcore.Table) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    several = numbers.estimate("distinct(x)", by="id % 30", n=600, seed=1).plot()
    assert len(several.get_yticklabels()) == 20
    assert several.get_title().endswith("... and 10 more groups")
    arrows = [line for line in several.get_lines() if line.get_marker() == ">"]
    assert len(arrows) == 20
    dots = several.get_lines()[0].get_xdata()
    assert all(max(dots) < line.get_xdata()[0] < several.get_xlim()[1] for line in arrows)
    assert {line.get_markerfacecolor() for line in arrows} == {"none"}
    unbounded = numbers.estimate("ratio(x, id)", where="id + 0 > 10000000", n=10, seed=1).plot()
    assert {line.get_marker() for line in unbounded.get_lines()} >= {"<", ">"}
    assert not unbounded.get_xticks().size, "no number is made up for an axis without ends"


def test_a_plot_needs_matplotlib(numbers: drillcore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(drillcore.MissingPackageError, match="pip install matplotlib"):
        numbers.estimate("avg(x)", n=10).plot()


def test_a_repr_while_others_write_is_of_one_moment(numbers: drillcore.Table) -> None:
    rows = numbers.scan()
    writer = threading.Thread(target=numbers.append, args=([{"id": 99_999, "name": "n0", "x": 0.0}],))
    repr(rows)
    writer.start()
    writer.join()
    assert len(rows.arrow()) == 20_000
