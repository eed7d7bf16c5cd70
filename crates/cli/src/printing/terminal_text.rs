//! Stored text on a terminal: it moves no cursor and sets no color.

/// The text on one line, with each control character spelled out.
pub fn on_one_line(text: &str) -> String {
    spelled_out(text, char::is_control)
}

/// The text on as many lines as it has, with every other control character spelled out.
pub fn on_its_lines(text: &str) -> String {
    spelled_out(text, is_control_but_line_end)
}

/// Whether [`on_its_lines`] changes the text.
pub fn has_controls(text: &str) -> bool {
    text.contains(is_control_but_line_end)
}

fn is_control_but_line_end(char: char) -> bool {
    char.is_control() && char != '\n'
}

fn spelled_out(text: &str, is_spelled_out: impl Fn(char) -> bool) -> String {
    if !text.contains(&is_spelled_out) {
        return text.to_string();
    }
    let spelled = |char: char| match is_spelled_out(char) {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    text.chars().map(spelled).collect()
}
