//! The objects and bytes that Envoy and the module hand each other.

use std::ffi::{c_char, c_void};
use std::slice;

/// Bytes that one side lends to the other, as a pointer and a length.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) ptr: *const c_char,
    pub(super) length: usize,
}

impl Buffer {
    /// The buffer that stands for no value, which is not the same as an empty one.
    pub(super) const NULL: Self = Self {
        ptr: std::ptr::null(),
        length: 0,
    };

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self {
            ptr: bytes.as_ptr().cast(),
            length: bytes.len(),
        }
    }

    /// Returns the bytes that were lent; none for a null pointer.
    ///
    /// # Safety
    /// The bytes exist, unchanged, for `'a`.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { slice::from_raw_parts(self.ptr.cast(), self.length) }
    }
}

/// A header field, lent by one side to the other.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) key_ptr: *const c_char,
    pub(super) key_length: usize,
    pub(super) value_ptr: *const c_char,
    pub(super) value_length: usize,
}

impl Field {
    pub(super) const EMPTY: Self = Self {
        key_ptr: std::ptr::null(),
        key_length: 0,
        value_ptr: std::ptr::null(),
        value_length: 0,
    };

    pub(super) fn of(name: &str, value: &str) -> Self {
        Self {
            key_ptr: name.as_ptr().cast(),
            key_length: name.len(),
            value_ptr: value.as_ptr().cast(),
            value_length: value.len(),
        }
    }

    /// Returns the name of the field.
    ///
    /// # Safety
    /// The name is lent for `'a`, as for [`Buffer::bytes`].
    pub(super) unsafe fn key<'a>(self) -> &'a [u8] {
        let (ptr, length) = (self.key_ptr, self.key_length);
        // SAFETY: the caller vouches for it.
        unsafe { Buffer { ptr, length }.bytes() }
    }

    /// Returns the value of the field.
    ///
    /// # Safety
    /// The value is lent for `'a`, as for [`Buffer::bytes`].
    pub(super) unsafe fn value<'a>(self) -> &'a [u8] {
        let (ptr, length) = (self.value_ptr, self.value_length);
        // SAFETY: the caller vouches for it.
        unsafe { Buffer { ptr, length }.bytes() }
    }
}

/// A pointer to one of Envoy's objects.
pub(super) type Envoy = *mut c_void;
/// A pointer to one of this module's objects.
pub(super) type Ours = *const c_void;
