"""Estimates of every aggregate, of expressions and with filters, and looks at them while they are refined."""

import datetime as dt
import math
import zoneinfo

import pandas as pd
import pyarrow as pa
import pytest

import drillcore


@pytest.fixture
def db():
    with drillcore.open(":memory:") as db:
        yield db


@pytest.fixture
def table(db):
    schema = {"id": "int64", "name": "string", "kind": "int64", "x": "float64", "n": "int64", "ts": "timestamp[us]"}
    table = db.create_table("t", schema, key="id", set="name")
    start = dt.datetime(2026, 1, 1)
    table.append(
        [
            {
                "id": i,
                "name": "abc"[i % 3],
                "kind": i % 4,
                "x": None if i % 7 == 0 else float(i * 7919 % 1009),
                "n": i % 100,
                "ts": start + dt.timedelta(minutes=i),
            }
            for i in range(20_000)
        ]
    )
    return table


# The aggregate, and the same in SQL.
IN_SQL = {
    "count": "count(*)",
    "count(x)": "count(x)",
    "avg(x)": "avg(x)",
    "sum(x)": "sum(x)",
    "sum(n)": "sum(n)",
    "ratio(x, n)": "sum(x) / sum(n)",
    "variance(x)": "var_samp(x)",
    "stddev(x)": "stddev_samp(x)",
    "quantile(x, 0.9)": "percentile_cont(0.9) within group (order by x)",
    "median(x)": "percentile_cont(0.5) within group (order by x)",
    "distinct(kind)": "count(distinct kind)",
    "min(x)": "min(x)",
    "max(x)": "max(x)",
    "avg(x * n)": "avg(x * n)",
    "avg(x) filter (where kind = 1)": "avg(x) filter (where kind = 1)",
    "count(*) filter (where x > 500)": "count(*) filter (where x > 500)",
    "count() filter (where x > 400)": "count(*) filter (where x > 400)",
    "COUNT FILTER (WHERE x > 300)": "count(*) filter (where x > 300)",
    "count(x) filter (where n > 3)": "count(x) filter (where n > 3)",
    "count(name) filter (where n > 3)": "count(name) filter (where n > 3)",
    "count(ts)": "count(ts)",
    "sum(x / nullif(n, 0))": "sum(x / nullif(n, 0))",
}


@pytest.mark.parametrize("by", [None, "name", "kind", "date_trunc('day', ts)", ["name", "kind"]])
def test_an_error_out_of_reach_gives_what_sql_gives(db, table, by):
    columns = [] if by is None else [by] if isinstance(by, str) else by
    groups = "".join(f"{column}, " for column in columns)
    order = f" group by {', '.join(columns)} order by {', '.join(columns)}" if columns else ""
    exact = db.sql(f"select {groups}{', '.join(IN_SQL.values())} from t{order}").arrow()
    estimate = table.estimate(list(IN_SQL), by=by, error="0.000001%")
    assert estimate.exact
    assert estimate.scanned in (0, 20_000)
    found = estimate.arrow()
    assert found.num_rows == exact.num_rows
    for at in range(len(columns)):
        assert found.column(at).to_pylist() == exact.column(at).to_pylist()
    for at, aggregate in enumerate(IN_SQL):
        for value, expected in zip(found.column(aggregate), exact.column(len(columns) + at), strict=True):
            wanted = None if expected.as_py() is None else pytest.approx(float(expected.as_py()), rel=1e-6)
            assert value.as_py() == wanted, aggregate


@pytest.mark.parametrize("aggregate", IN_SQL)
def test_a_sample_has_an_interval_that_holds(db, table, aggregate):
    if aggregate in ("min(x)", "max(x)"):
        assert table.estimate(aggregate).exact
        return
    truth = float(db.sql(f"select {IN_SQL[aggregate]} from t").arrow().column(0)[0].as_py())
    estimate = table.estimate(aggregate, n=5_000, seed=3)
    assert estimate.low <= truth
    if aggregate.startswith("distinct"):
        assert estimate.high is None and estimate.method == "lower bound"
        assert estimate.arrow().column(2).to_pylist() == [None]
        assert "at least" in repr(estimate) and "unknown" in estimate._repr_html_()
    else:
        assert truth <= estimate.high


def test_without_a_stop_ten_thousand_rows_are_drawn(table):
    assert table.estimate("avg(x)").sampled == 10_000


def test_notes_and_the_share_of_groups_not_met_are_shown_in_text_and_html(table):
    estimate = table.estimate(["avg(x * n)", "distinct(kind)"], by="id", n=100)
    for shown in (repr(estimate), estimate._repr_html_()):
        assert "groups not met hold an estimated 100 % of the rows" in shown
        assert "the bounds of its values are unknown" in shown
        assert "there may be more" in shown


def test_looks_hold_the_truth_and_end_with_the_result(db, table):
    truth = db.sql("select median(x) from t").arrow().column(0)[0].as_py()
    looks = list(table.estimate("median(x)", n=8_000, progressive=True, seed=1))
    assert [look.sampled for look in looks] == sorted(look.sampled for look in looks)
    assert len(looks) > 2 and looks[-1].sampled == 8_000
    assert all(look.low <= truth <= look.high for look in looks)
    assert all(look.method == "confidence sequence" for look in looks)


def test_a_loop_over_looks_may_be_left(db, table):
    for look in table.estimate("avg(x)", n=20_000, progressive=True):
        assert not look.exact
        break
    looks = table.estimate("avg(x)", n=20_000, progressive=True)
    next(looks)
    looks.close()
    assert list(looks) == []
    db.close()


def test_looks_at_what_cannot_be_estimated_raise(table):
    with pytest.raises(drillcore.InvalidArgumentError, match="division by zero"):
        list(table.estimate("sum(id / n)", progressive=True))


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        ("quantile(x, 2)", "from 0 to 1"),
        ("quantile(x, -0.5)", "from 0 to 1"),
        ("quantile(x)", "a column and a share"),
        ("sum(name)", "sum needs numbers"),
        ("avg(ts)", "avg needs numbers.*of times, estimate min, max, median or quantile"),
        ("ratio(x)", "two columns"),
        ("avg(x) + 1", "is not a single aggregate"),
        ("avg(distinct x)", "filter"),
        ("avg(x) filter (where n)", "true or false"),
        ("avg(sum(x))", "applies to one row"),
        ("avg(x * random())", "differs between calls"),
        ("sum(id / n)", r"row with.*n = 0.*division by zero.*leave such rows out"),
        ("max(x) filter (where n > 3)", "cannot be estimated from a sample"),
        ("avg filter (where n > 3)", "avg needs a column"),
        ("avg(*) filter (where n > 3)", r"only count takes \*"),
    ],
)
def test_what_does_not_fit_is_refused(table, aggregate, message):
    with pytest.raises(drillcore.InvalidArgumentError, match=message):
        table.estimate(aggregate, n=500)


def test_unknown_names_are_told(table):
    with pytest.raises(drillcore.NotFoundError, match="unknown column"):
        table.estimate("avg(y)")
    with pytest.raises(drillcore.NotFoundError, match="unknown aggregate"):
        table.estimate("mode(x)")
    with pytest.raises(drillcore.NotFoundError):
        table.estimate("avg(x)", by=["name", "nope"])
    with pytest.raises(drillcore.InvalidTypeError):
        table.estimate("avg(x)", by=3)


def test_a_filter_spares_rows_on_which_the_expression_fails(table):
    found = table.estimate("sum(id / n) filter (where n > 0)", error="1%")
    assert found.exact and not math.isnan(found.value)


KINDS = ["timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]", "timestamp[us, America/New_York]", "date32"]


@pytest.mark.parametrize("kind", KINDS)
def test_extremes_and_quantiles_of_times_are_values_of_their_column(db, kind):
    times = db.create_table("times", {"id": "int64", "even": "bool", "at": kind}, key="id")
    kind = times.schema.field("at").type
    zone = zoneinfo.ZoneInfo("America/New_York") if getattr(kind, "tz", None) else None
    start = dt.datetime(2013, 7, 4, 12, tzinfo=zone)
    moments = [start + dt.timedelta(hours=12 * i) for i in range(5_000)]
    if pa.types.is_date(kind):
        moments = [moment.date() for moment in moments]
    times.append([{"id": i, "even": i % 2 == 0, "at": at} for i, at in enumerate(moments)])
    for aggregate, expected in (("min(at)", moments[0]), ("max(at)", moments[-1])):
        found = times.estimate(aggregate, n=10)
        assert found.exact and found.value == found.low == found.high == expected
        assert type(found.value) in (type(expected), pd.Timestamp)
        assert found.arrow().column(0).type == kind
        assert str(expected.year) in repr(found) and str(expected.year) in found._repr_html_()
    filtered = times.estimate("max(at) filter (where not even)", error=1)
    assert filtered.exact and filtered.value == moments[-1]
    by_parity = times.estimate("max(at)", by="even", error=1).arrow()
    assert by_parity["max(at)"].to_pylist() == [moments[-1], moments[-2]]
    median = times.estimate("median(at)", n=1_000, seed=4)
    assert median.low < moments[2_500] < median.high
    assert abs(median.value - moments[2_500]) < dt.timedelta(days=200)
    html = median._repr_html_()
    assert f"<span>{median.low:%Y-%m-%d}</span>" in html and "<circle" in html
    with pytest.raises(drillcore.InvalidArgumentError, match="give the error as a number of"):
        times.estimate("median(at)", error="5%")
    [row] = db.sql("select approx_median_ci(at, n => 1000, seed => 4) as m from times").arrow().to_pylist()
    assert (row["m"]["low"], row["m"]["value"], row["m"]["high"]) == (median.low, median.value, median.high)


def test_a_plot_of_times_has_an_axis_of_dates(table):
    pytest.importorskip("matplotlib").use("Agg")
    axes = table.estimate("median(ts)", by="name", n=1_000).plot()
    axes.figure.canvas.draw()
    assert any(label.get_text().startswith("01-0") for label in axes.get_xticklabels())


def test_extremes_of_integers_have_all_their_digits(db):
    large = db.create_table("large", {"id": "int64"}, key="id")
    large.append([{"id": 2**60 + 1}, {"id": -(2**62) - 1}])
    assert (large.estimate("min(id)").value, large.estimate("max(id)").value) == (-(2**62) - 1, 2**60 + 1)
    assert f"{2**60 + 1:,}" in repr(large.estimate("max(id)"))
    assert large.estimate("max(id)", between=(0, 1)).value is None


def test_groups_of_expressions_may_have_several_columns(table):
    estimate = table.estimate("count", by=["kind", "n % 2"], n=4_000)
    assert estimate.arrow().column_names[:2] == ["kind", "n % 2"]
    assert "0, 0 count" in repr(estimate)
    html = estimate._repr_html_()
    assert html.count("<th") >= 4


def test_sql_estimates_give_structs_of_value_and_ends(db, table):
    found = db.sql(
        "select kind, approx_avg_ci(x, confidence => 0.9999999) as mean, approx_sum_ci(x * 2),"
        " approx_count_ci() as rows, approx_quantile_ci(x, 0.9) filter (where n > 3) as high from t t1"
        " where t1.id < 15000 group by kind order by kind"
    ).arrow()
    exact = db.sql(
        "select kind, avg(x), sum(x * 2), count(*), percentile_cont(0.9) within group (order by x) filter (where n > 3)"
        " from t where id < 15000 group by kind order by kind"
    ).arrow()
    assert found.column_names == ["kind", "mean", "approx_sum_ci(x * 2)", "rows", "high"]
    assert found.column(0).to_pylist() == exact.column(0).to_pylist() == [0, 1, 2, 3]
    for at in range(1, 5):
        for estimate, truth in zip(found.column(at).to_pylist(), exact.column(at).to_pylist(), strict=True):
            assert set(estimate) == {"value", "low", "high", "note"}
            assert estimate["low"] <= truth <= estimate["high"]
            assert estimate["high"] - estimate["low"] < 0.3 * truth


def test_sql_estimates_are_exact_where_all_rows_are_drawn(db, table):
    query = "select approx_median_ci(x) m, approx_count_ci(x) c from t where id between 10 and 900"
    [row] = db.sql(query).arrow().to_pylist()
    exact = db.sql("select median(x), count(x) from t where id between 10 and 900").arrow()
    for found, truth in zip(row.values(), (exact.column(0)[0].as_py(), exact.column(1)[0].as_py()), strict=True):
        assert found["value"] == found["low"] == found["high"] == pytest.approx(truth)


def test_sql_estimates_take_groups_by_number_name_and_expression_and_a_query_around(db, table):
    inner = "select date_trunc('day', ts) as day, approx_count_ci() as rows from t group by {}"
    for group in ("1", "day", "date_trunc('day', ts)"):
        query = f"select day, e.rows['value'] as n from ({inner.format(group)}) e order by n desc, day limit 3"
        found = db.sql(query).arrow()
        assert found.num_rows == 3
        assert found.column("n").to_pylist() == sorted(found.column("n").to_pylist(), reverse=True)


@pytest.mark.parametrize(
    "query",
    [
        "select approx_avg_ci(t.x) from t join t u on t.id = u.id",
        "select approx_avg_ci(x) from (select x from t)",
        "select approx_avg_ci(x) + 1 from t",
        "select approx_avg_ci(x) from t having count(*) > 1",
        "select distinct approx_avg_ci(x) from t",
        "select name, approx_avg_ci(x) from t",
        "select approx_avg_ci(x), avg(x) from t",
        "select approx_quantile_ci(x, 2) from t",
        "select approx_sum_ci(name) from t",
        "select id from t where approx_avg_ci(x) > 1",
        "select approx_avg_ci(x) over () from t",
    ],
)
def test_sql_estimates_of_what_is_no_plain_aggregate_are_refused(db, table, query):
    with pytest.raises(drillcore.InvalidArgumentError):
        db.sql(query).arrow()


def test_sql_estimates_take_options_by_name(db, table):
    query = "select approx_avg_ci(x, n => 500, confidence => {}, seed => 3) e, approx_sum_ci(x) s from t"
    [at_95], [at_99] = (db.sql(query.format(level)).arrow().to_pylist() for level in (0.95, "0.99"))
    assert at_95["e"]["value"] == at_99["e"]["value"] == table.estimate("avg(x)", n=500, seed=3).value
    for name in ("e", "s"):
        assert at_99[name]["low"] < at_95[name]["low"] < at_95[name]["high"] < at_99[name]["high"]
    [row] = db.sql("select approx_avg_ci(x, error => '5%') e from t").arrow().to_pylist()
    assert row["e"]["high"] - row["e"]["value"] <= 0.05 * row["e"]["value"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("approx_avg_ci(x, m => 5)", 'unknown option "m"'),
        ("approx_avg_ci(x, n => 0)", "n must be at least 1"),
        ("approx_avg_ci(x, n => x)", "n => x: expected a number"),
        ("approx_avg_ci(x, n => -5)", "n => -5: expected a whole number"),
        ("approx_avg_ci(x, n => 5, seconds => 1)", "cannot be combined; give one of n, error and seconds"),
        ("approx_avg_ci(x, n => 5), approx_sum_ci(x, n => 6)", "two of them differ in n"),
        ("approx_avg_ci(x, confidence => 2)", "confidence"),
        ("approx_avg_ci(x, error => 'much')", "error => 'much': expected a number, or a percentage"),
        ("approx_avg_ci()", "approx_avg_ci needs a column, as in approx_avg_ci\\(delay\\)"),
        ("approx_avg_ci(xx)", "xx"),
        ("approx_avg_ci(x, 0.99)", "has 2 arguments, and approx_avg_ci takes 1; options follow by name, as in"),
        ("approx_quantile_ci(x, 95)", "a quantile takes a share from 0 to 1"),
        ("approx_avg_ci(name)", 'approx_avg_ci needs numbers, but column "name"'),
        ("approx_avg_ci(x), approx_avg_ci(x)", 'two columns "approx_avg_ci\\(x\\)"; give one another name'),
        (
            "approx_min_ci(x)",
            "any row that is not drawn may have a smaller value.* use min\\(x\\).* There are approx_avg_ci, ",
        ),
        ("approx_distinct_ci(x)", "use count\\(distinct x\\)"),
        ("approx_mode_ci(x)", "there is no approx_mode_ci: it is unknown. There are approx_avg_ci, approx_sum_ci"),
    ],
)
def test_errors_of_sql_estimates_have_the_words_of_the_query(db, table, call, message):
    with pytest.raises((drillcore.InvalidArgumentError, drillcore.NotFoundError), match=message) as caught:
        db.sql(f"select {call} from t").arrow()
    assert "estimated_rows" not in str(caught.value) and "e0" not in str(caught.value)


def test_plans_and_errors_around_sql_estimates_name_what_the_query_names(db, table):
    query = "select kind, approx_avg_ci(x) as mean from t as rows group by kind"
    plan = "\n".join(db.sql(f"explain {query}").arrow().column("plan").to_pylist())
    assert "estimates of t" in plan and "mean" in plan and "rows" in plan
    assert "estimated_rows" not in plan and "e0" not in plan and "g0" not in plan
    with pytest.raises(drillcore.Error, match='unknown column "mode"; there are: kind, mean') as caught:
        db.sql(f"select mode from ({query}) rows").arrow()
    assert "e0" not in str(caught.value)


def test_notes_of_sql_estimates_are_in_the_struct(db, table):
    found = db.sql("select id, approx_avg_ci(x * n, n => 100) a, approx_count_ci() c from t group by id").arrow()
    averages, counts = (found.column(name).to_pylist() for name in ("a", "c"))
    assert all("the bounds of its values are unknown" in each["note"] for each in averages)
    assert all("groups not met hold an estimated 100 % of the rows" in each["note"] for each in averages + counts)
    assert not any("bounds" in each["note"] for each in counts)
    [row] = db.sql("select approx_count_ci() c from t").arrow().to_pylist()
    assert row["c"]["note"] is None and row["c"]["value"] == row["c"]["low"] == len(table)
