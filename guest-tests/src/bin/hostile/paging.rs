//! Page tables that point everywhere.

#![allow(unsafe_code, reason = "jumps to where no code is")]

use crate::random::Random;
use core::arch::asm;
use runtime::fault::catch;
use runtime::memory::{self, ADDRESS, FREE, PRESENT, Space, TABLE_FLAGS, write64};
use runtime::{cpu, guest_test};

const ENTRIES: u64 = 512;
const ENTRY: u64 = 8;
/// Bits of a physical address at most (SDM 3, 4.1.4).
const MOST_PHYSICAL_BITS: u32 = 52;
/// Devices, the ends of what is below 4 GiB, what is far beyond RAM, and what no address can reach.
const FAR: [u64; 8] = [0, 0xa_0000, 0xf_f000, 0xc000_0000, 0xfec0_0000, 0xfee0_0000, 1 << 38, ADDRESS];

/// An entry that points to one of `tables`, to a far place, or is just bits.
fn entry(random: &mut Random, tables: &[u64]) -> u64 {
    let flags = random.odd() & 0xffe | PRESENT;
    match random.below(4) {
        0 => random.odd(),
        1 => FAR[random.below(FAR.len() as u64) as usize] | flags,
        _ => tables[random.below(tables.len() as u64) as usize] | TABLE_FLAGS,
    }
}

/// A space that begins as the boot one, with random entries above, over eight tables that point to each other.
fn everywhere(random: &mut Random) -> Space {
    let space = Space::new();
    let tables = [(); 8].map(|()| memory::frame());
    for table in tables {
        for index in 0..ENTRIES {
            write64(table + index * ENTRY, entry(random, &tables));
        }
    }
    // The first entry of the top level is the guest itself.
    for index in 1..ENTRIES {
        write64(space.cr3() + index * ENTRY, entry(random, &tables));
    }
    space
}

/// A canonical address above the guest's own.
fn address(random: &mut Random) -> u64 {
    const CANONICAL: u32 = 16;
    let any = FREE + random.next() % ((1 << 48) - FREE);
    ((any << CANONICAL) as i64 >> CANONICAL) as u64
}

guest_test!(tables_that_point_everywhere);
fn tables_that_point_everywhere() {
    let mut random = Random::new(11);
    for _ in 0..16 {
        memory::reset();
        everywhere(&mut random).activate();
        for _ in 0..1000 {
            let at = address(&mut random);
            let _ = catch(|| memory::read64(at));
            // SAFETY: whatever is there, a return or an exception ends it.
            let _ = catch(|| unsafe { asm!("lock add dword ptr [{}], 0", in(reg) at) });
        }
    }
}

guest_test!(until_nothing_is_left);
/// As above with writes and jumps, which may hit the guest itself.
fn until_nothing_is_left() {
    let mut random = Random::new(12);
    for _ in 0..16 {
        memory::reset();
        everywhere(&mut random).activate();
        for _ in 0..1000 {
            let (at, value) = (address(&mut random), random.next());
            let _ = catch(|| memory::write64(at, value));
            // SAFETY: as above; the guest has nothing to lose.
            let _ = catch(|| unsafe { asm!("call {}", in(reg) at, clobber_abi("C")) });
        }
    }
}

guest_test!(reserved_bits_of_cr3);
/// Flags, and what no physical address has. The bits between would be other tables.
fn reserved_bits_of_cr3() {
    for bit in (0..12).chain(MOST_PHYSICAL_BITS..64) {
        let _ = cpu::set_cr3(memory::boot_cr3() | 1 << bit);
        memory::reset();
    }
}

/// The tables themselves lie in a device, or nowhere.
macro_rules! tables_at {
    ($name:ident, $address:expr) => {
        guest_test!($name);
        fn $name() {
            let _ = cpu::set_cr3($address);
        }
    };
}

tables_at!(tables_in_the_local_apic, 0xfee0_0000);
tables_at!(tables_in_the_vga_window, 0xa_0000);
tables_at!(tables_in_rom, 0xf_f000);
tables_at!(tables_beyond_ram, 1 << 38);

guest_test!(lower_tables_in_devices);
/// Below the top level, so that code goes on while data is walked for in a device.
fn lower_tables_in_devices() {
    for far in FAR {
        for level in 1..=4 {
            memory::reset();
            let space = Space::new();
            write64(space.entry(FREE, level), far | TABLE_FLAGS);
            space.activate();
            let _ = catch(|| memory::read64(FREE));
            let _ = catch(|| memory::write64(FREE + 8, 0));
            // SAFETY: as above.
            let _ = catch(|| unsafe { asm!("call {}", in(reg) FREE, clobber_abi("C")) });
        }
    }
}
