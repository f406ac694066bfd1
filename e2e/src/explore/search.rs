//! Breadth first through every state, with parent pointers, and the stories that they tell.

use super::memo::Half;
use super::mind::Brain;
use super::models::Model;
use super::rules;
use super::step::{Cost, Next, System};
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write as _};
use std::hash::BuildHasherDefault;
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
const SETTLES_WITHIN: u16 = 300;

/// More pods than a fair run may make for one VM without a disturbance.
const MOST_PODS: u8 = 4;

/// Nothing is left to do.
const REST: u32 = u32::MAX;

/// Visits every state of a model, up to `limit`, and stops at the first that breaks a rule.
#[must_use]
pub fn explore(model: &Model, brain: &dyn Brain, limit: usize) -> Report {
    let began = Instant::now();
    let system = System::new(model, brain);
    let mut run = Run {
        system: &system,
        known: HashMap::default(),
        parents: Vec::new(),
        fair: [Vec::new(), Vec::new()],
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

/// An order of the actors in a fair run.
#[derive(Clone, Copy, Debug)]
enum Order {
    TurnsFirst,
    TurnsLast,
}

/// The step of a fair run from one state.
#[derive(Clone, Copy)]
struct Fair {
    /// The state that it leads to, or [`REST`].
    to: u32,
    /// Which of the state's steps it is.
    step: u16,
    /// It sends a create.
    creates: bool,
}

struct Run<'a> {
    system: &'a System<'a>,
    /// Digest to number.
    known: HashMap<u128, u32, BuildHasherDefault<Half>>,
    /// By number: the state it was reached from, and by which of its steps.
    parents: Vec<(u32, u16)>,
    /// By [`Order`] and number, of the states whose steps have been taken.
    fair: [Vec<Fair>; 2],
    steps: usize,
    depth: usize,
}

impl Run<'_> {
    fn all(&mut self, limit: usize) -> Option<Story> {
        let first = self.system.model.start();
        let mut queue = VecDeque::new();
        self.known.insert(first.digest(), 0);
        self.parents.push((0, 0));
        queue.push_back((first, 0));
        let mut look_at = 1 << 10;
        for number in 0.. {
            let Some((state, depth)) = queue.pop_front() else { break };
            self.depth = depth;
            let nexts = self.system.steps(&state);
            let fair = [Order::TurnsFirst, Order::TurnsLast].map(|order| order.first(&nexts));
            if fair == [None, None]
                && let Some(rule) = rules::at_rest(self.system.model, &state)
            {
                return Some(self.story(rule, number, None));
            }
            let creates = fair.map(|at| at.is_some_and(|at| nexts[at].step.creates()));
            let mut numbers = Vec::with_capacity(nexts.len());
            for (at, next) in nexts.into_iter().enumerate() {
                self.steps += 1;
                if let Some(rule) = next.broken {
                    let mut story = self.story(rule, number, None);
                    story.lines.push(next.step.to_string());
                    return Some(story);
                }
                let new = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
                let number_of = *self.known.entry(next.state.digest()).or_insert(new);
                if number_of == new {
                    self.parents.push((number, u16::try_from(at).unwrap_or(u16::MAX)));
                    queue.push_back((next.state, depth + 1));
                }
                numbers.push(number_of);
            }
            for order in [Order::TurnsFirst, Order::TurnsLast] {
                let at = fair[order as usize];
                self.fair[order as usize].push(Fair {
                    to: at.map_or(REST, |at| numbers[at]),
                    step: at.map_or(0, |at| u16::try_from(at).unwrap_or(u16::MAX)),
                    creates: creates[order as usize],
                });
            }
            if queue.is_empty() || self.parents.len() >= limit || number == look_at {
                look_at *= 2;
                let story = [Order::TurnsFirst, Order::TurnsLast]
                    .into_iter()
                    .find_map(|order| self.restless(order));
                if story.is_some() || self.parents.len() >= limit {
                    return story;
                }
            }
        }
        None
    }

    /// A fair run, as far as it is known, that does not come to rest.
    fn restless(&self, order: Order) -> Option<Story> {
        let steps = &self.fair[order as usize];
        // By number: how far it is to the end, and how many pods are made on the way.
        let mut ends: Vec<Option<(u16, u8)>> = vec![None; steps.len()];
        let mut passed = vec![false; steps.len()];
        let mut path = Vec::new();
        let model = self.system.model;
        let vms = u8::try_from(model.vms.len()).unwrap_or(u8::MAX);
        let frail = if model.frail {
            vms.saturating_mul(rules::LAST_ATTEMPT)
        } else {
            0
        };
        let most = MOST_PODS + model.budget + frail;
        for start in 0..steps.len() {
            let mut at = start;
            let (mut far, mut made) = loop {
                // At rest, or its steps have not been taken yet.
                if at >= steps.len() {
                    break (0, 0);
                }
                if let Some(end) = ends[at] {
                    break end;
                }
                if std::mem::replace(&mut passed[at], true) {
                    break (SETTLES_WITHIN, 0);
                }
                path.push(at);
                at = steps[at].to as usize;
            };
            while let Some(at) = path.pop() {
                far += 1;
                made += u8::from(steps[at].creates);
                let rule = match () {
                    () if made > most => "growing gaps: pods are made and deleted for ever",
                    () if far > SETTLES_WITHIN => "growing gaps: it never comes to rest",
                    () => {
                        ends[at] = Some((far, made));
                        continue;
                    }
                };
                return Some(self.story(rule.to_owned(), u32::try_from(at).unwrap_or(u32::MAX), Some(order)));
            }
        }
        None
    }

    /// How a state was reached, by taking its steps again, and the fair run that begins there.
    fn story(&self, rule: String, number: u32, then: Option<Order>) -> Story {
        let mut way = Vec::new();
        let mut at = number;
        while at != 0 {
            let (parent, step) = self.parents[at as usize];
            way.push(step);
            at = parent;
        }
        way.reverse();
        let disturbed = way.len();
        let mut at = number;
        while let Some(fair) = then.and_then(|order| self.fair[order as usize].get(at as usize)) {
            if fair.to == REST || way.len() > disturbed + usize::from(SETTLES_WITHIN) {
                break;
            }
            way.push(fair.step);
            at = fair.to;
        }
        let mut state = self.system.model.start();
        let mut lines = Vec::new();
        for (at, step) in way.into_iter().enumerate() {
            let Some(next) = self.system.steps(&state).into_iter().nth(usize::from(step)) else {
                break;
            };
            let mut line = next.step.to_string();
            if next.cost == Cost::Disturbs {
                let _ = write!(line, "   [disturbance]");
            }
            if at == disturbed {
                lines.push("-- from here on nothing disturbs --".to_owned());
            }
            lines.push(line);
            state = next.state;
        }
        Story { rule, lines }
    }
}

impl Order {
    /// The next step of a fair run, among the steps of a state. Its turns see everything.
    fn first(self, nexts: &[Next]) -> Option<usize> {
        let is = |cost: Cost| move |next: &Next| next.cost == cost;
        let turn = is(Cost::Turn { fair: true });
        let free = |next: &Next| matches!(next.cost, Cost::Free | Cost::Unseen);
        let at = match self {
            Self::TurnsFirst => nexts.iter().position(turn).or_else(|| nexts.iter().position(free)),
            Self::TurnsLast => nexts.iter().rposition(free).or_else(|| nexts.iter().rposition(turn)),
        };
        at.or_else(|| nexts.iter().position(is(Cost::Time)))
    }
}
