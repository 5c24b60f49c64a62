//! `cargo xtask fuzz`.

use crate::fuzzing::{self, Ending, Fuzzers, Session, Statistics};
use crate::progress::Step;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// Arguments of `fuzz`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Inputs that reach more of the program are collected in target/gossamer/fuzz/corpus, findings in
target/gossamer/fuzz/findings. The exit code is 0 if nothing was found, otherwise 1.

Examples:
  cargo xtask fuzz                               every target for a minute
  cargo xtask fuzz config acpi --time 3600       two targets for an hour each
  cargo xtask fuzz --jobs 2                      two targets at a time
  cargo xtask fuzz --list                        names of the targets
  cargo xtask fuzz config --replay FILE          runs one input again
  cargo xtask fuzz --keep                        merges what was collected into fuzz/corpus")]
pub struct Arguments {
    /// Run only these targets
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    time: u64,
    /// How many targets run at a time
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// List the targets and run none
    #[arg(long, conflicts_with_all = ["replay", "keep"])]
    list: bool,
    /// Run this input, or those of a folder, through one target
    #[arg(long, value_name = "FILE", conflicts_with = "keep")]
    replay: Option<PathBuf>,
    /// Merge what the targets have collected into the kept corpus, minimised
    #[arg(long)]
    keep: bool,
}

/// Fuzzes. The exit code says whether nothing was found.
pub fn fuzz(arguments: &Arguments) -> Result<ExitCode> {
    let targets = fuzzing::chosen(&arguments.targets)?;
    if arguments.list {
        targets.iter().for_each(|target| println!("{target}"));
        return Ok(ExitCode::SUCCESS);
    }
    let fuzzers = fuzzing::build()?;
    if let Some(input) = &arguments.replay {
        let [target] = arguments.targets.as_slice() else { bail!("--replay needs the name of one target") };
        let held = Session { fuzzers: &fuzzers, target }.replay(&std::path::absolute(input)?)?;
        return Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if arguments.keep {
        for target in &targets {
            let kept = fuzzing::keep(&fuzzers, target)?;
            println!("{target}: {} inputs, before {}", kept.now, kept.before);
        }
        return Ok(ExitCode::SUCCESS);
    }
    run_all(&fuzzers, &targets, arguments)
}

/// A target's line in the closing table.
#[derive(Clone)]
struct Line {
    target: String,
    statistics: Statistics,
    findings: usize,
}

fn run_all(fuzzers: &Fuzzers, targets: &[String], arguments: &Arguments) -> Result<ExitCode> {
    let waiting = Mutex::new(targets.iter());
    let next = || waiting.lock().ok()?.next();
    let worker = || -> Result<Vec<Line>> {
        std::iter::from_fn(next).map(|target| run_one(fuzzers, target, arguments.time)).collect()
    };
    let lines = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        results.collect::<Result<Vec<_>>>()
    })?;
    let mut lines = lines.concat();
    lines.sort_by_key(|line| targets.iter().position(|target| *target == line.target));
    print_table(&lines, arguments.time);
    let clean = lines.iter().all(|line| line.findings == 0);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_one(fuzzers: &Fuzzers, target: &str, seconds: u64) -> Result<Line> {
    let step = Step::new(format!("fuzzing {target} for {seconds} s"));
    let session = Session { fuzzers, target };
    let (statistics, ending) = session.run(&fuzzing::working(target)?, Duration::from_secs(seconds))?;
    drop(step);
    let findings = match ending {
        Ending::Clean => 0,
        Ending::Found(finding) => {
            println!("{}", finding.report(target));
            1
        }
    };
    Ok(Line { target: target.to_owned(), statistics, findings })
}

fn print_table(lines: &[Line], seconds: u64) {
    println!(
        "{:<24} {:>14} {:>10} {:>10} {:>8} {:>9}",
        "target", "executions", "per second", "coverage", "corpus", "findings"
    );
    for Line { target, statistics, findings } in lines {
        let Statistics { executions, coverage, corpus } = statistics;
        let rate = executions / seconds;
        println!("{target:<24} {executions:>14} {rate:>10} {coverage:>10} {corpus:>8} {findings:>9}");
    }
}
