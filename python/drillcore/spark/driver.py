"""What Spark's planning asks of the driver's own process.

Spark creates and plans a data source in worker processes that end when they like, so these cannot hold a lease. The
process of the driver's Python does: registering the data source starts a thread there that answers them, over a local
socket, if they have its key. It opens the databases of each ``load()`` once, at one moment, and keeps them until
:func:`drillcore.spark.release` or its end.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from drillcore.errors import ClosedError, Error, InternalError, UnsupportedError
from drillcore.spark.load import Load, open_load
from drillcore.spark.options import ReadOptions

_PORT = "DRILLCORE_SPARK_PORT"
_KEY = "DRILLCORE_SPARK_KEY"


class Driver:
    """The loads of this process, and the thread that answers about them."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = Listener(("127.0.0.1", 0), "AF_INET", authkey=self._key)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._loads: dict[str, Load] = {}
        threading.Thread(target=self._accept, name="drillcore-spark-driver", daemon=True).start()

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

    def release(self, names: set[str]) -> int:
        """Close the databases of these loads, and return how many there were."""
        with self._lock:
            loads = [self._loads.pop(name) for name in names if name in self._loads]
        for load in loads:
            load.close()
        return len(loads)

    def _accept(self) -> None:
        while True:
            try:
                asking = self._listener.accept()
            except Exception:  # one that did not have the key, or left at once
                continue
            threading.Thread(target=self._answer, args=(asking,), daemon=True).start()

    def _answer(self, asking: Connection[Any, Any]) -> None:
        with asking:
            try:
                verb, *arguments = asking.recv()
                answers: dict[str, Callable[..., Any]] = {"open": self.open, "plan": self.plan}
                try:
                    asking.send((True, answers[verb](*arguments)))
                except Error as error:
                    asking.send((False, error))
                except Exception as error:
                    asking.send((False, InternalError(f"{type(error).__name__}: {error}; please report this bug")))
            except (EOFError, OSError):
                pass  # it ended


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
            raise ConnectionError
        asking = Client(("127.0.0.1", int(port)), "AF_INET", authkey=bytes.fromhex(key))
    except ConnectionError:
        raise UnsupportedError(
            "no process holds the databases at one moment: call spark.dataSource.register(DrillcoreDataSource) in the "
            "process that made the session (Spark Connect is not supported yet)"
        ) from None
    with asking:
        asking.send((verb, *arguments))
        try:
            is_answer, answer = asking.recv()
        except EOFError:
            raise ClosedError("the driver's process ended") from None
    if not is_answer:
        raise answer
    return answer
