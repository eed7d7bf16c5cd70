"""Drillcore on Apache Spark. Needs ``drillcore[spark]`` and Java 17 or later.

.. code-block:: python

    import drillcore.spark

    spark.dataSource.register(drillcore.spark.DrillcoreDataSource)
    both = {"path": "a.drill,b.drill", "table": "flights"}
    flights = spark.read.format("drillcore").options(**both).load()       # at one moment
    drawn = spark.read.format("drillcore").options(**both, sample=100_000, seed=7).load()
    drillcore.spark.estimate(spark, ["a.drill", "b.drill"], "flights", "avg(delay)", by="carrier")
    drillcore.spark.release(flights)
"""

import warnings

from drillcore.errors import MissingPackageError
from drillcore.spark.java import has_session, missing_java, started_by_java

try:
    import numpy  # noqa: F401
    from pyspark.sql.datasource import Filter  # noqa: F401  # since 4.1
except ImportError:
    raise MissingPackageError(
        "pyspark 4.1 or later is not installed; run: pip install 'drillcore[spark]', and install Java 17 or later"
    ) from None

if not started_by_java() and not has_session() and (missing := missing_java()) is not None:
    # No error: a session of another machine needs none here.
    warnings.warn(missing, RuntimeWarning, stacklevel=2)

from drillcore.spark.collection import sweep
from drillcore.spark.data_source import DrillcoreDataSource
from drillcore.spark.estimating import UnionEstimate, estimate
from drillcore.spark.releasing import release

__all__ = ["DrillcoreDataSource", "UnionEstimate", "estimate", "release", "sweep"]
