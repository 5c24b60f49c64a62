//! Links the guests at their fixed address (see link.ld), and writes the table of instructions that they execute.

use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
        println!("cargo::rustc-link-arg-bins=--no-pie");
        println!("cargo::rustc-link-arg-bins=-T{folder}/link.ld");
    }
    let folder = std::env::var("OUT_DIR").expect("set by cargo");
    std::fs::write(Path::new(&folder).join("forms.rs"), forms()).expect("OUT_DIR can be written");
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
