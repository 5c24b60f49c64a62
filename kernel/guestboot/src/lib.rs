//! What a guest starts from: its configuration, its memory map, its ACPI tables, and its kernel laid out in
//! memory. Nothing here touches the machine: [`plan::start_plan`] returns copies and an entry state, and the
//! kernel carries them out.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod bios_data;
pub mod config;
mod duration;
pub mod entry;
pub mod image;
pub mod kernel_format;
pub mod linux;
pub mod memory_map;
pub mod modules;
pub mod multiboot1;
pub mod multiboot2;
pub mod plan;
pub mod platform;
pub mod pvh;
pub mod reset_vector;
mod size;
mod space;
pub mod stage;
#[cfg(test)]
mod testing;
pub mod vga_text;
