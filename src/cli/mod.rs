//! The command line interface: arguments.

pub mod args;
