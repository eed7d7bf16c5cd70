"""Whether Spark will find Java, which it says only in a page of its own when it has tried."""

from __future__ import annotations

import os
import shutil
import sys

_WANTED = "install Java 17 or later, such as by: apt-get install openjdk-17-jre-headless"


def missing_java() -> str | None:
    """Return what to do if Spark would not find Java.

    It looks in ``JAVA_HOME`` if that is set, and else in ``PATH``. Nothing is started, so a Java that is too old is not
    noticed.
    """
    home = os.environ.get("JAVA_HOME")
    if not home:
        return None if shutil.which("java") else f"Java is missing: {_WANTED}"
    if shutil.which(os.path.join(home, "bin", "java")):
        return None
    return f"JAVA_HOME is {home!r}, where there is no bin/java: set it to where Java is, or unset it and {_WANTED}"


def started_by_java() -> bool:
    """Whether this process is one that Spark started, which has Java: a worker, or a driver of spark-submit."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)


def has_session() -> bool:
    """Whether Spark runs already."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return context is not None and context._gateway is not None
