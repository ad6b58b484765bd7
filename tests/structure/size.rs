//! Limits on files, functions, packages; locks that guard nothing.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use crate::source::{self, SourceFile, workspace};

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
const PACKAGES_MAX: usize = 20;

struct Functions<'a> {
    path: &'a str,
    limit: usize,
    found: Vec<String>,
}

impl Functions<'_> {
    fn check(&mut self, signature: &syn::Signature, end: Span) {
        let start = signature.fn_token.span.start().line;
        let lines = end.end().line - start + 1;
        if lines > self.limit {
            let (path, name) = (self.path, &signature.ident);
            self.found
                .push(format!("{path}: {name} in line {start} has {lines} lines"));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.check(&function.sig, function.block.brace_token.span.close());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check(&function.sig, function.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.check(&function.sig, block.brace_token.span.close());
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn long_functions(file: &SourceFile, limit: usize) -> Vec<String> {
    let parsed = syn::parse_file(&file.text).expect("valid Rust");
    let mut functions = Functions {
        path: &file.path,
        limit,
        found: Vec::new(),
    };
    functions.visit_file(&parsed);
    functions.found
}

fn all_rust() -> Vec<SourceFile> {
    source::files(&["crates", "bench", "tests"], &[".rs"])
}

#[test]
fn no_file_is_too_long() {
    let long = all_rust().into_iter().filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", file.path))
    });
    crate::assert_none(&long.collect::<Vec<_>>());
}

#[test]
fn no_function_is_too_long() {
    let files = source::crate_files();
    let found = files
        .iter()
        .flat_map(|file| long_functions(file, FUNCTION_LINES_MAX));
    crate::assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn a_planted_long_function_is_found() {
    let file = SourceFile {
        path: "planted.rs".into(),
        text: "struct A;\nimpl A {\n    fn long() {\n        f();\n        g();\n    }\n}\n".into(),
    };
    assert!(long_functions(&file, 4).is_empty());
    assert_eq!(
        long_functions(&file, 3),
        ["planted.rs: long in line 3 has 4 lines"]
    );
}

#[test]
fn the_workspace_has_few_packages() {
    let manifests = source::files(&["crates", "bench", "bindings"], &["Cargo.toml"]);
    assert!(
        !manifests.is_empty() && manifests.len() <= PACKAGES_MAX,
        "{}",
        manifests.len()
    );
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).expect("Cargo.toml");
    assert!(
        manifest.contains(r#"members = ["crates/*", "bench", "bindings/c", "bindings/python"]"#),
        "count the new members here"
    );
}

#[test]
fn locks_guard_data() {
    let bare = regex::Regex::new(r"\b(Mutex|RwLock|RwSem)<\(\)>").expect("a pattern");
    let found: Vec<String> = source::files(&["crates", "bench", "tests", "examples"], &["rs"])
        .iter()
        // It names what it looks for.
        .filter(|file| !file.path.ends_with("structure/size.rs"))
        .flat_map(|file| {
            let tests = file.text.find("#[cfg(test)]").unwrap_or(file.text.len());
            let product = &file.text[..tests];
            let hits = bare.find_iter(product);
            hits.map(|hit| {
                format!(
                    "{}:{}: {}",
                    file.path,
                    file.line_of(hit.start()),
                    hit.as_str()
                )
            })
            .collect::<Vec<_>>()
        })
        .collect();
    crate::assert_none(&found);
}
