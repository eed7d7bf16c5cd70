//! What the figures were measured on.

use std::fs;
use std::thread;

/// Cores, memory, operating system and kernel, as far as the system tells.
pub fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let mut parts = vec![format!("{cores} cores")];
    parts.extend(memory());
    parts.push(release().unwrap_or_else(|| std::env::consts::OS.to_string()));
    parts.extend(kernel());
    parts.join(", ")
}

fn memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: f64 = text.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

fn release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_string())
}

fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    // Past the version stands whatever its builder chose to say.
    let version = release.trim().split('-').next()?.to_string();
    Some(format!("Linux {version}"))
}
