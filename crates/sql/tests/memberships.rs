//! `in`, of lists whose values are computed from the row.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::*;
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sql::{QueryOptions, predicate, query};

const ROWS: i64 = 40;

fn i_of(k: i64) -> Option<i64> {
    (k % 4 != 1).then_some(k % 7)
}

fn table_of(db: &Database, name: &str, rows: impl Iterator<Item = (i64, Option<i64>)>) -> Table {
    let columns = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("i", DataType::Int64, true),
    ]));
    let spec = TableSpec {
        columns: columns.clone(),
        key: vec!["k".into()],
        set: None,
        set_index: true,
        weights: vec![],
        merge: Merge::Append,
        exist_ok: false,
    };
    let (k, i): (Vec<i64>, Vec<Option<i64>>) = rows.unzip();
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(k)), Arc::new(Int64Array::from(i))];
    let table = db.create_table(name, spec).unwrap();
    table.append(&RecordBatch::try_new(columns, arrays).unwrap(), OnError::Raise).unwrap();
    table
}

/// `t` of `ROWS` rows, a quarter of whose `i` are null, and `u` with all kinds of members.
fn database() -> (Database, Table) {
    let db = Database::in_memory(Options::default()).unwrap();
    table_of(&db, "u", [(0, Some(2)), (1, None), (2, Some(5)), (3, Some(90))].into_iter());
    let table = table_of(&db, "t", (0..ROWS).map(|k| (k, i_of(k))));
    (db, table)
}

fn ks(db: &Database, text: &str) -> Result<Vec<i64>> {
    let options = QueryOptions { threads: Some(1), ..Default::default() };
    let batches: Vec<RecordBatch> =
        query(&db.snapshot()?, text, &options)?.collect::<Result<_>>()?;
    let ks = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
    let mut ks: Vec<i64> = ks.copied().collect();
    ks.sort();
    Ok(ks)
}

/// DataFusion tried such lists on no rows, and took what came out for constants.
#[test]
fn values_of_a_list_are_computed_of_each_row() {
    let (db, table) = database();
    let values = [
        "case when i is null then 1 else k end",
        "case when i is null then 1 else k end + 0",
        "cast(case when i is null then '1' else '7' end as bigint)",
        "coalesce(i, k)",
        "nullif(k, i)",
        "abs(case when i is null then 1 else k end)",
        "case i when 2 then k when 3 then i else abs(k) end",
        "i",
        "7",
    ];
    let mut passing = 0;
    let compared = ["abs(k)", "k + 0", "k", "i", "7", "nullif(k, 9)"];
    for (at, first) in values.iter().enumerate() {
        for (also, second) in values.iter().enumerate() {
            for value in [compared[(at + also) % 6], compared[(at + 2 * also + 3) % 6]] {
                let list = format!("{value} in ({first}, {second}, {first}, -1)");
                let joined = format!("({value} = {first} or {value} = {second} or {value} = -1)");
                let expected = ks(&db, &format!("select k from t where {joined}")).unwrap();
                passing += expected.len();
                let ask = |text: String| ks(&db, &text).unwrap();
                assert_eq!(ask(format!("select k from t where {list}")), expected, "{list}");
                let shown = format!("select k from (select k, {list} as x from t) where x is true");
                assert_eq!(ask(shown), expected, "{list}");
                let grouped = format!("select max(k) from t group by k, {list} having {list}");
                assert_eq!(ask(grouped), expected, "{list}");
                let not = |condition: &str| ask(format!("select k from t where not ({condition})"));
                assert_eq!(not(&list), not(&joined), "{list}");
                let predicate = predicate(&table.schema(), &list).unwrap();
                let selection = Selection { predicate: Some(predicate), ..Default::default() };
                let found = table.snapshot().unwrap().count(&selection).unwrap();
                assert_eq!(found, expected.len() as u64, "{list}");
            }
        }
    }
    assert!(passing > 1_000, "little was compared");
}
