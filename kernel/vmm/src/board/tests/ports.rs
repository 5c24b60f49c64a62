//! Every claimed port reaches its device.

use super::*;

const COM1: u16 = platform::COM1.first;
const SCRATCH: u16 = COM1 + 7;
const PCI_ADDRESS: u16 = platform::PCI_CONFIG.first;
const PCI_DATA: u16 = PCI_ADDRESS + 4;

/// A port that nobody answers.
const NOBODY: u16 = 0xe000;

#[test]
fn both_interrupt_controllers_keep_their_masks_apart() {
    let bench = Bench::new(1);
    bench.program(&[(0x21, 0x5a), (0xa1, 0xa5)]);
    assert_eq!((bench.input(0x21, 1), bench.input(0xa1, 1)), (0x5a, 0xa5));
}

#[test]
fn edge_or_level_is_chosen_at_its_own_ports() {
    let bench = Bench::new(1);
    bench.program(&[(0x4d0, 0x20), (0x4d1, 0x0c)]);
    assert_eq!((bench.input(0x4d0, 1), bench.input(0x4d1, 1)), (0x20, 0x0c));
}

#[test]
fn each_counter_of_the_timer_has_its_port() {
    let bench = Bench::new(1);
    for (counter, port) in (0u8..).zip([0x40, 0x41, 0x42]) {
        let low_byte_mode_2 = counter << 6 | 1 << 4 | 2 << 1;
        bench.program(&[(0x43, low_byte_mode_2), (port, 0x40 + counter)]);
    }
    for (counter, port) in (0u8..).zip([0x40, 0x41, 0x42]) {
        let read_back_status = 0xe0 | 2 << counter;
        bench.program(&[(0x43, read_back_status)]);
        assert_eq!(bench.input(port, 1) & 0x3f, 1 << 4 | 2 << 1, "status of counter {counter}");
    }
}

#[test]
fn port_61_gates_the_speaker_counter() {
    let bench = Bench::new(1);
    for gate in [1, 0, 3] {
        bench.program(&[(0x61, gate)]);
        assert_eq!(bench.input(0x61, 1) & 3, gate.into());
    }
}

#[test]
fn the_clock_has_an_index_and_a_data_port() {
    let bench = Bench::new(1);
    let free_byte = 0x40;
    bench.program(&[(0x70, free_byte), (0x71, 0x5a), (0x70, free_byte + 1), (0x71, 0xa5)]);
    bench.program(&[(0x70, free_byte)]);
    assert_eq!(bench.input(0x71, 1), 0x5a);
    bench.program(&[(0x70, platform::RTC_CENTURY)]);
    assert_eq!(bench.input(0x71, 1), 0x19, "1970 in BCD");
}

#[test]
fn the_keyboard_controller_answers_its_self_test() {
    let bench = Bench::new(1);
    bench.program(&[(0x64, 0xaa)]);
    assert_eq!(bench.input(0x64, 1) & 1, 1, "output buffer full");
    assert_eq!(bench.input(0x60, 1), 0x55);
    assert_eq!(bench.input(0x64, 1) & 1, 0);
}

#[test]
fn the_serial_port_keeps_its_scratch_byte_and_speaks() {
    let bench = Bench::new(1);
    bench.program(&[(SCRATCH, 0x5a)]);
    assert_eq!(bench.input(SCRATCH, 1), 0x5a);
    for byte in *b"ok" {
        bench.program(&[(COM1, byte)]);
    }
    assert_eq!(bench.output.bytes(), b"ok");
}

#[test]
fn a_dword_at_cf8_is_an_address_and_a_byte_at_cf9_a_reset_register() {
    let bench = Bench::new(1);
    bench.output(PCI_ADDRESS, 4, 0x8000_0008);
    assert_eq!(bench.input(PCI_ADDRESS, 4), 0x8000_0008);
    assert_eq!(bench.input(PCI_DATA + 3, 1), 0x06, "class of a bridge");
    let hard_reset = 1 << 1;
    bench.output(platform::RESET.first, 1, hard_reset);
    assert_eq!(bench.input(platform::RESET.first, 1), hard_reset);
    assert_eq!(bench.input(PCI_ADDRESS, 4), 0x8000_0008, "the address is untouched");
    assert_eq!(bench.board.take_power_event(), None);
}

#[test]
fn configuration_space_can_be_read_in_any_width() {
    let bench = Bench::new(1);
    bench.output(PCI_ADDRESS, 4, 0x8000_0000);
    assert_eq!(bench.input(PCI_DATA, 4), 0x0008_1b36);
    assert_eq!((bench.input(PCI_DATA, 2), bench.input(PCI_DATA + 2, 2)), (0x1b36, 0x0008));
    assert_eq!((bench.input(PCI_DATA, 1), bench.input(PCI_DATA + 1, 1)), (0x36, 0x1b));
}

#[test]
fn the_power_management_timer_counts() {
    let bench = Bench::new(1);
    let timer = platform::PM_TMR.first;
    let second = Nanos(1_000_000_000);
    assert_eq!(bench.board.input(timer, 4, second), 3_579_545);
    assert_eq!(bench.board.input(timer, 1, second), 3_579_545 & 0xff);
    assert_eq!(bench.board.input(timer + 2, 2, second), 3_579_545 >> 16);
}

#[test]
fn acpi_is_on_from_the_start() {
    let bench = Bench::new(1);
    let sci_en = 1;
    assert_eq!(bench.input(platform::PM1A_CNT.first, 2) & sci_en, sci_en);
    bench.output(platform::PM1A_EVT.first + 2, 2, 1 << 8);
    assert_eq!(bench.input(platform::PM1A_EVT.first + 2, 2), 1 << 8, "power button enabled");
    assert_eq!(bench.input(platform::PM1A_EVT.first, 4), 1 << 24);
}

#[test]
fn an_access_wider_than_its_register_reaches_the_following_ones() {
    let bench = Bench::new(1);
    bench.output(0x20, 2, 0x5a << 8 | 0x0b);
    assert_eq!(bench.input(0x21, 1), 0x5a);
    assert_eq!(bench.input(0x20, 2), 0x5a00, "nothing is in service");
    bench.output(0x70, 2, 0x77 << 8 | 0x40);
    assert_eq!(bench.input(0x70, 2) >> 8, 0x77);
    bench.output(SCRATCH - 3, 4, 0x99 << 24);
    assert_eq!(bench.input(SCRATCH, 1), 0x99);
}

#[test]
fn an_access_across_the_end_of_a_device_floats_there() {
    let bench = Bench::new(1);
    bench.program(&[(SCRATCH, 0x5a)]);
    assert_eq!(bench.input(SCRATCH, 2), 0xff5a);
    assert_eq!(bench.input(0xa1, 4) >> 8, 0x00ff_ffff);
    bench.output(0xffff, 4, 0x5a5a_5a5a);
    assert_eq!(bench.input(0xffff, 4), u32::MAX, "there is no port behind the last");
}

#[test]
fn unclaimed_ports_float() {
    let bench = Bench::new(1);
    for port in
        [NOBODY, 0x1f, 0x22, 0x44, 0x62, 0x72, 0x93, 0xa2, 0x3f7, 0x400, 0x4d2, 0x5ff, 0x60c, 0xcf7, 0xd00]
    {
        for (width, ones) in [(1, 0xff), (2, 0xffff), (4, u32::MAX)] {
            assert_eq!(bench.input(port, width), ones, "port {port:#x}, width {width}");
        }
        bench.output(port, 1, 0);
    }
    assert_eq!(bench.board.take_power_event(), None);
}

#[test]
fn no_read_brings_more_than_its_width() {
    let bench = Bench::new(1);
    for port in 0..=0xfff {
        for width in [1, 2] {
            let value = bench.input(port, width);
            assert_eq!(value >> (8 * width), 0, "port {port:#x}, width {width}");
        }
    }
}

#[test]
fn s5_and_resets_become_power_events_once() {
    use PowerEvent::{PowerOff, Reset};
    let off = 1 << 13 | u32::from(platform::S5_SLP_TYP) << 10;
    for (port, width, value, event) in [
        (platform::PM1A_CNT.first, 2, off, PowerOff("ACPI S5")),
        (platform::RESET.first, 1, platform::RESET_VALUE.into(), Reset("port 0xCF9")),
        (0x92, 1, 3, Reset("port 0x92")),
        (0x64, 1, 0xfe, Reset("keyboard controller")),
    ] {
        let bench = Bench::new(1);
        bench.output(port, width, value);
        assert_eq!(bench.cpus[0].hazard.take(), hazard::STOP);
        assert_eq!(bench.board.take_power_event(), Some(event));
        assert_eq!(bench.board.take_power_event(), None);
    }
}

#[test]
fn a_sleep_type_that_does_not_exist_is_no_power_event() {
    let bench = Bench::new(1);
    bench.output(platform::PM1A_CNT.first, 2, 1 << 13 | 3 << 10);
    assert_eq!(bench.board.take_power_event(), None);
    assert!(!bench.cpus[0].hazard.any());
}

#[test]
fn typed_bytes_arrive_at_the_serial_port_while_it_has_room() {
    let bench = Bench::new(1);
    let enable_fifos = 1;
    bench.program(&[(COM1 + 2, enable_fifos)]);
    let text = b"0123456789abcdef";
    for byte in text {
        assert!(bench.board.type_to_serial(*byte, Nanos(0)));
    }
    assert!(!bench.board.type_to_serial(b'!', Nanos(0)), "sixteen bytes fill it");
    let typed: Vec<u8> = text.iter().map(|_| bench.input(COM1, 1) as u8).collect();
    assert_eq!(typed, text);
    assert_eq!(bench.input(COM1 + 5, 1) & 1, 0, "no more data");
    assert!(bench.board.type_to_serial(b'!', Nanos(0)));
}

#[test]
fn the_resource_map_lists_every_port_that_answers() {
    for port in 0..=u16::MAX {
        let listed = platform::FIXED_PORTS.iter().any(|ports| ports.contains(port));
        assert_eq!(super::super::ports::decode(port, 1).is_some(), listed, "port {port:#x}");
    }
}

#[test]
fn the_debug_console_speaks_like_the_serial_port() {
    let bench = Bench::new(1);
    assert_eq!(bench.input(0xe9, 1), 0xe9);
    bench.program(&[(0xe9, b'o'), (COM1, b'k'), (0xe9, b'!')]);
    assert_eq!(bench.output.bytes(), b"ok!");
}

#[test]
fn the_debug_exit_ends_the_virtual_machine_with_its_status() {
    for (port, width, value) in [(0xf4, 4, 0x12345), (0xf5, 1, 3), (0xf6, 2, 0x100)] {
        let bench = Bench::with(1, |setup| setup.debug_exit = Some(0xf4));
        assert_eq!((bench.input(port, width), bench.board.take_power_event()), (0, None));
        bench.output(port, width, value);
        assert_eq!(bench.board.take_power_event(), Some(PowerEvent::Exit(value)));
    }
    let bench = Bench::new(1);
    bench.output(0xf4, 4, 1);
    assert_eq!((bench.input(0xf4, 1), bench.board.take_power_event()), (0xff, None), "absent by default");
}

#[test]
fn the_firmware_configuration_is_there_if_asked_for() {
    let facts =
        devices::fw_cfg::Facts { cpus: 1, memory: 0, cmdline: "", initrd: [][..].into(), files: Vec::new() };
    let bench = Bench::with(1, |setup| {
        setup.compat = Compat::Qemu;
        setup.fw_cfg = devices::fw_cfg::FwCfg::new(facts);
    });
    bench.output(0x510, 2, 0);
    let signature: Vec<u8> = (0..4).map(|_| bench.input(0x511, 1) as u8).collect();
    assert_eq!(signature, b"QEMU");
    let without = Bench::new(1);
    without.output(0x510, 2, 0);
    assert_eq!(without.input(0x511, 1), 0xff);
}

#[test]
fn ports_of_emulators_are_there_if_asked_for() {
    let qemu = |setup: &mut BoardSetup| setup.compat = Compat::Qemu;
    let (with, without) = (Bench::with(1, qemu), Bench::new(1));
    for (bench, how) in [(&with, Some(PowerEvent::PowerOff("port 0x8900"))), (&without, None)] {
        for letter in *b"Shutdown" {
            assert_eq!(bench.board.take_power_event(), None);
            bench.output(0x8900, 1, letter.into());
        }
        assert_eq!(bench.board.take_power_event(), how);
    }
    for (bench, how) in [(&with, Some(PowerEvent::PowerOff("port 0xB004"))), (&without, None)] {
        bench.output(0xb004, 2, 0x2000);
        assert_eq!(bench.board.take_power_event(), how);
    }
    for bench in [&with, &without] {
        bench.output(0x604, 2, 0x2000);
        let s5 = Some(PowerEvent::PowerOff("ACPI S5"));
        assert_eq!(bench.board.take_power_event(), s5, "QEMU's port is that of our PM1 control register");
    }
}
