"""Moments: which state of a database a reader shows, as a value that other processes can open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drillcore.arguments.figures import check_count
from drillcore.arguments.names import check_name, shown
from drillcore.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from typing_extensions import Self

    from drillcore._native import MomentTuple


@dataclass(frozen=True, slots=True, repr=False)
class Moment:
    """A state of a database, as :attr:`Database.moment <drillcore.database.Database.moment>` of a reader gives it.

    A moment is a pair of numbers, which can be hashed, pickled and written as JSON. It keeps no file: another process
    can open it for as long as a reader is open at it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> db = drillcore.open(folder.name)
    >>> t = db.create_table("t", {"id": "int64"}, key="id")
    >>> _ = t.append([{"id": 1}])
    >>> reader = drillcore.open(folder.name, read_only=True)
    >>> moment = reader.moment
    >>> _ = t.append([{"id": 2}])
    >>> db.flush()
    >>> with drillcore.open(folder.name, read_only=True, at=drillcore.Moment.from_json(moment.to_json())) as other:
    ...     len(other.table("t")), len(t), other.moment == moment
    (1, 2, True)
    >>> version, lsn = moment
    >>> lsn
    1
    """

    version: int
    """The version of the manifest, which lists tables and segments."""
    lsn: int
    """The newest commit that is shown."""
    _clock: int | None = None
    """By which time of day rows have expired, in seconds since 1970, where rows of some table expire."""
    _snapshot: str | None = None
    """The named snapshot that it is of, if it is of one."""
    _database: int | None = None
    """The random number of the database: another one in the same directory has other moments."""

    def __iter__(self) -> Iterator[int]:
        """Give the version and the LSN."""
        return iter((self.version, self.lsn))

    def __repr__(self) -> str:
        return f"Moment(version={self.version}, lsn={self.lsn})"

    def to_json(self) -> str:
        """Return the moment as a JSON object.

        Examples
        --------
        >>> drillcore.Moment(4294967297, 12).to_json()
        '{"version": 4294967297, "lsn": 12}'
        """
        # As text, since many readers of JSON round numbers of 128 bits.
        database = None if self._database is None else f"{self._database:032x}"
        parts = {
            "version": self.version,
            "lsn": self.lsn,
            "clock": self._clock,
            "snapshot": self._snapshot,
            "database": database,
        }
        return json.dumps({name: value for name, value in parts.items() if value is not None})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the moment that :meth:`to_json` wrote.

        Raises
        ------
        InvalidArgumentError
            If the text is something else.

        Examples
        --------
        >>> drillcore.Moment.from_json('{"version": 4294967297, "lsn": 12}')
        Moment(version=4294967297, lsn=12)
        """
        wrong = InvalidArgumentError(f"text: expected what Moment.to_json() returned, not {shown(text)}")
        try:
            parts = json.loads(text)
        except (TypeError, ValueError):
            raise wrong from None
        if not isinstance(parts, dict) or not {"version", "lsn"} <= parts.keys() <= _PARTS:
            raise wrong
        try:
            clock, snapshot, database = parts.get("clock"), parts.get("snapshot"), parts.get("database")
            return cls(
                check_count("version", parts["version"]),
                check_count("lsn", parts["lsn"]),
                None if clock is None else check_count("clock", clock),
                None if snapshot is None else check_name("snapshot", snapshot),
                None if database is None else _identity(database),
            )
        except (InvalidTypeError, InvalidArgumentError):
            raise wrong from None

    def _as_tuple(self) -> MomentTuple:
        return self.version, self.lsn, self._clock, self._snapshot, self._database


_PARTS = {"version", "lsn", "clock", "snapshot", "database"}


def _identity(text: object) -> int:
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{32}", text):
        raise InvalidArgumentError("database: expected 32 hexadecimal digits")
    return int(text, 16)


def check_at(at: Any) -> str | MomentTuple:
    """Return where to open a reader, in the form the native layer takes."""
    if isinstance(at, str):
        return check_name("at", at)
    if isinstance(at, Moment):
        return at._as_tuple()
    if not isinstance(at, tuple | list) or len(at) != 2:
        raise InvalidTypeError(
            f"at: expected a drillcore.Moment, a pair (version, lsn), or the name of a snapshot, not {shown(at)}"
        )
    return check_count("at: version", at[0]), check_count("at: lsn", at[1]), None, None, None
