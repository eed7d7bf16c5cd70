"""Which loads a data frame reads, and how to let go of them."""

from __future__ import annotations

import json
from typing import Any

from drillcore.arguments.names import shown
from drillcore.errors import InvalidTypeError
from drillcore.spark.data_source import LOAD_KEY
from drillcore.spark.driver import driver


def release(frame: Any) -> int:
    """Close the databases that a data frame reads, so that files which only its moment needs can go.

    Do not use the frame after that, nor others that come from the same ``load()``: a first query fails, and others of
    which Spark kept the plan fail once a writer has changed what their tasks need. The end of the driver's process
    releases everything.

    Parameters
    ----------
    frame
        A frame from ``load()``, or one made of such frames.

    Returns
    -------
    int
        Number of loads that were released.

    Raises
    ------
    InvalidTypeError
        If ``frame`` is no data frame of Spark.

    Examples
    --------
    >>> drillcore.spark.release(flights)  # doctest: +SKIP
    1
    """
    return driver().release(loads_of(frame))


def loads_of(frame: Any) -> set[str]:
    """Return the names of the loads that a frame reads."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        raise InvalidTypeError(f"frame: expected a data frame of a classic Spark session, not {shown(frame)}")
    leaves = plan.queryExecution().analyzed().collectLeaves()
    names = set()
    for at in range(leaves.size()):
        for field in json.loads(leaves.apply(at).schema().json())["fields"]:
            if LOAD_KEY in field["metadata"]:
                names.add(field["metadata"][LOAD_KEY])
    return names
