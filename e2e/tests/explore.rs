//! Model checking.

use first_consumer_e2e::explore::models::{LEGACY, POPULATOR};
use first_consumer_e2e::explore::{Model, Product, explore};

#[test]
fn one_disk() {
    let number = |name: &str, default: usize| std::env::var(name).map_or(default, |l| l.parse().unwrap());
    for disk in [LEGACY, POPULATOR] {
        let report = explore(&Model::of("one disk", &[disk], number("BUDGET", 0) as u8), &Product, number("LIMIT", 20000));
        println!("{report}");
        if let Some(story) = report.broken {
            println!("{story}");
        }
    }
}
