//! The files that a boot loader placed in memory, by name. A module's command line begins with its name,
//! possibly a path; the rest is its arguments.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The name by which the configuration is known.
pub const CONFIG_NAME: &str = "gossamer.toml";

/// One module's command line, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    /// First word, possibly a path.
    pub path: &'a str,
    /// What follows it.
    pub args: &'a str,
}

impl<'a> Module<'a> {
    /// Splits a command line.
    pub fn parse(cmdline: &'a str) -> Self {
        let cmdline = cmdline.trim();
        let (path, args) = cmdline.split_once(char::is_whitespace).unwrap_or((cmdline, ""));
        Self { path, args: args.trim_start() }
    }

    /// Last component of its path.
    pub fn name(&self) -> &'a str {
        last_component(self.path)
    }
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// All modules, in the boot loader's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules<'a>(Vec<Module<'a>>);

impl<'a> Modules<'a> {
    /// From their command lines.
    pub fn new(cmdlines: impl IntoIterator<Item = &'a str>) -> Self {
        Self(cmdlines.into_iter().map(Module::parse).collect())
    }

    /// The module with this number.
    pub fn get(&self, index: usize) -> Option<Module<'a>> {
        self.0.get(index).copied()
    }

    /// The configuration: the first module whose name is [`CONFIG_NAME`] or ends with it.
    pub fn config(&self) -> Option<usize> {
        self.0.iter().position(|module| module.name().ends_with(CONFIG_NAME))
    }

    /// The number of the module with this name: its whole path, or else its last component, which must then
    /// be the only one of that name.
    pub fn find(&self, name: &str) -> Result<usize, ModuleError> {
        if let Some(index) = self.0.iter().position(|module| module.path == name) {
            return Ok(index);
        }
        let mut same = self.0.iter().enumerate().filter(|(_, module)| module.name() == name);
        match (same.next(), same.next()) {
            (Some((index, _)), None) => Ok(index),
            (None, _) => Err(ModuleError::Missing { name: name.into(), present: self.paths() }),
            (Some(_), Some(_)) => Err(ModuleError::Ambiguous { name: name.into(), present: self.paths() }),
        }
    }

    fn paths(&self) -> Vec<String> {
        self.0.iter().map(|module| module.path.into()).collect()
    }
}

/// Why a name leads to no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleError {
    /// There is none.
    Missing {
        /// The name.
        name: String,
        /// Paths of all modules.
        present: Vec<String>,
    },
    /// There are several in different folders.
    Ambiguous {
        /// The name.
        name: String,
        /// Paths of all modules.
        present: Vec<String>,
    },
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, name, present) = match self {
            Self::Missing { name, present } => ("no boot module is named", name, present),
            Self::Ambiguous { name, present } => ("several boot modules are named", name, present),
        };
        write!(f, "{problem} {name:?}; ")?;
        if present.is_empty() {
            return f.write_str("there are none");
        }
        f.write_str("there are ")?;
        for (n, path) in present.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{path:?}")?;
        }
        Ok(())
    }
}

impl core::error::Error for ModuleError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn splits_name_and_arguments() {
        let module = Module::parse("  (hd0)/boot/vmlinuz  console=ttyS0 quiet ");
        assert_eq!(module, Module { path: "(hd0)/boot/vmlinuz", args: "console=ttyS0 quiet" });
        assert_eq!(module.name(), "vmlinuz");
        assert_eq!(Module::parse(""), Module { path: "", args: "" });
        assert_eq!(Module::parse("/").name(), "");
    }

    #[test]
    fn finds_by_whole_path_or_last_component() {
        let modules = Modules::new(["/a/vmlinuz x", "/b/initrd.img", "vmlinuz y"]);
        assert_eq!(modules.find("/a/vmlinuz"), Ok(0));
        assert_eq!(modules.find("initrd.img"), Ok(1));
        assert_eq!(modules.find("vmlinuz"), Ok(2), "the whole path goes first");
    }

    #[test]
    fn missing_module_lists_those_present() {
        let modules = Modules::new(["/boot/gossamer.toml", "initrd.img quiet"]);
        assert_eq!(
            modules.find("vmlinuz").unwrap_err().to_string(),
            r#"no boot module is named "vmlinuz"; there are "/boot/gossamer.toml", "initrd.img""#
        );
        assert_eq!(
            Modules::new([]).find("vmlinuz").unwrap_err().to_string(),
            r#"no boot module is named "vmlinuz"; there are none"#
        );
    }

    #[test]
    fn same_name_in_two_folders_is_ambiguous() {
        assert_eq!(
            Modules::new(["a/vmlinuz", "b/vmlinuz"]).find("vmlinuz").unwrap_err().to_string(),
            r#"several boot modules are named "vmlinuz"; there are "a/vmlinuz", "b/vmlinuz""#
        );
    }

    #[test]
    fn configuration_is_known_by_its_name() {
        assert_eq!(Modules::new(["vmlinuz gossamer.toml", "/x/my-gossamer.toml"]).config(), Some(1));
        assert_eq!(Modules::new(["vmlinuz", "gossamer.toml.bak"]).config(), None);
    }
}
