//! The simulation's end of a connection: slow, in pieces, and cut where its fault says.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use crate::planted::Way;
use crate::world::World;

/// The fault of a connection, and the bytes of a direction after which it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The connection is closed when so many bytes were read.
    CutReading(u64),
    /// The connection is closed when so many bytes were written.
    CutWriting(u64),
    /// The peer is gone without a word after so many bytes read: it reads and writes nothing more.
    SilentReading(u64),
    /// The peer is gone without a word after so many bytes written.
    SilentWriting(u64),
}

/// A time longer than any bound of the proxy's.
const SILENCE: Duration = Duration::from_secs(400);

/// The pace at which bytes come and go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The most bytes at once.
    piece: usize,
    /// The number of pieces that wait, out of 100.
    waits: u8,
    /// The longest time that a piece waits.
    wait_ms: u64,
}

impl Pace {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let piece = [7, 200, 1_500, 5_000, 70_000][rng.usize(..5)];
        // Nobody is so slow that it would be held against him.
        let waits_ms = if piece < 200 {
            [1, 3, 10]
        } else {
            [3, 40, 300]
        };
        Self {
            piece,
            waits: [0, 5, 40][rng.usize(..3)],
            wait_ms: waits_ms[rng.usize(..3)],
        }
    }

    /// Waits as the pace demands, and returns the bytes of the next piece.
    async fn piece(self, rng: &mut Rng, bytes_so_far: u64) -> usize {
        // Small pieces for the head, where they matter; a large body in pieces
        // of seven bytes would say nothing more.
        let piece = match bytes_so_far {
            0..2_000 => self.piece,
            _ => self.piece.max(1_500),
        };
        if rng.u8(..100) < self.waits {
            sleep(Duration::from_millis(rng.u64(1..=self.wait_ms))).await;
        }
        rng.usize(1..=piece)
    }
}

/// A connection as a simulated peer sees it.
pub(crate) struct Wire {
    world: Rc<World>,
    name: String,
    way: Way,
    stream: UnixStream,
    fault: Option<Fault>,
    has_failed: Cell<bool>,
    input: Input,
    output: Output,
}

/// The state of the direction to the peer.
struct Input {
    rng: Rng,
    pace: Pace,
    bytes: u64,
    buffer: Vec<u8>,
    was_reset: bool,
}

/// The state of the direction from the peer.
struct Output {
    rng: Rng,
    pace: Pace,
    bytes: u64,
}

/// Creates a connection, and returns the proxy's end and the simulation's.
pub(crate) fn pair(
    world: &Rc<World>,
    name: String,
    way: Way,
    fault: Option<Fault>,
    rng: &mut Rng,
) -> io::Result<(TcpStream, Wire)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let buffer = [4_096, 16_384, 200_000][rng.usize(..3)];
    SockRef::from(&theirs).set_send_buffer_size(buffer)?;
    theirs.set_nonblocking(true)?;
    ours.set_nonblocking(true)?;
    let theirs = std::net::TcpStream::from(OwnedFd::from(theirs));
    let wire = Wire {
        world: Rc::clone(world),
        name,
        way,
        stream: UnixStream::from_std(ours)?,
        fault,
        has_failed: Cell::new(false),
        input: Input {
            pace: Pace::random(rng),
            rng: rng.fork(),
            bytes: 0,
            buffer: Vec::new(),
            was_reset: false,
        },
        output: Output {
            pace: Pace::random(rng),
            rng: rng.fork(),
            bytes: 0,
        },
    };
    Ok((TcpStream::from_std(theirs)?, wire))
}

/// The two directions of a connection, each for a task of its own.
pub(crate) struct Halves<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer<'a>,
}

impl Wire {
    pub(crate) fn halves(&mut self) -> Halves<'_> {
        let ends = Ends {
            world: &self.world,
            name: &self.name,
            way: self.way,
            stream: &self.stream,
            fault: self.fault,
            has_failed: &self.has_failed,
        };
        Halves {
            reader: Reader {
                ends,
                input: &mut self.input,
            },
            writer: Writer {
                ends,
                output: &mut self.output,
            },
        }
    }

    /// Returns the bytes that the other end has written, read or not. It is called when the
    /// connection is over.
    pub(crate) fn taken(&self) -> u64 {
        let mut rest = vec![std::mem::MaybeUninit::uninit(); 1 << 20];
        let unread = SockRef::from(&self.stream).peek(&mut rest);
        self.input.bytes + unread.unwrap_or(0) as u64
    }
}

#[derive(Clone, Copy)]
struct Ends<'a> {
    world: &'a World,
    name: &'a str,
    way: Way,
    stream: &'a UnixStream,
    fault: Option<Fault>,
    has_failed: &'a Cell<bool>,
}

/// The reason why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Over {
    /// The proxy has closed or reset the connection.
    Closed,
    /// The connection's own fault has come.
    Fault,
}

/// The reading direction of a connection.
pub(crate) struct Reader<'a> {
    ends: Ends<'a>,
    input: &'a mut Input,
}

impl<'a> Reader<'a> {
    /// Returns whether the connection's fault has come.
    pub(crate) fn has_failed(&self) -> bool {
        self.ends.has_failed.get()
    }

    /// Returns the flag that tells whether the connection's fault has come, for tasks without the
    /// reader.
    pub(crate) fn failure(&self) -> &'a Cell<bool> {
        self.ends.has_failed
    }

    /// Returns whether the other end closed with bytes unread.
    pub(crate) fn was_reset(&self) -> bool {
        self.input.was_reset
    }

    /// Returns the bytes that were read and not used.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.input.buffer
    }

    /// Removes bytes that have been used.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.input.buffer.drain(..bytes);
    }

    /// Reads some more bytes into the buffer.
    pub(crate) async fn fill(&mut self) -> Result<(), Over> {
        let Ends {
            world,
            name,
            way,
            stream,
            fault,
            ..
        } = self.ends;
        let input = &mut *self.input;
        let mut most = input.pace.piece(&mut input.rng, input.bytes).await;
        if let Some(Fault::CutReading(at) | Fault::SilentReading(at)) = fault {
            most = most.min(usize::try_from(at - input.bytes).unwrap());
        }
        if most == 0 {
            return Err(self.ends.fail().await);
        }
        let mut piece = vec![0; most];
        loop {
            // None of the errors of a wait matters: reading tells.
            let _ = stream.readable().await;
            match stream.try_read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => {
                    world.trace(name, "reads the end");
                    return Err(Over::Closed);
                }
                Err(error) => {
                    world.trace(name, &format!("reads {}", error.kind()));
                    input.was_reset = true;
                    return Err(Over::Closed);
                }
                Ok(bytes) => {
                    world.trace(name, &format!("reads {bytes}"));
                    if way == Way::ToClient {
                        world.moved(name);
                    }
                    piece.truncate(bytes);
                    world.plant.spoil(way, input.bytes, &mut piece);
                    input.bytes += bytes as u64;
                    input.buffer.extend_from_slice(&piece);
                    return Ok(());
                }
            }
        }
    }
}

/// The writing direction of a connection.
pub(crate) struct Writer<'a> {
    ends: Ends<'a>,
    output: &'a mut Output,
}

impl Writer<'_> {
    /// Writes all bytes, in pieces.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Over> {
        let Ends {
            world,
            name,
            stream,
            fault,
            ..
        } = self.ends;
        while !bytes.is_empty() {
            let output = &mut *self.output;
            let mut most = output.pace.piece(&mut output.rng, output.bytes).await;
            most = most.min(bytes.len());
            if let Some(Fault::CutWriting(at) | Fault::SilentWriting(at)) = fault {
                most = most.min(usize::try_from(at - output.bytes).unwrap());
            }
            if most == 0 {
                return Err(self.ends.fail().await);
            }
            let _ = stream.writable().await;
            match stream.try_write(&bytes[..most]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    world.trace(name, &format!("writes: {}", error.kind()));
                    return Err(Over::Closed);
                }
                Ok(written) => {
                    world.trace(name, &format!("writes {written}"));
                    output.bytes += written as u64;
                    bytes = &bytes[written..];
                }
            }
        }
        Ok(())
    }
}

impl Ends<'_> {
    /// Carries out the fault, before the connection is closed.
    async fn fail(&self) -> Over {
        self.has_failed.set(true);
        self.world.trace(self.name, &format!("{:?}", self.fault));
        if let Some(Fault::SilentReading(_) | Fault::SilentWriting(_)) = self.fault {
            sleep(SILENCE).await;
        }
        Over::Fault
    }
}
