"""Datasets of tables: DuckDB reads what a query needs, and answers as it does of the whole table."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import drillcore
from drillcore.export.arrow_dataset import TableDataset, pushed_condition

duckdb = pytest.importorskip("duckdb")
START = dt.datetime(2013, 7, 1, tzinfo=dt.timezone.utc)
NAMES = ["n0", "n1", "o'x", 'a",\n  "b', "a", "b", 'back\\slash "q"', "x) and (y"]
N = 3_000


def rows() -> pa.Table:
    return pa.table(
        {
            "id": range(N),
            "name": [None if i % 9 == 8 else NAMES[i % 9] for i in range(N)],
            "x": [float("nan") if i % 11 == 0 else None if i % 13 == 0 else i / 8 - 100 for i in range(N)],
            "ok": [[True, False, None][i % 3] for i in range(N)],
            "day": pa.array([15_887 + i % 40 for i in range(N)], pa.int32()).cast(pa.date32()),
            "at": pa.array([START + dt.timedelta(minutes=i) for i in range(N)], pa.timestamp("us", "UTC")),
            "local": pa.array([dt.datetime(2013, 7, 1) + dt.timedelta(seconds=i) for i in range(N)], pa.timestamp("s")),
            "small": pa.array([i % 100 for i in range(N)], pa.int8()),
            "an odd name": pa.array([i % 17 for i in range(N)], pa.int64()),
        }
    )


@pytest.fixture
def t(database: drillcore.Database) -> drillcore.Table:
    whole = rows()
    table = database.create_table("t", whole.schema, key="id", set="name")
    table.append(whole)
    return table


class Watched(TableDataset):
    """Notes what is read."""

    def __init__(self, table: drillcore.Table) -> None:
        inner = table.dataset()
        assert isinstance(inner, TableDataset)
        super().__init__(inner._table_schema, self._note)
        self.inner = inner
        self.asked: list[tuple[list[str] | None, str | None, int | None]] = []
        self.read = 0

    def _note(self, columns: list[str] | None, where: str | None, limit: int | None) -> Any:
        self.asked.append((columns, where, limit))
        given = self.inner._scan(columns, where, limit)
        noted = self

        class Counted:
            def batches(self) -> Any:
                for batch in given.batches():
                    noted.read += batch.num_rows
                    yield batch

        return Counted()


CONDITIONS = [
    ("id >= 10 and id < 20", True),
    ("id = 7 or id = 9", True),
    ("id in (1, 2, 99, 5000)", True),
    ("id between 5 and 7 and small <> 6", True),
    ("name = 'o''x'", True),
    ("name in ('n0', 'a', 'b')", True),
    ("name in ('a\",\n  \"b', 'n1')", False),
    ("name = 'a\",\n  \"b'", None),
    ("name = 'back\\slash \"q\"'", True),
    ("name = 'x) and (y'", True),
    ("name is null", True),
    ("name is not null and id < 100", True),
    ("x > 200", None),
    ("x <= -99.5", True),
    ("x = 'nan'", None),
    ("ok", None),
    ("not ok and id > 2900", None),
    ("day = date '2013-07-04'", True),
    ("\"at\" >= timestamptz '2013-07-03 00:00:00Z'", None),
    ("local < timestamp '2013-07-01 00:01:00'", None),
    ("small > 90", True),
    ('"an odd name" = 3', None),
    ("name like 'n%' and id < 30", None),
    ("length(name) > 3", None),
]


@pytest.mark.parametrize(("condition", "is_pushed"), CONDITIONS)
def test_a_query_gives_what_it_gives_of_all_rows(t: drillcore.Table, condition: str, is_pushed: bool | None) -> None:
    dataset, whole = Watched(t), rows()
    for columns in ("id, name", "x", "count(*)", "*"):
        query = f"select {columns} from {{}} where {condition}"
        connection = duckdb.connect()
        connection.register("dataset", dataset)
        connection.register("whole", whole)
        found, expected = (connection.sql(query.format(name)).to_arrow_table() for name in ("dataset", "whole"))
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    if is_pushed is not None:
        assert all((where is not None) == is_pushed for _, where, _ in dataset.asked)


def test_only_the_columns_and_rows_that_a_query_needs_are_read(t: drillcore.Table) -> None:
    dataset = Watched(t)
    connection = duckdb.connect()
    connection.register("dataset", dataset)
    assert connection.execute("select sum(small) from dataset where id < 10").fetchone() == (45,)
    assert dataset.asked == [(["small", "id"], '"id" < 10', None)]
    assert dataset.read == 10
    assert connection.execute("select max(x) from dataset where name = 'n1'").fetchone() is not None
    assert dataset.asked[-1] == (["x", "name"], "\"name\" = 'n1'", None)


def test_a_limit_ends_the_reading(database: drillcore.Database) -> None:
    whole = pa.table({"id": range(400_000)})
    table = database.create_table("t", whole.schema, key="id")
    table.append(whole)
    dataset = Watched(table)
    assert dataset.head(5)["id"].to_pylist() == [0, 1, 2, 3, 4]
    assert dataset.read == 5
    connection = duckdb.connect()
    connection.register("dataset", dataset)
    assert len(connection.execute("select id from dataset limit 3").fetchall()) == 3
    assert dataset.read < 300_000


def test_a_dataset_is_of_one_moment_and_is_read_again(t: drillcore.Table) -> None:
    dataset = t.dataset()
    t.delete(between=(0, 2_899))
    for _ in range(2):
        assert dataset.to_table(columns=["id", "name"]) == rows().select(["id", "name"])
        assert dataset.count_rows(filter=pc.field("id") < 5) == 5
    assert t.dataset().count_rows() == 100
    assert dataset.head(3, columns=["id"], filter=pc.field("id") > 7)["id"].to_pylist() == [8, 9, 10]
    with pytest.raises(drillcore.InvalidArgumentError, match="list of names"):
        dataset.scanner(columns={"twice": pc.field("id") * 2})
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(dataset)


def test_pyarrow_writes_the_dataset_batch_by_batch(t: drillcore.Table, tmp_path: Path) -> None:
    dataset = t.dataset()
    for again in ("first", "second"):
        ds.write_dataset(dataset, tmp_path / again, format="parquet", partitioning=["day"], max_rows_per_group=1000)
        ids = ds.dataset(tmp_path / again, format="parquet").to_table(columns=["id"])["id"].to_pylist()
        assert sorted(ids) == list(range(N)), again
    ds.write_dataset(dataset.filter(pc.field("id") < 10), tmp_path / "some", format="parquet")
    some = ds.dataset(tmp_path / "some").to_table(columns=["id", "name"])
    assert some.sort_by("id") == rows().select(["id", "name"]).slice(0, 10)
    with pytest.raises(drillcore.UnsupportedError, match="to_batches"):
        dataset.sort_by("id")


def test_what_a_text_does_not_say_for_sure_is_not_handed_on() -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "x": pa.float64()})
    field = pc.field
    assert pushed_condition(field("name").isin(['a",\n  "b']), schema) is None
    assert pushed_condition(field("id").isin(list(range(100))), schema) is None
    assert pushed_condition(field("id") == pa.scalar(3, pa.int32()), schema) is None
    assert pushed_condition(field("id").cast(pa.int8()) == 3, schema) is None
    assert pushed_condition((field("x") > 1) & (field("other") > 2), schema) is None
    both = (field("id") >= 3) | field("name").is_null()
    assert pushed_condition(both, schema) == '("id" >= 3 or "name" is null)'


def test_what_pyarrow_would_do_by_itself_is_refused_with_what_to_do_instead(tmp_path: Any) -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id")
    t.append([{"id": n} for n in range(1_000)])
    data = t.dataset()
    for use in (
        lambda: data.sort_by("id"),
        lambda: data.join(data, "id"),
        lambda: data.replace_schema(data.schema).to_table(),
        lambda: ds.dataset([data]).to_table(),
        lambda: ds.UnionDataset(data.schema, [data]).to_table(),
        lambda: ds.Scanner.from_dataset(data).to_table(),
        lambda: list(data.get_fragments()),
    ):
        with pytest.raises(drillcore.UnsupportedError, match="to_table"):
            use()
    late = data.filter(ds.field("id") > 990)
    assert (late.count_rows(), late.filter(ds.field("id") < 995).to_table().num_rows) == (9, 4)
    assert data.take([3, 1]).to_pydict() == {"id": [3, 1]}
    other = drillcore.open(":memory:").create_table("t", {"id": "int64"}, key="id")
    assert (other.load(data).rows, other.load(late.scanner()).rows) == (1_000, 9)
