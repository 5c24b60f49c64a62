//! The reset vector: code at the top of the ROM, 16 bytes below 1 MiB. There is no firmware to start over, but
//! kernels restart a machine by jumping here in real mode, so it asks for a reset.

use crate::memory_map::ROM_END;
use crate::plan::{Copy, Source};
use crate::platform::{RESET, RESET_VALUE};
use alloc::vec::Vec;
use x86defs::addr::Gpa;

/// Where a CPU in real mode jumps to: F000:FFF0 or FFFF:0000.
pub const RESET_VECTOR: Gpa = Gpa(ROM_END.0 - 16);

// Opcodes of the 16-bit code (SDM volume 2).
const MOV_DX: u8 = 0xba;
const MOV_AL: u8 = 0xb0;
const OUT_DX_AL: u8 = 0xee;
const CLI: u8 = 0xfa;
const HLT: u8 = 0xf4;

/// The code: `mov dx, RESET; mov al, RESET_VALUE; out dx, al; cli; hlt`.
pub fn reset_vector() -> Copy {
    let [low, high] = RESET.first.to_le_bytes();
    let code = [MOV_DX, low, high, MOV_AL, RESET_VALUE, OUT_DX_AL, CLI, HLT];
    Copy { to: RESET_VECTOR, source: Source::Bytes(Vec::from(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_reset_control_register() {
        let Copy { to, source: Source::Bytes(code) } = reset_vector() else { panic!("it is bytes") };
        assert_eq!(to, Gpa(0xf_fff0));
        assert_eq!(code, [0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee, 0xfa, 0xf4]);
    }
}
