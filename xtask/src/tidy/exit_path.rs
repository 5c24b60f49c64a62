//! What runs between an exit and the next entry neither allocates, formats, logs, nor waits for a lock
//! (docs/ARCHITECTURE.md, "The life of an exit").

use super::{Finding, Source};

/// Files and folders that run between an exit and the next entry.
const MODULES: &[&str] = &[
    "kernel/src/hw/svm/entry.rs",
    "kernel/src/hw/svm/exit.rs",
    "kernel/src/hw/svm/older_cpus.rs",
    "kernel/src/hw/svm/vcpu.rs",
    "kernel/src/hw/vmx/entry.rs",
    "kernel/src/hw/vmx/exit.rs",
    "kernel/src/hw/vmx/host_event.rs",
    "kernel/src/hw/vmx/instructions.rs",
    "kernel/src/hw/vmx/vcpu.rs",
    "kernel/src/run.rs",
    "kernel/vmm/src/clock.rs",
    "kernel/vmm/src/counters.rs",
    "kernel/vmm/src/events.rs",
    "kernel/vmm/src/exit.rs",
    "kernel/vmm/src/exits",
    "kernel/vmm/src/hazard.rs",
    "kernel/vmm/src/lapic",
    "kernel/vmm/src/memory.rs",
    "kernel/vmm/src/msr",
    "kernel/vmm/src/vcpu.rs",
];
/// What of them runs only when a virtual machine stops or misbehaves for the first time.
const COLD: &[&str] = &["kernel/vmm/src/exits/report.rs"];
/// What must not stand there.
const FORBIDDEN: &[&str] =
    &["alloc::", "format!", "format_args!", "println!", ".lock()", "log::", "Box::", "Vec::", "String::"];
/// Where a file's tests begin.
const TESTS: &str = "#[cfg(test)]";

/// Checks the files of the exit path.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in MODULES {
        let mut files = sources.iter().filter(|source| source.path.starts_with(module)).peekable();
        if files.peek().is_none() {
            let message = "belongs to the exit path in tidy, but does not exist".to_owned();
            findings.push(Finding { file: module.into(), line: None, message });
        }
        findings.extend(files.filter(|source| !is_exempt(source)).flat_map(wrong));
    }
    findings
}

fn is_exempt(source: &Source) -> bool {
    COLD.iter().any(|cold| source.path.ends_with(cold))
        || source.path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

fn wrong(source: &Source) -> Vec<Finding> {
    let code = source.text.lines().enumerate().take_while(|(_, line)| !line.contains(TESTS));
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut findings = Vec::new();
    for (number, line) in code {
        for word in FORBIDDEN.iter().filter(|word| has_word(line, word)) {
            findings.push(source.finding(Some(number + 1), format!("'{word}' on the exit path")));
        }
    }
    findings
}

/// Whether `word` stands in the line, and not as the end of a longer name such as `ArrayVec::`.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        word.starts_with('.') || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<(Option<usize>, String)> {
        let source = Source { path: path.into(), text: text.to_owned() };
        let found = check(&[source]).into_iter().filter(|finding| finding.line.is_some());
        found.map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn locks_are_found_outside_of_comments_and_tests() {
        let text = "// alloc::\nfn f() { q.lock() }\n#[cfg(test)]\nmod t { use alloc::vec; }\n";
        assert_eq!(findings(MODULES[0], text), [(Some(2), "'.lock()' on the exit path".to_owned())]);
    }

    #[test]
    fn names_are_whole() {
        assert_eq!(findings(MODULES[0], "let a = ArrayVec::new();"), []);
        assert_eq!(findings(MODULES[0], "let a = Vec::new();").len(), 1);
    }

    #[test]
    fn other_files_may() {
        assert_eq!(findings("kernel/src/main.rs", "log::info!()"), []);
        assert_eq!(findings(COLD[0], "format!()"), []);
    }

    #[test]
    fn the_list_must_be_true() {
        assert_eq!(check(&[]).len(), MODULES.len());
    }
}
