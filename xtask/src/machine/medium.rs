//! A bootable CD with GRUB, for machines without a boot loader of their own.

use super::{Content, Loader, Module, Payload, Protocol};
use crate::files;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// GRUB's modules for PCs with a BIOS.
const GRUB_MODULES: &str = "/usr/lib/grub/i386-pc";
/// What the menu needs of them; the rest stays away to keep the CD small.
const MODULES_USED: &str = "biosdisk iso9660 normal multiboot multiboot2 linux";

/// Writes a CD image that boots `payload` at once to `path`; files are collected in `scratch`.
pub fn write_iso(payload: &Payload, scratch: &Path, path: &Path) -> Result<()> {
    let tree = scratch.join("cd");
    let grub = tree.join("boot/grub");
    std::fs::create_dir_all(&grub).with_context(|| format!("cannot make {}", grub.display()))?;
    let menu = format!("{}\nboot\n", commands(payload, &tree)?.join("\n"));
    files::write(&grub.join("grub.cfg"), menu.as_bytes())?;
    let output = Command::new("grub-mkrescue")
        .args(["--directory", GRUB_MODULES, "--locales=", "--fonts=", "--themes=", "--compress=no"])
        .arg(format!("--install-modules={MODULES_USED}"))
        .arg("--output")
        .arg(path)
        .arg(&tree)
        .env("TMPDIR", scratch)
        .output()
        .context("cannot start grub-mkrescue")?;
    ensure!(
        output.status.success() && path.exists(),
        "grub-mkrescue made no boot medium:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// GRUB's commands that load `payload`, whose files go into `tree`.
fn commands(payload: &Payload, tree: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    match payload {
        Payload::Multiboot { image, protocol, cmdline, modules }
        | Payload::Kernel { image, loader: Loader::Grub(protocol), cmdline, modules } => {
            copy(image, &tree.join("image"))?;
            let (load, add) = match protocol {
                Protocol::Multiboot1 => ("multiboot", "module"),
                Protocol::Multiboot2 => ("multiboot2", "module2"),
            };
            lines.push(command(&[load, "/image"], cmdline));
            for module in modules {
                place(module, tree)?;
                let name = quoted(&module.name);
                lines.push(command(&[add, &quoted(&format!("/{}", module.name)), &name], &module.arguments));
            }
        }
        Payload::Kernel { loader: Loader::Emulator, .. } => {
            bail!("this machine has no boot loader of its own")
        }
        Payload::Linux { kernel, initrd, cmdline } => {
            copy(kernel, &tree.join("image"))?;
            lines.push(command(&["linux", "/image"], cmdline));
            if let Some(initrd) = initrd {
                copy(initrd, &tree.join("initrd"))?;
                lines.push("initrd /initrd".to_owned());
            }
        }
    }
    Ok(lines)
}

/// One command; its words after the fixed ones reach the image as they are.
fn command(fixed: &[&str], words: &str) -> String {
    let words = words.split_whitespace().map(quoted);
    fixed.iter().map(|word| (*word).to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word that GRUB's script language takes literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn place(module: &Module, tree: &Path) -> Result<()> {
    ensure!(
        !module.name.contains(['/', ' ']) && module.name != "boot" && !module.name.is_empty(),
        "a module cannot be called '{}' on a boot medium",
        module.name
    );
    let path = tree.join(&module.name);
    match &module.content {
        Content::File(file) => copy(file, &path),
        Content::Bytes(bytes) => files::write(&path, bytes),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("cannot copy {} to the boot medium", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_literally() {
        assert_eq!(quoted("a$b"), "'a$b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(
            command(&["linux", "/image"], "console=ttyS0  quiet"),
            "linux /image 'console=ttyS0' 'quiet'"
        );
    }
}
