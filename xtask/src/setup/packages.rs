//! Debian packages that bring a program or file, installed when it is missing.

use super::{as_root, output};
use crate::progress::Step;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// Something that has to be on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// QEMU for x86.
    Qemu,
    /// Bochs with its BIOS images.
    Bochs,
    /// GRUB's tools and its BIOS modules, for boot media.
    Grub,
    /// A C++ compiler, for libFuzzer.
    CppCompiler,
}

impl Need {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Qemu, Self::Bochs, Self::Grub, Self::CppCompiler];

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Qemu => "QEMU",
            Self::Bochs => "Bochs",
            Self::Grub => "GRUB and tools for boot media",
            Self::CppCompiler => "C++ compiler for fuzzing",
        }
    }

    /// Every file that must exist, and the package that brings it.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Qemu => &[("/usr/bin/qemu-system-x86_64", "qemu-system-x86")],
            Self::Bochs => &[
                ("/usr/bin/bochs", "bochs"),
                ("/usr/share/bochs/BIOS-bochs-latest", "bochsbios"),
                ("/usr/share/vgabios/vgabios.bin", "vgabios"),
            ],
            Self::Grub => &[
                ("/usr/bin/grub-mkrescue", "grub-common"),
                ("/usr/lib/grub/i386-pc/multiboot2.mod", "grub-pc-bin"),
                ("/usr/bin/xorriso", "xorriso"),
                ("/usr/bin/mformat", "mtools"),
            ],
            Self::CppCompiler => &[("/usr/bin/c++", "g++")],
        }
    }
}

/// The packages that would have to be installed for `needs`.
pub fn missing(needs: &[Need]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for (file, package) in needs.iter().flat_map(|need| need.files()) {
        if !Path::new(file).exists() && !packages.contains(package) {
            packages.push(*package);
        }
    }
    packages
}

/// Installs what is missing of `needs`.
pub fn require(needs: &[Need]) -> Result<()> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let _step = Step::new(format!("installing {}", packages.join(" ")));
    let mut command = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
    command.extend(&packages);
    if !candidates_known(&packages) {
        update_lists()?;
    }
    // Known lists can be too old to fetch from.
    if let Err(error) = as_root(&command) {
        if error.is::<super::NeedsRoot>() {
            return Err(error);
        }
        update_lists()?;
        as_root(&command)?;
    }
    match missing(needs).as_slice() {
        [] => Ok(()),
        rest => bail!("{} installed, but its files are not where Debian 12 has them", rest.join(" ")),
    }
}

/// Fetches the package lists anew.
pub fn update_lists() -> Result<()> {
    as_root(&["apt-get", "update"])
}

fn candidates_known(packages: &[&str]) -> bool {
    output(Command::new("apt-cache").arg("show").args(packages)).is_ok()
}
