//! Where a database may lie: in a directory of a local file system.

use std::path::Path;

use crate::error::{Error, Result};

/// What other calls than those that open a directory take for a database in memory.
const MEMORY: &str = ":memory:";

/// Refuses what names no directory, such as a URL: as a path it would make a directory of that name here, and
/// nothing would be where its caller looks for it.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_path(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    if text.is_empty() || text.contains('\0') {
        return Err(Error::invalid(format!(
            "{text:?} is not a valid path; give the path of a directory"
        )));
    }
    if text == MEMORY {
        return Err(Error::invalid(format!(
            "{text:?} is not a directory, and a database in memory ends with its process; give a path, or \
             ./{text} for a directory of that name"
        )));
    }
    // Programs that take a URL for a path write its slashes as one.
    let Some((scheme, rest)) = text.split_once(":/").filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(());
    };
    let hint = match scheme.eq_ignore_ascii_case("file") {
        true => format!("give the path itself: /{}", rest.trim_start_matches('/')),
        false => format!(
            "a database must be a directory on a local file system; give its path, or ./{text} for a \
             directory of that name"
        ),
    };
    Err(Error::invalid(format!("{text:?} is a URL ({scheme}); {hint}")))
}

/// Whether a text is the scheme of a URL, as RFC 3986 spells it.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '+' | '-' | '.'))
}
