//! Streams, events and host functions.
use std::cell::RefCell;
use std::collections::HashMap;

use super::Call;
use super::tables::Stream;
use crate::code::{Code, Result};
use crate::wire::Core;

/// `CU_STREAM_LEGACY`.
const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;

thread_local! {
    /// This thread's own default stream, by context.
    static OWN: RefCell<HashMap<u64, u64>> = RefCell::new(HashMap::new());
}

impl Call {
    /// The server's number of a `CUstream`; `own`: NULL means the thread's own default stream (the `_ptsz` calls).
    ///
    /// # Errors
    /// INVALID_HANDLE, or those of [`Call::context`] for default streams.
    pub fn stream(&self, stream: u64, own: bool) -> Result<u64> {
        match stream {
            0 if own => self.own_stream(),
            PER_THREAD => self.own_stream(),
            0 | LEGACY => Ok(self.context()?.0),
            stream if self.client.tables().streams.contains_key(&stream) => Ok(stream),
            _ => Err(Code::INVALID_HANDLE),
        }
    }

    /// What is known of a stream by [`Call::stream`]'s number.
    ///
    /// # Errors
    /// INVALID_HANDLE.
    pub fn stream_info(&self, stream: u64) -> Result<Stream> {
        let tables = self.client.tables();
        if tables.contexts.contains_key(&stream) {
            return Ok(Stream { context: stream, flags: 0, priority: 0 });
        }
        tables.streams.get(&stream).copied().ok_or(Code::INVALID_HANDLE)
    }

    fn own_stream(&self) -> Result<u64> {
        let context = self.context()?.0;
        if let Ok(Some(stream)) = OWN.try_with(|own| own.borrow().get(&context).copied()) {
            return Ok(stream);
        }
        let stream = self.create_stream(0, 0)?;
        // A thread that is ending has no place to keep it, and no further use for it.
        let _kept = OWN.try_with(|own| own.borrow_mut().insert(context, stream));
        Ok(stream)
    }

    /// A new stream in the current context.
    ///
    /// # Errors
    /// Those of the context and the server.
    pub fn create_stream(&self, flags: u32, priority: i32) -> Result<u64> {
        let context = self.context()?.0;
        let stream = self.client.tables().handle();
        self.core::<()>(Core::StreamCreate { stream, context, flags, priority })?;
        self.client.tables().streams.insert(stream, Stream { context, flags, priority });
        Ok(stream)
    }

    /// Forgets a stream; its work goes on.
    ///
    /// # Errors
    /// INVALID_HANDLE, also for default streams.
    pub fn destroy_stream(&self, stream: u64) -> Result<()> {
        self.client.tables().streams.remove(&stream).ok_or(Code::INVALID_HANDLE)?;
        self.core(Core::StreamDestroy { stream })
    }

    /// Runs a function of the program when the stream gets there, in a thread of its own. The call stays behind the gate
    /// until then: a checkpoint waits for it.
    ///
    /// # Errors
    /// Those of the server, or OUT_OF_MEMORY without a thread.
    pub fn host_function(self, stream: u64, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let token = self.client.tables().handle();
        self.core::<()>(Core::HostFunc { stream, token })?;
        let client = self.client;
        let thread = std::thread::Builder::new().name("cuda-host-func".to_owned()).spawn(move || {
            if self.core::<()>(Core::HostFuncAwait { token }).is_ok() {
                function();
            }
            let _told = self.core::<()>(Core::HostFuncDone { token });
        });
        thread.map(drop).map_err(|_| {
            let _told = client.ask::<()>(&crate::wire::Request::Core(Core::HostFuncDone { token }));
            Code::OUT_OF_MEMORY
        })
    }

    /// A new event in the current context.
    ///
    /// # Errors
    /// Those of the context and the server.
    pub fn create_event(&self, flags: u32) -> Result<u64> {
        let context = self.context()?.0;
        let event = self.client.tables().handle();
        self.core::<()>(Core::EventCreate { event, flags })?;
        self.client.tables().events.insert(event, context);
        Ok(event)
    }

    /// Forgets an event.
    ///
    /// # Errors
    /// INVALID_HANDLE.
    pub fn destroy_event(&self, event: u64) -> Result<()> {
        self.client.tables().events.remove(&event).ok_or(Code::INVALID_HANDLE)?;
        self.core(Core::EventDestroy { event })
    }
}
