"""The exceptions of Drillcore.

Every one derives from :class:`Error` and, where a builtin exception says the same thing, from that builtin
too, so both ``except drillcore.Error`` and ``except KeyError`` work. The native layer raises these classes.
"""

from __future__ import annotations


class Error(Exception):
    """Base of everything Drillcore raises, except ``KeyboardInterrupt``.

    Attributes
    ----------
    rows_loaded
        Raised by ``load``: how many rows had been stored by then, all in whole commits. Otherwise ``None``.
    """

    rows_loaded: int | None = None

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; a message is to be read.
        return str(self.args[0]) if self.args else ""


class NotFoundError(Error, KeyError):
    """A table, column or set of that name does not exist."""


class AlreadyExistsError(Error, ValueError):
    """A table or column of that name exists."""


class InvalidArgumentError(Error, ValueError):
    """A value that the call cannot take; the message says what it can."""


class InvalidTypeError(Error, TypeError):
    """A value of a type that the call cannot take."""


class TooFewRowsError(Error, ValueError):
    """Fewer rows exist than a sample without replacement was asked for."""


class OutOfRangeError(Error, OverflowError):
    """An exact sum, or what SQL computes, does not fit its type."""


class OutOfMemoryError(Error, MemoryError):
    """A query's joins, sorts and aggregates would hold more than their budget."""


class InternalError(Error, RuntimeError):
    """A bug in Drillcore or in a library that it uses; please report it.

    Nothing stored is damaged, and the database can be used as before.
    """


class LoadError(Error, RuntimeError):
    """The stream given to ``load`` failed; its own exception is the cause."""


class ClosedError(Error, RuntimeError):
    """The database or the snapshot was closed."""


class StreamConsumedError(Error, RuntimeError):
    """The rows of a scan stream once, and were already taken."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not something this version does."""


class BehindError(Error, TimeoutError):
    """The writer has not come as far as a reader waited for; it may be retried."""


class StorageError(Error, OSError):
    """Reading or writing files failed."""


class StorageFullError(StorageError):
    """The disk has too little room; nothing was changed. Free some and try again."""


class LockedError(StorageError):
    """Another process has the database open for writing."""


class CorruptError(StorageError):
    """A file does not hold what was written to it."""


class ReadOnlyError(StorageError):
    """The database was opened with ``read_only=True``, or stopped taking writes after a failed one."""


class MissingPackageError(Error, ImportError):
    """A package that only some methods need is not installed."""
