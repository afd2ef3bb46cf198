//! A body's temporary file: written at its end, read from its beginning.

use std::fs::File;
use std::future::Future as _;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use sprat_config::resolved::BufferFile;
use tokio::sync::oneshot;

use super::{Buffers, Fallback};
use crate::permit::Permit;

/// The most bytes of one read of a file.
const READ_BYTES: u64 = 64 << 10;

/// Data on its way to a file, and the memory that it holds until it is written.
#[derive(Debug)]
pub struct Batch {
    /// The data, in order.
    pub data: Vec<Bytes>,
    /// The data's share of the memory for all buffered bodies.
    pub share: Permit,
}

impl Batch {
    /// Returns how many bytes the batch has.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|own| own.len() as u64).sum()
    }
}

/// A temporary file without a name, deleted when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    buffers: Arc<Buffers>,
    rules: BufferFile,
    file: Option<Arc<File>>,
    /// The offset at which the next batch is written, in bytes.
    end: u64,
    /// The offset of the next read, in bytes.
    at: u64,
    /// The file's share of the room for all files: the most bytes that it has held.
    room: Permit,
    writing: Option<(oneshot::Receiver<Written>, u64)>,
    reading: Option<oneshot::Receiver<io::Result<Bytes>>>,
}

/// A batch that the thread hands back, and the outcome of writing it.
type Written = (Batch, io::Result<Arc<File>>);

impl Scratch {
    /// Returns a file that is made on the disk with the first write.
    pub fn new(buffers: &Arc<Buffers>, rules: &BufferFile) -> Self {
        Self {
            buffers: Arc::clone(buffers),
            rules: rules.clone(),
            file: None,
            end: 0,
            at: 0,
            room: buffers.files_share(),
            writing: None,
            reading: None,
        }
    }

    /// Returns how many bytes were written and not yet read.
    pub fn unread(&self) -> u64 {
        self.end - self.at
    }

    /// Returns whether a batch is being written.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Returns whether nothing is left to read, and nothing is being read or written.
    pub fn is_empty(&self) -> bool {
        self.unread() == 0 && self.writing.is_none() && self.reading.is_none()
    }

    /// Starts reading from the file's beginning again.
    pub fn rewind(&mut self) {
        self.at = 0;
        self.reading = None;
    }

    /// Begins to write a batch at the file's end. No other batch may be under way.
    ///
    /// # Errors
    ///
    /// The file may not grow, or there is no thread: the batch is handed back, with the reason.
    pub fn write(&mut self, batch: Batch) -> Result<(), (Fallback, Batch)> {
        let bytes = batch.bytes();
        if !self.buffers.files().are_there() {
            return Err((Fallback::Io, batch));
        }
        let end = self.end + bytes;
        if end > self.rules.max_bytes {
            return Err((Fallback::MaxSize, batch));
        }
        let needed = usize::try_from(end).unwrap_or(usize::MAX);
        if !self.room.extend(needed.saturating_sub(self.room.amount())) {
            return Err((Fallback::TotalFile, batch));
        }
        let (sender, written) = oneshot::channel();
        let (file, at) = (self.file.clone(), self.end);
        let directory = self.rules.directory.path.clone();
        let job = move || {
            let outcome = match file {
                Some(file) => Ok(file),
                None => tempfile::tempfile_in(directory).map(Arc::new),
            };
            let outcome = outcome.and_then(|file| write_all(&file, at, &batch.data).map(|()| file));
            // No receiver: the client has gone.
            let _ = sender.send((batch, outcome));
        };
        self.buffers.files().give(job);
        self.writing = Some((written, bytes));
        Ok(())
    }

    /// Waits until the batch under way is in the file, and hands it back.
    ///
    /// # Errors
    ///
    /// The file cannot be written, and the batch is handed back, if there is one.
    pub fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<Batch, Option<Batch>>> {
        let Some((written, bytes)) = &mut self.writing else {
            return Poll::Ready(Err(None));
        };
        let outcome = ready!(Pin::new(written).poll(cx));
        let bytes = *bytes;
        self.writing = None;
        Poll::Ready(match outcome {
            Ok((batch, Ok(file))) => {
                self.buffers.works();
                self.file = Some(file);
                self.end += bytes;
                Ok(batch)
            }
            Ok((batch, Err(error))) => {
                self.buffers.warn(&self.rules.directory.path, &error);
                Err(Some(batch))
            }
            Err(_) => Err(None),
        })
    }

    /// Reads the file's next bytes; none if all have been read.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let (sender, read) = oneshot::channel();
                let (file, at) = (self.file.clone(), self.at);
                let bytes = self.end.saturating_sub(at).min(READ_BYTES);
                let job = move || {
                    let data =
                        file.map_or_else(|| Ok(Bytes::new()), |own| read_at(&own, at, bytes));
                    let _ = sender.send(data);
                };
                self.buffers.files().give(job);
                none.insert(read)
            }
        };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let read = read.unwrap_or_else(|_| Err(io::Error::other("no thread reads it")));
        if let Ok(data) = &read {
            self.at += data.len() as u64;
        }
        Poll::Ready(read)
    }

    /// Lets writing start at the file's beginning again, if all of it has been read. The body
    /// cannot be read a second time after that.
    pub fn reuse(&mut self) {
        if self.is_empty() {
            (self.at, self.end) = (0, 0);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // To free the blocks of a large file takes a while.
            self.buffers.files().give(move || drop(file));
        }
    }
}

fn write_all(file: &File, mut at: u64, data: &[Bytes]) -> io::Result<()> {
    for piece in data {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Bytes> {
    let mut data = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut data, at)?;
    Ok(data.into())
}
