//! Input that is wrong: the hypervisor says what and where, and nothing else breaks. Beside the virtual machine
//! that cannot start, a good one runs all the same.

use super::{Reporter, Subjects, Suite};
use crate::guest::{hypervisor, module};
use crate::initramfs;
use crate::machine::{self, Boot, Content, Ending, Limits, Module, Payload};
use crate::setup::Distribution;
use crate::testing::linux::HYPERVISOR;
use crate::{files, guest};
use abi::test_protocol::{DONE, PREFIX};
use anyhow::{Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::time::{Duration, Instant};

/// Wall time of one boot on the fastest machine.
const TIME: Duration = Duration::from_secs(60);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;

/// A module that is no kernel.
const TEXT: &str = "notes.txt";
/// The beginning of a kernel.
const TRUNCATED: &str = "vmlinuz.part";
/// What is left of it: the header and some code.
const TRUNCATED_SIZE: usize = 64 << 10;
/// An initrd larger than the memory of the virtual machine that names it.
const LARGE: &str = "large.img";
const LARGE_SIZE: usize = 96 << 20;
/// The good virtual machine's kernel.
const GOOD: &str = "guest-tests";
/// It is done at once, since it is asked to list its tests only.
const GOOD_VM: &str = "
[[vm]]
name = \"good\"
memory = \"64M\"
kernel = \"guest-tests\"
cmdline = \"list\"
";

/// A configuration with a mistake, and what the hypervisor has to say about it.
struct Case {
    name: &'static str,
    /// The faulty part of the configuration.
    config: &'static str,
    /// Parts of the line that has to appear.
    message: &'static [&'static str],
    /// Whether a good virtual machine follows; not where the file as a whole cannot be read.
    good_follows: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "config-does-not-parse",
        config: "[[vm]]\nname = \"bad\nmemory = \"64M\"\n",
        message: &["gossamer.toml:2:", "string"],
        good_follows: false,
    },
    Case {
        name: "unknown-key",
        config: "[[vm]]\nname = \"bad\"\nmemroy = \"64M\"\nmemory = \"64M\"\nkernel = \"vmlinuz\"\n",
        message: &["gossamer.toml:3:1: vm \"bad\": memroy: unknown key, expected one of", "memory"],
        good_follows: true,
    },
    Case {
        name: "wrong-type",
        config: "[[vm]]\nname = \"bad\"\nmemory = \"64Q\"\nkernel = \"vmlinuz\"\n",
        message: &["gossamer.toml:3:10: vm \"bad\": memory: expected", "found \"64Q\""],
        good_follows: true,
    },
    Case {
        name: "no-cpus",
        config: "[[vm]]\nname = \"bad\"\ncpus = 0\nmemory = \"64M\"\nkernel = \"vmlinuz\"\n",
        message: &["gossamer.toml:3:8: vm \"bad\": cpus: expected", "found 0"],
        good_follows: true,
    },
    Case {
        name: "absurd-number",
        config: "[[vm]]\nname = \"bad\"\nmemory = 9223372036854775807\nkernel = \"vmlinuz\"\n",
        message: &["gossamer.toml:3:10: vm \"bad\": memory: expected", "found"],
        good_follows: true,
    },
    Case {
        name: "name-twice",
        config: "[[vm]]\nname = \"good\"\nmemory = \"64M\"\nkernel = \"guest-tests\"\ncmdline = \"list\"\n",
        message: &["vm \"good\": name: expected no repetition, found \"good\" again (first in line 2)"],
        good_follows: true,
    },
    Case {
        name: "key-twice",
        config: "[[vm]]\nname = \"bad\"\ncpus = 1\ncpus = 1\n",
        message: &["gossamer.toml:4:1: duplicate key"],
        good_follows: false,
    },
    Case {
        name: "control-characters",
        config: "[[vm]]\nname = \"bad\"\n\"\\u001b[2J\\u009b\" = 1\nmemory = \"64M\"\nkernel = \"vmlinuz\"\n",
        message: &["vm \"bad\": \\u{1b}[2J\\u{9b}: unknown key"],
        good_follows: true,
    },
    Case {
        name: "missing-module",
        config: "[[vm]]\nname = \"bad\"\nmemory = \"64M\"\nkernel = \"bzImage\"\n",
        message: &["gossamer.toml:4:10: vm \"bad\": kernel: no boot module is named \"bzImage\"", GOOD],
        good_follows: true,
    },
    Case {
        name: "kernel-of-unknown-format",
        config: "[[vm]]\nname = \"bad\"\nmemory = \"64M\"\nkernel = \"notes.txt\"\n",
        message: &["vm bad: not started: ", "no known format", "bzImage"],
        good_follows: true,
    },
    Case {
        name: "truncated-kernel",
        config: "[[vm]]\nname = \"bad\"\nmemory = \"512M\"\nkernel = \"vmlinuz.part\"\n",
        message: &["vm bad: not started: ", "truncated", "the file has 65536"],
        good_follows: true,
    },
    Case {
        name: "initrd-does-not-fit",
        config: "[[vm]]\nname = \"bad\"\nmemory = \"64M\"\nkernel = \"guest-tests\"\ninitrd = \"large.img\"\n",
        message: &["vm bad: not started: ", "the initrd does not fit: it has 96M", "more memory"],
        good_follows: true,
    },
    Case {
        name: "more-memory-than-the-machine-has",
        config: "[[vm]]\nname = \"bad\"\nmemory = \"64G\"\nkernel = \"guest-tests\"\n",
        message: &[
            "vm bad: not started: it wants 65536 MiB of memory, but this machine has",
            "lower `memory`",
        ],
        good_follows: true,
    },
];

/// Every case, each in a boot of its own, on one machine.
pub struct BadInput {
    prefix: String,
    machine: String,
    names: Vec<&'static str>,
}

impl BadInput {
    /// On this machine.
    pub fn new(machine: &str) -> Self {
        let names = CASES.iter().map(|case| case.name).collect();
        Self { prefix: format!("input/{machine}"), machine: machine.to_owned(), names }
    }

    fn run_case(&self, case: &Case, subjects: &Subjects, log: &mut String) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let boot =
            Boot { payload: payload(case, subjects)?, memory: guest::LEAST_MACHINE_MEMORY, counting: false };
        let limit = TIME * machine.patience();
        let mut running = machine.start(&boot, Limits { time: Some(limit), output: OUTPUT_LIMIT })?;
        let ending = running.wait(limit);
        *log = running.story();
        ensure!(ending? == Ending::PowerOff, "the machine was not switched off");
        let transcript = running.transcript();
        let says = |line: &str| {
            line.contains(HYPERVISOR)
                && !line.contains(char::is_control)
                && case.message.iter().all(|part| line.contains(part))
        };
        ensure!(transcript.lines().any(says), "no line of the hypervisor says {:?}", case.message);
        let good_ran = transcript.contains(&format!("{PREFIX}{DONE}"));
        ensure!(
            good_ran == case.good_follows,
            "the good virtual machine {}",
            if good_ran { "ran" } else { "did not run" }
        );
        Ok(())
    }
}

impl Suite for BadInput {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&self.names)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        for case in CASES {
            if reporter.wants(&self.prefix, case.name) {
                let (started, mut log) = (Instant::now(), String::new());
                let result = self.run_case(case, subjects, &mut log);
                reporter.check(&self.prefix, case.name, started, result, || log);
            }
        }
        Ok(())
    }
}

/// The hypervisor with the faulty configuration and every module that a case may name.
fn payload(case: &Case, subjects: &Subjects) -> Result<Payload> {
    let linux = Distribution::Cloud.files()?.kernel;
    let config = format!("{}{}", case.config, if case.good_follows { GOOD_VM } else { "" });
    let tests = &subjects.guest_tests()?.bzimage;
    let bytes = |name, content: Vec<u8>| module(name, Content::Bytes(content));
    let modules: Vec<Module> = vec![
        bytes(CONFIG_NAME, config.into_bytes()),
        module(GOOD, Content::File(tests.clone())),
        module(guest::INITRD_NAME, Content::File(initramfs::build()?)),
        bytes(TEXT, b"This is no kernel.\n".to_vec()),
        bytes(TRUNCATED, files::read(&linux)?.into_iter().take(TRUNCATED_SIZE).collect()),
        bytes(LARGE, vec![0; LARGE_SIZE]),
    ];
    Ok(hypervisor(subjects.image()?, modules))
}
