"""Names that callers give: of tables, columns and options."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from drillcore.errors import InvalidTypeError, NotFoundError


def check_name(argument: str, name: Any) -> str:
    """Return ``name`` if it is a string."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{argument}: expected a name, not {name!r}")
    return name


def check_names(argument: str, names: Any) -> list[str]:
    """Return one name or a list of names as a list."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple):
        raise InvalidTypeError(f"{argument}: expected a list of names, not {names!r}")
    return [check_name(argument, name) for name in names]


def unknown_name(what: str, name: Any, valid: Iterable[str]) -> NotFoundError:
    """Return the error for a name that is none of ``valid``: it tells the nearest or, if none is near, all.

    Examples
    --------
    >>> unknown_name("granularity", "huor", ["minute", "hour"])
    NotFoundError("unknown granularity 'huor'; did you mean 'hour'?")
    >>> unknown_name("granularity", "x", ["minute", "hour"])
    NotFoundError("unknown granularity 'x'; there are: minute, hour")
    """
    valid = list(valid)
    near = difflib.get_close_matches(str(name), valid, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(valid)}"
    return NotFoundError(f"unknown {what} {name!r}; {hint}")
