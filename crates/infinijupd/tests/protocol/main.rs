//! The daemon over a real socket, with a double in the place of the engine.
#![forbid(unsafe_code)]

#[cfg(test)]
mod access;
#[cfg(test)]
mod client;
#[cfg(test)]
mod double;
#[cfg(test)]
mod errands;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod names;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod running;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod streams;
