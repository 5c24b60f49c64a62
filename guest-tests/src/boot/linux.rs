//! `boot_params` of the Linux boot protocol (Linux, Documentation/arch/x86/zero-page.rst and boot.rst).

use super::{Boot, Protocol, string_by};
use crate::memory::{read8, read32, read64};

const ACPI_RSDP_ADDR: u64 = 0x70;
const E820_ENTRIES: u64 = 0x1e8;
const CMD_LINE_PTR: u64 = 0x228;
const E820_TABLE: u64 = 0x2d0;
const E820_ENTRY_SIZE: u64 = 20;

pub(super) fn read(params: u64) -> Boot {
    let mut boot = Boot::new(Protocol::Linux);
    for i in 0..u64::from(read8(params + E820_ENTRIES)) {
        let entry = params + E820_TABLE + i * E820_ENTRY_SIZE;
        boot.add_range(read64(entry), read64(entry + 8), read32(entry + 16));
    }
    boot.cmdline = string_by(u64::from(read32(params + CMD_LINE_PTR)));
    boot.rsdp = Some(read64(params + ACPI_RSDP_ADDR)).filter(|&a| a != 0);
    boot
}
