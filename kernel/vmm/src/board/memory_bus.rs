//! The memory bus: device registers among guest physical addresses. Unclaimed reads float to ones.

use super::{Board, VcpuPort};
use crate::lapic::Lapic;
use crate::memory::Width;
use devices::effects::Nanos;
use devices::ioapic;
use guestboot::platform::{HPET_BASE, HPET_SIZE, IOAPIC_BASE};
use x86defs::addr::{Gpa, PAGE_SIZE};

/// The bus as the CPU with this local APIC sees it.
pub struct MemoryBus<'a> {
    /// The board.
    pub board: &'a Board,
    /// The accessing CPU's own local APIC.
    pub lapic: &'a mut Lapic,
    /// The guest's TSC.
    pub tsc: u64,
    /// The virtual machine's time.
    pub now: Nanos,
    /// The accessing CPU's own port.
    pub port: &'a VcpuPort,
}

enum Register {
    Lapic(u16),
    IoApic(u16),
    Hpet(u16),
    Nobody,
}

impl MemoryBus<'_> {
    fn decode(&self, at: Gpa) -> Register {
        let offset = at.page_offset() as u16;
        if self.lapic.mmio_base() == Some(at.page()) {
            Register::Lapic(offset)
        } else if at.0.wrapping_sub(IOAPIC_BASE.0) < PAGE_SIZE {
            Register::IoApic(offset)
        } else if at.0.wrapping_sub(HPET_BASE.0) < HPET_SIZE.into() {
            Register::Hpet(offset)
        } else {
            Register::Nobody
        }
    }

    /// One access to a device whose registers have 32 bits, at most so wide and not crossing a register.
    fn read32(&mut self, at: Gpa, width: Width) -> u32 {
        match self.decode(at) {
            Register::Lapic(offset) => self.lapic.read(offset, width, self.tsc),
            Register::IoApic(offset) => self.board.ioapic.lock().read(offset),
            Register::Hpet(_) | Register::Nobody => u32::MAX,
        }
    }

    fn write32(&mut self, at: Gpa, width: Width, value: u32) {
        match self.decode(at) {
            Register::Lapic(offset) => {
                let effect = self.lapic.write(offset, width, value, self.tsc);
                self.board.apply_lapic(self.lapic, self.port, effect);
            }
            Register::IoApic(offset) => {
                let messages = self.board.ioapic.lock().write(offset, width as u8, value);
                self.board.send(&messages);
            }
            Register::Hpet(_) | Register::Nobody => {}
        }
    }

    fn read_hpet(&self, offset: u16, width: Width) -> u64 {
        let (value, effects) = self.board.hpet.lock().read(offset, self.now);
        self.board.apply_hpet(&effects);
        value & width.mask()
    }

    fn write_hpet(&self, offset: u16, width: Width, value: u64) {
        let effects = self.board.hpet.lock().write(offset, width.bytes() as u8, value, self.now);
        self.board.apply_hpet(&effects);
    }
}

impl crate::emulate::Bus for MemoryBus<'_> {
    fn read(&mut self, at: Gpa, width: Width) -> u64 {
        const _: () = assert!(ioapic::MAX_WIDTH == 4);
        if let Register::Hpet(offset) = self.decode(at) {
            return self.read_hpet(offset, width);
        }
        let low = u64::from(self.read32(at, width.min(Width::Dword)));
        match width {
            Width::Qword => low | u64::from(self.read32(at.offset(4), Width::Dword)) << 32,
            _ => low & width.mask(),
        }
    }

    fn write(&mut self, at: Gpa, width: Width, value: u64) {
        if let Register::Hpet(offset) = self.decode(at) {
            return self.write_hpet(offset, width, value);
        }
        self.write32(at, width.min(Width::Dword), value as u32);
        if width == Width::Qword {
            self.write32(at.offset(4), Width::Dword, (value >> 32) as u32);
        }
    }
}
