//! One `[[vm]]`.

use super::error::{Position, Problem, VmLabel};
use super::table::{Entry, Table, port, unsigned};
use super::{Compat, Input, ModuleLine, ModuleName, Restart, UnknownMsrs, VmConfig};
use crate::platform::{self, DEBUG_EXIT_PORTS, PortRange};
use crate::{duration, memory_map, size};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) const KEYS: &[&str] = &[
    "name",
    "cpus",
    "memory",
    "kernel",
    "initrd",
    "modules",
    "cmdline",
    "unknown_msrs",
    "on_reset",
    "on_triple_fault",
    "input",
    "compat",
    "debug_exit",
    "time_limit",
    "profile",
];
const NAME: &str = "1 to 32 letters, digits, \"-\", \"_\" or \".\"";
const CPUS: &str = "1 (more virtual CPUs are not supported yet)";
const MEMORY: &str = "a size such as \"512M\"";
const MODULE: &str = "the name of a boot module such as \"vmlinuz\"";
const MODULES: &str = "a list of texts, each the name of a boot module and then its arguments";
const MODULE_LINE: &str = "the name of a boot module and then its arguments";
const CMDLINE: &str = "a string without NUL characters";
const UNKNOWN_MSRS: &str = "\"fault\" or \"ignore\"";
const INPUT: &str = "\"auto\", \"serial\" or \"keyboard\"";
const COMPAT: &str = "\"none\" or \"qemu\"";
const DEBUG_EXIT: &str = "the first of four I/O ports that no device has, such as 0xf4";
const TIME_LIMIT: &str = "a time such as \"500ms\", \"10s\", \"5m\" or \"2h\", at most ten years";
const RESTART: &str = "\"restart\" or \"stop\"";

const LONGEST_NAME: usize = 32;
const RESTART_WORDS: [(&str, Restart); 2] = [("restart", Restart::Restart), ("stop", Restart::Stop)];

/// The names of the virtual machines so far.
#[derive(Default)]
pub(super) struct Names(Vec<(String, Position)>);

/// What to call a virtual machine in messages.
pub(super) fn label(fields: &DeTable<'_>, number: usize) -> VmLabel {
    match fields.get("name").and_then(|name| name.get_ref().as_str()) {
        Some(name) if is_name(name) => VmLabel::Name(name.into()),
        _ => VmLabel::Number(number),
    }
}

/// Reads all keys, so that all errors are found, and then returns the virtual machine if there were none.
pub(super) fn vm(table: &mut Table<'_>, names: &mut Names) -> Option<VmConfig> {
    let msrs = [("fault", UnknownMsrs::Fault), ("ignore", UnknownMsrs::Ignore)];
    let name = table.required("name", NAME, |entry| name(entry, names));
    let cpus = table.optional("cpus", 1, cpus);
    let memory = table.required("memory", MEMORY, memory);
    let kernel = table.required("kernel", MODULE, module);
    let initrd = table.optional("initrd", None, |entry| module(entry).map(Some));
    let modules = table.optional("modules", Vec::new(), modules);
    let cmdline = table.optional("cmdline", String::new(), cmdline);
    let unknown_msrs =
        table.optional("unknown_msrs", UnknownMsrs::default(), |entry| entry.word(&msrs, UNKNOWN_MSRS));
    let restart = |entry: &Entry<'_, '_>| entry.word(&RESTART_WORDS, RESTART);
    let on_reset = table.optional("on_reset", Restart::AFTER_RESET, restart);
    let on_triple_fault = table.optional("on_triple_fault", Restart::AFTER_TRIPLE_FAULT, restart);
    let inputs = [("auto", Input::Auto), ("serial", Input::Serial), ("keyboard", Input::Keyboard)];
    let input = table.optional("input", Input::Auto, |entry| entry.word(&inputs, INPUT));
    let compats = [("none", Compat::None), ("qemu", Compat::Qemu)];
    let compat = table.optional("compat", Compat::None, |entry| entry.word(&compats, COMPAT));
    let debug_exit = table.optional("debug_exit", None, |entry| debug_exit(entry).map(Some));
    let time_limit = table.optional("time_limit", None, |entry| time_limit(entry).map(Some));
    let profile = table.optional("profile", false, |entry| entry.boolean());
    table.finish(KEYS)?;
    Some(VmConfig {
        name: name?,
        cpus: cpus?,
        memory: memory?,
        kernel: kernel?,
        initrd: initrd?,
        modules: modules?,
        cmdline: cmdline?,
        unknown_msrs: unknown_msrs?,
        on_reset: on_reset?,
        on_triple_fault: on_triple_fault?,
        input: input?,
        compat: compat?,
        debug_exit: debug_exit?,
        time_limit: time_limit?,
        profile: profile?,
    })
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(plain)
}

fn name(entry: &Entry<'_, '_>, names: &mut Names) -> Option<String> {
    let Some(name) = entry.value.as_str().filter(|text| is_name(text)) else {
        return entry.unexpected(NAME);
    };
    if let Some((_, first)) = names.0.iter().find(|(other, _)| other == name) {
        return entry.error(Problem::Duplicate { value: entry.excerpt(entry.span.clone()), first: *first });
    }
    names.0.push((name.into(), entry.position(entry.span.clone())));
    Some(name.into())
}

fn cpus(entry: &Entry<'_, '_>) -> Option<u32> {
    match unsigned(entry.value) {
        Some(1) => Some(1),
        _ => entry.unexpected(CPUS),
    }
}

fn memory(entry: &Entry<'_, '_>) -> Option<u64> {
    let bytes = match entry.value {
        DeValue::String(text) => size::parse(text),
        value => unsigned(value),
    };
    match bytes.map(memory_map::check_size) {
        None => entry.unexpected(MEMORY),
        Some(Ok(bytes)) => Some(bytes),
        Some(Err(error)) => entry.error(Problem::Memory(error)),
    }
}

fn module(entry: &Entry<'_, '_>) -> Option<ModuleName> {
    match entry.value.as_str() {
        Some(name) if !name.is_empty() && !name.contains(char::is_whitespace) => {
            Some(ModuleName { name: name.into(), position: entry.position(entry.span.clone()) })
        }
        _ => entry.unexpected(MODULE),
    }
}

fn modules(entry: &Entry<'_, '_>) -> Option<Vec<ModuleLine>> {
    let Some(elements) = entry.value.as_array() else {
        return entry.unexpected(MODULES);
    };
    let line = |element: &Spanned<DeValue<'_>>| {
        let text = element.get_ref().as_str().filter(|text| !text.contains('\0'));
        let Some((text, name)) = text.and_then(|text| Some((text, text.split_whitespace().next()?))) else {
            let found = entry.excerpt(element.span());
            return entry.error_at(element.span(), Problem::Unexpected { expected: MODULE_LINE, found });
        };
        let module = ModuleName { name: name.into(), position: entry.position(element.span()) };
        Some(ModuleLine { module, cmdline: text.trim().into() })
    };
    elements.iter().map(line).collect()
}

fn cmdline(entry: &Entry<'_, '_>) -> Option<String> {
    match entry.value.as_str() {
        Some(text) if !text.contains('\0') => Some(text.into()),
        _ => entry.unexpected(CMDLINE),
    }
}

fn debug_exit(entry: &Entry<'_, '_>) -> Option<u16> {
    const LAST: u16 = u16::MAX - (DEBUG_EXIT_PORTS - 1);
    let first = port(entry.value).and_then(|port| u16::try_from(port).ok()).filter(|first| *first <= LAST);
    match first {
        Some(first) if platform::is_free(PortRange::new(first, DEBUG_EXIT_PORTS)) => Some(first),
        _ => entry.unexpected(DEBUG_EXIT),
    }
}

fn time_limit(entry: &Entry<'_, '_>) -> Option<Duration> {
    entry.value.as_str().and_then(duration::parse).or_else(|| entry.unexpected(TIME_LIMIT))
}
