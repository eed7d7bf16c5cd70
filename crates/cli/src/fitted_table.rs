//! Rows laid out to the width of a terminal: columns cut with an ellipsis, or each row down the page.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, Schema};
use console::{measure_text_width, truncate_str};

/// The narrowest that a column is cut to. If that is too wide still, rows go down the page.
const COLUMN_WIDTH_MIN: usize = 6;
const ELLIPSIS: &str = "…";
const NULL: &str = "NULL";

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
    let widths = match width {
        None => Some(natural),
        Some(width) => fitted(&natural, width),
    };
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    Ok(match (expanded, widths) {
        (Expanded::Always, _) | (Expanded::Auto, None) => down(&columns, rows, width),
        (_, Some(widths)) => across(&columns, rows, &widths),
        (Expanded::Never, None) => {
            let least: Vec<usize> =
                columns.iter().map(|column| column.width().min(COLUMN_WIDTH_MIN)).collect();
            across(&columns, rows, &least)
        }
    })
}

fn columns(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Column>, ArrowError> {
    let options = FormatOptions::default().with_null(NULL).with_display_error(true);
    let column = |index: usize| {
        let field = schema.field(index);
        let mut cells = Vec::new();
        for batch in batches {
            let values = ArrayFormatter::try_new(batch.column(index), &options)?;
            cells.extend((0..batch.num_rows()).map(|row| shown(&values.value(row).to_string())));
        }
        Ok(Column { name: shown(field.name()), is_number: field.data_type().is_numeric(), cells })
    };
    (0..schema.fields().len()).map(column).collect()
}

/// Text on one line that moves no cursor and sets no color.
fn shown(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    let escaped = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Widths of columns that fit a line, the widest ones cut; `None` if they are too many.
fn fitted(natural: &[usize], width: usize) -> Option<Vec<usize>> {
    // "| a | b |"
    let room = width.checked_sub(3 * natural.len() + 1)?;
    let cut = |limit: usize| natural.iter().map(move |&natural| natural.min(limit));
    if cut(COLUMN_WIDTH_MIN).sum::<usize>() > room {
        return None;
    }
    let widest = natural.iter().copied().max().unwrap_or(0).max(COLUMN_WIDTH_MIN);
    let limit =
        (COLUMN_WIDTH_MIN..=widest).rev().find(|&limit| cut(limit).sum::<usize>() <= room)?;
    let mut widths: Vec<usize> = cut(limit).collect();
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

    use arrow_array::{ArrayRef, Int64Array, StringArray};

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
    fn no_rows_still_show_their_columns() {
        let none = batch(1, "").slice(0, 0);
        assert_eq!(
            shown(&none, 80, Expanded::Auto),
            "+-----+-------+\n| id0 | text0 |\n+-----+-------+\n"
        );
    }
}
