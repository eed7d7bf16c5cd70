"""The exceptions of Drillcore.

Every exception derives from :class:`Error` and, where a builtin exception has the same meaning, also from that
builtin. So both ``except drillcore.Error`` and ``except KeyError`` work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drillcore.dict_rows import FailedRow


class Error(Exception):
    """Base class of all exceptions that Drillcore raises.

    Attributes
    ----------
    rows_loaded
        In an error of ``load``: the number of rows stored before it, all in whole commits. Otherwise ``None``.
    failed_rows
        In an error of a writer: the rows added earlier that it could not store, as
        :class:`~drillcore.dict_rows.FailedRow`. Otherwise empty.
    """

    rows_loaded: int | None = None
    failed_rows: Sequence[FailedRow] = ()

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; a message is to be read.
        return str(self.args[0]) if self.args else ""


class NotFoundError(Error, KeyError):
    """A table, column, set or file of that name does not exist."""


class AlreadyExistsError(Error, ValueError):
    """A table, column or file of that name already exists."""


class InvalidArgumentError(Error, ValueError):
    """An argument has an invalid value; the message says which values are valid."""


class InvalidTypeError(Error, TypeError):
    """An argument has the wrong type."""


class TooFewRowsError(Error, ValueError):
    """A sample without replacement needs more rows than there are."""


class OutOfRangeError(Error, OverflowError):
    """An exact sum, or a result in SQL, does not fit its type."""


class OutOfMemoryError(Error, MemoryError):
    """The joins, sorts and aggregates of a query need more memory than their budget."""


class InternalError(Error, RuntimeError):
    """A bug in Drillcore or in a library that it uses. Please report it.

    Stored data is not damaged, and the database can still be used.
    """


class LoadError(Error, RuntimeError):
    """The stream given to ``load`` failed; ``__cause__`` is its exception."""


class ClosedError(Error, RuntimeError):
    """The database or the snapshot is closed."""


class StreamConsumedError(Error, RuntimeError):
    """The rows of a scan can be read once, and were already read."""


class UnsupportedError(Error, NotImplementedError):
    """The request is valid, but this version does not support it."""


class BehindError(Error, TimeoutError):
    """The writer did not reach the commit that a reader waited for. The call can be retried."""


class MomentGoneError(Error, LookupError):
    """No reader holds the moment any more, and the database has changed since. Take a new moment."""


class StorageError(Error, OSError):
    """Reading or writing files failed."""


class StorageFullError(StorageError):
    """The disk is full; nothing was changed. Free disk space and retry."""


class LockedError(StorageError):
    """Another process, or this one, has the database open for writing."""


class CorruptError(StorageError):
    """A file is damaged."""


class ReadOnlyError(StorageError):
    """The database was opened with ``read_only=True``, or a write failed earlier."""


class MissingPackageError(Error, ImportError):
    """The method needs a package that is not installed."""
