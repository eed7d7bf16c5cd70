//! `drillcore sql` without a query: a prompt in a terminal, else the statements on standard input.

use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use console::Term;
use drillcore::{Database, Interrupt, Snapshot};
use drillcore_sql::QueryOptions;
use indicatif::HumanCount;
use parking_lot::Mutex;
use reedline::{
    ColumnarMenu, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder,
    Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    ValidationResult, Validator, default_emacs_keybindings,
};

use crate::arguments::reading::Sql;
use crate::arguments::shared_options::Style;
use crate::printing::fitted_table::{Expanded, lay_out};
use crate::printing::output::{print_line, printed};
use crate::printing::pager::Pager;
use crate::process::ctrl_c::CtrlC;
use crate::process::fault::{Fault, report};
use crate::process::gone_terminal;
use crate::process::idle::Idle;
use crate::process::opening::open_to_read;
use crate::shell::completion::Names;
use crate::shell::statements::{Statement, split};
use crate::verbs::describe;
use crate::verbs::read::{self, standard_input};

/// Rows of a result that are shown at the prompt.
const ROWS_SHOWN_MAX: usize = 1_000;
/// Statements that the history keeps.
const HISTORY_LEN: usize = 10_000;
/// A prompt that waits longer closes the database until the next query: what a reader has opened, the writer cannot
/// remove.
const IDLE: Duration = Duration::from_secs(60);
/// What `\\d` says of each table: what fits a terminal.
const LISTED: [&str; 6] = ["table", "merge", "key", "set", "rows", "bytes"];
const MENU: &str = "completion";

const HELP: &str = "\
SQL ends with a semicolon and may go over several lines.
Each query reads the newest commit, also while another process writes.
  \\d           tables
  \\d TABLE     columns of a table, and what it holds
  \\x           rows shown vertically: on, off, or auto (if they are too wide)
  \\?           this help
  \\q           leave, as Ctrl-D does
A result that is longer than the screen goes through $PAGER, or less.
Tab completes names and keywords, Ctrl-R searches earlier statements,
Ctrl-C stops a query or clears the line.";

/// Runs one query, those on standard input, or a prompt.
pub fn sql(arguments: Sql, ctrl_c: &Arc<CtrlC>) -> Result<(), Fault> {
    let interrupt = ctrl_c.interrupt();
    match &arguments.query {
        Some(query) => {
            let text = match query.as_str() {
                "-" => standard_input(&interrupt)?,
                text => text.to_string(),
            };
            read::sql(&arguments, &text, &interrupt)
        }
        None if io::stdin().is_terminal() && io::stderr().is_terminal() => {
            Session::open(arguments, interrupt)?.prompt(ctrl_c)
        }
        None => Session::open(arguments, interrupt.clone())?.script(&standard_input(&interrupt)?),
    }
}

/// Refuses a command of the prompt among statements.
fn check_is_statement(text: &str) -> Result<(), Fault> {
    match text.starts_with('\\') {
        false => Ok(()),
        true => {
            let command = text.split_whitespace().next().unwrap_or_default();
            let instead = match command {
                "\\d" => "use drillcore tables or drillcore describe",
                _ => "leave it out",
            };
            let what = format!("{command} is a command of the prompt in a terminal; {instead}");
            Err(Fault::wrong_call(what))
        }
    }
}

/// A reader and how it shows what it reads.
struct Session {
    arguments: Sql,
    interrupt: Interrupt,
    database: Arc<Mutex<Option<Database>>>,
    expanded: Expanded,
    names: Names,
}

/// Whether to go on.
#[derive(PartialEq)]
enum Next {
    GoOn,
    Leave,
}

impl Session {
    fn open(arguments: Sql, interrupt: Interrupt) -> Result<Session, Fault> {
        let database = open_to_read(&arguments.database, &interrupt)?;
        let database = Arc::new(Mutex::new(Some(database)));
        let (expanded, names) = (Expanded::Auto, Names::default());
        let session = Session { arguments, interrupt, database, expanded, names };
        // A name of a snapshot that is mistyped should be known before the first query.
        session.names.refresh(&session.snapshot(&session.refreshed()?)?)?;
        Ok(session)
    }

    /// The database as of the newest commit.
    fn refreshed(&self) -> Result<Database, Fault> {
        let mut database = self.database.lock();
        let db = match database.as_ref() {
            Some(db) => db.clone(),
            None => open_to_read(&self.arguments.database, &self.interrupt)?,
        };
        db.refresh()?;
        *database = Some(db.clone());
        Ok(db)
    }

    fn snapshot(&self, db: &Database) -> Result<Snapshot, Fault> {
        Ok(match &self.arguments.moment.at {
            None => db.snapshot()?,
            Some(name) => db.named_snapshot(name)?,
        })
    }

    /// Runs every statement of a text, up to the first that fails, and prints all of each result.
    fn script(self, text: &str) -> Result<(), Fault> {
        for Statement { text, line } in split(text).statements {
            let snapshot = self.snapshot(&self.refreshed()?)?;
            let done = check_is_statement(&text)
                .and_then(|()| read::print_query(&snapshot, &self.arguments, &text));
            done.map_err(|fault| fault.at(&format!("standard input, line {line}")))?;
        }
        Ok(())
    }

    fn prompt(mut self, ctrl_c: &CtrlC) -> Result<(), Fault> {
        if self.arguments.output.output == Style::Arrow {
            let what = "an Arrow stream cannot be shown in a terminal; use another --output";
            return Err(Fault::wrong_call(what));
        }
        gone_terminal::end_with_it();
        let mut editor = editor(self.names.clone());
        let asks = Asks::new(&self.arguments.database);
        let idle = Idle::watch(self.database.clone(), IDLE);
        let pager = Pager { ctrl_c, idle: &idle };
        print_line("Type \\? for help, \\q to leave.")?;
        ctrl_c.begin_prompt();
        loop {
            idle.begin();
            let line = editor.read_line(&asks);
            idle.end();
            ctrl_c.forget();
            // Otherwise a terminal that is closed loses what was typed. Without a history there is nothing to keep.
            let _ = editor.sync_history();
            let text = match line {
                Ok(Signal::Success(text)) => text,
                Ok(Signal::CtrlD) => return Ok(()),
                Ok(_) => continue,
                Err(error) => {
                    return Err(Fault::unusable(format!("cannot use the terminal: {error}")));
                }
            };
            let mut next = Ok(Next::GoOn);
            let whole = drillcore::without_panic(|| {
                next = self.answer(&text, &pager);
                Ok(())
            });
            match whole.map_err(Fault::from).and(next) {
                Ok(Next::GoOn) => {}
                Ok(Next::Leave) => return Ok(()),
                Err(fault) => report(format_args!("error: {fault}")),
            }
        }
    }

    /// Does what a line asks for: a command, or one or more statements.
    fn answer(&mut self, text: &str, pager: &Pager) -> Result<Next, Fault> {
        let text = text.trim();
        match text.trim_end_matches(';').trim() {
            "exit" | "quit" => return Ok(Next::Leave),
            "help" => return self.command("\\?", pager),
            command if command.starts_with('\\') => return self.command(command, pager),
            _ => {}
        }
        for statement in split(text).statements {
            self.query(&statement.text, pager)?;
            pager.ctrl_c.forget();
        }
        Ok(Next::GoOn)
    }

    fn command(&mut self, command: &str, pager: &Pager) -> Result<Next, Fault> {
        let (name, argument) = match command.split_once(char::is_whitespace) {
            Some((name, argument)) => (name, argument.trim()),
            None => (command, ""),
        };
        match (name, argument) {
            ("\\q", "") => return Ok(Next::Leave),
            ("\\?" | "\\h", "") => print_line(HELP)?,
            ("\\d", table) => self.describe(table, pager)?,
            ("\\x", how) => {
                self.expanded = match (how, self.expanded) {
                    ("on", _) | ("", Expanded::Auto | Expanded::Never) => Expanded::Always,
                    ("off", _) => Expanded::Never,
                    ("auto", _) | ("", Expanded::Always) => Expanded::Auto,
                    _ => return Err(Fault::wrong_call("use \\x on, \\x off or \\x auto")),
                };
                let how = match self.expanded {
                    Expanded::Auto => "rows that are too wide are shown vertically",
                    Expanded::Always => "rows are shown vertically",
                    Expanded::Never => "rows are shown horizontally",
                };
                print_line(how)?;
            }
            _ => {
                let what = format!("unknown command {command:?}; \\? lists all");
                return Err(Fault::wrong_call(what));
            }
        }
        Ok(Next::GoOn)
    }

    fn describe(&self, table: &str, pager: &Pager) -> Result<(), Fault> {
        let db = self.refreshed()?;
        let (snapshot, stats) = (self.snapshot(&db)?, db.stats()?);
        self.names.refresh(&snapshot)?;
        if table.is_empty() {
            let tables = describe::tables(&snapshot, &stats)?;
            let shown = LISTED.iter().map(|name| tables.schema().index_of(name));
            let shown = shown.collect::<Result<Vec<_>, _>>().expect("they are columns of the list");
            let tables = tables.project(&shown).expect("they are columns of the list");
            drop((snapshot, db));
            return self.show(&[tables], pager);
        }
        let name = match table.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => table.to_string(),
        };
        let table = snapshot.table(&name)?;
        print_line(&describe::heading(&table, &stats)?)?;
        let columns = describe::columns(&table.schema());
        drop((table, snapshot, db));
        self.show(&[columns], pager)
    }

    /// Prints the first rows of a result, how many there are, and how long they took.
    fn query(&self, text: &str, pager: &Pager) -> Result<(), Fault> {
        let begun = Instant::now();
        let snapshot = self.snapshot(&self.refreshed()?)?;
        self.names.refresh(&snapshot)?;
        let Sql { threads, memory_bytes, .. } = self.arguments;
        let options = QueryOptions { threads, memory_bytes, ..Default::default() };
        let mut query = drillcore_sql::query(&snapshot, text, &options)?;
        let schema = query.schema();
        let (mut batches, mut rows, mut is_shortened) = (Vec::new(), 0, false);
        while let Some(batch) = query.next().transpose()? {
            let batch = batch.slice(0, batch.num_rows().min(ROWS_SHOWN_MAX + 1 - rows));
            rows += batch.num_rows();
            batches.push(batch);
            if rows > ROWS_SHOWN_MAX {
                is_shortened = true;
                break;
            }
        }
        // What is held of the database is not needed while the rows are read.
        drop((query, snapshot));
        let elapsed = begun.elapsed();
        if let (true, Some(last)) = (is_shortened, batches.last_mut()) {
            *last = last.slice(0, last.num_rows() - 1);
            rows = ROWS_SHOWN_MAX;
        }
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        self.show(&batches, pager)?;
        let seconds = elapsed.as_secs_f64();
        let shown = HumanCount(rows as u64);
        print_line(&match (is_shortened, rows) {
            (true, _) => format!(
                "the first {shown} rows, {seconds:.3} s; there are more. Use limit, or give the query to \
                 `drillcore sql` as an argument to get all"
            ),
            (false, 1) => format!("1 row, {seconds:.3} s"),
            (false, _) => format!("{shown} rows, {seconds:.3} s"),
        })
    }

    fn show(&self, batches: &[RecordBatch], pager: &Pager) -> Result<(), Fault> {
        let style = self.arguments.output.output;
        if style != Style::Table {
            return pager.show(&printed(style, batches)?);
        }
        // What goes to a file is not cut.
        let size = Term::stdout().size_checked().filter(|_| io::stdout().is_terminal());
        let width = size.map(|(_, columns)| usize::from(columns));
        let text = lay_out(&batches[0].schema(), batches, width, self.expanded)
            .map_err(|error| Fault::unusable(format!("cannot show the rows: {error}")))?;
        pager.show(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }
}

/// The editor of lines, with the history of this user.
fn editor(names: Names) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu(MENU.to_string()),
        ReedlineEvent::MenuNext,
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let new_line = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, new_line);
    let menu = ReedlineMenu::EngineCompleter(Box::new(
        ColumnarMenu::default().with_name(MENU).with_marker("> "),
    ));
    let has_colors = console::colors_enabled_stderr();
    let editor = Reedline::create()
        .with_completer(Box::new(names))
        .with_menu(menu)
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_validator(Box::new(AtSemicolon))
        .with_ansi_colors(has_colors)
        .use_bracketed_paste(true);
    let history = history_path().and_then(|path| {
        let opened =
            private_folder(path.parent()?).map_err(|error| error.to_string()).and_then(|()| {
                FileBackedHistory::with_file(HISTORY_LEN, path.clone())
                    .map_err(|error| error.to_string())
            });
        match opened {
            Ok(history) => Some(history),
            Err(error) => {
                let path = path.display();
                report(format_args!(
                    "the statement history is not saved, because {path} cannot be used: {error}"
                ));
                None
            }
        }
    });
    match history {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// Where the history is: in the directory for what programs remember of a user.
fn history_path() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()) {
        Some(state) => PathBuf::from(state),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(folder.join("drillcore").join("sql_history"))
}

/// Makes a directory that others cannot read: queries hold values.
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Statements go on to the next line until a semicolon ends them; commands take one line.
struct AtSemicolon;

impl Validator for AtSemicolon {
    fn validate(&self, text: &str) -> ValidationResult {
        let is_command = text.trim_start().starts_with('\\');
        let is_word = matches!(text.trim(), "exit" | "quit" | "help");
        match is_command || is_word || split(text).is_complete {
            true => ValidationResult::Complete,
            false => ValidationResult::Incomplete,
        }
    }
}

/// What stands before a line.
struct Asks {
    name: String,
    /// As wide as the name, so that the lines of a statement are aligned.
    indent: String,
}

impl Asks {
    fn new(database: &Path) -> Asks {
        let name = fs::canonicalize(database).unwrap_or_else(|_| database.to_path_buf());
        let name = name.file_name().unwrap_or(name.as_os_str()).to_string_lossy();
        // A name may hold what moves the cursor.
        let name: String = name.chars().filter(|char| !char.is_control()).collect();
        let indent = " ".repeat(console::measure_text_width(&name).saturating_sub(1));
        Asks { name, indent }
    }
}

impl Prompt for Asks {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{}-> ", self.indent))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!(" (search: {})> ", search.term))
    }
}
