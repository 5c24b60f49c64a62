//! Which package may depend on which (docs/ARCHITECTURE.md, "Crates").

use super::Finding;
use crate::workspace::{Package, Workspace};
use anyhow::Result;

/// Each package of the workspace with the others that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("abi", &[]),
    ("x86defs", &[]),
    ("devices", &["x86defs"]),
    ("guestboot", &["abi", "x86defs"]),
    ("instruction-cases", &[]),
    ("vmm", &["devices", "guestboot", "abi", "x86defs", "instruction-cases"]),
    ("kernel", &["abi", "x86defs", "devices", "guestboot", "vmm"]),
    ("loader", &["abi", "x86defs"]),
    ("guest-tests", &["abi", "x86defs", "instruction-cases"]),
    ("xtask", &["abi", "guestboot"]),
    ("fuzz", &["abi", "x86defs", "devices", "guestboot", "vmm", "loader"]),
];

/// Checks the manifests.
pub fn check() -> Result<Vec<Finding>> {
    let workspace = Workspace::read()?;
    Ok(workspace.packages().iter().flat_map(|package| wrong(package, workspace.packages())).collect())
}

fn wrong(package: &Package, all: &[Package]) -> Vec<Finding> {
    let allowed = ALLOWED.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed);
    let finding = |message| Finding { file: package.folder.join("Cargo.toml"), line: None, message };
    let Some(allowed) = allowed else {
        return vec![finding(format!(
            "nobody has said what '{}' may depend on; do so in tidy",
            package.name
        ))];
    };
    let own = package.dependencies.iter().filter(|name| all.iter().any(|other| other.name == **name));
    own.filter(|name| !allowed.contains(&name.as_str()))
        .map(|name| finding(format!("'{}' may not depend on '{name}'", package.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Package { name: name.to_owned(), folder: name.into(), dependencies, default: true }
    }

    #[test]
    fn wrong_directions_are_found() {
        let all = [package("abi", &[]), package("devices", &["abi", "bitflags"]), package("new", &[])];
        assert!(wrong(&all[0], &all).is_empty());
        assert_eq!(wrong(&all[1], &all)[0].message, "'devices' may not depend on 'abi'");
        assert_eq!(wrong(&all[2], &all).len(), 1);
    }
}
