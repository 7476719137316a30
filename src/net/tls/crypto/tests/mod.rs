//! Test vectors of others.

mod wycheproof;
