//! The rewriting: each mutant is a condition at its place.
//!
//! # Data model
//! Text is only inserted, and operators are replaced, so that mutants nest: what opens at a place is inserted from the outside in, what closes
//! there from the inside out.

use anyhow::Result;
use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Type, UnOp};

/// A change of the program.
pub struct Mutant {
    pub id: u32,
    pub line: usize,
    pub function: String,
    pub what: String,
}

pub struct Rewritten {
    pub text: String,
    pub mutants: Vec<Mutant>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Close,
    Replace,
    Open,
}

struct Edit {
    at: usize,
    side: Side,
    /// Bytes that go.
    removed: usize,
    text: String,
}

struct Rewriter<'s> {
    source: &'s str,
    lines: Vec<usize>,
    edits: Vec<Edit>,
    mutants: Vec<Mutant>,
    next: u32,
    function: Vec<String>,
    /// Lines whose mutants do not compile.
    skipped: &'s [usize],
}

/// Puts the mutants of a file into its text, but for those of lines that are skipped; they are numbered from `next`.
pub fn rewrite(source: &str, next: u32, skipped: &[usize]) -> Result<Rewritten> {
    let file = syn::parse_file(source)?;
    let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1));
    let mut rewriter = Rewriter {
        source,
        lines: lines.collect(),
        edits: Vec::new(),
        mutants: Vec::new(),
        next,
        function: Vec::new(),
        skipped,
    };
    rewriter.visit_file(&file);
    let mut edits = rewriter.edits;
    edits.sort_by_key(|edit| (edit.at, edit.side));
    let (mut text, mut at) = (String::new(), 0);
    for edit in edits {
        text.push_str(&source[at..edit.at.max(at)]);
        text.push_str(&edit.text);
        at = at.max(edit.at + edit.removed);
    }
    text.push_str(&source[at..]);
    Ok(Rewritten {
        text,
        mutants: rewriter.mutants,
    })
}

/// The condition of a mutant.
fn chosen(id: u32) -> String {
    format!("::uext4_sync::mutant({id})")
}

impl Rewriter<'_> {
    fn offset(&self, place: LineColumn) -> usize {
        let start = self.lines[place.line - 1];
        let rest = &self.source[start..];
        let byte = rest.char_indices().nth(place.column);
        start + byte.map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, span: Span) -> std::ops::Range<usize> {
        self.offset(span.start())..self.offset(span.end())
    }

    fn add(&mut self, span: Span, what: String) -> u32 {
        let id = self.next;
        self.next += 1;
        self.mutants.push(Mutant {
            id,
            line: span.start().line,
            function: self.function.join("::"),
            what,
        });
        id
    }

    fn is_skipped(&self, span: Span) -> bool {
        self.skipped.contains(&span.start().line)
    }

    fn insert(&mut self, at: usize, side: Side, text: String) {
        self.edits.push(Edit {
            at,
            side,
            removed: 0,
            text,
        });
    }

    fn replace(&mut self, range: std::ops::Range<usize>, text: String) {
        self.edits.push(Edit {
            at: range.start,
            side: Side::Replace,
            removed: range.len(),
            text,
        });
    }

    /// Returns of a function that does nothing else.
    fn returns(&mut self, name: &str, output: &ReturnType, body: &syn::Block) {
        let values = match output {
            ReturnType::Default => vec![String::new()],
            ReturnType::Type(_, ty) => values_of(ty),
        };
        if body.stmts.is_empty() || self.is_skipped(body.span()) {
            return;
        }
        let at = self.offset(body.brace_token.span.open().end());
        for value in values {
            let what = format!(
                "{name} returns {}",
                if value.is_empty() { "()" } else { &value }
            );
            let id = self.add(body.span(), what);
            let condition = chosen(id);
            self.insert(
                at,
                Side::Open,
                format!(" if {condition} {{ return {value}; }}"),
            );
        }
    }

    fn in_function(&mut self, sig: &syn::Signature, body: &syn::Block) {
        if sig.constness.is_some() || sig.ident == "fmt" {
            return;
        }
        let name = sig.ident.to_string();
        self.function.push(name.clone());
        self.returns(&name, &sig.output, body);
        visit::visit_block(self, body);
        self.function.pop();
    }

    fn binary(&mut self, expr: &syn::ExprBinary) {
        if self.is_skipped(expr.op.span()) {
            return visit::visit_expr_binary(self, expr);
        }
        let (whole, op) = (self.range(expr.span()), self.range(expr.op.span()));
        let symbol = self.source[op.clone()].to_owned();
        if let Some(others) = comparisons(&expr.op) {
            let mut arms = String::new();
            for other in others {
                let id = self.add(expr.op.span(), format!("{symbol} becomes {other}"));
                arms += &format!("if {} {{ __l {other} __r }} else ", chosen(id));
            }
            self.insert(whole.start, Side::Open, "(match (&(".into());
            visit::visit_expr_binary(self, expr);
            self.replace(op, "), &(".into());
            let close = format!(")) {{ (__l, __r) => {arms}{{ __l {symbol} __r }} }})");
            self.insert(whole.end, Side::Close, close);
            return;
        }
        if matches!(expr.op, BinOp::And(_) | BinOp::Or(_)) {
            if has_let(&expr.left) || has_let(&expr.right) {
                return visit::visit_expr_binary(self, expr);
            }
            let is_and = matches!(expr.op, BinOp::And(_));
            let other = if is_and { "||" } else { "&&" };
            let id = self.add(expr.op.span(), format!("{symbol} becomes {other}"));
            let sign = if is_and { "!=" } else { "==" };
            self.insert(whole.start, Side::Open, "({ let __l: bool = ".into());
            visit::visit_expr_binary(self, expr);
            self.replace(op, format!("; if __l {sign} {} {{ ", chosen(id)));
            self.insert(whole.end, Side::Close, " } else { __l } })".into());
            return;
        }
        if let Some(other) = arithmetic(&expr.op) {
            let id = self.add(expr.op.span(), format!("{symbol} becomes {other}"));
            self.insert(whole.start, Side::Open, "(match (".into());
            visit::visit_expr_binary(self, expr);
            self.replace(op, ", ".into());
            let condition = chosen(id);
            let close = format!(
                ") {{ (__l, __r) => if {condition} {{ __l {other} __r }} else {{ __l {symbol} __r }} }})"
            );
            self.insert(whole.end, Side::Close, close);
            return;
        }
        if let Some(other) = assignments(&expr.op) {
            let id = self.add(expr.op.span(), format!("{symbol} becomes {other}"));
            let (left, right) = (
                self.source[whole.start..op.start].to_owned(),
                self.source[op.end..whole.end].to_owned(),
            );
            let open = format!("if {} {{ {left}{other}{right} }} else {{ ", chosen(id));
            self.insert(whole.start, Side::Open, open);
            visit::visit_expr_binary(self, expr);
            self.insert(whole.end, Side::Close, " }".into());
            return;
        }
        visit::visit_expr_binary(self, expr);
    }
}

fn comparisons(op: &BinOp) -> Option<&'static [&'static str]> {
    Some(match op {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        _ => return None,
    })
}

fn arithmetic(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add(_) => "-",
        BinOp::Sub(_) | BinOp::Mul(_) => "+",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::BitAnd(_) | BinOp::BitXor(_) => "|",
        BinOp::BitOr(_) => "&",
        BinOp::Shl(_) => ">>",
        BinOp::Shr(_) => "<<",
        _ => return None,
    })
}

fn assignments(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::BitAndAssign(_) => "|=",
        BinOp::BitOrAssign(_) => "&=",
        BinOp::BitXorAssign(_) => "|=",
        _ => return None,
    })
}

/// Whether a condition binds something, so that it is none that can be computed alone.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

/// Values of a type that say little.
fn values_of(ty: &Type) -> Vec<String> {
    let Type::Path(path) = ty else {
        return match ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".into()],
            _ => Vec::new(),
        };
    };
    let Some(last) = path.path.segments.last() else {
        return Vec::new();
    };
    let inner = || match &last.arguments {
        syn::PathArguments::AngleBracketed(args) => args.args.iter().find_map(|arg| match arg {
            syn::GenericArgument::Type(ty) => Some(values_of(ty)),
            _ => None,
        }),
        _ => None,
    };
    let wrap = |name: &str| {
        let values = inner().unwrap_or_else(|| vec!["()".into()]);
        values
            .into_iter()
            .map(|value| format!("{name}({value})"))
            .collect::<Vec<_>>()
    };
    match last.ident.to_string().as_str() {
        "Result" => wrap("Ok"),
        "Option" => std::iter::once("None".to_owned())
            .chain(wrap("Some"))
            .collect(),
        "bool" => vec!["true".into(), "false".into()],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "isize" => {
            vec!["0".into(), "1".into()]
        }
        "Errno" => vec!["Errno::ENOTTY".into()],
        "Self" => Vec::new(),
        _ => vec!["Default::default()".into()],
    }
}

/// Whether an item is compiled for tests or other builds only.
fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let text = attr.span().source_text().unwrap_or_default();
        let others = ["test", "loom", "virtual_cpus"];
        attr.path().is_ident("test")
            || attr.path().is_ident("cfg") && others.iter().any(|cfg| text.contains(cfg))
    })
}

impl<'ast> Visit<'ast> for Rewriter<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.in_function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.in_function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.in_function(&item.sig, body);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        // Patterns have no mutants; what is assigned has.
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            if let Some((_, diverge)) = &init.diverge {
                self.visit_expr(diverge);
            }
        }
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        self.binary(expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if !matches!(expr.op, UnOp::Not(_)) || self.is_skipped(expr.op.span()) {
            return visit::visit_expr_unary(self, expr);
        }
        let (whole, op) = (self.range(expr.span()), self.range(expr.op.span()));
        let id = self.add(expr.op.span(), "! is deleted".into());
        self.insert(whole.start, Side::Open, "(match (".into());
        self.replace(op, String::new());
        visit::visit_expr_unary(self, expr);
        let close = format!(
            ") {{ __x => if {} {{ __x }} else {{ !__x }} }})",
            chosen(id)
        );
        self.insert(whole.end, Side::Close, close);
    }

    fn visit_stmt(&mut self, stmt: &'ast syn::Stmt) {
        let syn::Stmt::Expr(Expr::Try(tried), Some(_)) = stmt else {
            return visit::visit_stmt(self, stmt);
        };
        let question = self.range(tried.question_token.span());
        if self.is_skipped(tried.question_token.span()) {
            return visit::visit_stmt(self, stmt);
        }
        let id = self.add(tried.question_token.span(), "? is deleted".into());
        let start = self.range(tried.span()).start;
        self.insert(start, Side::Open, "match (".into());
        self.visit_expr(&tried.expr);
        let close = format!(
            ") {{ __r => if {} {{ let _ = __r; }} else {{ __r?; }} }}",
            chosen(id)
        );
        self.replace(question, close);
    }

    fn visit_expr_path(&mut self, expr: &'ast syn::ExprPath) {
        let segments = &expr.path.segments;
        let is_errno = segments.len() == 2
            && segments[0].ident == "Errno"
            && segments[1].ident.to_string().starts_with('E');
        if !is_errno || self.is_skipped(expr.span()) {
            return;
        }
        let range = self.range(expr.span());
        let what = format!("{} becomes ENOTTY", segments[1].ident);
        let id = self.add(expr.span(), what);
        let open = format!("(if {} {{ Errno::ENOTTY }} else {{ ", chosen(id));
        self.insert(range.start, Side::Open, open);
        self.insert(range.end, Side::Close, " })".into());
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let syn::Pat::Guard(pat) = &arm.pat
            && !has_let(&pat.guard)
            && !self.is_skipped(pat.guard.span())
        {
            let guard = &pat.guard;
            let range = self.range(guard.span());
            let always = self.add(guard.span(), "the guard is true".into());
            let never = self.add(guard.span(), "the guard is false".into());
            let open = format!("({} || (", chosen(always));
            self.insert(range.start, Side::Open, open);
            self.visit_expr(guard);
            let close = format!(")) && !{}", chosen(never));
            self.insert(range.end, Side::Close, close);
        }
        self.visit_expr(&arm.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_nest() {
        let source = "fn f(a: u32) -> bool { a + 1 == 2 && !g(a) }\n";
        let rewritten = rewrite(source, 1, &[]).unwrap();
        // Two returns, the sum, the comparison, the conjunction, the negation.
        assert_eq!(rewritten.mutants.len(), 6);
        syn::parse_file(&rewritten.text).unwrap();
    }

    #[test]
    fn errors_are_dropped_and_renamed() {
        let source = "fn f() -> R { g(a)?; if b { return Err(Errno::EIO); } h()? }\n";
        let rewritten = rewrite(source, 1, &[]).unwrap();
        // The return, one `?`, the number of the error.
        assert_eq!(rewritten.mutants.len(), 3);
        syn::parse_file(&rewritten.text).unwrap();
    }

    #[test]
    fn tests_and_skipped_lines_have_none() {
        let source = "#[cfg(test)]\nmod tests { fn f() -> bool { a == b } }\nfn g() { a == b; }\n";
        assert_eq!(rewrite(source, 1, &[3]).unwrap().mutants.len(), 0);
        assert_eq!(rewrite(source, 1, &[]).unwrap().mutants.len(), 2);
    }

    #[test]
    fn what_cannot_be_computed_alone_is_left() {
        let source = "fn f(a: Option<u32>) { if let Some(b) = a && b == 1 { g(); } }\n";
        let rewritten = rewrite(source, 1, &[]).unwrap();
        assert_eq!(rewritten.mutants.len(), 2);
        syn::parse_file(&rewritten.text).unwrap();
    }
}
