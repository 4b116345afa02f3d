//! Exported functions: the linker.
//!
//! PTX goes in, and the "binary" that comes out is the same PTX: an opaque image for `cuModuleLoadData`, as the interface says.
//! Only one input can be linked, because texts of several modules cannot be put together as text.
use std::ffi::CString;
use std::sync::Arc;

use super::module::{Jit, Value, name_of};
use super::{In, Out, Text, export};
use crate::client;
use crate::code::{Code, Result};

/// `CU_JIT_INPUT_PTX`.
const PTX: i32 = 1;

fn add(state: u64, kind: i32, image: Vec<u8>, jit: &Jit) -> Result<()> {
    let call = client::enter()?;
    if kind != PTX {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let source = jit.source(&image)?;
    let mut tables = call.client.tables();
    let (inputs, _) = tables.modules.links.get_mut(&state).ok_or(Code::INVALID_HANDLE)?;
    if !inputs.is_empty() {
        return Err(Code::NOT_SUPPORTED);
    }
    inputs.push(source.text.to_string());
    Ok(())
}

export! {
    fn cuLinkCreate_v2(count: u32, options: In<i32>, values: In<Value>, state: Out<u64>) {
        let call = client::enter()?;
        call.context()?;
        Jit::read(count, options, values)?;
        let mut tables = call.client.tables();
        let handle = tables.handle();
        tables.modules.links.insert(handle, (Vec::new(), None));
        drop(tables);
        state.put(handle)
    }

    fn cuLinkAddData_v2(
        state: u64, kind: i32, data: In<u8>, size: usize, _name: Text, count: u32, options: In<i32>,
        values: In<Value>,
    ) {
        add(state, kind, data.list(size)?, &Jit::read(count, options, values)?)
    }

    fn cuLinkAddFile_v2(state: u64, kind: i32, path: Text, count: u32, options: In<i32>, values: In<Value>) {
        let image = std::fs::read(name_of(path)?).map_err(|_| Code::FILE_NOT_FOUND)?;
        add(state, kind, image, &Jit::read(count, options, values)?)
    }

    fn cuLinkComplete(state: u64, image: Out<u64>, size: Out<usize>) {
        let call = client::enter()?;
        let mut tables = call.client.tables();
        let (inputs, output) = tables.modules.links.get_mut(&state).ok_or(Code::INVALID_HANDLE)?;
        let text = inputs.concat().replace('\0', "");
        let text = Arc::new(CString::new(text).map_err(|_| Code::INVALID_VALUE)?);
        // the linker keeps the text until it is destroyed, so the address stays good
        image.put(text.as_ptr() as u64)?;
        size.put_if(text.as_bytes_with_nul().len());
        *output = Some(text);
        Ok(())
    }

    fn cuLinkDestroy(state: u64) {
        let call = client::enter()?;
        call.client.tables().modules.links.remove(&state).map(drop).ok_or(Code::INVALID_HANDLE)
    }
}
