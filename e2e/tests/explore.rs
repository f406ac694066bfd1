//! Model checking.

use first_consumer_e2e::explore::models::{LEGACY, POPULATOR};
use first_consumer_e2e::explore::{Model, Product, explore};

#[test]
fn one_disk() {
    for budget in 0..1 {
        for disk in [LEGACY, POPULATOR] {
            let report = explore(&Model::of("one disk", &[disk], budget), &Product, std::env::var("LIMIT").map_or(20_000, |l| l.parse().unwrap()));
            println!("{report}");
            if let Some(story) = report.broken {
                panic!("{story}");
            }
        }
    }
}
