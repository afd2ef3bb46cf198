//! Tests of bodies that memory does not take: they are whole, and within the bounds.

use std::cell::Cell;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use sprat_config::resolved::{BufferFile, BufferTotals, BufferedBody, FileAt, Span};
use tokio::task::{LocalSet, yield_now};

use super::{ReadAhead, ReadEnd};
use crate::buffer::{Buffers, Fallback};

/// A body of frames of these lengths, whose bytes tell their place.
struct Script {
    lengths: Vec<usize>,
    next: usize,
    at: usize,
    left: Rc<Cell<usize>>,
}

impl Script {
    fn new(lengths: &[usize]) -> (Self, Rc<Cell<usize>>) {
        let left = Rc::new(Cell::new(lengths.len()));
        let own = Self {
            lengths: lengths.to_vec(),
            next: 0,
            at: 0,
            left: Rc::clone(&left),
        };
        (own, left)
    }
}

fn bytes(from: usize, length: usize) -> Bytes {
    (from..from + length).map(|at| (at % 251) as u8).collect()
}

impl Body for Script {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let Some(&length) = self.lengths.get(self.next) else {
            return Poll::Ready(None);
        };
        let data = bytes(self.at, length);
        self.next += 1;
        self.at += length;
        self.left.set(self.lengths.len() - self.next);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

fn rules(memory: usize, directory: &Path, max_bytes: u64) -> BufferedBody {
    BufferedBody {
        memory_bytes: memory,
        file: Some(BufferFile {
            directory: FileAt {
                path: directory.to_owned(),
                span: Span::default(),
            },
            max_bytes,
        }),
    }
}

fn room(memory: usize, file: u64) -> Arc<Buffers> {
    Buffers::new(BufferTotals {
        memory_bytes: memory,
        file_bytes: file,
    })
}

/// Runs a future, and the local tasks that it spawns, on a runtime of one thread.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, work)
}

/// Waits until a condition holds that another thread brings about, 20 s at most.
async fn wait_for(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let bound = std::time::Duration::from_secs(20);
    tokio::time::timeout(bound, wait).await.expect("it comes");
}

#[test]
fn a_body_goes_to_a_file_behind_what_is_in_memory() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let buffers = room(1 << 20, 1 << 20);
        let (body, left) = Script::new(&[10_000; 50]);
        let told = Rc::new(Cell::new(None));
        let at_end = {
            let told = Rc::clone(&told);
            move |end| told.set(Some(end))
        };
        let rules = rules(40_000, directory.path(), 1 << 20);
        let body = ReadAhead::buffered(body, &rules, &buffers, at_end);
        wait_for(|| told.get().is_some()).await;
        // All of it is here, before anybody asked.
        assert_eq!(
            (told.get(), left.get(), buffers.early()),
            (Some(ReadEnd::Whole(500_000)), 0, 1)
        );
        assert!(
            buffers.memory_bytes() <= 50_000,
            "{}",
            buffers.memory_bytes()
        );
        wait_for(|| buffers.memory_bytes() + buffers.file_bytes() >= 500_000).await;
        assert_eq!(body.size_hint().exact(), Some(500_000));
        // The file has no name.
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        assert_eq!(body.collect().await.unwrap().to_bytes(), bytes(0, 500_000));
        assert_eq!((buffers.memory_bytes(), buffers.file_bytes()), (0, 0));
        assert!(Fallback::ALL.iter().all(|own| buffers.fallbacks(*own) == 0));
    });
}

#[test]
fn where_there_is_no_room_a_body_comes_as_it_is_asked_for() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("nowhere");
        let cases = [
            (
                rules(20_000, directory.path(), 30_000),
                1 << 20,
                Fallback::MaxSize,
            ),
            (
                rules(20_000, directory.path(), 1 << 30),
                30_000,
                Fallback::TotalFile,
            ),
            (rules(20_000, &nowhere, 1 << 30), 1 << 20, Fallback::Io),
        ];
        for (rules, file, reason) in cases {
            let buffers = room(1 << 20, file);
            let (body, left) = Script::new(&[10_000; 50]);
            let body = ReadAhead::buffered(body, &rules, &buffers, |_| {});
            wait_for(|| buffers.fallbacks(reason) == 1).await;
            for _ in 0..50 {
                yield_now().await;
            }
            assert!(left.get() > 40, "{reason:?}: {} are left", left.get());
            assert_eq!(body.collect().await.unwrap().to_bytes(), bytes(0, 500_000));
            assert_eq!((buffers.memory_bytes(), buffers.file_bytes()), (0, 0));
            assert_eq!(buffers.fallbacks(reason), 1);
        }
    });
}

#[test]
fn a_client_that_goes_leaves_nothing_in_files() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let buffers = room(1 << 20, 1 << 20);
        let rules = rules(20_000, directory.path(), 1 << 20);
        let (body, left) = Script::new(&[10_000; 50]);
        let body = ReadAhead::buffered(body, &rules, &buffers, |_| {});
        wait_for(|| left.get() < 40).await;
        drop(body);
        wait_for(|| buffers.memory_bytes() == 0 && buffers.file_bytes() == 0).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that bodies arrive whole, in whatever order they are read, and that no more counts
    /// as held than the bounds allow.
    #[test]
    fn bodies_are_whole_and_within_the_bounds(
        bodies in prop::collection::vec(prop::collection::vec(0_usize..30_000, 0..20), 1..5),
        memory in 1_usize..60_000,
        totals in (0_usize..100_000, 0_u64..200_000),
        has_file in any::<bool>(),
        order in prop::collection::vec((0_usize..5, 0_usize..4), 0..100),
    ) {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let buffers = room(totals.0, totals.1);
            let mut rules = rules(memory, directory.path(), 150_000);
            rules.file = rules.file.filter(|_| has_file);
            let whole: Vec<usize> = bodies.iter().map(|own| own.iter().sum()).collect();
            let start = |lengths: &Vec<usize>| {
                let body = Script::new(lengths).0;
                ReadAhead::buffered(body, &rules, &buffers, |_| {})
            };
            let mut open: Vec<_> = bodies.iter().map(start).collect();
            let mut had = vec![Vec::new(); open.len()];
            let check = || {
                assert!(buffers.memory_bytes() <= totals.0);
                assert!(buffers.file_bytes() as u64 <= totals.1);
            };
            for (which, turns) in order {
                let which = which % open.len();
                for _ in 0..turns {
                    yield_now().await;
                    check();
                }
                if let Some(frame) = open[which].frame().await {
                    had[which].extend_from_slice(frame.unwrap().data_ref().unwrap());
                }
                check();
            }
            for (body, had) in open.into_iter().zip(&mut had) {
                had.extend_from_slice(&body.collect().await.unwrap().to_bytes());
                check();
            }
            for (had, whole) in had.iter().zip(whole) {
                assert!(had[..] == bytes(0, whole)[..]);
            }
            wait_for(|| buffers.memory_bytes() == 0).await;
            assert_eq!(buffers.file_bytes(), 0);
        });
    }
}
