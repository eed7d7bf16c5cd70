"""Databases and tables the tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from events import event_rows, event_schema

import drillcore


@pytest.fixture(params=[":memory:", "disk"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[drillcore.Database]:
    """A database, in memory and on disk in turn."""
    with drillcore.open(request.param if request.param == ":memory:" else tmp_path / "test.drill") as db:
        yield db


@pytest.fixture
def events(database: drillcore.Database) -> drillcore.Table:
    """1,000 events, one a minute, each of four sets in turn (the last without a name)."""
    table = database.create_table("events", event_schema(), key=["ts", "flight"], set="carrier")
    table.append(event_rows(0, 1000))
    return table
