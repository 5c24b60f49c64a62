//! Any memory as multiboot information, of both versions. Everything that the loader finds lies in that memory, and
//! nothing that it then allocates is still needed.

#![no_main]
#![allow(unsafe_code, reason = "the only constructor of crate multiboot2")]

use ::multiboot2::BootInformation;
use fuzz::handover;
use fuzz::physical::Memory;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use loader::{multiboot1, multiboot2};

/// Where the information lies; the rest of the memory follows it.
const INFORMATION: u32 = 0x1000;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Multiboot1(&'a [u8]),
    /// The tags.
    Multiboot2(&'a [u8]),
}

fuzz_target!(|input: Input<'_>| {
    match input {
        Input::Multiboot1(bytes) => version_1(bytes),
        Input::Multiboot2(tags) => version_2(tags),
    }
});

fn version_1(bytes: &[u8]) {
    let memory = Memory { base: INFORMATION.into(), bytes };
    if let Ok(found) = multiboot1::read(&memory, INFORMATION) {
        handover::go_on(&found, &memory);
    }
}

/// The information is aligned so.
const ALIGN: usize = 8;

#[repr(align(8))]
#[derive(Clone, Copy)]
struct Aligned([u8; ALIGN]);

fn version_2(tags: &[u8]) {
    let len = (ALIGN + tags.len()).next_multiple_of(ALIGN);
    let mut words = vec![Aligned([0; ALIGN]); len / ALIGN];
    // The total size, which the loader cannot check: it says what is readable.
    words[0].0[..4].copy_from_slice(&(len as u32).to_le_bytes());
    for (word, tags) in words[1..].iter_mut().zip(tags.chunks(ALIGN)) {
        word.0[..tags.len()].copy_from_slice(tags);
    }
    // SAFETY: The memory is aligned, initialized and as long as the header says, and outlives the result.
    let Ok(information) = (unsafe { BootInformation::load(words.as_ptr().cast()) }) else { return };
    if let Ok(found) = multiboot2::read(&information) {
        // SAFETY: The same memory as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
        handover::go_on(&found, &Memory { base: INFORMATION.into(), bytes });
    }
}
