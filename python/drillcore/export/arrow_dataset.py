"""Tables as datasets of pyarrow: DuckDB says which columns and conditions it needs, and only these are read.

DuckDB hands over a condition as an expression of pyarrow, which can be looked at only as text. So what the text is
taken for is built anew, and only if that equals the condition does it become the ``where`` of a scan. The rows are
tested once more with the condition itself: what is not understood costs time and changes no answer.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

from drillcore.errors import InvalidArgumentError, UnsupportedError
from drillcore.export.lazy import in_sql, quoted
from drillcore.rows import Rows

Scan = Callable[[list[str] | None, str | None, int | None], Rows]
"""Reads columns, under a condition in SQL, up to a number of rows."""

_COMPARISONS = {
    "==": ("=", operator.eq),
    "!=": ("<>", operator.ne),
    "<=": ("<=", operator.le),
    ">=": (">=", operator.ge),
    "<": ("<", operator.lt),
    ">": (">", operator.gt),
}
_LISTED = re.compile(
    r"(?:if_else\(is_valid\((?P<checked>\w+)\), )?is_in\((?P<name>\w+), \{value_set=\w+:\[\n(?P<values>.*?)\n\], "
    r"null_matching_behavior=MATCH\}\)(?(checked), null\[bool\]\))",
    re.DOTALL,
)
_COMPARED = re.compile(r"\((\w+) (==|!=|<=|>=|<|>) (\"(?:[^\"\\]|\\.)*\"|[^()\s]+(?: [0-9:.]+Z?)?)\)")
_IS_NULL = re.compile(r"is_null\((\w+), \{nan_is_null=false\}\)")
_IS_VALID = re.compile(r"is_valid\((\w+)\)")


class TableDataset(ds.FileSystemDataset):  # type: ignore[misc, unused-ignore]
    """A table as of one moment, as a dataset that DuckDB reads what it needs of.

    It can be scanned any number of times, by its own methods, and ``pyarrow.dataset.write_dataset`` writes it. Joins
    and sorts of datasets, which are pyarrow's own, are refused: they would read all rows, and only once.
    """

    def __init__(self, schema: pa.Schema, scan: Scan, condition: pc.Expression | None = None) -> None:
        # Its own methods read the table. What reads the files of a dataset finds one that says what to do instead.
        file_format, filesystem = ds.IpcFileFormat(), fs.PyFileSystem(_Refusing())
        fragment = file_format.make_fragment("table", filesystem=filesystem)
        super().__init__([fragment], schema, file_format, filesystem=filesystem)
        self._table_schema = schema
        self._scan = scan
        self._condition = condition

    @property
    def schema(self) -> pa.Schema:
        """Columns."""
        return self._table_schema

    def scanner(self, columns: Any = None, filter: pc.Expression | None = None, **options: Any) -> Any:
        """Return a scanner of these columns over the matching rows; options of pyarrow's own scans are ignored.

        With ``use_threads`` alone, as :func:`pyarrow.dataset.write_dataset` asks for it, it is a scanner of pyarrow,
        which reads once.
        """
        if columns is None and filter is None and options.keys() == {"use_threads"}:
            whole = _Scanner(self._table_schema, self._scan, None, self._condition)
            return ds.Scanner.from_batches(whole.to_reader(), use_threads=options["use_threads"])
        if columns is not None and not isinstance(columns, list | tuple):
            raise InvalidArgumentError("columns: expected a list of names; other projections are not supported")
        condition = self._condition
        if filter is not None:
            condition = filter if condition is None else condition & filter
        return _Scanner(self._table_schema, self._scan, None if columns is None else list(columns), condition)

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return the same rows, but only those that pass; nothing is read yet."""
        condition = expression if self._condition is None else self._condition & expression
        return TableDataset(self._table_schema, self._scan, condition)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Read all rows, and return those at some positions."""
        return self.to_table(**options).take(indices)

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:
        """Raise `UnsupportedError`: the dataset has no fragments."""
        raise UnsupportedError(_ADVICE)

    def to_table(self, *args: Any, **options: Any) -> pa.Table:
        """Read all rows; see :meth:`scanner`."""
        return self.scanner(*args, **options).to_table()

    def to_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Read batch by batch; see :meth:`scanner`."""
        return self.scanner(*args, **options).to_batches()

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """Count the rows that pass."""
        return int(self.scanner(columns=[self._table_schema.names[0]], filter=filter, **options).count_rows())

    def head(self, num_rows: int, *args: Any, **options: Any) -> pa.Table:
        """Read the first rows; see :meth:`scanner`."""
        return self.scanner(*args, **options).head(num_rows)

    def __reduce__(self) -> Any:
        raise TypeError("a dataset of a table cannot be pickled; open the database where it is needed")


_ADVICE = (
    "pyarrow reads the dataset of a table by its scanner, to_table, to_batches, count_rows, head, take and filter; for "
    "anything else take its to_table(), or the table's scan().arrow()"
)


def _refuse(*_arguments: Any) -> Any:
    raise UnsupportedError(_ADVICE)


_Refusing = type("_Refusing", (fs.FileSystemHandler,), dict.fromkeys(fs.FileSystemHandler.__abstractmethods__, _refuse))
"""A file system without a file that can be read."""


class _Scanner:
    """A scan of a :class:`TableDataset` that has not begun."""

    def __init__(
        self, schema: pa.Schema, scan: Scan, columns: list[str] | None, condition: pc.Expression | None
    ) -> None:
        self._schema, self._scan = schema, scan
        self._columns = schema.names if columns is None else columns
        self._condition = condition
        self.dataset_schema = schema
        self.projected_schema = pa.schema([schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return self._batches(None)

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self.to_batches())

    def head(self, num_rows: int) -> pa.Table:
        limit = num_rows if self._condition is None else None
        table = pa.Table.from_batches(self._batches(limit), self.projected_schema)
        return table.slice(0, num_rows)

    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        if self._condition is None:
            yield from self._scan(self._columns, None, limit).batches()
            return
        where, text = pushed_condition(self._condition, self._schema), str(self._condition)
        # The condition may need columns that are not asked for: at most those that its text has somewhere.
        needed = [name for name in self._schema.names if name in text or not re.fullmatch(r"[\w ]+", name)]
        columns = list(dict.fromkeys([*self._columns, *needed]))
        for batch in self._scan(columns, where, limit).batches():
            rows = pa.Table.from_batches([batch]).filter(self._condition).select(self._columns)
            yield from rows.to_batches()


def pushed_condition(condition: pc.Expression, schema: pa.Schema) -> str | None:
    """Return ``condition`` in SQL; ``None`` if it is not understood.

    Examples
    --------
    >>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    >>> pushed_condition((pc.field("id") > 3) & pc.field("name").isin(["a", "b"]), schema)
    '("id" > 3 and "name" in (\\'a\\', \\'b\\'))'
    >>> pushed_condition(pc.field("id") + 1 > 3, schema) is None
    True
    """
    try:
        sql, built, rest = _condition(str(condition), schema)
        return sql if not rest and built.equals(condition) else None
    except (ValueError, LookupError, ArithmeticError, pa.ArrowException):
        return None


def _condition(text: str, schema: pa.Schema) -> tuple[str, pc.Expression, str]:
    """The condition that ``text`` begins with, in SQL and built anew, and the rest of the text."""
    if match := _LISTED.match(text):
        return *_listed(match, schema), text[match.end() :]
    if match := _COMPARED.match(text):
        name, op, literal = match.groups()
        value = _value(literal, schema.field(name).type)
        sql, compare = _COMPARISONS[op]
        built = compare(pc.field(name), pa.scalar(value, schema.field(name).type))
        return f"{quoted(name)} {sql} {_in_sql(value, schema.field(name).type)}", built, text[match.end() :]
    if match := _IS_NULL.match(text):
        return f"{quoted(match[1])} is null", pc.field(match[1]).is_null(), text[match.end() :]
    if match := _IS_VALID.match(text):
        return f"{quoted(match[1])} is not null", pc.field(match[1]).is_valid(), text[match.end() :]
    if not text.startswith("("):
        raise ValueError(text)
    left, left_built, rest = _condition(text[1:], schema)
    for joint, join in ((" and ", operator.and_), (" or ", operator.or_)):
        if rest.startswith(joint):
            right, right_built, rest = _condition(rest[len(joint) :], schema)
            if rest.startswith(")"):
                return f"({left}{joint}{right})", join(left_built, right_built), rest[1:]
    raise ValueError(text)


def _listed(match: re.Match[str], schema: pa.Schema) -> tuple[str, pc.Expression]:
    name, kind = match["name"], schema.field(match["name"]).type
    texts = [text.strip().removesuffix(",") for text in match["values"].split("\n")]
    values = [_value(text, kind) for text in texts]
    built = pc.field(name).isin(pa.array(values, kind))
    if match["checked"]:
        built = pc.if_else(pc.field(match["checked"]).is_valid(), built, pa.scalar(None, pa.bool_()))
    return f"{quoted(name)} in ({', '.join(_in_sql(value, kind) for value in values)})", built


def _in_sql(value: Any, kind: pa.DataType) -> str:
    text = in_sql(value, kind)
    if text is None:
        raise ValueError(value)
    return text


def _value(text: str, kind: pa.DataType) -> Any:
    """The value that pyarrow shows as ``text``."""
    is_a = pa.types
    if is_a.is_string(kind) and text.startswith('"') and text.endswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if is_a.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if is_a.is_integer(kind):
        return int(text)
    if is_a.is_float64(kind):
        return float(text)
    if is_a.is_date32(kind):
        return dt.date.fromisoformat(text)
    if is_a.is_timestamp(kind):
        value = dt.datetime.fromisoformat(text.removesuffix("Z"))
        return value if kind.tz is None else value.replace(tzinfo=dt.timezone.utc)
    raise ValueError(text)
