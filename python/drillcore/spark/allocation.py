"""How many rows of a sample each split gives, so that the sample is one of their union.

Everything here is exact: numbers are whole, and drawn without rounding from the bits of a counter-based generator
(Philox 4x64, Salmon and others 2011), whose stream does not change between versions of numpy. The same seed gives the
same allocation on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from drillcore.errors import InvalidArgumentError, TooFewRowsError

_CHUNK_DRAWS = 1 << 20
_WORD_BITS = 64


def allocate_with_replacement(draws: int, sizes: Sequence[int], seed: int) -> list[int]:
    """Draw how many of ``draws`` independent draws fall into each split: one multinomial.

    Parameters
    ----------
    draws
        Number of rows of the sample.
    sizes
        The number of rows of each split, or its units of weight: whole numbers of any size.
    seed
        A number of 64 bits.

    Raises
    ------
    TooFewRowsError
        If rows are to be drawn and all sizes are 0.

    Notes
    -----
    Costs about 0.3 us per draw, and 2 us beyond sums of 64 bits, and the memory of the sizes and of a million
    draws.

    Examples
    --------
    >>> allocate_with_replacement(10, [0, 500, 500], seed=1)
    [0, 7, 3]
    """
    ends = _ends(sizes)
    total = ends[-1] if ends else 0
    if draws and not total:
        raise TooFewRowsError(f"{draws:,} rows were requested of none; nothing is selected, or no row has a weight")
    counts: Any = np.zeros(len(ends), np.int64)
    source = _Words(seed, "with replacement")
    while draws:
        taken = min(draws, _CHUNK_DRAWS)
        counts += _places(source.below(total, taken), ends)
        draws -= taken
    return [int(count) for count in counts]


def allocate_without_replacement(draws: int, sizes: Sequence[int], seed: int) -> list[int]:
    """Draw how many of ``draws`` different rows lie in each split: one multivariate hypergeometric.

    Different positions of the union are drawn until there are enough, or, of more than half of it, those that are left
    out; so no product of large numbers is rounded.

    Parameters
    ----------
    draws
        Number of rows of the sample.
    sizes
        The number of rows of each split.
    seed
        A number of 64 bits.

    Raises
    ------
    TooFewRowsError
        If there are fewer rows than ``draws``.

    Notes
    -----
    Costs about 0.3 us and 30 bytes per row drawn, of at most half of the rows.

    Examples
    --------
    >>> allocate_without_replacement(999, [0, 500, 500], seed=1)
    [0, 500, 499]
    """
    ends = _ends(sizes)
    total = ends[-1] if ends else 0
    if draws > total:
        raise TooFewRowsError(f"{draws:,} rows were requested, and {total:,} are there")
    left_out = 2 * draws > total
    wanted = total - draws if left_out else draws
    source = _Words(seed, "without replacement")
    drawn: Any = np.zeros(0, np.uint64)
    # Each round draws as many as are missing, so the last one ends with the first draw that completes them: the set is
    # that of draws one after the other of which repeats are skipped.
    while len(drawn) < wanted:
        drawn = np.sort(np.concatenate([drawn, source.below(total, wanted - len(drawn))]))
        drawn = drawn[np.append(True, drawn[1:] != drawn[:-1])]
    counts = [int(count) for count in _places(drawn, ends)]
    return [size - count for size, count in zip(sizes, counts, strict=True)] if left_out else counts


def allocate_by_arrival(draws: int, arrivals: Sequence[Any]) -> list[int]:
    """Count how many of the ``draws`` earliest rows lie in each split.

    The rows of a split arrive in successive draws by weight, with exponential gaps at the rate of the weight that is
    left. So each row has an exponential clock of its own, with its weight as the rate, and the earliest over all splits
    are successive draws by weight from their union (Efraimidis and Spirakis 2006).

    Parameters
    ----------
    draws
        Number of rows of the sample.
    arrivals
        For each split, the times of its first rows in rising order: ``draws`` of them, or all rows that have a weight.

    Raises
    ------
    TooFewRowsError
        If fewer rows than ``draws`` arrive.

    Examples
    --------
    >>> allocate_by_arrival(3, [[0.1, 0.9], [], [0.2, 0.3, 4.0]])
    [1, 0, 2]
    """
    times = [np.asarray(each, np.float64) for each in arrivals]
    there = sum(len(each) for each in times)
    if draws > there:
        raise TooFewRowsError(f"{draws:,} rows were requested, and {there:,} have a weight above 0")
    owners: Any = np.repeat(np.arange(len(times)), [len(each) for each in times])
    first = np.argsort(np.concatenate([*times, np.zeros(0)]), kind="stable")[:draws]
    return [int(count) for count in np.bincount(owners[first], minlength=len(times))]


def split_seed(seed: int, split: int) -> int:
    """Return the seed of a split's own draws: 64 bits that depend on the sample's seed and the split's number alone.

    Examples
    --------
    >>> split_seed(7, 0) != split_seed(7, 1) != split_seed(8, 0)
    True
    """
    return int.from_bytes(hashlib.sha256(f"drillcore split {seed} {split}".encode()).digest()[:8], "big")


class _Words:
    """Uniform whole numbers from one seed, for one purpose."""

    def __init__(self, seed: int, purpose: str) -> None:
        if not 0 <= seed < 1 << _WORD_BITS:
            raise InvalidArgumentError(f"seed: expected a number from 0 to 2**64 - 1, not {seed}")
        key = hashlib.sha256(f"drillcore allocation {seed} {purpose}".encode()).digest()
        self._bits = np.random.Philox(key=int.from_bytes(key[:16], "big"))

    def below(self, bound: int, count: int) -> Any:
        """``count`` independent numbers from 0 to ``bound - 1``, each equally likely; beyond 64 bits as objects."""
        bits = max(1, (bound - 1).bit_length())
        parts = []
        while count:
            # Of numbers with as many bits as the bound, more than half are below it. The others are drawn again.
            candidates = self._of_bits(bits, count)
            kept = candidates[candidates < bound]
            parts.append(kept)
            count -= len(kept)
        return np.concatenate(parts) if parts else np.zeros(0, np.uint64)

    def _of_bits(self, bits: int, count: int) -> Any:
        if bits <= _WORD_BITS:
            return self._bits.random_raw(count) >> np.uint64(_WORD_BITS - bits)
        words = -(-bits // _WORD_BITS)
        raw = self._bits.random_raw(count * words).reshape(count, words).tolist()
        shift = words * _WORD_BITS - bits
        made: Any = np.empty(count, object)
        made[:] = [sum(word << _WORD_BITS * at for at, word in enumerate(row)) >> shift for row in raw]
        return made


def _ends(sizes: Sequence[int]) -> list[int]:
    ends, total = [], 0
    for size in sizes:
        if size < 0:
            raise InvalidArgumentError(f"sizes: expected numbers of at least 0, not {size}")
        total += size
        ends.append(total)
    return ends


def _places(drawn: Any, ends: list[int]) -> Any:
    """How many of the drawn numbers lie below each end, and not below the one before."""
    bounds = np.array(ends, object if drawn.dtype == object else np.uint64)
    return np.bincount(np.searchsorted(bounds, drawn, side="right"), minlength=len(ends))
