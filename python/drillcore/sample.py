"""Samples, as tables, snapshots and splits draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from drillcore.arguments.figures import check_count, check_seed, check_threads
from drillcore.arguments.names import check_columns, check_name
from drillcore.errors import TooFewRowsError
from drillcore.rows import Rows, Sampling

if TYPE_CHECKING:
    from drillcore import _native
    from drillcore.values import NativeSelection


def draw(
    snapshot: _native.TableSnapshot,
    n: int,
    selection: NativeSelection,
    *,
    weight: str | None,
    replace: bool,
    at_most: bool,
    with_probability: bool,
    arrival_times: bool = False,
    seed: int | None,
    columns: Sequence[str] | None,
    threads: int | None,
) -> Rows:
    """Check the arguments of a sample, and draw it.

    Raises
    ------
    TooFewRowsError
        If fewer than ``n`` rows exist, and neither ``replace`` nor ``at_most`` is set.
    """
    if weight is not None:
        check_name("weight", weight)
    try:
        rows, attempts, resolved = snapshot.sample(
            check_count("n", n),
            selection,
            weight,
            bool(replace),
            bool(at_most),
            bool(with_probability),
            bool(arrival_times),
            check_seed(seed),
            check_columns(columns),
            check_threads(threads),
        )
    except TooFewRowsError as error:
        raise TooFewRowsError(f"{error} (at_most=True)") from None
    return Rows(pa.record_batch(rows), Sampling(attempts, resolved))
