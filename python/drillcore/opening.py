"""Opening a database."""

from __future__ import annotations

import os

from drillcore import _native
from drillcore.arguments.directory import directory_or_memory
from drillcore.arguments.figures import check_optional_count, check_threads
from drillcore.arguments.names import shown
from drillcore.database import Database
from drillcore.errors import InvalidArgumentError
from drillcore.moment import Moment, check_at

_DURABILITIES = ("none", "os", "fsync")


def open(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    at: Moment | tuple[int, int] | str | None = None,
    durability: str = "os",
    memory_bytes: int | None = None,
    cache_bytes: int | None = None,
    threads: int | None = None,
    direct_io: bool = False,
    io_uring: bool = True,
) -> Database:
    """Open the database in a directory; create it if it does not exist.

    Only one opening can write at a time; any number can read. A new directory is accessible to its owner only. In an
    existing directory, the files are accessible to those who can access the directory. A reader needs write permission
    on the directory, because it creates a small file there (a lease) that names the version it reads.

    Parameters
    ----------
    path
        A directory, or ``":memory:"`` for a database that ends with the process.
    read_only
        Open an existing database for reading, even while another process, or this one, has it open for writing.
        Reads see the newest commit at opening, and after that the commit of the last :meth:`Database.refresh`. Calls
        that write raise :class:`ReadOnlyError`. Of the other options, only those of reading apply: ``cache_bytes``,
        ``direct_io`` and ``io_uring``. Files that the reader needs stay on disk until it refreshes, closes or ends.
        Rows that are not yet in segments are also held in its memory.
    at
        With ``read_only``: open this moment or named snapshot. A :class:`~drillcore.moment.Moment` of another reader,
        or its pair ``(version, lsn)``, shows the same rows, whatever the writer does; the other reader must be open at
        it until then. Where rows expire, a pair shows those that have not at the time of this call, and a moment those
        of its own time. A name opens a named snapshot.
    durability
        What a commit survives once ``append`` has returned. ``"none"``: nothing, but ``close`` keeps all rows.
        ``"os"``: the end of the process, because the operating system has the rows. ``"fsync"``: power loss, because
        the disk has them.
    memory_bytes
        Memory budget for rows, over all tables. Flushed rows that only snapshots or scans hold
        (``stats()["snapshot_row_bytes"]``) go to files before all rows together exceed the budget. By default 512 MiB.
    cache_bytes
        Memory budget of the page cache. Up to half of it is for index pages, which stay while their segments are
        open: about 0.3 bytes for each row of 100 bytes. By default 128 MiB.
    threads
        Number of background threads for maintenance. By default half of the cores, and at least two.
    direct_io
        Read segments past the page cache of the operating system, so that ``cache_bytes`` is all the memory their
        pages take. On file systems without direct I/O, they are read as usual, and ``stats()["direct_io"]`` is then
        false.
    io_uring
        Issue the reads of one call together with io_uring, where Linux allows it. With ``False``, threads issue them.
        ``stats()["reads_by"]`` shows which.

    Raises
    ------
    LockedError
        If another process, or this one, already has it open for writing. Not with ``read_only``.
    NotFoundError
        With ``read_only``, if the directory has no database, or no named snapshot of the name ``at``.
    MomentGoneError
        If no reader is open at the moment ``at``, and the database has changed since.
    CorruptError
        If a file is damaged, or the directory has files of a database but no manifest.

    Examples
    --------
    >>> with drillcore.open(":memory:") as db:
    ...     db.tables()
    []

    A reader beside the writer:

    >>> from tempfile import TemporaryDirectory
    >>> with (
    ...     TemporaryDirectory() as folder,
    ...     drillcore.open(folder) as writer,
    ...     drillcore.open(folder, read_only=True) as reader,
    ... ):
    ...     t = writer.create_table("t", {"id": "int64"}, key="id")
    ...     lsn = t.append([{"id": 1}]).lsn
    ...     reader.refresh(at_least=lsn) == lsn, reader.table("t").get(1)
    (True, {'id': 1})
    """
    if durability not in _DURABILITIES:
        raise InvalidArgumentError(
            f"durability: expected one of {', '.join(map(repr, _DURABILITIES))}, not {shown(durability)}"
        )
    memory_bytes = check_optional_count("memory_bytes", memory_bytes)
    cache_bytes = check_optional_count("cache_bytes", cache_bytes)
    threads = check_threads(threads)
    direct_io, io_uring = bool(direct_io), bool(io_uring)
    directory = directory_or_memory(path)
    if read_only:
        if directory is None:
            raise InvalidArgumentError("read_only: a database in memory cannot be opened read-only; give a directory")
        where = None if at is None else check_at(at)
        return Database(str(path), _native.Database.open_reader(directory, where, cache_bytes, direct_io, io_uring))
    if at is not None:
        raise InvalidArgumentError("at: needs read_only=True")
    writer = _native.Database.open(directory, durability, memory_bytes, cache_bytes, threads, direct_io, io_uring)
    return Database(str(path), writer)
