"""The databases of one ``load()``, open at one moment each in the driver's process, and the tasks that read them."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import secrets
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes, shown, unknown_name
from drillcore.arrow.cells import to_array
from drillcore.arrow.type_names import type_name
from drillcore.errors import InvalidArgumentError
from drillcore.spark.asking import on_cluster, one_by_one
from drillcore.spark.collection import Shape, read_collection, schema_difference
from drillcore.spark.held import HeldDatabase, NoDatabase
from drillcore.spark.options import ReadOptions
from drillcore.spark.sampling import Task, sample_tasks
from drillcore.values import NULL


class Load:
    """What one ``load()`` reads."""

    def __init__(
        self, options: ReadOptions, schema: pa.Schema, databases: list[HeldDatabase | NoDatabase], merges: list[str]
    ) -> None:
        self.options = options
        self.schema = schema
        self.databases = databases
        self.merges = merges
        """The merge policy of each database's table."""
        self.seed = secrets.randbits(64)
        """The seed of a sample that was given none: all actions see the same rows."""
        self._plans: dict[tuple[str, ...], list[Task]] = {}
        self._planning = threading.Lock()

    @property
    def paths(self) -> list[str]:
        """The directories of the databases."""
        return [each.path for each in self.databases]

    @property
    def is_plain(self) -> bool:
        """Whether indexes know the sizes of splits; those of others have to be read."""
        return self.options.where is None and "upsert" not in self.merges

    def plan(self, filters: Sequence[str]) -> list[Task]:
        """Return the tasks of the load, the same ones at every call.

        Raises
        ------
        InvalidArgumentError
            If other filters were pushed down before.
        """
        with self._planning:
            pushed = tuple(filters)
            if self._plans and pushed not in self._plans:
                # Spark 4 keeps one plan per load(), so the filters of one query would be those of the other, too.
                raise InvalidArgumentError(
                    f"push_filters: this load() was planned with {_filters(next(iter(self._plans)))}, and is now asked "
                    f"for {_filters(pushed)}; load() again for each query, or leave out push_filters"
                )
            if pushed not in self._plans:
                self._plans[pushed] = self._planned(filters)
            return self._plans[pushed]

    def splits(self, filters: Sequence[str] = ()) -> list[list[Any]]:
        """Return the splits of each database, which depend on its moment and on ``split_rows`` alone."""
        options = self.options
        where = " and ".join(f"({each})" for each in [options.where, *filters] if each) or None
        made = []
        for each in self.databases:
            table = each.table(options.table)
            between = _ends(options.between, table.schema, table.key)
            of_set = None if options.set is None else _sets(options.set, table.schema, table._set_column)
            rows = table.count(between=between, closed=options.closed, set=of_set)
            parts = max(1, -(-rows // options.split_rows))
            given = {"between": between, "closed": options.closed, "set": of_set, "where": where}
            made.append(each.splits(options.table, parts, **given))
        return made

    def close(self) -> None:
        """Give up the moment: files that only it needs may go."""
        with self._planning:
            self._plans.clear()
        for each in self.databases:
            each.close()

    def _planned(self, filters: Sequence[str]) -> list[Task]:
        splits = [split for of_database in self.splits(filters) for split in of_database]
        names = self.schema.names
        sample = self.options.sample
        if sample is None:
            return [Task(split, names) for split in splits]
        each = one_by_one if self.is_plain else on_cluster
        return sample_tasks(splits, names, sample, self.seed, each=each, is_plain=self.is_plain)


def open_load(options: ReadOptions) -> Load:
    """Open the databases of a ``load()`` for reading, each at its newest commit.

    Raises
    ------
    InvalidArgumentError
        If their tables have different columns, or an option does not fit them.
    NotFoundError
        If there is no such database, table or column.
    """
    members = [member for path in options.paths for member in _members(path)]
    _check_different([path for path, _ in members])
    with ExitStack() as opened:
        databases: list[HeldDatabase | NoDatabase] = []
        for path, shape in members:
            databases.append(HeldDatabase(path) if shape is None else NoDatabase(path, shape))
            opened.callback(databases[-1].close)
        load = _checked(options, databases)
        opened.pop_all()
    return load


def load_beside(load: Load, options: ReadOptions) -> Load:
    """Return what other options read of the databases of a load, at its moment; only the first is to be closed.

    Raises
    ------
    InvalidArgumentError, NotFoundError
        As :func:`open_load`.
    """
    return _checked(options, load.databases)


def _checked(options: ReadOptions, databases: list[HeldDatabase | NoDatabase]) -> Load:
    tables = _tables(options, databases)
    schema = _union(tables)
    columns = schema.names if options.columns is None else options.columns
    for name in columns:
        if name not in schema.names:
            raise unknown_name("column", name, schema.names)
    _check_alike(options, databases, tables)
    _check_options(options, tables[0])
    columns_read = pa.schema([schema.field(name) for name in columns])
    return Load(options, columns_read, databases, [table.merge for table in tables])


def _members(path: str) -> list[tuple[str, Shape | None]]:
    """The databases of a path: itself, or those of the collection that it is; of one without any, its shape."""
    path = absolute(path)
    collection = read_collection(path)
    if collection is None:
        return [(path, None)]
    if not collection.members:
        return [(path, collection.shape)]
    return [(os.path.join(path, member.path), None) for member in collection.members]


def _check_different(paths: Sequence[str]) -> None:
    """Check that no directory is read twice, under whatever names."""
    seen: dict[str, str] = {}
    for path in paths:
        real = path if "://" in path else os.path.realpath(path)
        if real in seen:
            names = (
                shown(path) if path == seen[real] else f"{shown(seen[real])} and {shown(path)} are one directory, which"
            )
            raise InvalidArgumentError(f"path: {names} is listed twice, so its rows would count twice; remove one")
        seen[real] = path


def absolute(path: str) -> str:
    """Return a path that means the same in every process; those with a scheme already do."""
    return path if "://" in path else os.path.abspath(path)


def _tables(options: ReadOptions, databases: Sequence[HeldDatabase | NoDatabase]) -> list[Any]:
    """The table of each database, if all have the same columns."""
    tables = [each.table(options.table) for each in databases]
    for each, table in zip(databases, tables, strict=True):
        difference = schema_difference(tables[0].schema, table.schema, repr(databases[0].path), repr(each.path))
        if difference is not None:
            raise InvalidArgumentError(
                f"table {in_quotes(options.table)} differs between the databases: {difference}; read them one by one, "
                "or alter one of the tables"
            )
    return tables


def _union(tables: Sequence[Any]) -> pa.Schema:
    """The columns of the first table; nullable where those of any are."""
    fields = []
    for field in tables[0].schema:
        is_nullable = any(table.schema.field(field.name).nullable for table in tables)
        fields.append(field.with_nullable(is_nullable))
    return pa.schema(fields)


def _check_alike(options: ReadOptions, databases: Sequence[HeldDatabase | NoDatabase], tables: Sequence[Any]) -> None:
    """Check that an option means the same in all tables."""
    weight = None if options.sample is None else options.sample.weight
    for each, table in zip(databases, tables, strict=True):
        for option, name, of_first, of_this in (
            (options.between, "key", tables[0].key, table.key),
            (options.set, "set", tables[0]._set_column, table._set_column),
        ):
            if option is not None and of_first != of_this:
                raise InvalidArgumentError(
                    f"{'between' if name == 'key' else 'set'}: table {in_quotes(options.table)} has the {name} "
                    f"{shown(of_first)} in {in_quotes(databases[0].path)} and {shown(of_this)} in "
                    f"{in_quotes(each.path)}, so the option would mean other rows; read them one by one, or use where"
                )
        if weight is not None and weight in tables[0].weights and weight not in table.weights:
            raise InvalidArgumentError(
                f'weight: "{weight}" is a weight of table {in_quotes(options.table)} in {in_quotes(databases[0].path)} '
                f"and not in {in_quotes(each.path)}; sample them one by one"
            )


def _check_options(options: ReadOptions, table: Any) -> None:
    """Have the first table refuse what its methods refuse, at the driver, before a task runs."""
    between = _ends(options.between, table.schema, table.key)
    of_set = None if options.set is None else _sets(options.set, table.schema, table._set_column)
    given = {"between": between, "closed": options.closed, "set": of_set, "where": options.where}
    table.scan(**given)
    weight = None if options.sample is None else options.sample.weight
    if weight is not None:
        table.sample(0, weight=weight, **given)


def _filters(pushed: tuple[str, ...]) -> str:
    return " and ".join(pushed) if pushed else "no filter"


def _ends(between: Any, schema: pa.Schema, key: Sequence[str]) -> Any:
    """The ends of a key range from JSON, whose strings may be dates and times."""
    if between is None:
        return None
    fields = [schema.field(name) for name in key]

    def end(value: Any) -> Any:
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        if len(values) > len(fields):
            raise InvalidArgumentError(f"between: {shown(value)} has more values than the key {list(key)}")
        return tuple(_cell("between", each, field) for each, field in zip(values, fields, strict=False))

    return end(between[0]), end(between[1])


def _sets(names: list[Any], schema: pa.Schema, column: str | None) -> list[Any]:
    if column is None:
        return names  # The table refuses it.
    return [NULL if name is None or name is NULL else _cell("set", name, schema.field(column)) for name in names]


def _cell(option: str, value: Any, field: pa.Field) -> Any:
    """A value of JSON as one of a column."""
    is_a = pa.types
    try:
        if isinstance(value, str) and is_a.is_date(field.type):
            return dt.date.fromisoformat(value)
        if isinstance(value, str) and is_a.is_timestamp(field.type):
            return dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, str | int) and is_a.is_decimal(field.type):
            return decimal.Decimal(value)
        if isinstance(value, int) and is_a.is_floating(field.type):
            return float(value)
    except (ValueError, decimal.InvalidOperation):
        is_number = is_a.is_decimal(field.type)
        what, written = ("number", '"0.50"') if is_number else ("time", '"2013-07-04" or "2013-07-04T09:00:00Z"')
        raise InvalidArgumentError(
            f'{option}: column "{field.name}" has type {type_name(field.type)}, but {shown(value)} is not a {what}; '
            f"write it as {written}"
        ) from None
    to_array([value], field)
    return value
