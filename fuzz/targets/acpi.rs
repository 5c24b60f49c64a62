//! The host's ACPI tables: any bodies under headers whose checksums are right, or any memory at all. Reading them
//! terminates and leaves most of the hypervisor's heap.

#![no_main]

use fuzz::heap::{Counted, peak_of};
use fuzz::physical::Memory;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use vmm::firmware;
use x86defs::addr::Hpa;

#[global_allocator]
static HEAP: Counted = Counted;

/// Most memory that reading may take, of the 6 MiB that the hypervisor has.
const MOST: usize = 3 << 20;
/// Where the memory begins.
const BASE: u64 = 0x1000;
const HEADER: usize = 36;

#[derive(Arbitrary, Debug)]
enum Input {
    Tables { revision: u8, tables: Vec<Table>, root: Vec<u8> },
    Memory(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Table {
    signature: Signature,
    body: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Signature {
    Madt,
    Fadt,
    Other([u8; 4]),
}

fuzz_target!(|input: Input| {
    let bytes = match input {
        Input::Memory(bytes) => bytes,
        Input::Tables { revision, tables, root } => firmware_tables(revision, &tables, &root),
    };
    let memory = Memory { base: BASE, bytes: &bytes };
    let (facts, peak) = peak_of(|| firmware::read(&memory, Hpa(BASE)));
    assert!(peak <= MOST, "{peak} bytes for {} bytes", bytes.len());
    drop(facts);
});

/// The root pointer, all tables one after the other, and a root table that lists them and then `more`.
fn firmware_tables(revision: u8, tables: &[Table], more: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..8].copy_from_slice(b"RSD PTR ");
    bytes[15] = revision;
    let mut pointers = Vec::new();
    for table in tables {
        let at = BASE + bytes.len() as u64;
        if revision < 2 {
            pointers.extend((at as u32).to_le_bytes());
        } else {
            pointers.extend(at.to_le_bytes());
        }
        let signature = match table.signature {
            Signature::Madt => b"APIC",
            Signature::Fadt => b"FACP",
            Signature::Other(ref other) => other,
        };
        append(&mut bytes, signature, &table.body);
    }
    pointers.extend(more);
    let root = BASE + bytes.len() as u64;
    bytes[16..20].copy_from_slice(&(root as u32).to_le_bytes());
    bytes[24..32].copy_from_slice(&root.to_le_bytes());
    append(&mut bytes, b"RSDT", &pointers);
    bytes
}

fn append(bytes: &mut Vec<u8>, signature: &[u8; 4], body: &[u8]) {
    const CHECKSUM: usize = 9;
    let at = bytes.len();
    bytes.extend(signature);
    bytes.extend(((HEADER + body.len()) as u32).to_le_bytes());
    bytes.resize(at + HEADER, 0);
    bytes.extend(body);
    bytes[at + CHECKSUM] = bytes[at..].iter().fold(0, |sum: u8, byte| sum.wrapping_sub(*byte));
}
