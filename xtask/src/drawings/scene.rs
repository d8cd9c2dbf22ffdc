//! A drawing as text: boxes at their places, arrows between them, and words.
//!
//! ```text
//! title: Phases of a run
//! desc: One sentence for readers who cannot see it.
//! size: 900 x 400
//! enum: Verdict
//! box gate 40,20 160x56 accent: The gate | decides
//! arrow gate.r -> 300,48 -> act.l dashed: runs
//! text 40,120 small: What is below.
//! ```
//!
//! A box is named, and its lines are separated by `|`; the first is its head. An arrow goes along its points: `NAME.l`,
//! `.r`, `.t` or `.b` is the middle of a side of a box, moved along the side by a number behind it (`gate.r+12`). Its
//! label is at the middle of its longest part. Lines that begin with `#` are not read.

use std::collections::BTreeMap;

/// How wide a character is at most, as a share of the size of the font: what a line is measured by.
const CHARACTER: f32 = 0.57;
/// The size of the font of each kind of line.
pub(super) const HEAD: f32 = 14.0;
pub(super) const LINE: f32 = 12.0;

#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) title: String,
    pub(super) desc: String,
    pub(super) size: (i32, i32),
    /// The enums whose variants it must name.
    pub(super) enums: Vec<String>,
    pub(super) boxes: Vec<Shape>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) texts: Vec<Text>,
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) at: (i32, i32),
    pub(super) size: (i32, i32),
    /// The class of the rectangle: `plain`, `accent`, `refusal`, `end` or `frame`.
    pub(super) kind: String,
    pub(super) lines: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Arrow {
    pub(super) points: Vec<(i32, i32)>,
    /// `solid` or `dashed`.
    pub(super) kind: String,
    pub(super) label: String,
}

#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) at: (i32, i32),
    /// `head`, `small` or `middle` (small, around its place).
    pub(super) kind: String,
    pub(super) text: String,
}

impl Scene {
    /// Reads a drawing; an error begins with its line.
    pub(super) fn parse(text: &str) -> Result<Scene, String> {
        let mut scene = Scene::default();
        for (number, line) in (1..).zip(text.lines()) {
            scene.read(line.trim()).ok_or_else(|| format!("{number}: not understood: {line}"))?;
        }
        Ok(scene)
    }

    /// Reads one line; `None` where it is not one of a drawing.
    pub(super) fn read(&mut self, line: &str) -> Option<()> {
        if line.is_empty() || line.starts_with('#') {
            return Some(());
        }
        let (head, rest) = line.split_once(':')?;
        let rest = rest.trim();
        let words: Vec<&str> = head.split_whitespace().collect();
        match words.as_slice() {
            ["title"] => rest.clone_into(&mut self.title),
            ["desc"] => rest.clone_into(&mut self.desc),
            ["size"] => self.size = pair(rest, " x ")?,
            ["enum"] => self.enums.push(rest.to_owned()),
            ["box", name, at, size, kind] => self.boxes.push(Shape {
                name: (*name).to_owned(),
                at: pair(at, ",")?,
                size: pair(size, "x")?,
                kind: (*kind).to_owned(),
                lines: rest.split('|').map(|line| line.trim().to_owned()).collect(),
            }),
            ["arrow", way @ .., kind] if matches!(*kind, "solid" | "dashed") => {
                let places = way.iter().filter(|word| **word != "->");
                let points = places.map(|place| self.point(place)).collect::<Option<Vec<_>>>()?;
                let (kind, label) = ((*kind).to_owned(), rest.to_owned());
                self.arrows.push(Arrow { points, kind, label });
            }
            ["text", at, kind] => {
                let (at, kind) = (pair(at, ",")?, (*kind).to_owned());
                self.texts.push(Text { at, kind, text: rest.to_owned() });
            }
            _ => return None,
        }
        Some(())
    }

    fn point(&self, place: &str) -> Option<(i32, i32)> {
        if let Some(point) = pair(place, ",") {
            return Some(point);
        }
        let (name, side) = place.split_once('.')?;
        let shape = self.boxes.iter().find(|shape| shape.name == name)?;
        let (side, moved) = side.split_at_checked(1)?;
        let moved = if moved.is_empty() { 0 } else { moved.parse::<i32>().ok()? };
        let ((x, y), (width, height)) = (shape.at, shape.size);
        match side {
            "l" => Some((x, y + height / 2 + moved)),
            "r" => Some((x + width, y + height / 2 + moved)),
            "t" => Some((x + width / 2 + moved, y)),
            "b" => Some((x + width / 2 + moved, y + height)),
            _ => None,
        }
    }

    /// Every word of it.
    pub(super) fn words(&self) -> String {
        let boxes = self.boxes.iter().flat_map(|shape| &shape.lines);
        let labels = self.arrows.iter().map(|arrow| &arrow.label);
        let texts = self.texts.iter().map(|text| &text.text);
        boxes.chain(labels).chain(texts).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// What does not fit: a line that is wider than its box, boxes one over another, something beyond the edge.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.title.is_empty() || self.desc.is_empty() {
            problems.push("a drawing needs a `title` and a `desc`".to_owned());
        }
        let mut seen: BTreeMap<&str, &Shape> = BTreeMap::new();
        for shape in &self.boxes {
            for (n, line) in shape.lines.iter().enumerate() {
                let size = if n == 0 { HEAD } else { LINE };
                if width(line, size) > shape.size.0 - 12 {
                    problems.push(format!("`{line}` is wider than its box {}", shape.name));
                }
            }
            if tall(shape.lines.len()) > shape.size.1 {
                problems.push(format!("the lines of {} are taller than their box", shape.name));
            }
            if shape.at.0 + shape.size.0 > self.size.0 || shape.at.1 + shape.size.1 > self.size.1 {
                problems.push(format!("the box {} goes beyond the edge", shape.name));
            }
            for other in seen.values().filter(|other| other.kind != "frame" && shape.kind != "frame") {
                if overlap(shape, other) {
                    problems.push(format!("the boxes {} and {} overlap", other.name, shape.name));
                }
            }
            if seen.insert(&shape.name, shape).is_some() {
                problems.push(format!("two boxes are called {}", shape.name));
            }
        }
        for text in self.texts.iter().filter(|text| text.kind != "middle") {
            let size = if text.kind == "head" { HEAD } else { LINE };
            if text.at.0 + width(&text.text, size) > self.size.0 {
                problems.push(format!("`{}` goes beyond the edge", text.text));
            }
        }
        problems
    }
}

/// How tall lines are together.
fn tall(lines: usize) -> i32 {
    16 + 17 * i32::try_from(lines).unwrap_or(i32::MAX / 32)
}

/// How wide a line is at most.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a line has few characters")]
pub(super) fn width(line: &str, size: f32) -> i32 {
    (line.chars().count() as f32 * CHARACTER * size).ceil() as i32
}

fn overlap(a: &Shape, b: &Shape) -> bool {
    let apart = |from: i32, size: i32, other: i32, other_size: i32| {
        from + size <= other || other + other_size <= from
    };
    !apart(a.at.0, a.size.0, b.at.0, b.size.0) && !apart(a.at.1, a.size.1, b.at.1, b.size.1)
}

/// Two numbers with this between them.
fn pair(text: &str, between: &str) -> Option<(i32, i32)> {
    let (a, b) = text.split_once(between)?;
    Some((a.trim().parse().ok()?, b.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    const TEXT: &str = "title: T\ndesc: D\nsize: 300 x 100\nbox a 10,10 100x40 plain: One\nbox b 180,10 100x40 end: Two | three\narrow a.r+5 -> 150,35 -> b.l solid: goes\n";

    #[test]
    fn a_text_is_read() {
        let scene = Scene::parse(TEXT).unwrap();
        assert_eq!(scene.arrows[0].points, [(110, 35), (150, 35), (180, 30)]);
        assert_eq!(scene.boxes[1].lines, ["Two", "three"]);
        assert_eq!(scene.problems(), ["the lines of b are taller than their box"]);
        assert_eq!(Scene::parse("title: T\nbox a: b\n").unwrap_err(), "2: not understood: box a: b");
        assert_eq!(
            Scene::parse("arrow x.l -> 1,1 solid:\n").unwrap_err(),
            "1: not understood: arrow x.l -> 1,1 solid:"
        );
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let text = "title: T\ndesc: D\nsize: 200 x 100\nbox a 10,10 60x40 plain: A long head\nbox b 60,20 200x40 plain: B\n";
        assert_eq!(
            Scene::parse(text).unwrap().problems(),
            [
                "`A long head` is wider than its box a",
                "the box b goes beyond the edge",
                "the boxes a and b overlap"
            ]
        );
    }
}
