//! The palette: 256 colours of three components of six bits.

/// Components of a colour.
const COMPONENTS: usize = 3;
const MASK: u8 = 0x3f;
/// Colours that the BIOS sets for text: the 64 of an EGA, two bits a component.
const EGA_COLOURS: usize = 64;

/// What the state register says of the last index written.
const STATE_WRITING: u8 = 0;
const STATE_READING: u8 = 3;

#[derive(Clone, Debug)]
pub(super) struct Dac {
    colours: [[u8; COMPONENTS]; 256],
    pub(super) mask: u8,
    index: u8,
    component: usize,
    state: u8,
}

impl Dac {
    pub(super) fn new() -> Dac {
        let mut colours = [[0; COMPONENTS]; 256];
        for (number, colour) in colours[..EGA_COLOURS].iter_mut().enumerate() {
            for (component, level) in colour.iter_mut().enumerate() {
                // Bits 2, 1, 0 are strong red, green, blue; bits 5, 4, 3 are weak ones.
                let (strong, weak) = (number >> (2 - component) & 1, number >> (5 - component) & 1);
                *level = (strong * 0x2a + weak * 0x15) as u8;
            }
        }
        Dac { colours, mask: u8::MAX, index: 0, component: 0, state: STATE_WRITING }
    }

    pub(super) fn write_from(&mut self, index: u8) {
        (self.index, self.component, self.state) = (index, 0, STATE_WRITING);
    }

    pub(super) fn read_from(&mut self, index: u8) {
        (self.index, self.component, self.state) = (index, 0, STATE_READING);
    }

    pub(super) fn index(&self) -> u8 {
        self.index
    }

    pub(super) fn state(&self) -> u8 {
        self.state
    }

    pub(super) fn read(&mut self) -> u8 {
        let value = self.colours[usize::from(self.index)][self.component];
        self.advance();
        value
    }

    pub(super) fn write(&mut self, value: u8) {
        self.colours[usize::from(self.index)][self.component] = value & MASK;
        self.advance();
    }

    fn advance(&mut self) {
        self.component = (self.component + 1) % COMPONENTS;
        if self.component == 0 {
            self.index = self.index.wrapping_add(1);
        }
    }
}
