//! Hardware tasks of 32-bit protected mode (SDM 3, chapter 8): a GDT with two of them, of which the first runs the
//! code of a test.

#![allow(unsafe_code, reason = "task registers are loaded by assembly")]

use crate::gdt;
use crate::legacy::{self, Code32, LegacyFault, Paging};
use crate::memory::{self, read16, read32, read64, write16, write32, write64};
use core::arch::naked_asm;
use x86defs::descriptor::{DESCRIPTOR_BYTES, Descriptor, TssLayout, system_type};

/// The task that runs the test's code.
pub const MAIN: u16 = gdt::BEYOND;
/// The other one.
pub const OTHER: u16 = MAIN + 8;
/// The other one again, as a 16-bit task.
pub const OTHER_16: u16 = OTHER + 8;
const END: u16 = OTHER_16 + 8;
/// CS and data selectors of tasks.
pub const CODE: u16 = gdt::CODE32;
/// See [`CODE`].
pub const DATA: u16 = gdt::DATA;

/// Present, DPL 0.
const PRESENT: u64 = 1 << 47;
/// Room for each TSS.
const TSS_BYTES: u64 = 0x100;

/// A GDT with two tasks, ready to run.
#[derive(Clone, Copy)]
pub struct Tasks {
    gdt: u64,
    main: u64,
    other: u64,
    other_16: u64,
    stack_top: u64,
}

/// What the way into the first task needs; its argument in EDI.
#[repr(C)]
struct Way {
    gdt_limit: u16,
    gdt_base: [u16; 2],
    task: u16,
    entry: u32,
    argument: u32,
}

#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        ".code32",
        "lgdt [edi]",
        "mov ax, [edi + {task}]",
        "ltr ax",
        "mov eax, [edi + {entry}]",
        "mov edi, [edi + {argument}]",
        "jmp eax",
        ".code64",
        task = const core::mem::offset_of!(Way, task),
        entry = const core::mem::offset_of!(Way, entry),
        argument = const core::mem::offset_of!(Way, argument),
    )
}

impl Tasks {
    /// Two tasks, the other one to begin at `code` with EDI = `argument`, as a 32-bit or a 16-bit TSS.
    pub fn new(code: Code32, argument: u32) -> Self {
        let (gdt, segments, stack) = (memory::frame(), memory::frame(), memory::frame());
        let [main, other, other_16] = [0, 1, 2].map(|n| segments + n * TSS_BYTES);
        let tasks = Self { gdt, main, other, other_16, stack_top: stack + memory::PAGE };
        for selector in (0..MAIN).step_by(DESCRIPTOR_BYTES as usize) {
            tasks.set_descriptor(selector, gdt::descriptor(selector));
        }
        let long = &TssLayout::BITS_32;
        for (selector, base) in [(MAIN, main), (OTHER, other)] {
            tasks.set_descriptor(selector, tss(system_type::TSS_32_AVAILABLE, base, long.least_limit));
        }
        let short = &TssLayout::BITS_16;
        tasks.set_descriptor(OTHER_16, tss(system_type::TSS_16_AVAILABLE, other_16, short.least_limit));
        tasks.fill(other, long, code, argument);
        tasks.fill(other_16, short, code, argument);
        tasks
    }

    fn fill(&self, base: u64, layout: &TssLayout, code: Code32, argument: u32) {
        let set = |offset: u64, value: u32| match layout.width {
            4 => write32(base + offset, value),
            _ => write16(base + offset, value as u16),
        };
        let register = |number: u64| layout.gprs + number * u64::from(layout.width);
        set(layout.eip, code as *const () as u32);
        set(layout.eflags, 2);
        // ESP and EDI.
        set(register(4), self.stack_top as u32);
        set(register(7), argument);
        for index in 0..layout.segment_count {
            let selector = if index == 1 { CODE } else { DATA };
            write16(base + layout.segments + index * u64::from(layout.width), selector);
        }
    }

    /// A descriptor.
    pub fn descriptor(&self, selector: u16) -> Descriptor {
        Descriptor(read64(self.gdt + u64::from(selector)))
    }

    /// Changes a descriptor.
    pub fn set_descriptor(&self, selector: u16, descriptor: Descriptor) {
        write64(self.gdt + u64::from(selector), descriptor.0);
    }

    /// Bytes of the TSS of the first task, and of the other one.
    pub fn saved(&self, selector: u16, offset: u64) -> u32 {
        read32(self.base(selector) + offset)
    }

    /// Sets a word in a TSS.
    pub fn set(&self, selector: u16, offset: u64, value: u16) {
        write16(self.base(selector) + offset, value);
    }

    /// The selector of the task that this one is nested in.
    pub fn link(&self, selector: u16) -> u16 {
        read16(self.base(selector) + TssLayout::LINK)
    }

    /// Where the TSS of this task lies.
    pub fn base(&self, selector: u16) -> u64 {
        match selector {
            MAIN => self.main,
            OTHER => self.other,
            _ => self.other_16,
        }
    }

    /// Runs `code` with EDI = `argument` as the first task.
    pub fn run(&self, code: Code32, argument: u32) -> Result<u32, LegacyFault> {
        let base = self.gdt as u32;
        let way = Way {
            gdt_limit: END - 1,
            gdt_base: [base as u16, (base >> 16) as u16],
            task: MAIN,
            entry: code as *const () as u32,
            argument,
        };
        let result = legacy::protected(enter, (&raw const way) as u32, Paging::Off);
        gdt::reload();
        result
    }
}

fn tss(system_type: u32, base: u64, limit: u32) -> Descriptor {
    let base = (base & 0xff_ffff) << 16 | (base >> 24) << 56;
    Descriptor(PRESENT | u64::from(system_type) << 40 | base | u64::from(limit))
}
