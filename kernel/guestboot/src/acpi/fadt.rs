//! The Fixed ACPI Description Table (ACPI 6.5, 5.2.9).

use super::root::address32;
use super::{FIRMWARE_CONTROL, OEM_ID, OEM_REVISION, OEM_TABLE_ID, encode};
use crate::platform::{PM_TMR, PM1A_CNT, PM1A_EVT, PortRange, RESET, RESET_VALUE, RTC_CENTURY, SCI_IRQ};
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use alloc::vec::Vec;
use bitflags::bitflags;
use x86defs::addr::Gpa;

bitflags! {
    /// IA-PC boot architecture flags (ACPI 6.5, 5.2.9.3).
    struct BootArch: u16 {
        const LEGACY_DEVICES = 1 << 0;
        const KEYBOARD_8042 = 1 << 1;
        const VGA_NOT_PRESENT = 1 << 2;
    }
}

/// P_LVL2_LAT above 100 us: no C2.
const NO_C2: u16 = 0xfff;
/// P_LVL3_LAT above 1000 us: no C3.
const NO_C3: u16 = 0xfff;

/// The table. SMI_CMD stays 0: the machine is in ACPI mode from the start and has no other.
pub(super) fn fadt(dsdt: Gpa) -> Vec<u8> {
    let mut fadt = FADTBuilder::new(OEM_ID, OEM_TABLE_ID, OEM_REVISION)
        .firmware_ctrl_32(address32(FIRMWARE_CONTROL).get())
        .dsdt_32(address32(dsdt).get())
        .flag(Flags::Wbinvd)
        .flag(Flags::ProcC1)
        // No fixed power and sleep buttons, no wake-up by the clock: nobody presses them.
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::FixRtc)
        .flag(Flags::TmrValExt)
        .flag(Flags::ResetRegSup);
    fadt.x_dsdt = dsdt.0.into();
    fadt.sci_int = u16::from(SCI_IRQ).into();
    fadt.p_lvl2_lat = NO_C2.into();
    fadt.p_lvl3_lat = NO_C3.into();
    fadt.century = RTC_CENTURY;
    let boot_arch = BootArch::LEGACY_DEVICES | BootArch::KEYBOARD_8042 | BootArch::VGA_NOT_PRESENT;
    fadt.iapc_boot_arch = boot_arch.bits().into();
    fadt.reset_reg = io_register(RESET, AccessSize::ByteAccess);
    fadt.reset_value = RESET_VALUE;
    set_pm_blocks(&mut fadt);
    encode(&fadt.finalize())
}

/// Each register block stands here twice, in the old form and in the extended one.
fn set_pm_blocks(fadt: &mut FADTBuilder) {
    fadt.pm1a_evt_blk = u32::from(PM1A_EVT.first).into();
    fadt.pm1_evt_len = PM1A_EVT.count as u8;
    fadt.x_pm1a_evt_blk = io_register(PM1A_EVT, AccessSize::WordAccess);

    fadt.pm1a_cnt_blk = u32::from(PM1A_CNT.first).into();
    fadt.pm1_cnt_len = PM1A_CNT.count as u8;
    fadt.x_pm1a_cnt_blk = io_register(PM1A_CNT, AccessSize::WordAccess);

    fadt.pm_tmr_blk = u32::from(PM_TMR.first).into();
    fadt.pm_tmr_len = PM_TMR.count as u8;
    fadt.x_pm_tmr_blk = io_register(PM_TMR, AccessSize::DwordAccess);
}

fn io_register(ports: PortRange, access: AccessSize) -> GAS {
    const BITS_PER_PORT: u16 = 8;
    let width = (ports.count * BITS_PER_PORT) as u8;
    GAS::new(AddressSpace::SystemIo, width, 0, access, ports.first.into())
}
