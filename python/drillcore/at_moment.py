"""What a reader gives to others that read the same moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drillcore.arguments.names import check_name, in_quotes, shown
from drillcore.errors import InvalidArgumentError, InvalidTypeError
from drillcore.moment import Moment
from drillcore.splits import Split, split_up
from drillcore.values import Bounds

if TYPE_CHECKING:
    from drillcore import _native


class AtMoment:
    """Moments and splits of a database opened with ``read_only=True``."""

    _native: _native.Database
    _directory: str

    @property
    def moment(self) -> Moment:
        """What this reader shows, for other processes that open the database ``at`` it.

        Only with ``read_only=True``. Others can open it for as long as some reader is open at it; this reader is, until
        it is refreshed, closed or ends. It names the database by a random number, so one that is made anew in the same
        directory does not have it. With tables whose rows expire, it has the time of day as of the call.

        Raises
        ------
        UnsupportedError
            If the database is open for writing.
        """
        parts, _ = self._native.snapshot_with_moment()
        return Moment(*parts)

    def splits(
        self,
        table: str,
        n: int,
        *,
        between: Bounds | None = None,
        closed: str = "both",
        set: Any = None,
        where: str | None = None,
    ) -> list[Split]:
        """Share a selection between up to ``n`` splits, which any process can read at this moment.

        Only with ``read_only=True``. Splits are key ranges, in key order: one after the other, they give what a scan of
        the selection gives. They have about equal numbers of rows, as far as rows with one key, which stay together,
        allow it. In upsert and rollup tables these are rows as they were appended, and with a ``where`` that indexes do
        not answer, rows that it has yet to test; so there may be splits without rows then. An empty selection has no
        splits.

        The splits are those of this moment, whether or not this reader moves on: a reader of their own, which all
        splits at the moment share in a process, holds it until the last of them goes. The moment and ``n`` decide
        where the splits lie.

        Costs 16 reads of a key for each split, and a page of the index and a block for each end in each segment; and
        the opening of a reader at the moment.

        Parameters
        ----------
        table
            Name of the table.
        n
            Number of splits at most.
        between, closed, set, where
            What to share; see :class:`~drillcore.reads.Reads`.

        Raises
        ------
        NotFoundError
            If there is no table of that name.
        UnsupportedError
            If the database is open for writing.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> db = drillcore.open(folder.name)
        >>> t = db.create_table("t", {"id": "int64"}, key="id")
        >>> _ = t.append([{"id": i} for i in range(900)])
        >>> with drillcore.open(folder.name, read_only=True) as reader:
        ...     splits = reader.splits("t", 3, where="id < 600")
        >>> [split.rows for split in splits]
        [200, 200, 200]
        >>> splits[1].scan(columns=["id"], limit=2).arrow().to_pydict()
        {'id': [200, 201]}
        """
        check_name("table", table)
        return split_up(self._directory, self._native, table, n, between=between, closed=closed, set=set, where=where)

    def bind(self, split: Split) -> Split:
        """Return a split that is read by this reader, which must be at its moment.

        A reader that was opened ``at`` the moment draws the same rows for a seed as the split does by itself; one
        that has come to it by refreshes may draw others, as random. Close this reader whenever you like: the split
        goes on.

        Raises
        ------
        InvalidArgumentError
            If the split is of another directory or moment.
        """
        if not isinstance(split, Split):
            raise InvalidTypeError(f"split: expected a drillcore.Split, not {shown(split)}")
        parts, snapshot = self._native.snapshot_with_moment()
        if (split.path, split.moment) != (self._directory, Moment(*parts)):
            raise InvalidArgumentError(
                f"split: it is of {in_quotes(split.path)} at {split.moment}, but this reader of "
                f"{in_quotes(self._directory)} is at {Moment(*parts)}; open one at split.moment"
            )
        return split._to(snapshot.table(split.table))
