//! Texts such as `avg(delay)`, as the faces take them for aggregates and metrics.

use crate::error::{Error, Result};

/// A call in the text of a face: its name, and the argument in parentheses if there are such. `what` is called so
/// in errors.
pub fn name_and_argument<'a>(what: &str, text: &'a str) -> Result<(&'a str, Option<&'a str>)> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('(') else { return Ok((text, None)) };
    let argument = rest.strip_suffix(')').ok_or_else(|| {
        Error::invalid(format!("{what} {text:?} has no closing parenthesis; add it"))
    })?;
    Ok((name.trim_end(), Some(argument.trim())))
}
