//! Renders every vector of `e2e/render-vectors`, and of the folders that `FIRST_CONSUMER_RENDER_VECTORS` names (separated
//! by colons), from the VM and from the VMI, and compares with what KubeVirt rendered; and changes the vectors as
//! `FIELDS.md` says. Ends with how many of each came out equal.

mod fields;
mod mirrors;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use vectors::{Source, Tally, Vector};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = fields::trials();
    trials.push(Trial::test("mirrors", || {
        mirrors::check().map_err(|error| Failed::from(format!("{error:#}")))
    }));
    let mut tallies = Vec::new();
    for folder in folders() {
        let vectors = match Vector::all(&folder) {
            Ok(vectors) => vectors,
            Err(error) => {
                eprintln!("{}: {error:#}", folder.display());
                return ExitCode::FAILURE;
            }
        };
        for source in [Source::Vm, Source::Vmi] {
            let tally = Arc::new(Tally::default());
            tallies.push((folder.clone(), source, Arc::clone(&tally)));
            for vector in vectors.iter().filter(|vector| vector.has(source)) {
                let (vector, tally) = (Arc::clone(vector), Arc::clone(&tally));
                let name = format!("{}::from_the_{}", vector.name, source.word());
                trials.push(Trial::test(name, move || {
                    tally
                        .count(|| vector.check(source))
                        .map_err(|error| Failed::from(format!("{error:#}")))
                }));
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for (folder, source, tally) in tallies {
        let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("{folder}: {tally} equal, from the {}", source.word());
    }
    conclusion.exit_code()
}

fn folders() -> Vec<PathBuf> {
    let further = std::env::var_os("FIRST_CONSUMER_RENDER_VECTORS").unwrap_or_default();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("render-vectors");
    std::iter::once(own)
        .chain(std::env::split_paths(&further).filter(|path| !path.as_os_str().is_empty()))
        .collect()
}
