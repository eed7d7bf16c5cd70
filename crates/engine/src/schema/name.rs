//! What a table, a column or a named snapshot may be called.

use crate::error::{Error, Result};

/// The longest name. Names stand in the manifest, in messages and in what other programs show.
const NAME_BYTES_MAX: usize = 1024;
/// Characters of a name that is too long which its error shows.
const SHOWN_CHARS: usize = 40;

/// Refuses what is no name. One rule holds for tables, columns and snapshots: a name has something to see, no
/// NUL character, at which other programs would end it, and at most 1,024 bytes. Any other text is one.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::invalid(format!(
            "{name:?} is not a valid name of a {what}; use a name with visible characters"
        )));
    }
    if name.contains('\0') {
        return Err(Error::invalid(format!(
            "{name:?} is not a valid name of a {what}: it has a NUL character; remove it"
        )));
    }
    if name.len() > NAME_BYTES_MAX {
        let beginning: String = name.chars().take(SHOWN_CHARS).collect();
        return Err(Error::invalid(format!(
            "the name of a {what} has {} bytes; the limit is {NAME_BYTES_MAX}. Shorten \
             \"{}...\"",
            name.len(),
            beginning.escape_debug()
        )));
    }
    Ok(())
}
