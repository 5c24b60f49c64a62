//! The firmware configuration device.

use abi::test_protocol::{MODULE_LENGTH, MODULE_NAME, module_byte};
use runtime::hw::fw_cfg::{self, File};
use runtime::hw::rtc;
use runtime::machine::{self, Maker};
use runtime::{boot, expect, expect_eq, guest_test, platform_wrong, skip};

/// Memory from 16 MiB on, in 64 KiB, in CMOS.
const CMOS_HIGH_MEMORY: [u8; 2] = [0x34, 0x35];
const HIGH_MEMORY: u64 = 16 << 20;
const HIGH_MEMORY_UNIT: u64 = 64 << 10;
/// Usable memory in a range of the memory map.
const USABLE: u32 = 1;
const E820_ENTRY_SIZE: u32 = 20;

/// The hypervisor has been told to offer it.
fn needs_fw_cfg() {
    if machine::get().platform != Maker::Gossamer && !fw_cfg::is_present() {
        skip!("no fw_cfg");
    }
}

guest_test!(numbers);
fn numbers() {
    needs_fw_cfg();
    expect!(fw_cfg::is_present(), "no signature");
    let id = fw_cfg::number::<4>(fw_cfg::ID) as u32;
    expect!(id & fw_cfg::ID_TRADITIONAL != 0, "ID {id:#x}");
    expect_eq!(fw_cfg::number::<2>(fw_cfg::NB_CPUS), 1, "CPUs");
    let high = u64::from(u16::from_le_bytes(CMOS_HIGH_MEMORY.map(rtc::read)));
    let by_cmos = HIGH_MEMORY + high * HIGH_MEMORY_UNIT;
    expect_eq!(fw_cfg::number::<8>(fw_cfg::RAM_SIZE), by_cmos, "memory, compared with CMOS");
}

guest_test!(command_line);
fn command_line() {
    needs_fw_cfg();
    platform_wrong!(QemuTcg, "its loader of multiboot kernels keeps the command line elsewhere");
    let wanted = boot::get().cmdline.as_bytes();
    expect_eq!(fw_cfg::number::<4>(fw_cfg::CMDLINE_SIZE), wanted.len() as u64 + 1, "size");
    fw_cfg::select(fw_cfg::CMDLINE_DATA);
    for (index, &byte) in wanted.iter().chain(&[0]).enumerate() {
        let [found] = fw_cfg::bytes();
        expect_eq!(found, byte, "byte {index}");
    }
}

guest_test!(memory_map);
fn memory_map() {
    needs_fw_cfg();
    let Some(map) = fw_cfg::file("etc/e820") else { panic!("no memory map") };
    expect_eq!(map.size % E820_ENTRY_SIZE, 0, "size");
    for range in &boot::get().ram {
        fw_cfg::select(map.selector);
        let found = (0..map.size / E820_ENTRY_SIZE)
            .map(|_| e820_entry())
            .any(|(usable, kind)| kind == USABLE && usable.contains(*range));
        expect!(found, "{range:x?} is not there");
    }
}

fn e820_entry() -> (boot::Range, u32) {
    let [start, len] = [(); 2].map(|()| u64::from_le_bytes(fw_cfg::bytes()));
    (boot::Range { start, len }, u32::from_le_bytes(fw_cfg::bytes()))
}

guest_test!(module);
fn module() {
    needs_fw_cfg();
    let name = arrayvec::ArrayString::<56>::try_from(format_args!("opt/{MODULE_NAME}")).unwrap_or_default();
    let Some(File { size, selector, .. }) = fw_cfg::file(&name) else {
        expect!(machine::get().platform != Maker::Gossamer, "no {name}");
        skip!("the emulator has been given no file");
    };
    expect_eq!(size, MODULE_LENGTH as u32, "size");
    fw_cfg::select(selector);
    for index in 0..MODULE_LENGTH {
        let [found] = fw_cfg::bytes();
        expect_eq!(found, module_byte(index), "byte {index}");
    }
    expect_eq!(fw_cfg::bytes(), [0; 2], "bytes behind the end");
}
