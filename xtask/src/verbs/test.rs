//! `cargo xtask test`.

use crate::files;
use crate::machine::{self, EMULATED};
use crate::progress::Step;
use crate::setup::{self, Distribution, Need};
use crate::testing::bad_input::BadInput;
use crate::testing::cost::CostTests;
use crate::testing::demos::DemoSuite;
use crate::testing::endings::Endings;
use crate::testing::entry::Entry;
use crate::testing::fuzz::FuzzTests;
use crate::testing::guest_tests::GuestTestSuite;
use crate::testing::host::HostTests;
use crate::testing::hostile::HostileGuests;
use crate::testing::image_tests::ImageTests;
use crate::testing::linux::{Installer, LinuxBoot};
use crate::testing::linux_life::LinuxLife;
use crate::testing::memtest::Memtest;
use crate::testing::refused::Refused;
use crate::testing::repeated::RepeatedBoots;
use crate::testing::script::Scripted;
use crate::testing::{Filter, Reporter, Subjects, Suite, junit, nmi_button, run_all, screen};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// The fastest of the emulated machines, for what needs no particular one.
const FASTEST: &str = EMULATED[0];

/// Arguments of `test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask test                               everything that every change has to pass
  cargo xtask test guest/qemu-svm                the guest tests on one machine
  cargo xtask test cpuid --machine bochs-vmx     tests with 'cpuid' in their names there, and on the host
  cargo xtask test --list                        names, without running them
  cargo xtask test --reference                   checks the guest tests on the bare emulators
  cargo xtask test --full                        what takes longer, too")]
pub struct Arguments {
    /// Run only tests whose name contains one of these
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Run on this machine, which may carry a :CPU-MODEL; may be given several times [default: all emulated ones]
    #[arg(long = "machine", short, value_name = "MACHINE")]
    machines: Vec<String>,
    /// List the tests and run none
    #[arg(long)]
    list: bool,
    /// Run the guest tests and Linux on the bare machines instead, without the hypervisor
    #[arg(long)]
    reference: bool,
    /// Run the long tests, too
    #[arg(long)]
    full: bool,
    /// How many suites run at a time
    #[arg(long, short, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Runs or lists tests. The exit code says whether all passed.
pub fn test(arguments: &Arguments) -> Result<ExitCode> {
    let machines = machines(arguments)?;
    let filter = Filter(arguments.filters.clone());
    let mut suites = suites(arguments, &machines)?;
    suites.retain(|suite| filter.may_select(suite.prefix(), suite.tests()));
    let needs: Vec<Need> = [&[Need::Qemu], machine_needs(&machines)?.as_slice()].concat();
    setup::require(&needs)?;
    let subjects = Subjects::default();
    if arguments.list {
        return list(&suites, &filter, &subjects);
    }
    let reporter = Reporter::new(filter);
    run_all(&suites, arguments.jobs, &subjects, &reporter);
    let summary = reporter.finish();
    if let Some(file) = &arguments.junit {
        files::write(file, junit::document(&summary).as_bytes())?;
    }
    println!("{}", summary.closing());
    let good = summary.failed() == 0 && !summary.reports().is_empty();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The machines asked for, or those that every host can emulate.
fn machines(arguments: &Arguments) -> Result<Vec<String>> {
    if arguments.machines.is_empty() {
        return Ok(EMULATED.map(str::to_owned).into());
    }
    for name in &arguments.machines {
        machine::by_name(name)?;
    }
    Ok(arguments.machines.clone())
}

fn machine_needs(machines: &[String]) -> Result<Vec<Need>> {
    let mut needs = Vec::new();
    for name in machines {
        needs.extend(machine::by_name(name)?.needs());
    }
    Ok(needs)
}

/// All suites, those first that take longest.
fn suites(arguments: &Arguments, machines: &[String]) -> Result<Vec<Box<dyn Suite>>> {
    let mut slow_first: Vec<_> = machines.iter().map(String::as_str).collect();
    slow_first.sort_by_key(|name| machine::by_name(name).map_or(0, |machine| u32::MAX - machine.patience()));
    let mut suites: Vec<Box<dyn Suite>> = Vec::new();
    for name in slow_first {
        if arguments.reference {
            suites.push(Box::new(LinuxBoot::reference(name)));
            suites.push(Box::new(GuestTestSuite::reference(name)));
            suites.push(Box::new(DemoSuite::reference(name)));
        } else {
            suites.push(Box::new(LinuxBoot::hosted(name, Distribution::Cloud)));
            suites.push(Box::new(GuestTestSuite::hosted(name)));
            suites.push(Box::new(Scripted::hosted(name, &screen::SCRIPT)));
            suites.push(Box::new(Scripted::hosted(name, &nmi_button::SCRIPT)));
            suites.push(Box::new(DemoSuite::hosted(name)));
            if arguments.full {
                suites.push(Box::new(HostileGuests::new(name)));
            }
        }
    }
    if !arguments.reference {
        if arguments.full {
            suites.extend(long_suites(machines));
        }
        suites.push(Box::new(Refused::new()));
        suites.push(Box::new(Entry::new()));
        suites.push(Box::new(BadInput::new(FASTEST)));
        suites.push(Box::new(Memtest::begins(FASTEST)));
        suites.push(Box::new(Endings::new(FASTEST)));
        suites.push(Box::new(ImageTests));
        suites.push(Box::new(FuzzTests));
        suites.extend(host_suites()?);
    }
    Ok(suites)
}

/// Intel CPUs of other generations.
const FURTHER_MODELS: [&str; 2] = ["bochs-vmx:corei7_haswell_4770", "bochs-vmx:corei7_ivy_bridge_3770k"];

/// What `--full` adds.
fn long_suites(machines: &[String]) -> Vec<Box<dyn Suite>> {
    let mut suites: Vec<Box<dyn Suite>> = Vec::new();
    for name in machines {
        suites.push(Box::new(Memtest::whole_pass(name)));
    }
    for name in FURTHER_MODELS.into_iter().filter(|_| machines.iter().any(|machine| machine == "bochs-vmx")) {
        suites.push(Box::new(LinuxBoot::hosted(name, Distribution::Cloud)));
        suites.push(Box::new(GuestTestSuite::hosted(name)));
    }
    if machines.iter().any(|machine| machine == FASTEST) {
        suites.push(Box::new(RepeatedBoots::new(FASTEST)));
        suites.push(Box::new(LinuxBoot::hosted(FASTEST, Distribution::Generic)));
        suites.push(Box::new(Installer::hosted(FASTEST)));
        suites.push(Box::new(LinuxLife::hosted(FASTEST)));
        suites.push(Box::new(CostTests));
    }
    suites
}

/// A suite for every package that builds on the host, and one for the loader's library.
fn host_suites() -> Result<Vec<Box<dyn Suite>>> {
    let mut suites: Vec<Box<dyn Suite>> = vec![Box::new(HostTests::library("loader"))];
    for package in crate::workspace::Workspace::read()?.default_packages() {
        suites.push(Box::new(HostTests::package(package)));
    }
    Ok(suites)
}

fn list(suites: &[Box<dyn Suite>], filter: &Filter, subjects: &Subjects) -> Result<ExitCode> {
    for suite in suites {
        let _step = Step::new(format!("asking {}", suite.prefix()));
        for test in suite.list(subjects)? {
            let name = format!("{}/{test}", suite.prefix());
            if filter.selects(&name) {
                println!("{name}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
