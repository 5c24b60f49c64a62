//! What runs between an exit and the next entry neither allocates, formats, logs, nor waits for a lock
//! (docs/ARCHITECTURE.md, "The life of an exit").

use super::{Finding, Source};

/// Files, or folders, that run on every exit.
const MODULES: &[&str] = &[
    "kernel/src/hw/svm/entry.rs",
    "kernel/src/hw/svm/exit.rs",
    "kernel/src/hw/svm/vcpu.rs",
    "kernel/src/hw/vmx/entry.rs",
    "kernel/src/hw/vmx/exit.rs",
    "kernel/src/hw/vmx/vcpu.rs",
    "kernel/vmm/src/clock.rs",
    "kernel/vmm/src/cpuid/mod.rs",
    "kernel/vmm/src/exits/control.rs",
    "kernel/vmm/src/exits/exception.rs",
    "kernel/vmm/src/exits/instructions.rs",
    "kernel/vmm/src/exits/io.rs",
    "kernel/vmm/src/exits/mmio.rs",
    "kernel/vmm/src/exits/mod.rs",
    "kernel/vmm/src/exits/msr.rs",
    "kernel/vmm/src/hazard.rs",
    "kernel/vmm/src/lapic/",
    "kernel/vmm/src/vcpu.rs",
];
/// What must not stand there.
const FORBIDDEN: &[&str] =
    &["alloc::", "format!", "format_args!", "println!", ".lock()", "log::", "Box::", "Vec::", "String::"];
/// Where a file's tests begin.
const TESTS: &str = "#[cfg(test)]";

/// Checks the files of the exit path.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    sources
        .iter()
        .filter(|source| MODULES.iter().any(|module| source.path.starts_with(module)))
        .flat_map(wrong)
        .collect()
}

fn wrong(source: &Source) -> Vec<Finding> {
    let code = source.text.lines().enumerate().take_while(|(_, line)| !line.contains(TESTS));
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut findings = Vec::new();
    for (number, line) in code {
        for word in FORBIDDEN.iter().filter(|word| line.contains(**word)) {
            findings.push(source.finding(Some(number + 1), format!("'{word}' on the exit path")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_is_found_outside_of_comments_and_tests() {
        let text = "// alloc::\nfn f() { q.lock() }\n#[cfg(test)]\nmod t { use alloc::vec; }\n".to_owned();
        let source = Source { path: MODULES[0].into(), text };
        let findings = check(&[source]);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].line, findings[0].message.as_str()), (Some(2), "'.lock()' on the exit path"));
    }

    #[test]
    fn other_files_may() {
        assert!(
            check(&[Source { path: "kernel/src/main.rs".into(), text: "log::info!()".into() }]).is_empty()
        );
    }
}
