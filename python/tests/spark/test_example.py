"""The example of three writers and a cluster starts where all that it needs is there, and says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "flights.py"

WITHOUT_PYSPARK = f"""
import runpy, sys
sys.modules["pyspark"] = None
sys.argv = [{str(EXAMPLE)!r}]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_without_pyspark_the_example_says_so_in_one_line() -> None:
    done = run("-c", WITHOUT_PYSPARK)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "pyspark 4.1 or later is not installed; run: pip install 'drillcore[spark]', and install Java 17 or later"
    ]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"JAVA_HOME": "", "PATH": "/nowhere"}, "Java is missing: install Java 17 or later"),
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME is '/nowhere', where there is no bin/java"),
    ],
    ids=["not installed", "not where it is said to be"],
)
def test_without_java_the_example_and_the_package_say_so_before_spark_does(
    environment: dict[str, str], message: str
) -> None:
    pytest.importorskip("pyspark")
    done = run(str(EXAMPLE), **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and message in done.stderr
    imported = run("-c", "import drillcore.spark", **environment)
    assert imported.returncode == 0 and f"RuntimeWarning: {message}" in imported.stderr
    # A worker, or what spark-submit starts, has been started by a Java.
    worker = run("-c", "import drillcore.spark", PYTHON_WORKER_FACTORY_SECRET="x", **environment)
    assert (worker.returncode, worker.stderr) == (0, "")
