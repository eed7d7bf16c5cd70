"""A panic inside the engine or a library is an exception of ours, and the table can be used afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import drillcore
from drillcore import Database, Table

# Truncating the least timestamp to its day overflows inside the function, at each face.
PANICS = "date_trunc('day', ts) is not null"

CALLS: dict[str, Callable[[Database, Table], Any]] = {
    "count": lambda db, t: t.count(where=PANICS),
    "scan": lambda db, t: t.scan(where=PANICS).arrow(),
    "scan by batches": lambda db, t: list(t.scan(where=PANICS).batches()),
    "scan as a C stream": lambda db, t: pa.table(t.scan(where=PANICS)),
    "sample": lambda db, t: t.sample(3, where=PANICS),
    "estimate": lambda db, t: t.estimate("count(*)", n=3, where=PANICS),
    "sql": lambda db, t: db.sql(f"select * from t where {PANICS}").arrow(),
    "sql of an expression": lambda db, t: db.sql("select date_trunc('day', ts) from t").arrow(),
    "sql as a C stream": lambda db, t: pa.table(db.sql("select date_trunc('day', ts) from t")),
    "a constant": lambda db, t: db.sql("select array_position([1], 1, -9223372036854775808)").arrow(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_panic_is_an_internal_error_and_the_table_stays_usable(database: Database, name: str) -> None:
    table = database.create_table("t", {"id": "int64", "ts": "timestamp[ns]"}, key="id")
    least = pa.array([-(2**63), 0, 1], pa.timestamp("ns"))
    table.append(pa.table({"id": [0, 1, 2], "ts": least}))
    # pyarrow reads a C stream itself, and knows errors only as texts.
    expected = pa.ArrowInvalid if "C stream" in name else drillcore.InternalError
    with pytest.raises(expected, match=r"internal error: attempt to .* with overflow") as raised:
        CALLS[name](database, table)
    assert isinstance(raised.value, Exception)
    assert not isinstance(raised.value, drillcore.CorruptError)
    assert table.count() == 3
    table.append(pa.table({"id": [3], "ts": least[:1]}))
    assert database.sql("select count(*) as n from t").arrow()["n"].to_pylist() == [4]
