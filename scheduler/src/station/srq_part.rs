//! The parts of a station that only SRQ has. The proxy-wasm filter has no room for their code, and
//! its configuration no words for them: there the type is without values, so that the compiler
//! leaves out all that depends on one.

#[cfg(target_arch = "wasm32")]
use std::convert::Infallible;
#[cfg(target_arch = "wasm32")]
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A part of a station that only SRQ has.
#[derive(Clone, Debug)]
pub(super) struct SrqPart<T>(
    #[cfg(not(target_arch = "wasm32"))] Box<T>,
    #[cfg(target_arch = "wasm32")] Infallible,
    #[cfg(target_arch = "wasm32")] PhantomData<T>,
);

impl<T> SrqPart<T> {
    /// Holds what is made, if anything is; nothing where there is no SRQ.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn new(make: impl FnOnce() -> Option<T>) -> Option<Self> {
        make().map(Box::new).map(Self)
    }

    #[cfg(target_arch = "wasm32")]
    pub(super) fn new(_: impl FnOnce() -> Option<T>) -> Option<Self> {
        None
    }
}

impl<T> Deref for SrqPart<T> {
    type Target = T;

    #[cfg(not(target_arch = "wasm32"))]
    fn deref(&self) -> &T {
        &self.0
    }

    #[cfg(target_arch = "wasm32")]
    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for SrqPart<T> {
    #[cfg(not(target_arch = "wasm32"))]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }

    #[cfg(target_arch = "wasm32")]
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}
