"""A task that stalls and is run a second time beside the first: the same rows, each once.

Spark has no two attempts of a task on one host, so this has a cluster of its own: a master and two workers, on two
addresses of this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark")

import drillcore  # noqa: E402
from drillcore.spark.collection import read_collection  # noqa: E402

ROWS = 600
JAVA = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for_port(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("the master did not start")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    if shutil.which("java") is None:
        pytest.skip("Java 17 or later is missing: apt-get install openjdk-17-jre-headless")
    try:
        for host in ("127.0.0.2", "127.0.0.3"):
            socket.create_server((host, 0)).close()
    except OSError:
        pytest.skip("127.0.0.2 and 127.0.0.3 are no addresses of this machine, so there are no two hosts")
    folder = tmp_path_factory.mktemp("cluster")
    home = os.path.dirname(pyspark.__file__)
    version = next(Path(home, "jars").glob("scala-library-*.jar")).stem.removeprefix("scala-library-")
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_SCALA_VERSION": ".".join(version.split(".")[:2])}
    port = free_port()
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *arguments: str) -> None:
        command = ["java", "-cp", os.path.join(home, "jars", "*"), *JAVA, f"org.apache.spark.deploy.{kind}", *arguments]
        with open(folder / f"{len(started)}.log", "wb") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    try:
        start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_for_port(port)
        url = f"spark://127.0.0.1:{port}"
        for host in ("127.0.0.2", "127.0.0.3"):
            where = ["--host", host, "--webui-port", "0", "--work-dir", str(folder / host)]
            start("worker.Worker", *where, "--cores", "1", "--memory", "1g", url)
        yield url
    finally:
        for each in reversed(started):
            each.terminate()
        for each in started:
            each.wait()


def test_a_speculative_attempt_gives_the_same_rows_and_writes_them_once(master: str, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.drill", "b.drill")]
    for at, path in enumerate(paths):
        with drillcore.open(path) as db:
            t = db.create_table("t", {"id": "int64", "w": "int64"}, key="id", weights="w")
            t.append([{"id": ROWS * at + i, "w": i % 5} for i in range(ROWS)])
    script = Path(__file__).with_name("speculating.py")
    ran = subprocess.run(
        [sys.executable, str(script), master, ",".join(paths), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=170,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    saw: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    # The first attempt was still stalled when the second one had drawn the same rows.
    assert saw["seconds"] < 100
    assert (tmp_path / "1-1").read_text() == (tmp_path / "1-0").read_text()
    collection = read_collection(str(tmp_path / "made"))
    assert collection is not None
    ids: list[int] = []
    for member in collection.members:
        with drillcore.open(tmp_path / "made" / member.path, read_only=True) as db:
            ids += db.table("t").scan().arrow().column("id").to_pylist()
    assert sorted(ids) == saw["drawn"] and len(set(ids)) == 300
    # The attempt that lost is not read, and its database went with the commit.
    there = {str(path.relative_to(tmp_path / "made")) for path in (tmp_path / "made").glob("jobs/*/*.drill")}
    assert there == {member.path for member in collection.members}
