"""How a rollup table folds events, as callers write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drillcore.arguments.names import check_name, check_names, in_quotes, unknown_name
from drillcore.errors import InvalidArgumentError, InvalidTypeError

RollupTuple = tuple[str | None, str, list[tuple[str, str]], bool]
"""Time column, granularity, metrics as name and expression, and whether dimensions are discovered."""

KEYS = ("time", "granularity", "dimensions", "metrics")
GRANULARITIES = ("none", "1s", "1m", "5m", "15m", "30m", "1h", "1d")
"""Steps that time is truncated to, counted from 1970-01-01 00:00 UTC."""
ALIASES = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d"}


def parse_rollup(rollup: Any, key: list[str]) -> tuple[list[str], RollupTuple]:
    """Return the whole key and the native form of ``rollup``: dimensions that ``key`` lacks are appended to it.

    Raises
    ------
    NotFoundError
        If ``rollup`` has a key, or names a granularity, that does not exist.
    InvalidArgumentError, InvalidTypeError
        If a value is invalid.

    Examples
    --------
    >>> rollup = {"time": "ts", "granularity": "hour", "dimensions": ["host"], "metrics": {"n": "count"}}
    >>> parse_rollup(rollup, ["ts"])
    (['ts', 'host'], ('ts', '1h', [('n', 'count')], False))
    """
    if not isinstance(rollup, Mapping):
        raise InvalidTypeError(f"rollup: expected a dict with {_listed(KEYS)}, not {rollup!r}")
    for name in rollup:
        if name not in KEYS:
            raise unknown_name("key of rollup", name, KEYS)
    time = rollup.get("time")
    if time is not None:
        check_name("rollup time", time)
    dimensions = rollup.get("dimensions")
    discover = isinstance(dimensions, str) and dimensions == "discover"
    names = [] if dimensions is None or discover else check_names("rollup dimensions", dimensions)
    whole = [*key, *(name for name in names if name not in key)]
    granularity = _granularity(rollup.get("granularity"), time)
    return whole, (time, granularity, _metrics(rollup.get("metrics")), discover)


def _granularity(name: Any, time: str | None) -> str:
    if name is None:
        if time is not None:
            raise InvalidArgumentError(
                f'rollup: time {in_quotes(time)} needs a granularity, such as "hour"; use "none" to keep the time'
            )
        return "none"
    check_name("rollup granularity", name)
    known = ALIASES.get(name, name)
    if known not in GRANULARITIES:
        raise unknown_name("granularity", name, [*GRANULARITIES, *ALIASES])
    return known


def _metrics(metrics: Any) -> list[tuple[str, str]]:
    if metrics is None:
        return []
    if not isinstance(metrics, Mapping):
        raise InvalidTypeError(
            f'rollup metrics: expected a dict such as {{"n": "count", "total": "sum(x)"}}, not {metrics!r}'
        )
    return [(check_name("rollup metrics", name), check_name("rollup metrics", text)) for name, text in metrics.items()]


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
