"""What tests and the examples in docstrings stand on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pyarrow
import pytest

import drillcore

# These import what few have: torch, and pyspark.
collect_ignore = [] if find_spec("torch") else ["drillcore/torch.py"]
collect_ignore += [] if find_spec("pyspark") else ["drillcore/spark"]


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c() -> Iterator[None]:
    """Ctrl-C raises here, and ends child processes, also where it was ignored when the tests were started.

    That is so behind ``nohup`` and for a command in the background of a script: Python then sets no handler, and
    children inherit that it is ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, Any]) -> None:
    # What the package says that its examples assume.
    doctest_namespace.update(drillcore=drillcore, pa=pyarrow)
