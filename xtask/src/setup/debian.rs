//! Debian packages that are fetched and unpacked below the cache folder, never installed: Linux kernels to
//! boot, memtest86+ and the busybox of our initramfs. Once there, they are used without asking the network again.

use super::{output, packages};
use crate::paths;
use crate::progress::Step;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Linux as Debian ships it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// The kernel for virtual machines.
    Cloud,
    /// The kernel for everything.
    Generic,
    /// The installer's kernel and initrd for booting over the network.
    Installer,
}

/// A kernel and, where the package has one, its initrd.
#[derive(Clone, Debug)]
pub struct LinuxFiles {
    /// The bzImage.
    pub kernel: PathBuf,
    /// The package's own initrd.
    pub initrd: Option<PathBuf>,
}

impl Distribution {
    /// Its Debian package.
    pub const fn package(self) -> &'static str {
        match self {
            Self::Cloud => "linux-image-cloud-amd64",
            Self::Generic => "linux-image-amd64",
            Self::Installer => "debian-installer-12-netboot-amd64",
        }
    }

    /// Whether it is there without asking the network.
    pub fn is_cached(self) -> Result<bool> {
        Ok(paths::cache()?.join(self.package()).is_dir())
    }

    /// Fetches the package unless the cache has it.
    pub fn files(self) -> Result<LinuxFiles> {
        let folder = unpacked(self.package(), self != Self::Installer)?;
        if self == Self::Installer {
            let images = folder.join("usr/lib/debian-installer/images/12/amd64/text/debian-installer/amd64");
            return Ok(LinuxFiles { kernel: images.join("linux"), initrd: Some(images.join("initrd.gz")) });
        }
        let boot = folder.join("boot");
        let kernel = std::fs::read_dir(&boot)
            .with_context(|| format!("cannot list {}", boot.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
            .with_context(|| format!("{} holds no kernel", boot.display()))?;
        Ok(LinuxFiles { kernel, initrd: None })
    }
}

/// memtest86+ for the 32-bit entry of Linux's boot protocol.
pub fn memtest() -> Result<PathBuf> {
    Ok(unpacked("memtest86+", false)?.join("boot/memtest86+ia32.bin"))
}

/// A statically linked busybox.
pub fn busybox() -> Result<PathBuf> {
    Ok(unpacked("busybox-static", false)?.join("bin/busybox"))
}

/// The folder in which `package`, or what a meta-package `depends` on, is unpacked.
fn unpacked(package: &str, depends: bool) -> Result<PathBuf> {
    let folder = paths::cache()?.join(package);
    if folder.is_dir() {
        return Ok(folder);
    }
    let _step = Step::new(format!("fetching Debian's {package}"));
    if fetch(package, depends, &folder).is_err() {
        // Missing or outdated lists are the usual cause.
        packages::update_lists()?;
        fetch(package, depends, &folder).with_context(|| format!("cannot fetch Debian's {package}"))?;
    }
    Ok(folder)
}

fn fetch(package: &str, depends: bool, folder: &Path) -> Result<()> {
    let real = if depends { first_dependency(package)? } else { package.to_owned() };
    let scratch = paths::scratch("fetch")?;
    output(Command::new("apt-get").args(["download", &real]).current_dir(scratch.path()))?;
    let archive = std::fs::read_dir(scratch.path())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get downloaded no package {real}"))?;
    let content = scratch.path().join("content");
    output(Command::new("dpkg").arg("-x").arg(archive).arg(&content))?;
    // Renaming makes the cache complete or absent. Somebody else may have been faster.
    match std::fs::rename(&content, folder) {
        Err(_) if folder.is_dir() => Ok(()),
        other => other.with_context(|| format!("cannot fill {}", folder.display())),
    }
}

/// The package that a meta-package stands for.
fn first_dependency(package: &str) -> Result<String> {
    let record = output(Command::new("apt-cache").args(["show", "--no-all-versions", package]))?;
    let depends = record.lines().find_map(|line| line.strip_prefix("Depends: "));
    let name = depends.and_then(|list| list.split([' ', ',']).next());
    name.map(str::to_owned).with_context(|| format!("Debian's {package} depends on nothing"))
}
