"""Backups of a database, and databases made from them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from drillcore import _native
from drillcore.arguments.directory import check_directory


@dataclass(frozen=True)
class BackupResult:
    """The contents of a backup or of a restored database, and how its files were stored."""

    lsn: int
    """The newest commit in it."""
    files: int
    """How many files with rows it has."""
    bytes: int
    """The bytes of these files."""
    new_files: int
    """How many of them were not there before."""
    linked_bytes: int
    """Of the new ones, the bytes of those that are hard links: both databases share them."""
    copied_bytes: int
    """Of the new ones, the bytes of those that were copied."""


def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str], *, copy: bool = False) -> BackupResult:
    """Make a new database at ``path`` from a backup, which stays as it is.

    Files become hard links where the file system can make them, so this takes hardly any time or room. When the call
    returns, the database survives power loss.

    Parameters
    ----------
    backup
        A directory that :meth:`Database.backup <drillcore.database.Database.backup>` made.
    path
        The directory of the new database.
    copy
        Copy all files instead of linking them.

    Raises
    ------
    AlreadyExistsError
        If there is something at ``path``.
    NotFoundError
        If there is no backup.
    InvalidArgumentError
        If ``backup`` is a database that is not a backup, or was opened for writing since.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> with drillcore.open(f"{folder.name}/flights.drill") as db:
    ...     t = db.create_table("flights", {"flight": "int64"}, key="flight")
    ...     _ = t.append([{"flight": i} for i in range(10)])
    ...     backup = db.backup(f"{folder.name}/flights.backup")
    >>> _ = drillcore.restore(f"{folder.name}/flights.backup", f"{folder.name}/again.drill")
    >>> with drillcore.open(f"{folder.name}/again.drill") as db:
    ...     len(db.table("flights"))
    10
    """
    return BackupResult(*_native.restore(check_directory("backup", backup), check_directory("path", path), bool(copy)))
