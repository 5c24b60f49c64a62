//! Links each guest where it runs (see link.ld and demo.ld), and writes the table of instructions that the guest tests
//! execute.

use std::fmt::Write;
use std::path::Path;

/// The guests made of tests.
const TESTS: [&str; 2] = ["guest-tests", "hostile"];
/// The demonstration kernels and their addresses.
const DEMOS: [(&str, u64); 6] = [
    ("demo-real-mode", 0x8000),
    ("demo-multiboot1", 1 << 20),
    ("demo-multiboot1-aout", 4 << 20),
    ("demo-multiboot2", 12 << 20),
    ("demo-pvh", 2 << 20),
    ("demo-high", (1 << 30) + (1 << 20)),
];

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rerun-if-changed=demo.ld");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        link();
    }
    let folder = std::env::var("OUT_DIR").expect("set by cargo");
    std::fs::write(Path::new(&folder).join("forms.rs"), forms()).expect("OUT_DIR can be written");
}

/// Gives the linker an address for each guest.
fn link() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    println!("cargo::rustc-link-arg-bins=--no-pie");
    for name in TESTS {
        println!("cargo::rustc-link-arg-bin={name}=-T{folder}/link.ld");
    }
    for (name, address) in DEMOS {
        for argument in [format!("-T{folder}/demo.ld"), format!("--defsym=load_address={address}")] {
            println!("cargo::rustc-link-arg-bin={name}={argument}");
        }
        println!("cargo::rustc-link-arg-bin={name}=--strip-all");
    }
}

/// The table as a static; its types have the same names on both sides.
fn forms() -> String {
    let mut text = String::from("static FORMS: &[Form] = &[\n");
    for form in instruction_cases::forms() {
        let instruction_cases::Form { name, code, width, needs, cases } = form;
        writeln!(
            text,
            "Form {{ name: {name:?}, code: &{code:?}, width: {width}, needs: Needs::{needs:?}, cases: &{cases:?} }},"
        )
        .expect("a String takes everything");
    }
    text + "];\n"
}
