"""Drillcore: an embedded database for live data.

Many threads append rows. At any moment, without stopping them, you can read one row, a key range, a set, or a
uniform random sample of any of these, and estimates with error bars. Data goes in and comes out as Arrow.
The examples assume these two imports.

>>> import drillcore
>>> import pyarrow as pa
>>> db = drillcore.open(":memory:")
>>> t = db.create_table("t", {"id": "int64", "x": "float64"}, key="id")
>>> _ = t.append([{"id": i, "x": i / 2} for i in range(1000)])
>>> t.count(between=(10, 19))
10
>>> len(t.sample(5, seed=1))
5
"""

from drillcore._native import __version__
from drillcore.backup import BackupResult, restore
from drillcore.data import AppendResult, DeleteResult, Rejected, UpdateResult
from drillcore.database import Database
from drillcore.database_writer import DatabaseWriter
from drillcore.dict_rows import FailedRow
from drillcore.errors import (
    AlreadyExistsError,
    BehindError,
    ClosedError,
    CorruptError,
    Error,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    LoadError,
    LockedError,
    MissingPackageError,
    MomentGoneError,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    StreamConsumedError,
    TooFewRowsError,
    UnsupportedError,
)
from drillcore.estimate import Estimate
from drillcore.load import LoadResult
from drillcore.moment import Moment
from drillcore.opening import open
from drillcore.rows import Rows
from drillcore.snapshot import Snapshot, TableSnapshot
from drillcore.splits import Split
from drillcore.table import Table
from drillcore.table_writer import TableWriter
from drillcore.values import NULL
from drillcore.verifying import VerifyReport
from drillcore.writer import WriterResult

__all__ = [
    "NULL",
    "AlreadyExistsError",
    "AppendResult",
    "BackupResult",
    "BehindError",
    "ClosedError",
    "CorruptError",
    "Database",
    "DatabaseWriter",
    "DeleteResult",
    "Error",
    "Estimate",
    "FailedRow",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "LoadError",
    "LoadResult",
    "LockedError",
    "MissingPackageError",
    "Moment",
    "MomentGoneError",
    "NotFoundError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "ReadOnlyError",
    "Rejected",
    "Rows",
    "Snapshot",
    "Split",
    "StorageError",
    "StorageFullError",
    "StreamConsumedError",
    "Table",
    "TableSnapshot",
    "TableWriter",
    "TooFewRowsError",
    "UnsupportedError",
    "UpdateResult",
    "VerifyReport",
    "WriterResult",
    "__version__",
    "open",
    "restore",
]
