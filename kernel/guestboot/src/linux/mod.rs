//! The Linux/x86 boot protocol (Linux, Documentation/arch/x86/boot.rst) with its 64-bit entry, or its 32-bit
//! entry for kernels without one.

pub mod boot_params;
mod error;
pub mod header;
mod layout;
mod page_tables;
#[cfg(test)]
mod tests;

pub use error::LinuxError;

use crate::acpi;
use crate::entry::{self, BOOT_CS, BOOT_DS, EntryState, Registers};
use crate::plan::{Copy, Guest, Source, StartPlan};
use crate::stage::terminated;
use alloc::vec::Vec;
use boot_params::BootParams;
use header::{Entry, Header};
use layout::Layout;
use x86defs::addr::Gva;
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::gpr::Gpr;
use zerocopy::IntoBytes;

/// Offset of the 64-bit entry point in the protected-mode kernel.
const ENTRY64: u64 = 0x200;
/// Lays a Linux kernel out.
pub fn plan(guest: &Guest<'_>) -> Result<StartPlan, LinuxError> {
    let header = Header::parse(guest.kernel)?;
    let layout = Layout::new(&header, guest.map, guest.initrd.map(|initrd| initrd.len), guest.cmdline.len())?;

    let mut params = BootParams::new(&header);
    params.set_memory(guest.map);
    params.set_cmdline(layout::CMDLINE);
    params.set_rsdp(acpi::RSDP);
    if let Some(initrd) = layout.initrd {
        params.set_initrd(initrd.at, initrd.len);
    }

    let long = header.entry() == Entry::Long;
    let cs = if long { entry::code64(BOOT_CS) } else { entry::code32(BOOT_CS) };
    let bytes = |to, bytes: &[u8]| Copy { to, source: Source::Bytes(Vec::from(bytes)) };
    let mut copies = alloc::vec![
        Copy { to: layout.kernel, source: Source::Kernel(header.payload()) },
        bytes(layout::GDT, &entry::boot_gdt(&cs)),
        bytes(layout::BOOT_PARAMS, params.as_bytes()),
        bytes(layout::CMDLINE, &terminated(guest.cmdline)),
    ];
    if long {
        copies.push(bytes(layout::PAGE_TABLES, page_tables::identity(layout::PAGE_TABLES).as_bytes()));
    }
    if let Some(initrd) = layout.initrd {
        copies.push(Copy { to: initrd.at, source: Source::Initrd });
    }
    let state = if long { long_mode(&layout) } else { protected_mode(&layout) };
    Ok(StartPlan { copies, entry: state })
}

/// RSI names the zero page in both modes; the others that the protocol wants to be zero are.
fn registers() -> Registers {
    Registers::of(&[(Gpr::Rsi, layout::BOOT_PARAMS.0), (Gpr::Rsp, layout::STACK_TOP.0)])
}

/// The 32-bit entry point is the first byte.
fn protected_mode(layout: &Layout) -> EntryState {
    entry::protected_mode(layout.kernel.0, layout::GDT, registers())
}

fn long_mode(layout: &Layout) -> EntryState {
    EntryState {
        rip: Gva(layout.kernel.0 + ENTRY64),
        registers: registers(),
        rflags: Rflags::ONE,
        cr0: Cr0::PE | Cr0::ET | Cr0::NE | Cr0::PG,
        cr3: layout::PAGE_TABLES,
        cr4: Cr4::PAE,
        efer: Efer::LME | Efer::LMA,
        cs: entry::code64(BOOT_CS),
        data: entry::data(BOOT_DS),
        tr: entry::busy_tss(),
        gdtr: entry::boot_gdtr(layout::GDT),
    }
}
