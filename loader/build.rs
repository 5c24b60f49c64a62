//! Passes the linker script, and the kernel image to embed, to the loader's program.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Path of the kernel's ELF file, set by `cargo xtask build`.
const KERNEL_VARIABLE: &str = "GOSSAMER_KERNEL";

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));

    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let script = manifest.join("link.ld");
        println!("cargo:rerun-if-changed={}", script.display());
        println!("cargo:rustc-link-arg-bins=-T{}", script.display());
    }
    println!("cargo:rerun-if-env-changed={KERNEL_VARIABLE}");
    let kernel = env::var_os(KERNEL_VARIABLE).map_or_else(|| empty_image(&out), PathBuf::from);
    println!("cargo:rerun-if-changed={}", kernel.display());
    println!("cargo:rustc-env=LOADER_KERNEL_IMAGE={}", kernel.display());
}

/// Without a kernel the loader still builds, for the sake of lints; it says so when it is started.
fn empty_image(out: &Path) -> PathBuf {
    let path = out.join("no-kernel");
    fs::write(&path, []).expect("OUT_DIR is writable");
    path
}
