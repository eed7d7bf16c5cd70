"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from drillcore.arguments.names import in_quotes, shown
from drillcore.errors import (
    AlreadyExistsError,
    Error,
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
    StorageFullError,
)

_NAME_LEN_MAX = 100
_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_target(path: Any, overwrite: bool) -> str:
    """Return the file that ``path`` names, if it may be written.

    Raises
    ------
    AlreadyExistsError
        If it exists and ``overwrite`` is false.
    InvalidArgumentError, InvalidTypeError
        If it names no file.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidTypeError(f"path: expected the name of a file, not {shown(path)}")
    try:
        name = os.fsdecode(os.fsencode(path))
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"path: {shown(path)} has no valid encoding; use another name") from None
    if not name or "\0" in name:
        raise InvalidArgumentError(f"path: expected the name of a file, not {shown(path)}")
    # A link stays a link: what it leads to is replaced.
    target = os.path.realpath(name)
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return target
    if stat.S_ISDIR(mode):
        raise InvalidArgumentError(f"path: {shown(name)} is a directory; add the name of a file")
    if not stat.S_ISREG(mode):
        raise InvalidArgumentError(f"path: {shown(name)} is not a regular file; use another name")
    if not overwrite:
        raise _exists(name)
    return target


def _exists(name: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"path: {shown(name)} already exists; use another name, or overwrite=True to replace it")


@contextmanager
def whole_file(target: str, overwrite: bool) -> Iterator[str]:
    """Give the name of a file beside ``target``, which takes its place if nothing is raised and goes otherwise.

    A reader of ``target`` sees what was there before, or all that was written. It is on disk when this returns.

    Raises
    ------
    StorageError
        If a file cannot be written.
    """
    directory, name = os.path.split(target)
    part = os.path.join(directory, f".{name[:_NAME_LEN_MAX]}.{secrets.token_hex(6)}.part")
    try:
        # So that the file has the permissions that the user's new files have.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise _unwritten(target, error) from error
    try:
        yield part
        _sync(part)
        _publish(part, target, overwrite)
    except Error:
        raise
    except OSError as error:
        raise _unwritten(target, error) from error
    finally:
        with suppress(OSError):
            os.unlink(part)


def _publish(part: str, target: str, overwrite: bool) -> None:
    if overwrite:
        os.replace(part, target)
    else:
        try:
            # Unlike a rename, this fails if another process made the file meanwhile.
            os.link(part, target)
        except FileExistsError:
            raise _exists(target) from None
        except OSError:
            # Some file systems have no hard links.
            if os.path.lexists(target):
                raise _exists(target) from None
            os.rename(part, target)
    with suppress(OSError):
        _sync(os.path.dirname(target))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritten(target: str, error: OSError) -> StorageError:
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return StorageFullError(f"cannot write {in_quotes(target)}: {why}; free disk space and retry")
    return StorageError(f"cannot write {in_quotes(target)}: {why}")
