//! Links the guests at their fixed address (see link.ld).

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
        println!("cargo::rustc-link-arg-bins=--no-pie");
        println!("cargo::rustc-link-arg-bins=-T{folder}/link.ld");
    }
}
