"""Queries read Parquet and CSV files beside tables."""

from __future__ import annotations

import datetime as dt
import gzip
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import drillcore

UTC = dt.timezone.utc


@pytest.fixture
def db() -> Any:
    with drillcore.open(":memory:") as db:
        t = db.create_table("flights", {"id": "int64", "carrier": "string"}, key="id", set="carrier")
        t.append([{"id": i, "carrier": ["UA", "DL"][i % 2]} for i in range(10)])
        yield db


def rows(found: drillcore.Rows) -> list[dict[str, Any]]:
    return found.arrow().to_pylist()


def write_numbers(path: Path, count: int = 100_000, row_group_size: int = 10_000) -> pa.Table:
    table = pa.table(
        {
            "n": range(count),
            "half": [i / 2 for i in range(count)],
            "name": [f"n{i}" for i in range(count)],
            "day": [dt.date(2013, 7, 1 + i % 28) for i in range(count)],
        }
    )
    pq.write_table(table, path, row_group_size=row_group_size)
    return table


def test_a_parquet_file_is_joined_with_a_table(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "airlines.parquet"
    pq.write_table(pa.table({"carrier": ["UA", "XX"], "name": ["United", None]}), path)
    query = "select name, count(*) as n from flights join read_parquet(?) using (carrier) group by name"
    assert rows(db.sql(query, [str(path)])) == [{"name": "United", "n": 5}]
    quoted = f"select a.name from read_parquet('{path}') a where a.carrier = 'XX'"
    assert rows(db.snapshot().sql(quoted)) == [{"name": None}]


def test_a_csv_file_is_joined_with_a_table(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "airlines.csv"
    path.write_text('carrier,name\nUA,"United, Inc."\nXX,\n')
    query = f"select name, count(*) as n from flights join read_csv('{path}') using (carrier) group by name"
    assert rows(db.sql(query)) == [{"name": "United, Inc.", "n": 5}]


def test_columns_of_parquet_come_as_they_are_in_any_order(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "n.parquet"
    table = write_numbers(path)
    assert db.sql("select * from read_parquet(?) order by n", [str(path)]).arrow().equals(table)
    swapped = db.sql("select day, half, n from read_parquet(?) order by n", [str(path)]).arrow()
    assert swapped.equals(table.select(["day", "half", "n"]))
    assert rows(db.sql("select count(*) as c from read_parquet(?)", [str(path)])) == [{"c": 100_000}]
    assert len(db.sql("select name from read_parquet(?) limit 7", [str(path)]).arrow()) == 7


def test_dictionaries_of_any_values_are_read(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "categories.parquet"
    values = {
        "name": pa.array(["a", "b"]),
        "is_late": pa.array([True, False]),
        "price": pa.array([Decimal("1.5"), None]),
        "hash": pa.array([b"ab", b"cd"], pa.binary(2)),
        "day": pa.array([dt.date(2013, 7, 1), None]),
    }
    pq.write_table(pa.table({name: array.dictionary_encode() for name, array in values.items()}), path)
    read = db.sql("select * from read_parquet(?)", [str(path)]).arrow()
    assert {name: read[name].to_pylist() for name in values} == {n: a.to_pylist() for n, a in values.items()}
    # The command reads it, too.
    command = ["ingest", str(tmp_path / "new.drill"), "t", str(path), "--key", "name", "--quiet"]
    assert subprocess.run([sys.executable, "-m", "drillcore", *command], check=False).returncode == 0
    with drillcore.open(tmp_path / "new.drill", read_only=True) as ingested:
        assert ingested.table("t").get("a")["is_late"] is True


def plan(db: Any, query: str, *parameters: Any) -> str:
    return "\n".join(db.sql("explain " + query, list(parameters)).arrow()["plan"].to_pylist())


def test_parquet_is_read_by_column_and_only_where_a_row_may_pass(db: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "n.parquet")
    write_numbers(Path(path))
    whole = plan(db, "select half from read_parquet(?)", path)
    assert "columns=[half], row_groups=10" in whole
    one = "select sum(half) as s from read_parquet(?) where n >= ? and n < ?"
    assert "row_groups=2" in plan(db, one, path, 15_000, 25_000)
    assert rows(db.sql(one, [path, 15_000, 25_000])) == [{"s": sum(i / 2 for i in range(15_000, 25_000))}]
    assert rows(db.sql("select n from read_parquet(?) where name = 'n77777'", [path])) == [{"n": 77_777}]
    assert "row_groups=0" in plan(db, one, path, -5, -1)
    assert rows(db.sql("select n from read_parquet(?) where n < 0", [path])) == []


def test_nan_is_greater_than_all_floats_in_files_too(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "nan.parquet"
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), path)
    assert len(rows(db.sql("select x from read_parquet(?) where x > 5", [str(path)]))) == 1


CSV = "\n".join(
    [
        "\ufeffid,whole,half,flag,day,local,moment,mixed,none,text",
        "1,7,1.5,true,2013-07-01,2013-07-01T09:00:00,2013-07-01T09:00:00-04:00,2013-07-01T09:00:00,,a",
        '2,,-2,false,,2013-07-01 09:00:00.25,2013-07-01T09:00:00Z,2013-07-01T09:00:00Z,,"b ""c"""',
        "3,-9223372036854775808,1e3,TRUE,2013-07-02,,,,,",
        "",
    ]
)


def test_the_columns_of_csv_have_the_types_of_all_their_values(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "types.csv"
    path.write_text(CSV)
    found = db.sql("select * from read_csv(?) order by id", [str(path)]).arrow()
    assert {field.name: str(field.type) for field in found.schema} == {
        "id": "int64",
        "whole": "int64",
        "half": "double",
        "flag": "bool",
        "day": "date32[day]",
        "local": "timestamp[ms]",
        "moment": "timestamp[s, tz=UTC]",
        "mixed": "string",
        "none": "string",
        "text": "string",
    }
    assert found["moment"][0].as_py() == dt.datetime(2013, 7, 1, 13, tzinfo=UTC)
    assert found["local"][1].as_py() == dt.datetime(2013, 7, 1, 9, 0, 0, 250_000)
    assert found["text"].to_pylist() == ["a", 'b "c"', None]
    assert rows(db.sql("select text, id from read_csv(?) where id = 2", [str(path)])) == [{"text": 'b "c"', "id": 2}]
    assert rows(db.sql("select count(*) as n from read_csv(?)", [str(path)])) == [{"n": 3}]


def test_a_late_value_of_another_type_decides_too(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("id,x\n" + "".join(f"{i},{i}\n" for i in range(20_000)) + "20000,late\n")
    found = rows(db.sql("select x from read_csv(?) where id >= 19999 order by id", [str(path)]))
    assert found == [{"x": "19999"}, {"x": "late"}]


def test_csv_may_be_compressed_and_have_another_separator(db: Any, tmp_path: Path) -> None:
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert rows(db.sql("select * from read_csv(?)", [str(packed)])) == [{"a": 1, "b": 2}]
    path = tmp_path / "x.csv"
    path.write_text("a;b\n1;2,5\n")
    assert rows(db.sql("select * from read_csv(?, ';')", [str(path)])) == [{"a": 1, "b": "2,5"}]


def test_a_file_that_cannot_be_read_is_named(db: Any, tmp_path: Path) -> None:
    def refused(kind: type, function: str, path: Path, message: str) -> None:
        with pytest.raises(kind, match=message) as caught:
            db.sql(f"select * from {function}(?)", [str(path)]).arrow()
        assert isinstance(caught.value, drillcore.Error)
        assert path.name in str(caught.value)

    for function in ("read_parquet", "read_csv"):
        refused(drillcore.NotFoundError, function, tmp_path / "missing.parquet", "there is no file")
        refused(drillcore.StorageError, function, tmp_path, "cannot read")
    text = tmp_path / "text.parquet"
    text.write_text("id,x\n1,2\n")
    refused(drillcore.InvalidArgumentError, "read_parquet", text, "cannot be read as Parquet")
    cut = tmp_path / "cut.parquet"
    write_numbers(cut, 1000)
    cut.write_bytes(cut.read_bytes()[:-100])
    refused(drillcore.InvalidArgumentError, "read_parquet", cut, "cannot be read as Parquet")
    for name, content, message in [
        ("empty.csv", b"", "empty"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "line 3"),
        ("binary.csv", b"a,b\n\xff\xfe,2\n", "cannot be read as CSV"),
        ("twice.csv", b"a,a\n1,2\n", 'two columns "a"'),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        refused(drillcore.InvalidArgumentError, "read_csv", path, message)


def test_damage_inside_a_parquet_file_is_an_error_that_names_it(db: Any, tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    write_numbers(path, 50_000)
    content = bytearray(path.read_bytes())
    content[1000:60_000] = bytes(59_000)
    path.write_bytes(content)
    with pytest.raises(drillcore.Error, match=r"damaged\.parquet"):
        db.sql("select * from read_parquet(?)", [str(path)]).arrow()


def test_the_arguments_of_read_functions_are_checked(db: Any) -> None:
    for query, message in [
        ("select * from read_parquet()", "needs the path"),
        ("select * from read_parquet(7)", "needs the path"),
        ("select * from read_parquet('a', 'b')", "needs the path"),
        ("select * from read_csv('a', ';;')", "must be one of ASCII"),
    ]:
        with pytest.raises(drillcore.InvalidArgumentError, match=message):
            db.sql(query)
    with pytest.raises(drillcore.NotFoundError, match="did you mean"):
        db.sql("select * from read_parqet('a')")
