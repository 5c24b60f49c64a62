//! What the loader tells the kernel.

/// `BootInfo::magic`: "GOSSAMER" in ASCII, little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GOSSAMER");
/// `BootInfo::version`; the kernel refuses any other.
pub const VERSION: u32 = 1;
/// Most memory ranges that are handed over.
pub const MAX_RANGES: usize = 128;
/// Most modules that are handed over.
pub const MAX_MODULES: usize = 32;
/// Virtual address at which the loader maps physical address 0 onwards, writable and not executable, for at
/// least the first 4 GiB. The kernel keeps the address when it builds its own tables for all of memory.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Link address of the kernel image.
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// Size of the stack on which the kernel is entered.
pub const BOOT_STACK_SIZE: u64 = 64 * 1024;
/// One past the last byte of that stack. The pages below it and above it are unmapped.
pub const BOOT_STACK_TOP: u64 = KERNEL_BASE - 0x1_0000;

/// A range of physical memory in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhysRange {
    /// First physical address.
    pub start: u64,
    /// Length in bytes; 0 means "nothing here".
    pub len: u64,
}

impl PhysRange {
    /// One past the last byte. Saturates, so that a wild length cannot wrap.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// What a range of memory is, with the numbers of the ACPI address-range types (ACPI 6.5, 15.1) and our own
/// for what the loader has placed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryKind {
    /// Free for the kernel to use.
    Usable = 1,
    /// Not to be touched.
    #[default]
    Reserved = 2,
    /// ACPI tables: readable.
    AcpiReclaimable = 3,
    /// ACPI non-volatile storage: not to be touched.
    AcpiNvs = 4,
    /// Broken.
    Bad = 5,
    /// Loader, kernel image, page tables and boot stack.
    Image = 0x100,
    /// A module.
    Module = 0x101,
}

/// One entry of the memory map. Ranges are sorted, page aligned where usable, and do not overlap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRange {
    /// Where.
    pub range: PhysRange,
    /// What.
    pub kind: MemoryKind,
    /// Zero.
    pub reserved: u32,
}

/// A file that the boot loader placed in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its bytes.
    pub data: PhysRange,
    /// Its command line (UTF-8, no terminator): the first word is its name, possibly a path.
    pub cmdline: PhysRange,
}

/// Handed to the kernel's entry point by physical address in RDI.
///
/// The kernel's `extern "C" fn(u64) -> !` is entered in 64-bit mode with interrupts off, CR0.WP and EFER.NXE
/// set, RSP at [`BOOT_STACK_TOP`] less the slot of a return address (zero), its segments mapped as their flags
/// say (never both writable and executable), [`DIRECT_MAP`] in place, and the first 4 GiB also mapped at their
/// physical addresses. Page tables, GDT and everything that this structure points to lie in memory of kind
/// [`MemoryKind::Image`] or [`MemoryKind::Module`]; there is no IDT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// `size_of::<BootInfo>()`.
    pub size: u32,
    /// Where the kernel image lies (contiguous; its first byte is mapped at [`KERNEL_BASE`]).
    pub kernel: PhysRange,
    /// The ACPI root pointer structure, wherever it lies; `start` is 0 if none was found.
    pub rsdp: PhysRange,
    /// The hypervisor's own command line.
    pub cmdline: PhysRange,
    /// The boot loader's name.
    pub loader_name: PhysRange,
    /// Number of valid entries in `memory`.
    pub memory_count: u32,
    /// Number of valid entries in `modules`.
    pub module_count: u32,
    /// The memory map.
    pub memory: [MemoryRange; MAX_RANGES],
    /// The modules, in the order in which the boot loader gave them.
    pub modules: [Module; MAX_MODULES],
}

impl BootInfo {
    /// An empty one.
    pub const fn new() -> Self {
        const EMPTY: PhysRange = PhysRange { start: 0, len: 0 };
        Self {
            magic: MAGIC,
            version: VERSION,
            size: size_of::<Self>() as u32,
            kernel: EMPTY,
            rsdp: EMPTY,
            cmdline: EMPTY,
            loader_name: EMPTY,
            memory_count: 0,
            module_count: 0,
            memory: [MemoryRange { range: EMPTY, kind: MemoryKind::Reserved, reserved: 0 }; MAX_RANGES],
            modules: [Module { data: EMPTY, cmdline: EMPTY }; MAX_MODULES],
        }
    }

    /// The valid part of the memory map.
    pub fn memory(&self) -> &[MemoryRange] {
        &self.memory[..(self.memory_count as usize).min(MAX_RANGES)]
    }

    /// The valid part of the module list.
    pub fn modules(&self) -> &[Module] {
        &self.modules[..(self.module_count as usize).min(MAX_MODULES)]
    }
}

impl Default for BootInfo {
    fn default() -> Self {
        Self::new()
    }
}
