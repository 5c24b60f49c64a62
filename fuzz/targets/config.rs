//! Any bytes as `gossamer.toml`. What is accepted is valid, what is refused is explained by a place in the text,
//! and no text takes more memory than the kernel has set aside for it.

#![no_main]

use fuzz::heap::{Counted, peak_of};
use guestboot::config::{self, ConfigError, MAX_HEAP, Parsed};
use guestboot::memory_map::check_size;
use guestboot::modules::Modules;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

#[global_allocator]
static HEAP: Counted = Counted;

const FILE: &str = "gossamer.toml";

fuzz_target!(|text: &[u8]| {
    let (Parsed { config, errors }, peak) = peak_of(|| config::parse(FILE, text));
    assert!(peak <= MAX_HEAP, "{peak} bytes for {} bytes", text.len());
    assert!(errors.is_sorted_by_key(|error| error.position), "errors in the order of the file");
    errors.iter().for_each(|error| explained(error, text));

    let mut names = HashSet::new();
    let modules = Modules::new(["boot/vmlinuz quiet", "a/initrd.img", "b/initrd.img", ""]);
    for vm in &config.vms {
        assert!(names.insert(&vm.name), "{} twice", vm.name);
        assert!((1..=32).contains(&vm.name.len()), "{:?}", vm.name);
        assert_eq!(check_size(vm.memory), Ok(vm.memory));
        match vm.modules(FILE, &modules) {
            Ok(found) => assert!(modules.get(found.kernel).is_some()),
            Err(error) => explained(&error, text),
        }
    }
});

/// An error says where, in one line.
fn explained(error: &ConfigError, text: &[u8]) {
    let lines = text.split(|byte| *byte == b'\n').count();
    assert!((1..=lines).contains(&error.position.line), "{error}");
    assert!(error.position.column >= 1);
    assert!(!error.problem.to_string().is_empty());
}
