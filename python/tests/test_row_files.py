"""Rows go to files whole or not at all, and come back as they were."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import drillcore
from drillcore.rows import Rows

Write = Callable[..., int]


def writes(rows: drillcore.Rows) -> dict[str, Write]:
    return {"parquet": rows.to_parquet, "csv": rows.to_csv, "arrow": rows.to_ipc}


FORMATS = ["parquet", "csv", "arrow"]
PLAIN = ["ts", "flight", "carrier", "delay", "late"]
"""The columns of events that CSV has a form for."""


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_parquet_gives_back_every_type(events: drillcore.Table, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    assert events.scan().to_parquet(path) == 1000
    assert pq.read_table(path).equals(events.scan().arrow())
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(1).statistics
    assert (statistics.min, statistics.max) == (0, 999)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    assert names(tmp_path).count("events.parquet") == 1 and not [n for n in names(tmp_path) if n.endswith(".part")]


def test_parquet_gives_back_types_that_only_queries_have(tmp_path: Path) -> None:
    moments = [0, None, 86_400]
    columns = {
        "f16": pa.array([1.5, None, -2.0], pa.float16()),
        "u64": pa.array([0, None, 2**64 - 1], pa.uint64()),
        "money": pa.array([Decimal("1.10"), None, Decimal("-2.20")], pa.decimal128(10, 2)),
        "zoned": pa.array(moments, pa.timestamp("us", "America/New_York")),
        "fine": pa.array(moments, pa.time64("ns")),
        "lasts": pa.array(moments, pa.duration("s")),
        "code": pa.array(["a", None, "a"]).dictionary_encode(),
        "view": pa.array(["a", None, ""], pa.string_view()),
        "bytes": pa.array([b"a", None, b""], pa.large_binary()),
        "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "pair": pa.array([{"low": 1.5, "of": ["x"]}, None, {"low": None, "of": None}]),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "of_none": pa.nulls(3),
    }
    fields = [pa.field(name, values.type, metadata={"unit": name}) for name, values in columns.items()]
    held = pa.record_batch(list(columns.values()), schema=pa.schema(fields, metadata={"made": "here"}))
    path = tmp_path / "out"
    for compression in ("zstd", "snappy", "gzip", "lz4", "brotli", "none", None):
        assert Rows(held).to_parquet(path, compression=compression, overwrite=True) == 3
        read = pq.read_table(path)
        assert read.equals(pa.Table.from_batches([held])), compression
        assert read.schema.metadata == {b"made": b"here"}
        assert read.schema.field("map").metadata == {b"unit": b"map"}
        found = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
        assert found == {"none": "UNCOMPRESSED", None: "UNCOMPRESSED"}.get(compression, str(compression).upper())


@pytest.mark.parametrize(
    ("kind", "becomes"),
    [
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.time32("s"), pa.time32("ms")),
        (pa.date64(), pa.date32()),
        (pa.list_(pa.timestamp("s")), pa.list_(pa.timestamp("ms"))),
        (pa.struct([("at", pa.timestamp("s"))]), pa.struct([("at", pa.timestamp("ms"))])),
    ],
)
def test_times_that_parquet_has_no_type_for_keep_their_values(
    tmp_path: Path, kind: pa.DataType, becomes: pa.DataType
) -> None:
    def cells(kind: pa.DataType) -> pa.Array:
        day = 86_400_000 if pa.types.is_date64(kind) else 86_399
        values = [[day], [None]] if pa.types.is_list(kind) else [day, None]
        return pa.array([{"at": day}, None] if pa.types.is_struct(kind) else values, kind)

    held = pa.record_batch([cells(kind)], names=["c"])
    assert Rows(held).to_parquet(tmp_path / "out") == 2
    read = pq.read_table(tmp_path / "out")["c"]
    assert (read.type, read.to_pylist()) == (becomes, held["c"].to_pylist())


def test_columns_without_a_form_in_parquet_are_refused_by_name(tmp_path: Path) -> None:
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    too_far = pa.array([2**62], pa.timestamp("s"))
    for held, message in (
        (union, "column .c. has no form there .a union.; leave it out"),
        (pa.array([{}], pa.struct([])), "column .c. has no form there .*empty struct"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "cannot be written as Parquet"),
        (too_far, "cannot be written as Parquet"),
    ):
        with pytest.raises(drillcore.InvalidArgumentError, match=message):
            Rows(pa.record_batch([held], names=["c"])).to_parquet(tmp_path / "out")
    assert names(tmp_path) == []


@pytest.mark.parametrize("format", FORMATS)
def test_progress_is_called_with_the_rows_so_far(database: drillcore.Database, tmp_path: Path, format: str) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")
    t.append(pa.table({"id": range(50_000)}))
    seen: list[int] = []
    assert writes(t.scan())[format](tmp_path / "out", progress=seen.append) == 50_000
    assert len(seen) > 1 and seen == sorted(set(seen)) and seen[-1] == 50_000
    rows = t.scan()
    with pytest.raises(drillcore.InvalidTypeError, match="progress: expected True, False or a function"):
        writes(rows)[format](tmp_path / "other", progress=1)

    def stop(rows: int) -> None:
        raise KeyError(rows)

    with pytest.raises(KeyError):
        writes(t.scan())[format](tmp_path / "other", progress=stop)
    assert "other" not in names(tmp_path)
    assert writes(rows)[format](tmp_path / "other", progress=None) == 50_000


def test_ipc_gives_back_every_type(events: drillcore.Table, tmp_path: Path) -> None:
    path = tmp_path / "events.arrow"
    for compression in (None, "zstd", "lz4"):
        assert events.scan().to_ipc(path, compression=compression, overwrite=True) == 1000
        with pa.memory_map(str(path)) as file:
            assert pa.ipc.open_file(file).read_all().equals(events.scan().arrow())


def test_csv_tells_null_from_the_empty_string_and_keeps_moments(database: drillcore.Database, tmp_path: Path) -> None:
    schema = {"id": "int64", "s": "string", "at": "timestamp[us, America/New_York]", "x": "float64"}
    t = database.create_table("t", schema, key="id")
    rows = [
        {"id": 1, "s": "", "at": "2013-07-01T09:00:00-04:00", "x": 0.1},
        {"id": 2, "s": None, "at": None, "x": None},
        {"id": 3, "s": 'a "b", c\nd', "at": None, "x": 1e300},
    ]
    t.append(rows)
    path = tmp_path / "t.csv"
    assert t.scan().to_csv(path) == 3
    read = pacsv.read_csv(
        path,
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    assert read["s"].to_pylist() == ["", None, 'a "b", c\nd']
    assert read["x"].to_pylist() == [0.1, None, 1e300]
    assert "2013-07-01 09:00:00.000000-0400" in path.read_text()
    # As a query reads it.
    found = database.sql("select id, at, x from read_csv(?)", [str(path)]).arrow()
    assert found["at"].to_pylist() == t.scan().arrow()["at"].to_pylist()
    assert t.scan(columns=["id", "x"]).to_csv(path, header=False, delimiter=";", overwrite=True) == 3
    assert path.read_text().splitlines()[0] == "1;0.1"


@pytest.mark.parametrize(("name", "packing"), [("t.csv.gz", "gzip"), ("t.csv.zst", "zstd")])
def test_csv_is_compressed_as_its_name_says(
    events: drillcore.Table, database: drillcore.Database, tmp_path: Path, name: str, packing: str
) -> None:
    rows = events.scan(columns=PLAIN)
    assert rows.to_csv(tmp_path / "t.csv") == 1000
    assert events.scan(columns=PLAIN).to_csv(tmp_path / name) == 1000
    with pa.CompressedInputStream(tmp_path / name, packing) as unpacked:
        assert unpacked.read() == (tmp_path / "t.csv").read_bytes()
    found = database.sql("select count(*) as n from read_csv(?)", [str(tmp_path / name)]).arrow()
    assert found["n"].to_pylist() == [1000]
    # A failure leaves nothing behind, as without compression.
    with pytest.raises(drillcore.AlreadyExistsError):
        events.scan(columns=PLAIN).to_csv(tmp_path / name)
    assert [found for found in names(tmp_path) if "csv" in found] == ["t.csv", name]


@pytest.mark.parametrize("format", FORMATS)
def test_samples_queries_and_no_rows_can_be_written(events: drillcore.Table, tmp_path: Path, format: str) -> None:
    sample = events.sample(20, seed=1, columns=PLAIN)
    assert writes(sample)[format](tmp_path / "sample") == 20
    assert writes(sample)[format](tmp_path / "again") == 20
    assert (tmp_path / "sample").read_bytes() == (tmp_path / "again").read_bytes()
    none = events.scan(where="delay < -1", columns=PLAIN)
    assert writes(none)[format](tmp_path / "none") == 0
    assert (tmp_path / "none").stat().st_size > 0


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_exists_is_kept_unless_it_is_to_be_replaced(
    events: drillcore.Table, tmp_path: Path, format: str
) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    rows = events.scan(columns=PLAIN)
    with pytest.raises(drillcore.AlreadyExistsError, match="overwrite=True"):
        writes(rows)[format](path)
    assert path.read_text() == "mine"
    # Nothing was read of the rows.
    assert writes(rows)[format](path, overwrite=True) == 1000
    assert path.stat().st_size > 1000
    with pytest.raises(drillcore.StreamConsumedError):
        writes(rows)[format](path, overwrite=True)


def test_a_file_has_the_permissions_of_new_files_and_links_stay_links(events: drillcore.Table, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        events.scan().to_ipc(tmp_path / "real")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert events.scan(limit=5).to_ipc(tmp_path / "link", overwrite=True) == 5
    assert (tmp_path / "link").is_symlink()
    with pa.memory_map(str(tmp_path / "real")) as file:
        assert pa.ipc.open_file(file).read_all().num_rows == 5


@pytest.mark.parametrize("format", FORMATS)
def test_rows_that_fail_leave_what_was_there(database: drillcore.Database, tmp_path: Path, format: str) -> None:
    t = database.create_table("t", {"id": "int64"}, key="id")
    t.append(pa.table({"id": range(100_000)}))
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "file"
    for overwrite in (False, True):
        failing = database.sql("select 1 / (99999 - id) as x from t order by id")
        with pytest.raises(drillcore.InvalidArgumentError, match="division by zero"):
            writes(failing)[format](path, overwrite=overwrite)
        assert names(path.parent) == (["file"] if overwrite else [])
        path.write_text("mine")
    assert path.read_text() == "mine"


INTERRUPTED = """
import os, signal, sys, threading, time
import pyarrow as pa
import drillcore
db = drillcore.open(":memory:")
t = db.create_table("t", {"id": "int64", "s": "string"}, key="id")
t.append(pa.table({"id": range(300_000), "s": [str(i) * 5 for i in range(300_000)]}))
rows = db.sql("select a.id, a.s, b.s as t from t a join t b on a.id % 1000 = b.id % 1000")
folder = os.path.dirname(sys.argv[2])

def interrupt_while_it_writes():
    while not os.listdir(folder):
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt_while_it_writes, daemon=True).start()
try:
    getattr(rows, sys.argv[1])(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", os.listdir(folder))
"""


@pytest.mark.parametrize("call", ["to_parquet", "to_csv", "to_ipc"])
def test_an_interrupt_leaves_no_file(tmp_path: Path, call: str) -> None:
    program = [sys.executable, "-c", INTERRUPTED, call, str(tmp_path / "out")]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "interrupted []\n", ended.stderr


def test_a_full_disk_is_a_typed_error_and_leaves_no_file(tmp_path: Path) -> None:
    program = """
    import os, resource, signal, sys
    import pyarrow as pa
    import drillcore
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64"}, key="id")
    # Nothing packs these.
    t.append(pa.table({"id": [i * 0x9E3779B97F4A7C15 % 2**63 for i in range(1_000_000)]}))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    for call in ("to_parquet", "to_csv", "to_ipc"):
        try:
            getattr(t.scan(), call)(sys.argv[1] + "/out")
        except drillcore.StorageError as error:
            print("out" in str(error), os.listdir(sys.argv[1]))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert ended.stdout == "True []\n" * 3, ended.stderr


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    with drillcore.open(":memory:") as db:
        db.create_table("t", {"id": "int64"}, key="id").append(pa.table({"id": range(3000)}))
        rows = db.sql("select a.id, b.id as other, a.id * 1.5 as x from t a cross join t b where b.id < 1500")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert rows.to_parquet(tmp_path / "out.parquet") == 4_500_000
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # All rows take 108 MB.
    assert grown_kb < 80_000
    groups = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert groups.num_row_groups < 50


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        (None, TypeError, "expected the name of a file"),
        (7, TypeError, "expected the name of a file"),
        ("", ValueError, "expected the name of a file"),
        ("a\0b", ValueError, "expected the name of a file"),
        (".", ValueError, "is a directory"),
        ("missing/out", drillcore.StorageError, "No such file or directory"),
        ("/dev/null", ValueError, "not a regular file"),
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_path_that_cannot_be_written_is_refused(
    events: drillcore.Table, tmp_path: Path, monkeypatch: Any, format: str, path: Any, kind: type, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = events.scan(columns=PLAIN)
    with pytest.raises(kind, match=message) as caught:
        writes(rows)[format](path, overwrite=True)
    assert isinstance(caught.value, drillcore.Error)


def test_what_a_format_has_no_form_for_is_refused(events: drillcore.Table, tmp_path: Path) -> None:
    for column, kind in (("tags", "list"), ("ticket", "binary")):
        with pytest.raises(drillcore.InvalidArgumentError, match=f'column "{column}" .{kind}.*leave it out'):
            events.scan().to_csv(tmp_path / "out") if column == "tags" else events.scan(columns=["ticket"]).to_csv(
                tmp_path / "out"
            )
    for call in (events.scan().to_parquet, events.scan().to_ipc):
        with pytest.raises(drillcore.InvalidArgumentError, match="compression: expected one of 'zstd'"):
            call(tmp_path / "out", compression="zip")
    with pytest.raises(drillcore.InvalidArgumentError, match="delimiter"):
        events.scan().to_csv(tmp_path / "out", delimiter='"')
    assert "out" not in names(tmp_path)


def test_rows_that_were_looked_at_are_written_whole(events: drillcore.Table, tmp_path: Path) -> None:
    rows = events.scan()
    assert "first 10 rows" in repr(rows)
    assert rows.to_parquet(tmp_path / "out") == 1000
    assert pq.read_table(tmp_path / "out").equals(events.scan().arrow())


def test_times_that_an_offset_in_minutes_would_shift_are_refused_by_csv(tmp_path: Path) -> None:
    monrovia = pa.timestamp("s", "Africa/Monrovia")
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "at": monrovia}, key="id")
    # Until 7 January 1972 clocks there were 44 minutes and 30 seconds behind UTC.
    t.append(pa.table({"id": [1, 2, 3], "at": pa.array([100_000_000, 13_046_400, None], monrovia)}))
    with pytest.raises(drillcore.InvalidArgumentError, match=r'"at".*off from UTC by seconds.*to_parquet'):
        t.scan().to_csv(tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []
    assert t.scan(between=(1, 1)).to_csv(tmp_path / "a.csv") == 1
