//! The headers by which boot loaders recognise the file and learn what it wants.

/// Multiboot 0.6.96, section 3.1.1.
#[repr(C, align(4))]
struct Multiboot1Header {
    magic: u32,
    flags: u32,
    checksum: u32,
}

const MULTIBOOT1_MAGIC: u32 = 0x1bad_b002;
/// Modules begin on page boundaries.
const PAGE_ALIGN: u32 = 1 << 0;
/// The memory map is wanted.
const MEMORY_INFO: u32 = 1 << 1;
const MULTIBOOT1_FLAGS: u32 = PAGE_ALIGN | MEMORY_INFO;

#[used]
#[unsafe(link_section = ".multiboot")]
static MULTIBOOT1: Multiboot1Header = Multiboot1Header {
    magic: MULTIBOOT1_MAGIC,
    flags: MULTIBOOT1_FLAGS,
    checksum: 0u32.wrapping_sub(MULTIBOOT1_MAGIC).wrapping_sub(MULTIBOOT1_FLAGS),
};

/// Multiboot 2.0, section 3.1.1, with its tags.
#[repr(C, align(8))]
struct Multiboot2Header {
    magic: u32,
    architecture: u32,
    header_length: u32,
    checksum: u32,
    relocatable: Relocatable,
    module_align: Tag,
    end: Tag,
}

/// The beginning of every header tag (3.1.3).
#[repr(C, align(8))]
struct Tag {
    kind: u16,
    flags: u16,
    size: u32,
}

/// Relocatable header tag (3.1.12).
#[repr(C, align(8))]
struct Relocatable {
    tag: Tag,
    min_addr: u32,
    max_addr: u32,
    align: u32,
    preference: u32,
}

const MULTIBOOT2_MAGIC: u32 = 0xe852_50d6;
const ARCHITECTURE_I386: u32 = 0;
const TAG_END: u16 = 0;
const TAG_MODULE_ALIGN: u16 = 6;
const TAG_RELOCATABLE: u16 = 10;
const PREFER_LOWEST: u32 = 1;
const MULTIBOOT2_LEN: u32 = size_of::<Multiboot2Header>() as u32;

const ONE_MIB: u32 = 1 << 20;
const PAGE: u32 = x86defs::addr::PAGE_SIZE as u32;

impl Tag {
    const fn new(kind: u16, size: usize) -> Self {
        Self { kind, flags: 0, size: size as u32 }
    }
}

#[used]
#[unsafe(link_section = ".multiboot")]
static MULTIBOOT2: Multiboot2Header = Multiboot2Header {
    magic: MULTIBOOT2_MAGIC,
    architecture: ARCHITECTURE_I386,
    header_length: MULTIBOOT2_LEN,
    checksum: 0u32
        .wrapping_sub(MULTIBOOT2_MAGIC)
        .wrapping_sub(ARCHITECTURE_I386)
        .wrapping_sub(MULTIBOOT2_LEN),
    relocatable: Relocatable {
        tag: Tag::new(TAG_RELOCATABLE, size_of::<Relocatable>()),
        min_addr: ONE_MIB,
        max_addr: u32::MAX,
        align: PAGE,
        preference: PREFER_LOWEST,
    },
    module_align: Tag::new(TAG_MODULE_ALIGN, size_of::<Tag>()),
    end: Tag::new(TAG_END, size_of::<Tag>()),
};
