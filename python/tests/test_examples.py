"""The examples that ``help`` shows run when a user copies them."""

from __future__ import annotations

import doctest
from typing import Any

import pyarrow as pa
import pytest

import drillcore

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public() -> list[tuple[str, Any]]:
    """What ``help(drillcore)`` leads to."""
    named = [(name, getattr(drillcore, name)) for name in drillcore.__all__]
    named.append(("Reads", drillcore.reads.Reads))  # what tables and their snapshots have in common
    return [(name, thing) for name, thing in named if getattr(thing, "__doc__", None)]


@pytest.mark.parametrize(("name", "thing"), public(), ids=[name for name, _ in public()])
def test_an_example_needs_the_two_imports_and_nothing_else(name: str, thing: Any) -> None:
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    for example in doctest.DocTestFinder(recurse=True).find(thing, name, globs={"drillcore": drillcore, "pa": pa}):
        found: list[str] = []
        runner.run(example, out=found.append)
        assert not found, "".join(found)


def test_there_are_examples() -> None:
    examples = [each for name, thing in public() for each in doctest.DocTestFinder().find(thing, name)]
    assert sum(bool(each.examples) for each in examples) > 20
