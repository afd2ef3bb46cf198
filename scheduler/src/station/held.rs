//! The parts of a station that only SRQ has. The proxy-wasm filter has no room for their code, and
//! its configuration no words for them: there the type is without values, so that the compiler
//! leaves out all that depends on one.

use std::ops::{Deref, DerefMut};

/// A part of a station that only SRQ has, in a box.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Debug)]
pub(super) struct Held<T>(Box<T>);

/// A part of a station that only SRQ has, which is nowhere here.
#[cfg(target_arch = "wasm32")]
#[derive(Clone, Debug)]
pub(super) struct Held<T>(std::convert::Infallible, std::marker::PhantomData<T>);

#[cfg(not(target_arch = "wasm32"))]
impl<T> Held<T> {
    /// Holds what is made, if anything is.
    pub(super) fn new(make: impl FnOnce() -> Option<T>) -> Option<Self> {
        make().map(Box::new).map(Self)
    }
}

#[cfg(target_arch = "wasm32")]
impl<T> Held<T> {
    /// Holds nothing, and so makes nothing.
    pub(super) fn new(_: impl FnOnce() -> Option<T>) -> Option<Self> {
        None
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(target_arch = "wasm32")]
impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self.0 {}
    }
}

#[cfg(target_arch = "wasm32")]
impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}
