//! A machine that is switched on: its console, its limits and its end.

use crate::cleanup::{Group, Scratch};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Most bytes of a file that an emulator may write.
const FILE_LIMIT: u64 = 64 << 20;
/// How long an emulator may take to end after its console has closed.
const GRACE: Duration = Duration::from_secs(10);
/// Lines of the emulator's own output that an error shows.
const LAST_WORDS: usize = 8;
/// Lines of the console that a story tells.
const STORY_LINES: usize = 30;

/// Hard limits of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wall time until it is ended, `None` for a person at the keyboard.
    pub time: Option<Duration>,
    /// Most bytes on the console.
    pub output: usize,
}

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its software switched it off.
    PowerOff,
    /// Its software reset it, or it ran into a triple fault.
    Reset,
    /// xtask ended it.
    ByUs,
    /// The emulator ended otherwise.
    Failed,
}

/// How a family of machines recognises an ending from the exit status and what the emulator wrote.
pub type Verdict = fn(ExitStatus, &str) -> Ending;

/// What an emulator writes about itself.
#[derive(Clone, Debug)]
pub struct Logs {
    /// For people.
    pub messages: PathBuf,
    /// For a [`Verdict`].
    pub events: PathBuf,
}

/// Both directions of a serial console.
pub struct Console {
    /// Bytes from the machine.
    pub input: Box<dyn Read + Send>,
    /// Bytes to the machine.
    pub output: Box<dyn Write + Send>,
}

/// A machine that is switched on. Dropping it ends it.
pub struct Running {
    child: Child,
    // Order matters: the processes are killed before their folder goes.
    _group: Group,
    _scratch: Scratch,
    chunks: Receiver<Vec<u8>>,
    keyboard: Option<Box<dyn Write + Send>>,
    transcript: Vec<u8>,
    seen: usize,
    limits: Limits,
    started: Instant,
    logs: Logs,
    verdict: Verdict,
    ended: Arc<AtomicBool>,
}

/// Ends a machine from another thread.
#[derive(Debug)]
pub struct Ender {
    group: Pid,
    ended: Arc<AtomicBool>,
}

impl Ender {
    /// Switches the machine off at once.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        // It may have ended already.
        let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
    }
}

/// Starts `emulator` in a process group of its own that ends with xtask, with limits on memory (`address_space`
/// in bytes) and file size; its folder is `scratch`.
pub fn spawn(
    emulator: &[String],
    address_space: u64,
    scratch: &Scratch,
    stdio: [Stdio; 3],
) -> Result<(Child, Group)> {
    let [stdin, stdout, stderr] = stdio;
    // The kernel ends the emulator even when xtask is killed.
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(emulator)
        .current_dir(scratch.path())
        .process_group(0)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .with_context(|| {
            format!("cannot start {}", emulator.first().map_or("an emulator", String::as_str))
        })?;
    let pid = Pid::from_child(&child);
    let group = Group::new(pid);
    for (resource, limit) in [(Resource::As, address_space), (Resource::Fsize, FILE_LIMIT)] {
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        // An emulator that has ended already says why in its log.
        let _ = rustix::process::prlimit(Some(pid), resource, limit);
    }
    Ok((child, group))
}

impl Running {
    /// Takes over a started emulator.
    pub fn new(
        (child, group): (Child, Group),
        scratch: Scratch,
        console: Console,
        limits: Limits,
        logs: Logs,
        verdict: Verdict,
    ) -> Self {
        let (sender, chunks) = channel();
        let mut input = console.input;
        std::thread::spawn(move || forward(&mut *input, &sender));
        Self {
            child,
            _group: group,
            _scratch: scratch,
            chunks,
            keyboard: Some(console.output),
            transcript: Vec::new(),
            seen: 0,
            limits,
            started: Instant::now(),
            logs,
            verdict,
            ended: Arc::default(),
        }
    }

    /// A handle that ends the machine.
    pub fn ender(&self) -> Ender {
        Ender { group: Pid::from_child(&self.child), ended: Arc::clone(&self.ended) }
    }

    /// Everything that the console has shown so far.
    pub fn transcript(&self) -> String {
        String::from_utf8_lossy(&self.transcript).into_owned()
    }

    /// Whether the console has shown this text.
    pub fn has_shown(&self, text: &str) -> bool {
        find(&self.transcript, text.as_bytes()).is_some()
    }

    /// The emulator's own last messages.
    pub fn last_words(&self) -> String {
        let log = std::fs::read(&self.logs.messages).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
    }

    /// The console's keyboard, to be used from another thread.
    pub fn take_keyboard(&mut self) -> Option<Box<dyn Write + Send>> {
        self.keyboard.take()
    }

    /// Types text on the console.
    pub fn send(&mut self, text: &str) -> Result<()> {
        let keyboard = self.keyboard.as_mut().context("the console's keyboard is in other hands")?;
        keyboard
            .write_all(text.as_bytes())
            .and_then(|()| keyboard.flush())
            .context("the machine takes no input")
    }

    /// Waits until the console shows `text` after what was found last. Gives what stands between.
    pub fn expect(&mut self, text: &str, within: Duration) -> Result<String> {
        let deadline = Instant::now() + within;
        loop {
            let unseen = &self.transcript[self.seen..];
            if let Some(at) = find(unseen, text.as_bytes()) {
                let before = String::from_utf8_lossy(&unseen[..at]).into_owned();
                self.seen += at + text.len();
                return Ok(before);
            }
            match self.next_chunk(Some(deadline))? {
                Next::Chunk(_) => {}
                Next::Closed => bail!("the machine ended without showing '{text}'"),
                Next::Late => bail!("no '{text}' within {} s", within.as_secs()),
            }
        }
    }

    /// The next line after what was found last, without its end. `None` when the console is closed.
    pub fn line(&mut self) -> Result<Option<String>> {
        loop {
            let unseen = &self.transcript[self.seen..];
            if let Some(length) = unseen.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&unseen[..length]).trim_end_matches('\r').to_owned();
                self.seen += length + 1;
                return Ok(Some(line));
            }
            if !matches!(self.next_chunk(None)?, Next::Chunk(_)) {
                return Ok(None);
            }
        }
    }

    /// What helps to find out why something failed: the end of the transcript and the emulator's last messages.
    pub fn story(&self) -> String {
        let transcript = self.transcript();
        let lines: Vec<_> = transcript.lines().collect();
        let tail = lines[lines.len().saturating_sub(STORY_LINES)..].join("\n");
        format!("{tail}\n-- emulator:\n{}", self.last_words())
    }

    /// The next bytes from the console, which also go into the transcript. `None` when it is closed.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next_chunk(None)? {
            Next::Chunk(chunk) => Ok(Some(chunk)),
            Next::Closed | Next::Late => Ok(None),
        }
    }

    /// Waits for the machine's end.
    pub fn wait(&mut self, within: Duration) -> Result<Ending> {
        let deadline = Instant::now() + within;
        loop {
            match self.next_chunk(Some(deadline))? {
                Next::Chunk(_) => {}
                Next::Closed => break,
                Next::Late => bail!("the machine did not end within {} s", within.as_secs()),
            }
        }
        let deadline = Instant::now() + GRACE;
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for the emulator")? {
                if self.ended.load(Ordering::Relaxed) {
                    return Ok(Ending::ByUs);
                }
                let log = std::fs::read(&self.logs.events).unwrap_or_default();
                return Ok((self.verdict)(status, &String::from_utf8_lossy(&log)));
            }
            if Instant::now() > deadline {
                bail!("the emulator closed the console but did not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn next_chunk(&mut self, deadline: Option<Instant>) -> Result<Next> {
        let end = self.limits.time.map(|time| self.started + time);
        let until = [deadline, end].into_iter().flatten().min();
        let chunk = match until {
            Some(until) => self.chunks.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => self.chunks.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match chunk {
            Ok(chunk) => {
                if self.transcript.len() + chunk.len() > self.limits.output {
                    bail!("the console printed more than {} bytes", self.limits.output);
                }
                self.transcript.extend(&chunk);
                Ok(Next::Chunk(chunk))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(Next::Closed),
            Err(RecvTimeoutError::Timeout) if end.is_some_and(|end| end <= Instant::now()) => {
                bail!("the machine reached its limit of {} s", self.started.elapsed().as_secs())
            }
            Err(RecvTimeoutError::Timeout) => Ok(Next::Late),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group is killed by its guard too; here the child is also reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Next {
    Chunk(Vec<u8>),
    Closed,
    Late,
}

/// Passes on what `input` gives until it ends or nobody listens.
fn forward(input: &mut dyn Read, sender: &Sender<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count) = input.read(&mut buffer) {
        if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
            return;
        }
    }
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}
