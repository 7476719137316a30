//! Tells the outside world, from inside a Linux initramfs, how provisioning ended.
//!
//! ```text
//! /proc/cmdline -> settings --> report [-> cloud] --------> http::client --+
//!                           \-> journal -> encode -> gzip -> http::body --+--> net (TLS or plain) -> sys
//! ```
//! Each arrow writes into the next ([`sink::Sink`]); only results flow back. Imports point downwards only:
//! `run` > `args`, `console`, `device`, `fallback`, `follow` > `delivery`, `own_fields` > `cloud`, `target`, `words` > `credential`,
//! `action`, `interlock`, `report`, `encode`, `ssh` > `accounts`, `ignition`, `start`, `journal`, `http` > `net`, `gzip`, `settings` > `text`, `sink`, `error` > `sys`.
//! `sys` holds all unsafe code there is, but for the entry and the allocator's one instance in `main.rs`.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code, unused_must_use, unsafe_op_in_unsafe_fn)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc))]

extern crate alloc;

pub mod cli;
pub mod cloud;
pub mod date;
pub mod delivery;
pub mod destination;
pub mod encode;
pub mod error;
pub mod escape;
pub mod explain;
pub mod gzip;
pub mod http;
pub mod journal;
pub mod net;
pub mod output;
pub mod recovery;
pub mod report;
pub mod run;
pub mod settings;
pub mod sink;
pub mod sys;
pub mod text;
