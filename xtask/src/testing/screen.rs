//! A guest without a serial port: what it shows on its text page is read on the console, and what is typed there
//! arrives at its keyboard.

use super::script::{Script, powers_off};
use crate::machine::Running;
use anyhow::{Result, ensure};
use std::time::Duration;

/// The guest counts its lines, asks for keys, and says so when it ends.
const LINES: u32 = 120;
const READY: &str = "type";
const BYE: &str = "bye";
/// More than every buffer on the way.
const PASTE: usize = 3000;

/// The guest and its steps.
pub const SCRIPT: Script = Script {
    name: "screen",
    cmdline: "typewriter",
    tests: &["text-is-shown-once", "keys-arrive", "a-paste-arrives", "escape-ends-it"],
    steps: &[shows_every_line, takes_keys, takes_a_paste, ends],
};

fn shows_every_line(running: &mut Running, within: Duration) -> Result<()> {
    running.expect(&format!("\n{READY}\r\n"), within)?;
    let transcript = running.transcript();
    let ending = format!(" of {LINES}");
    let shown: Vec<&str> = transcript.lines().filter(|line| line.ends_with(&ending)).collect();
    let all: Vec<String> = (1..=LINES).map(|number| format!("line {number} of {LINES}")).collect();
    ensure!(shown == all, "not each line once and in order: {shown:?}");
    Ok(())
}

/// A letter, one with Shift, and cursor up, as set 1 has them.
fn takes_keys(running: &mut Running, within: Duration) -> Result<()> {
    running.send("aB\x1b[A\r")?;
    running.expect("12 codes: 1e 9e 2a 30 b0 aa e0 48 e0 c8 1c 9c\r\n", within).map(drop)
}

fn takes_a_paste(running: &mut Running, within: Duration) -> Result<()> {
    running.send(&format!("{}\r", "x".repeat(PASTE)))?;
    running.expect(&format!("{} codes:", 2 * (PASTE + 1)), within).map(drop)
}

fn ends(running: &mut Running, within: Duration) -> Result<()> {
    running.send("\x1b")?;
    running.expect(BYE, within)?;
    powers_off(running, within)
}
