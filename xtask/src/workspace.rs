//! The workspace as its manifests describe it.

use crate::{files, paths};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// All packages.
#[derive(Debug)]
pub struct Workspace {
    packages: Vec<Package>,
}

/// One package.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The names of what it depends on, from this workspace or not.
    pub dependencies: Vec<String>,
    /// Whether it builds on the host.
    pub default: bool,
}

impl Workspace {
    /// Reads the manifests.
    pub fn read() -> Result<Self> {
        let root = manifest(&paths::root().join("Cargo.toml"))?;
        let workspace = root.get("workspace").context("Cargo.toml has no workspace")?;
        let members = strings(workspace, "members")?;
        let default = strings(workspace, "default-members")?;
        let packages = members.iter().map(|member| package(member, default.contains(member)));
        Ok(Self { packages: packages.collect::<Result<_>>()? })
    }

    /// Every package.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The names of those that build on the host.
    pub fn default_packages(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().filter(|package| package.default).map(|package| package.name.as_str())
    }
}

fn package(member: &str, default: bool) -> Result<Package> {
    let folder = paths::root().join(member);
    let manifest = manifest(&folder.join("Cargo.toml"))?;
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let name = name.with_context(|| format!("{member} has no package name"))?.to_owned();
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let dependencies = dependencies.map(|table| table.keys().cloned().collect()).unwrap_or_default();
    Ok(Package { name, folder, dependencies, default })
}

fn manifest(path: &std::path::Path) -> Result<toml::Table> {
    toml::from_str(&files::read_text(path)?).with_context(|| format!("cannot parse {}", path.display()))
}

fn strings(table: &toml::Value, key: &str) -> Result<Vec<String>> {
    let list =
        table.get(key).and_then(toml::Value::as_array).with_context(|| format!("Cargo.toml has no {key}"))?;
    Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}
