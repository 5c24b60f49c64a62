//! The Linux/x86 boot protocol with its 64-bit entry (Linux, Documentation/arch/x86/boot.rst).

pub mod boot_params;
mod error;
pub mod header;
mod layout;
mod page_tables;
#[cfg(test)]
mod tests;

pub use error::LinuxError;

use crate::acpi;
use crate::entry::{self, EntryState};
use crate::plan::{Copy, Guest, Source, StartPlan};
use alloc::vec::Vec;
use boot_params::BootParams;
use header::Header;
use layout::Layout;
use x86defs::addr::Gva;
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::segment::DescriptorTable;
use zerocopy::IntoBytes;

/// Offset of the 64-bit entry point in the protected-mode kernel.
const ENTRY64: u64 = 0x200;
/// `__BOOT_CS`.
const BOOT_CS: u16 = 0x10;
/// `__BOOT_DS`.
const BOOT_DS: u16 = 0x18;

/// Lays a Linux kernel out.
pub fn plan(guest: &Guest<'_>) -> Result<StartPlan, LinuxError> {
    let header = Header::parse(guest.kernel)?;
    let layout = Layout::new(&header, guest.map, guest.initrd_len, guest.cmdline.len())?;

    let mut params = BootParams::new(&header);
    params.set_memory(guest.map);
    params.set_cmdline(layout::CMDLINE);
    params.set_rsdp(acpi::RSDP);
    if let Some(initrd) = layout.initrd {
        params.set_initrd(initrd.at, initrd.len);
    }

    let mut cmdline = Vec::from(guest.cmdline);
    cmdline.push(0);
    let bytes = |to, bytes: &[u8]| Copy { to, source: Source::Bytes(Vec::from(bytes)) };
    let mut copies = alloc::vec![
        Copy { to: layout.kernel, source: Source::Kernel(header.payload()) },
        bytes(layout::GDT, gdt().as_bytes()),
        bytes(layout::BOOT_PARAMS, params.as_bytes()),
        bytes(layout::CMDLINE, &cmdline),
        bytes(layout::PAGE_TABLES, page_tables::identity(layout::PAGE_TABLES).as_bytes()),
    ];
    if let Some(initrd) = layout.initrd {
        copies.push(Copy { to: initrd.at, source: Source::Initrd });
    }
    Ok(StartPlan { copies, entry: entry_state(&layout) })
}

/// The two descriptors that the protocol asks for, at their selectors.
fn gdt() -> [u64; 4] {
    [0, 0, entry::descriptor(&entry::code64(BOOT_CS)), entry::descriptor(&entry::data(BOOT_DS))]
}

fn entry_state(layout: &Layout) -> EntryState {
    EntryState {
        rip: Gva(layout.kernel.0 + ENTRY64),
        rsp: Gva(layout::STACK_TOP.0),
        rsi: layout::BOOT_PARAMS.0,
        rflags: Rflags::ONE,
        cr0: Cr0::PE | Cr0::ET | Cr0::NE | Cr0::PG,
        cr3: layout::PAGE_TABLES,
        cr4: Cr4::PAE,
        efer: Efer::LME | Efer::LMA,
        cs: entry::code64(BOOT_CS),
        ds: entry::data(BOOT_DS),
        ss: entry::data(BOOT_DS),
        tr: entry::busy_tss(),
        gdtr: DescriptorTable { base: layout::GDT.0, limit: (size_of_val(&gdt()) - 1) as u16 },
    }
}
