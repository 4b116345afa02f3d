//! Contexts: which one is current in a thread, and the primary one of a device.
use std::cell::RefCell;

use super::tables::{Context, open_nodes};
use super::{Call, lock};
use crate::code::{Code, Result};
use crate::wire::Core;

thread_local! {
    /// This thread's contexts, the current one last.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Programs call us from their own thread's destructors, when the stack is gone: it counts as empty then.
fn stack<T: Default>(with: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    STACK.try_with(|stack| with(&mut stack.borrow_mut())).unwrap_or_default()
}

/// Makes a context current.
pub fn push(context: u64) {
    stack(|stack| stack.push(context));
}

/// Takes the current context off.
///
/// # Errors
/// INVALID_CONTEXT if there is none.
pub fn pop() -> Result<u64> {
    stack(Vec::pop).ok_or(Code::INVALID_CONTEXT)
}

/// Puts another context in the place of the current one; `None`: takes that off.
pub fn replace(context: Option<u64>) {
    stack(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

/// The current context, if there is one.
#[must_use]
pub fn current() -> Option<u64> {
    stack(|stack| stack.last().copied())
}

impl Call {
    /// The current context and what is known of it.
    ///
    /// # Errors
    /// INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED.
    pub fn context(&self) -> Result<(u64, Context)> {
        let context = current().ok_or(Code::INVALID_CONTEXT)?;
        self.context_of(context).map_err(|_| Code::CONTEXT_IS_DESTROYED)
    }

    /// A context; 0 is the current one.
    ///
    /// # Errors
    /// INVALID_CONTEXT.
    pub fn context_of(&self, context: u64) -> Result<(u64, Context)> {
        if context == 0 {
            return self.context();
        }
        let known = self.client.tables().contexts.get(&context).cloned();
        known.map(|known| (context, known)).ok_or(Code::INVALID_CONTEXT)
    }

    /// A new context on a device. It is not made current.
    ///
    /// # Errors
    /// INVALID_DEVICE, and those of the server.
    pub fn create_context(&self, device: i32, flags: u32, primary: bool) -> Result<u64> {
        let (ordinal, gpu, opened, handle) = {
            let mut tables = self.client.tables();
            let handle = tables.handle();
            let (ordinal, device) = tables.device(device)?;
            (ordinal, device.gpu.index, device.opened, handle)
        };
        if !opened {
            let node = format!("nvidia{gpu}");
            let nodes = open_nodes(&self.client.dev, &[&node, &node, &node, &node])?;
            lock(&self.client.nodes).extend(nodes);
        }
        self.core::<()>(Core::ContextCreate { context: handle, gpu })?;
        let mut tables = self.client.tables();
        if let Some(device) = tables.devices.get_mut(ordinal) {
            device.opened = true;
        }
        let context = Context {
            device: ordinal,
            flags,
            primary,
            limits: Default::default(),
            cache: 0,
            peers: Vec::new(),
        };
        tables.contexts.insert(handle, context);
        Ok(handle)
    }

    /// Destroys a context and all that is in it.
    ///
    /// # Errors
    /// INVALID_CONTEXT.
    pub fn destroy_context(&self, context: u64) -> Result<()> {
        self.client.tables().contexts.remove(&context).ok_or(Code::INVALID_CONTEXT)?;
        let asked = self.core::<()>(Core::ContextDestroy { context });
        let mut tables = self.client.tables();
        let gone: Vec<(u64, u64)> = tables
            .allocations
            .iter()
            .filter(|(_, allocation)| allocation.context == context)
            .map(|(address, allocation)| (*address, allocation.room))
            .collect();
        for (address, room) in gone {
            tables.allocations.remove(&address);
            tables.addresses.give_back(address, room);
        }
        tables.streams.retain(|_, stream| stream.context != context);
        tables.events.retain(|_, owner| *owner != context);
        tables.modules.forget(context);
        stack(|stack| {
            if stack.last() == Some(&context) {
                stack.pop();
            }
        });
        asked
    }

    /// The primary context of a device, made if it is not there, and counted.
    ///
    /// # Errors
    /// Those of [`Call::create_context`].
    pub fn retain_primary(&self, device: i32) -> Result<u64> {
        // Two threads at once must not make two.
        let _one = lock(&self.client.primary);
        let (ordinal, primary, flags) = {
            let tables = self.client.tables();
            let (ordinal, device) = tables.device(device)?;
            (ordinal, device.primary, device.flags)
        };
        let context = match primary {
            Some(context) => context,
            None => self.create_context(device, flags, true)?,
        };
        if let Some(device) = self.client.tables().devices.get_mut(ordinal) {
            device.primary = Some(context);
            device.retained += 1;
        }
        Ok(context)
    }

    /// Lets the primary context go; the last one to do so destroys it. `reset`: destroys it in any case.
    ///
    /// # Errors
    /// INVALID_CONTEXT if nobody has retained it.
    pub fn release_primary(&self, device: i32, reset: bool) -> Result<()> {
        let _one = lock(&self.client.primary);
        let context = {
            let mut tables = self.client.tables();
            let ordinal = tables.device(device)?.0;
            let device = tables.devices.get_mut(ordinal).ok_or(Code::INVALID_DEVICE)?;
            if reset {
                device.retained = 0;
                device.primary.take()
            } else {
                device.retained = device.retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
                if device.retained == 0 { device.primary.take() } else { None }
            }
        };
        context.map_or(Ok(()), |context| self.destroy_context(context))
    }
}
