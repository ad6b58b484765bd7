//! The modules of each folder use one another in one direction only.
//!
//! A folder's children are its nodes, each with its whole subtree. Child `a` depends on child `b` if
//! a file of `a` names an item below `b` by `crate::`, `super::`, `self::` or the name of a module.
//! A name that a module re-exports counts for the module that defines it. What a child uses of its own
//! parent does not count, nor does code under `#[cfg(test)]`.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::source::{self, SourceFile};

/// A module by its path from the crate's root.
type Module = Vec<String>;

/// A path of a file: its parts, and the line that has it.
struct Reference {
    parts: Vec<String>,
    line: usize,
    exported: bool,
}

#[derive(Default)]
struct References {
    found: Vec<Reference>,
}

impl References {
    fn use_tree(&mut self, prefix: &[String], tree: &syn::UseTree, exported: bool) {
        let mut parts = prefix.to_vec();
        let ident = match tree {
            syn::UseTree::Path(path) => {
                parts.push(path.ident.to_string());
                return self.use_tree(&parts, &path.tree, exported);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(prefix, tree, exported);
                }
                return;
            }
            syn::UseTree::Glob(_) => None,
            syn::UseTree::Name(name) => Some(&name.ident),
            syn::UseTree::Rename(rename) => Some(&rename.ident),
        };
        let line = match (ident, tree) {
            (Some(ident), _) => ident.span().start().line,
            (None, syn::UseTree::Glob(glob)) => glob.star_token.span.start().line,
            (None, _) => 0,
        };
        parts.extend(ident.map(ToString::to_string));
        self.found.push(Reference {
            parts,
            line,
            exported,
        });
    }

    /// Paths in the arguments of a macro, which are tokens only.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut parts, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 && !parts.is_empty() => {
                    parts.push(ident.to_string());
                }
                TokenTree::Ident(ident) => {
                    self.add_path(std::mem::take(&mut parts), line);
                    line = ident.span().start().line;
                    parts.push(ident.to_string());
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => self.add_path(std::mem::take(&mut parts), line),
            }
            colons = 0;
        }
        self.add_path(parts, line);
    }

    fn add_path(&mut self, parts: Vec<String>, line: usize) {
        let rooted = parts
            .first()
            .is_some_and(|part| matches!(part.as_str(), "crate" | "super" | "self"));
        if rooted && parts.len() > 1 {
            self.found.push(Reference {
                parts,
                line,
                exported: false,
            });
        }
    }
}

/// Whether an attribute leaves the item out of a normal build.
fn only_in_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return attribute.path().is_ident("test");
        };
        let condition = list.tokens.to_string();
        let negated = regex::Regex::new(r"not\s*\([^)]*\)").expect("a pattern");
        let condition = negated.replace_all(&condition, "");
        let words = ["test", "loom", "shuttle"];
        list.path.is_ident("cfg") && words.iter().any(|word| condition.contains(word))
    })
}

impl<'ast> Visit<'ast> for References {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !only_in_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let exported = !matches!(item.vis, syn::Visibility::Inherited);
        self.use_tree(&[], &item.tree, exported);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        let line = path.segments[0].ident.span().start().line;
        self.add_path(parts.collect(), line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.tokens(invocation.tokens.clone());
    }
}

/// The modules of a crate and what each names.
struct Crate {
    files: BTreeMap<Module, (String, Vec<Reference>)>,
    /// What a module's name stands for, if it exports the item of another module.
    exports: BTreeMap<(Module, String), Module>,
}

impl Crate {
    fn new(root: &str, sources: &[SourceFile]) -> Self {
        let mut files = BTreeMap::new();
        for file in sources {
            let inner = file.path.strip_prefix(root).expect("below the root");
            let inner = inner.trim_start_matches('/').trim_end_matches(".rs");
            let mut module: Module = inner.split('/').map(str::to_owned).collect();
            if module.last().is_some_and(|name| name == "mod") || ["lib", "main"].contains(&inner) {
                module.pop();
            }
            if module
                .last()
                .is_some_and(|name| matches!(name.as_str(), "tests" | "loom_tests"))
            {
                continue;
            }
            let mut references = References::default();
            references.visit_file(&syn::parse_file(&file.text).expect("valid Rust"));
            files.insert(module, (file.path.clone(), references.found));
        }
        let mut this = Self {
            files,
            exports: BTreeMap::new(),
        };
        this.exports = this.find_exports();
        this
    }

    fn find_exports(&self) -> BTreeMap<(Module, String), Module> {
        let mut exports = BTreeMap::new();
        for (module, (_, references)) in &self.files {
            for reference in references.iter().filter(|reference| reference.exported) {
                if let Some(mut target) = self.absolute(module, &reference.parts)
                    && let Some(name) = target.pop()
                {
                    exports.insert((module.clone(), name), target);
                }
            }
        }
        exports
    }

    /// The path from the crate's root; `None` for one into another crate.
    fn absolute(&self, module: &Module, parts: &[String]) -> Option<Module> {
        let mut base = module.clone();
        let mut rest = parts;
        match parts.first()?.as_str() {
            "crate" => base.clear(),
            "self" | "super" => {}
            name => {
                base.push(name.to_owned());
                if !self.files.contains_key(&base) {
                    return None;
                }
                base.pop();
            }
        }
        while let [first, after @ ..] = rest
            && matches!(first.as_str(), "crate" | "self" | "super")
        {
            if first == "super" {
                base.pop();
            }
            rest = after;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The module that defines what `module` names by `parts`.
    fn target(&self, module: &Module, parts: &[String]) -> Option<Module> {
        let mut path = self.absolute(module, parts)?;
        for _ in 0..8 {
            let mut length = path.len();
            while length > 0 && !self.files.contains_key(&path[..length]) {
                length -= 1;
            }
            let item = path.get(length).cloned();
            path.truncate(length);
            let export = item.and_then(|item| {
                let target = self.exports.get(&(path.clone(), item.clone()))?;
                Some([target.as_slice(), &[item]].concat())
            });
            match export {
                Some(next) => path = next,
                None => return Some(path),
            }
        }
        Some(path)
    }

    /// The edges between the children of `folder`, each with the first place that makes it.
    fn edges(&self, folder: &[String]) -> BTreeMap<&str, BTreeMap<String, String>> {
        let depth = folder.len();
        let mut edges: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for (module, (path, references)) in &self.files {
            if !module.starts_with(folder) || module.len() <= depth {
                continue;
            }
            for reference in references {
                let Some(target) = self.target(module, &reference.parts) else {
                    continue;
                };
                let inside = target.starts_with(folder) && target.len() > depth;
                if inside && target[depth] != module[depth] {
                    let line = reference.line;
                    edges
                        .entry(module[depth].as_str())
                        .or_default()
                        .entry(target[depth].clone())
                        .or_insert_with(|| {
                            format!("{path}:{line}: {}", reference.parts.join("::"))
                        });
                }
            }
        }
        edges
    }

    /// One line for each edge that is part of a cycle.
    fn cycles(&self) -> Vec<String> {
        let folders: BTreeSet<&[String]> = self
            .files
            .keys()
            .flat_map(|module| (0..module.len()).map(|end| &module[..end]))
            .collect();
        let mut found = Vec::new();
        for folder in folders {
            let edges = self.edges(folder);
            for (from, targets) in &edges {
                for (to, place) in targets {
                    if reaches(&edges, to, from) {
                        found.push(format!("{place} closes a cycle: {from} -> {to} -> {from}"));
                    }
                }
            }
        }
        found
    }
}

fn reaches(edges: &BTreeMap<&str, BTreeMap<String, String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(node) = open.pop() {
        if node == to {
            return true;
        }
        if seen.insert(node)
            && let Some(targets) = edges.get(node)
        {
            open.extend(targets.keys().map(String::as_str));
        }
    }
    false
}

#[test]
fn no_crate_has_a_module_cycle() {
    let mut found = Vec::new();
    for root in source::crate_sources() {
        found.extend(Crate::new(&root, &source::files(&[root.as_str()], &[".rs"])).cycles());
    }
    crate::assert_none(&found);
}

#[test]
fn planted_cycles_are_found() {
    let file = |path: &str, text: &str| SourceFile {
        path: format!("src/{path}"),
        text: text.into(),
    };
    let cycles = |files: &[SourceFile]| Crate::new("src", files).cycles();
    let root = file("lib.rs", "mod a;\nmod b;\npub use b::item;\n");
    let a = file("a.rs", "fn f() { println!(\"{}\", crate::item()); }\n");
    let plain = file(
        "b/mod.rs",
        "mod c;\npub fn item() {}\n#[cfg(test)]\nmod tests { use crate::a::f; }\n",
    );
    let above = file("b/c.rs", "use super::item;\n");
    assert_eq!(cycles(&[root, a, plain, above]), Vec::<String>::new());

    let root = file("lib.rs", "mod a;\nmod b;\npub use b::item;\n");
    let a = file("a.rs", "fn f() { println!(\"{}\", crate::item()); }\n");
    let back = file("b/mod.rs", "mod c;\n");
    let child = file("b/c.rs", "fn g() {\n    super::super::a::f()\n}\n");
    let found = cycles(&[root, a, back, child]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[1].starts_with("src/b/c.rs:2: super::super::a::f closes"),
        "{found:?}"
    );
}
