//! The crates by layer, laid out from the table of dependencies: each crate above all that it depends on.

use std::collections::{BTreeMap, BTreeSet};

use crate::drawings::scene::{LINE, Scene, Shape, width};

/// For each crate of ours, the crates of ours that it may depend on.
type Table<'a> = [(&'a str, &'a [&'a str])];

const MARGIN: i32 = 24;
const HEIGHT: i32 = 54;
/// From the top of one layer to the top of the next.
const STEP: i32 = 96;
/// Between two boxes of a layer.
const GAP: i32 = 24;
/// The room for an arrow that passes a layer.
const PASSAGE: i32 = 28;

/// Something in a layer: a crate, or an arrow on its way between two crates that are further apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Crate(String),
    Passage { from: String, to: String, rank: usize },
}

/// The drawing. Its text has a title, a description and a line `NAME: what it holds` for each crate; `xtask` is left out.
pub(super) fn scene(text: &str, table: &Table<'_>) -> Result<Scene, String> {
    let mut scene = Scene::default();
    let mut notes = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        match line.split_once(':') {
            Some(("title" | "desc", _)) => {
                scene.read(line).ok_or_else(|| format!("{number}: not understood"))?
            }
            Some((name, note)) if !line.starts_with('#') => {
                notes.insert(name.trim(), note.trim());
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => return Err(format!("{number}: not understood: {line}")),
        }
    }
    let table: BTreeMap<&str, &[&str]> = table.iter().copied().filter(|(name, _)| *name != "xtask").collect();
    if let Some(name) = table.keys().find(|name| !notes.contains_key(*name)) {
        return Err(format!("1: no line says what {name} holds"));
    }
    let arrows = shortest(&table);
    let ranks: BTreeMap<&str, usize> = table.keys().map(|name| (*name, rank(&table, name))).collect();
    let mut rows = rows(&arrows, &ranks);
    order(&mut rows, &arrows, &ranks);

    let size = |node: &Node| match node {
        Node::Crate(name) => {
            let note = notes.get(name.as_str()).copied().unwrap_or_default();
            width(note, LINE).max(130) + 20
        }
        Node::Passage { .. } => PASSAGE,
    };
    let widths: Vec<i32> =
        rows.iter().map(|row| row.iter().map(|node| size(node) + GAP).sum::<i32>() - GAP).collect();
    let widest = widths.iter().copied().max().unwrap_or(0);
    let layers = i32::try_from(rows.len()).unwrap_or(0);
    scene.size = (widest + 2 * MARGIN, layers * STEP - (STEP - HEIGHT) + 2 * MARGIN);
    // The place of each node: its middle and its top.
    let mut places: BTreeMap<Node, (i32, i32)> = BTreeMap::new();
    for ((n, row), row_width) in (0..).zip(&rows).zip(widths) {
        // The lowest layer comes first and is drawn last.
        let y = MARGIN + (layers - 1 - n) * STEP;
        let mut x = MARGIN + (widest - row_width) / 2;
        for node in row {
            let wide = size(node);
            places.insert(node.clone(), (x + wide / 2, y));
            if let Node::Crate(name) = node {
                let note = notes.get(name.as_str()).copied().unwrap_or_default();
                scene.boxes.push(Shape {
                    name: name.clone(),
                    at: (x, y),
                    size: (wide, HEIGHT),
                    kind: if name == "loop-core" { "accent" } else { "plain" }.to_owned(),
                    lines: vec![name.clone(), note.to_owned()],
                });
            }
            x += wide + GAP;
        }
    }
    for (from, to) in arrows {
        let place = |node: &Node| places.get(node).copied().unwrap_or_default();
        let (start, end) = (place(&Node::Crate(from.to_owned())), place(&Node::Crate(to.to_owned())));
        let mut points = vec![(start.0, start.1 + HEIGHT)];
        for rank in passed(&ranks, from, to).rev() {
            let (x, y) = place(&Node::Passage { from: from.to_owned(), to: to.to_owned(), rank });
            points.extend([(x, y), (x, y + HEIGHT)]);
        }
        points.push((end.0, end.1));
        scene.arrows.push(super::scene::Arrow { points, kind: "solid".to_owned(), label: String::new() });
    }
    Ok(scene)
}

/// The layer of a crate: one above the highest of those that it depends on.
fn rank(table: &BTreeMap<&str, &[&str]>, name: &str) -> usize {
    let below = table.get(name).copied().unwrap_or_default();
    below.iter().map(|name| rank(table, name) + 1).max().unwrap_or(0)
}

/// The arrows without those that follow from others.
fn shortest<'a>(table: &BTreeMap<&'a str, &'a [&'a str]>) -> Vec<(&'a str, &'a str)> {
    fn reaches(table: &BTreeMap<&str, &[&str]>, from: &str, to: &str) -> bool {
        let below = table.get(from).copied().unwrap_or_default();
        below.iter().any(|name| *name == to || reaches(table, name, to))
    }
    let all = table.iter().flat_map(|(from, below)| below.iter().map(|to| (*from, *to)));
    all.filter(|(from, to)| {
        let below = table.get(from).copied().unwrap_or_default();
        !below.iter().any(|other| other != to && reaches(table, other, to))
    })
    .collect()
}

/// The layers that an arrow passes.
fn passed(ranks: &BTreeMap<&str, usize>, from: &str, to: &str) -> std::ops::Range<usize> {
    let of = |name: &str| ranks.get(name).copied().unwrap_or(0);
    of(to) + 1..of(from)
}

/// The layers from the lowest, each with its crates and the arrows that pass it.
fn rows(arrows: &[(&str, &str)], ranks: &BTreeMap<&str, usize>) -> Vec<Vec<Node>> {
    let mut rows = vec![Vec::new(); ranks.values().max().map_or(0, |rank| rank + 1)];
    let passages = arrows.iter().flat_map(|(from, to)| {
        passed(ranks, from, to)
            .map(|rank| (rank, Node::Passage { from: (*from).to_owned(), to: (*to).to_owned(), rank }))
    });
    let crates = ranks.iter().map(|(name, rank)| (*rank, Node::Crate((*name).to_owned())));
    for (rank, node) in crates.chain(passages) {
        if let Some(row) = rows.get_mut(rank) {
            row.push(node);
        }
    }
    rows
}

/// Orders each layer by where its neighbours are, so that few arrows cross. The sweeps are few and fixed: the same table
/// gives the same order.
fn order(rows: &mut [Vec<Node>], arrows: &[(&str, &str)], ranks: &BTreeMap<&str, usize>) {
    // The short arrows from each node down to the next layer.
    let mut links: BTreeSet<(Node, Node)> = BTreeSet::new();
    for (from, to) in arrows {
        let mut above = Node::Crate((*from).to_owned());
        for rank in passed(ranks, from, to).rev() {
            let passage = Node::Passage { from: (*from).to_owned(), to: (*to).to_owned(), rank };
            links.insert((above, passage.clone()));
            above = passage;
        }
        links.insert((above, Node::Crate((*to).to_owned())));
    }
    let place_in = |row: &[Node], node: &Node| row.iter().position(|other| other == node);
    for sweep in 0..8 {
        let ups: Vec<usize> =
            if sweep % 2 == 0 { (1..rows.len()).collect() } else { (0..rows.len() - 1).rev().collect() };
        for at in ups {
            let beside = if sweep % 2 == 0 { at - 1 } else { at + 1 };
            let neighbours = rows.get(beside).cloned().unwrap_or_default();
            let Some(row) = rows.get_mut(at) else { continue };
            let own = row.clone();
            // In thousandths of the neighbours' layer; without a neighbour a node stays where it is.
            row.sort_by_key(|node| {
                let linked = links.iter().filter_map(|(above, below)| match node {
                    node if node == above => place_in(&neighbours, below),
                    node if node == below => place_in(&neighbours, above),
                    _ => None,
                });
                let places: Vec<usize> = linked.collect();
                let middle =
                    |sum: usize, count: usize, of: usize| (2 * sum + count) * 1000 / (2 * count * of.max(1));
                match places.len() {
                    0 => middle(place_in(&own, node).unwrap_or(0), 1, own.len()),
                    count => middle(places.iter().sum(), count, neighbours.len()),
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TABLE: [(&str, &[&str]); 4] = [("a", &[]), ("b", &["a"]), ("c", &["a", "b"]), ("d", &["a", "c"])];

    #[test]
    fn an_arrow_that_follows_from_others_is_left_out() {
        let text = "title: T\ndesc: D\na: lowest\nb: x\nc: y\nd: z\n";
        let scene = scene(text, &TABLE).unwrap();
        assert_eq!(scene.boxes.len(), 4);
        assert_eq!(scene.arrows.len(), 3);
        assert!(scene.problems().is_empty(), "{:?}", scene.problems());
        let top = |name: &str| scene.boxes.iter().find(|shape| shape.name == name).unwrap().at.1;
        assert!(top("d") < top("c") && top("c") < top("b") && top("b") < top("a"));
    }

    #[test]
    fn a_crate_without_a_line_is_named() {
        assert_eq!(scene("title: T\ndesc: D\na: x\n", &TABLE).unwrap_err(), "1: no line says what b holds");
    }
}
