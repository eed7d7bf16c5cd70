//! Text that is longer than the terminal, shown page by page by another program.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use console::Term;

use crate::printing::output::print_text;
use crate::process::ctrl_c::CtrlC;
use crate::process::fault::Fault;
use crate::process::idle::Idle;

/// What shows pages if `$PAGER` does not say. It leaves on the screen what it has shown.
const LESS: (&str, [&str; 3]) = ("less", ["-R", "-F", "-X"]);
/// Exit codes of a shell that cannot run a command.
const NOT_RUN: [i32; 2] = [126, 127];

/// Shows text at a prompt.
pub struct Pager<'a> {
    pub ctrl_c: &'a CtrlC,
    /// Lets go of what is held while a pager is open.
    pub idle: &'a Idle,
}

impl Pager<'_> {
    /// Prints text, through `$PAGER` or `less` if it has more lines than the terminal.
    pub fn show(&self, text: &[u8]) -> Result<(), Fault> {
        let Some(mut pager) = is_taller_than_terminal(text).then(begin).flatten() else {
            return print_text(text);
        };
        self.idle.begin();
        let is_shown = self.ctrl_c.leave_to(|| {
            // It may be closed before all is read.
            let written = pager.stdin.take().map(|mut out| out.write_all(text));
            drop(written);
            let ended = pager.wait().ok().and_then(|status| status.code());
            !ended.is_some_and(|code| NOT_RUN.contains(&code))
        });
        self.idle.end();
        if is_shown { Ok(()) } else { print_text(text) }
    }
}

/// False if standard output is no terminal.
fn is_taller_than_terminal(text: &[u8]) -> bool {
    let size = Term::stdout().size_checked().filter(|_| io::stdout().is_terminal());
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    // The next prompt takes a line, too.
    size.is_some_and(|(rows, _)| lines >= usize::from(rows))
}

/// A pager that waits for its text, if there is one.
fn begin() -> Option<Child> {
    let mut command = match env::var_os("PAGER") {
        None => {
            let (less, options) = LESS;
            let mut command = Command::new(less);
            command.args(options);
            command
        }
        Some(none) if none.is_empty() => return None,
        // It may have options.
        Some(pager) => {
            let mut command = Command::new("sh");
            command.args([OsString::from("-c"), pager]);
            command
        }
    };
    command.stdin(Stdio::piped()).spawn().ok()
}
