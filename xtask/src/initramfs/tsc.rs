//! A program of a few bytes that prints the time-stamp counter, since no shell can read it.

/// Where it is loaded.
const BASE: u64 = 0x40_0000;
/// Size of the ELF64 header and one program header.
const HEADERS: u64 = 64 + 56;

/// Prints the counter as 16 hexadecimal digits and a line feed, then exits.
const CODE: &[u8] = &[
    0x0f, 0x31, // rdtsc
    0x48, 0xc1, 0xe2, 0x20, // shl rdx, 32
    0x48, 0x09, 0xc2, // or rdx, rax
    0x48, 0x83, 0xec, 0x20, // sub rsp, 32
    0xb9, 0x10, 0x00, 0x00, 0x00, // mov ecx, 16
    0x48, 0x89, 0xe7, // mov rdi, rsp
    // next:
    0x48, 0xc1, 0xc2, 0x04, // rol rdx, 4
    0x89, 0xd0, // mov eax, edx
    0x83, 0xe0, 0x0f, // and eax, 15
    0x3c, 0x0a, // cmp al, 10
    0x72, 0x02, // jb digit
    0x04, 0x27, // add al, 'a' - '0' - 10
    // digit:
    0x04, 0x30, // add al, '0'
    0xaa, // stosb
    0xff, 0xc9, // dec ecx
    0x75, 0xea, // jnz next
    0xc6, 0x07, 0x0a, // mov byte [rdi], '\n'
    0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax, 1 (write)
    0xbf, 0x01, 0x00, 0x00, 0x00, // mov edi, 1
    0x48, 0x89, 0xe6, // mov rsi, rsp
    0xba, 0x11, 0x00, 0x00, 0x00, // mov edx, 17
    0x0f, 0x05, // syscall
    0xb8, 0x3c, 0x00, 0x00, 0x00, // mov eax, 60 (exit)
    0x31, 0xff, // xor edi, edi
    0x0f, 0x05, // syscall
];

/// The program as an ELF64 executable of one segment.
pub fn program() -> Vec<u8> {
    let size = HEADERS + CODE.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(2u16.to_le_bytes()); // e_type: ET_EXEC
    file.extend(62u16.to_le_bytes()); // e_machine: EM_X86_64
    file.extend(1u32.to_le_bytes()); // e_version
    for field in [BASE + HEADERS, 64, 0] {
        file.extend(u64::to_le_bytes(field)); // e_entry, e_phoff, e_shoff
    }
    file.extend(0u32.to_le_bytes()); // e_flags
    for field in [64u16, 56, 1, 0, 0, 0] {
        file.extend(field.to_le_bytes()); // e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx
    }
    file.extend(1u32.to_le_bytes()); // p_type: PT_LOAD
    file.extend(5u32.to_le_bytes()); // p_flags: readable, executable
    for field in [0, BASE, BASE, size, size, 4096] {
        file.extend(u64::to_le_bytes(field)); // p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
    }
    file.extend(CODE);
    file
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn prints_a_counter_that_grows() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("tsc");
        std::fs::write(&path, super::program()).expect("write");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let read = || {
            let output = Command::new(&path).output().expect("runs");
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).expect("text");
            assert_eq!(text.len(), 17);
            u64::from_str_radix(text.trim(), 16).expect("hexadecimal")
        };
        let first = read();
        assert!(read() > first);
    }
}
