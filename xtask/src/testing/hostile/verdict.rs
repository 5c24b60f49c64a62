//! What the console says of a hostile guest and of the healthy one behind it.

use crate::testing::linux::HYPERVISOR;
use abi::test_protocol::{DONE, FAIL, PASS, PREFIX, START};
use anyhow::{Context, Result, bail, ensure};

/// How the hypervisor begins its last words.
const PANIC: &str = "gossamer: panic";
const ENDED: &str = ": ended: ";
const POWERED_OFF: &str = "the guest powered off";

/// Name of a pair's hostile virtual machine.
pub(super) fn hostile_name(number: usize) -> String {
    format!("hostile-{number:02}")
}

/// Name of a pair's healthy virtual machine.
pub(super) fn healthy_name(number: usize) -> String {
    format!("healthy-{number:02}")
}

/// What a line of the hypervisor says about this virtual machine.
fn about<'a>(line: &'a str, vm: &str) -> Option<&'a str> {
    let (_, line) = line.split_once(HYPERVISOR)?;
    line.strip_prefix("vm ")?.strip_prefix(vm)
}

/// The part of the transcript between a virtual machine's first start and its last end.
fn part<'a>(transcript: &'a str, vm: &str) -> &'a str {
    let mut range: Option<(usize, usize)> = None;
    let mut at = 0;
    for line in transcript.split_inclusive('\n') {
        let end = at + line.len();
        if about(line, vm).is_some() {
            range = Some((range.map_or(at, |(start, _)| start), end));
        }
        at = end;
    }
    range.map_or("", |(start, end)| &transcript[start..end])
}

/// Both guests' part of the transcript.
pub(super) fn story(transcript: &str, number: usize) -> &str {
    let start = transcript.find(&hostile_name(number)).unwrap_or(transcript.len());
    let end = transcript.find(&hostile_name(number + 1)).unwrap_or(transcript.len());
    &transcript[start..end.max(start)]
}

/// Why a virtual machine has ended for good.
fn ending<'a>(part: &'a str, vm: &str) -> Result<&'a str> {
    let ended = part.lines().filter_map(|line| about(line, vm)?.strip_prefix(ENDED)).next_back();
    ended.map(str::trim_end).with_context(|| format!("{vm} did not end"))
}

/// Judges one pair. `sound` is what the host had in use and free before the first healthy guest; every later one
/// finds the same.
pub(super) fn pair(
    transcript: &str,
    number: usize,
    behaviour: &str,
    returns: bool,
    sound: &mut Option<String>,
) -> Result<()> {
    ensure!(!story(transcript, number).contains(PANIC), "the hypervisor reports an exception");
    let (hostile, healthy) = (hostile_name(number), healthy_name(number));
    let rage = part(transcript, &hostile);
    let says = |event: &str| rage.contains(&format!("{PREFIX}{event} {behaviour}"));
    let end = ending(rage, &hostile)?;
    ensure!(says(START), "the behaviour did not begin");
    ensure!(!returns || says(PASS), "the behaviour did not come to its end: {end}");
    let calm = part(transcript, &healthy);
    let end = ending(calm, &healthy)?;
    ensure!(end.contains(POWERED_OFF), "the healthy guest ended otherwise: {end}");
    if let Some(failed) = calm.lines().find(|line| line.starts_with(&format!("{PREFIX}{FAIL}"))) {
        bail!("the healthy guest is not well: {failed}");
    }
    ensure!(
        calm.contains(&format!("{PREFIX}{PASS}")) && calm.contains(&format!("{PREFIX}{DONE}")),
        "the healthy guest did not run its tests"
    );
    let memory = memory(calm, &healthy)?;
    match sound {
        None => *sound = Some(memory.to_owned()),
        Some(sound) => ensure!(sound == memory, "the host's memory was '{sound}' and is '{memory}'"),
    }
    Ok(())
}

/// What the hypervisor said of its memory when it started the virtual machine.
fn memory<'a>(part: &'a str, vm: &str) -> Result<&'a str> {
    let started = part.lines().find_map(|line| about(line, vm)?.strip_prefix(": started on "));
    let memory = started.and_then(|line| line.split_once("MiB, ")).map(|(_, memory)| memory.trim_end());
    memory.with_context(|| format!("no memory use in {started:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "gossamer: vm hostile-00: started on SVM with 32 MiB, 9 KiB free\r
@@ start spinning::exits
gossamer: vm hostile-00: ended: its time limit is over\r
gossamer: vm healthy-00: started on SVM with 64 MiB, 9 KiB free\r
@@ start msr::a
@@ pass msr::a
@@ done 1
gossamer: vm healthy-00: ended: the guest powered off (ACPI S5)\r
";

    fn judge(transcript: &str, returns: bool, sound: &mut Option<String>) -> Result<()> {
        pair(transcript, 0, "spinning::exits", returns, sound)
    }

    #[test]
    fn a_sound_host_passes() {
        let mut sound = None;
        judge(GOOD, false, &mut sound).expect("nothing is wrong");
        assert_eq!(sound.as_deref(), Some("9 KiB free"));
        judge(GOOD, false, &mut sound).expect("nothing has changed");
    }

    #[test]
    fn a_hurt_host_fails() {
        for (from, to) in [
            ("its time limit is over", "gossamer: panic: #GP"),
            ("gossamer: vm hostile-00: ended", "nothing"),
            ("@@ start spinning", "garbage"),
            ("@@ pass", "@@ fail"),
            ("@@ done", "garbage"),
            ("the guest powered off", "triple fault"),
            ("gossamer: vm healthy-00: started", "garbage"),
        ] {
            let hurt = GOOD.replace(from, to);
            assert_ne!(hurt, GOOD, "{from}");
            assert!(judge(&hurt, false, &mut None).is_err(), "{to}");
        }
        assert!(judge(GOOD, true, &mut None).is_err(), "the behaviour should have come to its end");
        assert!(judge(GOOD, false, &mut Some("10 KiB free".to_owned())).is_err(), "a leak");
    }
}
