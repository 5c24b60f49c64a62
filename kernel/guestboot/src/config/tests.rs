use super::*;
use crate::size::{GIB, MIB, TIB};
use std::string::ToString;
use std::{format, vec};

const FILE: &str = "gossamer.toml";

/// The messages that a file earns.
fn errors(text: &str) -> Vec<String> {
    parse(FILE, text.as_bytes()).errors.iter().map(ConfigError::to_string).collect()
}

/// The only message about a virtual machine with this as the file's second line and all else good.
fn vm_error(line: &str) -> String {
    let keys: Vec<&str> =
        GOOD.lines().filter(|good| good.split('=').next() != line.split('=').next()).collect();
    let text = std::format!("[[vm]]\n{line}\n{}\n", keys.join("\n"));
    let parsed = parse(FILE, text.as_bytes());
    assert_eq!(parsed.config.vms, [], "{line}");
    assert_eq!(parsed.errors.len(), 1, "{:?}", parsed.errors);
    parsed.errors[0].to_string()
}

const GOOD: &str = "name = \"web\"\nmemory = \"512M\"\nkernel = \"vmlinuz\"";

/// The only message about this line alone at the top, with one good virtual machine.
fn top_error(line: &str) -> String {
    let parsed = parse(FILE, std::format!("{line}\n[[vm]]\n{GOOD}\n").as_bytes());
    assert_eq!(parsed.config.vms.len(), 1, "the virtual machine starts all the same");
    assert_eq!(parsed.errors.len(), 1, "{:?}", parsed.errors);
    parsed.errors[0].to_string()
}

fn good(text: &str) -> Config {
    let parsed = parse(FILE, text.as_bytes());
    assert_eq!(parsed.errors, []);
    parsed.config
}

fn consoles(value: &str) -> Vec<Console> {
    good(&std::format!("console = {value}\n[[vm]]\n{GOOD}\n")).consoles
}

#[test]
fn every_key_is_read() {
    let config = good(
        r#"
        console = ["com2", 0x3e8, "vga"]
        on_exit = "halt"
        [[vm]]
        name = "web"
        cpus = 1
        memory = "1G"
        kernel = "vmlinuz"
        initrd = "boot/initrd.img"
        cmdline = "console=ttyS0 quiet"
        unknown_msrs = "ignore"
        on_reset = "stop"
        on_triple_fault = "restart"
        input = "keyboard"
        compat = "qemu"
        debug_exit = 0xf4
        time_limit = "90s"
        profile = true
        "#,
    );
    assert_eq!(config.consoles, [Console::COM2, Console::COM3, Console::Vga]);
    assert_eq!(config.on_exit, OnExit::Halt);
    let vm = &config.vms[0];
    assert_eq!((vm.name.as_str(), vm.cpus, vm.memory), ("web", 1, GIB));
    assert_eq!(vm.kernel.name, "vmlinuz");
    assert_eq!(vm.initrd.as_ref().map(|initrd| initrd.name.as_str()), Some("boot/initrd.img"));
    assert_eq!(vm.cmdline, "console=ttyS0 quiet");
    assert_eq!(vm.unknown_msrs, UnknownMsrs::Ignore);
    assert_eq!((vm.on_reset, vm.on_triple_fault), (Restart::Stop, Restart::Restart));
    assert_eq!((vm.input, vm.compat, vm.debug_exit), (Input::Keyboard, Compat::Qemu, Some(0xf4)));
    assert_eq!(vm.time_limit, Some(Duration::from_secs(90)));
    assert!(vm.profile);
}

#[test]
fn what_is_not_said_has_a_default() {
    let config = good(&std::format!("[[vm]]\n{GOOD}\n"));
    assert_eq!(config.consoles, [Console::COM1]);
    assert_eq!(config.on_exit, OnExit::Poweroff);
    let vm = &config.vms[0];
    assert_eq!((vm.cpus, vm.cmdline.as_str(), &vm.initrd), (1, "", &None));
    assert_eq!(vm.unknown_msrs, UnknownMsrs::Fault);
    assert_eq!((vm.on_reset, vm.on_triple_fault), (Restart::Restart, Restart::Stop));
    assert_eq!((vm.input, vm.compat, vm.debug_exit), (Input::Auto, Compat::None, None));
    assert_eq!(vm.time_limit, None);
    assert!(!vm.profile);
}

#[test]
fn consoles_have_names_and_ports() {
    assert_eq!(consoles(r#""com4""#), [Console::COM4]);
    assert_eq!(consoles("760"), [Console::COM2]);
    assert_eq!(consoles(r#""0x2f8""#), [Console::COM2]);
    assert_eq!(consoles(r#""pci-serial""#), [Console::PciSerial]);
    assert_eq!(consoles(r#""none""#), []);
}

#[test]
fn bad_consoles_are_named() {
    let expected = |found| {
        std::format!(
            "gossamer.toml:1:11: console: expected \"com1\" to \"com4\", an I/O port, \"vga\", \
             \"pci-serial\", \"none\", or a list of them, found {found}"
        )
    };
    for value in [r#""com5""#, "0", "-1", "65529", "0x10000", r#""0x""#, "true", "[]", "99999999999999999999"]
    {
        assert_eq!(top_error(&std::format!("console = {value}")), expected(value));
    }
    assert_eq!(
        top_error(r#"console = ["com1", "none"]"#),
        "gossamer.toml:1:20: console: expected \"com1\" to \"com4\", an I/O port, \"vga\" or \
         \"pci-serial\", found \"none\""
    );
    assert_eq!(
        top_error(r#"console = ["com1", 0x3f8]"#),
        "gossamer.toml:1:20: console: expected no repetition, found 0x3f8 again (first in line 1)"
    );
}

#[test]
fn bad_host_keys_leave_the_virtual_machines() {
    assert_eq!(
        top_error(r#"on_exit = "off""#),
        r#"gossamer.toml:1:11: on_exit: expected "poweroff", "halt" or "reboot", found "off""#
    );
    assert_eq!(
        top_error("  colour = 3"),
        "gossamer.toml:1:3: colour: unknown key, expected one of console, on_exit, vm"
    );
}

#[test]
fn a_file_needs_a_virtual_machine() {
    assert_eq!(errors(""), ["gossamer.toml:1:1: vm: missing, expected at least one [[vm]]"]);
    assert_eq!(errors("vm = []"), ["gossamer.toml:1:6: vm: expected at least one [[vm]], found []"]);
    assert_eq!(errors("vm = 3"), ["gossamer.toml:1:6: vm: expected at least one [[vm]], found 3"]);
    assert_eq!(errors("vm = [3]"), ["gossamer.toml:1:7: vm: expected at least one [[vm]], found 3"]);
    assert_eq!(errors("[vm]\ncpus = 1"), ["gossamer.toml:1:1: vm: expected at least one [[vm]], found [vm]"]);
}

#[test]
fn bad_memory_is_named() {
    for value in [r#""12Q""#, r#""""#, r#""-1M""#, "-4096", "1.5", "99999999999999999999", r#""99999999T""#] {
        assert_eq!(
            vm_error(&std::format!("memory = {value}")),
            std::format!(
                "gossamer.toml:2:10: vm \"web\": memory: expected a size such as \"512M\", found {value}"
            )
        );
    }
    let memory = |value| vm_error(&std::format!("memory = {value}"));
    assert_eq!(memory("0"), "gossamer.toml:2:10: vm \"web\": memory: expected at least 4M, found 0 bytes");
    assert_eq!(
        memory("\"1025G\""),
        "gossamer.toml:2:10: vm \"web\": memory: expected at most 1T, found 1025G"
    );
    assert_eq!(
        memory("4194305"),
        "gossamer.toml:2:10: vm \"web\": memory: expected a multiple of 4096 bytes, found 4194305 bytes"
    );
}

#[test]
fn bad_values_are_named() {
    let vm = |text| std::format!("gossamer.toml:2:{text}");
    for cpus in ["0", "2", "-1", "4294967297", "\"1\"", "18446744073709551617"] {
        assert_eq!(
            vm_error(&std::format!("cpus = {cpus}")),
            vm(std::format!(
                "8: vm \"web\": cpus: expected 1 (more virtual CPUs are not supported yet), found {cpus}"
            ))
        );
    }
    assert_eq!(
        vm_error("kernel = \"\""),
        vm("10: vm \"web\": kernel: expected the name of a boot module such as \"vmlinuz\", found \"\""
            .into())
    );
    assert_eq!(
        vm_error("initrd = \"a b\""),
        vm("10: vm \"web\": initrd: expected the name of a boot module such as \"vmlinuz\", found \"a b\""
            .into())
    );
    assert_eq!(
        vm_error(r#"cmdline = "a\u0000b""#),
        vm(r#"11: vm "web": cmdline: expected a string without NUL characters, found "a\u0000b""#.into())
    );
    assert_eq!(
        vm_error("unknown_msrs = \"drop\""),
        vm("16: vm \"web\": unknown_msrs: expected \"fault\" or \"ignore\", found \"drop\"".into())
    );
    assert_eq!(
        vm_error("on_reset = true"),
        vm("12: vm \"web\": on_reset: expected \"restart\" or \"stop\", found true".into())
    );
    assert_eq!(
        vm_error("on_triple_fault = []"),
        vm("19: vm \"web\": on_triple_fault: expected \"restart\" or \"stop\", found []".into())
    );
    assert_eq!(
        vm_error("time_limit = 10"),
        vm("14: vm \"web\": time_limit: expected a time such as \"500ms\", \"10s\", \"5m\" or \"2h\", at \
            most ten years, found 10"
            .into())
    );
    assert_eq!(
        vm_error("profile = 1"),
        vm("11: vm \"web\": profile: expected true or false, found 1".into())
    );
}

#[test]
fn the_debug_exit_needs_four_free_ports() {
    let debug_exit =
        |value: &str| good(&std::format!("[[vm]]\n{GOOD}\ndebug_exit = {value}\n")).vms[0].debug_exit;
    assert_eq!(debug_exit("244"), Some(0xf4));
    assert_eq!(debug_exit("\"0x501\""), Some(0x501));
    assert_eq!(debug_exit("0xfffc"), Some(0xfffc));
    // COM1; the last of four ports is port 92; a register that only compatibility claims; out of range.
    for value in ["0x3f8", "0x8f", "0x8900", "0xfffd", "0x10000", "-1", "true", "\"f4\""] {
        assert_eq!(
            vm_error(&std::format!("debug_exit = {value}")),
            std::format!(
                "gossamer.toml:2:14: vm \"web\": debug_exit: expected the first of four I/O ports that no \
                 device has, such as 0xf4, found {value}"
            )
        );
    }
    assert_eq!(
        vm_error("input = \"mouse\""),
        "gossamer.toml:2:9: vm \"web\": input: expected \"auto\", \"serial\" or \"keyboard\", found \"mouse\""
    );
    assert_eq!(
        vm_error("compat = \"bochs\""),
        "gossamer.toml:2:10: vm \"web\": compat: expected \"none\" or \"qemu\", found \"bochs\""
    );
}

#[test]
fn unknown_keys_list_the_known_ones() {
    assert_eq!(
        vm_error("cpu = 1"),
        "gossamer.toml:2:1: vm \"web\": cpu: unknown key, expected one of name, cpus, memory, kernel, initrd, \
         modules, cmdline, unknown_msrs, on_reset, on_triple_fault, input, compat, debug_exit, \
         time_limit, profile"
    );
}

#[test]
fn missing_keys_are_reported_at_the_header() {
    assert_eq!(
        errors("\n[[vm]]\n"),
        [
            "gossamer.toml:2:1: vm number 1: name: missing, expected 1 to 32 letters, digits, \"-\", \"_\" or \
             \".\"",
            "gossamer.toml:2:1: vm number 1: memory: missing, expected a size such as \"512M\"",
            "gossamer.toml:2:1: vm number 1: kernel: missing, expected the name of a boot module such as \
             \"vmlinuz\"",
        ]
    );
}

#[test]
fn strange_names_are_refused() {
    for name in
        ["\"\"", "\"a b\"", "\"a/b\"", "\"ä\"", r#""a\nb""#, "7", "\"123456789012345678901234567890123\""]
    {
        assert_eq!(
            vm_error(&std::format!("name = {name}")),
            std::format!(
                "gossamer.toml:2:8: vm number 1: name: expected 1 to 32 letters, digits, \"-\", \"_\" or \".\", \
                 found {name}"
            )
        );
    }
}

#[test]
fn one_bad_virtual_machine_leaves_the_others() {
    let text = r#"[[vm]]
name = "a"
memory = "64M"
kernel = "k"
[[vm]]
name = "b"
memory = "64X"
kernel = 3
[[vm]]
name = "a"
memory = "64M"
kernel = "k"
[[vm]]
name = "c"
memory = "64M"
kernel = "k"
"#;
    let parsed = parse(FILE, text.as_bytes());
    let names: Vec<&str> = parsed.config.vms.iter().map(|vm| vm.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(
        errors(text),
        [
            "gossamer.toml:7:10: vm \"b\": memory: expected a size such as \"512M\", found \"64X\"",
            "gossamer.toml:8:10: vm \"b\": kernel: expected the name of a boot module such as \"vmlinuz\", found 3",
            "gossamer.toml:10:8: vm \"a\": name: expected no repetition, found \"a\" again (first in line 2)",
        ]
    );
}

#[test]
fn files_that_are_no_toml_give_a_place() {
    let parsed = parse(FILE, b"console = \"com2\"\n[[vm]]\nname = \"web\n");
    assert_eq!(parsed.config, Config::default());
    assert_eq!(parsed.errors.len(), 1);
    let message = parsed.errors[0].to_string();
    assert!(message.starts_with("gossamer.toml:3:"), "{message}");
    assert!(message.contains("expected"), "{message}");
    assert!(!message.contains('\n'), "{message}");

    let duplicate = errors("on_exit = \"halt\"\non_exit = \"halt\"\n");
    assert_eq!(duplicate, ["gossamer.toml:2:1: duplicate key"]);
}

#[test]
fn files_that_are_no_text_give_a_place() {
    let parsed = parse(FILE, b"# fine\n# \xc3\xa4\xff");
    let messages: Vec<String> = parsed.errors.iter().map(ConfigError::to_string).collect();
    assert_eq!(messages, ["gossamer.toml:2:4: expected UTF-8 text"]);
}

#[test]
fn long_values_are_shortened() {
    let message = top_error(&std::format!("on_exit = \"{}\"", "x".repeat(500)));
    assert!(message.ends_with(&std::format!("found \"{}...", "x".repeat(39))), "{message}");
}

/// Every prefix of a file, and every file with one byte changed: an answer, never a panic.
#[test]
fn no_damage_panics() {
    let text = std::format!("console = [\"com1\", 0x2f8]\n[[vm]] # ä\n{GOOD}\ncmdline = '''a\nb'''\n");
    for len in 0..text.len() {
        let _ = parse(FILE, &text.as_bytes()[..len]);
        for byte in [0, b'\n', b'"', b'[', b'=', 0x80, 0xff] {
            let mut damaged = Vec::from(text.as_bytes());
            damaged[len] = byte;
            let _ = parse(FILE, &damaged);
        }
    }
}

#[test]
fn a_file_that_would_exhaust_memory_is_refused() {
    let comment = |bytes| "#".repeat(bytes);
    assert_eq!(
        errors(&comment(MAX_BYTES + 1)),
        ["gossamer.toml:1:1: expected a configuration of at most 16384 bytes, found 16385"]
    );
    assert_ne!(errors(&comment(MAX_BYTES)), errors(&comment(MAX_BYTES + 1)));

    let dots = |dots| std::format!("\na = '{}'", ".".repeat(dots));
    let message = std::format!("gossamer.toml:2:{}: ", 6 + MAX_TABLES)
        + "expected at most 1024 dots and opening brackets in all";
    assert_eq!(errors(&dots(MAX_TABLES + 1)), [message]);
    assert!(!errors(&dots(MAX_TABLES))[0].contains("dots"));
}

#[test]
fn deep_nesting_is_an_error() {
    let errors = errors(&std::format!("console = {}", "[".repeat(MAX_TABLES)));
    assert!(errors[0].starts_with("gossamer.toml:1:"), "{}", errors[0]);
}

#[test]
fn modules_are_found_by_the_names_in_the_file() {
    let text = std::format!("[[vm]]\n{GOOD}\ninitrd = \"initrd.img\"\n");
    let vm = good(&text).vms.remove(0);
    let all = Modules::new(["/gossamer.toml", "/boot/vmlinuz", "/boot/initrd.img x"]);
    assert_eq!(vm.modules(FILE, &all), Ok(VmModules { kernel: 1, initrd: Some(2), modules: vec![] }));
    let some = Modules::new(["/gossamer.toml", "/boot/vmlinuz"]);
    assert_eq!(
        vm.modules(FILE, &some).unwrap_err().to_string(),
        "gossamer.toml:5:10: vm \"web\": initrd: no boot module is named \"initrd.img\"; there are \
         \"/gossamer.toml\", \"/boot/vmlinuz\""
    );
}

#[test]
fn without_a_file_the_first_modules_count() {
    let modules = Modules::new(["/vmlinuz console=ttyS0 quiet", "/initrd.img ignored"]);
    let (config, files) = without_file(&modules, 100 * MIB + 1).unwrap();
    assert_eq!(files, VmModules { kernel: 0, initrd: Some(1), modules: vec![] });
    let vm = &config.vms[0];
    assert_eq!((vm.cmdline.as_str(), vm.memory, vm.cpus), ("console=ttyS0 quiet", 100 * MIB, 1));
    assert_eq!(vm.modules(FILE, &modules), Ok(files));
    assert_eq!((config.consoles, config.on_exit), (vec![Console::COM1], OnExit::Poweroff));

    let (config, files) = without_file(&Modules::new(["k"]), 4 * TIB).unwrap();
    assert_eq!(files, VmModules { kernel: 0, initrd: None, modules: vec![] });
    assert_eq!(config.vms[0].memory, TIB);
}

#[test]
fn without_anything_to_start_there_is_an_explanation() {
    assert_eq!(
        without_file(&Modules::new([]), GIB).unwrap_err().to_string(),
        "there is nothing to start: expected boot modules, either gossamer.toml and what it names, or a kernel \
         and optionally its initrd"
    );
    assert_eq!(
        without_file(&Modules::new(["k"]), MIB).unwrap_err().to_string(),
        "memory for the virtual machine: expected at least 4M, found 1M"
    );
}

#[test]
fn modules_are_names_with_arguments() {
    let text = format!(
        "[[vm]]\n{GOOD}\ninitrd = \"initrd.img\"\nmodules = [\"data.bin  one two\", \"initrd.img\"]\n"
    );
    let vm = &parse(FILE, text.as_bytes()).config.vms[0];
    let lines: Vec<_> = vm.modules.iter().map(|line| line.cmdline.as_str()).collect();
    assert_eq!(lines, ["data.bin  one two", "initrd.img"]);
    assert_eq!(vm.module_names().collect::<Vec<_>>(), ["vmlinuz", "initrd.img", "data.bin", "initrd.img"]);

    let all = Modules::new(["gossamer.toml", "/x/vmlinuz", "initrd.img", "data.bin"]);
    let found = vm.modules(FILE, &all).unwrap();
    assert_eq!(found, VmModules { kernel: 1, initrd: Some(2), modules: vec![3, 2] });
    let missing = vm.modules(FILE, &Modules::new(["vmlinuz", "initrd.img"])).unwrap_err().to_string();
    assert!(missing.contains("modules: no boot module is named \"data.bin\""), "{missing}");
}

#[test]
fn wrong_modules_are_named() {
    assert_eq!(
        vm_error("modules = \"data.bin\""),
        "gossamer.toml:2:11: vm \"web\": modules: expected a list of texts, each the name of a boot module and then \
         its arguments, found \"data.bin\""
    );
    for wrong in ["1", "\"\"", "\"  \"", "[]", "\"a\\u0000\""] {
        assert_eq!(
            vm_error(&format!("modules = [\"ok\", {wrong}]")),
            format!(
                "gossamer.toml:2:18: vm \"web\": modules: expected the name of a boot module and then its arguments, \
                 found {wrong}"
            )
        );
    }
}
