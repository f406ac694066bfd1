//! How long one VM takes to render: from the index to its placement, and to its pod. `cargo bench -p first-consumer-e2e`.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use first_consumer::cli::{files, render};
use first_consumer::index::Index;
use first_consumer::observe::placement;
use first_consumer::pod::Settings;

/// An index of one vector.
fn situation(name: &str) -> Index {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("render-vectors/{name}.yaml"));
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut index = Index::default();
    if let Err(error) = files::read(&mut index, &text, "default") {
        eprintln!("{name}: {error}");
    }
    index
}

fn benchmarks(criterion: &mut Criterion) {
    // A usual VM (two disks, EFI, a quota) and one with everything.
    for name in ["minimal", "mix-000", "mix-034"] {
        let index = situation(name);
        let subjects = render::subjects(&index);
        for subject in &subjects {
            criterion.bench_function(&format!("placement/{name}"), |bencher| {
                bencher.iter(|| placement(black_box(&index), black_box(subject), None));
            });
        }
        criterion.bench_function(&format!("pod/{name}"), |bencher| {
            bencher.iter(|| {
                render::render(
                    black_box(&index),
                    black_box(&subjects),
                    &render::Expansions::new(),
                    &Settings::default(),
                    render::Output::Json,
                )
            });
        });
    }
    // The mean of every vector.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("render-vectors");
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|file| Some(file.file_name().to_string_lossy().strip_suffix(".yaml")?.to_owned()));
    let all: Vec<Index> = names.map(|name| situation(&name)).collect();
    let subjects: Vec<_> = all.iter().map(|index| (index, render::subjects(index))).collect();
    criterion.bench_function(&format!("placement/all {} vectors", all.len()), |bencher| {
        bencher.iter(|| {
            for (index, subjects) in &subjects {
                for subject in subjects {
                    let _ = black_box(placement(index, subject, None));
                }
            }
        });
    });
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
