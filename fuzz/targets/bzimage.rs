//! Linux kernels whose setup header has any fields: each input is what differs from a header that is right.

#![no_main]

use fuzz::start;
use guestboot::linux::header::{SETUP_HEADER, SetupHeader};
use guestboot::memory_map::MemoryMap;
use guestboot::plan::{Guest, GuestModule};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use zerocopy::FromZeros;
use zerocopy::IntoBytes;

#[derive(Arbitrary, Debug)]
struct Input {
    header: [u8; size_of::<SetupHeader>()],
    /// Bytes of the file behind the header.
    rest: u16,
    pages: u32,
    initrd: Option<u32>,
    cmdline: u16,
    cpus: u8,
}

fuzz_target!(|input: Input| {
    let Ok(map) = MemoryMap::new(u64::from(input.pages) << 12) else { return };
    let mut kernel = vec![0; SETUP_HEADER];
    kernel.extend(sound_header().as_bytes().iter().zip(input.header).map(|(sound, change)| sound ^ change));
    kernel.resize(kernel.len() + usize::from(input.rest), 0);
    let cmdline = "x".repeat(input.cmdline.into());
    let guest = Guest {
        map: &map,
        cpus: u32::from(input.cpus).max(1),
        kernel: &kernel,
        initrd: input.initrd.map(|len| GuestModule { len: len.into(), cmdline: "" }),
        modules: &[],
        cmdline: &cmdline,
    };
    // Whether it can be started is not the question.
    let _ = start::check(&guest);
});

/// As in a current kernel of a few KiB.
fn sound_header() -> SetupHeader {
    SetupHeader {
        setup_sects: 1,
        syssize: 0x200.into(),
        boot_flag: 0xaa55.into(),
        jump: [0xeb, 0x6a],
        header: *b"HdrS",
        version: 0x20f.into(),
        loadflags: 1,
        initrd_addr_max: 0x7fff_ffff.into(),
        kernel_alignment: 0x20_0000.into(),
        relocatable_kernel: 1,
        xloadflags: 1.into(),
        cmdline_size: 2047.into(),
        pref_address: 0x100_0000.into(),
        init_size: 0x80_0000.into(),
        ..SetupHeader::new_zeroed()
    }
}
