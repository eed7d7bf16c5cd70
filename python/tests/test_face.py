"""Every method does what its page says."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from events import event_rows, event_schema, moment

import drillcore
from drillcore import NULL


def flights_of(rows: drillcore.Rows) -> list[int]:
    return rows.arrow()["flight"].to_pylist()


def test_an_unknown_table_is_told_with_the_others_in_order(database: drillcore.Database) -> None:
    for name in ("zebra", "ant", "mole"):
        database.create_table(name, {"id": "int64"}, key="id")
    with pytest.raises(drillcore.NotFoundError, match="there are: ant, mole, zebra"):
        database.table("qqqqqq")


def test_tables_are_created_listed_opened_and_dropped(database: drillcore.Database) -> None:
    database.create_table("b", {"id": "int64"}, key="id")
    database.create_table("a", {"id": "int64", "name": "string"}, key=["id"], set="name")
    assert database.tables() == ["a", "b"]
    table = database.table("a")
    assert (table.name, table.key, table.schema.names, len(table)) == ("a", ["id"], ["id", "name"], 0)
    database.drop_table("a")
    assert database.tables() == ["b"]


def test_exist_ok_opens_a_table_of_the_same_shape_and_refuses_another(database: drillcore.Database) -> None:
    first = database.create_table("t", {"id": "int64"}, key="id")
    first.append([{"id": 1}])
    assert len(database.create_table("t", {"id": "int64"}, key="id", exist_ok=True)) == 1
    with pytest.raises(drillcore.AlreadyExistsError, match=r"\(exist_ok=True returns it if it has the same shape\)$"):
        database.create_table("t", {"id": "int64"}, key="id")
    with pytest.raises(drillcore.AlreadyExistsError, match="with another shape") as raised:
        database.create_table("t", {"id": "string"}, key="id", exist_ok=True)
    assert "exist_ok" not in str(raised.value)


def test_a_schema_may_be_a_dict_arrow_or_data(database: drillcore.Database) -> None:
    data = event_rows(0, 3)
    for i, schema in enumerate([event_schema(), data, data.to_batches()[0]]):
        table = database.create_table(f"t{i}", schema, key=["ts", "flight"])
        assert table.schema.field("ts").type == pa.timestamp("us", "America/New_York")


def test_decimals_have_a_precision_and_a_scale(database: drillcore.Database) -> None:
    schema = {"id": "int64", "cost": "decimal128(10, 2)", "most": "decimal128(38,0)"}
    table = database.create_table("t", schema, key="id")
    assert table.schema.types[1:] == [pa.decimal128(10, 2), pa.decimal128(38, 0)]
    table.append([{"id": 1, "cost": Decimal("1.25"), "most": 10**38 - 1}])
    assert table.get(1) == {"id": 1, "cost": Decimal("1.25"), "most": Decimal(10**38 - 1)}
    table.add_column("tax", "decimal128(3, 3)")
    assert table.schema.field("tax").type == pa.decimal128(3, 3)


def test_every_type_and_null_comes_back_as_it_went_in(database: drillcore.Database) -> None:
    data = event_rows(0, 25)
    table = database.create_table("t", data.schema, key=["ts", "flight"], set="carrier")
    result = table.append(data)
    assert (result.rows, result.rejected) == (25, [])
    assert table.scan().arrow().equals(data)
    database.flush()
    assert table.scan().arrow().equals(data)


def test_an_append_is_one_commit_and_its_lsn_rises(events: drillcore.Table) -> None:
    first = events.append(event_rows(1000, 1001))
    second = events.append(event_rows(1001, 1002))
    assert second.lsn > first.lsn
    assert len(events) == 1002


def test_get_finds_a_row_by_its_key_or_returns_none(events: drillcore.Table) -> None:
    row = events.get(moment(7), 7)
    assert row is not None
    assert (row["flight"], row["carrier"], row["delay"], row["ts"]) == (7, None, 7.0, moment(7))
    assert events.get(moment(7), 8) is None


def test_get_returns_the_columns_asked_for_in_their_order(events: drillcore.Table) -> None:
    key = (moment(7), 7)
    assert events.get(*key, columns=["delay", "flight"]) == {"delay": 7.0, "flight": 7}
    assert list(events.get(*key, columns=["delay", "flight"]) or ()) == ["delay", "flight"]
    assert events.get(*key, columns=[]) == {}
    assert events.get(moment(7), 8, columns=[]) is None
    with pytest.raises(drillcore.NotFoundError, match=r"delya.*did you mean .delay."):
        events.get(*key, columns=["delya"])
    with pytest.raises(drillcore.InvalidTypeError, match="columns: expected a list of names"):
        events.get(*key, columns="delay")


def test_get_returns_columns_of_the_newest_of_several_rows_in_every_kind_of_table(
    database: drillcore.Database,
) -> None:
    rollup = {"dimensions": ["id"], "metrics": {"n": "count", "xs": "sum(x)"}}
    for merge, options in (("append", {}), ("upsert", {}), ("rollup", {"rollup": rollup})):
        table = database.create_table(
            merge, {"id": "int64", "x": "int64", "y": "string"}, key="id", merge=merge, **options
        )
        for x in (1, 2):
            table.append([{"id": 1, "x": x, "y": "y" * 5000}])
            database.flush()
        column = "xs" if merge == "rollup" else "x"
        assert table.get(1, columns=[column]) == {column: 3 if merge == "rollup" else 2}
    with database.snapshot() as snapshot:
        assert snapshot.table("upsert").get(1, columns=["x"]) == {"x": 2}


def test_get_returns_the_newest_of_several_rows_with_the_key(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64", "x": "string"}, key="id")
    table.append([{"id": 1, "x": "old"}])
    database.flush()
    table.append([{"id": 1, "x": "new"}, {"id": 1, "x": "newest"}])
    assert table.get(1) == {"id": 1, "x": "newest"}
    assert len(table) == 3


def test_get_many_returns_found_rows_in_the_order_of_the_keys(events: drillcore.Table) -> None:
    keys = [(moment(5), 5), (moment(5), 6), (moment(999), 999), (moment(0), 0), (moment(5), 5)]
    assert flights_of(events.get_many(keys)) == [5, 999, 0, 5]
    as_arrow = event_rows(3, 5).select(["flight", "ts"])
    found = events.get_many(as_arrow, columns=["flight"])
    assert found.schema.names == ["flight"]
    assert flights_of(found) == [3, 4]
    assert len(events.get_many([])) == 0


def test_keys_of_one_column_are_plain_values(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64"}, key="id")
    table.append(pa.table({"id": [3, 1, 2]}))
    assert table.get(2) == {"id": 2}
    assert table.get_many([3, 9, 1]).arrow()["id"].to_pylist() == [3, 1]
    assert table.get_many(pa.array([2, 2])).arrow()["id"].to_pylist() == [2, 2]


def test_a_time_may_be_text_with_an_offset(events: drillcore.Table) -> None:
    row = events.get("2013-01-01T00:07:00-05:00", 7)
    assert row == events.get(moment(7), 7) is not None
    assert events.count(between=("2013-01-01T05:00:00Z", moment(4))) == 5


def test_a_scan_comes_in_key_order_whatever_the_order_of_the_appends(database: drillcore.Database) -> None:
    table = database.create_table("t", event_schema(), key=["ts", "flight"])
    for first in (500, 0, 250, 750):
        table.append(event_rows(first, first + 250))
        database.flush()
    assert flights_of(table.scan()) == list(range(1000))
    assert flights_of(table.scan(reverse=True, limit=3)) == [999, 998, 997]


@pytest.mark.parametrize(
    ("closed", "expected"),
    [("both", [3, 4, 5]), ("left", [3, 4]), ("right", [4, 5]), ("neither", [4])],
)
def test_closed_says_which_ends_belong_to_the_range(events: drillcore.Table, closed: str, expected: list[int]) -> None:
    between = (moment(3), moment(5))
    assert flights_of(events.scan(between=between, closed=closed)) == expected
    assert events.count(between=between, closed=closed) == len(expected)
    assert sorted(flights_of(events.sample(len(expected), between=between, closed=closed))) == expected


def test_an_end_may_be_open_or_a_longer_prefix(events: drillcore.Table) -> None:
    assert events.count(between=(None, moment(9))) == 10
    assert events.count(between=(moment(990), None)) == 10
    assert events.count(between=(None, None)) == 1000
    assert events.count(between=((moment(3), 4), (moment(5), 5))) == 2


def test_sets_are_read_by_name_by_list_and_by_null(events: drillcore.Table) -> None:
    assert list(events.sets()) == [(NULL, 250), ("AA", 250), ("DL", 250), ("UA", 250)]
    assert flights_of(events.scan(set="DL", limit=3)) == [1, 5, 9]
    assert flights_of(events.scan(set=["DL", "UA"], limit=4)) == [1, 2, 5, 6]
    assert flights_of(events.scan(set=NULL, limit=2)) == [3, 7]
    assert events.count(set=["AA", NULL], between=(moment(0), moment(7))) == 4


def test_a_projection_has_the_columns_asked_for_in_that_order(events: drillcore.Table) -> None:
    rows = events.scan(columns=["delay", "ts"], limit=2)
    assert rows.schema.names == ["delay", "ts"]
    assert rows.arrow()["delay"].to_pylist() == [0.0, 1.0]


def test_a_sample_holds_different_rows_of_the_selection(events: drillcore.Table) -> None:
    drawn = flights_of(events.sample(100, set="UA", between=(moment(100), moment(899))))
    assert len(drawn) == len(set(drawn)) == 100
    assert all(100 <= flight <= 899 and flight % 4 == 2 for flight in drawn)


def test_a_seed_makes_a_sample_repeatable_on_one_snapshot(
    database: drillcore.Database, events: drillcore.Table
) -> None:
    with database.snapshot() as snapshot:
        table = snapshot.table("events")
        one, two, other = (flights_of(table.sample(50, seed=seed)) for seed in (1, 1, 2))
        assert one == two != other
        assert flights_of(table.sample(20, seed=1)) == one[:20]
    assert flights_of(events.sample(50)) != flights_of(events.sample(50))


def test_with_replacement_more_rows_than_exist_can_be_drawn(events: drillcore.Table) -> None:
    drawn = flights_of(events.sample(200, between=(moment(0), moment(9)), replace=True))
    assert len(drawn) == 200
    assert set(drawn) <= set(range(10))


def test_at_most_returns_every_row_when_fewer_exist(events: drillcore.Table) -> None:
    drawn = flights_of(events.sample(50, between=(moment(0), moment(9)), at_most=True))
    assert sorted(drawn) == list(range(10))
    assert len(events.sample(5, between=(moment(5000), None), at_most=True)) == 0


def test_a_sample_of_nothing_is_empty_with_the_columns(events: drillcore.Table) -> None:
    nothing = events.sample(0, columns=["flight"])
    assert len(nothing) == 0
    assert nothing.schema.names == ["flight"]


def test_an_estimate_over_all_rows_is_exact(events: drillcore.Table) -> None:
    delays = [float(i) for i in range(1000) if i % 10 != 9]
    mean = events.estimate("avg(delay)", n=5000)
    assert mean.exact
    assert mean.value == pytest.approx(sum(delays) / len(delays), rel=1e-12)
    assert mean.low == pytest.approx(mean.value) == mean.high
    assert (mean.sampled, mean.population) == (1000, 1000)


def test_an_estimate_has_an_interval_around_its_value(events: drillcore.Table) -> None:
    mean = events.estimate("avg(delay)", n=300, seed=4)
    assert not mean.exact
    assert mean.low < mean.value < mean.high
    assert (mean.sampled, mean.confidence) == (300, 0.95)
    assert mean.method
    wider = events.estimate("avg(delay)", n=300, seed=4, confidence=0.99)
    assert wider.high - wider.low > mean.high - mean.low


def test_an_estimate_stops_at_the_error_asked_for(events: drillcore.Table) -> None:
    absolute = events.estimate("avg(delay)", error=40.0, seed=1)
    assert absolute.high - absolute.low <= 80.0
    relative = events.estimate("avg(delay)", error="10%", seed=1)
    assert relative.high - relative.low <= 0.2 * abs(relative.value) * 1.000001


def test_an_estimate_stops_in_time(events: drillcore.Table) -> None:
    assert events.estimate("avg(delay)", seconds=0.05).sampled > 0


def test_a_count_is_known_exactly_from_the_index(events: drillcore.Table) -> None:
    count = events.estimate("count", set="UA", n=10)
    assert (count.value, count.low, count.high) == (250, 250, 250)


def test_a_grouped_estimate_has_one_row_a_group(events: drillcore.Table) -> None:
    grouped = events.estimate({"mean": "avg(delay)", "n": "count"}, by="carrier", n=1000)
    table = grouped.arrow()
    assert table.column_names == ["carrier", "mean", "mean_low", "mean_high", "n", "n_low", "n_high", "sampled"]
    assert sorted(table["carrier"].to_pylist(), key=str) == ["AA", "DL", None, "UA"]
    assert sum(table["n"].to_pylist()) == pytest.approx(1000)
    with pytest.raises(drillcore.InvalidArgumentError, match=r"\.arrow\(\)"):
        _ = grouped.value


def test_simultaneous_intervals_are_wider_and_say_so(events: drillcore.Table) -> None:
    each = events.estimate(["avg(delay)", "count"], by="delay", where="delay < 40", n=500, seed=4)
    together = events.estimate(
        ["avg(delay)", "count"], by="delay", where="delay < 40", n=500, seed=4, simultaneous=True
    )
    assert (each.simultaneous, together.simultaneous) == (False, True)
    assert "together (" in repr(together) and "together" not in repr(each)
    assert "hypergeometric" in together.method
    widths = [(found.df()["count_high"] - found.df()["count_low"]).min() for found in (each, together)]
    assert widths[0] < widths[1]


def test_a_heavy_tail_is_noted_and_bounded(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64", "x": "float64"}, key="id")
    table.append([{"id": i, "x": 1e6 if i == 77 else 1.0} for i in range(5000)])
    mean = table.estimate("avg(x)", n=100, seed=1)
    assert mean.low <= 1e6 / 5000 <= mean.high
    assert mean.method == "bounded"
    assert "bounds" in mean.notes[0] and mean.notes[0] in repr(mean)


def test_a_snapshot_does_not_change_while_the_table_does(database: drillcore.Database, events: drillcore.Table) -> None:
    with database.snapshot() as before:
        pinned = before.table("events")
        events.append(event_rows(1000, 1500))
        database.flush()
        database.compact()
        assert (len(pinned), len(events)) == (1000, 1500)
        assert pinned.count(set="UA") == 250
        assert before.tables() == ["events"]
        assert before.lsn == pinned.lsn
    with pytest.raises(drillcore.ClosedError):
        pinned.count()


def test_an_append_to_several_tables_is_one_commit(database: drillcore.Database) -> None:
    database.create_table("a", {"id": "int64"}, key="id")
    database.create_table("b", {"id": "int64", "x": "string"}, key="id")
    result = database.append({"a": [{"id": 1}], "b": pa.table({"id": [1, 2]})})
    assert result.rows == 3
    with pytest.raises(drillcore.InvalidArgumentError):
        database.append({"a": [{"id": 2}], "b": pa.table({"id": ["x"]})})
    assert (len(database.table("a")), len(database.table("b"))) == (1, 2)


def test_flush_compact_verify_and_stats_keep_the_rows(database: drillcore.Database, events: drillcore.Table) -> None:
    before = events.scan().arrow()
    database.flush()
    events.append(event_rows(1000, 1001))
    database.compact()
    report = database.verify()
    assert (report.rows, report.segments) == (1001, 1)
    assert isinstance(database.stats(), dict)
    assert events.scan(limit=1000).arrow().equals(before)


def test_everything_has_a_readable_repr(database: drillcore.Database, events: drillcore.Table) -> None:
    assert "events" in repr(events)
    assert "ts: timestamp[us, America/New_York]" in repr(events)
    held = events.sample(20)
    assert repr(held).startswith("<Rows: 20 rows x 7 columns>")
    assert "<td" in held._repr_html_()
    stream = events.scan()
    assert "first 10 rows of a stream" in repr(stream)
    assert len(stream.arrow()) == 1000  # the repr kept what it read
    mean = events.estimate("avg(delay)", n=100)
    assert "100 of 1,000 rows" in repr(mean)
    assert "<table>" in mean._repr_html_()
    assert "LSN" in repr(database.snapshot())
    assert repr(NULL) == "drillcore.NULL"
    assert "Database" in repr(database)


def test_closing_twice_is_no_error_and_a_with_block_closes(tmp_path: object) -> None:
    with drillcore.open(":memory:") as db:
        table = db.create_table("t", {"id": "int64"}, key="id")
    db.close()
    with pytest.raises(drillcore.ClosedError):
        table.append([{"id": 1}])


def test_get_many_of_no_column_tells_how_many_rows_there_are(events: drillcore.Table) -> None:
    found = events.get_many([(moment(i), i) for i in (1, 2, 5000)], columns=[])
    assert (found.arrow().num_rows, found.schema.names) == (2, [])


def test_numbers_of_numpy_are_numbers(events: drillcore.Table) -> None:
    assert len(events.sample(np.int64(3), seed=np.uint64(5))) == 3
    assert flights_of(events.sample(3, seed=np.uint64(5))) == flights_of(events.sample(3, seed=5))
    assert flights_of(events.scan(limit=np.int32(2), threads=np.int8(1))) == [0, 1]
    assert events.estimate("avg(delay)", n=np.int64(50), confidence=np.float32(0.5)).sampled == 50
    assert events.estimate("avg(delay)", error=np.float32(40), seed=1).high > 0
    for flag in (True, np.bool_(True)):
        with pytest.raises(drillcore.InvalidTypeError):
            events.sample(flag)


def test_a_table_has_its_own_stats(database: drillcore.Database, events: drillcore.Table) -> None:
    database.create_table("other", {"id": "int64"}, key="id")
    assert events.stats() == next(each for each in database.stats()["tables"] if each["name"] == "events")
    assert events.stats()["rows"] == 1000
    database.drop_table("events")
    with pytest.raises(drillcore.NotFoundError, match="events"):
        events.stats()
    assert database.create_table("events", {"id": "int64"}, key="id").stats()["rows"] == 0
    with pytest.raises(drillcore.NotFoundError, match="events"):
        events.stats()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda null: pickle.loads(pickle.dumps(null))])
def test_copies_of_null_are_null(copied: Callable[[object], object]) -> None:
    assert copied(NULL) is NULL


def test_long_cells_are_shown_by_their_beginning(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64", "s": "string", "b": "binary"}, key="id")
    table.append([{"id": 1, "s": "x" * 1_000_000, "b": b"y" * 1_000_000}])
    shown = table.sample(1)
    assert len(repr(shown)) < 500 and len(shown._repr_html_()) < 1000
    assert "xxx..." in repr(shown)


def test_many_columns_and_groups_are_shown_by_the_first(database: drillcore.Database) -> None:
    names = [f"c{i}" for i in range(1000)]
    table = database.create_table("t", dict.fromkeys(names, "int64"), key="c0")
    table.append(pa.table({name: range(30) for name in names}))
    held, grouped = table.sample(30, seed=1), table.estimate("avg(c2)", by="c1", n=30)
    assert repr(held).startswith("<Rows: 30 rows x 1000 columns>\n c0 ")
    assert all(line.endswith("...") for line in repr(held).splitlines()[1:])
    assert re.search(r">c19</th><th[^>]*>\.\.\.</th></tr>", held._repr_html_())
    assert repr(table.scan()).splitlines()[1].endswith("c19  ...")
    assert "c19: int64, ... and 980 more" in repr(table)
    with pytest.raises(drillcore.NotFoundError, match=r"c19, \.\.\. and 980 more"):
        table.scan(columns=["unlike any"])
    assert repr(grouped).splitlines()[-2:] == ["19 avg(c2) = 19  exact", "... and 10 more groups"]
    assert grouped._repr_html_().count("<tr>") == 1 + 20 + 1
    few = table.get_many([1, 2], columns=[])
    assert repr(few) == "<Rows: 2 rows x 0 columns>\n" and "2 rows" in few._repr_html_()
