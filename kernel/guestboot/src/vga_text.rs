//! The VGA text page as multiboot describes it: 80 by 25 characters, each with an attribute byte.

use crate::memory_map::TEXT_PAGE;
use x86defs::addr::Gpa;

/// First character.
pub const PAGE: Gpa = TEXT_PAGE;
/// Characters in a line.
pub const COLUMNS: u32 = 80;
/// Lines.
pub const ROWS: u32 = 25;
/// Bits of a character with its attributes.
pub const BITS_PER_CHARACTER: u8 = 16;
/// Bytes of a line.
pub const PITCH: u32 = COLUMNS * BITS_PER_CHARACTER as u32 / 8;
/// `framebuffer_type`: EGA text, where width and height count characters.
pub const FRAMEBUFFER_TYPE: u8 = 2;
