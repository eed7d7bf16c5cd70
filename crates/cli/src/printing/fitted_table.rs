//! Rows laid out to the width of a terminal: columns cut with an ellipsis, or each row down the page.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema};
use console::{measure_text_width, truncate_str};

use crate::printing::terminal_text::on_one_line;

/// The narrowest that a column is cut to. If that is too wide still, rows go down the page.
const COLUMN_WIDTH_MIN: usize = 6;
const ELLIPSIS: &str = "…";
const NULL: &str = "NULL";
/// The parts of an estimate in a query, in their order. What stands behind its figures may be cut.
const ESTIMATE: [&str; 4] = ["value", "low", "high", "note"];
/// Digits of a figure of an estimate.
const FIGURE_DIGITS: usize = 6;
/// Whole numbers below this are floats without a gap.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// Whether each row goes down the page, a line per column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// If the columns do not fit beside each other.
    Auto,
    Always,
    Never,
}

struct Column {
    name: String,
    /// Numbers are aligned to the right.
    is_number: bool,
    /// The narrowest that it is cut to.
    least: usize,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let texts = self.cells.iter().chain([&self.name]);
        texts.map(|text| measure_text_width(text)).max().unwrap_or(0)
    }
}

/// Lays out rows, in lines that each end with a line feed. Without a width nothing is cut.
pub fn lay_out(
    schema: &Schema,
    batches: &[RecordBatch],
    width: Option<usize>,
    expanded: Expanded,
) -> Result<String, ArrowError> {
    let columns = columns(schema, batches)?;
    let natural: Vec<usize> = columns.iter().map(Column::width).collect();
    let least: Vec<usize> = columns.iter().map(|column| column.least).collect();
    let widths = match width {
        None => Some(natural),
        Some(width) => fitted(&natural, &least, width),
    };
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    Ok(match (expanded, widths) {
        (Expanded::Always, _) | (Expanded::Auto, None) => down(&columns, rows, width),
        (_, Some(widths)) => across(&columns, rows, &widths),
        (Expanded::Never, None) => {
            let least: Vec<usize> =
                columns.iter().map(|column| column.width().min(column.least)).collect();
            across(&columns, rows, &least)
        }
    })
}

fn columns(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Column>, ArrowError> {
    let options = FormatOptions::default().with_null(NULL).with_display_error(true);
    let column = |index: usize| {
        let field = schema.field(index);
        let (mut cells, mut least) = (Vec::new(), COLUMN_WIDTH_MIN);
        for batch in batches {
            let values = batch.column(index);
            if is_estimate(field.data_type()) {
                for (figures, note) in estimates(values, &options)? {
                    let figures = on_one_line(&figures);
                    least = least.max(measure_text_width(&figures) + measure_text_width(ELLIPSIS));
                    cells.push(figures + &on_one_line(&note));
                }
                continue;
            }
            let values = ArrayFormatter::try_new(values, &options)?;
            cells.extend(
                (0..batch.num_rows()).map(|row| on_one_line(&values.value(row).to_string())),
            );
        }
        let (name, is_number) = (on_one_line(field.name()), field.data_type().is_numeric());
        Ok(Column { name, is_number, least, cells })
    };
    (0..schema.fields().len()).map(column).collect()
}

/// Whether values are what `approx_avg_ci` and its like give.
fn is_estimate(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(parts) => {
            let is_figure = |part: &FieldRef| {
                let data_type = part.data_type();
                matches!(data_type, DataType::Float64 | DataType::Date32 | DataType::Timestamp(..))
            };
            parts.iter().take(3).all(is_figure)
                && parts.iter().map(|part| part.name().as_str()).eq(ESTIMATE)
        }
        _ => false,
    }
}

/// The figures of each estimate, and what stands behind them.
fn estimates(
    values: &ArrayRef,
    options: &FormatOptions,
) -> Result<Vec<(String, String)>, ArrowError> {
    let values = values.as_struct();
    let notes = ArrayFormatter::try_new(values.column(3), options)?;
    let times =
        values.columns()[..3].iter().map(|figures| ArrayFormatter::try_new(figures, options));
    let times = times.collect::<Result<Vec<_>, _>>()?;
    let figure = |part: usize, row: usize| {
        let figures = values.column(part);
        let text = match figures.as_primitive_opt::<Float64Type>() {
            _ if figures.is_null(row) => NULL.to_string(),
            Some(figures) => figure(figures.value(row)),
            None => times[part].value(row).to_string(),
        };
        format!("{}: {text}", ESTIMATE[part])
    };
    let estimate = |row: usize| match values.is_null(row) {
        true => (NULL.to_string(), String::new()),
        false => {
            let figures = [0, 1, 2].map(|part| figure(part, row)).join(", ");
            (format!("{{{figures}"), format!(", {}: {}}}", ESTIMATE[3], notes.value(row)))
        }
    };
    Ok((0..values.len()).map(estimate).collect())
}

/// A whole number with all its digits, another with some.
fn figure(number: f64) -> String {
    if number == number.trunc() && number.abs() < WHOLE_MAX {
        return format!("{:.0}", number + 0.0);
    }
    let rounded = format!("{number:.*e}", FIGURE_DIGITS - 1);
    match rounded.parse::<f64>() {
        Ok(number) if (1e-4..1e15).contains(&number.abs()) => number.to_string(),
        _ => rounded,
    }
}

/// Widths of columns that fit a line, the widest ones cut; `None` if they are too many.
fn fitted(natural: &[usize], least: &[usize], width: usize) -> Option<Vec<usize>> {
    // "| a | b |"
    let room = width.checked_sub(3 * natural.len() + 1)?;
    let widths_up_to = |limit: usize| {
        natural.iter().zip(least).map(move |(&natural, &least)| natural.min(limit.max(least)))
    };
    if widths_up_to(COLUMN_WIDTH_MIN).sum::<usize>() > room {
        return None;
    }
    let widest = natural.iter().copied().max().unwrap_or(0).max(COLUMN_WIDTH_MIN);
    let limit = (COLUMN_WIDTH_MIN..=widest)
        .rev()
        .find(|&limit| widths_up_to(limit).sum::<usize>() <= room)?;
    let mut widths: Vec<usize> = widths_up_to(limit).collect();
    let mut left = room - widths.iter().sum::<usize>();
    for (width, &natural) in widths.iter_mut().zip(natural) {
        let more = left.min(natural - *width).min(1);
        *width += more;
        left -= more;
    }
    Some(widths)
}

/// A line per row.
fn across(columns: &[Column], rows: usize, widths: &[usize]) -> String {
    let rule: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
    let rule = format!("{rule}+\n");
    let line = |cell: &dyn Fn(&Column) -> (String, bool)| {
        let cells = columns.iter().zip(widths).map(|(column, &width)| {
            let (text, is_right) = cell(column);
            format!("| {} ", padded(&text, width, is_right))
        });
        format!("{}|\n", cells.collect::<String>())
    };
    let header = line(&|column| (column.name.clone(), false));
    let rows: String = (0..rows)
        .map(|row| line(&|column| (column.cells[row].clone(), column.is_number)))
        .collect();
    let end = if rows.is_empty() { "" } else { &rule };
    format!("{rule}{header}{rule}{rows}{end}")
}

/// A line per column of each row.
fn down(columns: &[Column], rows: usize, width: Option<usize>) -> String {
    let names = columns.iter().map(|column| measure_text_width(&column.name)).max().unwrap_or(0);
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(names + 3).max(1));
    let mut out = String::new();
    for row in 0..rows {
        let title = format!("-[ row {} ]", row + 1);
        let rule = width.unwrap_or(names + 3).saturating_sub(title.len()).min(names + 3);
        out.push_str(&format!("{title}{}\n", "-".repeat(rule)));
        for column in columns {
            let cell = truncate_str(&column.cells[row], room, ELLIPSIS);
            out.push_str(&format!("{} | {cell}\n", padded(&column.name, names, false)));
        }
    }
    out
}

/// Text cut or filled to a width.
fn padded(text: &str, width: usize, is_right: bool) -> String {
    let text = truncate_str(text, width, ELLIPSIS);
    let spaces = " ".repeat(width.saturating_sub(measure_text_width(&text)));
    if is_right { format!("{spaces}{text}") } else { format!("{text}{spaces}") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray, StructArray};
    use arrow_schema::Field;

    use super::*;

    fn batch(columns: usize, text: &str) -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![text, "b"]));
        let columns = (0..columns).flat_map(|of| {
            [(format!("id{of}"), ids.clone()), (format!("text{of}"), texts.clone())]
        });
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)))
            .unwrap()
    }

    fn shown(batch: &RecordBatch, width: usize, expanded: Expanded) -> String {
        let batches = std::slice::from_ref(batch);
        lay_out(&batch.schema(), batches, Some(width), expanded).unwrap()
    }

    #[test]
    fn what_fits_is_shown_whole_with_numbers_to_the_right() {
        let expected = "+------+-------+\n| id0  | text0 |\n+------+-------+\n|    7 | a\\nb  |\n\
                        | NULL | b     |\n+------+-------+\n";
        assert_eq!(shown(&batch(1, "a\nb"), 80, Expanded::Auto), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let wide = batch(3, &"漢字 and more ".repeat(20));
        for width in 1..200 {
            for expanded in [Expanded::Auto, Expanded::Always] {
                let shown = shown(&wide, width, expanded);
                // Names are not cut: they say what is where.
                let least = measure_text_width("text0 | x");
                let widest = shown.lines().map(measure_text_width).max().unwrap();
                assert!(widest <= width.max(least + 1), "{widest} of {width}:\n{shown}");
            }
        }
        assert!(shown(&wide, 80, Expanded::Auto).contains('…'));
        assert!(shown(&wide, 80, Expanded::Auto).starts_with("+--"));
        assert!(shown(&wide, 40, Expanded::Auto).starts_with("-[ row 1 ]"));
        assert!(shown(&wide, 40, Expanded::Never).starts_with("+--"));
    }

    #[test]
    fn an_estimate_is_not_cut_before_its_upper_end() {
        let float = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        let note = "leans on a limit theorem, and says so at length";
        let notes: ArrayRef = Arc::new(StringArray::from(vec![note]));
        let values = [float(4.963579634927614), float(4.91316604697528), float(20_000.0), notes];
        let parts = ESTIMATE.iter().zip(values).map(|(name, values)| {
            (Arc::new(Field::new(*name, values.data_type().clone(), true)), values)
        });
        let estimate: ArrayRef = Arc::new(StructArray::from(parts.collect::<Vec<_>>()));
        let city: ArrayRef =
            Arc::new(StringArray::from(vec!["a city with a long name ".repeat(3)]));
        let batch = RecordBatch::try_from_iter([("city", city), ("delay", estimate)]).unwrap();
        let figures = "{value: 4.96358, low: 4.91317, high: 20000";
        let at_80 = shown(&batch, 80, Expanded::Auto);
        assert!(at_80.starts_with("+--") && at_80.contains(figures), "{at_80}");
        assert!(at_80.lines().all(|line| measure_text_width(line) == 80), "{at_80}");
        // Where they do not fit beside other columns, rows go down the page.
        let at_55 = shown(&batch, 55, Expanded::Auto);
        assert!(at_55.starts_with("-[ row 1 ]") && at_55.contains(figures), "{at_55}");
        let whole = lay_out(&batch.schema(), &[batch], None, Expanded::Auto).unwrap();
        assert!(whole.contains(&format!("{figures}, note: {note}}}")), "{whole}");
    }

    #[test]
    fn no_rows_still_show_their_columns() {
        let none = batch(1, "").slice(0, 0);
        assert_eq!(
            shown(&none, 80, Expanded::Auto),
            "+-----+-------+\n| id0 | text0 |\n+-----+-------+\n"
        );
    }
}
