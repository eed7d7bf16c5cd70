//! Tells the linker to keep one of all functions that compile to the same code, where the linker is known to do that. It makes the
//! extension about a tenth smaller.

use std::path::Path;
use std::process::Command;
use std::{env, str};

/// For this target the compiler links with the linker that comes with it, ...
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// ... from its version 1.90 on.
const MINOR_VERSION: u32 = 90;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if !names_a_linker() && links_by_itself().unwrap_or(false) {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}

/// Whether the environment says how to link.
fn names_a_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_some() || flags.contains("link") || flags.contains("=ld")
}

/// Whether the compiler links with its own linker; `None` if it does not say which compiler it is.
fn links_by_itself() -> Option<bool> {
    let printed = |arguments: &[&str]| {
        let output = Command::new(env::var_os("RUSTC")?).args(arguments).output().ok()?;
        Some(str::from_utf8(&output.stdout).ok()?.trim().to_string())
    };
    let minor = printed(&["--version"])?.split('.').nth(1)?.parse::<u32>().ok()?;
    // Compilers that a distribution built may come without it.
    let linker = Path::new(&printed(&["--print", "sysroot"])?)
        .join("lib/rustlib")
        .join(TARGET)
        .join("bin/gcc-ld/ld.lld");
    Some(env::var("TARGET").ok()? == TARGET && minor >= MINOR_VERSION && linker.exists())
}
