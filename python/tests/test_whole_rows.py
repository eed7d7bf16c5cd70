"""A row of an upsert table replaces a whole row, so one that lacks columns is refused by every way in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import drillcore

SCHEMA = {"id": "int64", "name": "string", "seats": "int64"}
WHOLE = {"id": 1, "name": "x", "seats": 7}
LACKING = {"id": 1, "name": "y"}
FILLED = {"id": 1, "name": "y", "seats": None}

FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dicts": lambda row: [row],
    "a tuple of dicts": lambda row: (row,),
    "a batch": lambda row: pa.RecordBatch.from_pylist([row]),
    "a table": lambda row: pa.Table.from_pylist([row]),
    "a reader": lambda row: pa.Table.from_pylist([row]).to_reader(),
    "polars": lambda row: pl.DataFrame([row]),
    "pandas": lambda row: pd.DataFrame([row]),
    "duckdb": lambda row: duckdb.sql("select " + ", ".join(f"{value!r} as {name}" for name, value in row.items())),
}

STREAMS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda data: data,
    "in an iterator": lambda data: iter([data]),
}


def ways_in(database: drillcore.Database) -> dict[str, Callable[..., Any]]:
    """Every way of data in Python into table "t"."""
    table = database.table("t")
    ways: dict[str, Callable[..., Any]] = {
        "append": table.append,
        "append, leaving out": lambda data, **options: table.append(data, on_error="skip", **options),
        "append to several": lambda data, **options: database.append({"t": data}, **options),
    }
    for how, stream in STREAMS.items():
        ways[f"load {how}"] = lambda data, stream=stream, **options: table.load(stream(data), **options)
    return ways


WAYS = ["append", "append, leaving out", "append to several", *(f"load {how}" for how in STREAMS)]


@pytest.fixture
def table(database: drillcore.Database) -> drillcore.Table:
    table = database.create_table("t", SCHEMA, key="id", merge="upsert")
    table.append([WHOLE])
    return table


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_what_lacks_columns_is_refused_or_filled_by_every_way_in(
    database: drillcore.Database, table: drillcore.Table, way: str, form: str
) -> None:
    append, data = ways_in(database)[way], FORMS[form]
    is_reported = way == "append, leaving out" and "dicts" in form
    if is_reported:
        result = append(data(LACKING))
        assert result.rows == 0 and 'lacks column "seats"' in result.rejected[0].reason
    else:
        with pytest.raises(drillcore.InvalidArgumentError, match=r'lacks column "seats"; an upsert.*null'):
            append(data(LACKING))
    assert table.get(1) == WHOLE
    # What was added later may be missing.
    table.add_column("gate", "string")
    append(data(WHOLE))
    assert table.get(1) == {**WHOLE, "gate": None}
    append(data(LACKING), fill_nulls=True)
    assert table.get(1) == {**FILLED, "gate": None}


@pytest.mark.parametrize("way", WAYS)
def test_each_dict_is_judged_by_itself(database: drillcore.Database, table: drillcore.Table, way: str) -> None:
    append = ways_in(database)[way]
    rows = [{**WHOLE, "id": 2}, {"id": 1}, {**WHOLE, "id": 3, "name": None}]
    if way == "append, leaving out":
        result = append(rows)
        assert (result.rows, [each.row for each in result.rejected]) == (2, [1])
    else:
        with pytest.raises(drillcore.InvalidArgumentError, match=r'^row 1: the dict lacks columns "name", "seats"'):
            append(rows)
        assert len(table) == 1
    assert table.get(1) == WHOLE
    append(rows, fill_nulls=True)
    assert table.get(1) == {"id": 1, "name": None, "seats": None}
    assert table.get(3) == {"id": 3, "name": None, "seats": 7}


def test_a_load_says_in_which_dict_of_the_stream_columns_are_missing(table: drillcore.Table) -> None:
    rows = [{**WHOLE, "id": i} for i in range(2500)]
    del rows[1700]["seats"]
    with pytest.raises(drillcore.InvalidArgumentError, match=r"^row 1700: the dict lacks.*1,000 rows were") as caught:
        table.load(rows, commit_rows=1000)
    assert caught.value.rows_loaded == 1000
    result = table.load(rows, commit_rows=1000, on_error="skip")
    assert (result.rows, [each.row for each in result.rejected]) == (2499, [1700])


@pytest.mark.parametrize("merge", ["append", "rollup"])
@pytest.mark.parametrize("way", WAYS)
def test_other_tables_replace_nothing_and_take_what_lacks_columns(
    database: drillcore.Database, way: str, merge: str
) -> None:
    rollup = {"metrics": {"seats": "sum(seats)"}} if merge == "rollup" else None
    table = database.create_table("t", SCHEMA, key="id", merge=merge, rollup=rollup)
    for options in ({}, {"fill_nulls": True}):
        ways_in(database)[way]([{"id": 1}], **options)
    assert table.get(1)["seats"] is None


WEIGHTED = {"id": 1, "w": 5, "x": 2}


@pytest.mark.parametrize("merge", ["append", "upsert"])
@pytest.mark.parametrize("fill_nulls", [False, True])
def test_a_weight_is_never_filled_and_the_report_says_what_to_do(
    database: drillcore.Database, merge: str, fill_nulls: bool
) -> None:
    schema = {"id": "int64", "w": "int64", "x": "int64"}
    table = database.create_table("t", schema, key="id", merge=merge, weights="w")
    lacking = {"id": 2, "x": 2}
    message = 'lacks weight column "w", which cannot hold null; add it, with 0 for'
    for rows in ([lacking], [WEIGHTED, lacking], pa.Table.from_pylist([lacking])):
        with pytest.raises(drillcore.InvalidArgumentError, match=message):
            table.append(rows, fill_nulls=fill_nulls)
        with pytest.raises(drillcore.InvalidArgumentError, match=message):
            table.load(rows, fill_nulls=fill_nulls)
    result = table.append([WEIGHTED, lacking], on_error="skip", fill_nulls=fill_nulls)
    assert (result.rows, [each.row for each in result.rejected]) == (1, [1])
    assert message in result.rejected[0].reason and "fill_nulls" not in result.rejected[0].reason
    result = table.append([{**lacking, "w": None}], on_error="skip", fill_nulls=fill_nulls)
    assert "use 0 for a row that samples by weight do not draw" in result.rejected[0].reason
    # What it says works.
    assert table.append([{**lacking, "w": 0}], fill_nulls=fill_nulls).rows == 1
    assert table.sample(1, weight="w").arrow()["id"].to_pylist() == [1]
    with table.writer(fill_nulls=fill_nulls) as w, pytest.raises(drillcore.InvalidArgumentError, match=message):
        w.add(lacking)


def test_what_is_not_nullable_is_never_filled(database: drillcore.Database) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int64(), nullable=False)])
    table = database.create_table("t", schema, key="id", merge="upsert")
    result = table.append([{"id": 1, "x": 1}, {"id": 2}], on_error="skip", fill_nulls=True)
    assert result.rejected[0].reason == 'the dict lacks column "x", which cannot hold null; add it'


def test_the_command_fills_no_weight_and_says_so(tmp_path: Path) -> None:
    folder = str(tmp_path / "db")
    lines, csv = tmp_path / "a.jsonl", tmp_path / "a.csv"
    FILES["a.jsonl"](lines, [WEIGHTED, {"id": 2, "x": 2}])
    FILES["a.csv"](csv, [{"id": 3}])
    new = ["--key=id", "--merge=upsert", "--weights=w", "--quiet"]
    for more in ([], ["--fill-nulls"]):
        refused = run("ingest", folder, "t", str(lines), *new, *more)
        assert refused.returncode == 2
        assert 'weight column "w" cannot hold null; use 0 for a row' in refused.stderr
        assert "--fill-nulls" not in refused.stderr
    skipped = run("ingest", folder, "t", str(lines), *new, "--on-error=skip")
    assert skipped.stdout.startswith("1 row appended")
    assert 'line 2: weight column "w" cannot hold null; use 0 for a row' in skipped.stderr
    refused = run("ingest", folder, "t", str(csv), "--quiet", "--fill-nulls")
    assert 'lacks weight column "w", which cannot hold null; add it, with 0' in refused.stderr


def test_a_misspelt_column_is_named_before_those_that_are_missing(table: drillcore.Table) -> None:
    with pytest.raises(drillcore.NotFoundError, match=r"did you mean .seats."):
        table.append([{"id": 1, "name": "y", "seast": 7}])
    with pytest.raises(drillcore.InvalidArgumentError, match=r"did you mean .seats."):
        table.append([WHOLE, {"id": 1, "name": "y", "seast": 7}])


def write_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_file(path, table.schema) as file:
        file.write(table)


FILES: dict[str, Callable[[Path, list[dict[str, Any]]], object]] = {
    "a.csv": lambda path, rows: pd.DataFrame(rows).to_csv(path, index=False),
    "a.csv.gz": lambda path, rows: pd.DataFrame(rows).to_csv(path, index=False),
    "a.jsonl": lambda path, rows: path.write_text("".join(json.dumps(row) + "\n" for row in rows)),
    "a.parquet": lambda path, rows: parquet.write_table(pa.Table.from_pylist(rows), path),
    "a.arrow": write_arrow,
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "drillcore", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("file", FILES)
def test_files_that_lack_columns_are_refused_before_a_row_goes_in(tmp_path: Path, file: str) -> None:
    folder, path = str(tmp_path / "db"), tmp_path / file
    with drillcore.open(folder) as db:
        db.create_table("t", SCHEMA, key="id", merge="upsert").append([WHOLE])
    FILES[file](path, [LACKING])
    refused = run("ingest", folder, "t", str(path), "--quiet")
    assert refused.returncode == 2
    assert (
        '"seats" is missing, and an upsert would set it to null' in refused.stderr and "--fill-nulls" in refused.stderr
    )
    with drillcore.open(folder) as db:
        assert db.table("t").get(1) == WHOLE
    assert run("ingest", folder, "t", str(path), "--quiet", "--fill-nulls").returncode == 0
    with drillcore.open(folder) as db:
        assert db.table("t").get(1) == FILLED


@pytest.mark.parametrize("output", ["jsonl", "csv", "arrow"])
def test_what_the_command_prints_it_takes_back(tmp_path: Path, output: str) -> None:
    folder, path = str(tmp_path / "db"), tmp_path / f"out.{output}"
    with drillcore.open(folder) as db:
        db.create_table("t", SCHEMA, key="id", merge="upsert").append([WHOLE, {"id": 2, "name": None, "seats": None}])
    with path.open("wb") as out:
        command = [sys.executable, "-m", "drillcore", "scan", folder, "t", "--output", output]
        subprocess.run(command, stdout=out, check=True)
    assert run("ingest", folder, "t", str(path), "--quiet").stdout == "2 rows appended to t, 0 left out\n"
    assert run("ingest", folder, "new", str(path), "--key=id", "--merge=upsert", "--quiet").returncode == 0


def test_each_json_line_is_judged_by_itself(tmp_path: Path) -> None:
    folder, path = str(tmp_path / "db"), tmp_path / "a.jsonl"
    rows = [{**WHOLE, "id": 2}, {"id": 1}, {**WHOLE, "id": 3, "name": None}]
    FILES["a.jsonl"](path, rows)
    new = ["ingest", folder, "t", str(path), "--key=id", "--merge=upsert", "--quiet"]
    refused = run(*new)
    assert refused.returncode == 2 and 'a.jsonl, line 2: "name", "seats" are missing' in refused.stderr
    skipped = run(*new, "--on-error=skip")
    assert skipped.stdout == "2 rows appended to t, 1 left out\n" and "line 2: " in skipped.stderr
    assert run("ingest", folder, "t", str(path), "--fill-nulls", "--quiet").stdout.startswith("3 rows")
    with drillcore.open(folder) as db:
        assert db.table("t").get(1) == {"id": 1, "name": None, "seats": None}
