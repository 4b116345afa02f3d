//! Doing the same several times at once.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Makes numbers `1..=count`, as many at a time as there are processors, and hands them out in their order. Those that were made stay when another one
/// fails: its error is what is said.
pub fn several<T: Send, E: Send>(count: u32, make: impl Fn(u32) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    if count == 1 {
        return Ok(vec![make(1)?]);
    }
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let numbers = Mutex::new(1..=count);
    let work = || -> Result<Vec<(u32, T)>, E> {
        let mut made = Vec::new();
        loop {
            let next = numbers.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(number) = next else { return Ok(made) };
            made.push((number, make(number)?));
        }
    };
    let mut made = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut made = Vec::new();
        for worker in workers {
            made.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(made)
    })?;
    made.sort_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, one)| one).collect())
}

#[cfg(test)]
mod tests {
    use super::several;

    #[test]
    fn they_come_in_their_order_and_one_that_fails_is_said() {
        let squares: Result<Vec<u32>, String> = several(50, |number| Ok(number * number));
        assert_eq!(squares.unwrap(), (1..=50).map(|number| number * number).collect::<Vec<_>>());
        let failed = several(50, |number| if number == 7 { Err(number) } else { Ok(number) });
        assert_eq!(failed, Err(7));
    }
}
