//! Runs tests and reports them (see `abi::test_protocol`).

#![allow(unsafe_code, reason = "reads the linker's list of tests")]

use crate::boot::Boot;
use crate::fault::{self, Abort, Fault};
use crate::machine;
use crate::single::Single;
use abi::test_protocol::{DONE, FAIL, LIST, PASS, PREFIX, SKIP, START};
use core::fmt;
use core::panic::PanicInfo;
use x86defs::event::Exception;

/// A test, registered with [`guest_test!`](crate::guest_test).
pub struct Test {
    /// Module that it lies in.
    pub module: &'static str,
    /// Its function's name.
    pub name: &'static str,
    /// The test; it fails by panicking.
    pub run: fn(),
}

/// Registers a function as a test. It passes if it returns, fails if it panics or causes an exception that it
/// does not catch, and finds the machine as [`machine::restore`] leaves it.
#[macro_export]
macro_rules! guest_test {
    ($function:ident) => {
        const _: () = {
            #[used]
            #[unsafe(link_section = ".guest_tests")]
            #[allow(unsafe_code, reason = "the linker collects the tests")]
            static TEST: $crate::harness::Test =
                $crate::harness::Test { module: module_path!(), name: stringify!($function), run: $function };
        };
    };
}

impl Test {
    /// What tests are ordered by.
    fn key(&self) -> (&str, &str) {
        (self.topic(), self.name)
    }
    fn topic(&self) -> &'static str {
        self.module.rsplit("::").next().unwrap_or(self.module)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.topic(), self.name)
    }
}

unsafe extern "C" {
    static guest_tests_start: u8;
    static guest_tests_end: u8;
}

/// All tests, in the linker's order.
fn all() -> &'static [Test] {
    // SAFETY: link.ld puts exactly the statics of `guest_test!` between the two symbols.
    unsafe {
        let start: *const Test = (&raw const guest_tests_start).cast();
        let end: *const Test = (&raw const guest_tests_end).cast();
        core::slice::from_raw_parts(start, end.offset_from_unsigned(start))
    }
}

/// All tests by name. There is no heap to sort them in, and there are few enough to search each time.
fn sorted() -> impl Iterator<Item = &'static Test> {
    let after = |last: &Test| all().iter().filter(|t| t.key() > last.key()).min_by_key(|t| t.key());
    core::iter::successors(all().iter().min_by_key(|t| t.key()), move |last| after(last))
}

/// The running test has said how it ended; its frames are to be abandoned.
static REPORTED: Single<bool> = Single::new(false);
static CURRENT: Single<Option<&'static Test>> = Single::new(None);

/// Writes a line of the protocol. It begins on a new line, whatever a test has printed.
fn report(event: &str, text: fmt::Arguments<'_>) {
    crate::serial::init();
    println!("{PREFIX}{event} {text}");
}

/// Runs or lists the tests that the command line names: words are parts of names, and none means all.
/// `list` lists; `only=NAME` asks for one, `skip=NAME` leaves one out; `reference`, `no-excuses` and `on=MACHINE` describe the machine.
pub fn run(boot: &Boot) {
    const WORDS: [&str; 3] = ["list", "reference", "no-excuses"];
    let is_filter = |w: &&str| !w.contains('=') && !WORDS.contains(w);
    let mut count = 0;
    for test in sorted() {
        let mut filters = boot.words().filter(is_filter).peekable();
        let name = arrayvec::ArrayString::<128>::try_from(format_args!("{test}")).unwrap_or_default();
        let another = boot.value("only").is_some_and(|only| only != &*name);
        if another || filters.peek().is_some() && !filters.any(|f| name.contains(f)) {
            continue;
        }
        count += 1;
        let skipped = boot.words().filter_map(|w| w.strip_prefix("skip=")).any(|n| n == &*name);
        if boot.has_word("list") {
            report(LIST, format_args!("{test}"));
        } else if skipped {
            report(SKIP, format_args!("{test} left out by the command line"));
        } else {
            run_one(test);
        }
    }
    report(DONE, format_args!("{count}"));
}

fn run_one(test: &'static Test) {
    machine::restore();
    CURRENT.store(Some(test));
    REPORTED.store(false);
    report(START, format_args!("{test}"));
    let end = fault::catch_all(test.run);
    // Whatever paging or segments the test has left behind, reporting needs none of it.
    machine::restore();
    CURRENT.store(None);
    match end {
        Ok(()) => report(PASS, format_args!("{test}")),
        Err(Abort::Fault(fault)) => report(FAIL, format_args!("{test} unexpected {fault}")),
        Err(Abort::Abandoned) => {}
    }
}

/// Ends the running test with a report of its own.
pub fn end_test(event: &str, reason: fmt::Arguments<'_>) -> ! {
    match CURRENT.load() {
        Some(test) if !REPORTED.load() => {
            REPORTED.store(true);
            report(event, format_args!("{test} {reason}"));
            fault::abandon()
        }
        _ => {
            println!("{reason}");
            crate::power::off()
        }
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let place = info.location();
    let (file, line) = place.map_or(("", 0), |p| (p.file().rsplit('/').next().unwrap_or(""), p.line()));
    end_test(FAIL, format_args!("{} ({file}:{line})", info.message()))
}

/// Ends the test as not applicable, for a reason in `format!` style.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => { $crate::harness::skip(format_args!($($why)*)) };
}

/// See [`skip!`](crate::skip).
pub fn skip(reason: fmt::Arguments<'_>) -> ! {
    end_test(SKIP, reason)
}

/// Fails the test unless the condition holds; the text, in `format!` style, reports the values.
#[macro_export]
macro_rules! expect {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            panic!("expected {}: {}", stringify!($condition), format_args!($($text)+));
        }
    };
}

/// Fails the test unless both values are equal; the text, in `format!` style, names what was read.
#[macro_export]
macro_rules! expect_eq {
    ($found:expr, $wanted:expr, $($text:tt)+) => {
        match (&$found, &$wanted) {
            (found, wanted) => if found != wanted {
                panic!("{}: {found:x?}, expected {wanted:x?}", format_args!($($text)+));
            }
        }
    };
}

/// Fails the test unless `result` is this exception with this error code; returns it.
#[track_caller]
pub fn expect_fault<T>(what: &str, result: Result<T, Fault>, exception: Exception, error_code: u64) -> Fault {
    match result {
        Err(fault) if fault.is(exception, error_code) => fault,
        Err(fault) => {
            panic!("{what}: expected {}({error_code:#x}), got {fault}", fault::mnemonic(exception))
        }
        Ok(_) => panic!("{what}: expected {}({error_code:#x}), nothing happened", fault::mnemonic(exception)),
    }
}

/// Fails the test unless `result` is #GP(0).
#[track_caller]
pub fn expect_gp<T>(what: &str, result: Result<T, Fault>) -> Fault {
    expect_fault(what, result, Exception::GeneralProtection, 0)
}

/// Fails the test unless `result` is a value; returns it.
#[track_caller]
pub fn expect_ok<T>(what: &str, result: Result<T, Fault>) -> T {
    match result {
        Ok(value) => value,
        Err(fault) => panic!("{what}: unexpected {fault}"),
    }
}
