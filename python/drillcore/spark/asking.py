"""Asks the splits of a load for what their databases have to read: here, or on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark import SparkContext

from drillcore.errors import Error

Each = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Calls a function for each of several things, and returns what it returns in their order."""


def one_by_one(function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """Call ``function`` for each, here. Right for what an index knows."""
    return [function(thing) for thing in things]


def on_cluster(function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """Call ``function`` for each in a task of its own. Right for what has to be read.

    Raises
    ------
    Error
        That of a task, with its own type.
    """
    context = SparkContext._active_spark_context
    if context is None or len(things) < 2:
        return one_by_one(function, things)

    def called(thing: Any) -> tuple[bool, Any]:
        try:
            return True, function(thing)
        except Error as error:
            # As it is: Spark would make text of it.
            return False, error

    answers = context.parallelize(things, len(things)).map(called).collect()
    for is_answer, answer in answers:
        if not is_answer:
            raise answer
    return [answer for _, answer in answers]
