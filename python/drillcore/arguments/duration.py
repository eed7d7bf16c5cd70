"""How long rows are kept, as callers say it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from drillcore.arguments.names import check_encodable, check_name, shown
from drillcore.errors import InvalidArgumentError, InvalidTypeError


def check_ttl(ttl: Any) -> tuple[str, str | timedelta] | None:
    """Return a column and a time as the native layer takes them: a text, or a timedelta."""
    if ttl is None:
        return None
    if not isinstance(ttl, tuple | list) or len(ttl) != 2:
        raise InvalidTypeError(f'ttl: expected a column and a time, as in ("ts", "7d"), not {shown(ttl)}')
    column, duration = ttl
    column = check_name("ttl", column)
    if isinstance(duration, str):
        return column, check_encodable("ttl", duration)
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        try:
            duration = timedelta(seconds=duration)
        except (OverflowError, ValueError):
            raise InvalidArgumentError(
                f"ttl: expected a number of seconds up to 9223372036, not {shown(duration)}"
            ) from None
    if not isinstance(duration, timedelta):
        raise InvalidTypeError(f'ttl: expected a time such as "7d", seconds or a timedelta, not {shown(duration)}')
    if duration < timedelta(seconds=1):
        raise InvalidArgumentError(f"ttl: expected at least one second, not {duration}")
    return column, duration


def duration_text(duration: timedelta) -> str:
    """Return a time of whole seconds as it can be given.

    Examples
    --------
    >>> duration_text(timedelta(days=7)), duration_text(timedelta(hours=36))
    ('7d', '1d 12h')
    """
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = {"d": duration.days, "h": hours, "m": minutes, "s": seconds}
    return " ".join(f"{count}{unit}" for unit, count in parts.items() if count)
