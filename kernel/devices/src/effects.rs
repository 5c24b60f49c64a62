//! What a device asks its surroundings to do.

/// Time of a virtual machine in nanoseconds since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

/// When a device wants its `tick` to be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deadline {
    /// As said before.
    #[default]
    Keep,
    /// Not at all.
    Never,
    /// At this time, or soon after.
    At(Nanos),
}

/// Something that ends or restarts the virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerEvent {
    /// The guest switched itself off; the text names how, e.g. "ACPI S5".
    PowerOff(&'static str),
    /// The guest ended its run with this status.
    Exit(u32),
    /// The guest asked for a reset; the text names how, e.g. "port 0xCF9".
    Reset(&'static str),
}

/// What an access to a device, or the passing of time, has caused. Applied after the device's lock is
/// dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// New level of the device's interrupt output; `None`: unchanged. The [`crate::pit`] alone reports each
    /// rising edge as `Some(true)` without the fall before it: make it a pulse.
    pub line: Option<bool>,
    /// When the device wants to be called next.
    pub deadline: Deadline,
    /// A byte for the outside world (serial output).
    pub byte: Option<u8>,
    /// What asks for an NMI, or what holds it back, has changed.
    pub nmi: bool,
    /// The end of the virtual machine.
    pub power: Option<PowerEvent>,
}

impl Effects {
    /// Nothing happened.
    pub const NONE: Effects =
        Effects { line: None, deadline: Deadline::Keep, byte: None, nmi: false, power: None };
}

/// A register device behind ports or memory. Offsets count from the device's first register; the bus has
/// already split accesses into widths that the device declares.
pub trait Device {
    /// Reads `width` bytes (1, 2 or 4) at `offset`. A read may have effects, too.
    fn read(&mut self, offset: u16, width: u8, now: Nanos) -> (u32, Effects);
    /// Writes the low `width` bytes (1, 2 or 4) of `value` at `offset`.
    fn write(&mut self, offset: u16, width: u8, value: u32, now: Nanos) -> Effects;
    /// Time has come to `now`; called at or after the last [`Deadline::At`].
    fn tick(&mut self, now: Nanos) -> Effects {
        let _ = now;
        Effects::NONE
    }
}
