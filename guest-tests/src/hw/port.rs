//! Port I/O.

#![allow(unsafe_code, reason = "IN and OUT")]

use core::arch::asm;

macro_rules! port_access {
    ($read:ident, $write:ident, $type:ty, $register:tt) => {
        #[doc = concat!("IN ", $register, ", DX")]
        pub fn $read(port: u16) -> $type {
            let value: $type;
            // SAFETY: the guest owns its devices, and none of them writes memory.
            unsafe {
                asm!(concat!("in ", $register, ", dx"), in("dx") port, out($register) value,
                    options(nomem, nostack, preserves_flags))
            };
            value
        }
        #[doc = concat!("OUT DX, ", $register)]
        pub fn $write(port: u16, value: $type) {
            // SAFETY: as for reading.
            unsafe {
                asm!(concat!("out dx, ", $register), in("dx") port, in($register) value,
                    options(nomem, nostack, preserves_flags))
            };
        }
    };
}

port_access!(inb, outb, u8, "al");
port_access!(inw, outw, u16, "ax");
port_access!(inl, outl, u32, "eax");
