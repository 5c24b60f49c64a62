//! The demonstration kernels of `guest-tests`: what there is, and how each is started.

use crate::machine::{Content, Loader, Module, Payload, Protocol};
use std::path::Path;

/// A demonstration kernel.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// Its name.
    pub name: &'static str,
    /// The binary of `guest-tests`.
    pub link: &'static str,
    /// The kind of file that it is started from.
    pub container: Container,
    /// Who starts it on a bare machine that has the choice.
    pub loader: Loader,
    /// Its memory in MiB.
    pub memory: u64,
    /// Its command line.
    pub cmdline: &'static str,
    /// What the hypervisor says about its end.
    pub ended: &'static str,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// ELF32 for the i386.
    Elf32,
    /// ELF64 for x86-64.
    Elf64,
    /// Bytes as they lie in memory.
    Flat,
}

const SMALL: u64 = 64;
/// Enough for a kernel above 1 GiB.
const LARGE: u64 = 1100;

/// All of them.
pub const DEMOS: [Demo; 7] = [
    Demo {
        name: "multiboot1",
        link: "demo-multiboot1",
        container: Container::Elf32,
        loader: Loader::Emulator,
        memory: SMALL,
        cmdline: "off=debug-exit one two=2",
        ended: "exited with status 16",
    },
    Demo {
        name: "multiboot1-aout",
        link: "demo-multiboot1-aout",
        container: Container::Flat,
        loader: Loader::Emulator,
        memory: SMALL,
        cmdline: "off=acpi",
        ended: "powered off",
    },
    Demo {
        name: "multiboot2-elf64",
        link: "demo-multiboot2",
        container: Container::Elf64,
        loader: Loader::Grub(Protocol::Multiboot2),
        memory: SMALL,
        cmdline: "off=reset one two=2",
        ended: "reset",
    },
    Demo {
        name: "multiboot2-elf32",
        link: "demo-multiboot2",
        container: Container::Elf32,
        loader: Loader::Grub(Protocol::Multiboot2),
        memory: SMALL,
        cmdline: "off=acpi",
        ended: "powered off",
    },
    Demo {
        name: "pvh",
        link: "demo-pvh",
        container: Container::Elf64,
        loader: Loader::Emulator,
        memory: SMALL,
        cmdline: "off=acpi one two=2",
        ended: "powered off",
    },
    Demo {
        name: "real-mode",
        link: "demo-real-mode",
        container: Container::Elf32,
        loader: Loader::Grub(Protocol::Multiboot1),
        memory: SMALL,
        cmdline: "off=qemu",
        ended: "powered off",
    },
    Demo {
        name: "high",
        link: "demo-high",
        container: Container::Elf32,
        loader: Loader::Emulator,
        memory: LARGE,
        cmdline: "off=acpi",
        ended: "powered off",
    },
];

/// Names and arguments of the modules, and the bytes that each has.
const FIRST: (&str, &str, usize) = ("first.bin", "with arguments", 5000);
const SECOND: (&str, &str, usize) = ("second.bin", "", 70_000);

impl Demo {
    /// Whether it is started by PVH, whose loaders know one module.
    fn is_pvh(&self) -> bool {
        self.container == Container::Elf64 && self.loader == Loader::Emulator
    }

    /// Its modules.
    pub fn modules(&self) -> Vec<Module> {
        let second = (!self.is_pvh()).then_some(FIRST);
        second.into_iter().chain([SECOND]).map(module).collect()
    }

    /// It on a bare machine, by its own loader or, where the machine has none of its own, by GRUB; nothing if that
    /// cannot be.
    pub fn bare(&self, file: &Path, machine_has_loader: bool) -> Option<Payload> {
        let loader = match self.loader {
            Loader::Emulator if machine_has_loader => Loader::Emulator,
            Loader::Emulator if self.is_pvh() => return None,
            Loader::Emulator => Loader::Grub(Protocol::Multiboot1),
            grub => grub,
        };
        Some(Payload::Kernel {
            image: file.to_owned(),
            loader,
            cmdline: self.cmdline.to_owned(),
            modules: self.modules(),
        })
    }

    /// Its part of a configuration; the kernel is a module of its name.
    pub fn configuration(&self) -> String {
        let words = |module: &Module| format!("{} {}", module.name, module.arguments);
        let modules: Vec<_> =
            self.modules().iter().map(|module| format!("{:?}", words(module).trim_end())).collect();
        format!(
            "[[vm]]\nname = \"{name}\"\nkernel = \"{name}\"\nmemory = \"{memory}M\"\ncmdline = \"{cmdline}\"\n\
             modules = [{modules}]\non_reset = \"stop\"\ndebug_exit = 0xf4\n",
            name = self.name,
            memory = self.memory,
            cmdline = self.cmdline,
            modules = modules.join(", ")
        )
    }
}

fn module((name, arguments, length): (&str, &str, usize)) -> Module {
    let content = (0..length).map(|n| (n % 251) as u8).collect();
    Module { name: name.to_owned(), content: Content::Bytes(content), arguments: arguments.to_owned() }
}
