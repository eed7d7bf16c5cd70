//! The rules of the house that a test can check: crates import down only, as ARCHITECTURE.md says, and
//! the links of all pages lead somewhere.
//!
//! Reads the files of the repository, nothing else. Each rule is a function from text to faults, with a
//! test beside it that shows what it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crate names that belong to the project begin so.
const OURS: &str = "drillcore";

/// One row of the floors table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Floor {
    /// `None` is off: nothing may stand on it.
    level: Option<u32>,
    folder: String,
    stands_on: BTreeSet<String>,
}

/// The project's crates that a manifest names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Imports {
    package: String,
    /// In `[dependencies]` and its like for build scripts and platforms.
    always: BTreeSet<String>,
    /// In `[dev-dependencies]`.
    in_tests: BTreeSet<String>,
}

fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate lies in the repository")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The words between backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// The floors table of ARCHITECTURE.md, by crate.
fn floors(page: &str) -> BTreeMap<String, Floor> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| floor |")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [level, name, folder, _, stands_on] = cells[..] else {
                panic!("a floor has five columns: {line}");
            };
            let level = match level {
                "off" => None,
                number => Some(number.parse().expect("a floor has a number")),
            };
            let only = |cell: &str| quoted(cell).pop().expect("names stand between backquotes");
            let stands_on = quoted(stands_on).into_iter().collect();
            (only(name), Floor { level, folder: only(folder), stands_on })
        })
        .collect()
}

/// Reads the lines of a manifest that tell who imports whom.
fn imports(manifest: &str) -> Imports {
    let mut imports = Imports::default();
    let mut section = "";
    for line in manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            // `[dependencies.name]` is an import by itself.
            if let Some((table, name)) = section.rsplit_once('.') {
                note_import(&mut imports, table, name);
            }
            continue;
        }
        let Some((left, right)) = line.split_once('=') else { continue };
        if section == "package" && left.trim() == "name" {
            imports.package = right.trim().trim_matches('"').to_string();
        }
        let name = left.split('.').next().unwrap_or_default();
        note_import(&mut imports, section, name);
        // A crate may be imported under another name.
        if let Some((_, package)) = right.split_once("package") {
            let package = package.split('"').nth(1).unwrap_or_default();
            note_import(&mut imports, section, package);
        }
    }
    imports
}

fn note_import(imports: &mut Imports, section: &str, name: &str) {
    let name = name.trim().trim_matches('"');
    if !(name == OURS || name.starts_with(&format!("{OURS}-"))) {
        return;
    }
    if section.ends_with("dev-dependencies") {
        imports.in_tests.insert(name.to_string());
    } else if section.ends_with("dependencies") {
        imports.always.insert(name.to_string());
    }
}

/// What is wrong with the imports of `name`.
fn import_faults(name: &str, imports: &Imports, floors: &BTreeMap<String, Floor>) -> Vec<String> {
    let mut faults = Vec::new();
    let floor = &floors[name];
    if imports.always != floor.stands_on {
        let (found, expected) = (&imports.always, &floor.stands_on);
        faults.push(format!("{name} imports {found:?}, but the table says {expected:?}"));
    }
    for other in imports.always.union(&imports.in_tests) {
        let below = match floors.get(other).map(|floor| floor.level) {
            Some(Some(level)) => floor.level.is_none_or(|own| level < own),
            Some(None) | None => false,
        };
        if !below {
            faults.push(format!("{name} imports {other}, which is no floor below it"));
        }
    }
    faults
}

/// The members of the workspace.
fn members(manifest: &str) -> BTreeSet<String> {
    let list = manifest.split_once("members").expect("the workspace lists its members").1;
    let list = list.split_once(']').expect("the list ends").0;
    list.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// The lines of a page outside its code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The targets of the links `[text](target)` of a page, in order.
fn links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(page) {
        for after in line.split("](").skip(1) {
            if let Some((target, _)) = after.split_once(')') {
                links.push(target.to_string());
            }
        }
    }
    links
}

/// The anchors of a page's headings: lower case, spaces as dashes, without other punctuation.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// What is wrong with the links of the page at `path`.
fn link_faults(path: &Path, page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for link in links(page) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = match link.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (link.as_str(), None),
        };
        let target = if file.is_empty() {
            path.to_path_buf()
        } else {
            path.parent().expect("a page lies in a folder").join(file)
        };
        let is_there = match anchor {
            None => target.exists(),
            Some(anchor) => {
                fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
            }
        };
        if !is_there {
            faults.push(format!("{}: {link} leads nowhere", path.display()));
        }
    }
    faults
}

/// The Markdown files directly in a folder.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn every_crate_stands_on_the_floors_that_the_table_names_and_on_no_others() {
    let root = repository();
    let floors = floors(&read(&root.join("ARCHITECTURE.md")));
    let folders: BTreeSet<String> = floors.values().map(|floor| floor.folder.clone()).collect();
    assert_eq!(folders, members(&read(&root.join("Cargo.toml"))), "table and workspace differ");
    let mut faults = Vec::new();
    for (name, floor) in &floors {
        let imports = imports(&read(&root.join(&floor.folder).join("Cargo.toml")));
        assert_eq!(&imports.package, name, "the crate in {}", floor.folder);
        faults.extend(import_faults(name, &imports, &floors));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_relative_link_of_every_page_leads_somewhere() {
    let root = repository();
    let pages = [pages_in(&root), pages_in(&root.join("docs"))].concat();
    assert!(pages.len() >= 6, "only {} pages were found", pages.len());
    let faults: Vec<String> =
        pages.iter().flat_map(|path| link_faults(path, &read(path))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The most words of ARCHITECTURE.md, so that it can be read at once.
const ARCHITECTURE_WORDS_MAX: usize = 2_200;

#[test]
fn the_page_on_the_architecture_stays_short() {
    let words = read(&repository().join("ARCHITECTURE.md")).split_whitespace().count();
    assert!(
        words <= ARCHITECTURE_WORDS_MAX,
        "ARCHITECTURE.md has {words} words; the limit is {ARCHITECTURE_WORDS_MAX}. Move details to docs/internals.md"
    );
}

const TABLE: &str = "\
| floor | crate | folder | what it is | stands on |
|---|---|---|---|---|
| 0 | `drillcore-format` | `crates/format` | bytes | |
| 1 | `drillcore-storage` | `crates/storage` | files | `drillcore-format` |
| off | `drillcore-testkit` | `crates/testkit` | tests | `drillcore-storage` |
";

#[test]
fn an_import_that_points_up_is_found_wherever_it_stands() {
    let floors = floors(TABLE);
    let faults = |name: &str, manifest: &str| import_faults(name, &imports(manifest), &floors);
    let below = "[dependencies]\ndrillcore-format.workspace = true\ncrc32c = \"1\"\n";
    assert_eq!(faults("drillcore-storage", below), Vec::<String>::new());
    for upward in [
        "[dependencies]\ndrillcore-storage.workspace = true",
        "[dependencies.drillcore-storage]\nworkspace = true",
        "[dependencies]\nfiles = { package = \"drillcore-storage\", path = \"../storage\" }",
        "[target.'cfg(unix)'.dependencies]\ndrillcore-storage = { path = \"../storage\" }",
        "[build-dependencies]\n\"drillcore-storage\" = \"1\"",
        "[dev-dependencies]\ndrillcore-storage.workspace = true",
        "[dev-dependencies]\ndrillcore-testkit.workspace = true",
    ] {
        assert!(!faults("drillcore-format", upward).is_empty(), "{upward}");
    }
}

#[test]
fn an_import_that_the_table_does_not_name_is_found_and_so_is_a_missing_one() {
    let floors = floors(TABLE);
    let two = "[dependencies]\ndrillcore-format = \"1\"\ndrillcore-storage = \"1\"\n";
    let faults = import_faults("drillcore-testkit", &imports(two), &floors);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(import_faults("drillcore-storage", &Imports::default(), &floors).len(), 1);
}

#[test]
fn a_link_to_a_file_or_heading_that_is_not_there_is_found() {
    let path = repository().join("docs/format.md");
    let faults = |page: &str| link_faults(&path, page).len();
    assert_eq!(faults("[a](format.md) [b](../Cargo.toml) [c](https://example.org/x)"), 0);
    assert_eq!(faults("[a](format.md#row-blocks)\n```text\n[no link](nowhere.md)\n```"), 0);
    assert_eq!(faults("# Here and (there)\n[a](nowhere.md) and [b](format.md#nowhere)"), 2);
    assert!(anchors("# Here and (there)").contains("here-and-there"));
}

/// The modules that a file lists, in order.
fn listed_modules(source: &str) -> Vec<String> {
    let name = |line: &str| {
        let line =
            line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_string)
    };
    without_tests(source).lines().filter_map(name).collect()
}

/// A file without comments and without what only tests have.
fn without_tests(source: &str) -> String {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut kept = String::new();
    let mut rest = code.as_str();
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        rest = &after[end_of_item(after)..];
    }
    kept + rest
}

/// Where the item at the start of a text ends: at a semicolon, or at the brace that closes its first one.
fn end_of_item(text: &str) -> usize {
    let mut depth = 0;
    for (place, c) in text.char_indices() {
        match c {
            ';' if depth == 0 => return place + 1,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if c == '}' && depth == 0 {
            return place + 1;
        }
    }
    text.len()
}

/// The paths that a file names from `crate::` on, each item of a group by itself.
fn crate_paths(source: &str) -> Vec<Vec<String>> {
    let code = without_tests(source);
    let mut paths = Vec::new();
    for after in code.split("crate::").skip(1) {
        collect_paths(after, &mut Vec::new(), &mut paths);
    }
    paths
}

fn collect_paths(text: &str, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let rest = &text[name.len()..];
    let depth = before.len();
    if !name.is_empty() {
        before.push(name);
    }
    if let Some(rest) = rest.strip_prefix("::") {
        collect_paths(rest, before, paths);
    } else if rest.starts_with('{') {
        for item in items_of_group(rest) {
            collect_paths(item.trim(), before, paths);
        }
    } else {
        paths.push(before.clone());
    }
    before.truncate(depth);
}

/// What stands between commas in the braces that a text starts with.
fn items_of_group(text: &str) -> Vec<&str> {
    let group = &text[1..end_of_item(text) - 1];
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (place, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&group[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    items.push(&group[start..]);
    items.retain(|item| !item.trim().is_empty());
    items
}

/// The modules of a crate: for each the names that it lists, in order, by its path.
#[derive(Default)]
struct Modules {
    listed: BTreeMap<Vec<String>, Vec<String>>,
    sources: BTreeMap<Vec<String>, String>,
}

impl Modules {
    /// Reads a crate from the folder of its `lib.rs`.
    fn read(folder: &Path) -> Modules {
        let mut modules = Modules::default();
        modules.add(Vec::new(), folder.join("lib.rs"), folder.to_path_buf());
        modules
    }

    fn add(&mut self, path: Vec<String>, file: PathBuf, children: PathBuf) {
        let source = read(&file);
        let names = listed_modules(&source);
        for name in &names {
            let below = children.join(name);
            let alone = children.join(format!("{name}.rs"));
            let file = if alone.exists() { alone } else { below.join("mod.rs") };
            self.add([&path[..], std::slice::from_ref(name)].concat(), file, below);
        }
        self.listed.insert(path.clone(), names);
        self.sources.insert(path, source);
    }

    /// The imports that do not point down, as faults.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (own, source) in self.sources.iter().filter(|(own, _)| !own.is_empty()) {
            let name = own.join("::");
            if without_tests(source).contains("super::") {
                faults.push(format!("{name} imports from `super`"));
            }
            for path in crate_paths(source) {
                if let Some(fault) = self.fault(own, &path) {
                    faults.push(format!("{name} imports {}: {fault}", path.join("::")));
                }
            }
        }
        faults
    }

    fn fault(&self, own: &[String], path: &[String]) -> Option<&'static str> {
        // What a macro or a doc names is no module; neither is what the crate itself exports.
        self.listed[&Vec::new()].contains(path.first()?).then_some(())?;
        let modules = (1..=path.len()).take_while(|&len| self.listed.contains_key(&path[..len]));
        let target = &path[..modules.last()?];
        let common = own.iter().zip(target).take_while(|(own, target)| own == target).count();
        if common == own.len() {
            return None;
        }
        if common == target.len() {
            return Some("it stands around the importing module");
        }
        let order = &self.listed[&own[..common]];
        let place = |name: &String| order.iter().position(|listed| listed == name);
        (place(&target[common]) > place(&own[common])).then_some("it stands further down")
    }
}

/// Those whose modules stand in order.
const CRATES: [&str; 8] = [
    "crates/format",
    "crates/sample",
    "crates/storage",
    "crates/engine",
    "crates/sql",
    "crates/bench",
    "crates/cli",
    "python",
];

/// What tells merge policies apart, in engine code that should ask its `TablePolicy`.
const POLICY_BRANCHES: [&str; 3] = [".rollup()", "has_tombstones(", "MergePolicy::"];

/// What asks a `TablePolicy` which it is, and then does one thing or another.
const POLICY_QUESTIONS: [&str; 4] = [".keeps_all()", ".deletes()", ".combines()", ".may_drop("];

/// How many lines of the engine may ask that. What the answer means for rows belongs beside the policies.
const POLICY_QUESTIONS_MAX: usize = 10;

/// The lines of a module that have one of some parts, unless it is one that policies are made of.
fn policy_lines(module: &[String], source: &str, parts: &[&str]) -> Vec<String> {
    if matches!(module.first().map(String::as_str), None | Some("policy" | "schema")) {
        return Vec::new();
    }
    let code = without_tests(source);
    let lines = code.lines().filter(|line| parts.iter().any(|part| line.contains(part)));
    lines.map(|line| format!("{}: {}", module.join("::"), line.trim())).collect()
}

/// The lines of a module that ask a `TablePolicy` which it is. A merge runs the fold that it was given.
fn policy_questions(module: &[String], source: &str) -> Vec<String> {
    let mut lines = policy_lines(module, source, &POLICY_QUESTIONS);
    lines.retain(|line| !line.contains("self.fold.") && !line.contains("self.may_drop("));
    lines
}

/// The only files with unsafe code.
const UNSAFE_FILES: [&str; 3] = [
    "crates/storage/src/background.rs",
    "crates/storage/src/files/ring.rs",
    "crates/testkit/src/counting_allocator.rs",
];

const FORBIDS_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// Whether a file changes the lint that refuses unsafe code, other than to forbid it.
fn allows_unsafe(source: &str) -> bool {
    let changes = |line: &str| line.starts_with('#') && line.contains("unsafe_code");
    source.lines().map(str::trim).any(|line| changes(line) && line != FORBIDS_UNSAFE)
}

/// The files of Rust below a folder, but for what was built.
fn sources_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut found = Vec::new();
    for entry in entries.map(|entry| entry.expect("the folder can be listed")) {
        let path = entry.path();
        match entry.file_type().expect("it has a type") {
            kind if kind.is_dir() && entry.file_name() != "target" => {
                found.extend(sources_below(&path));
            }
            kind if kind.is_file() && path.extension().is_some_and(|end| end == "rs") => {
                found.push(path);
            }
            _ => {}
        }
    }
    found
}

#[test]
fn only_three_files_allow_unsafe_code() {
    let root = repository();
    let files = [sources_below(&root.join("crates")), sources_below(&root.join("python/src"))];
    let allowing = files.iter().flatten().filter(|path| allows_unsafe(&read(path)));
    let allowing: BTreeSet<PathBuf> = allowing.cloned().collect();
    assert_eq!(allowing, UNSAFE_FILES.iter().map(|path| root.join(path)).collect());
    assert!(allows_unsafe("mod a {\n    #![expect(unsafe_code)]\n}"));
    assert!(allows_unsafe("#![forbid(unsafe_code)] #![allow(unsafe_code)]"));
    assert!(!allows_unsafe("let name = \"unsafe_code\";"));
    assert!(!allows_unsafe("#![forbid(unsafe_code)]"));
}

#[test]
fn only_the_policy_and_the_schema_of_the_engine_tell_merge_policies_apart() {
    let modules = Modules::read(&repository().join("crates/engine/src"));
    let lines = |of: fn(&[String], &str) -> Vec<String>| -> Vec<String> {
        modules.sources.iter().flat_map(|(module, source)| of(module, source)).collect()
    };
    let branches = lines(|module, source| policy_lines(module, source, &POLICY_BRANCHES));
    assert!(branches.is_empty(), "they tell policies apart:\n{}", branches.join("\n"));
    let questions = lines(policy_questions);
    assert!(!questions.is_empty(), "the questions have other names now");
    assert!(questions.len() <= POLICY_QUESTIONS_MAX, "too many ask:\n{}", questions.join("\n"));
}

#[test]
fn a_branch_on_the_merge_policy_is_seen_outside_its_folders() {
    let lines = |module: &str, source: &str, parts: &[&str]| {
        policy_lines(&[module.to_string()], source, parts).len()
    };
    let faults = |module: &str, source: &str| lines(module, source, &POLICY_BRANCHES);
    assert_eq!(faults("read", "if layout.rollup().is_some() {}\nlayout.has_tombstones();"), 2);
    assert_eq!(faults("read", "MergePolicy::Append => 1,\n// MergePolicy::Append"), 1);
    assert_eq!(faults("read", "#[cfg(test)]\nmod tests {\n    use MergePolicy::Append;\n}"), 0);
    assert_eq!(faults("policy", "MergePolicy::Append => 1,"), 0);
    let asks = "if policy.combines() {\nself.fold.combines();\nself.may_drop(1);";
    assert_eq!(policy_questions(&["read".to_string()], asks), ["read: if policy.combines() {"]);
}

#[test]
fn modules_import_only_what_stands_above_them() {
    let mut faults = Vec::new();
    for name in CRATES {
        let modules = Modules::read(&repository().join(name).join("src"));
        assert!(modules.sources.len() > 5, "{name} lists its modules");
        faults.extend(modules.faults());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A crate of these files, each with its path.
fn crate_of(files: &[(&str, &str)]) -> Modules {
    let mut modules = Modules::default();
    for (path, source) in files {
        let path: Vec<String> = path.split("::").map(str::to_string).collect();
        let path = if path == [""] { Vec::new() } else { path };
        modules.listed.insert(path.clone(), listed_modules(source));
        modules.sources.insert(path, source.to_string());
    }
    modules
}

#[test]
fn an_import_of_a_module_further_down_is_seen() {
    let lib = ("", "//! Doc\n\npub mod low;\nmod high;\n");
    let faults =
        |low: &str, high: &str| crate_of(&[lib, ("low", low), ("high", high)]).faults().len();
    assert_eq!(faults("use crate::Outside;\n// crate::high\n", "use crate::low::{A, b::C};"), 0);
    for upward in [
        "use crate::high::Thing;",
        "use crate::{low::A, high::{B, C}};",
        "fn f() {\n    crate::high::g();\n}",
        "#[cfg(test)]\nuse crate::low::A;\nuse crate::high::B;",
        "#[cfg(test)]\nmod tests {\n    use crate::high::A;\n    fn f() {}\n}\nuse crate::high::B;",
    ] {
        assert!(faults(upward, "") > 0, "{upward}");
    }
    assert_eq!(faults("#[cfg(test)]\nmod tests {\n    use crate::high::A;\n}\n", ""), 0);
}

#[test]
fn an_import_across_folders_or_of_what_stands_around_is_seen() {
    let faults = |file: &str, source: &str| {
        let mut modules = crate_of(&[
            ("", "mod low;\nmod high;\n"),
            ("low", "mod first;\nmod second;\npub struct Item;\n"),
            ("low::first", ""),
            ("low::second", ""),
            ("high", "mod third;\n"),
            ("high::third", ""),
        ]);
        let path = file.split("::").map(str::to_string).collect();
        modules.sources.insert(path, source.to_string());
        modules.faults().len()
    };
    assert_eq!(faults("high::third", "use crate::low::first::A;\nuse crate::low::Item;"), 0);
    assert_eq!(faults("low::second", "use crate::low::first::A;"), 0);
    assert_eq!(faults("low::first", "use crate::low::second::A;"), 1);
    assert_eq!(faults("low::second", "use crate::high::third::A;"), 1);
    assert_eq!(faults("low::second", "use crate::low::Item;"), 1);
    assert_eq!(faults("low::second", "use super::Item;"), 1);
}
