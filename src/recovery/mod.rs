//! Recovery: what is done with the machine after a failure was reported.

pub mod accounts;
pub mod action;
pub mod fallback;
pub mod ignition;
pub mod ssh;
pub mod systemd;
