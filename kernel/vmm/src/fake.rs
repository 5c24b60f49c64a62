//! Doubles for tests on the host: a virtual CPU that is nothing but its registers, and guest memory in a
//! vector.

mod host;
mod machine;

pub use host::{AMD, INTEL, cpuid_setup, host, msr_setup, skylake_xsave};
pub use machine::{Machine, Output, RAM, TSC_KHZ, board, board_setup};

use crate::memory::{GuestMemory, NotRam, Width};
use crate::vcpu::{Mode, StateMsr, Vcpu, Window};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;
use x86defs::addr::{Gpa, Gva};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::event::{Event, Exception};
use x86defs::gpr::Gpr;
use x86defs::segment::{Attributes, DescriptorTable, Segment, SegmentName};

/// A virtual CPU whose whole state can be set and seen.
#[allow(missing_docs, reason = "registers by their own names")]
#[derive(Clone, Debug, PartialEq)]
pub struct FakeVcpu {
    pub gprs: [u64; 16],
    pub rip: u64,
    pub rflags: Rflags,
    pub cpl: u8,
    pub segments: [Segment; 8],
    pub gdtr: DescriptorTable,
    pub idtr: DescriptorTable,
    pub cr0: Cr0,
    pub cr2: u64,
    pub cr3: u64,
    pub cr4: Cr4,
    pub pdptes: Option<[u64; 4]>,
    pub cr8: u8,
    pub efer: Efer,
    pub dr6: u64,
    pub dr7: u64,
    pub xcr0: u64,
    /// By the discriminant of [`StateMsr`].
    pub state_msrs: [u64; 13],
    /// Length of the intercepted instruction, for [`Vcpu::skip`].
    pub instruction_len: u8,
    /// How many instructions were skipped.
    pub skips: usize,
    /// Blocking by STI or MOV SS.
    pub shadow: bool,
    /// Blocking by NMI.
    pub nmi_blocked: bool,
    pub pending: Option<Event>,
    pub interrupt_window: bool,
    pub nmi_window: bool,
    pub tpr_threshold: u8,
    /// What the host's TSC reads.
    pub host_tsc: u64,
    pub tsc_offset: u64,
    /// Every call of [`Vcpu::flush_tlb`].
    pub flushes: Vec<Option<Gva>>,
    /// Number of calls of [`Vcpu::flush_nested`].
    pub nested_flushes: usize,
}

impl FakeVcpu {
    /// Real mode with zero segment bases and 64 KiB limits.
    pub fn real() -> FakeVcpu {
        let data = segment(
            0,
            Attributes::PRESENT | Attributes::NON_SYSTEM | Attributes::READ_WRITE | Attributes::ACCESSED,
            0xffff,
        );
        FakeVcpu {
            gprs: [0; 16],
            rip: 0,
            rflags: Rflags::ONE,
            cpl: 0,
            segments: [data; 8],
            gdtr: DescriptorTable::default(),
            idtr: DescriptorTable { base: 0, limit: 0x3ff },
            cr0: Cr0::ET,
            cr2: 0,
            cr3: 0,
            cr4: Cr4::empty(),
            pdptes: None,
            cr8: 0,
            efer: Efer::empty(),
            dr6: 0xffff_0ff0,
            dr7: 0x400,
            xcr0: 1,
            state_msrs: [0; 13],
            instruction_len: 2,
            skips: 0,
            shadow: false,
            nmi_blocked: false,
            pending: None,
            interrupt_window: false,
            nmi_window: false,
            tpr_threshold: 0,
            host_tsc: 0,
            tsc_offset: 0,
            flushes: Vec::new(),
            nested_flushes: 0,
        }
    }

    /// Flat 32-bit protected mode at CPL 0 without paging.
    pub fn protected32() -> FakeVcpu {
        let mut vcpu = FakeVcpu::real();
        vcpu.cr0 |= Cr0::PE;
        let flat = Attributes::PRESENT
            | Attributes::NON_SYSTEM
            | Attributes::READ_WRITE
            | Attributes::ACCESSED
            | Attributes::GRANULARITY
            | Attributes::DEFAULT_BIG;
        vcpu.segments = [segment(0x10, flat, u32::MAX); 8];
        vcpu.segments[SegmentName::Cs as usize] = segment(0x8, flat | Attributes::CODE, u32::MAX);
        vcpu
    }

    /// Flat 16-bit protected mode at CPL 0 without paging.
    pub fn protected16() -> FakeVcpu {
        let mut vcpu = FakeVcpu::protected32();
        for segment in &mut vcpu.segments {
            segment.attributes -= Attributes::DEFAULT_BIG | Attributes::GRANULARITY;
            segment.limit = 0xffff;
        }
        vcpu
    }

    /// Virtual-8086 mode without paging.
    pub fn virtual8086() -> FakeVcpu {
        let mut vcpu = FakeVcpu::real();
        vcpu.cr0 |= Cr0::PE;
        vcpu.rflags |= Rflags::VM;
        vcpu.cpl = 3;
        vcpu
    }

    /// 64-bit mode at CPL 0 with the page tables at `cr3`.
    pub fn long(cr3: u64) -> FakeVcpu {
        let mut vcpu = FakeVcpu::protected32();
        vcpu.cr0 |= Cr0::PG | Cr0::WP | Cr0::NE;
        vcpu.cr3 = cr3;
        vcpu.cr4 |= Cr4::PAE;
        vcpu.efer = Efer::LME | Efer::LMA | Efer::NXE;
        let cs = &mut vcpu.segments[SegmentName::Cs as usize].attributes;
        *cs = (*cs - Attributes::DEFAULT_BIG) | Attributes::LONG;
        vcpu
    }

    /// A segment register, to be changed.
    pub fn segment_mut(&mut self, name: SegmentName) -> &mut Segment {
        &mut self.segments[name as usize]
    }

    /// The instruction pointer after `len` more bytes, as the mode wraps it.
    fn next_rip(&self, len: u8) -> u64 {
        let next = self.rip.wrapping_add(u64::from(len));
        match Mode::of(self).bitness() {
            64 => next,
            32 => next & 0xffff_ffff,
            _ => next & 0xffff,
        }
    }
}

fn segment(selector: u16, attributes: Attributes, limit: u32) -> Segment {
    Segment { selector, attributes, limit, base: 0 }
}

impl Vcpu for FakeVcpu {
    fn gpr(&self, register: Gpr) -> u64 {
        self.gprs[register as usize]
    }
    fn set_gpr(&mut self, register: Gpr, value: u64) {
        self.gprs[register as usize] = value;
    }
    fn rip(&self) -> u64 {
        self.rip
    }
    fn set_rip(&mut self, value: u64) {
        self.rip = value;
    }
    fn rflags(&self) -> Rflags {
        self.rflags
    }
    fn set_rflags(&mut self, value: Rflags) {
        self.rflags = value;
    }
    fn cpl(&self) -> u8 {
        self.cpl
    }
    fn segment(&self, name: SegmentName) -> Segment {
        self.segments[name as usize]
    }
    fn set_segment(&mut self, name: SegmentName, value: Segment) {
        self.segments[name as usize] = value;
        if name == SegmentName::Ss {
            self.cpl = value.dpl();
        }
    }
    fn gdtr(&self) -> DescriptorTable {
        self.gdtr
    }
    fn set_gdtr(&mut self, value: DescriptorTable) {
        self.gdtr = value;
    }
    fn idtr(&self) -> DescriptorTable {
        self.idtr
    }
    fn set_idtr(&mut self, value: DescriptorTable) {
        self.idtr = value;
    }
    fn cr0(&self) -> Cr0 {
        self.cr0
    }
    fn set_cr0(&mut self, value: Cr0) {
        let paging = value.contains(Cr0::PG);
        self.efer.set(Efer::LMA, paging && self.efer.contains(Efer::LME));
        self.cr0 = value;
    }
    fn cr2(&self) -> u64 {
        self.cr2
    }
    fn set_cr2(&mut self, value: u64) {
        self.cr2 = value;
    }
    fn cr3(&self) -> u64 {
        self.cr3
    }
    fn set_cr3(&mut self, value: u64) {
        self.cr3 = value;
    }
    fn cr4(&self) -> Cr4 {
        self.cr4
    }
    fn set_cr4(&mut self, value: Cr4) {
        self.cr4 = value;
    }
    fn set_pdptes(&mut self, value: [u64; 4]) {
        self.pdptes = Some(value);
    }
    fn cr8(&self) -> u8 {
        self.cr8
    }
    fn set_cr8(&mut self, value: u8) {
        self.cr8 = value;
    }
    fn efer(&self) -> Efer {
        self.efer
    }
    fn set_efer(&mut self, value: Efer) {
        self.efer = value;
    }
    fn dr7(&self) -> u64 {
        self.dr7
    }
    fn set_dr7(&mut self, value: u64) {
        self.dr7 = value;
    }
    fn dr6(&self) -> u64 {
        self.dr6
    }
    fn set_dr6(&mut self, value: u64) {
        self.dr6 = value;
    }
    fn xcr0(&self) -> u64 {
        self.xcr0
    }
    fn set_xcr0(&mut self, value: u64) {
        self.xcr0 = value;
    }
    fn state_msr(&self, msr: StateMsr) -> u64 {
        match msr {
            StateMsr::FsBase => self.segments[SegmentName::Fs as usize].base,
            StateMsr::GsBase => self.segments[SegmentName::Gs as usize].base,
            other => self.state_msrs[other as usize],
        }
    }
    fn set_state_msr(&mut self, msr: StateMsr, value: u64) {
        match msr {
            StateMsr::FsBase => self.segments[SegmentName::Fs as usize].base = value,
            StateMsr::GsBase => self.segments[SegmentName::Gs as usize].base = value,
            other => self.state_msrs[other as usize] = value,
        }
    }
    fn skip(&mut self) {
        self.skip_len(self.instruction_len);
    }
    fn skip_len(&mut self, len: u8) {
        self.rip = self.next_rip(len);
        self.shadow = false;
        self.skips += 1;
        if self.rflags.contains(Rflags::TF) {
            self.inject(Event::exception(Exception::Debug));
        }
    }
    fn inject(&mut self, event: Event) {
        assert_eq!(self.pending, None, "there is one place for an event");
        self.pending = Some(event);
    }
    fn pending_event(&self) -> Option<Event> {
        self.pending
    }
    fn take_pending_event(&mut self) -> Option<Event> {
        self.pending.take()
    }
    fn block_nmis(&mut self, blocked: bool) {
        self.nmi_blocked = blocked;
    }
    fn can_take_interrupt(&self) -> bool {
        self.rflags.contains(Rflags::IF) && !self.shadow && self.pending.is_none()
    }
    fn in_interrupt_shadow(&self) -> bool {
        self.shadow
    }
    fn can_take_nmi(&self) -> bool {
        !self.nmi_blocked && !self.shadow && self.pending.is_none()
    }
    fn set_window(&mut self, window: Window, open: bool) {
        match window {
            Window::Interrupt => self.interrupt_window = open,
            Window::Nmi => self.nmi_window = open,
        }
    }
    fn set_tpr_threshold(&mut self, class: u8) {
        self.tpr_threshold = class;
    }
    fn tsc(&self) -> u64 {
        self.host_tsc.wrapping_sub(self.tsc_offset)
    }
    fn tsc_offset(&self) -> u64 {
        self.tsc_offset
    }
    fn set_tsc(&mut self, value: u64) {
        self.tsc_offset = self.host_tsc.wrapping_sub(value);
    }
    fn flush_tlb(&mut self, page: Option<Gva>) {
        self.flushes.push(page);
    }
    fn flush_nested(&mut self) {
        self.nested_flushes += 1;
    }
}

/// Guest memory from address 0 on, of which a part may be ROM.
pub struct VecMemory {
    words: Vec<AtomicU64>,
    rom: Range<u64>,
}

impl VecMemory {
    /// Zeroed RAM; `bytes` is a multiple of 8.
    pub fn new(bytes: usize) -> VecMemory {
        VecMemory { words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(), rom: 0..0 }
    }

    /// Makes this range ROM, with its present contents.
    pub fn protect(&mut self, range: Range<u64>) {
        self.rom = range;
    }

    /// Everything, as words from address 0 on.
    pub fn words(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// A value for a test to look at; the address need not be aligned.
    pub fn peek(&self, at: u64, width: Width) -> u64 {
        let mut bytes = [0; 8];
        self.read(Gpa(at), &mut bytes[..width.bytes()]).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Sets a value; the address need not be aligned.
    pub fn poke(&self, at: u64, width: Width, value: u64) {
        self.write(Gpa(at), &value.to_le_bytes()[..width.bytes()]).unwrap();
    }

    fn word(&self, at: Gpa) -> Result<&AtomicU64, NotRam> {
        self.words.get((at.0 / 8) as usize).ok_or(NotRam(at))
    }

    fn check(&self, at: Gpa, len: usize) -> Result<(), NotRam> {
        let end = self.words.len() as u64 * 8;
        match at.0.checked_add(len as u64) {
            Some(last) if last <= end => Ok(()),
            _ => Err(NotRam(Gpa(at.0.max(end)))),
        }
    }

    /// The word that holds an aligned value, and the value's position in it.
    fn aligned(&self, at: Gpa, width: Width) -> Result<(&AtomicU64, u32), NotRam> {
        if !at.0.is_multiple_of(width.bytes() as u64) {
            return Err(NotRam(at));
        }
        Ok((self.word(at)?, (at.0 % 8) as u32 * 8))
    }
}

impl GuestMemory for VecMemory {
    fn read(&self, at: Gpa, into: &mut [u8]) -> Result<(), NotRam> {
        self.check(at, into.len())?;
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = self.load(at.offset(i as u64), Width::Byte)? as u8;
        }
        Ok(())
    }

    fn write(&self, at: Gpa, from: &[u8]) -> Result<(), NotRam> {
        self.check(at, from.len())?;
        for (i, byte) in from.iter().enumerate() {
            self.store(at.offset(i as u64), Width::Byte, u64::from(*byte))?;
        }
        Ok(())
    }

    fn load(&self, at: Gpa, width: Width) -> Result<u64, NotRam> {
        let (word, shift) = self.aligned(at, width)?;
        Ok((word.load(Ordering::Acquire) >> shift) & width.mask())
    }

    fn store(&self, at: Gpa, width: Width, value: u64) -> Result<(), NotRam> {
        let (word, shift) = self.aligned(at, width)?;
        if self.rom.contains(&at.0) {
            return Ok(());
        }
        let insert = |old| Some((old & !(width.mask() << shift)) | ((value & width.mask()) << shift));
        word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, insert).expect("insert never declines");
        Ok(())
    }

    fn compare_exchange(
        &self,
        at: Gpa,
        width: Width,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, NotRam> {
        let (word, shift) = self.aligned(at, width)?;
        let old = word.load(Ordering::SeqCst);
        let seen = (old >> shift) & width.mask();
        if seen != current {
            return Ok(Err(seen));
        }
        if self.rom.contains(&at.0) {
            return Ok(Ok(seen));
        }
        let stored = (old & !(width.mask() << shift)) | ((new & width.mask()) << shift);
        let swap = word.compare_exchange(old, stored, Ordering::SeqCst, Ordering::SeqCst);
        Ok(swap.map(|_| seen).map_err(|now| (now >> shift) & width.mask()))
    }
}
