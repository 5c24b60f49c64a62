use super::*;
use crate::testing::hammer;
use alloc::string::String;

const NOW: Nanos = Nanos(0);

fn device() -> FwCfg {
    let file = |name, bytes: &'static [u8]| File { name, bytes: bytes.into() };
    FwCfg::new(Facts {
        cpus: 3,
        memory: 0x1_2000_0000,
        cmdline: "quiet",
        initrd: b"disk"[..].into(),
        files: alloc::vec![file("etc/e820", b"map"), file("opt/a", b"hello")],
    })
}

fn read(device: &mut FwCfg, selector: u16, length: usize) -> Vec<u8> {
    device.write(SELECTOR, 2, selector.into(), NOW);
    (0..length).map(|_| device.read(DATA, 1, NOW).0 as u8).collect()
}

#[test]
fn items_have_the_specifications_selectors() {
    let mut device = device();
    assert_eq!(read(&mut device, 0, 6), b"QEMU\0\0", "zeros behind the end");
    assert_eq!(read(&mut device, 1, 4), [1, 0, 0, 0], "no DMA");
    assert_eq!(read(&mut device, 3, 8), 0x1_2000_0000u64.to_le_bytes());
    assert_eq!((read(&mut device, 5, 2), read(&mut device, 0xf, 2)), (alloc::vec![3, 0], alloc::vec![3, 0]));
    assert_eq!(
        (read(&mut device, 0x14, 4), read(&mut device, 0x15, 6)),
        ([6, 0, 0, 0].into(), b"quiet\0".into())
    );
    assert_eq!(
        (read(&mut device, 0xb, 4), read(&mut device, 0x12, 4)),
        ([4, 0, 0, 0].into(), b"disk".into())
    );
    assert_eq!(read(&mut device, 0x4000, 4), b"QEMU", "opened for writing");
    assert_eq!(read(&mut device, 0x7777, 2), [0, 0], "no such item");
}

#[test]
fn files_are_found_through_the_directory() {
    let mut device = device();
    let directory = read(&mut device, 0x19, 4 + 2 * 64);
    assert_eq!(directory[..4], [0, 0, 0, 2]);
    for (entry, (name, bytes)) in
        directory[4..].chunks(64).zip([("etc/e820", &b"map"[..]), ("opt/a", &b"hello"[..])])
    {
        assert_eq!(entry[..4], (bytes.len() as u32).to_be_bytes());
        let found: Vec<u8> = entry[8..].iter().copied().take_while(|byte| *byte != 0).collect();
        assert_eq!(String::from_utf8(found).as_deref(), Ok(name));
        let selector = u16::from_be_bytes([entry[4], entry[5]]);
        assert_eq!(read(&mut device, selector, bytes.len()), bytes);
    }
}

#[test]
fn only_a_word_selects_and_only_a_byte_reads() {
    let mut device = device();
    assert_eq!(read(&mut device, 0, 1), b"Q");
    device.write(SELECTOR, 1, 0, NOW);
    device.write(DATA, 1, 0, NOW);
    assert_eq!(device.read(DATA, 1, NOW).0, b'E'.into(), "the item goes on");
    assert_eq!(device.read(SELECTOR, 2, NOW).0, u32::MAX);
}

#[test]
fn survives_anything() {
    hammer(&mut device(), PORTS, |device, _, _| assert!(device.offset <= 4 + 2 * 64));
}
