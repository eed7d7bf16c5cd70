"""Names that callers give: of tables, columns and options."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from drillcore.errors import InvalidArgumentError, InvalidTypeError, NotFoundError

_SHOWN_LEN_MAX = 60
_LISTED_MAX = 20


def check_name(argument: str, name: Any) -> str:
    """Return ``name`` if it is a string."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{argument}: expected a name, not {shown(name)}")
    return check_no_nul(argument, check_encodable(argument, name))


def check_no_nul(argument: str, name: str) -> str:
    """Return ``name`` if it has no NUL character, at which Arrow would end it on its way to the engine.

    Examples
    --------
    >>> check_no_nul("name", "a\\0b")
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: name: 'a\\x00b' has a NUL character; remove it
    """
    if "\0" in name:
        raise InvalidArgumentError(f"{argument}: {shown(name)} has a NUL character; remove it")
    return name


def check_encodable(argument: str, text: str) -> str:
    """Return ``text`` if it has a UTF-8 form; half a surrogate pair has none.

    Examples
    --------
    >>> check_encodable("name", "\\ud800")
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: name: '\\ud800' cannot be encoded as UTF-8; remove lone surrogates
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{argument}: {shown(text)} cannot be encoded as UTF-8; remove lone surrogates"
        ) from None
    return text


def shown(value: Any) -> str:
    """Return ``repr(value)`` for a message, cut where it is long.

    Examples
    --------
    >>> shown("short"), len(shown("long" * 1000))
    ("'short'", 60)
    """
    try:
        return shortened(repr(value))
    except ValueError:  # a number of thousands of digits
        return f"a {type(value).__name__} too long to show"
    except Exception:  # of a class of the caller
        return f"a {type(value).__name__} that cannot be shown"


def in_quotes(name: Any) -> str:
    """Return a name for a message, as those of the engine have it: in double quotes.

    Examples
    --------
    >>> print(in_quotes("carrier"), in_quotes('a "b"'), in_quotes(5))
    "carrier" "a \\"b\\"" 5
    """
    return json.dumps(name, ensure_ascii=False) if isinstance(name, str) else shown(name)


def shortened(text: str) -> str:
    """Return ``text``, or its first characters if it has more than 60."""
    return text if len(text) <= _SHOWN_LEN_MAX else text[: _SHOWN_LEN_MAX - 3] + "..."


def listed(names: Sequence[str]) -> str:
    """Return names for a message, the first of them where they are many.

    Examples
    --------
    >>> listed(["a", "b"]), listed([str(i) for i in range(100)])[-23:]
    ('a, b', '18, 19, ... and 80 more')
    """
    more = len(names) - _LISTED_MAX
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_LISTED_MAX])}, ... and {more} more"


def check_names(argument: str, names: Any) -> list[str]:
    """Return one name or a list of names as a list."""
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, list | tuple):
        raise InvalidTypeError(f"{argument}: expected a list of names, not {shown(names)}")
    return [check_name(argument, name) for name in given]


def check_columns(columns: Any) -> list[str] | None:
    """Return ``columns`` as a list of different names."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidTypeError(f"columns: expected a list of names, not {shown(columns)}")
    names: list[str] = []
    for name in columns:
        if not isinstance(name, str):
            raise InvalidTypeError(f"columns: expected a list of names, not one with {shown(name)}")
        if name in names:
            raise InvalidArgumentError(f"columns: {in_quotes(name)} is listed twice")
        names.append(check_encodable("columns", name))
    return names


def unknown_name(what: str, name: Any, valid: Iterable[str]) -> NotFoundError:
    """Return the error for an unknown name, with the nearest of ``valid``, or all if none is near.

    Examples
    --------
    >>> unknown_name("granularity", "huor", ["minute", "hour"])
    NotFoundError('unknown granularity "huor"; did you mean "hour"?')
    >>> unknown_name("granularity", "x", ["minute", "hour"])
    NotFoundError('unknown granularity "x"; there are: minute, hour')
    """
    valid = list(valid)
    near = difflib.get_close_matches(str(name), valid, n=1)
    hint = f"did you mean {in_quotes(near[0])}?" if near else f"there are: {listed(valid)}"
    return NotFoundError(f"unknown {what} {in_quotes(name)}; {hint}")
