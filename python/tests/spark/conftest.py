"""One Spark session for all tests: two threads, no pages, few partitions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def _missing() -> str | None:
    """What to install for these tests."""
    if not find_spec("pyspark"):
        return "pyspark is not installed: pip install 'drillcore[spark]'"
    from drillcore.spark.java import missing_java

    return missing_java()


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests of the session are one group, which one process runs, so that only one starts it."""
    # pytest-xdist, which `make test` uses, starts the largest group first, and this one takes longest.
    if item.config.pluginmanager.hasplugin("xdist") and "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with the data source. A task that fails runs up to three times."""
    # Few need Spark, so neither Java nor pyspark (430 MB) is asked of those who run the other tests.
    if missing := _missing():
        pytest.skip(missing)
    from pyspark.sql import SparkSession

    from drillcore.spark import DrillcoreDataSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # Compiling less costs less than it saves in queries this small.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "OFF",
    }
    building = SparkSession.builder.master("local[2,3]").appName("drillcore")
    for name, value in settings.items():
        building = building.config(name, value)
    session = building.getOrCreate()
    session.dataSource.register(DrillcoreDataSource)
    yield session
    session.stop()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder that does not exist yet."""
    return str(tmp_path / "collection")
