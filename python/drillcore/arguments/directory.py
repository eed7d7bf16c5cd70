"""Paths of directories, as arguments."""

from __future__ import annotations

import os
from typing import Any

from drillcore.arguments.names import shown
from drillcore.errors import InvalidArgumentError, InvalidTypeError


def directory_or_memory(path: Any) -> str | None:
    """Return the directory that ``path`` names; ``None`` for a database in memory."""
    name = _text("path", path, "a directory or ':memory:'")
    return None if name == ":memory:" else name


def check_directory(argument: str, path: Any) -> str:
    """Return the directory that ``path`` names."""
    return _text(argument, path, "a directory")


def _text(argument: str, path: Any, expected: str) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InvalidTypeError(f"{argument}: expected {expected}, not {shown(path)}")
    try:
        name = os.fsdecode(os.fsencode(path))
    except UnicodeEncodeError:
        message = f"{argument}: {shown(path)} has no valid encoding; use another directory name"
        raise InvalidArgumentError(message) from None
    if not name or "\0" in name:
        raise InvalidArgumentError(f"{argument}: expected {expected}, not {shown(path)}")
    return name
