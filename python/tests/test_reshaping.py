"""Renamed, dropped and widened columns, renamed and copied tables: in Python, SQL and the shell."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import drillcore

SCHEMA = {"id": "int64", "a": "int16", "place": "string", "w": "float32", "f": "float64"}


def test_a_table_is_shown_as_it_is_now(database: drillcore.Database) -> None:
    t = database.create_table("t", {"id": "int64", "x": "int8"}, key="id")
    again = database.table("t")
    database.rename_table("t", "u")
    t.rename_column("x", "y")
    t.widen("y", "int16")
    for handle in (t, again):
        assert repr(handle) == "<Table 'u': key=['id']; id: int64, y: int16>"
        assert "Table &#x27;u&#x27;" in handle._repr_html_() and "int16" in handle._repr_html_()
    database.drop_table("u")
    for handle in (t, again):
        assert repr(handle).endswith(", dropped>") and "id" not in repr(handle)
    other = database.create_table("u", {"k": "int64"}, key="k")
    assert repr(t).endswith(", dropped>") and repr(other) == "<Table 'u': key=['k']; k: int64>"
    database.close()
    assert repr(other).startswith("<Table 'u'")
    assert "Table" in other._repr_html_()


def filled(db: drillcore.Database, merge: str = "append", rows: int = 5000) -> drillcore.Table:
    t = db.create_table("t", SCHEMA, key="id", merge=merge, set="place", weights="w")
    t.append([{"id": i, "a": i % 300, "place": "xyz"[i % 3], "w": i % 7, "f": i / 2} for i in range(rows)])
    return t


@pytest.mark.parametrize("merge", ["append", "upsert"])
@pytest.mark.parametrize("flushed", [False, True])
def test_sql_conditions_updates_and_estimates_follow_the_columns(tmp_path: Path, merge: str, flushed: bool) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = filled(db, merge)
        if flushed:
            db.flush()
        before = db.snapshot("before").table("t")
        t.rename_column("place", "city")
        t.rename_column("id", "key")
        t.rename_column("w", "weight")
        t.widen("a", "int32")
        t.widen("weight", "float64")
        t.drop_column("f")
        t.add_column("f", "string")
        assert t.schema.names == ["key", "a", "city", "weight", "f"]
        assert (t.key, t.weights) == (["key"], ["weight"])
        t.append([{"key": 5000, "a": 100_000, "city": "x", "weight": 0.1, "f": "new"}])
        for _ in range(2):
            query = "select sum(a) as a, count(f) as f, count(*) filter (where city = 'x') as x from t"
            expected = [{"a": sum(i % 300 for i in range(5000)) + 100_000, "f": 1, "x": 1668}]
            assert db.sql(query).arrow().to_pylist() == expected
            # Zones of segments from before are of the narrow type.
            for condition, rows in (("a > 32767", 1), ("a = 299", 16), ("a < 0", 0), ("a between 5 and 6", 34)):
                assert t.count(where=condition) == rows
                assert db.sql(f"select count(*) as n from t where {condition}").arrow().to_pylist() == [{"n": rows}]
            assert t.count(set="x") == 1668
            assert t.get(3) == {"key": 3, "a": 3, "city": "x", "weight": 3.0, "f": None}
            assert len(t.sample(50, weight="weight", seed=1)) == 50
            assert t.estimate("avg(a)", n=200, seed=1).sampled == 200
            db.compact()
        if merge == "upsert":
            assert t.update([{"key": 3, "a": 70_000}]).rows == 1
            assert t.update(set={"f": "late"}, where="a > 60000").rows == 2
            assert t.get(3)["f"] == "late"
        assert t.delete(where="a > 60000").rows == (2 if merge == "upsert" else 1)
        assert before.schema.names == list(SCHEMA)
        assert before.get(9) == {"id": 9, "a": 9, "place": "x", "w": 2.0, "f": 4.5}
    with drillcore.open(tmp_path / "db") as db:
        t = db.table("t")
        assert len(t) == (4999 if merge == "upsert" else 5000)
        assert db.snapshot("before").table("t").scan(columns=["f"]).arrow()["f"][9].as_py() == 4.5
        db.verify()


def test_producers_with_the_old_name_are_refused_and_handles_follow(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db, drillcore.open(tmp_path / "db", read_only=True) as reader:
        t = filled(db, rows=10)
        other = db.table("t")
        t.rename_column("a", "b")
        with pytest.raises(drillcore.NotFoundError, match='"a"'):
            other.append([{"id": 1, "a": 1, "w": 1}])
        other.append([{"id": 1, "b": 1, "w": 1}])
        t.rename_column("b", "c")
        db.rename_table("t", "u")
        assert (t.name, other.name, db.tables()) == ("u", "u", ["u"])
        other.append([{"id": 3, "c": 3, "w": 1}])
        with pytest.raises(drillcore.NotFoundError):
            db.append({"t": [{"id": 1, "c": 1, "w": 1}]})
        with pytest.raises(drillcore.NotFoundError):
            db.sql("select * from t")
        copy = db.copy_table("u", "v")
        assert len(copy) == len(t) == len(db.table("v"))
        copy.truncate()
        assert len(t) > 0
        reader.refresh()
        assert reader.tables() == ["u", "v"]
        assert reader.table("u").schema.names == ["id", "c", "place", "w", "f"]
        calls = (
            lambda: reader.rename_table("u", "x"),
            lambda: reader.copy_table("u", "x"),
            lambda: reader.table("u").rename_column("c", "x"),
            lambda: reader.table("u").drop_column("c"),
            lambda: reader.table("u").widen("c", "int64"),
        )
        for call in calls:
            with pytest.raises(drillcore.ReadOnlyError):
                call()


def test_a_writer_loses_only_rows_that_have_values_for_columns_that_are_gone(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = db.create_table("t", {"id": "int64", "a": "int16", "b": "int16"}, key="id")
        with t.writer(rows=1_000, seconds=60, on_error="skip") as writer:
            writer.add({"id": 1, "a": 1, "b": 1})
            writer.flush()
            t.drop_column("b")
            writer.add({"id": 2, "a": 2})
            writer.add({"id": 3, "a": 3, "b": 3})
            writer.add({"id": 4, "a": 4})
            writer.flush()
            t.rename_column("a", "c")
            writer.add({"id": 5, "a": 5})
            writer.add({"id": 6, "c": 6})
        result = writer.close()
        assert [row.row["id"] for row in result.failed] == [3, 5]
        assert all("unknown column" in row.reason for row in result.failed)
        rows = t.scan().arrow().to_pylist()
        assert rows == [{"id": 1, "c": 1}, {"id": 2, "c": 2}, {"id": 4, "c": 4}, {"id": 6, "c": 6}]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = filled(db, rows=10)
        for column in ("id", "place", "w"):
            with pytest.raises(drillcore.InvalidArgumentError, match=column):
                t.drop_column(column)
        for column, kind in (("id", "int64"), ("place", "binary"), ("f", "float32"), ("a", "float64"), ("a", "int8")):
            with pytest.raises(drillcore.InvalidArgumentError):
                t.widen(column, kind)
        with pytest.raises(drillcore.AlreadyExistsError):
            t.rename_column("a", "f")
        with pytest.raises(drillcore.NotFoundError, match="none"):
            t.drop_column("none")
        with pytest.raises(drillcore.InvalidTypeError):
            t.rename_column("a", 3)  # type: ignore[arg-type]
        with pytest.raises(drillcore.AlreadyExistsError):
            db.copy_table("t", "t")
        assert t.schema.names == list(SCHEMA)


def test_snapshots_in_threads_see_one_shape_each(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        t = filled(db)
        ends = threading.Event()
        failures: list[BaseException] = []

        def read() -> None:
            try:
                while not ends.is_set():
                    with db.snapshot() as snapshot:
                        table = snapshot.table("t")
                        names = table.schema.names
                        assert table.scan(limit=20).arrow().column_names == names
                        assert snapshot.sql("select * from t limit 3").arrow().column_names == names
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for round in range(15):
            t.add_column("extra", "int8")
            t.widen("extra", "int64")
            t.rename_column("extra", f"extra {round}")
            t.drop_column(f"extra {round}")
        ends.set()
        for thread in threads:
            thread.join()
        assert not failures


def test_the_command_changes_tables(tmp_path: Path) -> None:
    with drillcore.open(tmp_path / "db") as db:
        filled(db, rows=10)

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "drillcore", arguments[0], str(tmp_path / "db"), *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        return done.returncode, (done.stdout + done.stderr).strip()

    assert run("rename-column", "t", "a", "b") == (0, "a of t renamed to b")
    assert run("widen", "t", "b", "int64") == (0, "b of t is wider now")
    assert run("drop-column", "t", "f") == (0, "f dropped from t")
    assert run("copy-table", "t", "copy") == (0, "t copied to copy: 10 rows")
    assert run("rename-table", "t", "u") == (0, "t renamed to u")
    assert run("get", "copy", "3", "--output", "jsonl") == (0, '{"id":3,"b":3,"place":"x","w":3.0}')
    for arguments in (("drop-column", "u", "id"), ("widen", "u", "b", "int8"), ("rename-table", "u", "copy")):
        code, said = run(*arguments)
        assert code == 2 and said.startswith("drillcore: "), said


CHILD = """
import sys
import drillcore

db = drillcore.open(sys.argv[1])
t = db.create_table("t", {"id": "int64", "x": "int16"}, key="id", exist_ok=True) if not db.tables() else db.table("t")
first = len(t)
for number in range(first, first + 100_000):
    names = [name for name in t.schema.names if name != "id"]
    t.append([{"id": number, **{name: number % 30_000 for name in names}}])
    print(number, flush=True)
    if number % 7 == 0 and len(names) < 4:
        t.add_column(f"c{number}", "int16")
    if number % 11 == 0 and len(names) > 1:
        t.drop_column(names[number % len(names)])
    if number % 13 == 0:
        t.rename_column(names[0], f"n{number}") if names[0] in t.schema.names else None
    if number % 17 == 0 and t.schema.names[-1] != "id" and t.schema.types[-1] == "int16":
        t.widen(t.schema.names[-1], "int64")
    if number % 97 == 0:
        db.compact() if number % 2 else db.flush()
"""


def test_a_killed_process_leaves_every_row_and_column_that_was_acknowledged(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "db", -1
    for round in range(5):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(60 + 41 * round):
            acknowledged = int(child.stdout.readline())
        child.kill()
        rest, _ = child.communicate()
        acknowledged = max([acknowledged, *(int(line) for line in rest.splitlines()[:-1] if line)])
        with drillcore.open(path) as db:
            db.verify()
            rows = db.table("t").scan().arrow().to_pylist()
            assert [row["id"] for row in rows] == list(range(len(rows)))
            assert len(rows) > acknowledged
            for row in rows:
                assert all(value in (None, row["id"] % 30_000) for name, value in row.items() if name != "id")


def test_metrics_of_a_rollup_table_are_dropped_and_what_they_are_made_of_is_widened(
    database: drillcore.Database,
) -> None:
    rollup = {
        "dimensions": ["city"],
        "metrics": {"n": "count", "late": "sum(delay)", "mean": "avg(delay)", "far": "max(miles)"},
    }
    schema = {"city": "string", "delay": "int8", "miles": "float32"}
    t = database.create_table("t", schema, key="city", merge="rollup", rollup=rollup)
    t.append([{"city": "A", "delay": 100, "miles": 1.5}])
    database.flush()
    with pytest.raises(drillcore.InvalidArgumentError, match="1000 is out of range"):
        t.append([{"city": "A", "delay": 1000, "miles": 2.5}])
    t.widen("delay", "int32")
    t.drop_column("far")
    t.append([{"city": "A", "delay": 1000}])
    assert t.get("A") == {"city": "A", "n": 2, "late": 1100, "mean": 550.0}
    database.compact()
    assert t.get("A") == {"city": "A", "n": 2, "late": 1100, "mean": 550.0}
    database.verify()
    for call, message in (
        (lambda: t.drop_column("city"), "'city'|\"city\" is a dimension"),
        (lambda: t.widen("city", "binary"), "is a dimension, and keys hold it in its type"),
        (lambda: t.widen("late", "int64"), 'the widest that metrics have; the column of the events is "delay"'),
        (lambda: t.drop_column("delay"), "only its events do"),
    ):
        with pytest.raises(drillcore.InvalidArgumentError, match=message):
            call()
