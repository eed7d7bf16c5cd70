"""The options of a read and of a write, as Spark hands them over: strings by name, of which case does not matter."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drillcore.arguments.figures import check_count, check_seed
from drillcore.arguments.names import check_columns, in_quotes, shown
from drillcore.errors import InvalidArgumentError, UnsupportedError

SPLIT_ROWS = 1_000_000
"""Rows per split, and so per task, unless the option ``split_rows`` says otherwise."""

_READ = (
    "path",
    "paths",
    "table",
    "columns",
    "between",
    "closed",
    "set",
    "where",
    "split_rows",
    "push_filters",
    "sample",
    "seed",
    "weight",
    "replace",
    "at_most",
)
_WRITE = ("path", "table", "key", "set", "merge", "weights")
SAMPLE_MAX = 2**31
"""Rows of a sample. The driver draws the split of each row, which takes about ten minutes for this many rows; more are
probably a mistake."""
_OF_SAMPLES = ("seed", "weight", "replace", "at_most")
_MERGES = ("append", "upsert")

NO_CATALOG = (
    "tables of a catalog are not supported; use CREATE TEMPORARY VIEW ... USING drillcore OPTIONS (...), or load() and "
    "createOrReplaceTempView()"
)
_OF_CATALOG = "option."
"""How options begin that Spark hands over with those of a catalog's table."""
_UNLESS_SAVED = (
    ", and write by save(); saveAsTable, insertInto and writeTo are for tables of a catalog, which are not supported"
)


@dataclass(frozen=True)
class SampleOptions:
    """How many rows to draw, and how."""

    rows: int
    seed: int | None = None
    weight: str | None = None
    replace: bool = False
    at_most: bool = False


@dataclass(frozen=True)
class ReadOptions:
    """What a ``load()`` reads."""

    paths: list[str]
    table: str
    columns: list[str] | None = None
    between: Any = None
    """As JSON gives it: a list of two, each ``None``, a value or a list of values."""
    closed: str = "both"
    set: Any = None
    """As JSON gives it, in a list, so that a ``None`` in it is the set of rows without a value."""
    where: str | None = None
    split_rows: int = SPLIT_ROWS
    push_filters: bool = False
    sample: SampleOptions | None = None


@dataclass(frozen=True)
class WriteOptions:
    """Where a ``save()`` writes, and the shape of a new collection; ``None`` is that of the one that is there."""

    path: str
    table: str | None = None
    key: list[str] | None = None
    set: str | None = None
    merge: str | None = None
    weights: list[str] | None = field(default=None)


def parse_read(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of a read, checked.

    Raises
    ------
    InvalidArgumentError
        If an option is unknown, missing or has an invalid value.
    UnsupportedError
        If the options are those of a catalog's table.

    Examples
    --------
    >>> parse_read({"path": "a.drill, b.drill", "table": "flights", "set": '["UA", null]'}).set
    ['UA', None]
    >>> parse_read({"path": "a.drill", "table": "flights", "splitrows": "10"})
    Traceback (most recent call last):
    ...
    drillcore.errors.InvalidArgumentError: unknown option "splitrows"; did you mean "split_rows"?
    """
    _check_names(options, _READ)
    columns = None if "columns" not in options else check_columns(_names("columns", options["columns"]))
    if columns == []:
        raise InvalidArgumentError("columns: give at least one column")
    sample = _sample(options)
    push_filters = _flag(options, "push_filters")
    if push_filters and sample is not None:
        raise InvalidArgumentError(
            "push_filters: a filter behind a sample must not choose what is drawn from; remove it, and give the "
            "condition as where if it should"
        )
    return ReadOptions(
        paths=_paths(options),
        table=_required(options, "table", "the name of a table"),
        columns=columns,
        between=_between(options.get("between")),
        closed=options.get("closed", "both"),
        set=_set(options.get("set")),
        where=options.get("where"),
        split_rows=_split_rows(options),
        push_filters=push_filters,
        sample=sample,
    )


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a write, checked.

    Raises
    ------
    InvalidArgumentError
        If an option is unknown, missing or has an invalid value.
    """
    _check_names(options, _WRITE)
    merge = options.get("merge")
    if merge is not None and merge not in _MERGES:
        raise InvalidArgumentError(f"merge: expected one of {', '.join(map(repr, _MERGES))}, not {shown(merge)}")
    paths = _paths(options, "the directory of a collection", _UNLESS_SAVED)
    if len(paths) != 1:
        raise InvalidArgumentError(f"path: expected one directory to write to, not {len(paths)}")
    return WriteOptions(
        path=paths[0],
        table=options.get("table"),
        key=None if "key" not in options else _names("key", options["key"]),
        set=options.get("set"),
        merge=merge,
        weights=None if "weights" not in options else _names("weights", options["weights"]),
    )


def _check_names(options: Mapping[str, str], valid: tuple[str, ...]) -> None:
    if any(name.startswith(_OF_CATALOG) for name in options):
        raise UnsupportedError(f"CREATE TABLE ... USING drillcore: {NO_CATALOG}")
    named = [name for name in valid if name != "paths"]
    for name in options:
        if name not in valid:
            near = difflib.get_close_matches(name, named, n=1)
            hint = f"did you mean {in_quotes(near[0])}?" if near else f"there are: {', '.join(named)}"
            raise InvalidArgumentError(f"unknown option {in_quotes(name)}; {hint}")


def _paths(
    options: Mapping[str, str],
    what: str = "the directory of a database, or several with commas between them",
    more: str = "",
) -> list[str]:
    if "paths" in options and "path" not in options:
        # So Spark hands over load(["a.drill", "b.drill"]).
        names = _names("paths", options["paths"])
    else:
        names = _names("path", _required(options, "path", what, more))
    if not names:
        raise InvalidArgumentError(f"path: expected {what}, not {shown(options['path'])}")
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(
                f"path: {shown(name)} is listed twice, so its rows would count twice; remove one"
            )
    return names


def _required(options: Mapping[str, str], name: str, what: str, more: str = "") -> str:
    if not options.get(name):
        raise InvalidArgumentError(f'{name} is missing: give {what} by .option("{name}", ...){more}')
    return options[name]


def _names(option: str, text: str) -> list[str]:
    """Names as a JSON list, or with commas between them."""
    if text.lstrip().startswith("["):
        names = _json(option, text, '["a", "b"]')
        if not all(isinstance(name, str) for name in names):
            raise InvalidArgumentError(f"{option}: expected a JSON list of strings, not {shown(text)}")
        return list(names)
    return [name.strip() for name in text.split(",") if name.strip()]


def _json(option: str, text: str, example: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidArgumentError(f"{option}: expected JSON, such as {example}, not {shown(text)}") from None


def _between(text: str | None) -> Any:
    if text is None:
        return None
    example = '[10, 20], ["2013-07-04", null] or [["UA", 1], ["UA", 9]]'
    ends = _json("between", text, example)
    if not isinstance(ends, list) or len(ends) != 2:
        raise InvalidArgumentError(f"between: expected a JSON list of two ends, such as {example}, not {shown(text)}")
    return ends


def _set(text: str | None) -> Any:
    if text is None:
        return None
    given = _json("set", text, '"UA", ["UA", "DL"] or null, with the quotes')
    return given if isinstance(given, list) else [given]


def _count(options: Mapping[str, str], name: str, usual: int) -> int:
    if name not in options:
        return usual
    text = options[name].replace("_", "")
    try:
        number = int(text)
    except ValueError:
        raise InvalidArgumentError(f"{name}: expected a whole number, not {shown(options[name])}") from None
    return check_count(name, number)


def _split_rows(options: Mapping[str, str]) -> int:
    rows = _count(options, "split_rows", SPLIT_ROWS)
    if rows == 0:
        raise InvalidArgumentError("split_rows: expected a number of at least 1, not 0")
    return rows


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"{name}: expected true or false, not {shown(options[name])}")
    return text == "true"


def _sample(options: Mapping[str, str]) -> SampleOptions | None:
    if "sample" not in options:
        for name in _OF_SAMPLES:
            if name in options:
                raise InvalidArgumentError(f'{name}: needs the number of rows to draw; add .option("sample", ...)')
        return None
    replace, at_most = _flag(options, "replace"), _flag(options, "at_most")
    if replace and at_most:
        raise InvalidArgumentError("at_most: there are never too few rows with replace; remove one of them")
    rows = _count(options, "sample", 0)
    if rows > SAMPLE_MAX:
        raise InvalidArgumentError(
            f"sample: expected a number of at most {SAMPLE_MAX:,}, not {rows:,}; to read all rows, leave it out"
        )
    return SampleOptions(
        rows=rows,
        seed=check_seed(_count(options, "seed", 0)) if "seed" in options else None,
        weight=options.get("weight"),
        replace=replace,
        at_most=at_most,
    )
