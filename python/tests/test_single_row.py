"""Appends of one dict, which have a way of their own, store and refuse what appends of several do."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import threading
import zoneinfo
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drillcore
from drillcore.data import to_arrow

UTC = dt.timezone.utc
WHOLE = {
    name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        *((name, kind) for name, kind in WHOLE.items()),
        ("flag", pa.bool_()),
        ("small", pa.float32()),
        ("large", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("cost", pa.decimal128(10, 2)),
        ("share", pa.decimal128(3, 3)),
        ("most", pa.decimal128(38, 0)),
        ("nano", pa.timestamp("ns", "UTC")),
        ("at", pa.timestamp("us", "Europe/Berlin")),
        ("milli", pa.timestamp("ms")),
        ("local", pa.timestamp("ns")),
        ("second", pa.timestamp("s")),
        ("tags", pa.list_(pa.string())),
    ]
)


class Text(str):
    pass


class Whole(int):
    pass


class Float(float):
    pass


class Bytes(bytes):
    pass


class Day(dt.date):
    pass


class Time(dt.datetime):
    pass


class Money(decimal.Decimal):
    pass


class Zone(dt.tzinfo):
    """No offset is known."""

    def utcoffset(self, _: Any) -> None:
        return None

    def dst(self, _: Any) -> None:
        return None

    def tzname(self, _: Any) -> str:
        return "?"


NAIVE = [
    dt.datetime(2013, 7, 4, 9, 30, 15, 123456),
    dt.datetime(2013, 7, 4, 9, 30, 15, 123000),
    dt.datetime(2013, 7, 4, 9, 30, 15),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 58),
    dt.datetime(1900, 2, 28, 1, 2, 3, 4000),
    dt.datetime(2000, 2, 29),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145224),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145225),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854776),
    dt.datetime(2500, 1, 1),
    dt.datetime.min,
    dt.datetime.max,
    dt.datetime(2013, 10, 27, 2, 30, fold=1),
]
TIMES = [
    *NAIVE,
    *(time.replace(tzinfo=UTC) for time in NAIVE),
    dt.datetime(2013, 7, 4, tzinfo=dt.timezone(dt.timedelta(0))),
    dt.datetime(2013, 7, 4, tzinfo=dt.timezone(dt.timedelta(hours=-4))),
    dt.datetime(2013, 7, 4, tzinfo=zoneinfo.ZoneInfo("UTC")),
    dt.datetime(2013, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    dt.datetime(2013, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    dt.datetime(2013, 7, 4, tzinfo=Zone()),
    dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=4))),
    Time(2013, 7, 4),
    Time(2013, 7, 4, tzinfo=UTC),
    dt.date(2013, 7, 4),
    "2013-07-04T00:00Z",
    "2013-07-04T00:00",
    1372896000,
    None,
]
WHOLES = [
    *(edge for bits in (7, 8, 15, 16, 31, 32, 63, 64) for edge in (2**bits - 1, 2**bits, -(2**bits), -(2**bits) - 1)),
    *(0, -1, True, 1.0, 1.5, math.nan, "1", Whole(1), 10**30, 10**5000, decimal.Decimal(1), None),
]
FLOATS = [0.1, -0.0, math.inf, -math.inf, 1e-46, 3.4028235e38, 3.4028235677973366e38, 1e300, Float(1.5), math.nan]
DECIMALS = [
    *map(decimal.Decimal, ["1.25", "-1.25", "-0", "0", "0.999", "0.25", "1e1", "1E-1", "1.250", "0.001"]),
    *map(decimal.Decimal, ["99999999.99", "100000000", "NaN", "Infinity", "0e-9", "9" * 38, "-" + "9" * 38]),
    *(0, 3, -3, 99999999, 100000000, 10**38 - 1, 10**38, 10**5000, True, 1.5, "1", Money("1.25"), Whole(3), None),
]
VALUES: dict[str, list[Any]] = {
    "id": [1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, True, 1.0, 1.5, "1", None],
    **dict.fromkeys(WHOLE, WHOLES),
    "flag": [True, False, 1, "true", None],
    "small": [*FLOATS, 1, 2**24 + 1, True, "1", None],
    "large": [*FLOATS, 2**53 + 1, 7, True, decimal.Decimal("0.5"), None],
    "name": ["a", "", "\0", "ü\U0001f6eb", "\ud800", "a\udfff", Text("a"), 5, b"a", None],
    "raw": [b"a", b"", b"\0\xff", "a", bytearray(b"b"), memoryview(b"c"), Bytes(b"d"), None],
    "day": [
        *(dt.date(2013, 7, 4), dt.date(1969, 12, 31), dt.date(1900, 3, 1), dt.date.min, dt.date.max),
        *(Day(2013, 7, 4), dt.datetime(2013, 7, 4), "2013-07-04", 5, None),
    ],
    "cost": DECIMALS,
    "share": DECIMALS,
    "most": DECIMALS,
    "nano": TIMES,
    "at": TIMES,
    "milli": TIMES,
    "local": TIMES,
    "second": TIMES,
    "tags": [["a", None], [], "a", None],
}
CASES = [(name, value) for name, values in VALUES.items() for value in values]


def appended(rows: list[dict[str, Any]], times: int, fill_nulls: bool = False, merge: str = "append") -> Any:
    with drillcore.open(":memory:") as db:
        t = db.create_table("t", SCHEMA, key="id", merge=merge)
        try:
            for _ in range(times):
                t.append(rows, fill_nulls=fill_nulls)
        except drillcore.Error as error:
            return type(error), str(error)
        return t.scan().arrow()


def values(table: pa.Table) -> list[list[Any]]:
    """Return the values column by column, times as numbers: not all are times for Python."""
    is_time = pa.types.is_timestamp
    return [(each.cast(pa.int64()) if is_time(each.type) else each).to_pylist() for each in table.columns]


def case_id(value: Any) -> str | None:
    return value if isinstance(value, str) and value in VALUES else ""


@pytest.mark.parametrize(("name", "value"), CASES, ids=case_id)
def test_each_value_is_stored_or_refused_as_among_others(name: str, value: Any) -> None:
    row = {"id": 0, name: value}
    one = appended([row], 1)
    two = appended([row, row], 1)
    if isinstance(one, pa.Table):
        assert one.schema == two.schema
        assert repr(values(two)) == repr([column * 2 for column in values(one)])
    else:
        assert one[0] is two[0]
        assert one[1] == two[1].removesuffix(". 1 more row does not fit")


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"flag": True},
        {"id": 1, "nmae": "x"},
        {"id": 1, Text("flag"): True},
        {Text("id"): 1},
        {"id": 1, Text("nmae"): True},
        {"id": 1, b"flag": True},
        {"id": 1, None: True},
        {"id": 1, 5: "x"},
        {"id": 1, "na\0me": "x"},
        {"id": 1, "\ud800": 1},
        {"id": 1},
    ],
)
@pytest.mark.parametrize("fill_nulls", [False, True])
@pytest.mark.parametrize("merge", ["append", "upsert"])
def test_each_shape_is_stored_or_refused_as_among_others(row: Any, fill_nulls: bool, merge: str) -> None:
    one = appended([row], 1, fill_nulls, merge)
    two = appended([row, row], 1, fill_nulls, merge)
    if isinstance(one, pa.Table):
        assert one.slice(0, 1).equals(two.slice(0, 1))
    else:
        assert one == two


@pytest.fixture(scope="module")
def plain() -> Any:
    """Return whether the engine takes a row itself."""
    with drillcore.open(":memory:") as db:
        t = db.create_table("t", SCHEMA, key="id")
        yield lambda data: t._native.append_plain(data, False, False) is not None


def test_plain_rows_take_the_short_way(plain: Any) -> None:
    row = {name: values[0] for name, values in VALUES.items() if name not in ("nano", "at", "tags", "share")}
    row |= {"nano": TIMES[len(NAIVE)], "at": TIMES[len(NAIVE)], "tags": None, "share": None}
    row |= {"milli": NAIVE[1], "second": NAIVE[2], "most": 3}
    assert row.keys() == set(SCHEMA.names)
    assert plain([row])
    assert plain([dict(reversed(row.items()))])
    for name in row:
        assert plain([{"id": 1, name: row[name]}])


@pytest.mark.parametrize(
    "data",
    [
        *([], ({"id": 1},), [{"id": 1}] * 2, [[("id", 1)]], {"id": 1}, None, [None], [{}]),
        *([{"id": 1, "nmae": 1}], [{"id": 1, 5: 1}], [{"id": 1, "tags": ["a"]}], [{"id": Whole(1)}]),
        *([drillcore.Rejected(0, "")], [{"id": 1, "at": NAIVE[0]}], [{"id": 1, "local": TIMES[len(NAIVE)]}]),
    ],
    ids=repr,
)
def test_other_data_takes_the_long_way_and_nothing_is_stored(data: Any) -> None:
    with drillcore.open(":memory:") as db:
        t = db.create_table("t", SCHEMA, key="id")
        assert t._native.append_plain(data, False, False) is None
        assert len(t) == 0


class Row(dict):  # type: ignore[type-arg]
    def __getitem__(self, name: Any) -> Any:
        return 7

    def get(self, name: Any, default: Any = None) -> Any:
        return 7


class Rows(list):  # type: ignore[type-arg]
    pass


def test_subclasses_of_dict_and_list_take_the_long_way(plain: Any) -> None:
    assert not plain([Row(id=1)])
    assert not plain(Rows([{"id": 1}]))
    assert appended([Row(id=1)], 1) == appended([{"id": 7}], 1)
    assert appended(Rows([{"id": 1}]), 1) == appended([{"id": 1}], 1)


@pytest.mark.parametrize(("name", "value"), CASES, ids=case_id)
def test_what_is_taken_is_stored_as_it_is_by_the_long_way(name: str, value: Any) -> None:
    row = {"id": 0, name: value}
    with drillcore.open(":memory:") as db:
        short, long = (db.create_table(each, SCHEMA, key="id") for each in ("short", "long"))
        try:
            taken = short._native.append_plain([row], False, False) is not None
        except drillcore.Error as error:
            with pytest.raises(type(error)) as refused:
                long._native.append(to_arrow([row], SCHEMA), False, False)
            assert str(refused.value) == str(error)
            return
        if taken:
            long._native.append(to_arrow([row], SCHEMA), False, False)
        assert repr(values(short.scan().arrow())) == repr(values(long.scan().arrow()))


def test_an_upsert_needs_whole_rows_unless_nulls_are_filled() -> None:
    with drillcore.open(":memory:") as db:
        t = db.create_table("t", {"id": "int64", "seats": "int64"}, key="id", merge="upsert")
        t.add_column("gate", "string")
        with pytest.raises(drillcore.InvalidArgumentError, match='lacks column "seats"'):
            t.append([{"id": 1}])
        with pytest.raises(drillcore.InvalidArgumentError, match='lacks key column "id"'):
            t.append([{"seats": 1}], fill_nulls=True)
        assert t._native.append_plain([{"id": 1}], False, True) is not None
        assert t._native.append_plain([{"id": 1, "seats": 2}], False, False) is not None
        assert t.get(1) == {"id": 1, "seats": 2, "gate": None}


def test_rows_of_a_rollup_table_are_events() -> None:
    metrics = {"n": "count", "load": "sum(load)"}
    rollup = {"time": "at", "granularity": "hour", "dimensions": "discover", "metrics": metrics}
    schema = {"at": "timestamp[s]", "host": "string", "load": "float64"}
    with drillcore.open(":memory:") as db:
        t = db.create_table("t", schema, key=["at", "host"], merge="rollup", rollup=rollup)
        row = {"at": dt.datetime(2013, 7, 4, 9, 30), "host": "a", "load": 0.5}
        assert t._native.append_plain([row], False, False) is not None
        assert t._native.append_plain([row | {"zone": "x"}], False, False) is None
        t.append([row | {"zone": "x"}])
        assert t._native.append_plain([row | {"zone": "x"}], False, False) is not None
        assert t._native.append_plain([{"at": row["at"], "host": None}], False, False) is not None
        assert t.scan(columns=["host", "n"]).arrow().to_pydict() == {"host": [None, "a", "a"], "n": [1, 1, 2]}


def test_a_column_added_later_is_taken(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")
    t.append([{"id": 1}])
    t.add_column("gate", "string")
    t.append([{"id": 2, "gate": "B7"}])
    assert t.get(2) == {"id": 2, "gate": "B7"}


def test_columns_are_the_newest_at_each_row(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "gate": "int8"}, key="id")
    t.append([{"id": 1, "gate": 100}])
    assert t._native.append_plain([{"id": 2, "gate": 200}], False, False) is None
    t.widen("gate", "int16")
    assert t._native.append_plain([{"id": 2, "gate": 200}], False, False) is not None
    t.rename_column("gate", "door")
    assert t._native.append_plain([{"id": 3, "gate": 200}], False, False) is None
    assert t._native.append_plain([{"id": 3, "door": 300}], False, False) is not None
    t.drop_column("door")
    assert t._native.append_plain([{"id": 4, "door": 300}], False, False) is None
    assert t._native.append_plain([{"id": 4}], False, False) is not None
    assert t.scan().arrow().to_pydict() == {"id": [1, 2, 3, 4]}


def test_rows_are_stored_while_columns_change(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "n": "int8"}, key="id")
    errors: list[BaseException] = []

    def append(first: int) -> None:
        try:
            for i in range(first, first + 300):
                t.append([{"id": i, "n": i % 100}])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=append, args=[first]) for first in (0, 1000)]
    for thread in threads:
        thread.start()
    for i, kind in enumerate(["int16", "int32", "int64"]):
        t.widen("n", kind)
        t.add_column(f"added{i}", "string")
    for thread in threads:
        thread.join()
    assert not errors
    assert t.scan(columns=["id", "n"]).arrow().to_pylist() == [
        {"id": i, "n": i % 100} for i in [*range(300), *range(1000, 1300)]
    ]


@pytest.mark.parametrize("row", [{"id": 1}, {"id": 1.0}, {"id": "x"}, {"nmae": 1}])
def test_a_closed_or_dropped_table_refuses_a_row_as_it_does_several(row: dict[str, Any]) -> None:
    db = drillcore.open(":memory:")
    dropped, closed = (db.create_table(name, SCHEMA, key="id") for name in ("dropped", "closed"))
    db.drop_table("dropped")
    db.close()
    for t in (dropped, closed):
        refused = []
        for rows in ([row], [row, row]):
            with pytest.raises(drillcore.Error) as error:
                t.append(rows)
            refused.append((error.type, str(error.value)))
        assert refused[0] == refused[1]


@pytest.mark.parametrize("row", [{"id": 1}, {"id": 1.0}, {"id": "x"}, {"nmae": 1}])
def test_a_reader_refuses_a_row_as_it_does_several(tmp_path: Path, row: dict[str, Any]) -> None:
    with drillcore.open(tmp_path / "db") as db:
        db.create_table("t", SCHEMA, key="id")
        with drillcore.open(tmp_path / "db", read_only=True) as reader:
            refused = []
            for rows in ([row], [row, row]):
                with pytest.raises(drillcore.Error) as error:
                    reader.table("t").append(rows)
                refused.append((error.type, str(error.value)))
            assert refused[0] == refused[1]


def test_a_row_that_does_not_fit_is_skipped_with_the_reason(database: drillcore.Database) -> None:
    t = database.create_table("t", SCHEMA, key="id")
    for row in ({"id": None}, {"id": 2**31}, {"id": 1, "nmae": 1}, {"flag": True}):
        one, two = t.append([row], on_error="skip"), t.append([row, row], on_error="skip")
        assert (one.rows, len(one.rejected)) == (0, 1)
        assert one.rejected[0] == two.rejected[0]
