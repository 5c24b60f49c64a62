//! The project speaks of itself alone, and is finished.

use super::{Finding, Source};

/// What must not stand anywhere, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("/home/", "a path of somebody's machine"),
    ("/root/", "a path of somebody's machine"),
    ("/tmp/", "a path of somebody's machine"),
    ("TODO", "do it, or file an issue"),
    ("FIXME", "fix it, or file an issue"),
    ("todo!(", "not finished"),
    ("unimplemented!(", "not finished"),
    ("#[ignore", "a test that is not run shows nothing"),
];
/// The file that has to name them.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// Checks a text file.
pub fn check(source: &Source) -> Vec<Finding> {
    if source.path.ends_with(THIS_FILE) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
            findings.push(source.finding(Some(number + 1), format!("'{word}': {why}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_named() {
        let source = Source { path: "a.md".into(), text: "fine\nsee /tmp/x\n".into() };
        assert_eq!(check(&source)[0].to_string(), "a.md:2: '/tmp/': a path of somebody's machine");
    }
}
