//! `cuGetProcAddress`: the function for a name and a version.
//!
//! `versions.txt` has a line for each name: the versions of CUDA in which it came and in which it changed its arguments, as
//! the public `cudaTypedefs.h` has them. The first is the plain symbol, the next is `_v2`, and so on. A number that ends in `_ptsz`
//! or `_ptds` is the form for the thread's own default stream, of the last plain form that is not newer.
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::OnceLock;

use super::{Out, Text, export, exports};
use crate::client;
use crate::code::{Code, Result};

const VERSIONS: &str = include_str!("versions.txt");
/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const OWN_STREAM: u64 = 2;

/// `CUdriverProcAddressQueryResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Found = 0,
    NoSymbol = 1,
    TooOld = 2,
}

export! {
    fn cuGetProcAddress(name: Text, function: Out<*const c_void>, version: i32, flags: u64) {
        let status = look_up(name, function, version, flags)?;
        if status == Status::Found { Ok(()) } else { Err(Code::NOT_FOUND) }
    }

    fn cuGetProcAddress_v2(name: Text, function: Out<*const c_void>, version: i32, flags: u64, status: Out<u32>) {
        let found = look_up(name, function, version, flags)?;
        status.put_if(found as u32);
        Ok(())
    }
}

fn look_up(name: Text, function: Out<*const c_void>, version: i32, flags: u64) -> Result<Status> {
    let name = name.get()?;
    let driver = client::level();
    function.put(std::ptr::null())?;
    if version > driver.cuda() || flags > OWN_STREAM {
        return Err(Code::INVALID_VALUE);
    }
    let name = name.to_str().map_err(|_| Code::INVALID_VALUE)?;
    Ok(match symbol(name, version, flags & OWN_STREAM != 0) {
        Ok(symbol) => match functions().get(symbol.as_str()) {
            Some(address) => {
                function.put(*address as *const c_void)?;
                Status::Found
            }
            None => Status::NoSymbol,
        },
        Err(status) => status,
    })
}

/// The addresses of all symbols.
fn functions() -> &'static HashMap<&'static str, usize> {
    static ALL: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    ALL.get_or_init(|| exports().map(|export| (export.name, export.function as usize)).collect())
}

/// The lines of the table: name and versions.
fn table() -> &'static HashMap<&'static str, &'static str> {
    static ALL: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    ALL.get_or_init(|| VERSIONS.lines().filter_map(|line| line.split_once(' ')).collect())
}

/// The symbol for a name and a version.
fn symbol(name: &str, version: i32, own: bool) -> std::result::Result<String, Status> {
    let row = table().get(name).ok_or(Status::NoSymbol)?;
    let plain: Vec<i32> = row.split(' ').filter_map(|word| word.parse().ok()).collect();
    let form = |version: i32| match plain.iter().filter(|known| **known <= version).count() {
        0 => None,
        1 => Some(name.to_owned()),
        count => Some(format!("{name}_v{count}")),
    };
    if own {
        let newest = row.split(' ').filter_map(|word| word.split_once('_')).filter_map(|(number, ending)| {
            let number: i32 = number.parse().ok()?;
            (number <= version).then_some((number, ending))
        });
        if let Some((number, ending)) = newest.max_by_key(|(number, _)| *number)
            && let Some(base) = form(number)
        {
            return Ok(format!("{base}_{ending}"));
        }
    }
    form(version).ok_or(Status::TooOld)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(symbol("cuMemAlloc", 13000, false).unwrap(), "cuMemAlloc_v2");
        assert_eq!(symbol("cuMemAlloc", 3000, false).unwrap(), "cuMemAlloc");
        assert_eq!(symbol("cuMemAlloc", 13000, true).unwrap(), "cuMemAlloc_v2");
        assert_eq!(symbol("cuCtxCreate", 3020, false).unwrap(), "cuCtxCreate_v2");
        assert_eq!(symbol("cuCtxCreate", 11040, false).unwrap(), "cuCtxCreate_v3");
        assert_eq!(symbol("cuCtxCreate", 13000, false).unwrap(), "cuCtxCreate_v4");
        assert_eq!(symbol("cuMemcpyHtoD", 13000, true).unwrap(), "cuMemcpyHtoD_v2_ptds");
        assert_eq!(symbol("cuStreamGetCtx", 10000, true).unwrap(), "cuStreamGetCtx_ptsz");
        assert_eq!(symbol("cuStreamGetCtx", 13000, true).unwrap(), "cuStreamGetCtx_v2_ptsz");
        assert_eq!(symbol("cuMemsetD8Async", 13000, true).unwrap(), "cuMemsetD8Async_ptsz");
        assert_eq!(symbol("cuCheckpointProcessLock", 12040, false), Err(Status::TooOld));
        assert_eq!(symbol("cuNothing", 13000, false), Err(Status::NoSymbol));
    }

    #[test]
    fn every_public_name_has_a_function() {
        let functions = functions();
        let newest = |name: &&&str| !functions.contains_key(symbol(name, i32::MAX, false).unwrap().as_str());
        let missing: Vec<_> = table().keys().filter(newest).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
