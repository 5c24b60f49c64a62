//! A Linux guest as a boot payload: under the hypervisor with a configuration written for it, or bare.

use crate::image::Image;
use crate::machine::{Content, Module, Payload, Protocol};
use crate::setup::Distribution;
use crate::{initramfs, machine};
use anyhow::Result;
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
    /// Its command line.
    pub cmdline: String,
    /// Its memory in MiB.
    pub memory: u64,
    /// Further lines of its configuration.
    pub settings: &'static str,
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
        hypervisor(image, modules)
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
            cmdline: "a=\"b c\" d=\\ e=\t".to_owned(),
            memory: 64,
            settings: "",
        };
        let table: toml::Table = toml::from_str(&guest.configuration()).expect("valid");
        let vm = &table["vm"][0];
        assert_eq!(vm["cmdline"].as_str(), Some(guest.cmdline.as_str()));
        assert_eq!(vm["memory"].as_str(), Some("64M"));
        assert!(vm.get("initrd").is_none());
    }
}
