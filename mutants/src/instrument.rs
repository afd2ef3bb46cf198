//! The instrumented source file, in which every mutant stands behind a switch.
//!
//! Each mutant becomes a branch that is taken if its number is the process's, so one build has all
//! mutants. Within a branch the text is the original's with the one change. So the text grows with
//! the depth of an expression, and no faster.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::Context as _;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::listing::{Genre, Mutant, Place};

/// The function that tells whether a mutant is the one of this process.
pub(crate) const SWITCH: &str = "crate::mutant_switch::on";

/// A source file after it was instrumented.
#[derive(Debug, Default)]
pub(crate) struct Instrumented {
    /// The file's new text.
    pub(crate) text: String,
    /// The stretches of the new text that are there for mutants only, in bytes.
    pub(crate) marks: Vec<Mark>,
}

/// A stretch of the new text, and the mutants that it is there for.
#[derive(Debug)]
pub(crate) struct Mark {
    /// The stretch, in bytes.
    pub(crate) range: Range<usize>,
    /// The numbers of the mutants.
    pub(crate) numbers: Vec<u32>,
    /// Whether the stretch is the mutant's own text, and not all that is around it.
    pub(crate) own: bool,
}

impl Instrumented {
    /// Shifts the marks by bytes that are put before the text.
    pub(crate) fn shift(&mut self, bytes: usize) {
        for mark in &mut self.marks {
            mark.range = mark.range.start + bytes..mark.range.end + bytes;
        }
    }

    /// Returns the mutants whose text an error of the compiler is about, and whether it is about
    /// their own text.
    pub(crate) fn blamed(&self, bytes: &Range<usize>) -> Option<(&[u32], bool)> {
        let around = self.marks.iter();
        let around = around
            .filter(|mark| mark.range.start <= bytes.start && bytes.end <= mark.range.end)
            .filter(|mark| !mark.numbers.is_empty());
        let nearest = around.min_by_key(|mark| mark.range.len())?;
        Some((&nearest.numbers, nearest.own))
    }
}

/// Instruments a file with mutants that lie in it. Mutants that cannot be switched are left out,
/// and have no mark.
///
/// # Errors
/// A file that does not parse.
pub(crate) fn instrument(source: &str, mutants: &[(u32, &Mutant)]) -> anyhow::Result<Instrumented> {
    let file = syn::parse_file(source).context("it does not parse")?;
    let mut by_place: HashMap<(Genre, usize), Vec<(u32, &Mutant)>> = HashMap::new();
    let lines = Lines::of(source);
    for &(number, mutant) in mutants {
        let key = (mutant.genre, lines.offset(mutant.span.start));
        by_place.entry(key).or_default().push((number, mutant));
    }
    let mut found = Found {
        source,
        lines: &lines,
        by_place,
        nodes: Vec::new(),
    };
    found.visit_file(&file);
    let mut nodes = found.nodes;
    // Outer before inner, and what is inserted before what begins there.
    nodes.sort_by_key(|node| {
        let range = &node.range;
        (range.start, !range.is_empty(), usize::MAX - range.end)
    });
    let mut rendering = Rendering {
        source,
        nodes: &nodes,
        next: 0,
        done: Instrumented::default(),
    };
    rendering.stretch(0..source.len());
    Ok(rendering.done)
}

/// The offsets at which lines begin, to turn places into bytes.
struct Lines<'a> {
    source: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(source: &'a str) -> Self {
        let after = source.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(after).collect();
        Self { source, starts }
    }

    fn offset(&self, place: Place) -> usize {
        let start = self.starts.get(place.line.saturating_sub(1));
        let start = start.copied().unwrap_or(self.source.len());
        let line = &self.source[start..];
        let within = line.char_indices().nth(place.column.saturating_sub(1));
        start + within.map_or(line.len(), |(at, _)| at)
    }
}

/// A stretch of the source that is replaced or extended for mutants.
struct Node {
    range: Range<usize>,
    way: Way,
    /// The numbers of the mutants, each with its text.
    mutants: Vec<(u32, String)>,
}

/// The way in which mutants are switched.
#[derive(Clone, Copy)]
enum Way {
    /// An expression becomes a choice between the mutants' and the original.
    Choice,
    /// The function returns early.
    Return,
    /// The arm gets a guard.
    Guard,
    /// The text stays as it is, and errors about it are about the mutants.
    Blame,
}

/// The search for the places of mutants in a syntax tree.
struct Found<'a> {
    source: &'a str,
    lines: &'a Lines<'a>,
    by_place: HashMap<(Genre, usize), Vec<(u32, &'a Mutant)>>,
    nodes: Vec<Node>,
}

impl<'a> Found<'a> {
    fn take(&mut self, genre: Genre, at: usize) -> Vec<(u32, &'a Mutant)> {
        self.by_place.remove(&(genre, at)).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, way: Way, mutants: Vec<(u32, String)>) {
        if !mutants.is_empty() {
            self.nodes.push(Node {
                range,
                way,
                mutants,
            });
        }
    }

    fn text(&self, range: Range<usize>) -> &'a str {
        &self.source[range]
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let start = first.span().byte_range().start;
        let mutants = self.take(Genre::FnValue, start);
        // What stands for `impl Trait` has one type, which the mutant's value is not of.
        if matches!(&signature.output, syn::ReturnType::Type(_, kind) if has_impl(kind)) {
            return;
        }
        let open = block.brace_token.span.open().byte_range().end;
        let texts = mutants
            .into_iter()
            .map(|(number, mutant)| (number, mutant.replacement.clone()));
        self.add(open..open, Way::Return, texts.collect());
    }

    /// Returns the mutants that delete the arm.
    fn arm(&mut self, arm: &syn::Arm) -> Vec<(u32, String)> {
        let start = arm.span().byte_range().start;
        let deleted = self.take(Genre::MatchArm, start);
        let end = arm.pat.span().byte_range().end;
        let deleted = deleted.into_iter();
        let deleted: Vec<_> = deleted.map(|(number, _)| (number, String::new())).collect();
        self.add(end..end, Way::Guard, deleted.clone());
        if let Some((_, guard)) = &arm.guard {
            let range = guard.span().byte_range();
            let replaced = self.take(Genre::MatchArmGuard, range.start);
            if has_let(guard) {
                return deleted;
            }
            let texts = replaced
                .into_iter()
                .map(|(number, mutant)| (number, mutant.replacement.clone()));
            self.add(range, Way::Choice, texts.collect());
        }
        deleted
    }
}

/// Returns whether a type contains an `impl Trait`.
fn has_impl(kind: &syn::Type) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut search = Search(false);
    search.visit_type(kind);
    search.0
}

/// Returns whether an expression is a chain that binds by `let`, and so cannot be wrapped.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        self.visit_block(&item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        self.visit_block(&item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
            self.visit_block(block);
        }
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let operator = expression.op.span().byte_range();
        let mutants = self.take(Genre::BinaryOperator, operator.start);
        if !has_let(&expression.left) && !has_let(&expression.right) {
            let left = self.text(expression.left.span().byte_range());
            let right = self.text(expression.right.span().byte_range());
            let texts = mutants.into_iter().map(|(number, mutant)| {
                let operator = &mutant.replacement;
                (number, format!("({left}) {operator} ({right})"))
            });
            self.add(expression.span().byte_range(), Way::Choice, texts.collect());
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        let operator = expression.op.span().byte_range();
        let mutants = self.take(Genre::UnaryOperator, operator.start);
        let operand = self.text(expression.expr.span().byte_range());
        let texts = mutants
            .into_iter()
            .map(|(number, _)| (number, operand.to_owned()));
        self.add(expression.span().byte_range(), Way::Choice, texts.collect());
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let arms = expression.arms.iter();
        let deleted = arms.flat_map(|arm| self.arm(arm)).collect();
        // Without one of its arms it may not be exhaustive: the compiler names what is matched.
        let matched = expression.expr.span().byte_range();
        self.add(matched, Way::Blame, deleted);
        visit::visit_expr_match(self, expression);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        let whole = expression.span().byte_range();
        let mut texts = Vec::new();
        for field in &expression.fields {
            for (number, mutant) in self.take(Genre::StructField, field.span().byte_range().start) {
                let span = mutant.span;
                let (start, end) = (self.lines.offset(span.start), self.lines.offset(span.end));
                let before = self.text(whole.start..start);
                texts.push((number, format!("{before}{}", self.text(end..whole.end))));
            }
        }
        self.add(whole, Way::Choice, texts);
        visit::visit_expr_struct(self, expression);
    }

    // What the compiler works out is not switched at run time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, expression: &'ast syn::ExprRepeat) {
        self.visit_expr(&expression.expr);
    }
}

/// The writer of the new text, from its beginning to its end.
struct Rendering<'a> {
    source: &'a str,
    nodes: &'a [Node],
    next: usize,
    done: Instrumented,
}

impl Rendering<'_> {
    /// Writes a stretch of the source, with the nodes that lie in it.
    fn stretch(&mut self, range: Range<usize>) {
        let mut at = range.start;
        while let Some(node) = self.nodes.get(self.next) {
            if node.range.end > range.end || node.range.start >= range.end {
                break;
            }
            self.next += 1;
            self.push(at..node.range.start);
            self.node(node);
            at = node.range.end;
        }
        self.push(at..range.end);
    }

    fn push(&mut self, range: Range<usize>) {
        self.done.text.push_str(&self.source[range]);
    }

    fn node(&mut self, node: &Node) {
        let start = self.done.text.len();
        match node.way {
            Way::Choice => {
                self.write("(");
                for (number, text) in &node.mutants {
                    self.write(&format!("if {SWITCH}({number}) {{ "));
                    self.own(*number, text);
                    self.write(" } else ");
                }
                self.write("{ ");
                self.stretch(node.range.clone());
                self.write(" })");
            }
            Way::Return => {
                for (number, text) in &node.mutants {
                    self.write(&format!(" if {SWITCH}({number}) {{ return "));
                    self.own(*number, text);
                    self.write("; }");
                }
            }
            Way::Guard => {
                for (number, _) in &node.mutants {
                    self.write(" if ");
                    self.own(*number, &format!("!{SWITCH}({number})"));
                }
            }
            Way::Blame => self.stretch(node.range.clone()),
        }
        self.done.marks.push(Mark {
            range: start..self.done.text.len(),
            numbers: node.mutants.iter().map(|(number, _)| *number).collect(),
            own: matches!(node.way, Way::Blame),
        });
    }

    fn write(&mut self, text: &str) {
        self.done.text.push_str(text);
    }

    fn own(&mut self, number: u32, text: &str) {
        let start = self.done.text.len();
        self.write(text);
        self.done.marks.push(Mark {
            range: start..self.done.text.len(),
            numbers: vec![number],
            own: true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Span;

    /// Creates a mutant that replaces the first occurrence of a text in a source of one line.
    fn mutant(source: &str, genre: Genre, replaced: &str, replacement: &str) -> Mutant {
        let start = source.find(replaced).expect("it is in the source");
        let place = |at: usize| Place {
            line: 1,
            column: source[..at].chars().count() + 1,
        };
        Mutant {
            name: String::new(),
            file: "a.rs".to_owned(),
            package: "a".to_owned(),
            genre,
            replacement: replacement.to_owned(),
            span: Span {
                start: place(start),
                end: place(start + replaced.len()),
            },
        }
    }

    /// Returns a source with its mutants behind the switch, whose name is shortened to `on`.
    fn rewritten(source: &str, changes: &[(Genre, &str, &str)]) -> String {
        let mutants: Vec<Mutant> = changes
            .iter()
            .map(|(genre, replaced, replacement)| mutant(source, *genre, replaced, replacement))
            .collect();
        let numbered: Vec<_> = (1..).zip(&mutants).collect();
        let done = instrument(source, &numbered).expect("it parses");
        syn::parse_file(&done.text).expect("what is written parses");
        done.text.replace(SWITCH, "on")
    }

    #[test]
    fn an_operator_becomes_a_choice() {
        assert_eq!(
            rewritten(
                "fn f(é: u8) { é < 1 }",
                &[
                    (Genre::BinaryOperator, "<", "<="),
                    (Genre::BinaryOperator, "<", "==")
                ]
            ),
            "fn f(é: u8) { (if on(1) { (é) <= (1) } else if on(2) { (é) == (1) } else { é < 1 }) }"
        );
    }

    #[test]
    fn a_branch_has_the_original_but_for_its_own_change() {
        assert_eq!(
            rewritten(
                "fn f() { a + b as u8 * c }",
                &[
                    (Genre::BinaryOperator, "+", "-"),
                    (Genre::BinaryOperator, "*", "/")
                ]
            ),
            "fn f() { (if on(1) { (a) - (b as u8 * c) } else { \
             a + (if on(2) { (b as u8) / (c) } else { b as u8 * c }) }) }"
        );
    }

    #[test]
    fn both_sides_of_a_short_circuit_stay_lazy() {
        assert_eq!(
            rewritten(
                "fn f() -> bool { a() && !b() }",
                &[
                    (Genre::BinaryOperator, "&&", "||"),
                    (Genre::UnaryOperator, "!", "")
                ]
            ),
            "fn f() -> bool { (if on(1) { (a()) || (!b()) } else { \
             a() && (if on(2) { b() } else { !b() }) }) }"
        );
    }

    #[test]
    fn a_chain_with_let_is_not_cut() {
        let source = "fn f() { if let A = a && b < c {} }";
        assert_eq!(
            rewritten(source, &[(Genre::BinaryOperator, "&&", "||")]),
            source
        );
        assert_eq!(
            rewritten(source, &[(Genre::BinaryOperator, "<", ">")]),
            "fn f() { if let A = a && (if on(1) { (b) > (c) } else { b < c }) {} }"
        );
    }

    #[test]
    fn a_function_returns_early_async_and_const_as_well() {
        for head in ["fn", "async fn", "const fn"] {
            let source = format!("{head} f() -> u8 {{ g(); 2 }}");
            assert_eq!(
                rewritten(&source, &[(Genre::FnValue, "g(); 2", "0")]),
                format!("{head} f() -> u8 {{ if on(1) {{ return 0; }} g(); 2 }}")
            );
        }
    }

    #[test]
    fn an_opaque_result_has_one_type_and_is_left_alone() {
        let source = "fn f() -> impl Iterator<Item = u8> { g() }";
        assert_eq!(
            rewritten(source, &[(Genre::FnValue, "g()", "::std::iter::empty()")]),
            source
        );
    }

    #[test]
    fn arms_go_by_a_guard_and_guards_by_a_choice() {
        assert_eq!(
            rewritten(
                "fn f() { match a { 1 => b, c if d => e, _ => g } }",
                &[
                    (Genre::MatchArm, "1 => b,", ""),
                    (Genre::MatchArmGuard, "d =>", "true")
                ]
            ),
            "fn f() { match a { 1 if !on(1) => b, c if (if on(2) { true } else { d }) => e, _ => g } }"
        );
    }

    #[test]
    fn a_field_goes_from_a_literal_with_a_base() {
        assert_eq!(
            rewritten(
                "fn f() { A { b: 1, c: 2, ..d } }",
                &[(Genre::StructField, "b: 1,", "")]
            ),
            "fn f() { (if on(1) { A {  c: 2, ..d } } else { A { b: 1, c: 2, ..d } }) }"
        );
    }

    #[test]
    fn constants_types_patterns_and_macros_are_left_alone() {
        let change = [(Genre::BinaryOperator, "+", "-")];
        for source in [
            "const A: u8 = 1 + 2;",
            "fn f() { const A: u8 = 1 + 2; g() }",
            "fn f(a: [u8; 1 + 2]) { g() }",
            "fn f() { [0; 1 + 2] }",
            "fn f() { g!(1 + 2) }",
            "fn f() { let A::<{ 1 + 2 }> = b; }",
        ] {
            assert_eq!(rewritten(source, &change), source);
        }
    }

    #[test]
    fn a_complaint_is_about_the_nearest_mutant() {
        let source = "fn f() { a + b }";
        let one = mutant(source, Genre::BinaryOperator, "+", "-");
        let done = instrument(source, &[(7, &one)]).expect("it parses");
        let at = |text: &str| {
            let start = done.text.find(text).expect("it is there");
            start..start + text.len()
        };
        assert_eq!(done.blamed(&at("(a) - (b)")), Some((&[7][..], true)));
        assert_eq!(done.blamed(&at("a + b")), Some((&[7][..], false)));
        assert_eq!(done.blamed(&at("fn f")), None);
    }
}
