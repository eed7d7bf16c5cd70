"""Random rows and random queries, each as two engines spell it.

Values are few and odd, so that they meet: NaN of both signs, both zeros, infinities, the ends of the integers, decimals
of few and many digits, the empty and a long string, and times before 1970 and beyond 2262.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa


class Sql(NamedTuple):
    """A text in Drillcore's SQL and in DuckDB's."""

    ours: str
    theirs: str


def sql(form: str, *parts: Sql | str) -> Sql:
    """Fill in the parts, each as its engine spells it."""
    both = [part if isinstance(part, Sql) else Sql(part, part) for part in parts]
    return Sql(form.format(*(part.ours for part in both)), form.format(*(part.theirs for part in both)))


def _float(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))


NAN, NEGATIVE_NAN, ODD_NAN = (_float(bits) for bits in (0x7FF8 << 48, 0xFFF8 << 48, 0xFFF8 << 48 | 0x123))
INF = float("inf")

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("i", pa.int64()),
        pa.field("j", pa.int32()),
        pa.field("w", pa.uint64()),
        pa.field("f", pa.float64()),
        pa.field("g", pa.float32()),
        # Adds up exactly in any order, where it is finite.
        pa.field("h", pa.float64()),
        pa.field("d", pa.decimal128(18, 2)),
        pa.field("e", pa.decimal128(38, 10)),
        pa.field("s", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us")),
        pa.field("b", pa.bool_()),
    ]
)

VALUES: dict[str, list] = {
    "i": [-(2**63), 2**63 - 1, -(2**63) + 1, -1, 0, 1, 2, 7, 2**53 + 1],
    "j": [-(2**31), 2**31 - 1, -1, 0, 1, 2, 3, 7],
    "w": [0, 1, 2, 7, 2**63, 2**64 - 1],
    "f": [NAN, NEGATIVE_NAN, ODD_NAN, 0.0, -0.0, INF, -INF, 1.0, 1.5, -1.5, 7.0, 0.1, 1e300, -1e300, 5e-324, 2.0**53],
    "g": [NAN, NEGATIVE_NAN, 0.0, -0.0, INF, -INF, 1.0, 1.5, -1.5, 7.0, 0.1, 1e30],
    "h": [NAN, NEGATIVE_NAN, -0.0, INF, -INF, *(quarter / 4 for quarter in range(-9, 10))],
    "d": [Decimal(text) for text in ("0.00", "0.10", "1.00", "-1.50", "1.50", "7.00", "9999999999999999.99", "-0.01")],
    "e": [
        Decimal(text)
        for text in (
            *("0.0000000000", "0.1000000000", "1.5000000000", "-1.5000000000", "7", "0.0000000001"),
            *("1234567890123456789012345678.0123456789", "-9999999999999999999999999999.9999999999"),
        )
    ],
    "s": ["", "a", "A", "ab", "b", "é", "%", "0", "nan", "long " * 700],
    "day": [
        dt.date(*day) for day in ((1, 1, 1), (1969, 12, 31), (1970, 1, 1), (2000, 2, 29), (2262, 4, 12), (9999, 12, 31))
    ],
    "at": [
        dt.datetime(*time)
        for time in (
            (1, 1, 1),
            (1677, 9, 21, 0, 12, 43),
            (1969, 12, 31, 23, 59, 59, 999999),
            (1970, 1, 1),
            (2000, 2, 29, 12),
            (2262, 4, 12),
            (9999, 12, 31, 23, 59, 59, 999999),
        )
    ],
    "b": [True, False],
}

#: What kind of value each column has; two of one kind are compared as they are.
KINDS = {
    "int": ["k", "i", "j", "w"],
    "float": ["f", "g", "h"],
    "decimal": ["d", "e"],
    "text": ["s"],
    "date": ["day"],
    "time": ["at"],
    "bool": ["b"],
}

LITERALS: dict[str, list[Sql | str]] = {
    "int": ["0", "1", "-1", "2", "7", "9223372036854775807"],
    "float": [
        *("0e0", "-0e0", "1e0", "1.5e0", "-1.5e0", "1e-1", "7e0", "1e300", "5e-324"),
        *(f"cast('{text}' as double)" for text in ("nan", "-nan", "inf", "-inf")),
        *("(0e0 / 0e0)", "(-(0e0 / 0e0))", "(1e0 / 0e0)", "(1e0 / 0e0 - 1e0 / 0e0)"),
    ],
    "decimal": [
        f"cast('{text}' as decimal({of}))" for text, of in (("0.10", "18, 2"), ("1.5", "3, 1"), ("7", "18, 0"))
    ],
    "text": ["''", "'a'", "'ab'", "'zz'", "'%'"],
    "date": ["date '0001-01-01'", "date '1969-12-31'", "date '1970-01-01'", "date '9999-12-31'"],
    # A plain timestamp is in nanoseconds, and so of 1677 to 2262, unless it stands beside a column: docs/sql.md,
    # "Numbers and times".
    "time": [
        Sql(f"cast('{text}' as timestamp(6))", f"timestamp '{text}'")
        for text in ("1969-12-31 23:59:59.999999", "9999-12-31 23:59:59", "1970-01-01 00:00:00")
    ],
    "bool": ["true", "false"],
}


def rows(rng: random.Random, count: int) -> pa.Table:
    """Draw rows; each has its number as `k`, and one value in six is null."""

    def column(field: pa.Field) -> pa.Array:
        if field.name == "k":
            return pa.array(rng.sample(range(count), count), field.type)
        values = [None if rng.random() < 1 / 6 else rng.choice(VALUES[field.name]) for _ in range(count)]
        if not pa.types.is_floating(field.type):
            return pa.array(values, field.type)
        # By way of Python's floats, the bits of a NaN would not last.
        bits = np.array([0.0 if value is None else value for value in values])
        return pa.array(bits, mask=np.array([value is None for value in values])).cast(field.type)

    return pa.Table.from_arrays([column(field) for field in SCHEMA], schema=SCHEMA)


class Queries:
    """Draws expressions and queries over tables with these columns."""

    def __init__(self, rng: random.Random, tables: list[str]) -> None:
        self.rng = rng
        self.tables = tables

    def pick(self, *choices: Sql | str) -> Sql:
        choice = self.rng.choice(choices)
        return choice if isinstance(choice, Sql) else Sql(choice, choice)

    def kind(self) -> str:
        return self.rng.choice(["float", "float", "float", *KINDS])

    def column(self, kind: str, of: list[str]) -> Sql:
        return self.pick(*(f"{self.rng.choice(of)}.{name}" for name in KINDS[kind]))

    # Expressions; `of` are the tables whose columns they may name.

    def value(self, kind: str, of: list[str], depth: int = 2) -> Sql:
        """An expression of a kind that no row makes fail."""
        chance = self.rng.random()
        if depth == 0 or chance < 0.35:
            return self.column(kind, of)
        if chance < 0.5:
            return self.pick(*LITERALS[kind])
        if kind == "bool":
            return self.condition(of, depth - 1)

        def next_(kind: str = kind) -> Sql:
            return self.value(kind, of, depth - 1)

        form = self.rng.choice(["case", "case_of", "coalesce", "nullif", "greatest", "own", "own", "own"])
        if form == "case":
            return sql("case when {} then {} else {} end", self.condition(of, depth - 1), next_(), next_())
        if form == "case_of":
            tested = self.kind()
            parts = [next_(tested), next_(tested), next_(), next_(tested), next_(), next_()]
            return sql("case {} when {} then {} when {} then {} else {} end", *parts)
        if form == "greatest":
            return sql("{}({}, {})", self.rng.choice(["greatest", "least"]), next_(), next_())
        if form == "nullif" and kind == "float":
            # Of how many bits the result is: docs/sql.md, "Other engines".
            return sql("nullif(cast({} as double), {})", next_(), next_())
        if form in ("coalesce", "nullif"):
            return sql("{}({}, {})", form, next_(), next_())
        if kind == "int":
            # Small enough for the integer that they are cast to.
            of_rows = self.rng.choice(of)
            return self.pick(f"({of_rows}.k * 3 - 7)", f"({of_rows}.k % 5)", f"(- {of_rows}.k)", f"length({of_rows}.s)")
        if kind == "float":
            # Division tells the zeros apart, of which SQL has one here: docs/sql.md, "Other engines".
            if self.rng.random() < 0.2:
                divided, by = next_(), next_()
                return sql("({} / {})", divided, Sql(by.ours, f"({by.theirs} + 0e0)"))
            # Negated with a minus sign, a value is compared with a constant NaN in another way: docs/sql.md, "Other
            # engines".
            negated = Sql("(- {0})", "(cast(-1 as float) * {0})")
            forms = ["({} + {})", "({} - {})", "({} * {})", negated, "abs({0})", "sqrt(abs(cast({0} as double)))"]
            form, x, y = self.pick(*forms), next_(), next_()
            return Sql(form.ours.format(x.ours, y.ours), form.theirs.format(x.theirs, y.theirs))
        if kind == "decimal":
            of_rows = self.rng.choice(of)
            return self.pick(f"({of_rows}.d + {of_rows}.d)", f"(- {of_rows}.e)", f"abs({of_rows}.d)")
        if kind == "text":
            form = self.rng.choice(["({} || {})", "upper({0})", "lower({0})", "substr({0}, 1, 1)", "substr({0}, 2)"])
            return sql(form, next_(), next_())
        return next_()

    def comparable(self, of: list[str], depth: int) -> list[Sql]:
        """Four values that may be compared with each other."""
        kinds = self.rng.choice(
            [*([kind] for kind in KINDS), ["float"], ["int", "float"], ["int", "decimal"], ["decimal", "float"]]
        )
        if kinds == ["decimal", "float"]:
            # Of 32 bits, they are rounded by one engine and not by the other: docs/sql.md, "Other engines".
            floats = [
                self.pick(f"{self.rng.choice(of)}.f", f"{self.rng.choice(of)}.h", *LITERALS["float"]) for _ in range(2)
            ]
            return [self.value("decimal", of, depth), *floats, self.value("decimal", of, depth)]
        if kinds == ["int", "float"]:
            # A list is compared value by value, and not made floats for one of them, and a whole number that may be
            # of a signed or an unsigned column is a decimal: docs/sql.md, "Other engines".
            whole = self.value("int", of, depth)
            if any(f"{table}.w" in whole.ours for table in of):
                whole = self.column("int", of)
            return [whole, *(self.value("float", of, depth) for _ in range(3))]
        return [self.value(self.rng.choice(kinds), of, depth) for _ in range(4)]

    def condition(self, of: list[str], depth: int = 2) -> Sql:
        form = self.rng.choice(["and", "or", "not", "distinct"] if depth > 0 else ["no"])
        if form in ("and", "or") and self.rng.random() < 0.5:
            return sql("({} {} {})", self.condition(of, depth - 1), form, self.condition(of, depth - 1))
        if form == "not" and self.rng.random() < 0.5:
            return sql("(not {})", self.condition(of, depth - 1))
        if form == "distinct" and self.rng.random() < 0.3:
            # How tightly operators bind decides what this is, so there are no more parentheses.
            is_, rest = self.rng.choice(["is distinct from", "is not distinct from"]), self.rng.choice(["and", "or"])
            left, right, *_ = self.comparable(of, 0)
            return sql("({} {} {} {} {})", left, is_, right, rest, self.condition(of, depth - 1))
        x, y, z, more = self.comparable(of, max(depth - 1, 0))
        form = self.rng.choice(["compare", "compare", "compare", "in", "in", "between", "null", "bool", "like"])
        if form == "compare":
            operators = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
            return sql("({} {} {})", x, self.rng.choice(operators), y)
        if form == "in":
            values = ", ".join(["{}"] * self.rng.randint(1, 6))
            literals = [self.rng.choice([y, z, more]) for _ in range(6)]
            return sql("({} {} (" + values + "))", x, self.rng.choice(["in", "not in"]), *literals)
        if form == "between":
            return sql("({} {} {} and {})", x, self.rng.choice(["between", "not between"]), y, z)
        if form == "null":
            return sql("({} {})", x, self.rng.choice(["is null", "is not null"]))
        if form == "like":
            pattern = self.rng.choice(["'a%'", "'%b'", "'_'", "''", "'%'", "'%o%g%'"])
            return sql("({} {} {})", self.value("text", of, 0), self.rng.choice(["like", "not like"]), pattern)
        return self.column("bool", of)

    def literals_in(self, of: list[str]) -> Sql:
        """A column of a kind in a list of literals, as long as engines treat in a way of its own."""
        kind = self.rng.choice(["float", "float", "int", "decimal", "text", "date"])
        values = [self.pick(*LITERALS[kind]) for _ in range(self.rng.randint(1, 9))]
        if kind == "int" and self.rng.random() < 0.5:
            values = [self.pick("-0e0", "0", "2", "7e0") for _ in values]
        return sql(
            "({} {} (" + ", ".join(["{}"] * len(values)) + "))",
            self.column(kind, of),
            self.pick("in", "not in"),
            *values,
        )

    def where(self, of: list[str]) -> Sql:
        condition = self.literals_in(of) if self.rng.random() < 0.2 else self.condition(of, 3)
        return sql("where {}", condition)

    def maybe_where(self, of: list[str]) -> Sql:
        return self.where(of) if self.rng.random() < 0.5 else sql("")

    # Queries; each row of a result is one line of a set that is compared, or a line of a list if they are ordered.

    def query(self) -> tuple[Sql, bool]:
        """A query, and whether its rows come in one order only."""
        shapes = [self.filtered, self.projected, self.grouped, self.distinct, self.ordered, self.joined, self.window]
        more = [self.window, self.combined, self.within, self.within, self.counted, self.joined_parts, self.tagged]
        return self.rng.choice([*shapes, *more])()

    def filtered(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        return sql("select k from {0} {1} order by k", table, self.where([table])), True

    def projected(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        values = [self.value(self.kind(), [table], 3) for _ in range(3)]
        return sql("select k, {} as x, {} as y, {} as z from {} {}", *values, table, self.maybe_where([table])), False

    def grouped(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        having = sql("having {} {} {}", self.aggregate([table], "int"), self.rng.choice(["<", ">", "<>"]), "3")
        form = "select {} as x, {} as y, {} as z, {} as w, count(*) from {} {} group by 1, 2 {}"
        groups = [self.value(self.kind(), [table], 1) for _ in range(2)]
        values = [self.aggregate([table]) for _ in range(2)]
        return sql(form, *groups, *values, table, self.maybe_where([table]), self.pick(having, "")), False

    def counted(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        values = [self.aggregate([table]) for _ in range(3)]
        return sql("select {} as x, {} as y, {} as z from {} {}", *values, table, self.maybe_where([table])), False

    def aggregate(self, of: list[str], kind: str | None = None) -> Sql:
        value = self.value(self.kind(), of, 1)
        if kind == "int" or self.rng.random() < 0.5:
            return sql(self.rng.choice(["count({})", "count(distinct {})"]), value)
        if self.rng.random() < 0.5:
            return sql(self.rng.choice(["min({})", "max({})"]), value)
        table = self.rng.choice(of)
        sums = [f"sum({table}.{column})" for column in ("j", "k", "h", "d")]
        means = [f"avg({table}.{column})" for column in ("j", "k", "h")]
        return self.pick(*sums, *means, f"sum(distinct {table}.h)", f"stddev({table}.k)", f"sum({table}.f * 0e0)")

    def distinct(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        values = [self.value(self.kind(), [table], 1) for _ in range(2)]
        return sql("select distinct {} as x, {} as y from {} {}", *values, table, self.maybe_where([table])), False

    def order(self, of: list[str], count: int = 1) -> Sql:
        """Some ways to order rows, and one that settles ties."""
        keys = []
        for _ in range(count):
            way, nulls = self.rng.choice(["asc", "desc"]), self.rng.choice(["first", "last"])
            # A number alone would be the place of a column.
            key = sql("coalesce({0}, {0})", self.value(self.kind(), of, 1))
            keys.append(sql("{} {} nulls {}", key, way, nulls))
        return sql(", ".join(["{}"] * (count + 1)), *keys, f"{of[0]}.k")

    def ordered(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        limit = self.rng.choice(["", "limit 7", "limit 9 offset 4"])
        return sql(
            "select k from {} {} order by {} {}", table, self.maybe_where([table]), self.order([table], 2), limit
        ), True

    def joined(self) -> tuple[Sql, bool]:
        left, right = self.rng.sample(self.tables, 2)
        kind = self.rng.choice(["join", "left join", "right join", "full join", "using"])
        if kind == "using":
            column = self.rng.choice([name for name in SCHEMA.names if name != "k"])
            # In quotes, as DuckDB takes a plain `at` for a word of its own there.
            of = sql(
                'select l.k, r.k from {} l join {} r using ("{}") {}', left, right, column, self.maybe_where(["l", "r"])
            )
            return of, False
        of_kind = self.kind()
        x, y = self.value(of_kind, ["l"], 1), self.value(of_kind, ["r"], 1)
        if self.rng.random() < 0.2:
            x, y = self.column("decimal", ["l"]), self.pick("r.f", "r.h", "r.d", "r.e", "r.i")
        equal = self.rng.choice(["=", "=", "is not distinct from"])
        rest = sql("and {}", self.condition(["l", "r"], 1)) if self.rng.random() < 0.3 else sql("")
        where = sql("")
        if self.rng.random() < 0.4:
            # Compared after the join, but for an optimizer that makes keys of the join of it.
            of_kind = self.kind()
            pair = self.column(of_kind, ["l"]), self.column(of_kind, ["r"])
            where = sql("where {} {} {}", pair[0], self.rng.choice(["=", "is not distinct from"]), pair[1])
        form = "select l.k, r.k from {} l {} {} r on {} {} {} {} {}"
        return sql(form, left, kind, right, x, equal, y, rest, where), False

    def within(self) -> tuple[Sql, bool]:
        outer, inner = self.rng.sample(self.tables, 2)
        kind = self.kind()
        x, y = self.value(kind, [outer], 1), self.value(kind, [inner], 1)
        if self.rng.random() < 0.2:
            condition = sql(
                "{} {} (select {}({}) from {})", x, self.rng.choice(["=", "<", ">="]), self.pick("min", "max"), y, inner
            )
            return sql("select k from {} where {} order by k", outer, condition), True
        inside = self.maybe_where([inner])
        if self.rng.random() < 0.3:
            # The query looks at the row of the outer one.
            rest = sql("and {}", self.condition([inner], 1)) if self.rng.random() < 0.5 else sql("")
            inside = sql("where {}.k {} {}.k {}", inner, self.pick("=", "<"), outer, rest)
        form = self.rng.choice(
            [
                *("{} in (select {} from {} {})", "{} not in (select {} from {} {})"),
                *("{} = any (select {} from {} {})", "{} <> all (select {} from {} {})"),
            ]
        )
        condition = sql(form, x, y, inner, inside)
        if self.rng.random() < 0.2:
            condition = sql("exists (select 1 from {} where {} = {})", inner, x, y)
        # Unknown is not the same as false everywhere.
        form = self.rng.choice(
            [
                *("{}", "{}", "(not {})", "({} is null)", "({} is distinct from {})", "({} or {})", "({} and {})"),
                "(case when {} then {} else false end)",
            ]
        )
        condition = sql(form, condition, self.condition([outer], 1))
        return sql("select k from {} where {} order by k", outer, condition), True

    def window(self) -> tuple[Sql, bool]:
        table = self.rng.choice(self.tables)
        part, key = (self.value(self.kind(), [table], 1) for _ in range(2))
        by = sql("partition by {} order by {} nulls first", part, key)
        frame = self.rng.choice(
            ["", "rows between 2 preceding and current row", "rows between 1 preceding and 1 following"]
        )
        function = self.pick(
            sql("rank() over ({})", by),
            sql("dense_rank() over ({})", by),
            sql("count(*) over ({})", by),
            sql("row_number() over ({}, {}.k)", by, table),
            sql("{} over (partition by {})", self.aggregate([table], "int"), part),
            sql("sum({}.h) over ({}, {}.k {})", table, by, table, frame),
            sql("avg({}.h) over (order by {} {})", table, self.order([table]), frame),
            sql("{}({}) over (order by {} {})", self.pick("min", "max", "count"), key, self.order([table]), frame),
            sql("{}({}) over (order by {})", self.pick("lag", "lead", "first_value"), key, self.order([table])),
        )
        return sql("select k, {} as x from {} {}", function, table, self.maybe_where([table])), False

    def combined(self) -> tuple[Sql, bool]:
        first, second = self.rng.sample(self.tables, 2)
        kind = self.kind()
        word = self.rng.choice(["union", "union all", "intersect", "except"])
        x, y = self.value(kind, [first], 1), self.value(kind, [second], 1)
        return sql(
            "select {} from {} {} {} select {} from {}", x, first, self.maybe_where([first]), word, y, second
        ), False

    def joined_parts(self) -> tuple[Sql, bool]:
        """A table beside a part of others that has columns of the same names, and a condition on both."""
        left, first, second = (self.rng.choice(self.tables) for _ in range(3))
        part = self.pick(
            sql("select * from {} union all select * from {}", first, second),
            sql("select * from {} order by k limit 7", first),
            sql("select * from {} where k <= (select max(k) - 3 from {})", first, second),
            sql("select j, max(k) as k, min(s) as s from {} group by j", first),
        )
        condition = self.pick(
            "l.s is distinct from r.s", "coalesce(l.s, '') <> coalesce(r.s, '')", "(l.s = r.s) is not true", "l.k < r.k"
        )
        sides = [sql("{} l", left), sql("({}) r", part)]
        self.rng.shuffle(sides)
        kind = self.pick("right", "full", "left", "inner")
        form = "select l.k, r.k from {} {} join {} on l.j = r.j where {}"
        return sql(form, sides[0], kind, sides[1], condition), False

    def tagged(self) -> tuple[Sql, bool]:
        """Parts of a union that a constant tells apart: totals of which one is kept, or rows of which the first are."""
        first, second = self.rng.sample(self.tables, 2)
        if self.rng.random() < 0.5:
            form = (
                "select * from (select 'a' as s, count(*) as n, {} as x from {} {} "
                "union all select 'b', count(*), {} from {} {}) q where s = {}"
            )
            kind = self.rng.choice(["max({}.k)", "sum({}.h)", "count({}.s)"])
            parts = [(sql(kind, table), table, self.maybe_where([table])) for table in (first, second)]
            return sql(form, *parts[0], *parts[1], self.pick("'a'", "'b'", "'c'")), False
        parts = "(select k, 'b' as s from {} union all select k, 'a' from {}) q"
        order = self.pick("s, k", "s desc, k", "s, k desc", "k, s", "k desc, s desc")
        return sql(
            "select s, k from " + parts + " order by {} limit {}", first, second, order, self.pick("1", "3", "9")
        ), True
