"""What Spark's planning asks of the driver's own process.

Spark creates and plans a data source in worker processes that end when they like, so these cannot hold a lease. The
process of the driver's Python does: registering the data source starts a thread there that answers them, over a local
socket, if they have its key. It opens the databases of each ``load()`` once, at one moment, and keeps them until
:func:`drillcore.spark.release` or its end. Likewise it holds the marks of the jobs that it writes.
"""

from __future__ import annotations

import atexit
import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from drillcore.errors import ClosedError, Error, InternalError, UnsupportedError
from drillcore.spark.collection import Job, Member, Shape, begin_job
from drillcore.spark.load import Load, absolute, open_load
from drillcore.spark.options import ReadOptions

_PORT = "DRILLCORE_SPARK_PORT"
_KEY = "DRILLCORE_SPARK_KEY"
_BACKLOG = 128


class Driver:
    """The loads of this process, and the thread that answers about them."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = Listener(("127.0.0.1", 0), "AF_INET", backlog=_BACKLOG)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._loads: dict[str, Load] = {}
        self._jobs: dict[str, Job] = {}
        threading.Thread(target=self._accept, name="drillcore-spark-driver", daemon=True).start()
        # Leases of a process that just ends stay as files until a writer finds them, and a collection has no writer.
        atexit.register(self.close)

    def environment(self) -> dict[str, str]:
        """What planning workers find in their environment."""
        _, port = self._listener.address
        return {_PORT: str(port), _KEY: self._key.hex()}

    def open(self, options: ReadOptions) -> tuple[str, bytes]:
        """Open the databases of a ``load()``, and return its name and the schema, serialized."""
        load = open_load(options)
        with self._lock:
            name = f"{os.getpid()}-{next(self._numbers)}"
            self._loads[name] = load
        return name, load.schema.serialize().to_pybytes()

    def plan(self, name: str, filters: list[str]) -> list[Any]:
        """Return the tasks of a load."""
        return self.load(name).plan(filters)

    def load(self, name: str) -> Load:
        """Return a load that was not released."""
        with self._lock:
            load = self._loads.get(name)
        if load is None:
            raise ClosedError("the data frame was released by drillcore.spark.release(); load() it again")
        return load

    def begin(self, folder: str) -> tuple[str, str]:
        """Begin to write a job into a directory; return the directory, absolute, and the name of the job."""
        job = begin_job(absolute(folder))
        with self._lock:
            self._jobs[job.name] = job
        return job.folder, job.name

    def commit(self, name: str, shape: Shape, members: list[Member]) -> None:
        """Commit a job. It is done here, so it ends with the process that has the mark, and no sweep comes between."""
        with self._lock:
            job = self._jobs.get(name)
        if job is None:
            raise ClosedError("the job was committed or aborted before")
        job.commit(shape, members)
        with self._lock:
            self._jobs.pop(name, None)

    def abort(self, name: str) -> None:
        """Abort a job, unless it has ended."""
        with self._lock:
            job = self._jobs.pop(name, None)
        if job is not None:
            job.abort()

    def release(self, names: set[str]) -> int:
        """Close the databases of these loads, and return how many there were."""
        with self._lock:
            loads = [self._loads.pop(name) for name in names if name in self._loads]
        for load in loads:
            load.close()
        return len(loads)

    def close(self) -> None:
        """Release all loads."""
        with self._lock:
            names = set(self._loads)
        self.release(names)

    def _accept(self) -> None:
        while True:
            try:
                asking = self._listener.accept()
            except Exception:  # it left at once, or this process has as many files open as it may
                time.sleep(0.05)
                continue
            # One that never says anything must not keep the others waiting.
            threading.Thread(target=self._answer, args=(asking,), daemon=True).start()

    def _answer(self, asking: Connection[Any, Any]) -> None:
        with asking:
            try:
                deliver_challenge(asking, self._key)
                answer_challenge(asking, self._key)
                verb, *arguments = asking.recv()
                answers: dict[str, Callable[..., Any]] = {
                    "open": self.open,
                    "plan": self.plan,
                    "absolute": absolute,
                    "begin": self.begin,
                    "commit": self.commit,
                    "abort": self.abort,
                }
                try:
                    asking.send((True, answers[verb](*arguments)))
                except Error as error:
                    asking.send((False, error))
                except Exception as error:
                    asking.send((False, InternalError(f"{type(error).__name__}: {error}; please report this bug")))
            except (AuthenticationError, EOFError, OSError):
                pass  # it did not have the key, or ended


_driver: Driver | None = None
_starting = threading.Lock()


def driver() -> Driver:
    """Return the driver of this process; start it if there is none."""
    global _driver
    with _starting:
        if _driver is None:
            _driver = Driver()
        return _driver


def ask(verb: str, *arguments: Any) -> Any:
    """Have the driver's process do something, from a planning worker.

    Raises
    ------
    UnsupportedError
        If there is no such process: the session is one of Spark Connect, or the data source was registered elsewhere.
    """
    port, key = os.environ.get(_PORT), os.environ.get(_KEY)
    try:
        if port is None or key is None:
            raise ConnectionRefusedError
        asking = Client(("127.0.0.1", int(port)), "AF_INET", authkey=bytes.fromhex(key))
    except (AuthenticationError, EOFError, OSError):
        raise UnsupportedError(
            "the driver's process does not answer: call spark.dataSource.register(DrillcoreDataSource) in the process "
            "that made the session (Spark Connect is not supported yet)"
        ) from None
    with asking:
        try:
            asking.send((verb, *arguments))
            is_answer, answer = asking.recv()
        except (EOFError, OSError):
            raise ClosedError("the driver's process ended") from None
    if not is_answer:
        raise answer
    return answer
