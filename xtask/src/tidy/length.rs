//! A file fits one sitting, a function one screen.

use super::{Finding, Source};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Most lines of a file.
const FILE_LINES: usize = 500;
/// Most lines of a function.
const FUNCTION_LINES: usize = 60;
/// Tables may be longer: files that hold one entry per architectural fact.
const TABLES: &[&str] = &[
    "kernel/x86defs/src/cpuid.rs",
    "kernel/x86defs/src/msr.rs",
    "kernel/x86defs/src/vmcs.rs",
    "kernel/vmm/src/cpuid/table.rs",
];

/// Checks a Rust file.
pub fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES && !TABLES.iter().any(|table| source.path.ends_with(table)) {
        findings.push(source.finding(None, format!("{lines} lines, at most {FILE_LINES}: split it by idea")));
    }
    match syn::parse_file(&source.text) {
        Ok(file) => {
            let mut functions = Functions { source, findings };
            functions.visit_file(&file);
            functions.findings
        }
        Err(error) => {
            findings
                .push(source.finding(Some(error.span().start().line), format!("cannot be parsed: {error}")));
            findings
        }
    }
}

struct Functions<'a> {
    source: &'a Source,
    findings: Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, name: &syn::Ident, body: Span) {
        let (start, end) = (body.start().line, body.end().line);
        let lines = end - start + 1;
        if lines > FUNCTION_LINES {
            let message = format!("'{name}' has {lines} lines, at most {FUNCTION_LINES}");
            self.findings.push(self.source.finding(Some(start), message));
        }
    }
}

impl<'a> Visit<'a> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.measure(&function.sig.ident, function.block.span());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.measure(&function.sig.ident, function.block.span());
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: String) -> Vec<String> {
        let source = Source { path: "kernel/a.rs".into(), text };
        check(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_functions_are_found() {
        let body = "let _ = 1;\n".repeat(FUNCTION_LINES - 2);
        assert!(findings(format!("fn f() {{\n{body}}}\n")).is_empty());
        let long = format!("\nstruct S;\nimpl S {{ fn f() {{\n{body}let _ = 2;\n}} }}\n");
        assert_eq!(findings(long), ["kernel/a.rs:3: 'f' has 61 lines, at most 60"]);
    }

    #[test]
    fn long_files_are_found_and_tables_are_not() {
        let text = "const A: u8 = 1;\n".repeat(FILE_LINES + 1);
        assert_eq!(findings(text.clone()), ["kernel/a.rs: 501 lines, at most 500: split it by idea"]);
        assert!(check(&Source { path: TABLES[0].into(), text }).is_empty());
    }

    #[test]
    fn what_is_no_rust_is_reported() {
        assert_eq!(findings("fn fn".to_owned()).len(), 1);
    }
}
