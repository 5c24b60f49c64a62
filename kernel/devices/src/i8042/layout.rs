//! Keys of a US keyboard, by their scan codes in set 2, and which of them type a character.

use bitflags::bitflags;

bitflags! {
    /// Keys that are held while another is pressed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Modifiers: u8 {
        const SHIFT = 1 << 0;
        const ALT = 1 << 1;
        const CONTROL = 1 << 2;
    }
}

impl Modifiers {
    /// Their keys on the left, in the order in which they are pressed.
    pub(super) const KEYS: [(Modifiers, u8); 3] =
        [(Modifiers::CONTROL, 0x14), (Modifiers::ALT, 0x11), (Modifiers::SHIFT, 0x12)];
}

/// A key with those that are held meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its scan code in set 2.
    pub(super) code: u8,
    /// The code has prefix 0xE0.
    pub(super) extended: bool,
    pub(super) modifiers: Modifiers,
}

impl Key {
    pub(super) const ESCAPE: Key = Key::plain(0x76);
    pub(super) const ENTER: Key = Key::plain(0x5a);
    pub(super) const BACKSPACE: Key = Key::plain(0x66);
    pub(super) const TAB: Key = Key::plain(0x0d);
    pub(super) const UP: Key = Key::extended(0x75);
    pub(super) const DOWN: Key = Key::extended(0x72);
    pub(super) const RIGHT: Key = Key::extended(0x74);
    pub(super) const LEFT: Key = Key::extended(0x6b);
    pub(super) const HOME: Key = Key::extended(0x6c);
    pub(super) const END: Key = Key::extended(0x69);
    pub(super) const PAGE_UP: Key = Key::extended(0x7d);
    pub(super) const PAGE_DOWN: Key = Key::extended(0x7a);
    pub(super) const INSERT: Key = Key::extended(0x70);
    pub(super) const DELETE: Key = Key::extended(0x71);
    /// F1 to F12.
    pub(super) const FUNCTION: [Key; 12] = [
        Key::plain(0x05),
        Key::plain(0x06),
        Key::plain(0x04),
        Key::plain(0x0c),
        Key::plain(0x03),
        Key::plain(0x0b),
        Key::plain(0x83),
        Key::plain(0x0a),
        Key::plain(0x01),
        Key::plain(0x09),
        Key::plain(0x78),
        Key::plain(0x07),
    ];

    const fn plain(code: u8) -> Key {
        Key { code, extended: false, modifiers: Modifiers::empty() }
    }

    const fn extended(code: u8) -> Key {
        Key { extended: true, ..Key::plain(code) }
    }

    /// The same key with others held, too.
    pub(super) fn with(self, modifiers: Modifiers) -> Key {
        Key { modifiers: self.modifiers | modifiers, ..self }
    }

    /// The key for a byte that a terminal sends, if there is one; ESC begins a sequence and is not for here.
    pub(super) fn of(byte: u8) -> Option<Key> {
        /// What a control character is short of its letter.
        const LETTER: u8 = 0x60;
        const DELETE_CHARACTER: u8 = 0x7f;
        match byte {
            b'\r' | b'\n' => Some(Key::ENTER),
            b'\t' => Some(Key::TAB),
            0x08 | DELETE_CHARACTER => Some(Key::BACKSPACE),
            0x01..=0x1a => Key::of(byte | LETTER).map(|key| key.with(Modifiers::CONTROL)),
            0x1c => Key::of(b'\\').map(|key| key.with(Modifiers::CONTROL)),
            0x1d => Key::of(b']').map(|key| key.with(Modifiers::CONTROL)),
            0x1e => Key::of(b'6').map(|key| key.with(Modifiers::CONTROL)),
            0x1f => Key::of(b'-').map(|key| key.with(Modifiers::CONTROL)),
            _ => CHARACTERS.iter().find_map(|&(plain, shifted, code)| match byte {
                _ if byte == plain => Some(Key::plain(code)),
                _ if byte == shifted => Some(Key::plain(code).with(Modifiers::SHIFT)),
                _ => None,
            }),
        }
    }
}

/// Character, character with Shift, scan code in set 2.
#[rustfmt::skip]
const CHARACTERS: [(u8, u8, u8); 48] = [
    (b'a', b'A', 0x1c), (b'b', b'B', 0x32), (b'c', b'C', 0x21), (b'd', b'D', 0x23), (b'e', b'E', 0x24),
    (b'f', b'F', 0x2b), (b'g', b'G', 0x34), (b'h', b'H', 0x33), (b'i', b'I', 0x43), (b'j', b'J', 0x3b),
    (b'k', b'K', 0x42), (b'l', b'L', 0x4b), (b'm', b'M', 0x3a), (b'n', b'N', 0x31), (b'o', b'O', 0x44),
    (b'p', b'P', 0x4d), (b'q', b'Q', 0x15), (b'r', b'R', 0x2d), (b's', b'S', 0x1b), (b't', b'T', 0x2c),
    (b'u', b'U', 0x3c), (b'v', b'V', 0x2a), (b'w', b'W', 0x1d), (b'x', b'X', 0x22), (b'y', b'Y', 0x35),
    (b'z', b'Z', 0x1a), (b'1', b'!', 0x16), (b'2', b'@', 0x1e), (b'3', b'#', 0x26), (b'4', b'$', 0x25),
    (b'5', b'%', 0x2e), (b'6', b'^', 0x36), (b'7', b'&', 0x3d), (b'8', b'*', 0x3e), (b'9', b'(', 0x46),
    (b'0', b')', 0x45), (b'-', b'_', 0x4e), (b'=', b'+', 0x55), (b'[', b'{', 0x54), (b']', b'}', 0x5b),
    (b'\\', b'|', 0x5d), (b';', b':', 0x4c), (b'\'', b'"', 0x52), (b'`', b'~', 0x0e), (b',', b'<', 0x41),
    (b'.', b'>', 0x49), (b'/', b'?', 0x4a), (b' ', b' ', 0x29),
];
