//! Every key with every kind of value: what is not accepted is named, in one line that a terminal can show.

use super::*;
use std::format;
use std::string::ToString;

/// A value of every type, and absurd ones.
const VALUES: [&str; 21] = [
    r#""""#,
    r#""x""#,
    r#""\u0000""#,
    r#""\u001b[2J""#,
    "-9223372036854775808",
    "-1",
    "0",
    "1",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999999999999",
    "1.5",
    "nan",
    "-inf",
    "true",
    "[]",
    "[1]",
    "[[[[]]]]",
    "{}",
    "{ name = { name = 1 } }",
    "1979-05-27T07:32:00Z",
];

const NONE: &[&str] = &[];
const TEXT: &[&str] = &[r#""x""#, r#""\u0000""#, r#""\u001b[2J""#];

/// Which of [`VALUES`] a key of a virtual machine takes. Every key has a row.
const VM_TAKES: &[(&str, &[&str])] = &[
    ("name", &[r#""x""#]),
    ("cpus", &["1"]),
    ("memory", NONE),
    ("kernel", TEXT),
    ("initrd", TEXT),
    ("modules", &["[]"]),
    ("cmdline", &[r#""""#, r#""x""#, r#""\u001b[2J""#]),
    ("unknown_msrs", NONE),
    ("on_reset", NONE),
    ("on_triple_fault", NONE),
    ("input", NONE),
    ("compat", NONE),
    ("debug_exit", &["0", "1"]),
    ("time_limit", NONE),
    ("profile", &["true"]),
];

/// The same at the top of the file.
const HOST_TAKES: &[(&str, &[&str])] = &[("console", &["1", "[1]"]), ("on_exit", NONE), ("vm", NONE)];

const GOOD: [(&str, &str); 3] = [("name", "\"web\""), ("memory", "\"512M\""), ("kernel", "\"vmlinuz\"")];

/// A virtual machine with this line, and whatever else it needs.
fn vm_with(key: &str, line: &str) -> String {
    let mut text = format!("[[vm]]\n{line}\n");
    for (other, value) in GOOD.iter().filter(|(other, _)| *other != key) {
        text += &format!("{other} = {value}\n");
    }
    text
}

fn host_with(key: &str, line: &str) -> String {
    match key {
        "vm" => format!("{line}\n"),
        _ => format!("{line}\n{}", vm_with("", "")),
    }
}

/// The messages of a file, each of which is fit to be printed.
fn messages(text: &[u8]) -> Vec<String> {
    let messages: Vec<String> = parse("gossamer.toml", text).errors.iter().map(ToString::to_string).collect();
    for message in &messages {
        assert!(message.starts_with("gossamer.toml:"), "{message:?}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    messages
}

fn every_value(keys: &[&str], takes: &[(&str, &[&str])], file: impl Fn(&str, &str) -> String) {
    for key in keys {
        let row = takes.iter().find(|(other, _)| other == key);
        let (_, accepted) = row.unwrap_or_else(|| panic!("the key {key} has no row"));
        for value in VALUES {
            let text = file(key, &format!("{key} = {value}"));
            let messages = messages(text.as_bytes());
            if accepted.contains(&value) {
                assert_eq!(messages, NONE, "{text}");
                continue;
            }
            assert!(!messages.is_empty(), "accepted: {text}");
            // A number that TOML does not know is the parser's affair, which knows no key.
            let named = messages.iter().any(|message| message.contains(&format!("{key}: ")));
            assert!(named || messages.len() == 1, "{text}{messages:?}");
        }
    }
    assert_eq!(keys.len(), takes.len(), "rows without a key");
}

#[test]
fn keys_of_a_virtual_machine_take_what_they_should_and_nothing_else() {
    every_value(vm::KEYS, VM_TAKES, vm_with);
}

#[test]
fn keys_of_the_host_take_what_they_should_and_nothing_else() {
    every_value(host::KEYS, HOST_TAKES, host_with);
}

#[test]
fn a_key_stands_once() {
    for key in vm::KEYS {
        let text = vm_with(key, &format!("{key} = 1\n{key} = 1"));
        assert_eq!(messages(text.as_bytes()), ["gossamer.toml:3:1: duplicate key"], "{text}");
    }
    for key in host::KEYS {
        let text = host_with(key, &format!("{key} = 1\n{key} = 1"));
        assert_eq!(messages(text.as_bytes()), ["gossamer.toml:2:1: duplicate key"], "{text}");
    }
}

/// ESC, CSI as one character, NUL, DEL and ends of lines, wherever a file can have them.
#[test]
fn nothing_in_a_file_commands_a_terminal() {
    for code in ["\\u001b[2J", "\\u009b2J", "\\u0000", "\\u007f", "\\r\\n", "\\b"] {
        let key = format!("\"{code}\" = 1");
        assert_eq!(messages(host_with("", &key).as_bytes()).len(), 1, "{code}");
        assert_eq!(messages(vm_with("", &key).as_bytes()).len(), 1, "{code}");
        for value in [format!("\"{code}\""), format!("[\"{code}\"]"), format!("{{ \"{code}\" = 1 }}")] {
            assert_eq!(messages(vm_with("name", &format!("name = {value}")).as_bytes()).len(), 1, "{value}");
        }
    }
    for raw in ["\u{1b}[2J", "\u{9b}2J", "\0", "\u{7f}", "\r", "\u{8}"] {
        for text in [format!("{raw} = 1"), format!("on_exit = \"{raw}\""), format!("# {raw}\non_exit = 1")] {
            assert_ne!(messages(text.as_bytes()), NONE, "{text:?}");
        }
    }
    assert_eq!(messages(b"on_exit = \"\xc2\x9b\xff\"").len(), 1);
}

#[test]
fn modules_with_odd_names_are_shown_harmlessly() {
    let vm = parse("gossamer.toml", vm_with("", "").as_bytes()).config.vms.remove(0);
    let names = Modules::new(["gossamer.toml", "\u{1b}[2J\u{9b}\u{7}", "a\0b", "", "\u{202e}"]);
    let message = vm.modules("gossamer.toml", &names).expect_err("none is called so").to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.contains(r"\u{1b}[2J"), "{message}");
}

#[test]
fn many_virtual_machines_have_names_of_their_own() {
    let text: Vec<String> = (0..100)
        .map(|n| format!("[[vm]]\nname = \"vm-{}\"\nmemory = \"4M\"\nkernel = \"k\"\n", n % 50))
        .collect();
    let text = text.concat();
    assert_eq!(parse("gossamer.toml", text.as_bytes()).config.vms.len(), 50);
    let messages = messages(text.as_bytes());
    assert_eq!(messages.len(), 50);
    assert!(messages.iter().all(|message| message.contains("name: expected no repetition")), "{messages:?}");
}

/// Nesting of every kind, as deep as the longest file allows.
#[test]
fn depth_is_an_error_and_not_a_fault() {
    let opening = ["[", "{ a = ", "a.", "[["];
    for kind in opening {
        let depth = MAX_BYTES / kind.len() - 16;
        for start in ["on_exit = ", "", "[[vm]]\nname = "] {
            let text = [start, &kind.repeat(depth)].concat();
            assert_ne!(messages(text.as_bytes()), NONE, "{kind}");
        }
    }
}
