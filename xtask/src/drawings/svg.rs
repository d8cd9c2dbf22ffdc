//! A drawing as SVG: plain shapes and texts, no fonts or scripts from elsewhere, readable on light and on dark pages.

use std::fmt::Write;

use crate::drawings::scene::{Arrow, Scene, Shape, Text};

/// The colours, by the reader's scheme. The picture has a ground of its own, so its text is readable on any page.
const STYLE: &str = "\
.ground{fill:#ffffff}.plain{fill:#f4f5f7;stroke:#8a929c}.accent{fill:#e3efff;stroke:#2f6fc4}.refusal{fill:#fdeaea;stroke:#c0504d}\
.end{fill:#e6f4e8;stroke:#3b8a4a}.frame{fill:none;stroke:#b5bbc3;stroke-dasharray:3 4}\
text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px;fill:#1d2329}\
.head{font-size:14px;font-weight:600}.label{fill:#3d454e;stroke:#ffffff;stroke-width:4px;paint-order:stroke;stroke-linejoin:round}\
.line{fill:none;stroke:#59626c;stroke-width:1.4}.dashed{stroke-dasharray:5 4}.tip{fill:#59626c}\
@media (prefers-color-scheme:dark){.ground{fill:#12161b}.plain{fill:#1f252c;stroke:#78828d}.accent{fill:#12294a;stroke:#6ea8f5}\
.refusal{fill:#3d1d1d;stroke:#e08a87}.end{fill:#16301c;stroke:#77c487}.frame{stroke:#4a535d}text{fill:#e6e9ed}\
.label{fill:#c3cad2;stroke:#12161b}.line{stroke:#9aa4af}.tip{fill:#9aa4af}}";

/// The picture of a drawing.
pub(super) fn picture(scene: &Scene) -> String {
    let (width, height) = scene.size;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n\
         <style>{STYLE}</style>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n",
        escaped(&scene.title),
        escaped(&scene.desc)
    );
    let parts = scene.boxes.iter().map(shape);
    let parts = parts.chain(scene.arrows.iter().map(arrow)).chain(scene.texts.iter().map(words));
    for part in parts {
        svg.push_str(&part);
        svg.push('\n');
    }
    svg.push_str("</svg>\n");
    svg
}

fn shape(shape: &Shape) -> String {
    let ((x, y), (width, height)) = (shape.at, shape.size);
    let mut svg = format!(
        "<rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>",
        shape.kind
    );
    // A frame has its head in its corner; a box has its lines in its middle.
    let is_frame = shape.kind == "frame";
    let lines = i32::try_from(shape.lines.len()).unwrap_or(0);
    let first = if is_frame { y + 20 } else { y + (height - 17 * lines) / 2 + 13 };
    for (n, line) in (0..).zip(&shape.lines) {
        let (x, anchor) = if is_frame { (x + 12, "start") } else { (x + width / 2, "middle") };
        let class = if n == 0 { " class=\"head\"" } else { "" };
        let _ = write!(
            svg,
            "<text{class} x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            first + 17 * n,
            escaped(line)
        );
    }
    svg
}

fn arrow(arrow: &Arrow) -> String {
    let points: Vec<String> = arrow.points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    let class = if arrow.kind == "dashed" { "line dashed" } else { "line" };
    let mut svg =
        format!("<polyline class=\"{class}\" points=\"{}\" marker-end=\"url(#tip)\"/>", points.join(" "));
    let length = |part: &&[(i32, i32)]| match part {
        [from, to] => (from.0 - to.0).abs() + (from.1 - to.1).abs(),
        _ => 0,
    };
    // Of equal parts the first, so that a label does not move.
    let longest = arrow.points.windows(2).rev().max_by_key(length);
    if let (Some([from, to]), false) = (longest, arrow.label.is_empty()) {
        let (x, y) = (i32::midpoint(from.0, to.0), i32::midpoint(from.1, to.1));
        // Above a level part, at the right of an upright one.
        let (x, y, anchor) = if from.1 == to.1 { (x, y - 6, "middle") } else { (x + 8, y + 4, "start") };
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(&arrow.label)
        );
    }
    svg
}

fn words(text: &Text) -> String {
    let (class, anchor) = match text.kind.as_str() {
        "head" => (" class=\"head\"", "start"),
        "middle" => ("", "middle"),
        _ => ("", "start"),
    };
    let (x, y) = text.at;
    format!("<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>", escaped(&text.text))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_picture_has_its_title_and_no_markup_of_its_texts() {
        let text = "title: A & B\ndesc: D\nsize: 99 x 50\nbox a 1,1 90x40 plain: <b>\n";
        let svg = picture(&Scene::parse(text).unwrap());
        assert!(svg.contains("<title id=\"title\">A &amp; B</title>"), "{svg}");
        assert!(svg.contains(">&lt;b&gt;</text>"), "{svg}");
        assert!(!svg.contains("http:") || svg.matches("http:").count() == 1, "only the namespace");
    }
}
