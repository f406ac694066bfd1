//! Breadth first through every state, with parent pointers, and the stories that they tell.

use super::mind::Brain;
use super::models::Model;
use super::rules;
use super::state::State;
use super::step::{Cost, Next, System};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

/// What came of an exploration.
#[derive(Debug)]
pub struct Report {
    /// The model's name.
    pub model: &'static str,
    /// Different states.
    pub states: usize,
    /// Steps taken, into known states too.
    pub steps: usize,
    /// Different turns of the product.
    pub turns: usize,
    /// Length of the longest of the shortest ways to a state.
    pub depth: usize,
    /// Time it took.
    pub elapsed: Duration,
    /// Every state within the budget was visited.
    pub whole: bool,
    /// The first rule that was broken, and how it came to that.
    pub broken: Option<Story>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            model,
            states,
            steps,
            turns,
            depth,
            ..
        } = self;
        let whole = if self.whole { "" } else { ", NOT WHOLE" };
        let seconds = self.elapsed.as_secs_f64();
        write!(
            f,
            "{model}: {states} states, {steps} steps, {turns} turns, depth {depth}, {seconds:.1} s{whole}"
        )
    }
}

/// A trace for people.
#[derive(Debug)]
pub struct Story {
    /// The rule.
    pub rule: String,
    /// What happened, one line a step.
    pub lines: Vec<String>,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken: {}", self.rule)?;
        for (at, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:>4}. {line}", at + 1)?;
        }
        Ok(())
    }
}

/// More steps than any fair run needs before nothing is left to do.
const SETTLES_WITHIN: usize = 300;

/// More pods than a fair run may make for one VM without a disturbance.
const MOST_PODS: u8 = 4;

/// Visits every state of a model, up to `limit`, and stops at the first that breaks a rule.
#[must_use]
pub fn explore(model: &Model, brain: &dyn Brain, limit: usize) -> Report {
    let began = Instant::now();
    let system = System::new(model, brain);
    let mut run = Run {
        system: &system,
        known: HashMap::new(),
        parents: Vec::new(),
        settled: [HashSet::new(), HashSet::new()],
        steps: 0,
        depth: 0,
    };
    let broken = run.all(limit);
    Report {
        model: model.name,
        states: run.parents.len(),
        steps: run.steps,
        turns: system.minds.turns(),
        depth: run.depth,
        elapsed: began.elapsed(),
        whole: broken.is_none() && run.parents.len() < limit,
        broken,
    }
}

/// An order of the actors.
#[derive(Clone, Copy, Debug)]
enum Order {
    TurnsFirst,
    TurnsLast,
}

struct Run<'a> {
    system: &'a System<'a>,
    /// Digest to number.
    known: HashMap<u128, u32>,
    /// By number: the state it was reached from, and by which of its steps.
    parents: Vec<(u32, u16)>,
    /// States from which a fair run comes to rest, by [`Order`].
    settled: [HashSet<u128>; 2],
    steps: usize,
    depth: usize,
}

impl Run<'_> {
    fn all(&mut self, limit: usize) -> Option<Story> {
        let first = self.system.model.start();
        let mut queue = VecDeque::new();
        let digest = first.digest();
        self.known.insert(digest, 0);
        self.parents.push((0, 0));
        queue.push_back((first, digest, 0, 0));
        while let Some((state, digest, number, depth)) = queue.pop_front() {
            self.depth = depth;
            let others = self.system.others(&state);
            if let Some((rule, tail)) = self.settle(&state, digest, &others) {
                return Some(self.story(rule, number, tail));
            }
            let turns = self.system.turns(&state, false);
            for (at, next) in turns.into_iter().chain(others).enumerate() {
                self.steps += 1;
                if let Some(rule) = next.broken {
                    return Some(self.story(rule, number, vec![next.step.to_string()]));
                }
                let new = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
                let digest = next.state.digest();
                let number_of = *self.known.entry(digest).or_insert(new);
                if number_of == new {
                    self.parents.push((number, u16::try_from(at).unwrap_or(u16::MAX)));
                    queue.push_back((next.state, digest, new, depth + 1));
                }
            }
            if self.parents.len() >= limit {
                return None;
            }
        }
        None
    }

    /// Runs everybody fairly and without disturbances until nothing is left to do: with our turns first, and with our
    /// turns last. The rule that this breaks, and the steps that show it. `others` are the state's steps that are no turns.
    fn settle(&mut self, from: &State, digest: u128, others: &[Next]) -> Option<(String, Vec<String>)> {
        [Order::TurnsFirst, Order::TurnsLast].into_iter().find_map(|order| {
            if self.settled[order as usize].contains(&digest) {
                return None;
            }
            let mut path = vec![digest];
            let mut lines = vec!["-- from here on nothing disturbs --".to_owned()];
            let broken = match self.fair(from, others, order) {
                Some(next) => self.follow(next, order, &mut path, &mut lines),
                None => rules::at_rest(self.system.model, from),
            };
            if broken.is_none() {
                self.settled[order as usize].extend(path);
            }
            broken.map(|rule| (rule, lines))
        })
    }

    /// Goes on after the first step of a fair run.
    fn follow(&self, mut next: Next, order: Order, path: &mut Vec<u128>, lines: &mut Vec<String>) -> Option<String> {
        let mut made = 0;
        loop {
            lines.push(next.step.to_string());
            made += u8::from(next.step.creates());
            if next.broken.is_some() {
                return next.broken;
            }
            if made > MOST_PODS + self.system.model.budget {
                return Some("growing gaps: pods are made and deleted for ever".to_owned());
            }
            let digest = next.state.digest();
            if self.settled[order as usize].contains(&digest) {
                return None;
            }
            path.push(digest);
            if path.len() > SETTLES_WITHIN {
                return Some("growing gaps: it never comes to rest".to_owned());
            }
            let others = self.system.others(&next.state);
            match self.fair(&next.state, &others, order) {
                Some(following) => next = following,
                None => return rules::at_rest(self.system.model, &next.state),
            }
        }
    }

    /// The next step of a fair run.
    fn fair(&self, state: &State, others: &[Next], order: Order) -> Option<Next> {
        let mut free = others.iter().filter(|next| next.cost == Cost::Free);
        let turns = || self.system.turns(state, true);
        let free = match order {
            Order::TurnsFirst => turns().into_iter().next().or_else(|| free.next().cloned()),
            Order::TurnsLast => free.next_back().cloned().or_else(|| turns().pop()),
        };
        free.or_else(|| others.iter().find(|next| next.cost == Cost::Time).cloned())
    }

    /// How a state was reached, by taking its steps again.
    fn story(&self, rule: String, number: u32, tail: Vec<String>) -> Story {
        let mut way = Vec::new();
        let mut at = number;
        while at != 0 {
            let (parent, step) = self.parents[at as usize];
            way.push(usize::from(step));
            at = parent;
        }
        let mut state = self.system.model.start();
        let mut lines = Vec::new();
        for step in way.into_iter().rev() {
            let Some(next) = self.system.steps(&state).into_iter().nth(step) else {
                break;
            };
            let mut line = next.step.to_string();
            if next.cost == Cost::Disturbs {
                let _ = write!(line, "   [disturbance]");
            }
            lines.push(line);
            state = next.state;
        }
        lines.extend(tail);
        Story { rule, lines }
    }
}
