//! Arithmetic of whole numbers: the right number or an error, never another number.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::compute::cast;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Decimal128Type, Float64Type};
use drillcore::arrow_array::*;
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_sql::{QueryOptions, predicate, query};

use crate::fixtures::*;
use crate::query::refused;

const SEED: u64 = 20;
const EXPRESSIONS: usize = 150;

/// `a` and `b` of 64 bits, `c` of 32.
const ROWS: [(Option<i64>, Option<i64>, Option<i32>); 12] = [
    (Some(i64::MIN), Some(-1), Some(1)),
    (Some(i64::MAX), Some(1), Some(i32::MAX)),
    (Some(i64::MAX - 1), Some(i64::MAX), Some(2)),
    (Some(i64::MIN + 1), Some(i64::MIN), Some(i32::MIN)),
    (Some(0), Some(0), Some(0)),
    (Some(3_037_000_500), Some(3_037_000_500), Some(46_341)),
    (Some(7), Some(-3), Some(-7)),
    (None, Some(5), Some(i32::MIN + 1)),
    (Some(-1), None, Some(-1)),
    (Some(1 << 40), Some(1 << 23), None),
    (Some(-12), Some(40), Some(100)),
    (Some(2), Some(3), Some(5)),
];

fn database() -> Database {
    database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..ROWS.len() as i64)), false),
        ("a", Arc::new(ROWS.iter().map(|row| row.0).collect::<Int64Array>()), true),
        ("b", Arc::new(ROWS.iter().map(|row| row.1).collect::<Int64Array>()), true),
        ("c", Arc::new(ROWS.iter().map(|row| row.2).collect::<Int32Array>()), true),
    ]))
}

/// An expression, and what it is computed in.
#[derive(Debug, Clone)]
enum Expr {
    Column(&'static str),
    Number(i64),
    Binary(Box<Expr>, char, Box<Expr>),
    Negative(Box<Expr>),
    Abs(Box<Expr>),
    Cast(Box<Expr>, u32),
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Expr::Column(name) => write!(f, "{name}"),
            Expr::Number(number) => write!(f, "{number}"),
            Expr::Binary(left, operator, right) => write!(f, "({left} {operator} {right})"),
            Expr::Negative(operand) => write!(f, "(- {operand})"),
            Expr::Abs(operand) => write!(f, "abs({operand})"),
            Expr::Cast(operand, bits) => {
                let name = if *bits == 64 { "bigint" } else { "int" };
                write!(f, "cast({operand} as {name})")
            }
        }
    }
}

fn random(rng: &mut Rng, depth: u64) -> Expr {
    let mut pick = |n: u64| rng.below(n);
    if depth == 0 || pick(5) == 0 {
        let numbers = [0, 1, 2, -1, -5, 1_000_003, 4_294_967_296, i64::MAX, i64::MIN, i64::MAX / 2];
        return match pick(6) {
            0 | 1 => Expr::Column("a"),
            2 => Expr::Column("b"),
            3 => Expr::Column("c"),
            _ => Expr::Number(numbers[pick(numbers.len() as u64) as usize]),
        };
    }
    let choice = pick(12);
    let mut operand = || Box::new(random(rng, depth - 1));
    match choice {
        0..=2 => Expr::Binary(operand(), '+', operand()),
        3..=5 => Expr::Binary(operand(), '-', operand()),
        6 | 7 => Expr::Binary(operand(), '*', operand()),
        8 => Expr::Binary(operand(), ['/', '%'][depth as usize % 2], operand()),
        9 => Expr::Negative(operand()),
        10 => Expr::Abs(operand()),
        _ => Expr::Cast(operand(), if depth.is_multiple_of(2) { 64 } else { 32 }),
    }
}

/// What an expression is, without any limit; `None` where that is no number, as behind a division by zero.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Exact {
    value: Option<Option<i128>>,
    /// Bits of its type, and whether all steps fit theirs.
    bits: u32,
    fits: bool,
}

impl Expr {
    fn exact(&self, row: usize) -> Exact {
        let of = |value: Option<i128>, bits| Exact { value: Some(value), bits, fits: true };
        let step = |operands: &[Exact], bits: u32, compute: &dyn Fn(&[i128]) -> Option<i128>| {
            let values: Option<Vec<Option<i128>>> = operands.iter().map(|o| o.value).collect();
            let value =
                values.and_then(|values| match values.into_iter().collect::<Option<Vec<_>>>() {
                    None => Some(None),
                    Some(values) => compute(&values).map(Some),
                });
            let limit = 1_i128 << (bits - 1);
            let here = match value {
                None => false,
                Some(value) => value.is_none_or(|value| (-limit..limit).contains(&value)),
            };
            Exact { value, bits, fits: here && operands.iter().all(|o| o.fits) }
        };
        match self {
            Expr::Column("a") => of(ROWS[row].0.map(i128::from), 64),
            Expr::Column("b") => of(ROWS[row].1.map(i128::from), 64),
            Expr::Column(_) => of(ROWS[row].2.map(i128::from), 32),
            Expr::Number(number) => of(Some((*number).into()), 64),
            Expr::Binary(left, operator, right) => {
                let (left, right) = (left.exact(row), right.exact(row));
                step(&[left, right], left.bits.max(right.bits), &|v| match operator {
                    '+' => v[0].checked_add(v[1]),
                    '-' => v[0].checked_sub(v[1]),
                    '*' => v[0].checked_mul(v[1]),
                    '/' => v[0].checked_div(v[1]),
                    _ => v[0].checked_rem(v[1]),
                })
            }
            Expr::Negative(operand) => {
                let operand = operand.exact(row);
                step(&[operand], operand.bits, &|v| v[0].checked_neg())
            }
            Expr::Abs(operand) => {
                let operand = operand.exact(row);
                step(&[operand], operand.bits, &|v| v[0].checked_abs())
            }
            Expr::Cast(operand, bits) => step(&[operand.exact(row)], *bits, &|v| Some(v[0])),
        }
    }

    /// The classic mistake: every step in its own bits, come what may.
    fn wrapped(&self, row: usize) -> Option<i128> {
        let bits = self.exact(row).bits;
        let value = match self {
            Expr::Column(_) | Expr::Number(_) => self.exact(row).value?,
            Expr::Binary(left, operator, right) => {
                let (left, right) = (left.wrapped(row)?, right.wrapped(row)?);
                match operator {
                    '+' => Some(left + right),
                    '-' => Some(left - right),
                    '*' => Some(left * right),
                    '/' => left.checked_div(right),
                    _ => left.checked_rem(right),
                }
            }
            Expr::Negative(operand) => operand.wrapped(row).map(|value| -value),
            Expr::Abs(operand) => operand.wrapped(row).map(i128::abs),
            Expr::Cast(operand, _) => operand.wrapped(row),
        };
        value.map(|value| if bits == 32 { value as i32 as i128 } else { value as i64 as i128 })
    }
}

type Answer = std::result::Result<Vec<Option<i128>>, Error>;

/// Whole numbers of the first column, whatever their type.
fn numbers(db: &Database, text: &str) -> Answer {
    Ok(exact(&answer(db, text, &QueryOptions::default())?))
}

fn exact(batches: &[RecordBatch]) -> Vec<Option<i128>> {
    let decimal = DataType::Decimal128(38, 0);
    let of_batch = |batch: &RecordBatch| {
        let numbers = cast(batch.column(0), &decimal).unwrap();
        numbers.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

/// What is wrong with the answer, if anything: a number other than the exact one, an error without a reason, or one
/// of another kind.
fn fault(expected: &[Exact], answer: Answer) -> Option<String> {
    match answer {
        Err(error) if expected.iter().all(|exact| exact.fits) => Some(format!("error {error}")),
        Err(error) => {
            let kinds = [ErrorKind::OutOfRange, ErrorKind::InvalidArgument];
            // Only a division by zero is another matter.
            let is_zero = error.to_string().contains("zero");
            let is_right = error.kind() == kinds[usize::from(is_zero)];
            (!is_right).then(|| format!("{:?} {error}", error.kind()))
        }
        Ok(found) => {
            let same = |(exact, found): (&Exact, &Option<i128>)| exact.value == Some(*found);
            let is_same = expected.len() == found.len() && expected.iter().zip(&found).all(same);
            (!is_same).then(|| format!("found {found:?}, not {expected:?}"))
        }
    }
}

#[test]
fn random_expressions_of_integers_are_right_or_refused() {
    let db = database();
    let mut rng = Rng::keyed(SEED, 1);
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..EXPRESSIONS {
        let expr = random(&mut rng, 3);
        let exact: Vec<Exact> = (0..ROWS.len()).map(|row| expr.exact(row)).collect();
        let check = |text: &str, expected: &[Exact]| {
            let fault = fault(expected, numbers(&db, text));
            assert!(fault.is_none(), "seed {SEED}: {text}: {}", fault.unwrap());
        };
        check(&format!("select {expr} from t order by k"), &exact);
        let fitting: Vec<usize> = (0..ROWS.len()).filter(|&row| exact[row].fits).collect();
        refused += usize::from(fitting.len() < ROWS.len());
        if fitting.is_empty() {
            continue;
        }
        answered += 1;
        // Only rows that have an answer.
        let list = fitting.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let (some, among) = (|| fitting.iter().map(|&row| exact[row]), format!("k in ({list})"));
        let expected: Vec<Exact> = some().collect();
        check(&format!("select {expr} from t where {among} order by k"), &expected);
        // As a condition, in queries and on tables.
        let bound = rng.below(3) as i64 - 1;
        let passes = |exact: &Exact| exact.value.unwrap().is_some_and(|value| value > bound.into());
        let kept: Vec<Option<i128>> =
            fitting.iter().filter(|&&row| passes(&exact[row])).map(|&k| Some(k as i128)).collect();
        // Rows that fail the first part may be computed too, so these may be refused as well.
        let condition = format!("{among} and {expr} > {bound}");
        if let Ok(found) = numbers(&db, &format!("select k from t where {condition} order by k")) {
            assert_eq!(found, kept, "seed {SEED}: {condition}");
        }
        let table = db.table("t").unwrap().snapshot().unwrap();
        let predicate = Some(predicate(&table.schema(), &condition).unwrap());
        if let Ok(found) = table.count(&Selection { predicate, ..Default::default() }) {
            assert_eq!(found, kept.len() as u64, "seed {SEED}: {condition}");
        }
        // Sums of all, of groups and of windows.
        let values: Vec<Option<i128>> = some().map(|exact| exact.value.unwrap()).collect();
        let sum = |values: &[Option<i128>]| {
            let value = values.iter().flatten().copied().reduce(|sum, value| sum + value);
            let fits = value.is_none_or(|value| i64::try_from(value).is_ok());
            Exact { value: Some(value), bits: 64, fits }
        };
        check(&format!("select sum({expr}) from t where {among}"), &[sum(&values)]);
        let all_but = |parity: usize| -> Vec<Option<i128>> {
            let of = |(&row, value): (&usize, &Option<i128>)| (row % 2 == parity).then_some(*value);
            fitting.iter().zip(&values).filter_map(of).collect()
        };
        let groups: Vec<Exact> =
            [0, 1].map(all_but).iter().filter(|v| !v.is_empty()).map(|v| sum(v)).collect();
        check(
            &format!("select sum({expr}) from t where {among} group by k % 2 order by k % 2"),
            &groups,
        );
        let running: Vec<Exact> = (0..values.len()).map(|i| sum(&values[..=i])).collect();
        let over = |frame: &str| {
            format!("select sum({expr}) over (order by k{frame}) from t where {among} order by k")
        };
        check(&over(""), &running);
        let moving: Vec<Exact> =
            (0..values.len()).map(|i| sum(&values[i.saturating_sub(2)..=i])).collect();
        check(&over(" rows between 2 preceding and current row"), &moving);
    }
    assert!(answered > EXPRESSIONS / 4 && refused > EXPRESSIONS / 4, "{answered} {refused}");
}

/// The biased twin.
#[test]
fn arithmetic_that_wraps_fails_the_same_check() {
    let mut rng = Rng::keyed(SEED, 1);
    let faults = (0..EXPRESSIONS).filter(|_| {
        let expr = random(&mut rng, 3);
        let exact: Vec<Exact> = (0..ROWS.len()).map(|row| expr.exact(row)).collect();
        fault(&exact, Ok((0..ROWS.len()).map(|row| expr.wrapped(row)).collect())).is_some()
    });
    assert!(faults.count() > EXPRESSIONS / 4);
}

fn out_of_range(db: &Database, text: &str) -> String {
    match numbers(db, text) {
        Ok(found) => panic!("{text}: {found:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::OutOfRange, "{text}: {error}");
            error.to_string()
        }
    }
}

#[test]
fn an_error_says_what_does_not_fit() {
    let db = database();
    let said = |text: &str| out_of_range(&db, text);
    assert_eq!(
        said("select a + 1 from t where k = 1"),
        "a + 1: 9223372036854775807 + 1 does not fit a 64-bit integer; cast to decimal(38, 0), or to double \
         if an approximation will do"
    );
    assert!(said("select (c * 2) + 1 from t where k = 1 or c * c > 0").starts_with("c * "));
    assert!(said("select sum(a) from t where k in (1, 2)").contains(
        "is 18446744073709551613, which does not fit a 64-bit integer; cast the values to decimal(38, 0)"
    ));
    assert!(said("select cast(a as int) from t where k = 1").contains("9223372036854775807"));
    assert!(said("select abs(a) from t where k = 0").contains("abs"));
    // And what it recommends is right.
    let wide = "select sum(cast(a as decimal(38, 0))) from t where k in (1, 2)";
    assert_eq!(numbers(&db, wide).unwrap(), [Some(2 * i128::from(i64::MAX) - 1)]);
    let wide = "select cast(a as decimal(38, 0)) + 1 from t where k = 1";
    assert_eq!(numbers(&db, wide).unwrap(), [Some(i128::from(i64::MAX) + 1)]);
}

#[test]
fn constants_are_folded_right_or_refused() {
    let db = database();
    let most = i64::MAX;
    for text in [
        format!("select {most} + 1"),
        format!("select -({most} + 1 - 1)"),
        format!("select {most} * 2 from t"),
        format!("select k from t where k < {most} + 1"),
        format!("select k from t where {most} + 1 > k"),
        format!("select -({} - 1)", -most),
        format!("select count(*) from t having count(*) > {most} * 3"),
        format!("select k from t union all select {most} + 2"),
        format!("select (select {most} + 2)"),
        format!("select t.k from t join t u on t.k = u.k + {most}"),
        format!("select * from (values ({most} + 1)) v"),
        format!(
            "with recursive f(n) as (select {most} - 3 union all select n + 1 from f) select n from f limit 9"
        ),
        format!("select case when k >= 0 then {most} + k else 0 end from t"),
        // Of all rows: fewer may be drawn without one that does not fit.
        format!("select k from t tablesample (12 rows) where a + {most} > 0"),
        format!("select k + {most} from t tablesample (3 rows)"),
        format!("select k + {most} from sample('t', 9, 1)"),
    ] {
        out_of_range(&db, &text);
    }
    for text in [
        format!("select k from t order by k limit {most} * 2 + 3"),
        format!("select * from generate_series(1, {most} + 2)"),
        format!("select k from sample('t', {most} * 2 + 3)"),
    ] {
        assert_eq!(numbers(&db, &text).unwrap_err().kind(), ErrorKind::InvalidArgument, "{text}");
    }
    // What is not reached is not computed.
    assert_eq!(
        numbers(&db, &format!("select case when false then {most} + 1 else 7 end")).unwrap(),
        [Some(7)]
    );
    assert_eq!(numbers(&db, "select -9223372036854775808").unwrap(), [Some(i64::MIN.into())]);
    assert_eq!(numbers(&db, "select -(6 & 3)").unwrap(), [Some(-2)]);
}

#[test]
fn long_expressions_are_computed() {
    let db = database();
    let long = format!("k{}", " + 1".repeat(399));
    assert_eq!(
        numbers(&db, &format!("select {long} from t where k < 2")).unwrap(),
        [399, 400].map(Some)
    );
    let table = db.table("t").unwrap().snapshot().unwrap();
    let predicate = Some(predicate(&table.schema(), &format!("{long} > 400")).unwrap());
    let selection = Selection { predicate, ..Default::default() };
    assert_eq!(table.count(&selection).unwrap(), ROWS.len() as u64 - 2);
    let long = format!("a{}", " - 1".repeat(399));
    assert!(out_of_range(&db, &format!("select {long} from t")).contains("does not fit"));
}

#[test]
fn columns_keep_the_names_that_the_text_gives_them() {
    let db = database();
    let text = "select a + 1, - b, k * 2 - c, sum(k + 1) from t where k = 6 group by a, b, c, k";
    let found = query(&db.snapshot().unwrap(), text, &QueryOptions::default()).unwrap();
    let names: Vec<String> = found.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["t.a + Int64(1)", "(- t.b)", "t.k * Int64(2) - t.c", "sum(t.k + Int64(1))"]);
}

#[test]
fn sums_may_leave_their_type_on_the_way() {
    let n = 3_000_i64;
    let x: Vec<i64> = (0..n).map(|i| if i < n / 2 { i64::MAX } else { -i64::MAX }).collect();
    let db = database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..n)), false),
        ("x", Arc::new(Int64Array::from(x)), false),
    ]));
    let options = QueryOptions { threads: Some(3), partition_rows: Some(20), ..Default::default() };
    let sums = |text: &str| -> Result<Vec<i128>> {
        Ok(exact(&answer(&db, text, &options)?).into_iter().flatten().collect())
    };
    assert_eq!(sums("select sum(x) from t").unwrap(), [0]);
    assert_eq!(sums("select sum(x) from t group by k % 1").unwrap(), [0]);
    // As many groups as rows, so that threads hand on rows as they are; then few again.
    let nested = "select sum(s) from (select k % 1500 as g, sum(x) as s from t group by 1)";
    assert_eq!(sums(nested).unwrap(), [0]);
    assert_eq!(sums("select sum(distinct x) from t").unwrap(), [0]);
    assert_eq!(
        sums("select sum(x) filter (where x < 0 and k < 1501) from t").unwrap(),
        [-i128::from(i64::MAX)]
    );
    let several = "select sum(distinct x), sum(distinct k), sum(x) from t";
    assert_eq!(sums(several).unwrap(), [0]);
    for text in [
        "select sum(x) from t where k < 2",
        "select sum(x) from t where k < 1500 group by k % 7",
        "select sum(distinct x - k), count(distinct k) from t where k < 1500",
        "select sum(x) over (order by k) from t",
        "select sum(x) over (order by k rows between 1 preceding and current row) from t",
        "select sum(distinct x - k % 2) over (order by k rows between 1 preceding and current row) from t",
    ] {
        assert_eq!(sums(text).unwrap_err().kind(), ErrorKind::OutOfRange, "{text}");
    }
}

#[test]
fn decimals_durations_and_unsigned_numbers_are_right_or_refused() {
    let db = database();
    let most = "99999999999999999999999999999999999999";
    let decimal =
        |n: usize| format!("{most}::decimal(38, 0)").replace(most, &format!("'{}'", &most[..n]));
    let values = |n: usize, rows: usize| {
        format!("(values {}) v(x)", vec![format!("({})", decimal(n)); rows].join(", "))
    };
    // The total needs 39 digits, or more than 128 bits.
    for rows in [2, 3, 40] {
        out_of_range(&db, &format!("select sum(x) from {}", values(38, rows)));
        out_of_range(&db, &format!("select sum(x) from {} group by x", values(38, rows)));
    }
    let expected = most[..37].parse::<i128>().unwrap() * 10;
    assert_eq!(
        numbers(&db, &format!("select sum(x) from {}", values(37, 10))).unwrap(),
        [Some(expected)]
    );
    // Differences of times, far apart in nanoseconds.
    let days = "(select arrow_cast(5000000000000000000, 'Duration(Nanosecond)') as d from t)";
    out_of_range(&db, &format!("select sum(d) from {days}"));
    out_of_range(&db, &format!("select sum(d) from {days} group by d"));
    for text in [
        format!("select arrow_cast(avg(d), 'Int64') from {days}"),
        format!("select arrow_cast(avg(d), 'Int64') from {days} group by d"),
        format!(
            "select max(arrow_cast(m, 'Int64')) from (select avg(d) over (rows 3 preceding) m from {days})"
        ),
    ] {
        assert_eq!(numbers(&db, &text).unwrap(), [Some(5_000_000_000_000_000_000)], "{text}");
    }
    let unsigned = |value: &str| format!("arrow_cast({value}, 'UInt64')");
    out_of_range(&db, &format!("select {} - {}", unsigned("1"), unsigned("2")));
    let twice = format!("select sum({}) from t", unsigned("9223372036854775807"));
    out_of_range(&db, &twice);
    assert_eq!(
        numbers(&db, &format!("{twice} where k < 2")).unwrap(),
        [Some(2 * i128::from(i64::MAX))]
    );
    // Whole numbers beyond 64 bits in the text.
    assert_eq!(
        numbers(&db, "select k from t where a < 9223372036854775808 and k = 1").unwrap(),
        [Some(1)]
    );
    assert_eq!(
        numbers(&db, "select a + 9223372036854775808 from t where k = 1").unwrap(),
        [Some(i128::from(i64::MAX) + (1 << 63))]
    );
}

/// An average has four digits more behind the point than its values: what is left before it may not be enough.
#[test]
fn an_average_of_decimals_that_has_no_room_is_refused() {
    let db = database();
    let values = |value: &str, of: &str| {
        format!("(select k, cast('{value}' as decimal({of})) as x from t) v")
    };
    let four_are_missing = values(&"9".repeat(38), "38, 0");
    let one_is_missing = values("123.5", "38, 32");
    for rows in [&four_are_missing, &one_is_missing] {
        for text in [
            format!("select avg(x) from {rows}"),
            format!("select avg(x) from {rows} where k = 1"),
            format!("select k % 2, avg(x) from {rows} group by 1"),
            format!("select avg(distinct x) from {rows}"),
            format!("select avg(x) over (order by k) from {rows}"),
            format!("select avg(x) over (order by k rows 2 preceding) from {rows}"),
        ] {
            let message = out_of_range(&db, &text);
            assert!(
                message.contains("an average of decimals has four more decimal places"),
                "{text}: {message}"
            );
        }
    }
    let enough = values("99.5", "38, 32");
    let found = numbers(&db, &format!("select cast(avg(x) as decimal(4, 1)) * 10 from {enough}"));
    assert_eq!(found.unwrap(), [Some(995)]);
    let rounded = values(&"9".repeat(30), "38, 0");
    let text = format!("select avg(x) from {rounded}");
    assert_eq!(
        numbers(&db, &format!("select cast(m as decimal(38, 0)) from ({text}) s(m)")).unwrap(),
        [Some(10i128.pow(30) - 1)]
    );
}

/// Arrow checks the bits of a decimal, which hold some numbers of 39 digits.
#[test]
fn decimals_of_more_digits_than_their_type_are_out_of_range() {
    let db = Database::in_memory(Options::default()).unwrap();
    let most = "9".repeat(38);
    let of_most = format!("(values ('{most}'::decimal(38, 0))) v(d)");
    for text in ["d + 1", "-d - 1", "cast(d + 1 as varchar)", "d - (-1::decimal(38, 0))"] {
        let error = refused(&db, &format!("select {text} as x from {of_most}"));
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{text}: {error}");
        assert!(error.to_string().contains("more than 38 digits"), "{text}: {error}");
    }
    let error = refused(&db, &format!("select * from {of_most} where d + 1 > 5"));
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let kept = run(&db, &format!("select cast(d - 1 + 1 as varchar) as x from {of_most}"));
    assert_eq!(kept[0].column(0).as_string::<i32>().value(0), most);
}

#[test]
fn floats_are_rounded_to_more_digits_than_they_have() {
    let db = Database::in_memory(Options::default()).unwrap();
    for (computed, expected) in [
        ("round(1e300, 10)", 1e300),
        ("trunc(1e300, 10)", 1e300),
        ("round(1.5, 400)", 1.5),
        ("trunc(-1.5, 400)", -1.5),
        ("round(123.456, 307)", 123.456),
        ("round(cast(1e38 as float), 2)", f64::from(1e38_f32)),
        ("round(1.5, -400)", 0.0),
        ("round(1.25, 1)", 1.3),
        ("round(sum(x), y)", 1e300),
        ("round(cast('inf' as double), 1)", f64::INFINITY),
        ("round(cast('inf' as double), 400)", f64::INFINITY),
        ("trunc(cast('-inf' as double), -320)", f64::NEG_INFINITY),
    ] {
        let query = format!(
            "select cast({computed} as double) from (values (1e300, 10)) v(x, y) group by x, y"
        );
        let found = run(&db, &query);
        let found = found[0].column(0).as_primitive::<Float64Type>().value(0);
        assert_eq!(found, expected, "{computed}");
    }
}

#[test]
fn times_beyond_nanoseconds_are_not_binned_as_null() {
    let times = |years: [i64; 2]| years.map(|year| (year - 1970) * 31_556_952 * 1_000_000).to_vec();
    let rows = |zone: Option<&str>| {
        database_of(&rows_of([
            ("k", Arc::new(Int64Array::from_iter_values(0..2)), false),
            (
                "at",
                Arc::new(
                    TimestampMicrosecondArray::from(times([2020, 2300])).with_timezone_opt(zone),
                ),
                false,
            ),
        ]))
    };
    for zone in [None, Some("UTC")] {
        let db = rows(zone);
        let query = "select count(date_bin(interval '1 day', at)) from t";
        for query in [query, "select date_trunc('year', at) from t"] {
            let error = answer(&db, query, &QueryOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfRange, "{error}");
            assert!(error.to_string().contains("1677-09-21"), "{error}");
        }
        assert_eq!(crate::fixtures::numbers(&run(&db, &format!("{query} where k = 0"))), [1]);
    }
    for (computed, kind) in [
        ("to_timestamp(1e30)", ErrorKind::OutOfRange),
        ("to_timestamp(cast('nan' as double))", ErrorKind::OutOfRange),
        ("array_resize([1], -5)", ErrorKind::InvalidArgument),
    ] {
        let text = format!("select {computed}");
        let error = answer(&rows(None), &text, &QueryOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{computed}: {error}");
    }
}
