//! Pointers that C callers give us.
//!
//! These types are what an `extern "C"` function takes: `#[repr(transparent)]` over a raw pointer, with a private field, so
//! that safe Rust cannot make one out of thin air. What their methods rely on is what every C function relies on: that the
//! caller's pointer is NULL or good for the type and the count that the interface says, for the duration of the call.
use std::ffi::{CStr, CString, c_char};

use crate::code::{Code, Result};

/// A pointer to what the call reads: one value, or an array.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// A pointer to where the call writes.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

// Derived, these would ask for a T that can be copied; a pointer can be in any case.
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}
impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

/// A C string that the call reads.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl<T: Copy> In<T> {
    /// The value; `None` for NULL.
    pub(crate) fn get(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, so the caller says it is a T (see the module); unaligned on purpose, C callers pack structs.
        Some(unsafe { self.0.read_unaligned() })
    }

    /// The value; NULL is an invalid argument.
    pub(crate) fn need(self) -> Result<T> {
        self.get().ok_or(Code::INVALID_VALUE)
    }

    /// An array of `count`.
    pub(crate) fn list(self, count: usize) -> Result<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and the caller says that there are `count` of them (see the module).
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

impl<T> In<T> {
    /// NULL.
    pub(crate) const fn null() -> Self {
        Self(std::ptr::null())
    }

    /// The same pointer, to another type.
    pub(crate) fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }

    /// The address, for those that only pass it on.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }
}

impl<T> Out<T> {
    /// The same pointer, to another type.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Is it NULL?
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address, for those that only pass it on.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// Writes the value; NULL is an invalid argument.
    pub(crate) fn put(self, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, so the caller says there is room for a T (see the module).
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the value unless the pointer is NULL.
    pub(crate) fn put_if(self, value: T) {
        if !self.0.is_null() {
            let _written = self.put(value);
        }
    }

    /// Writes several, one after the other.
    pub(crate) fn put_all(self, values: impl IntoIterator<Item = T>) -> Result<()> {
        for (index, value) in values.into_iter().enumerate() {
            if self.0.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the caller says there is room for as many as it asked for (see the module).
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    /// What the caller put there, for arguments that go both ways; NULL is an invalid argument.
    pub(crate) fn given(self) -> Result<T> {
        In(self.0.cast_const()).need()
    }
}

impl Out<c_char> {
    /// Writes a C string into a buffer of `room` bytes, cut to fit.
    pub(crate) fn put_text(self, text: &str, room: usize) -> Result<()> {
        if room == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let bytes = text.as_bytes();
        let cut = &bytes[..bytes.len().min(room - 1)];
        self.put_all(cut.iter().map(|byte| byte.cast_signed()).chain([0]))
    }
}

impl Text {
    /// The string; NULL is an invalid argument.
    pub(crate) fn get(self) -> Result<CString> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, so the caller says that it is a string with an end (see the module).
        Ok(unsafe { CStr::from_ptr(self.0) }.to_owned())
    }
}

/// Tests are callers too: what a reference points to is good for the call.
#[cfg(test)]
impl<T> From<&mut T> for Out<T> {
    fn from(place: &mut T) -> Self {
        Self(place)
    }
}

#[cfg(test)]
impl<T> From<&T> for In<T> {
    fn from(place: &T) -> Self {
        Self(place)
    }
}

#[cfg(test)]
impl From<&CStr> for Text {
    fn from(text: &CStr) -> Self {
        Self(text.as_ptr())
    }
}
