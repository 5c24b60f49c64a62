//! The APIC through its guest's eyes.

mod inputs;

use super::*;
use crate::memory::Width;
use crate::msr::FaultReason;
use x86defs::apic::{DFR_FLAT, X2APIC_FIRST, reg, x2apic_msr};

const BASE: u64 = apic::DEFAULT_BASE;
const BSP: u64 = 1 << 8;
const EXTD: u64 = 1 << 10;
const EN: u64 = 1 << 11;

fn after_reset() -> Lapic {
    Lapic::new(3, true, 40, TimerClock::for_tsc(1_000_000))
}

/// Software-enabled, with all local interrupts masked.
fn xapic() -> Lapic {
    let mut lapic = after_reset();
    lapic.set(reg::SVR, 0x1ff);
    lapic
}

fn x2apic() -> Lapic {
    let mut lapic = xapic();
    lapic.set_base(BASE | BSP | EN | EXTD).expect("x2APIC mode");
    lapic
}

impl Lapic {
    fn get(&mut self, register: u16) -> u32 {
        self.read(register, Width::Dword, 0)
    }
    fn set(&mut self, register: u16, value: u32) -> LapicEffect {
        self.write(register, Width::Dword, value, 0)
    }
    /// Delivers the next interrupt, as an entry would.
    fn take(&mut self) -> Option<u8> {
        let vector = self.next_interrupt()?;
        self.acknowledge(vector);
        Some(vector)
    }
}

#[test]
fn every_register_has_its_value_of_reset() {
    let mut lapic = after_reset();
    let mut expected =
        [(reg::ID, 3 << 24), (reg::VERSION, 0x0005_0014), (reg::DFR, DFR_FLAT), (reg::SVR, 0xff)].to_vec();
    expected.extend([0x320, 0x330, 0x340, 0x350, 0x360, 0x370].map(|lvt| (lvt, 1 << 16)));
    for offset in (0..0x400).step_by(16) {
        let value = expected.iter().find(|(o, _)| *o == offset).map_or(0, |(_, v)| *v);
        assert_eq!(lapic.get(offset), value, "offset {offset:#x}");
    }
}

#[test]
fn writable_bits_are_the_manuals() {
    let writable = [
        (reg::TPR, 0xff),
        (reg::LDR, 0xff00_0000),
        (reg::SVR, 0x3ff),
        (reg::ICR_LOW, 0x000c_cfff),
        (reg::ICR_HIGH, 0xff00_0000),
        (reg::LVT_TIMER, 0x0007_00ff),
        (reg::LVT_THERMAL, 0x0001_07ff),
        (reg::LVT_PERFORMANCE, 0x0001_07ff),
        (reg::LVT_LINT0, 0x0001_a7ff),
        (reg::LVT_LINT1, 0x0001_a7ff),
        (reg::LVT_ERROR, 0x0001_00ff),
        (reg::INITIAL_COUNT, u32::MAX),
        (reg::DIVIDE, 0xb),
    ];
    for (register, bits) in writable {
        let mut lapic = xapic();
        lapic.set(register, u32::MAX);
        assert_eq!(lapic.get(register), bits, "offset {register:#x}");
        if register != reg::SVR {
            lapic.set(register, 0);
            assert_eq!(lapic.get(register), 0, "offset {register:#x}");
        }
    }
    let mut lapic = xapic();
    lapic.set(reg::DFR, 0);
    assert_eq!(lapic.get(reg::DFR), 0x0fff_ffff);
    for register in [reg::ID, reg::VERSION, reg::PPR, reg::ISR, reg::TMR, reg::IRR, reg::CURRENT_COUNT] {
        let before = lapic.get(register);
        lapic.set(register, !before);
        assert_eq!(lapic.get(register), before, "read-only {register:#x}");
    }
}

#[test]
fn only_aligned_32_bit_writes_count_and_narrow_reads_give_their_bytes() {
    let mut lapic = xapic();
    lapic.write(reg::TPR, Width::Byte, 0x55, 0);
    lapic.write(reg::TPR + 4, Width::Dword, 0x55, 0);
    assert_eq!(lapic.get(reg::TPR), 0);
    assert_eq!(lapic.read(reg::VERSION + 2, Width::Byte, 0), 5);
    assert_eq!(lapic.read(reg::VERSION, Width::Word, 0), 0x14);
    assert_eq!(lapic.read(reg::VERSION + 4, Width::Dword, 0), 0);
    assert_eq!(lapic.read(reg::VERSION, Width::Qword, 0), 0);
}

#[test]
fn bitmaps_show_a_vector_in_their_own_register() {
    for vector in [0x10u8, 0x1f, 0x20, 0x5a, 0x80, 0xff] {
        let mailbox = Mailbox::new();
        let mut lapic = xapic();
        assert!(mailbox.post(vector, true));
        lapic.drain(&mailbox);
        let offset = u16::from(vector / 32) * 16;
        let bit = 1 << (vector % 32);
        assert_eq!((lapic.get(reg::IRR + offset), lapic.get(reg::TMR + offset)), (bit, bit));
        assert_eq!(lapic.take(), Some(vector));
        assert_eq!((lapic.get(reg::IRR + offset), lapic.get(reg::ISR + offset)), (0, bit));
        assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Eoi(vector));
        assert_eq!(lapic.get(reg::ISR + offset), 0);
    }
}

#[test]
fn esr_shows_what_happened_before_the_last_write() {
    let mut lapic = xapic();
    lapic.set(reg::ICR_LOW, 0x4_0005);
    assert_eq!(lapic.get(reg::ESR), 0);
    lapic.set(reg::ESR, 0);
    assert_eq!(lapic.get(reg::ESR), Esr::SEND_ILLEGAL_VECTOR.bits());
    lapic.get(0x2f0);
    assert_eq!(lapic.get(reg::ESR), Esr::SEND_ILLEGAL_VECTOR.bits());
    lapic.set(reg::ESR, 0xff);
    assert_eq!(lapic.get(reg::ESR), Esr::ILLEGAL_REGISTER.bits());
    lapic.set(reg::ESR, 0);
    assert_eq!(lapic.get(reg::ESR), 0);
}

#[test]
fn an_error_raises_the_error_interrupt() {
    let mut lapic = xapic();
    lapic.set(reg::LVT_ERROR, 0xfe);
    lapic.set(0x3f0, 0x41);
    assert_eq!(lapic.take(), Some(0xfe));
    let mailbox = Mailbox::new();
    assert!(mailbox.post(7, false));
    lapic.drain(&mailbox);
    lapic.set(reg::EOI, 0);
    assert_eq!(lapic.take(), Some(0xfe));
    lapic.set(reg::ESR, 0);
    let both = Esr::ILLEGAL_REGISTER | Esr::RECEIVE_ILLEGAL_VECTOR;
    assert_eq!(lapic.get(reg::ESR), both.bits());
}

#[test]
fn priority_decides_what_is_delivered() {
    let mut lapic = xapic();
    for vector in [0x41, 0x48, 0x52, 0x31] {
        lapic.set(reg::ICR_LOW, 0x4_0000 | vector);
    }
    lapic.set(reg::TPR, 0x52);
    assert_eq!((lapic.next_interrupt(), lapic.masked_class()), (None, 5));
    lapic.set_cr8(4);
    assert_eq!((lapic.take(), lapic.get(reg::PPR)), (Some(0x52), 0x50));
    assert_eq!((lapic.next_interrupt(), lapic.masked_class()), (None, 0));
    lapic.set(reg::EOI, 0);
    assert_eq!((lapic.next_interrupt(), lapic.masked_class()), (None, 4));
    lapic.set_cr8(3);
    assert_eq!(lapic.take(), Some(0x48));
    assert_eq!(lapic.next_interrupt(), None, "the same class waits");
    assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Nothing);
    assert_eq!(lapic.take(), Some(0x41));
    lapic.set(reg::EOI, 0);
    lapic.set(reg::TPR, 0x2f);
    assert_eq!((lapic.get(reg::PPR), lapic.cr8(), lapic.take()), (0x2f, 2, Some(0x31)));
}

#[test]
fn processor_priority_is_tpr_where_the_classes_are_equal() {
    let mut lapic = xapic();
    lapic.set(reg::ICR_LOW, 0x4_0031);
    lapic.take();
    lapic.set(reg::TPR, 0x35);
    assert_eq!(lapic.get(reg::PPR), 0x35);
    lapic.set(reg::TPR, 0x2f);
    assert_eq!(lapic.get(reg::PPR), 0x30);
}

#[test]
fn edges_and_levels_are_told_apart_at_their_end() {
    let mailbox = Mailbox::new();
    let mut lapic = xapic();
    assert!(mailbox.post(0x51, false) && !mailbox.post(0x52, true));
    lapic.drain(&mailbox);
    assert_eq!(lapic.take(), Some(0x52));
    assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Eoi(0x52));
    assert_eq!(lapic.take(), Some(0x51));
    assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Nothing);
    assert!(mailbox.post(0x52, false));
    lapic.drain(&mailbox);
    assert_eq!(lapic.take(), Some(0x52));
    assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Nothing, "the same vector, an edge now");
}

#[test]
fn nested_interrupts_end_in_order() {
    let mut lapic = xapic();
    for vector in [0x31, 0x61, 0x91] {
        lapic.set(reg::ICR_LOW, 0x4_0000 | vector);
        assert_eq!(lapic.take(), Some(vector as u8));
    }
    for ppr in [0x60, 0x30, 0] {
        lapic.set(reg::EOI, 0);
        assert_eq!(lapic.get(reg::PPR), ppr);
    }
    assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Nothing, "nothing in service");
}

#[test]
fn apic_base_takes_the_legal_transitions_only() {
    let states = [(0, ApicMode::Disabled), (EN, ApicMode::XApic), (EN | EXTD, ApicMode::X2Apic)];
    let legal = |from, to| {
        !matches!((from, to), (ApicMode::Disabled, ApicMode::X2Apic) | (ApicMode::X2Apic, ApicMode::XApic))
    };
    for (_, from) in states {
        let start = match from {
            ApicMode::X2Apic => x2apic(),
            ApicMode::XApic => xapic(),
            ApicMode::Disabled => {
                let mut lapic = xapic();
                lapic.set_base(BASE).expect("disabled");
                lapic
            }
        };
        assert_eq!(start.mode(), from);
        for (bits, to) in states {
            let mut lapic = start.clone();
            let result = lapic.set_base(BASE | BSP | bits);
            assert_eq!(result.is_ok(), legal(from, to), "{from:?} to {to:?}");
            assert_eq!(lapic.mode(), if result.is_ok() { to } else { from });
        }
        let mut lapic = start.clone();
        assert!(lapic.set_base(BASE | EXTD).is_err(), "EXTD without EN");
        for bit in (0..8).chain([9]).chain(40..64) {
            let fault = lapic.set_base(start.base() | 1 << bit).expect_err("reserved bit");
            assert_eq!(fault.reason, FaultReason::ReservedBits, "bit {bit}");
        }
    }
}

#[test]
fn the_page_moves_and_exists_in_xapic_mode_only() {
    let mut lapic = xapic();
    assert_eq!(lapic.base(), BASE | BSP | EN);
    lapic.set_base(0x12_3400_0000 | EN).expect("another page");
    assert_eq!(lapic.mmio_base(), Some(x86defs::addr::Gpa(0x12_3400_0000)));
    assert_eq!(x2apic().mmio_base(), None);
}

#[test]
fn disabling_loses_the_state_and_entering_x2apic_mode_keeps_it() {
    let mut lapic = xapic();
    lapic.set(reg::TPR, 0x30);
    lapic.set(reg::LVT_TIMER, 0x40);
    lapic.set(reg::ICR_HIGH, 0x0500_0000);
    let mut kept = lapic.clone();
    kept.set_base(BASE | BSP | EN | EXTD).expect("x2APIC mode");
    assert_eq!(kept.read_msr(x2apic_msr(reg::TPR), 0), Ok(0x30));
    assert_eq!(kept.read_msr(x2apic_msr(reg::LVT_TIMER), 0), Ok(0x40));
    assert_eq!(kept.read_msr(x2apic_msr(reg::ICR_LOW), 0), Ok(0));
    lapic.set_base(BASE).expect("disabled");
    lapic.set_base(BASE | EN).expect("enabled again");
    assert_eq!((lapic.get(reg::TPR), lapic.get(reg::LVT_TIMER), lapic.get(reg::SVR)), (0, 1 << 16, 0xff));
}

#[test]
fn x2apic_msrs_follow_their_rules() {
    #[derive(PartialEq)]
    enum Kind {
        None,
        ReadOnly,
        WriteOnly,
        Both(u64),
    }
    let kind = |register: u16| match register {
        0x20 | 0x30 | 0xa0 | 0xd0 | 0x390 => Kind::ReadOnly,
        0x100..=0x270 => Kind::ReadOnly,
        0xb0 => Kind::WriteOnly,
        0x3f0 => Kind::WriteOnly,
        0x80 => Kind::Both(0xff),
        0xf0 => Kind::Both(0x3ff),
        0x280 => Kind::Both(0),
        0x300 => Kind::Both(0xffff_ffff_000c_cfff),
        0x320 => Kind::Both(0x7_50ff),
        0x330 | 0x340 => Kind::Both(0x1_57ff),
        0x350 | 0x360 => Kind::Both(0x1_f7ff),
        0x370 => Kind::Both(0x1_50ff),
        0x380 => Kind::Both(0xffff_ffff),
        0x3e0 => Kind::Both(0xb),
        _ => Kind::None,
    };
    for number in X2APIC_FIRST..=0x83f {
        let kind = kind(((number - X2APIC_FIRST) * 16) as u16);
        let reads = matches!(kind, Kind::ReadOnly | Kind::Both(_));
        assert_eq!(x2apic().read_msr(number, 0).is_ok(), reads, "RDMSR {number:#x}");
        let zero = matches!(kind, Kind::Both(_) | Kind::WriteOnly);
        assert_eq!(x2apic().write_msr(number, 0, 0).is_ok(), zero, "WRMSR {number:#x}, 0");
        let Kind::Both(bits) = kind else { continue };
        for bit in 0..64 {
            let allowed = bits & 1 << bit != 0;
            let result = x2apic().write_msr(number, 1 << bit, 0);
            assert_eq!(result.is_ok(), allowed, "WRMSR {number:#x}, bit {bit}");
        }
        assert!(xapic().read_msr(number, 0).is_err() && xapic().write_msr(number, 0, 0).is_err());
    }
    assert!(x2apic().write_msr(x2apic_msr(reg::EOI), 1, 0).is_err());
    assert!(x2apic().write_msr(x2apic_msr(reg::SELF_IPI), 0x100, 0).is_err());
}

#[test]
fn x2apic_ids_are_32_bits_wide() {
    let mut lapic = Lapic::new(0x123, false, 40, TimerClock::for_tsc(1_000_000));
    lapic.set_base(BASE | EN | EXTD).expect("x2APIC mode");
    assert_eq!(lapic.read_msr(x2apic_msr(reg::ID), 0), Ok(0x123));
    assert_eq!(lapic.read_msr(x2apic_msr(reg::LDR), 0), Ok(0x0012_0008));
}

#[test]
fn ipis_go_to_the_router_and_those_to_itself_do_not() {
    let mut lapic = xapic();
    lapic.set(reg::ICR_HIGH, 7 << 24);
    let ipi = Ipi { target: Target::Physical(7), mode: DeliveryMode::Fixed, vector: 0x41 };
    assert_eq!(lapic.set(reg::ICR_LOW, 0x41), LapicEffect::Ipi(ipi));
    assert_eq!(lapic.set(reg::ICR_LOW, 0x4_0041), LapicEffect::Nothing);
    assert_eq!(lapic.take(), Some(0x41));
    let mut lapic = x2apic();
    let sent = lapic.write_msr(x2apic_msr(reg::ICR_LOW), 7 << 32 | 0x41, 0);
    assert_eq!(sent, Ok(LapicEffect::Ipi(ipi)));
    assert_eq!(lapic.read_msr(x2apic_msr(reg::ICR_LOW), 0), Ok(7 << 32 | 0x41));
    assert_eq!(lapic.write_msr(x2apic_msr(reg::SELF_IPI), 0x77, 0), Ok(LapicEffect::Nothing));
    assert_eq!(lapic.take(), Some(0x77));
}

#[test]
fn software_disabled_masks_and_takes_nothing_new() {
    let mut lapic = xapic();
    lapic.set(reg::LVT_TIMER, 0x40);
    lapic.set(reg::ICR_LOW, 0x4_0051);
    lapic.set(reg::SVR, 0xff);
    assert_eq!(lapic.get(reg::LVT_TIMER), 0x1_0040);
    lapic.set(reg::LVT_TIMER, 0x40);
    assert_eq!(lapic.get(reg::LVT_TIMER), 0x1_0040, "the mask stays");
    let mailbox = Mailbox::new();
    assert!(mailbox.post(0x61, false));
    lapic.drain(&mailbox);
    assert_eq!(lapic.take(), Some(0x51), "what was requested before is held");
    assert_eq!(lapic.next_interrupt(), None);
    assert!(!lapic.address().enabled);
}

#[test]
fn timer_modes_interrupt_as_they_say() {
    let mut lapic = xapic();
    lapic.set(reg::LVT_TIMER, 0x40);
    lapic.set(reg::DIVIDE, 0xb);
    assert_eq!(lapic.set(reg::INITIAL_COUNT, 100_000), LapicEffect::Deadline);
    assert_eq!(lapic.deadline(), Some(100_000));
    lapic.tick(99_999);
    assert_eq!(lapic.next_interrupt(), None);
    lapic.tick(100_000);
    assert_eq!((lapic.take(), lapic.deadline()), (Some(0x40), None));
    lapic.set(reg::EOI, 0);

    lapic.set(reg::LVT_TIMER, 0x2_0041);
    lapic.set(reg::INITIAL_COUNT, 100_000);
    for period in 1..4 {
        lapic.tick(period * 100_000);
        assert_eq!(lapic.take(), Some(0x41));
        lapic.set(reg::EOI, 0);
    }

    lapic.write(reg::LVT_TIMER, Width::Dword, 0x4_0042, 350_000);
    assert_eq!(lapic.deadline(), None);
    assert_eq!(lapic.set_tsc_deadline(400_000), LapicEffect::Deadline);
    assert_eq!((lapic.deadline(), lapic.tsc_deadline(399_999)), (Some(400_000), 400_000));
    lapic.tick(400_000);
    assert_eq!((lapic.take(), lapic.tsc_deadline(400_000)), (Some(0x42), 0));
}

#[test]
fn a_masked_timer_counts_without_a_deadline() {
    let mut lapic = xapic();
    lapic.set(reg::DIVIDE, 0xb);
    lapic.set(reg::LVT_TIMER, 0x3_0041);
    lapic.set(reg::INITIAL_COUNT, 1000);
    assert_eq!((lapic.deadline(), lapic.read(reg::CURRENT_COUNT, Width::Dword, 2300)), (None, 700));
    lapic.write(reg::LVT_TIMER, Width::Dword, 0x2_0041, 50_300);
    assert_eq!(lapic.next_interrupt(), None, "what passed while masked is lost");
    assert!(lapic.deadline().is_some_and(|at| at > 50_300 && at % 1000 == 0));
}

#[test]
fn init_keeps_id_base_and_mode() {
    let mailbox = Mailbox::new();
    let mut lapic = x2apic();
    assert!(mailbox.post_init() && !mailbox.post_startup(0x9a));
    let signals = lapic.drain(&mailbox);
    assert_eq!(signals, Signals { init: true, startup: Some(0x9a) });
    let base = lapic.base();
    lapic.init();
    assert_eq!((lapic.mode(), lapic.base(), lapic.id()), (ApicMode::X2Apic, base, 3));
    assert_eq!(lapic.read_msr(x2apic_msr(reg::SVR), 0), Ok(0xff));
    assert!(lapic.set_base(base | 1 << 39).is_ok(), "the width of addresses stays, too");
}

#[test]
fn any_sequence_of_accesses_is_survived() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mailbox = Mailbox::new();
    let mut lapic = xapic();
    let mut now = 0u64;
    for _ in 0..200_000 {
        let (r, value) = (random(), random() >> (random() % 64));
        now = now.wrapping_add(random() >> (random() % 64));
        match r % 12 {
            0..=2 => {
                lapic.write((r >> 8) as u16 & 0xff0, Width::Dword, value as u32, now);
            }
            3 => {
                lapic.read((r >> 8) as u16 & 0xfff, Width::Word, now);
            }
            4 | 5 => drop(lapic.write_msr(0x800 + (r >> 8) as u32 % 0x40, value, now)),
            6 => drop(lapic.set_base(BASE | (value & (EN | EXTD)))),
            7 => drop((mailbox.post(r as u8, value & 1 != 0), mailbox.set_line(Line::Lint0, r & 64 != 0))),
            8 => {
                lapic.set_tsc_deadline(value);
            }
            9 => {
                lapic.tsc_moved(value);
            }
            10 => lapic.tick(now),
            _ => drop(lapic.drain(&mailbox)),
        }
        if let Some(vector) = lapic.next_interrupt() {
            assert!(vector >= 16);
            lapic.acknowledge(vector);
        }
        assert_eq!(lapic.in_service, lapic.isr.highest().unwrap_or(0));
    }
}
