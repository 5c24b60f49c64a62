//! Archives in the "newc" format (Linux, Documentation/driver-api/early-userspace/buffer-format.rst). The
//! same content always gives the same bytes, and device nodes need no privilege.

/// Magic number of an entry.
const MAGIC: &str = "070701";
/// Name of the last entry.
const TRAILER: &str = "TRAILER!!!";
/// Names and contents begin and end at multiples of this.
const ALIGN: usize = 4;

/// File types, as in `st_mode`.
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFLNK: u32 = 0o120_000;

/// An archive under construction.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, S_IFDIR | 0o755, (0, 0), &[]);
    }

    /// Adds an executable file.
    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, S_IFREG | 0o755, (0, 0), content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, name: &str, target: &str) {
        self.entry(name, S_IFLNK | 0o777, (0, 0), target.as_bytes());
    }

    /// Adds a character device.
    pub fn character_device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, S_IFCHR | 0o600, (major, minor), &[]);
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.entries += 1;
        self.bytes.extend(MAGIC.as_bytes());
        let fields: [u32; 13] = [
            self.entries,          // c_ino
            mode,                  // c_mode
            0,                     // c_uid
            0,                     // c_gid
            1,                     // c_nlink
            0,                     // c_mtime
            content.len() as u32,  // c_filesize
            0,                     // c_maj
            0,                     // c_min
            major,                 // c_rmaj
            minor,                 // c_rmin
            name.len() as u32 + 1, // c_namesize
            0,                     // c_chksum
        ];
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = Archive::default();
        archive.folder("dir");
        archive.program("dir/hello", b"#!/bin/sh\n");
        archive.link("dir/link", "hello");
        archive.character_device("console", 5, 1);
        archive.finish()
    }

    #[test]
    fn header_is_110_bytes_and_entries_are_aligned() {
        let bytes = sample();
        assert_eq!(&bytes[..6], MAGIC.as_bytes());
        assert_eq!(&bytes[110..114], b"dir\0");
        assert_eq!(bytes.len() % ALIGN, 0);
        let second = (110 + 4usize).next_multiple_of(ALIGN);
        assert_eq!(&bytes[second..second + 6], MAGIC.as_bytes());
    }

    #[test]
    fn same_content_gives_same_bytes() {
        assert_eq!(sample(), sample());
    }

    /// cpio itself as the oracle, where it is installed.
    #[test]
    fn cpio_lists_the_entries() {
        use std::io::Write;
        let Ok(mut cpio) = Command::new("cpio")
            .arg("-t")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
        else {
            return;
        };
        cpio.stdin.take().expect("stdin").write_all(&sample()).expect("write");
        let listed = cpio.wait_with_output().expect("cpio").stdout;
        assert_eq!(String::from_utf8_lossy(&listed), "dir\ndir/hello\ndir/link\nconsole\n");
    }
}
