"""Errors that say of which of several databases they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from drillcore.arguments.names import in_quotes
from drillcore.errors import Error


@contextmanager
def named(path: str) -> Iterator[None]:
    """Have an error of ours name the database, unless it does.

    Examples
    --------
    >>> with named("a.drill"):
    ...     raise Error("segment 7 is damaged")
    Traceback (most recent call last):
    ...
    drillcore.errors.Error: segment 7 is damaged (in "a.drill")
    """
    try:
        yield
    except Error as error:
        if path in str(error):
            raise
        raise type(error)(f"{error} (in {in_quotes(path)})") from None
