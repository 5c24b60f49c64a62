//! The serial console of an emulator, which connects to a socket of ours when it starts.

use super::running::Console;
use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// An emulator connects within this time.
const CONNECT: Duration = Duration::from_secs(20);
/// How often that is looked for.
const POLL: Duration = Duration::from_millis(20);

/// Waits for an emulator's connection.
pub struct Socket(TcpListener);

impl Socket {
    /// A new one, on any free port of the loopback interface.
    pub fn new() -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen for the console")?;
        listener.set_nonblocking(true).context("cannot listen for the console")?;
        Ok(Self(listener))
    }

    /// The port to which the emulator has to connect.
    pub fn port(&self) -> Result<u16> {
        Ok(self.0.local_addr().context("the console's socket has no address")?.port())
    }

    /// The connection from the emulator `child`.
    pub fn accept(&self, child: &mut Child) -> Result<Console> {
        let deadline = Instant::now() + CONNECT;
        loop {
            match self.0.accept() {
                Ok((socket, _)) => return console(socket).context("cannot use the console's socket"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("cannot listen for the console"),
            }
            let ended = child.try_wait().context("cannot wait for the emulator")?;
            ensure!(ended.is_none(), "the emulator ended at once");
            ensure!(Instant::now() < deadline, "the emulator does not connect its console");
            std::thread::sleep(POLL);
        }
    }
}

fn console(socket: TcpStream) -> std::io::Result<Console> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    Ok(Console { input: Box::new(socket.try_clone()?), output: Box::new(socket) })
}
