"""Prioritised replay: a model trains on random batches of a table while another thread adds rows to it.

    pip install 'drillcore[torch]'
    python python/examples/training.py --steps 300

An agent's thread adds transitions one by one. The trainer draws batches in proportion to a priority, which it then
sets to what the model got wrong about each row. Draws see the newest priorities and rows, and the loss corrects for
them.
"""

import argparse
import tempfile
import threading
import time

import pyarrow as pa
import torch
from torch.utils.data import DataLoader

import drillcore
from drillcore.torch import SampleDataset

SCHEMA = {"id": "int64", "x": "float32", "y": "float32", "priority": "float64"}
BATCH_ROWS = 256


def observed(first: int, rows: int) -> dict[str, torch.Tensor]:
    """Rows of a curve with a narrow peak, which few rows show."""
    generator = torch.Generator().manual_seed(first)
    x = torch.rand(rows, generator=generator) * 2 - 1
    y = x + 3 * torch.exp(-(((x - 0.9) / 0.02) ** 2))
    return {"x": x, "y": y}


def act(replay: drillcore.Table, first: int, stop: threading.Event) -> None:
    """Add transitions one by one until the training ends, each at a high priority, so that it is soon drawn."""
    with replay.writer() as writer:
        while not stop.is_set():
            rows = observed(first, 100)
            for id, x, y in zip(range(first, first + 100), rows["x"].tolist(), rows["y"].tolist(), strict=True):
                writer.add({"id": id, "x": x, "y": y, "priority": 1.0})
            first += 100
            time.sleep(0.01)


def train(replay: drillcore.Table, path: str, steps: int, workers: int) -> None:
    """Train on weighted batches, and set the priority of each row that was drawn."""
    torch.manual_seed(1)
    # For so small a model, threads wait for each other more than they compute.
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU())
    model.append(torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    dataset = SampleDataset(path, "replay", BATCH_ROWS, weight="priority", replace=True)
    batches = iter(DataLoader(dataset, batch_size=None, num_workers=workers))
    test = observed(-1, 20_000)
    started = time.perf_counter()
    for step in range(1, steps + 1):
        batch = next(batches)
        errors = model(batch["x"][:, None])[:, 0] - batch["y"]
        # Rows drawn more often count less, so that the loss is that of all rows but for a factor.
        corrections = (1 / batch["priority"]).float()
        loss = (corrections / corrections.max() * errors**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # Only this column changes. A row may be drawn twice in a batch; its last priority stays.
        priorities = errors.detach().abs().double() + 0.01
        replay.update(pa.table({"id": batch["id"].numpy(), "priority": priorities.numpy()}))
        if step % max(1, steps // 5) == 0:
            with torch.no_grad():
                wrong = (model(test["x"][:, None])[:, 0] - test["y"]).abs().mean()
            rate = step * BATCH_ROWS / (time.perf_counter() - started)
            print(f"step {step}: mean error {wrong:.3f}, {len(replay):,} rows, {rate:,.0f} samples/s", flush=True)


def main() -> None:
    """Fill a replay table, and train on it while rows arrive."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--rows", type=int, default=100_000, help="rows there are before the training")
    arguments.add_argument("--workers", type=int, default=0, help="processes that draw, beside this one")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, drillcore.open(folder) as db:
        replay = db.create_table("replay", SCHEMA, key="id", merge="upsert", weights="priority")
        rows = {name: column.numpy() for name, column in observed(0, given.rows).items()}
        replay.append(pa.table({"id": range(given.rows), **rows, "priority": [1.0] * given.rows}))
        stop = threading.Event()
        agent = threading.Thread(target=act, args=(replay, given.rows, stop))
        agent.start()
        try:
            train(replay, folder, given.steps, given.workers)
        finally:
            stop.set()
            agent.join()


if __name__ == "__main__":
    main()
