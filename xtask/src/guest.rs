//! A Linux guest as a boot payload: under the hypervisor with a configuration written for it, or bare.

use crate::image::Image;
use crate::machine::{Content, Module, Payload, Protocol};
use crate::setup::Distribution;
use crate::{initramfs, machine};
use anyhow::{Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Names of a guest's files among the modules.
pub const KERNEL_NAME: &str = "vmlinuz";
pub const INITRD_NAME: &str = "initrd.img";
/// Linux's console is the serial port.
pub const CMDLINE: &str = "console=ttyS0";
/// Memory of a guest, in MiB.
pub const MEMORY: u64 = 512;
/// Least memory of a machine, in MiB.
pub const LEAST_MACHINE_MEMORY: u64 = 1024;
/// What a machine has beyond its guest's memory, in MiB: firmware, hypervisor, modules.
const BEYOND_GUEST: u64 = 512;

/// A Linux guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// A bzImage.
    pub kernel: PathBuf,
    /// Its initrd.
    pub initrd: Option<PathBuf>,
    /// Its modules, for kernels that are not Linux.
    pub modules: Vec<GuestModule>,
    /// Its command line.
    pub cmdline: String,
    /// Its memory in MiB.
    pub memory: u64,
    /// Further lines of its configuration.
    pub settings: &'static str,
}

/// A file that the guest's kernel gets with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestModule {
    /// The file.
    pub file: PathBuf,
    /// What follows its name.
    pub arguments: String,
}

impl GuestModule {
    /// Its name among the modules.
    pub fn name(&self) -> &str {
        self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Its command line.
    pub fn line(&self) -> String {
        format!("{} {}", self.name(), self.arguments).trim_end().to_owned()
    }
}

impl Guest {
    /// Debian's kernel with our initramfs.
    pub fn debian(distribution: Distribution) -> Result<Self> {
        let files = distribution.files()?;
        let initrd = match files.initrd {
            Some(initrd) => initrd,
            None => initramfs::build()?,
        };
        Ok(Self { initrd: Some(initrd), ..Self::with_kernel(&files.kernel) })
    }

    /// Somebody's kernel, with no initrd.
    pub fn with_kernel(kernel: &Path) -> Self {
        Self {
            kernel: kernel.to_owned(),
            initrd: None,
            modules: Vec::new(),
            cmdline: CMDLINE.to_owned(),
            memory: MEMORY,
            settings: "",
        }
    }

    /// As a guest of the hypervisor.
    pub fn hosted(&self, image: &Image) -> Payload {
        let mut modules = vec![
            module(CONFIG_NAME, Content::Bytes(self.configuration().into_bytes())),
            module(KERNEL_NAME, Content::File(self.kernel.clone())),
        ];
        modules.extend(self.initrd.clone().map(|initrd| module(INITRD_NAME, Content::File(initrd))));
        for further in &self.modules {
            modules.push(module(further.name(), Content::File(further.file.clone())));
        }
        hypervisor(image, modules)
    }

    /// Modules are told apart by name.
    pub fn check_module_names(&self) -> Result<()> {
        let mut names = vec![CONFIG_NAME, KERNEL_NAME, INITRD_NAME];
        for name in self.modules.iter().map(GuestModule::name) {
            ensure!(
                !names.contains(&name),
                "another module is called {name} already: give the file another name"
            );
            names.push(name);
        }
        Ok(())
    }

    /// On the machine itself.
    pub fn bare(&self) -> Payload {
        Payload::Linux {
            kernel: self.kernel.clone(),
            initrd: self.initrd.clone(),
            cmdline: self.cmdline.clone(),
        }
    }

    /// Memory for a machine that runs this guest.
    pub fn machine_memory(&self) -> u64 {
        (self.memory + BEYOND_GUEST).max(LEAST_MACHINE_MEMORY)
    }

    fn configuration(&self) -> String {
        let mut text = format!("[[vm]]\nname = \"linux\"\nmemory = \"{}M\"\n{}", self.memory, self.settings);
        let mut key = |name, value: &str| writeln!(text, "{name} = {}", quoted(value));
        // Writing to a string cannot fail.
        let _ = key("kernel", KERNEL_NAME);
        if self.initrd.is_some() {
            let _ = key("initrd", INITRD_NAME);
        }
        let _ = key("cmdline", &self.cmdline);
        let lines: Vec<_> = self.modules.iter().map(|module| quoted(&module.line())).collect();
        let _ = writeln!(text, "modules = [{}]", lines.join(", "));
        text
    }
}

/// The hypervisor with modules.
pub fn hypervisor(image: &Image, modules: Vec<Module>) -> Payload {
    Payload::Multiboot {
        image: image.path.clone(),
        protocol: Protocol::Multiboot2,
        cmdline: String::new(),
        modules,
    }
}

/// A module without a command line.
pub fn module(name: &str, content: Content) -> machine::Module {
    Module { name: name.to_owned(), content, arguments: String::new() }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_survives_odd_command_lines() {
        let guest = Guest {
            kernel: "k".into(),
            initrd: None,
            modules: vec![GuestModule { file: "/x/data".into(), arguments: "one \"two\"".to_owned() }],
            cmdline: "a=\"b c\" d=\\ e=\t".to_owned(),
            memory: 64,
            settings: "",
        };
        let table: toml::Table = toml::from_str(&guest.configuration()).expect("valid");
        let vm = &table["vm"][0];
        assert_eq!(vm["cmdline"].as_str(), Some(guest.cmdline.as_str()));
        assert_eq!(vm["memory"].as_str(), Some("64M"));
        assert!(vm.get("initrd").is_none());
        assert_eq!(vm["modules"][0].as_str(), Some("data one \"two\""));
    }

    #[test]
    fn modules_of_the_same_name_are_refused() {
        let module = |file: &str| GuestModule { file: file.into(), arguments: String::new() };
        let with = |modules| Guest { modules, ..Guest::with_kernel(Path::new("k")) };
        assert!(with(vec![module("a/x"), module("a/y")]).check_module_names().is_ok());
        assert!(with(vec![module("a/x"), module("b/x")]).check_module_names().is_err());
        assert!(with(vec![module("a/vmlinuz")]).check_module_names().is_err());
    }
}
