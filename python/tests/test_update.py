"""Updates of some columns of rows of upsert tables."""

import random
import threading
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import drillcore
from drillcore import InvalidArgumentError, InvalidTypeError, NotFoundError

SCHEMA = {"name": "string", "id": "int64", "prio": "int64", "note": "string"}


def tasks(path: Any = ":memory:", **options: Any) -> drillcore.Table:
    db = drillcore.open(path)
    return db.create_table("tasks", SCHEMA, key=["name", "id"], merge="upsert", set="note", **options)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_updated_table_answers_as_a_dict_of_dicts_does(tmp_path, seed: int) -> None:
    rng = random.Random(seed)
    table = tasks(tmp_path / "db")
    model: dict[tuple[str, int], dict[str, Any]] = {}
    for step in range(60):
        keys = [(rng.choice("ab"), rng.randrange(30)) for _ in range(rng.randrange(1, 20))]
        choice = rng.random()
        if choice < 0.3:
            rows = [{"name": name, "id": i, "prio": rng.randrange(9), "note": rng.choice("xyz")} for name, i in keys]
            table.append(rows)
            model.update({(row["name"], row["id"]): row for row in rows})
        elif choice < 0.6:
            rows = []
            for name, i in keys:
                changed = {"prio": rng.choice([None, 10 + rng.randrange(9)])} if rng.random() < 0.6 else {}
                changed |= {"note": rng.choice(["u", "v", None])} if rng.random() < 0.6 else {}
                rows.append({"name": name, "id": i, **changed})
            missing = rng.choice(["skip", "insert", "error"])
            lacking = {(row["name"], row["id"]) for row in rows} - model.keys()
            if missing == "error" and lacking:
                with pytest.raises(NotFoundError, match="nothing was changed"):
                    table.update(rows, missing=missing)
            else:
                done = table.update(rows, missing=missing)
                for row in rows:
                    key = (row["name"], row["id"])
                    if missing == "insert" or key in model:
                        model[key] = model.get(key, {"prio": None, "note": None}) | row
                assert done.rows == len(
                    {(row["name"], row["id"]) for row in rows} - (lacking if missing == "skip" else set())
                )
        elif choice < 0.75:
            hit = [key for key, row in model.items() if (row["prio"] or 0) > 10]
            assert table.update(set={"prio": 1, "note": "w"}, where="prio > 10").rows == len(hit)
            for key in hit:
                model[key] |= {"prio": 1, "note": "w"}
        elif choice < 0.85:
            hit = [key for key in set(keys) if key in model]
            assert table.update(set={"note": "k"}, keys=keys, missing="skip").rows == len(hit)
            for key in hit:
                model[key] |= {"note": "k"}
        else:
            table.delete(keys)
            for key in keys:
                model.pop(key, None)
        if step % 7 == 0:
            table._database.flush()
        rows = {(row["name"], row["id"]): row for row in table.scan().arrow().to_pylist()}
        assert rows == model
        assert sum(rows for _, rows in table.sets()) == len(model)


def test_two_updates_of_different_columns_of_one_row_both_stay() -> None:
    table = tasks()
    table.append([{"name": "a", "id": i, "prio": 0, "note": ""} for i in range(5)])

    def count(column: str, value: Any) -> None:
        for n in range(100):
            table.update([{"name": "a", "id": n % 5, column: value(n)}])

    threads = [
        threading.Thread(target=count, args=("prio", lambda n: n)),
        threading.Thread(target=count, args=("note", str)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [{"name": "a", "id": i, "prio": 95 + i, "note": str(95 + i)} for i in range(5)]
    assert table.scan().arrow().to_pylist() == expected


def test_arrow_rows_and_added_columns(tmp_path) -> None:
    table = tasks(tmp_path / "db")
    table.append([{"name": "a", "id": i, "prio": i, "note": "n"} for i in range(3)])
    table.add_column("seen", "int64")
    changes = pa.table({"id": [2, 0], "name": ["a", "a"], "seen": [5, 6]})
    assert table.update(changes).rows == 2
    assert table.scan(columns=["prio", "seen"]).arrow().to_pydict() == {"prio": [0, 1, 2], "seen": [6, None, 5]}


MISTAKES = {
    "nothing": (lambda t: t.update(), InvalidArgumentError, "rows with their keys"),
    "rows and a selection": (lambda t: t.update([{}], where="id = 1"), InvalidArgumentError, "rows with their keys"),
    "set without a selection": (lambda t: t.update(set={"prio": 1}), InvalidArgumentError, "either keys"),
    "a key column": (lambda t: t.update(set={"id": 1}, where="prio = 1"), InvalidArgumentError, "key column"),
    "a key column by keys": (lambda t: t.update(set={"id": 1}, keys=[("a", 1)]), InvalidArgumentError, "key column"),
    "an unknown column": (lambda t: t.update(set={"pri": 1}, where="id = 1"), NotFoundError, 'did you mean "prio"'),
    "an unknown column of a row": (
        lambda t: t.update([{"name": "a", "id": 1, "pri": 1}]),
        NotFoundError,
        "did you mean",
    ),
    "a row without its key": (lambda t: t.update([{"name": "a", "prio": 1}]), InvalidArgumentError, 'key column "id"'),
    "Arrow rows without their key": (
        lambda t: t.update(pa.table({"id": [1], "prio": [2]})),
        InvalidArgumentError,
        'lacks key column "name"; add it, so that the update finds its rows',
    ),
    "a stream of Arrow rows without their key": (
        lambda t: t.update(pl.DataFrame({"prio": [2]})),
        InvalidArgumentError,
        'lacks key columns "name", "id"; add them',
    ),
    "Arrow rows with a misspelled key": (
        lambda t: t.update(pa.table({"nme": ["a"], "id": [1]})),
        NotFoundError,
        'did you mean "name"',
    ),
    "a value that does not fit": (
        lambda t: t.update([{"name": "a", "id": 1, "prio": "x"}]),
        (InvalidArgumentError, InvalidTypeError),
        "prio",
    ),
    "no row": (lambda t: t.update([{"name": "b", "id": 7, "prio": 1}]), NotFoundError, r"\(b, 7\)"),
    "an unknown way": (lambda t: t.update([], missing="no"), InvalidArgumentError, "'error', 'skip'"),
    "an empty set": (lambda t: t.update(set={}, where="id = 1"), InvalidArgumentError, "no column"),
    "no dict": (lambda t: t.update(set=["prio"], where="id = 1"), InvalidTypeError, "dict"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_changes_nothing_and_says_what_to_do(name: str) -> None:
    call, error, message = MISTAKES[name]
    table = tasks()
    table.append([{"name": "a", "id": 1, "prio": 5, "note": "n"}])
    lsn = table._database.snapshot().lsn
    with pytest.raises(error, match=message):
        call(table)
    assert table._database.snapshot().lsn == lsn


def test_only_upsert_tables_are_updated() -> None:
    db = drillcore.open(":memory:")
    kept = db.create_table("kept", {"id": "int64", "x": "int64"}, key="id")
    rollup = {"metrics": {"n": "count"}}
    folded = db.create_table("folded", {"id": "int64", "x": "int64"}, key="id", merge="rollup", rollup=rollup)
    for table, message in [(kept, "is an append table"), (folded, "is a rollup table")]:
        with pytest.raises(InvalidArgumentError, match=message):
            table.update([{"id": 1, "x": 2}])


def test_a_row_that_is_inserted_needs_its_weight() -> None:
    schema = {"id": "int64", "city": "string", "w": "int64"}
    t = drillcore.open(":memory:").create_table("t", schema, key="id", merge="upsert", weights="w")
    t.append([{"id": 1, "city": "a", "w": 2}])
    with pytest.raises(InvalidArgumentError, match='lacks column "w"'):
        t.update([{"id": 2, "city": "b"}], missing="insert")
    t.update([{"id": 1, "city": "b"}, {"id": 2, "w": 5}], missing="insert")
    assert t.scan().arrow().to_pylist() == [{"id": 1, "city": "b", "w": 2}, {"id": 2, "city": None, "w": 5}]
