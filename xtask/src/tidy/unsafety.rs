//! Unsafe code exists only where hardware is touched, and where fuzzing asks the hardware.

use super::{Finding, Source};
use crate::workspace::Workspace;
use anyhow::Result;

/// Packages that may opt in, module by module.
const MAY_BE_UNSAFE: [&str; 4] = ["kernel", "loader", "guest-tests", "fuzz"];
/// What every other package begins with.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Checks that every other package forbids it.
pub fn check(sources: &[Source]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in Workspace::read()?.packages() {
        if MAY_BE_UNSAFE.contains(&package.name.as_str()) {
            continue;
        }
        let folder = package.folder.strip_prefix(crate::paths::root()).unwrap_or(&package.folder);
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
        for source in sources.iter().filter(|source| roots.contains(&source.path)) {
            if !source.text.contains(FORBID) {
                findings.push(source.finding(None, format!("lacks {FORBID}")));
            }
        }
    }
    Ok(findings)
}
