//! Names for addresses of the hypervisor.

use addr2line::Loader;
use anyhow::{Result, anyhow};
use std::fmt::Write;
use std::path::Path;

/// Addresses of the kernel begin with these hexadecimal digits (`abi::boot::KERNEL_BASE`).
const KERNEL_PREFIX: &str = "ffffffff8";
/// Hexadecimal digits of an address.
const DIGITS: usize = 16;

/// The kernel's symbols and debug data.
pub struct Symbols(Loader);

impl Symbols {
    /// From an ELF file.
    pub fn read(elf: &Path) -> Result<Self> {
        Loader::new(elf)
            .map(Self)
            .map_err(|error| anyhow!("cannot read the symbols in {}: {error}", elf.display()))
    }

    /// Adds function, file and line behind every kernel address in `text`.
    pub fn annotate(&self, text: &str) -> String {
        let mut annotated = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(KERNEL_PREFIX) {
            let digits = rest[start..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len() - start);
            let end = start + digits;
            annotated += &rest[..end];
            if digits == DIGITS
                && let Ok(address) = u64::from_str_radix(&rest[start..end], 16)
            {
                annotated += &self.name(address).unwrap_or_default();
            }
            rest = &rest[end..];
        }
        annotated + rest
    }

    /// ` <function+offset file:line>`, as far as it is known.
    fn name(&self, address: u64) -> Option<String> {
        let symbol = self.0.find_symbol_info(address)?;
        let function = addr2line::demangle_auto(symbol.name().into(), None).into_owned();
        let mut name = format!(" <{function}+{:#x}", address - symbol.address());
        // The line is a comfort that may be missing.
        if let Ok(Some(location)) = self.0.find_location(address) {
            let file = location.file.unwrap_or("?");
            let _ = write!(name, " {}:{}", shortened(file), location.line.unwrap_or(0));
        }
        name.push('>');
        Some(name)
    }
}

/// A path below the workspace without the way to it.
fn shortened(file: &str) -> String {
    let path = Path::new(file);
    path.strip_prefix(crate::paths::root()).unwrap_or(path).display().to_string()
}
