//! General registers.

/// A general register; the value is its number in instruction encodings (SDM 2, 2.2.1.2).
#[allow(missing_docs)]
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpr {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Gpr {
    /// All, in encoding order.
    pub const ALL: [Gpr; 16] = [
        Gpr::Rax,
        Gpr::Rcx,
        Gpr::Rdx,
        Gpr::Rbx,
        Gpr::Rsp,
        Gpr::Rbp,
        Gpr::Rsi,
        Gpr::Rdi,
        Gpr::R8,
        Gpr::R9,
        Gpr::R10,
        Gpr::R11,
        Gpr::R12,
        Gpr::R13,
        Gpr::R14,
        Gpr::R15,
    ];

    /// The register with this number; only the low four bits count.
    pub const fn from_number(n: u8) -> Gpr {
        Self::ALL[(n & 15) as usize]
    }
}

/// The general registers as the exit stubs lay them on the stack: in encoding order, with an unused slot
/// where RSP would be, which lives elsewhere.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Gprs(pub [u64; 16]);
