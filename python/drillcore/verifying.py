"""What checking a database found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VerifyReport:
    """What :meth:`Database.verify <drillcore.database.Database.verify>` read, if it found no damage."""

    segments: int
    rows: int
    bytes: int
