//! How much memory an ELF32 file takes when it is loaded.

use anyhow::{Context, Result};

/// Offsets of `e_phoff`, `e_phentsize` and `e_phnum` in the ELF32 header.
const E_PHOFF: usize = 28;
const E_PHENTSIZE: usize = 42;
const E_PHNUM: usize = 44;
/// Offsets of `p_type`, `p_paddr` and `p_memsz` in an ELF32 program header.
const P_TYPE: usize = 0;
const P_PADDR: usize = 12;
const P_MEMSZ: usize = 20;
/// `p_type` of a segment that is loaded.
const PT_LOAD: u64 = 1;

/// Bytes from the lowest loaded address to the end of the highest.
pub fn loaded_size(file: &[u8]) -> Result<u64> {
    let field = |offset| number::<4>(file, offset);
    let table = field(E_PHOFF)? as usize;
    let (size, count) = (number::<2>(file, E_PHENTSIZE)? as usize, number::<2>(file, E_PHNUM)? as usize);
    let (mut lowest, mut end) = (u64::MAX, 0);
    for header in (0..count).map(|index| table + index * size) {
        if field(header + P_TYPE)? == PT_LOAD {
            let start = field(header + P_PADDR)?;
            lowest = lowest.min(start);
            end = end.max(start + field(header + P_MEMSZ)?);
        }
    }
    end.checked_sub(lowest).context("the image loads nothing")
}

/// A little-endian number of `N` bytes.
fn number<const N: usize>(file: &[u8], offset: usize) -> Result<u64> {
    let bytes = file.get(offset..).and_then(<[u8]>::first_chunk::<N>).context("the image is cut off")?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(segments: &[(u32, u32, u32)]) -> Vec<u8> {
        let mut file = vec![0; 52];
        file[E_PHOFF] = 52;
        file[E_PHENTSIZE] = 32;
        file[E_PHNUM] = segments.len() as u8;
        for (kind, address, size) in segments {
            let fields = [*kind, 0, 0, *address, 0, *size, 0, 0];
            file.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        }
        file
    }

    #[test]
    fn gaps_count_and_other_segments_do_not() {
        let file = image(&[(1, 0x20_0000, 0x1000), (6, 0, 0x9000), (1, 0x20_3000, 0x234)]);
        assert_eq!(loaded_size(&file).expect("size"), 0x3234);
    }

    #[test]
    fn damaged_images_are_refused() {
        assert!(loaded_size(&image(&[])).is_err());
        assert!(loaded_size(&image(&[(1, 0, 1)])[..60]).is_err());
    }
}
