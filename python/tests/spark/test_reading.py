"""Tables as frames of Spark: at one moment, split, filtered, and of several databases."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import drillcore
from drillcore.spark import release
from drillcore.spark.driver import driver
from drillcore.spark.releasing import loads_of

ROWS = 3_000
SCHEMA = {
    "day": "date32",
    "flight": "int64",
    "carrier": "string",
    "delay": "float64",
    "seats": "uint16",
    "at": "timestamp[s, America/New_York]",
}


def rows(first: int, count: int) -> pa.Table:
    """Flights of 30 days and three carriers; one in seven has no delay, one in ten no carrier."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "day": pa.array([dt.date(2013, 7, 1) + dt.timedelta(i % 30) for i in numbers]),
            "flight": pa.array(list(numbers)),
            "carrier": pa.array([[None, "UA", "DL", "AA"][0 if i % 10 == 0 else 1 + i % 3] for i in numbers]),
            "delay": pa.array([None if i % 7 == 0 else float(i % 60 - 10) for i in numbers]),
            "seats": pa.array([i % 300 for i in numbers], pa.uint16()),
            "at": pa.array([1372_660_000 + i for i in numbers], pa.int64()).cast(pa.timestamp("s", "America/New_York")),
        }
    )


def fill(path: str, first: int, count: int = ROWS, **options: Any) -> drillcore.Database:
    """A database with some of its rows in a segment and some in the log."""
    db = drillcore.open(path)
    given = {"key": ["day", "flight"], "set": "carrier", "weights": "seats", **options}
    t = db.create_table("flights", SCHEMA, **given)
    t.append(rows(first, count // 2))
    db.flush()
    t.append(rows(first + count // 2, count - count // 2))
    return db


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Three databases; the first is open for writing."""
    folder = tmp_path_factory.mktemp("three")
    paths = [str(folder / name) for name in ("a.drill", "b.drill", "c.drill")]
    writing = fill(paths[0], 0)
    for at in (1, 2):
        fill(paths[at], at * ROWS).close()
    yield paths
    writing.close()


def reading(spark: Any, paths: list[str], **options: Any) -> Any:
    return spark.read.format("drillcore").options(**{"path": ",".join(paths), "table": "flights", **options})


def flights(frame: Any) -> list[int]:
    return sorted(row["flight"] for row in frame.select("flight").collect())


def test_databases_with_one_schema_read_as_one_table(spark: Any, three: list[str]) -> None:
    frame = reading(spark, three, split_rows=700).load()
    assert frame.schema.simpleString() == (
        "struct<day:date,flight:bigint,carrier:string,delay:double,seats:int,at:timestamp>"
    )
    assert frame.rdd.getNumPartitions() >= 12
    found = frame.toArrow().sort_by("flight")
    expected = rows(0, 3 * ROWS)
    for name in ("day", "flight", "carrier", "delay"):
        assert found.column(name).to_pylist() == expected.column(name).to_pylist()
    assert found.column("seats").to_pylist() == expected.column("seats").to_pylist()
    assert [each.timestamp() for each in found.column("at").to_pylist()] == [
        each.timestamp() for each in expected.column("at").to_pylist()
    ]
    # What equal rows of SQL say.
    assert frame.groupBy("carrier").count().orderBy("count").collect()[0]["count"] == 900
    release(frame)


def test_a_load_is_of_one_moment_until_it_is_released(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "a.drill")
    with fill(path, 0) as db:
        frame = reading(spark, [path], split_rows=500).load()
        t = db.table("flights")

        def change(at: int) -> None:
            t.append(rows(10_000 * at, 100))
            t.delete(between=(None, dt.date(2013, 7, 1 + at)))
            db.flush()
            db.compact()

        for at in range(1, 4):
            change(at)
            assert flights(frame) == list(range(ROWS))
        other = reading(spark, [path]).load()
        assert len(flights(other)) == t.count() != ROWS
        assert release(frame) == 1 and release(frame) == 0
        with pytest.raises(Exception, match=r"ClosedError: the data frame was released"):
            frame.filter("flight > 1").count()
        assert len(flights(other)) == t.count()
        release(other)


def test_the_frames_of_one_load_share_its_moment_and_are_released_together(spark: Any, three: list[str]) -> None:
    frame = reading(spark, three).load()
    other = reading(spark, three[:1]).load()
    joined = frame.filter("delay > 3").join(other, "flight")
    assert loads_of(joined) == loads_of(frame) | loads_of(other) and len(loads_of(joined)) == 2
    assert loads_of(spark.range(3)) == set()
    assert release(joined) == 2
    with pytest.raises(drillcore.InvalidTypeError, match="expected a data frame"):
        release("flights")


def test_splits_do_not_depend_on_the_cluster(spark: Any, three: list[str]) -> None:
    frame = reading(spark, three, split_rows=400).load()
    (name,) = loads_of(frame)
    ours = [task.split.rows for task in driver().load(name).plan([])]
    assert frame.rdd.getNumPartitions() == len(ours)
    assert frame.rdd.mapPartitions(lambda each: [sum(1 for _ in each)]).collect() == ours
    assert sum(ours) == 3 * ROWS and max(ours) <= 700
    release(frame)


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"between": '["2013-07-04", "2013-07-05"]'}, lambda row: row["day"].day in (4, 5)),
        (
            {"between": '[["2013-07-04", 100], null]', "closed": "left"},
            lambda row: (row["day"].day, row["flight"]) >= (4, 100),
        ),
        ({"set": '"UA"'}, lambda row: row["carrier"] == "UA"),
        ({"set": '["UA", null]'}, lambda row: row["carrier"] in ("UA", None)),
        ({"where": "delay > 30 and carrier = 'DL'"}, lambda row: (row["delay"] or 0) > 30 and row["carrier"] == "DL"),
        ({"set": "null", "where": "seats < 100"}, lambda row: row["carrier"] is None and row["seats"] < 100),
    ],
)
def test_selections_are_those_of_a_scan(
    spark: Any, three: list[str], options: dict[str, str], passes: Callable[[dict[str, Any]], bool]
) -> None:
    expected = [row["flight"] for row in rows(0, 3 * ROWS).to_pylist() if passes(row)]
    frame = reading(spark, three, columns="flight", split_rows=500, **options).load()
    assert frame.columns == ["flight"]
    assert flights(frame) == expected and expected
    release(frame)


PUSHED = [
    (
        "day = date '2013-07-04' and flight >= 100 and carrier in ('UA', 'AA') and seats > 50 and seats <= 260",
        [
            "EqualTo(day,2013-07-04)",
            "In(carrier, [AA,UA])",
            "GreaterThanOrEqual(flight,100)",
            "LessThanOrEqual(seats,260)",
        ],
    ),
    ("carrier is null and at < timestamp '2013-07-01 04:00:00'", ["IsNull(carrier)", "LessThan(at,"]),
    ("carrier is not null and carrier <> 'UA'", ["IsNotNull(carrier)", "Not(EqualTo(carrier,UA))"]),
    # These stay with Spark: floats, for which it has another order, functions, and alternatives.
    ("delay > 10 and flight < 500 and length(carrier) = 2", ["LessThan(flight,500)"]),
    ("carrier = 'UA' or flight < 100", []),
]


@pytest.mark.parametrize(("condition", "pushed"), PUSHED, ids=[condition for condition, _ in PUSHED])
def test_pushed_filters_show_in_the_plan_and_mean_the_same_rows(
    spark: Any, three: list[str], condition: str, pushed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = reading(spark, three).load().filter(condition)
    frame = reading(spark, three, push_filters=True).load().filter(condition)
    frame.explain("formatted")
    shown = next((line for line in capsys.readouterr().out.splitlines() if "PushedFilters:" in line), "")
    assert all(each in shown for each in pushed), shown
    assert "delay" not in shown.replace("IsNotNull(delay)", "")
    assert flights(frame) == flights(plain)
    assert flights(plain)
    release(frame)
    release(plain)


def test_days_that_the_calendar_left_out_stay_with_spark(spark: Any, tmp_path: Path) -> None:
    """Spark hands over 1582-10-10 as 1582-10-15 in a filter."""
    days = [dt.date(1582, 10, 10), dt.date(1582, 10, 15), dt.date(1583, 1, 1)]
    at = pa.array([dt.datetime(day.year, day.month, day.day) for day in days], pa.timestamp("us", "UTC"))
    table = pa.table({"id": [0, 1, 2], "day": days, "at": at})
    with drillcore.open(tmp_path / "a.drill") as db:
        db.create_table("t", table.schema, key="id").append(table)
    for condition, found in [
        ("day = date '1582-10-10'", [0]),
        ("day >= date '1582-10-11'", [1, 2]),
        ("day >= date '1583-01-01'", [2]),
        ("at = timestamp '1582-10-10 00:00:00Z'", [0]),
    ]:
        frame = reading(spark, [str(tmp_path / "a.drill")], table="t", push_filters=True).load()
        assert [row["id"] for row in frame.filter(condition).collect()] == found
        release(frame)


def test_two_queries_of_one_load_are_not_mixed_up(spark: Any, three: list[str]) -> None:
    """Spark 4 keeps the plan of a load, with the filters of the query that was planned last."""
    frame = reading(spark, three).load()
    assert flights(frame.filter("flight = 3").union(frame.filter("flight = 4"))) == [3, 4]
    assert frame.filter("flight < 5").count() == 5 and frame.count() == 3 * ROWS
    release(frame)
    pushing = reading(spark, three, push_filters=True).load()
    assert pushing.filter("flight < 5").count() == 5
    assert pushing.filter("flight < 5").count() == 5
    with pytest.raises(Exception, match=r'was planned with .*"flight" < 5.*load\(\) again for each query'):
        pushing.filter("flight < 6").count()
    release(pushing)


def test_a_collection_is_a_path_to_read(spark: Any, three: list[str], folder: str) -> None:
    frame = reading(spark, three).load()
    writing = frame.write.format("drillcore").mode("append").option("path", folder)
    writing.options(table="flights", key="day, flight", set="carrier", weights="seats").save()
    # It was written with the types of the tables, and is read with them.
    read = reading(spark, [folder]).load()
    assert read.schema.simpleString() == frame.schema.simpleString()
    assert (
        read.toArrow()
        .sort_by("flight")
        .drop_columns(["at"])
        .equals(frame.toArrow().sort_by("flight").drop_columns(["at"]))
    )
    # Together with a database of the same schema; and a load does not see what is written after it.
    both = reading(spark, [folder, three[0]]).load()
    read.limit(10).write.format("drillcore").mode("append").option("path", folder).save()
    assert both.count() == 4 * ROWS and read.count() == 3 * ROWS
    assert reading(spark, [folder]).load().count() == 3 * ROWS + 10
    release(read)
    release(both)
    release(frame)


BAD = [
    ({"table": "fligths"}, r"NotFoundError: .*fligths.*flights.*a\.drill"),
    ({"tables": "flights"}, 'unknown option "tables"; did you mean "table"'),
    ({"split_rows": "0"}, "split_rows: expected a number of at least 1, not 0"),
    ({"splitrows": "7"}, 'unknown option "splitrows"; did you mean "split_rows"'),
    ({"sample": "-5"}, "sample: expected a number of at least 0, not -5"),
    (
        {"sample": str(2**31 + 1), "replace": "true"},
        "at most 2,147,483,648, not 2,147,483,649; to read all rows, leave",
    ),
    ({"sample": "many"}, "sample: expected a whole number, not 'many'"),
    ({"sample": "9001"}, r"TooFewRowsError: 9,001 rows were requested, and 9,000 are there; .*at_most"),
    ({"sample": "5", "weight": "delay"}, "delay"),
    ({"seed": "5"}, "seed: needs the number of rows to draw"),
    ({"columns": "flight, dely"}, 'NotFoundError: unknown column "dely"; did you mean "delay"'),
    ({"set": "UA"}, "set: expected JSON, such as"),
    ({"set": "5"}, "InvalidTypeError|InvalidArgumentError: .*carrier"),
    ({"between": "[1]"}, "between: expected a JSON list of two ends"),
    ({"between": '["July", null]'}, "between: column \"day\" has type date32.*'July' is not a time"),
    ({"where": "dely > 3"}, "NotFoundError: .*dely.*delay"),
    ({"closed": "open"}, "closed: expected one of"),
    ({"push_filters": "true", "sample": "5"}, "push_filters: a filter behind a sample"),
    ({"replace": "maybe", "sample": "5"}, "replace: expected true or false, not 'maybe'"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[str(options) for options, _ in BAD])
def test_bad_input_is_our_error_at_the_driver(
    spark: Any, three: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message) as raised:
        reading(spark, three, **options).load().count()
    text = str(raised.value)
    assert "drillcore.errors." in text.split("\n")[0] and "Traceback" not in text


def test_what_is_not_supported_is_our_error(spark: Any, three: list[str], tmp_path: Path) -> None:
    """Tables of a catalog and streams: Spark's ways to them lead here, and say so."""
    options = f"options (path '{three[0]}', table 'flights')"
    refused = "UnsupportedError: .*tables of a catalog are not supported; use CREATE TEMPORARY VIEW"
    with pytest.raises(Exception, match=refused):
        spark.sql(f"create table flights_of_catalog using drillcore {options}")
    spark.sql(f"create table flights_with_columns (flight bigint) using drillcore {options}")
    with pytest.raises(Exception, match=refused):
        spark.table("flights_with_columns").count()
    with pytest.raises(Exception, match=r"path is missing: give the directory of a collection .*saveAsTable"):
        spark.range(3).selectExpr("id flight").write.insertInto("flights_with_columns")
    spark.sql("drop table flights_with_columns")
    with pytest.raises(Exception, match=r"path is missing: give the directory of a collection"):
        spark.range(3).write.format("drillcore").mode("append").options(table="t", key="id").save()
    spark.sql(f"create temporary view flights_viewed using drillcore {options}")
    assert spark.table("flights_viewed").count() == ROWS
    assert release(spark.table("flights_viewed")) == 1

    def stream(begun: Any, checkpoint: str) -> None:
        begun.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination(60)

    streamed = spark.readStream.format("drillcore").options(path=three[0], table="flights").load()
    with pytest.raises(Exception, match=r"UnsupportedError: streams are not read: load\(\) a frame"):
        stream(streamed.writeStream.format("noop"), "reading")
    release(streamed)
    rates = spark.readStream.format("rate").load().writeStream.format("drillcore")
    with pytest.raises(Exception, match="UnsupportedError: streams are not written: save each batch with foreachBatch"):
        stream(rates.options(path=str(tmp_path / "made"), table="t", key="value"), "writing")
    assert not (tmp_path / "made").exists()


def test_databases_that_are_missing_or_do_not_fit_are_named(spark: Any, three: list[str], tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"NotFoundError: .*nothing\.drill"):
        reading(spark, [three[0], str(tmp_path / "nothing.drill")]).load()
    other = str(tmp_path / "other.drill")
    with drillcore.open(other) as db:
        db.create_table("flights", {**SCHEMA, "delay": "int64"}, key=["day", "flight"])
    with pytest.raises(Exception, match=r'"delay" has type float64 in .*b\.drill.* and int64 in .*other\.drill'):
        reading(spark, [three[1], other]).load()
    (tmp_path / "link.drill").symlink_to(three[0])
    for again in (three[0], os.path.join(three[0], "..", "a.drill"), str(tmp_path / "link.drill")):
        with pytest.raises(Exception, match=r"listed twice.*, so its rows would count twice"):
            reading(spark, [three[0], again]).load()
    with pytest.raises(Exception, match=r"leave out \.schema\(\)"):
        reading(spark, three).schema("flight bigint").load().count()
    assert not (tmp_path / "nothing.drill").exists()


def test_databases_whose_tables_have_other_keys_sets_and_nulls_are_one_table(spark: Any, tmp_path: Path) -> None:
    """An option that would mean other rows in each is refused; a column is nullable if it is in one of them."""
    paths = [str(tmp_path / "a.drill"), str(tmp_path / "b.drill")]
    strict = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("id", "v", "w")])
    loose = pa.schema([(name, pa.int64()) for name in ("w", "v", "id")])
    for path, schema, key, more in (
        (paths[0], strict, "id", {"set": "v", "weights": "w"}),
        (paths[1], loose, "v", {}),
    ):
        with drillcore.open(path) as db:
            t = db.create_table("flights", schema, key=key, **more)
            t.append([{"id": 1 if key == "id" else None, "v": 10, "w": 5}])
    frame = reading(spark, paths).load()
    assert sorted(frame.collect(), key=str) == [(1, 10, 5), (None, 10, 5)]
    assert frame.filter("id is null").count() == 1
    release(frame)
    for more, message in [
        ({"between": "[1, 10]"}, r"between: .*the key \['id'\] in .*a\.drill.* and \['v'\] in .*b\.drill"),
        ({"set": "10"}, r"set: .*the set 'v' in .*a\.drill.* and None in .*b\.drill"),
        ({"sample": 1, "weight": "w"}, r'weight: "w" is a weight .*a\.drill.* and not in .*b\.drill'),
    ]:
        with pytest.raises(Exception, match=f"InvalidArgumentError: {message}"):
            reading(spark, paths, **more).load()


def test_a_list_of_paths_and_relative_ones_are_those_of_the_drivers_process(
    spark: Any, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(os.path.dirname(three[0]))
    frame = spark.read.format("drillcore").option("table", "flights").load(["a.drill", "b.drill"])
    assert frame.count() == 2 * ROWS
    frame.limit(3).write.format("drillcore").mode("append").options(path="made", table="t", key="flight").save()
    assert os.path.exists(os.path.join(os.path.dirname(three[0]), "made", "jobs"))
    release(frame)


def test_a_moment_that_is_gone_is_a_typed_error_of_the_task(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "a.drill")
    with fill(path, 0) as db:
        frame = reading(spark, [path]).load()
        assert frame.rdd.getNumPartitions() == 1  # It is planned, and the driver's process is not asked again.
        release(frame)
        db.table("flights").append(rows(50_000, 10))
        db.flush()
        db.compact()
        with pytest.raises(Exception, match=r"MomentGoneError") as raised:
            frame.count()
        assert "Traceback" not in str(raised.value).split("MomentGoneError")[0]


def test_a_database_that_goes_is_a_typed_error_of_the_task(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "a.drill")
    fill(path, 0, 100).close()
    frame = reading(spark, [path]).load()
    assert frame.count() == 100
    shutil.rmtree(path)
    with pytest.raises(Exception, match=r"drillcore\.errors\.(NotFoundError|MomentGoneError): .*a\.drill"):
        frame.count()
    release(frame)


def crc32c(data: bytes) -> int:
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def test_a_database_of_another_version_is_named_at_the_driver_and_in_a_task(spark: Any, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.drill", "b.drill")]
    for path in paths:
        fill(path, 0, 100).close()
    frame = reading(spark, paths).load()
    assert frame.rdd.getNumPartitions() == 2
    manifest = next(Path(paths[1]).glob("manifest-*"))
    header = bytearray(manifest.read_bytes())
    header[8] = 77
    header[12:16] = crc32c(header[:12]).to_bytes(4, "little")
    manifest.write_bytes(header)
    for act in (frame.count, lambda: reading(spark, paths).load()):
        with pytest.raises(Exception, match=r'UnsupportedError: .*version 77.*\(in ".*b\.drill"\)') as raised:
            act()
        assert "Traceback" not in str(raised.value)
    release(frame)


def test_the_driver_answers_only_those_who_have_its_key() -> None:
    from multiprocessing import AuthenticationError
    from multiprocessing.connection import Client

    port = int(driver().environment()["DRILLCORE_SPARK_PORT"])
    with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
        Client(("127.0.0.1", port), "AF_INET", authkey=b"guess").send(("plan", "1", []))
    # It goes on.
    with pytest.raises(drillcore.ClosedError):
        driver().load("none")


def test_one_who_says_nothing_keeps_no_load_waiting(spark: Any, three: list[str]) -> None:
    port = int(driver().environment()["DRILLCORE_SPARK_PORT"])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    frame = reading(spark, three).load()
    assert frame.schema.names[0] == "day"
    release(frame)
    for each in silent:
        each.close()


ENDING = """
import sys
from drillcore.spark.driver import driver
from drillcore.spark.options import parse_read
name, _ = driver().open(parse_read({"path": sys.argv[1], "table": "flights"}))
assert len(driver().plan(name, [])) == 1
"""


def test_a_drivers_process_that_ends_leaves_no_lease(tmp_path: Path) -> None:
    """No writer may ever come by to remove it: a database of a collection has none."""
    path = str(tmp_path / "a.drill")
    fill(path, 0, 100).close()
    before = sorted(os.listdir(path))
    subprocess.run([sys.executable, "-c", ENDING, path], check=True)
    assert sorted(os.listdir(path)) == before


def test_options_are_parsed_alike_however_they_are_spelled() -> None:
    from drillcore.spark.options import parse_read

    given = {"path": '["a, b.drill"]', "table": "t", "columns": '["x", "y, z"]', "split_rows": "1_000"}
    options = parse_read(given)
    assert (options.paths, options.columns, options.split_rows) == (["a, b.drill"], ["x", "y, z"], 1_000)
    assert json.loads(json.dumps(options.between)) is None
