//! The loader: started by GRUB or any other multiboot loader, it puts the kernel in place and starts it.

#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "entry from the boot loader, physical memory and the jump to the kernel")]

mod entry;
mod header;
mod identity;
mod place;
mod serial;
mod trap;

use core::arch::asm;
use core::convert::Infallible;
use core::panic::PanicInfo;

use ::multiboot2::{BootInformation, BootInformationHeader};
use abi::boot::{BOOT_STACK_TOP, BootInfo, PhysRange};
use loader::error::LoaderError;
use loader::found::Found;
use loader::image::KernelImage;
use loader::memory_map::MemoryMap;
use loader::pool::Pool;
use loader::{handover, multiboot1, multiboot2};
use x86_64::structures::idt::InterruptDescriptorTable;

use crate::identity::IdentityMap;
use crate::serial::say;

/// The kernel's ELF file.
static KERNEL: &[u8] = include_bytes!(env!("LOADER_KERNEL_IMAGE"));

/// Called once by the entry code, in long mode, with EAX and EBX as the boot loader left them.
pub(crate) extern "C" fn loader_main(magic: u32, information: u32) -> ! {
    let mut idt = InterruptDescriptorTable::new();
    trap::load(&mut idt);
    let Err(error) = start(magic, information);
    say!("gossamer loader: {error}");
    halt()
}

fn start(magic: u32, information: u32) -> Result<Infallible, LoaderError> {
    let image = KernelImage::parse(KERNEL)?;
    let own_image = own_image();
    // SAFETY: The entry code has mapped the first 4 GiB; the linker script says where the image lies; this runs
    // once.
    let memory = unsafe { IdentityMap::new(own_image) };
    // Both stay on this stack, which lies in the loader's image: the kernel reads them there.
    let mut pool = Pool::new();
    let (mut info, mut map) = gather(magic, information, &memory, own_image, &mut pool)?;

    info.kernel = place::place(&image, &mut map, &memory.into_free())?;
    handover::set_memory(&mut info, &map);
    say!("gossamer loader: kernel at {:#x}, {} KiB", info.kernel.start, info.kernel.len >> 10);
    enter(image.entry, &info)
}

/// Reads everything that the boot loader handed over.
fn gather(
    magic: u32,
    information: u32,
    memory: &IdentityMap,
    own_image: PhysRange,
    pool: &mut Pool,
) -> Result<(BootInfo, MemoryMap), LoaderError> {
    let loaded;
    let (protocol, found) = match magic {
        multiboot1::MAGIC => ("multiboot", multiboot1::read(memory, information)?),
        multiboot2::MAGIC => {
            loaded = load_multiboot2(information)?;
            ("multiboot2", multiboot2::read(&loaded)?)
        }
        _ => return Err(LoaderError::NotMultiboot { magic }),
    };
    let map = handover::memory_map(&found, own_image)?;
    let info = handover::boot_info(memory, &found, &map, pool)?;
    report(protocol, &found, &map, &info);
    Ok((info, map))
}

fn load_multiboot2(address: u32) -> Result<BootInformation<'static>, LoaderError> {
    let header = address as usize as *const BootInformationHeader;
    // SAFETY: With multiboot 2's magic number in EAX, EBX points at its information, below 4 GiB and outside this
    // image. Nothing is allocated before the last use of the result.
    unsafe { BootInformation::load(header) }
        .map_err(|_| LoaderError::Malformed { what: "the multiboot 2 information" })
}

fn report(protocol: &str, found: &Found<'_>, map: &MemoryMap, info: &BootInfo) {
    say!(
        "gossamer loader: {protocol}, {}, {} MiB usable, {} modules",
        found.loader_name,
        map.usable_below(u64::MAX) >> 20,
        found.modules.len()
    );
    if info.rsdp.len == 0 {
        say!("gossamer loader: no ACPI tables found; with UEFI firmware load this file with `multiboot2`");
    }
}

fn own_image() -> PhysRange {
    unsafe extern "C" {
        static __image_start: u8;
        static __image_end: u8;
    }
    let start = (&raw const __image_start).addr() as u64;
    let end = (&raw const __image_end).addr() as u64;
    PhysRange { start, len: end - start }
}

/// Starts the kernel as `extern "C" fn(boot_info: u64) -> !`: the zero at the top of its stack stands for a
/// return address.
fn enter(entry: u64, info: &BootInfo) -> ! {
    // SAFETY: The kernel's segments and stack are mapped, and the entry point lies in an executable one.
    // Identity map and direct map stay as they are.
    unsafe {
        asm!(
            "mov rsp, {stack}",
            "xor ebp, ebp",
            "jmp {entry}",
            stack = in(reg) BOOT_STACK_TOP - 8,
            entry = in(reg) entry,
            in("rdi") core::ptr::from_ref(info),
            options(noreturn)
        )
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    say!("gossamer loader: {info}");
    halt()
}

fn halt() -> ! {
    loop {
        x86_64::instructions::hlt();
    }
}
