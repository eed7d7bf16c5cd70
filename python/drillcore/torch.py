"""Random batches of a table as PyTorch tensors. Needs ``drillcore[torch]``.

.. code-block:: python

    dataset = SampleDataset("flights.drill", "flights", 256, weight="miles", columns=["miles", "delay"])
    for batch in DataLoader(dataset, batch_size=None, num_workers=2):
        train(batch["miles"], batch["delay"])
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from drillcore.arguments.figures import check_count, check_seed, check_threads
from drillcore.arguments.names import check_columns, check_name, in_quotes, shown
from drillcore.arrow.type_names import type_name
from drillcore.database import Database
from drillcore.errors import InvalidArgumentError, InvalidTypeError, MissingPackageError
from drillcore.opening import open
from drillcore.stream import Refresh, check_ahead, check_batch_size, check_refresh, open_stream
from drillcore.values import Bounds

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError as error:
    raise MissingPackageError("torch is not installed; run: pip install 'drillcore[torch]'") from error

Batch = Any
"""A dict from column name to tensor, or what ``transform`` makes of a record batch."""


class SampleDataset(IterableDataset[Batch]):  # type: ignore[misc]
    """An endless dataset of independent random batches, each a dict from column name to tensor.

    Batches come from :meth:`Table.stream <drillcore.reads.Reads.stream>`. Give ``batch_size=None`` to the
    ``DataLoader``, because the batches are complete. Each worker, forked or spawned, opens the database for reading by
    its path, beside the process that writes it, and draws batches of its own.

    Numbers, bools and times have tensors: times as integers since 1970-01-01 in the unit of the column, dates as days.
    A null in a column of floats is NaN. Other columns need ``transform``.

    Parameters
    ----------
    path
        Directory of the database. One in memory cannot be opened by workers.
    table
        Name of the table.
    batch_size
        Rows per batch.
    between, closed, set, where, weight, replace, with_probability
        As for :meth:`Table.stream <drillcore.reads.Reads.stream>`.
    columns
        The columns to return; by default all that have a tensor form.
    transform
        A function that makes a batch of a ``pyarrow.RecordBatch``, instead of a dict of tensors. For spawned workers it
        must be picklable.
    seed
        Makes the batches repeatable on a named snapshot. Each rank and each worker has other batches.
    refresh
        As for :meth:`Table.stream <drillcore.reads.Reads.stream>`: how often newer rows come in.
    snapshot
        Name of a snapshot to draw from, instead of the live table.
    ahead
        Number of batches that each worker draws ahead, besides those that the ``DataLoader`` prefetches.
    threads
        Number of threads that draw in each worker. Where nothing else has to be done for a batch, threads of the main
        process, with ``num_workers=0``, take less than workers.
    rank, world_size
        Which of several processes this is that train one model. By default as ``torch.distributed`` or the variables
        ``RANK`` and ``WORLD_SIZE`` say.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with drillcore.open(folder) as db:
    ...         t = db.create_table("flights", {"flight": "int64", "delay": "float32"}, key="flight")
    ...         _ = t.append([{"flight": i, "delay": i / 2} for i in range(1000)])
    ...     batch = next(iter(SampleDataset(folder, "flights", 256)))
    >>> batch["delay"].shape, batch["delay"].dtype
    (torch.Size([256]), torch.float32)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: str,
        batch_size: int,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
        weight: str | None = None,
        replace: bool = False,
        with_probability: bool = False,
        columns: Sequence[str] | None = None,
        transform: Callable[[pa.RecordBatch], Batch] | None = None,
        seed: int | None = None,
        refresh: Refresh = 1,
        snapshot: str | None = None,
        ahead: int = 2,
        threads: int = 1,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(path, str | os.PathLike) or os.fspath(path) == ":memory:":
            raise InvalidArgumentError(f"path: expected the directory of a database, not {shown(path)}")
        self._path = os.path.abspath(os.fspath(path))
        self._table = check_name("table", table)
        self._batch_size = check_batch_size(batch_size)
        self._columns = check_columns(columns)
        self._transform = transform
        given = check_seed(seed)
        self._seed = secrets.randbits(64) if given is None else given
        self._snapshot = None if snapshot is None else check_name("snapshot", snapshot)
        self._rank, self._world_size = _rank(rank, world_size)
        self._consumed = 0
        """Batches that all workers together gave before."""
        self._given = 0
        """Batches that this process gave since."""
        self._own: tuple[int, int, int] | None = None
        """Of the state of one worker: its number, the number of workers, and its batches."""
        self._options: dict[str, Any] = {
            "between": between,
            "closed": closed,
            "set": set,
            "where": where,
            "weight": weight,
            "replace": replace,
            "with_probability": with_probability,
            "refresh": check_refresh(refresh),
            "ahead": check_ahead(ahead),
            "threads": check_threads(threads),
        }
        # A name that does not exist is an error here, not in a worker.
        with ExitStack() as opened:
            reads, names = self._open(opened)
            drawn = ("between", "closed", "set", "where", "weight", "replace", "with_probability")
            reads.sample(0, columns=names, **{name: self._options[name] for name in drawn})

    def __iter__(self) -> Iterator[Batch]:
        """Return the batches of this worker, from where the last iteration in this process stopped."""
        worker, workers = _worker()
        first = self._first(worker, workers)
        with ExitStack() as opened:
            reads, columns = self._open(opened)
            stream = open_stream(
                reads,
                self._batch_size,
                columns=columns,
                seed=self._seed,
                first=first,
                of=(self._rank, self._world_size, worker, workers),
                **self._options,
            )
            opened.enter_context(stream)
            for rows in stream:
                (batch,) = rows.batches()
                made = tensors(batch) if self._transform is None else self._transform(batch)
                self._given += 1
                self._own = (worker, workers, stream.position)
                yield made

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return where the dataset is, for :meth:`load_state_dict`.

        The same batches follow if the dataset has the same arguments, a named snapshot, and as many ranks and workers.
        Workers take turns from the first again, so with them the order may differ, but not with ``StatefulDataLoader``.

        Parameters
        ----------
        batches
            The number of batches taken since the dataset was made or its state loaded. It is needed with workers,
            because only they know what they gave, unless the loader asks the workers itself, as torchdata's
            ``StatefulDataLoader`` does.
        """
        state: dict[str, Any] = {"seed": self._seed, "rank": self._rank, "world_size": self._world_size}
        if batches is None and get_worker_info() is not None and self._own is not None:
            return {**state, "worker": list(self._own)}
        taken = self._given if batches is None else check_count("batches", batches)
        return {**state, "batches": self._consumed + taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where :meth:`state_dict` was called.

        Raises
        ------
        InvalidArgumentError
            If it is the state of another rank, or of another number of ranks.
        """
        if not isinstance(state, Mapping) or "seed" not in state or not ("batches" in state or "worker" in state):
            raise InvalidTypeError(f"state: expected what state_dict() returned, not {shown(state)}")
        ranks = (state.get("rank", 0), state.get("world_size", 1))
        if ranks != (self._rank, self._world_size):
            raise InvalidArgumentError(
                f"state: it is of rank {ranks[0]} of {ranks[1]}, and this is rank {self._rank} of {self._world_size}; "
                "load the state of this rank"
            )
        self._seed = int(state["seed"])
        self._given = 0
        self._own = None
        if "worker" in state:
            worker, workers, position = state["worker"]
            self._own = (int(worker), int(workers), int(position))
        else:
            self._consumed = check_count("batches", state["batches"])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __repr__(self) -> str:
        of = f", snapshot {self._snapshot!r}" if self._snapshot else ""
        return f"<SampleDataset: batches of {self._batch_size} rows of {self._table!r} in {self._path!r}{of}>"

    def _open(self, opened: ExitStack) -> tuple[Any, list[str] | None]:
        """Open the table for as long as ``opened`` is, and choose its columns."""
        database: Database = opened.enter_context(open(self._path, read_only=True))
        reads: Any = database
        if self._snapshot is not None:
            reads = opened.enter_context(database.snapshot(self._snapshot))
        reads = reads.table(self._table)
        schema: pa.Schema = reads.schema
        if self._columns is None and self._transform is None:
            return reads, [field.name for field in schema if has_tensor(field.type)]
        for name in (self._columns or []) if self._transform is None else []:
            if name in schema.names and not has_tensor(kind := schema.field(name).type):
                raise InvalidArgumentError(
                    f"columns: {in_quotes(name)} has type {type_name(kind)}, which has no tensor form; leave it out, "
                    "or give a transform"
                )
        return reads, self._columns

    def _first(self, worker: int, workers: int) -> int:
        """The number of the next batch of a worker, of which the loader takes batches in turn."""
        if self._own is not None and self._own[:2] == (worker, workers):
            return self._own[2]
        return max(0, -(-(self._consumed - worker) // workers))


def tensors(batch: pa.RecordBatch) -> dict[str, torch.Tensor]:
    """Return the columns of a batch as tensors that own their memory.

    Raises
    ------
    InvalidArgumentError
        If a column has no tensor form, or has nulls and is not of floats.
    """
    return {name: _tensor(name, batch.column(at)) for at, name in enumerate(batch.schema.names)}


def has_tensor(kind: pa.DataType) -> bool:
    """Whether a column of this type has a tensor form."""
    is_a = pa.types
    return is_a.is_boolean(kind) or is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_temporal(kind)


def _tensor(name: str, column: pa.Array) -> torch.Tensor:
    kind = column.type
    if not has_tensor(kind):
        raise InvalidArgumentError(
            f"column {in_quotes(name)} has type {type_name(kind)}, which has no tensor form; leave it out"
        )
    if column.null_count and not pa.types.is_floating(kind):
        raise InvalidArgumentError(
            f"column {in_quotes(name)} has nulls, which a tensor of {type_name(kind)} cannot have; use a where, or "
            "leave it out"
        )
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    # A copy, because what Arrow holds must not be written to.
    return torch.from_numpy(column.to_numpy(zero_copy_only=False).copy())


def _worker() -> tuple[int, int]:
    """The number of this worker, and of how many."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError("rank, world_size: give both or neither")
    if rank is None or world_size is None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
        else:
            rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    rank, world_size = check_count("rank", rank), check_count("world_size", world_size)
    if rank >= world_size:
        raise InvalidArgumentError(f"rank: expected a number below world_size={world_size}, not {rank}")
    return rank, world_size
