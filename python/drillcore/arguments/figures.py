"""Numbers that callers give: counts, threads, seeds, seconds and shares. Those of numpy count as Python's own."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from drillcore.arguments.names import shown
from drillcore.errors import InvalidArgumentError, InvalidTypeError

_COUNT_MAX = 2**64 - 1
_UNITS = ("rows", "events")
THREADS_MAX = 1_024
"""More threads are a mistake, and the system may not have them."""


def check_count(name: str, value: Any) -> int:
    """Return ``value`` if it is a whole number from 0 on that fits in 64 bits.

    Examples
    --------
    >>> check_count("limit", 2**64)
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: limit: expected a number from 0 to 2**64 - 1, not 18446744073709551616
    """
    # Most are: to ask for what else counts as whole takes microseconds.
    if type(value) is int and 0 <= value <= _COUNT_MAX:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidTypeError(f"{name}: expected a whole number, not {shown(value)}")
    number = int(value)
    if number < 0:
        raise InvalidArgumentError(f"{name}: expected a number of at least 0, not {shown(number)}")
    if number > _COUNT_MAX:
        raise InvalidArgumentError(f"{name}: expected a number from 0 to 2**64 - 1, not {shown(number)}")
    return number


def check_optional_count(name: str, value: Any) -> int | None:
    """Return ``value`` as :func:`check_count` does, or ``None`` if it is that."""
    return None if value is None else check_count(name, value)


def check_threads(threads: Any) -> int | None:
    """Return ``threads`` if it is a number of threads, or ``None``."""
    if threads is None:
        return None
    count = check_count("threads", threads)
    if not 1 <= count <= THREADS_MAX:
        raise InvalidArgumentError(f"threads: expected a number from 1 to {THREADS_MAX:,}, not {count}")
    return count


def check_seed(seed: Any) -> int | None:
    """Return ``seed`` if it fits in 64 bits, or ``None``."""
    return check_optional_count("seed", seed)


def check_number(name: str, value: Any) -> float:
    """Return ``value`` if it is a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidTypeError(f"{name}: expected a number, not {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value <= 0.0 else math.inf


def check_positive(name: str, value: Any) -> float:
    """Return ``value`` if it is a finite number above 0."""
    number = check_number(name, value)
    if not 0 < number < math.inf:
        raise InvalidArgumentError(f"{name}: expected a positive number, not {shown(value)}")
    return number


def check_confidence(confidence: Any) -> float:
    """Return ``confidence`` if it lies strictly between 0 and 1."""
    number = check_number("confidence", confidence)
    if not 0 < number < 1:
        raise InvalidArgumentError(
            f"confidence: expected a number between 0 and 1, such as 0.95, not {shown(confidence)}"
        )
    return number


def check_unit(unit: Any) -> str:
    """Return ``unit`` if it names what is counted."""
    if unit not in _UNITS:
        raise InvalidArgumentError(f"unit: expected {' or '.join(map(repr, _UNITS))}, not {shown(unit)}")
    return str(unit)


def check_timeout(timeout: Any) -> float:
    """Return ``timeout`` if it is a number of seconds that is not negative."""
    seconds = check_number("timeout", timeout)
    if math.isnan(seconds) or seconds < 0:
        raise InvalidArgumentError(f"timeout: expected a number of seconds of at least 0, not {shown(timeout)}")
    return seconds
