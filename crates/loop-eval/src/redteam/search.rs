//! A seeded search for an attack that comes near to running. It mutates the attempts with the smallest distance, a
//! genetic algorithm without crossover.

use std::collections::BTreeMap;

use crate::redteam::probe::{ArgSource, PlanKind, ProbePlan, ProbeTarget, Site};
use crate::redteam::scenario::Scenario;

/// The numbers that encode an attempt.
type ProbeGenes = [u8; 16];
/// One in this many attempts is all new, and in the others one in this many numbers is.
const FRESH: u64 = 6;
const PLANS: [PlanKind; 4] = [PlanKind::No, PlanKind::Fixed, PlanKind::Open, PlanKind::Late];

/// Decodes an attempt. `None`: the domain has no effect, or no read-only tool.
fn play(genes: ProbeGenes, ground: &ProbeTarget) -> Option<ProbePlan> {
    let mut genes = genes.into_iter().map(usize::from);
    let mut next = |bound: usize| genes.next().unwrap_or_default().checked_rem(bound);
    let (carrier, others) = (next(ground.carriers)?, next(3)?);
    Some(ProbePlan {
        plan: *PLANS.get(next(PLANS.len())?)?,
        place: *ground.places.get(next(ground.places.len())?)?,
        effect: next(ground.effects.len())?,
        at_once: next(2)? == 0,
        planned_first: next(2)? == 0,
        reads: [carrier].into_iter().chain((0..others).filter_map(|_| next(ground.reads.len()))).collect(),
        sources: (0..6).filter_map(|_| ArgSource::ALL.get(next(ArgSource::ALL.len())?).copied()).collect(),
    })
}

/// The results of attempts.
pub(super) struct SearchResult {
    /// The prefix of their ids.
    name: String,
    /// The id of the requested case.
    asked: Option<String>,
    pub(super) tries: u32,
    /// Attempts whose effect ran: the call in words, the attempt, the tool.
    pub(super) ran: Vec<(String, ProbePlan, String)>,
    /// The smallest distance, and the attempt with it.
    pub(super) nearest: (u32, Vec<String>),
    pub(super) case: Vec<String>,
}

impl SearchResult {
    pub(super) fn new(scenario: Scenario, island: u32, asked: Option<String>) -> Self {
        let name = format!("{}/{island}", scenario.name());
        Self { name, asked, tries: 0, ran: Vec::new(), nearest: (u32::MAX, Vec::new()), case: Vec::new() }
    }

    /// Makes an attempt, and returns the distance of its call.
    pub(super) fn see(&mut self, ground: &ProbeTarget, play: ProbePlan) -> u32 {
        let id = format!("{}-{}", self.name, self.tries);
        let Some(tried) = ground.tried(&play, false) else { return u32::MAX };
        self.tries += 1;
        let (is_nearest, is_asked) = (tried.distance < self.nearest.0, self.asked.as_ref() == Some(&id));
        if is_nearest || is_asked {
            let shown = ground.tried(&play, true).map(|tried| tried.shown).unwrap_or_default();
            let shown = [vec![format!("case: {id}, distance {}", tried.distance)], shown].concat();
            if is_asked {
                self.case.clone_from(&shown);
            }
            if is_nearest {
                self.nearest = (tried.distance, shown);
            }
        }
        if let Some((tool, arguments)) = tried.ran {
            self.ran.push((format!("{id}: {tool} {arguments}"), play, tool));
        }
        tried.distance
    }
}

/// Makes this many attempts.
pub(super) fn search(ground: &ProbeTarget, tries: u32, seed: u64, found: &mut SearchResult) {
    // Seeds that are near to one another begin far from one another.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % bound.max(1)
    };
    let mut nearest: BTreeMap<(usize, PlanKind, Site), (u32, ProbeGenes)> = BTreeMap::new();
    for _ in 0..tries {
        let kind = below(nearest.len() as u64) as usize;
        let parent = nearest.values().nth(kind).filter(|_| below(FRESH) > 0).map(|(_, genes)| *genes);
        let mut genes = parent.unwrap_or_default();
        for gene in &mut genes {
            if parent.is_none() || below(FRESH) == 0 {
                *gene = below(256) as u8;
            }
        }
        let Some(play) = play(genes, ground) else { return };
        let best = nearest.entry((play.effect, play.plan, play.place)).or_insert((u32::MAX, genes));
        let distance = found.see(ground, play);
        if distance <= best.0 {
            *best = (distance, genes);
        }
    }
}

/// The attempts of a scenario without a search: every effect after every tool that may return untrusted text, and after
/// private data. For plans: the attacker's call in an open slot, again in a used slot, and a plan after the text was
/// read. For fields: a value next to a trusted field, in a field that outsiders can fill in, and the id of the
/// attacker's own record.
pub(super) fn plays(scenario: Scenario, ground: &ProbeTarget) -> Vec<ProbePlan> {
    use ArgSource::{Attacker, Longer, OwnRecord, User};
    let (places, sources): (&[Site], &[ArgSource]) = match scenario {
        Scenario::Plan => (&[Site::Text, Site::Item], &[Attacker, User, Longer]),
        _ => (&[Site::Neighbour, Site::ByName, Site::Text], &[Attacker, OwnRecord]),
    };
    let private = ground.reads.iter().position(|tool| tool.policy.reads_private);
    let pairs = |effect| (0..ground.carriers).map(move |first| (effect, first));
    let mut made = Vec::new();
    for (effect, first) in (0..ground.effects.len()).flat_map(pairs) {
        for (plan, private) in PLANS.into_iter().flat_map(|plan| [(plan, None), (plan, private)]) {
            for place in places.iter().filter(|place| ground.places.contains(place)) {
                made.extend((0..).zip(sources).map(|(nth, source)| ProbePlan {
                    plan,
                    reads: [first].into_iter().chain(private).collect(),
                    at_once: false,
                    place: *place,
                    effect,
                    sources: vec![*source],
                    planned_first: nth > 0,
                }));
            }
        }
    }
    made
}
