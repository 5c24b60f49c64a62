//! Links the kernel at its fixed virtual address.

fn main() {
    println!("cargo:rerun-if-changed=link.ld");
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    for arg in
        [format!("-T{dir}/link.ld"), "--no-pie".into(), "-znostart-stop-gc".into(), "--build-id=none".into()]
    {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
}
