use super::boot_params::BootParams;
use super::header::SETUP_HEADER;
use super::*;
use crate::memory_map::{LOW_RAM_LIMIT, MemoryMap};
use crate::plan::{GuestModule, PlanError, start_plan};
use crate::size::{GIB, KIB, MIB};
use crate::testing::extents;
use core::mem::offset_of;
use header::SetupHeader;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;
use x86defs::addr::Gpa;
use zerocopy::FromBytes;

const SETUP_SECTS: u8 = 1;
const PAYLOAD_START: usize = 1024;
const PAYLOAD_LEN: usize = 4096;
const KERNEL: Gpa = Gpa(16 * MIB);
const INIT_SIZE: u64 = 8 * MIB;

/// Offset in the file of a field of the setup header.
macro_rules! field {
    ($name:ident) => {
        SETUP_HEADER + offset_of!(SetupHeader, $name)
    };
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The smallest file with every field as in a current kernel.
fn bzimage() -> Vec<u8> {
    let mut file = vec![0; PAYLOAD_START + PAYLOAD_LEN];
    put(&mut file, field!(setup_sects), &[SETUP_SECTS]);
    put(&mut file, field!(syssize), &((PAYLOAD_LEN / 16) as u32).to_le_bytes());
    put(&mut file, field!(boot_flag), &[0x55, 0xaa]);
    put(&mut file, field!(jump), &[0xeb, 0x6a]);
    put(&mut file, field!(header), b"HdrS");
    put(&mut file, field!(version), &[0x0f, 0x02]);
    put(&mut file, field!(loadflags), &[1]);
    put(&mut file, field!(initrd_addr_max), &0x7fff_ffff_u32.to_le_bytes());
    put(&mut file, field!(kernel_alignment), &0x20_0000_u32.to_le_bytes());
    put(&mut file, field!(relocatable_kernel), &[1]);
    put(&mut file, field!(xloadflags), &[1, 0]);
    put(&mut file, field!(cmdline_size), &2047_u32.to_le_bytes());
    put(&mut file, field!(pref_address), &KERNEL.0.to_le_bytes());
    put(&mut file, field!(init_size), &(INIT_SIZE as u32).to_le_bytes());
    file
}

fn plan_of(
    kernel: &[u8],
    memory: u64,
    initrd_len: Option<u64>,
    cmdline: &str,
) -> Result<StartPlan, PlanError> {
    let map = MemoryMap::new(memory).unwrap();
    let initrd = initrd_len.map(|len| GuestModule { len, cmdline: "initrd.img" });
    start_plan(&Guest { map: &map, cpus: 1, kernel, initrd, modules: &[], cmdline })
}

fn error(kernel: &[u8]) -> String {
    plan_of(kernel, 64 * MIB, None, "").unwrap_err().to_string()
}

/// What a plan's copies put at an address.
fn bytes_at(plan: &StartPlan, at: Gpa) -> &[u8] {
    let copy = plan.copies.iter().find(|copy| copy.to == at).expect("a copy to this address");
    match &copy.source {
        Source::Bytes(bytes) => bytes,
        other => panic!("{other:?} at {at}"),
    }
}

fn boot_params(plan: &StartPlan) -> BootParams {
    BootParams::read_from_bytes(bytes_at(plan, Gpa(plan.entry.registers.get(Gpr::Rsi)))).unwrap()
}

fn initrd_at(plan: &StartPlan) -> Option<Gpa> {
    plan.copies.iter().find(|copy| copy.source == Source::Initrd).map(|copy| copy.to)
}

#[test]
fn kernel_goes_to_its_preferred_address() {
    let plan = plan_of(&bzimage(), 64 * MIB, None, "").unwrap();
    let payload = Source::Kernel(PAYLOAD_START..PAYLOAD_START + PAYLOAD_LEN);
    assert!(plan.copies.contains(&Copy { to: KERNEL, source: payload }));
    assert_eq!(plan.entry.rip, Gva(KERNEL.0 + 0x200));
}

#[test]
fn preferred_address_is_aligned_up_if_relocatable() {
    let mut file = bzimage();
    put(&mut file, field!(pref_address), &(16 * MIB + 4096).to_le_bytes());
    assert_eq!(plan_of(&file, 64 * MIB, None, "").unwrap().entry.rip, Gva(18 * MIB + 0x200));
    put(&mut file, field!(relocatable_kernel), &[0]);
    assert_eq!(plan_of(&file, 64 * MIB, None, "").unwrap().entry.rip, Gva(16 * MIB + 4096 + 0x200));
}

#[test]
fn zero_page_tells_everything() {
    let plan = plan_of(&bzimage(), 5 * GIB, Some(3 * MIB), "console=ttyS0").unwrap();
    let params = boot_params(&plan);
    assert_eq!(params.hdr.header, *b"HdrS");
    assert_eq!(params.hdr.type_of_loader, 0xff);
    assert_eq!(params.acpi_rsdp_addr.get(), acpi::RSDP.0);
    assert_eq!(u64::from(params.hdr.ramdisk_image.get()), initrd_at(&plan).unwrap().0);
    assert_eq!(u64::from(params.hdr.ramdisk_size.get()), 3 * MIB);
    assert_eq!(bytes_at(&plan, Gpa(params.hdr.cmd_line_ptr.get().into())), b"console=ttyS0\0");

    let map = MemoryMap::new(5 * GIB).unwrap().e820();
    assert_eq!(usize::from(params.e820_entries), map.len());
    for (entry, range) in params.e820_table.iter().zip(&map) {
        assert_eq!((entry.addr.get(), entry.size.get()), (range.gpa.0, range.len));
        assert_eq!(entry.kind.get(), range.kind as u32);
    }
}

#[test]
fn zero_page_keeps_fields_of_later_protocols() {
    let mut file = bzimage();
    let kernel_info_offset = 0x268;
    put(&mut file, kernel_info_offset, &[1, 2, 3, 4]);
    let plan = plan_of(&file, 64 * MIB, None, "").unwrap();
    assert_eq!(
        bytes_at(&plan, Gpa(plan.entry.registers.get(Gpr::Rsi)))[kernel_info_offset..][..4],
        [1, 2, 3, 4]
    );
}

#[test]
fn no_initrd_leaves_its_fields_zero() {
    for len in [None, Some(0)] {
        let plan = plan_of(&bzimage(), 64 * MIB, len, "").unwrap();
        assert_eq!(initrd_at(&plan), None);
        assert_eq!(boot_params(&plan).hdr.ramdisk_image.get(), 0);
    }
}

#[test]
fn initrd_goes_as_high_as_permitted() {
    let at = |file: &[u8], memory, len| initrd_at(&plan_of(file, memory, Some(len), "").unwrap()).unwrap();
    assert_eq!(at(&bzimage(), 64 * MIB, 5000), Gpa(64 * MIB - 8 * KIB), "below the end of RAM");
    assert_eq!(at(&bzimage(), 8 * GIB, 4096), Gpa(2 * GIB - 4096), "below initrd_addr_max");
    let mut file = bzimage();
    put(&mut file, field!(initrd_addr_max), &u32::MAX.to_le_bytes());
    assert_eq!(at(&file, 8 * GIB, 4096), Gpa(LOW_RAM_LIMIT.0 - 4096), "below the hole");
}

#[test]
fn nothing_collides() {
    let longest = "x".repeat(2047);
    let room = 64 * MIB - (KERNEL.0 + INIT_SIZE);
    let plan = plan_of(&bzimage(), 64 * MIB, Some(room), &longest).unwrap();
    let mut extents = extents(&plan, room);
    // Memory that the kernel takes without a copy.
    extents.push((KERNEL.0 + PAYLOAD_LEN as u64, KERNEL.0 + INIT_SIZE));
    extents.sort_unstable();
    for pair in extents.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:x?}");
    }
    assert_eq!(extents.last().unwrap().1, 64 * MIB);
}

#[test]
fn copies_go_where_memory_is() {
    let map = MemoryMap::new(64 * MIB).unwrap();
    let plan = plan_of(&bzimage(), 64 * MIB, Some(MIB), "quiet").unwrap();
    for (start, end) in extents(&plan, MIB) {
        assert!(map.slots().iter().any(|slot| slot.gpa.0 <= start && end <= slot.end().0), "{start:#x}");
    }
}

/// Walks the plan's page tables as the CPU does.
fn translate(plan: &StartPlan, linear: u64) -> Option<u64> {
    const PRESENT_WRITABLE: u64 = 0b11;
    const LEAF: u64 = 1 << 7;
    let tables = bytes_at(plan, plan.entry.cr3);
    let mut table = plan.entry.cr3.0;
    for shift in [39, 30, 21] {
        let at = (table - plan.entry.cr3.0 + (linear >> shift & 0x1ff) * 8) as usize;
        let entry = u64::from_le_bytes(tables[at..at + 8].try_into().unwrap());
        if entry & PRESENT_WRITABLE != PRESENT_WRITABLE {
            return None;
        }
        let mask = (1 << shift) - 1;
        let address = entry & 0x000f_ffff_ffff_f000;
        if entry & LEAF != 0 {
            return Some(address & !mask | linear & mask);
        }
        table = address;
    }
    None
}

#[test]
fn low_four_gib_are_mapped_to_themselves() {
    let plan = plan_of(&bzimage(), 64 * MIB, None, "").unwrap();
    for linear in [0, 0x7123, KERNEL.0, GIB - 1, GIB, 3 * GIB + 0x1234_5678, 4 * GIB - 1] {
        assert_eq!(translate(&plan, linear), Some(linear), "{linear:#x}");
    }
    assert_eq!(translate(&plan, 4 * GIB), None);
}

#[test]
fn selectors_name_the_descriptors_in_the_gdt() {
    let plan = plan_of(&bzimage(), 64 * MIB, None, "").unwrap();
    let gdt = bytes_at(&plan, Gpa(plan.entry.gdtr.base));
    assert_eq!(usize::from(plan.entry.gdtr.limit) + 1, gdt.len());
    for segment in [plan.entry.cs, plan.entry.data] {
        let at = usize::from(segment.selector);
        assert_eq!(gdt[at..at + 8], entry::descriptor(&segment).to_le_bytes());
    }
    assert_eq!((plan.entry.cs.selector, plan.entry.data.selector), (0x10, 0x18));
    assert!(!plan.entry.rflags.contains(Rflags::IF));
}

#[test]
fn truncated_header_and_payload_give_both_sizes() {
    let file = bzimage();
    assert_eq!(
        error(&file[..0x220]),
        "the Linux kernel is truncated: its header asks for 556 bytes, the file has 544"
    );
    assert_eq!(
        error(&file[..file.len() - 16]),
        "the Linux kernel is truncated: its header asks for 5120 bytes, the file has 5104"
    );
}

#[test]
fn kernels_that_cannot_be_entered_above_one_mib_are_refused() {
    let mut file = bzimage();
    put(&mut file, field!(version), &[0x01, 0x02]);
    assert_eq!(
        error(&file),
        "the Linux kernel speaks boot protocol 2.01: expected 2.02 (Linux 2.4) or later"
    );
    let mut file = bzimage();
    put(&mut file, field!(loadflags), &[0]);
    assert_eq!(error(&file), "the Linux kernel is a zImage: expected a bzImage, which is loaded above 1 MiB");
}

#[test]
fn kernel_without_64_bit_entry_starts_in_protected_mode() {
    let mut file = bzimage();
    put(&mut file, field!(xloadflags), &[0, 0]);
    let plan = plan_of(&file, 64 * MIB, None, "quiet").unwrap();
    let entry = &plan.entry;
    assert_eq!(entry.rip, Gva(KERNEL.0));
    assert_eq!((entry.cr0, entry.efer, entry.cr4), (Cr0::PE | Cr0::ET, Efer::empty(), Cr4::empty()));
    assert_eq!((entry.cs, entry.data), (entry::code32(0x10), entry::data(0x18)));
    for zero in [Gpr::Rbp, Gpr::Rdi, Gpr::Rbx] {
        assert_eq!(entry.registers.get(zero), 0);
    }
    assert_eq!(boot_params(&plan).hdr.header, *b"HdrS");
    assert_eq!(bytes_at(&plan, Gpa(entry.gdtr.base))[0x10..0x18], entry::descriptor(&entry.cs).to_le_bytes());
}

/// A kernel of this protocol version, whose header ends where that version's does.
fn old_bzimage(version: u16, header_end: usize) -> Vec<u8> {
    let mut file = bzimage();
    put(&mut file, field!(version), &version.to_le_bytes());
    put(&mut file, field!(jump), &[0xeb, (header_end - 0x202) as u8]);
    // Code follows the header.
    file[header_end..PAYLOAD_START].fill(0xcc);
    file
}

#[test]
fn old_kernels_go_to_one_mib() {
    for (version, header_end) in
        [(0x202, 0x22c), (0x203, 0x230), (0x205, 0x235), (0x206, 0x23c), (0x209, 0x258)]
    {
        let plan = plan_of(&old_bzimage(version, header_end), 64 * MIB, Some(MIB), "quiet").unwrap();
        assert_eq!(plan.entry.rip, Gva(MIB), "{version:#x}");
        let params = boot_params(&plan);
        assert_eq!(params.hdr.cmd_line_ptr.get(), layout::CMDLINE.0 as u32);
        assert_eq!(u64::from(params.hdr.ramdisk_image.get()), 63 * MIB);
        assert_ne!(params.hdr.pref_address.get() as u8, 0xcc, "code is no header");
    }
    let late_end = old_bzimage(0x20a, 0x258);
    assert_eq!(error(&late_end), "the Linux kernel's header is damaged: jump is 0x56");
    assert_eq!(
        plan_of(&old_bzimage(0x202, 0x22c), 64 * MIB, None, &"x".repeat(256)).unwrap_err().to_string(),
        "the command line has 256 bytes: this Linux kernel reads at most 255"
    );
}

#[test]
fn last_paragraph_need_not_be_whole() {
    let file = bzimage();
    let plan = plan_of(&file[..file.len() - 15], 64 * MIB, None, "").unwrap();
    assert!(plan.copies.iter().any(|copy| copy.source == Source::Kernel(PAYLOAD_START..file.len() - 15)));
    assert!(plan_of(&file[..file.len() - 16], 64 * MIB, None, "").is_err());
}

#[test]
fn nonsense_in_the_header_is_named() {
    let damaged = |at: usize, bytes: &[u8]| {
        let mut file = bzimage();
        put(&mut file, at, bytes);
        error(&file)
    };
    let expect = |field_and_value| std::format!("the Linux kernel's header is damaged: {field_and_value}");
    assert_eq!(damaged(field!(jump), &[0xeb, 0x10]), expect("jump is 0x10"));
    assert_eq!(damaged(field!(kernel_alignment), &[1]), expect("kernel_alignment is 0x200001"));
    assert_eq!(damaged(field!(kernel_alignment), &[0; 4]), expect("kernel_alignment is 0x0"));
    assert_eq!(damaged(field!(syssize), &[0; 4]), expect("syssize is 0x0"));
    assert_eq!(damaged(field!(pref_address), &[0xff; 8]), expect("pref_address is 0xffffffffffffffff"));
}

#[test]
fn what_does_not_fit_is_said_with_sizes() {
    let message =
        |memory, initrd, cmdline| plan_of(&bzimage(), memory, initrd, cmdline).unwrap_err().to_string();
    assert_eq!(
        message(20 * MIB, None, ""),
        "the Linux kernel does not fit: it needs memory from 0x1000000 to 0x1800000, \
         the virtual machine's ends at 0x1400000; give it more memory"
    );
    assert_eq!(
        message(32 * MIB, Some(9 * MIB), ""),
        "the initrd does not fit: it has 9M, beside the kernel there is room for 8M; \
         give the virtual machine more memory"
    );
    assert!(plan_of(&bzimage(), 32 * MIB, Some(8 * MIB), "").is_ok());
    assert_eq!(
        message(32 * MIB, Some(u64::MAX), ""),
        "the initrd does not fit: it has 18446744073709551615 bytes, beside the kernel there is room for 8M; \
         give the virtual machine more memory"
    );
    assert_eq!(
        message(32 * MIB, None, &"x".repeat(2048)),
        "the command line has 2048 bytes: this Linux kernel reads at most 2047"
    );
}

#[test]
fn no_length_panics() {
    let file = bzimage();
    for len in 0..=file.len() - 16 {
        assert!(plan_of(&file[..len], 64 * MIB, Some(MIB), "").is_err(), "{len}");
    }
}

#[test]
fn no_flipped_bit_panics_or_leaves_memory() {
    let map = MemoryMap::new(64 * MIB).unwrap();
    let original = bzimage();
    for bit in SETUP_HEADER * 8..0x290 * 8 {
        let mut file = original.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        let Ok(plan) = plan_of(&file, 64 * MIB, Some(MIB), "quiet") else { continue };
        for (start, end) in extents(&plan, MIB) {
            assert!(end <= map.low_end().0 && start < end, "bit {bit}: {start:#x}");
        }
    }
}

/// Every byte of the header at its extremes, alone and beside its neighbour.
#[test]
fn no_extreme_value_panics() {
    let original = bzimage();
    for at in SETUP_HEADER..0x290 {
        for len in [1, 2, 4, 8] {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut file = original.clone();
                file[at..at + len].fill(value);
                let _ = plan_of(&file, 64 * MIB, Some(MIB), "quiet");
            }
        }
    }
}
