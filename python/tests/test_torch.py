"""Batches as tensors, by workers of every kind."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drillcore

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from drillcore.torch import SampleDataset  # noqa: E402


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of 1,000 flights, with a snapshot of them."""
    with drillcore.open(tmp_path / "db") as db:
        schema = {"id": "int64", "carrier": "string", "delay": "float32", "late": "bool", "day": "date32"}
        t = db.create_table("flights", schema, key="id", set="carrier", weights="delay")
        days = pa.array([i % 366 for i in range(1_000)], pa.int32()).cast(pa.date32())
        rows = {
            "id": list(range(1_000)),
            "carrier": ["UA" if i % 4 == 0 else "DL" for i in range(1_000)],
            "delay": pa.array([float(i % 2) for i in range(1_000)], pa.float32()),
            "late": [i % 2 == 1 for i in range(1_000)],
            "day": days,
        }
        t.append(pa.table(rows))
        db.snapshot("training")
    return tmp_path / "db"


def take(loader: Any, n: int) -> list[tuple[int, ...]]:
    return [tuple(batch["id"].tolist()) for batch in itertools.islice(iter(loader), n)]


def test_a_batch_is_a_dict_of_tensors(path: Path) -> None:
    batch = next(iter(SampleDataset(path, "flights", 64)))
    assert {name: tensor.dtype for name, tensor in batch.items()} == {
        "id": torch.int64,
        "delay": torch.float32,
        "late": torch.bool,
        "day": torch.int32,
    }
    assert all(tensor.shape == (64,) for tensor in batch.values())
    assert torch.equal(batch["day"], (batch["id"] % 366).int())
    assert torch.equal(batch["late"], batch["id"] % 2 == 1)
    batch["id"] += 1  # it is the caller's


def test_draws_are_what_was_asked_for(path: Path) -> None:
    dataset = SampleDataset(path, "flights", 50, set="UA", where="id >= 500", columns=["id"])
    for batch in itertools.islice(dataset, 5):
        assert list(batch) == ["id"]
        assert all(i % 4 == 0 and i >= 500 for i in batch["id"].tolist())
    weighted = SampleDataset(path, "flights", 50, weight="delay", replace=True, with_probability=True)
    batch = next(iter(weighted))
    assert bool((batch["delay"] == 1).all())
    assert torch.allclose(batch["probability"], torch.tensor(1 / 500, dtype=torch.float64))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_draw_batches_of_their_own_and_a_seed_repeats_them(path: Path, context: str) -> None:
    def loader(seed: int | None) -> Any:
        dataset = SampleDataset(path, "flights", 50, seed=seed, snapshot="training")
        return DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context)

    batches = take(loader(7), 6)
    assert len(set(batches)) == 6
    assert take(loader(7), 6) == batches
    if context == "fork":
        assert set(take(loader(None), 6)).isdisjoint(take(loader(None), 6))


def test_workers_read_beside_a_writer_in_their_parent_and_see_new_rows(path: Path) -> None:
    with drillcore.open(path) as db:
        dataset = SampleDataset(path, "flights", 50, columns=["id"], ahead=1)
        loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="fork", prefetch_factor=1)
        batches = iter(loader)
        next(batches)
        more = {"id": list(range(1_000, 100_000)), "delay": pa.array([1.0] * 99_000, pa.float32())}
        db.table("flights").append(pa.table(more))
        assert any(bool((batch["id"] >= 1_000).any()) for batch in itertools.islice(batches, 10))


def test_ranks_draw_batches_of_their_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(**rank: int) -> list[tuple[int, ...]]:
        return take(SampleDataset(path, "flights", 50, seed=7, snapshot="training", **rank), 3)

    one, two = of(rank=0, world_size=2), of(rank=1, world_size=2)
    assert set(one).isdisjoint(two)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert of() == two


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loaded_state_goes_on_with_the_batches_that_would_have_come(path: Path, workers: int) -> None:
    def dataset() -> SampleDataset:
        return SampleDataset(path, "flights", 50, seed=7, snapshot="training")

    def loader(dataset: SampleDataset) -> Any:
        return DataLoader(dataset, batch_size=None, num_workers=workers)

    whole = take(loader(dataset()), 9)
    begun = dataset()
    assert take(loader(begun), 5) == whole[:5]
    state = pickle.loads(pickle.dumps(begun.state_dict(5 if workers else None)))
    # Another seed, which the state replaces.
    rest = SampleDataset(path, "flights", 50, snapshot="training")
    rest.load_state_dict(state)
    resumed = take(loader(rest), 4)
    assert sorted(resumed) == sorted(whole[5:]) if workers else resumed == whole[5:]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_keeps_the_state_of_its_workers_resumes_in_order(path: Path, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader(seed: int) -> Any:
        dataset = SampleDataset(path, "flights", 50, seed=seed, snapshot="training")
        return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    whole = take(loader(7), 8)
    begun = loader(7)
    assert take(begun, 3) == whole[:3]
    rest = loader(8)
    rest.load_state_dict(begun.state_dict())
    assert take(rest, 5) == whole[3:]


def test_a_second_iteration_goes_on_after_the_first(path: Path) -> None:
    dataset = SampleDataset(path, "flights", 50, seed=7, snapshot="training")
    whole = take(SampleDataset(path, "flights", 50, seed=7, snapshot="training"), 4)
    assert take(dataset, 2) + take(dataset, 2) == whole
    assert dataset.state_dict()["batches"] == 4


def test_a_transform_replaces_the_tensors(path: Path) -> None:
    dataset = SampleDataset(path, "flights", 10, columns=["carrier"], transform=pa.RecordBatch.to_pydict)
    assert set(next(iter(dataset))["carrier"]) <= {"UA", "DL"}


def test_what_has_no_tensor_is_refused(path: Path) -> None:
    with pytest.raises(drillcore.InvalidArgumentError, match="has no tensor form"):
        SampleDataset(path, "flights", 10, columns=["carrier"])
    with drillcore.open(path) as db:
        db.table("flights").append([{"id": -1, "delay": 5.0}])
    with pytest.raises(drillcore.InvalidArgumentError, match='column "late" has nulls'):
        next(iter(SampleDataset(path, "flights", 1, between=(-1, -1))))
    with pytest.raises(drillcore.NotFoundError):
        SampleDataset(path, "fligths", 10)
    with pytest.raises(drillcore.NotFoundError):
        SampleDataset(path, "flights", 10, snapshot="tomorrow")
    with pytest.raises(drillcore.InvalidArgumentError, match="directory of a database"):
        SampleDataset(":memory:", "flights", 10)
    with pytest.raises(drillcore.InvalidArgumentError, match="below world_size"):
        SampleDataset(path, "flights", 10, rank=2, world_size=2)
    dataset = SampleDataset(path, "flights", 10)
    with pytest.raises(drillcore.InvalidTypeError):
        dataset.load_state_dict({})
    with pytest.raises(drillcore.InvalidArgumentError, match="rank 1 of 2"):
        dataset.load_state_dict({"seed": 1, "batches": 0, "rank": 1, "world_size": 2})


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"batch_size": 0}, drillcore.InvalidArgumentError, "batch_size: expected a number of at least 1, not 0"),
        ({"ahead": 0}, drillcore.InvalidArgumentError, "ahead: expected a number from 1"),
        ({"threads": 0}, drillcore.InvalidArgumentError, "threads: expected a number from 1"),
        ({"columns": ["dely"]}, drillcore.NotFoundError, "dely.*delay"),
        ({"weight": "dely"}, drillcore.NotFoundError, "dely.*delay"),
        ({"where": "dely > 1"}, drillcore.NotFoundError, "dely.*delay"),
        ({"between": (9, 1)}, drillcore.InvalidArgumentError, "between"),
        ({"closed": "open"}, drillcore.InvalidArgumentError, "closed"),
    ],
    ids=str,
)
def test_bad_arguments_are_errors_where_they_are_given(
    path: Path, given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """Not later, in a worker, where the loader wraps them in its own."""
    with pytest.raises(kind, match=message):
        SampleDataset(path, "flights", given.pop("batch_size", 8), **given)


def test_the_example_runs_and_learns() -> None:
    example = Path(__file__).parents[1] / "examples" / "training.py"
    command = [sys.executable, str(example), "--steps", "50", "--rows", "20000", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    errors = [float(line.split("mean error ")[1].split(",")[0]) for line in done.stdout.splitlines()]
    assert len(errors) == 5
    # That of a model that has learned nothing is 0.5.
    assert errors[-1] < 0.3
