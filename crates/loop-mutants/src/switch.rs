//! Writes a source file that holds all its mutants, of which one is switched on when a program of it runs.
//!
//! An expression becomes `(if on(3) { mutant } else { original })`. The text of a mutant holds no other mutants, since one
//! alone is on, so the text grows by a constant for each. What the compiler reports is traced to a mutant by the marks
//! `/*#3*/` and `/*3#*/` around its text, or by those around the whole expression.

use std::collections::BTreeMap;

use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::mutant::{Kind, Mutant, Place};

/// The function that says whether a mutant is on.
pub(crate) const ON: &str = "crate::mutant_switch::on";

/// A source file with its mutants, and those that have no place in it.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) text: String,
    pub(crate) left_out: Vec<u32>,
}

/// The text of a file with these mutants in it.
pub(crate) fn switched(source: &str, mutants: &[&Mutant]) -> Result<Switched, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut finder =
        Finder { source, lines: line_starts(source), waiting: BTreeMap::new(), edits: Vec::new() };
    for mutant in mutants {
        match mutant.kind {
            Kind::Body if !mutant.is_opaque => finder.body(mutant),
            _ => finder.waiting.entry(mutant.start).or_default().push(mutant),
        }
    }
    finder.visit_file(&file);
    let left_out = finder.waiting.values().flatten().map(|mutant| mutant.id).collect();
    Ok(Switched { text: edited(source, finder.edits), left_out })
}

/// Text that is inserted. Of several at one place those that close come first, the inner ones before the outer ones, then
/// those that open, the outer ones before the inner ones.
#[derive(Debug)]
struct Edit {
    at: usize,
    opens: bool,
    /// The length of what it encloses.
    size: usize,
    text: String,
}

fn edited(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| {
        let size = i64::try_from(edit.size).unwrap_or(i64::MAX);
        (edit.at, edit.opens, if edit.opens { -size } else { size })
    });
    let mut text = String::with_capacity(source.len() * 3);
    let mut from = 0;
    for edit in edits {
        text.push_str(source.get(from..edit.at).unwrap_or_default());
        text.push_str(&edit.text);
        from = edit.at;
    }
    text.push_str(source.get(from..).unwrap_or_default());
    text
}

fn line_starts(source: &str) -> Vec<usize> {
    std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

struct Finder<'a> {
    source: &'a str,
    lines: Vec<usize>,
    /// The mutants whose expression was not met yet, by the start of what they change.
    waiting: BTreeMap<Place, Vec<&'a Mutant>>,
    edits: Vec<Edit>,
}

/// The text of a mutant between marks.
fn marked(id: u32, text: &str) -> String {
    format!("/*#{id}*/ {text} /*{id}#*/")
}

impl Finder<'_> {
    fn offset(&self, place: Place) -> usize {
        let start = self.lines.get(place.line - 1).copied().unwrap_or(self.source.len());
        let rest = self.source.get(start..).unwrap_or_default();
        start + rest.char_indices().nth(place.column - 1).map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, node: &impl Spanned) -> (usize, usize) {
        let span = node.span();
        (self.offset(place(span.start())), self.offset(place(span.end())))
    }

    fn text(&self, (from, to): (usize, usize)) -> String {
        self.source.get(from..to).unwrap_or_default().to_owned()
    }

    fn insert(&mut self, at: usize, opens: bool, size: usize, text: String) {
        self.edits.push(Edit { at, opens, size, text });
    }

    fn body(&mut self, mutant: &Mutant) {
        let Mutant { id, replacement, start, .. } = mutant;
        let returned = marked(*id, &format!("if {ON}({id}) {{ return {replacement}; }}"));
        self.insert(self.offset(*start), true, usize::MAX >> 1, returned);
    }

    /// Takes the mutants that begin here and are of this kind.
    fn take(&mut self, start: Place, kind: Kind) -> Vec<Mutant> {
        let Some(here) = self.waiting.get_mut(&start) else { return Vec::new() };
        let taken =
            here.iter().filter(|mutant| mutant.kind == kind).map(|mutant| (*mutant).clone()).collect();
        here.retain(|mutant| mutant.kind != kind);
        taken
    }

    /// Puts the texts of mutants before an expression.
    fn choice(&mut self, (from, to): (usize, usize), texts: &[(u32, String)]) {
        if texts.is_empty() {
            return;
        }
        let ids: Vec<String> = texts.iter().map(|(id, _)| id.to_string()).collect();
        let ids = ids.join(",");
        let mut before = format!("/*[{ids}*/(");
        for (id, text) in texts {
            before.push_str(&format!("if {ON}({id}) {{ {} }} else ", marked(*id, text)));
        }
        before.push_str("{ ");
        self.insert(from, true, to - from, before);
        self.insert(to, false, to - from, format!(" }})/*{ids}]*/"));
    }
}

fn place(at: LineColumn) -> Place {
    Place { line: at.line, column: at.column + 1 }
}

/// Whether an expression is a condition with `let`, which is not an expression by itself.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let is_chain = has_let(&binary.left) || has_let(&binary.right);
        if !is_chain {
            let (left, right) = (self.range(&binary.left), self.range(&binary.right));
            let taken = self.take(place(binary.op.span().start()), Kind::Binary);
            let texts = taken.iter().map(|mutant| {
                let text = format!("{} {} {}", self.text(left), mutant.replacement, self.text(right));
                (mutant.id, text)
            });
            let texts: Vec<_> = texts.collect();
            self.choice((left.0, right.1), &texts);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let (whole, operand) = (self.range(unary), self.range(&*unary.expr));
        let taken = self.take(place(unary.op.span().start()), Kind::Unary);
        let texts: Vec<_> = taken.iter().map(|mutant| (mutant.id, self.text(operand))).collect();
        self.choice(whole, &texts);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        let whole = self.range(expression);
        let mut texts = Vec::new();
        for field in &expression.fields {
            for mutant in self.take(place(field.span().start()), Kind::Field) {
                let (from, to) = (self.offset(mutant.start), self.offset(mutant.end));
                let after = self.text((to, whole.1));
                let after = after.trim_start();
                let after = after.strip_prefix(',').unwrap_or(after);
                texts.push((mutant.id, format!("{}{after}", self.text((whole.0, from)))));
            }
        }
        self.choice(whole, &texts);
        visit::visit_expr_struct(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let pattern = self.range(&arm.pat);
        let guard = arm.guard.as_ref().map(|(_, guard)| (self.range(&**guard), has_let(guard)));
        let deleted = self.take(place(arm.span().start()), Kind::Arm);
        for Mutant { id, .. } in &deleted {
            match guard {
                Some(((from, to), has_let)) => {
                    let (before, after) = if has_let { ("", "") } else { ("(", ")") };
                    self.insert(from, true, to - from + 2, format!("/*[{id}*/!{ON}({id}) && {before}"));
                    self.insert(to, false, to - from + 2, format!("{after}/*{id}]*/"));
                }
                None => {
                    let text = format!(" /*[{id}*/if !{ON}({id})/*{id}]*/");
                    self.insert(pattern.1, false, usize::MAX >> 1, text);
                }
            }
        }
        if let (Some(((from, to), false)), Some((_, expression))) = (guard, &arm.guard) {
            let guards = self.take(place(expression.span().start()), Kind::Guard);
            let texts: Vec<_> = guards.iter().map(|mutant| (mutant.id, mutant.replacement.clone())).collect();
            // One byte more than the expression itself, which may be mutated too and is the inner one.
            let count = self.edits.len();
            self.choice((from, to), &texts);
            for edit in self.edits.iter_mut().skip(count) {
                edit.size += 1;
            }
        }
        visit::visit_arm(self, arm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(id: u32, kind: Kind, replacement: &str, columns: (usize, usize)) -> Mutant {
        let place = |column| Place { line: 1, column };
        Mutant {
            id,
            file: String::new(),
            name: String::new(),
            function: String::new(),
            is_opaque: false,
            kind,
            replacement: replacement.to_owned(),
            start: place(columns.0),
            end: place(columns.1),
        }
    }

    /// The text of the file without marks.
    fn text(source: &str, mutants: &[Mutant]) -> String {
        let mutants: Vec<&Mutant> = mutants.iter().collect();
        let switched = switched(source, &mutants).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(switched.left_out, [0; 0]);
        let mut text = switched.text.replace(ON, "on");
        while let Some(from) = text.find("/*") {
            let to = text.find("*/").unwrap_or(from) + 2;
            text.replace_range(from..to, "");
        }
        text
    }

    #[test]
    fn an_operator_has_a_branch_for_each_mutant() {
        let mutants = [mutant(3, Kind::Binary, "<=", (14, 15)), mutant(4, Kind::Binary, "==", (14, 15))];
        assert_eq!(
            text("fn f() { é() < b }", &mutants),
            "fn f() { (if on(3) {  é() <= b  } else if on(4) {  é() == b  } else { é() < b }) }"
        );
    }

    #[test]
    fn a_mutant_inside_of_another_is_in_its_original_alone() {
        let mutants = [mutant(3, Kind::Binary, "||", (12, 14)), mutant(4, Kind::Unary, "", (15, 16))];
        let want = "fn f() { (if on(3) {  a || !b  } else { a && (if on(4) {  b  } else { !b }) }) }";
        assert_eq!(text("fn f() { a && !b }", &mutants), want);
    }

    #[test]
    fn a_body_an_arm_and_a_guard_are_switched() {
        let source = "fn f() { match x { 1 if !a => 2, 3 => 4, _ => 5 } }";
        let mutants = [
            mutant(1, Kind::Body, "0", (10, 50)),
            mutant(2, Kind::Arm, "", (20, 32)),
            mutant(3, Kind::Guard, "true", (25, 27)),
            mutant(4, Kind::Unary, "", (25, 26)),
            mutant(5, Kind::Arm, "", (34, 40)),
        ];
        let guard = "!on(2) && ((if on(3) {  true  } else { (if on(4) {  a  } else { !a }) }))";
        let want = format!(
            "fn f() {{  if on(1) {{ return 0; }} match x {{ 1 if {guard} => 2, 3 if !on(5) => 4, _ => 5 }} }}"
        );
        assert_eq!(text(source, &mutants), want);
    }

    #[test]
    fn a_field_is_left_out() {
        let mutants = [mutant(1, Kind::Field, "", (14, 18))];
        let want = "fn f() { (if on(1) {  S {  ..b }  } else { S { a: 1, ..b } }) }";
        assert_eq!(text("fn f() { S { a: 1, ..b } }", &mutants), want);
    }

    #[test]
    fn a_condition_with_let_has_no_other_operator() {
        let source = "fn f() { if let 1 = a && b {} }";
        let operator = mutant(7, Kind::Binary, "||", (23, 25));
        let switched = switched(source, &[&operator]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((switched.text.as_str(), switched.left_out.as_slice()), (source, [7].as_slice()));
    }
}
