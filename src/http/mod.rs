//! A small client of HTTP/1.1 (RFC 9112): one request on one connection, its body written as it is made.
//!
//! `url` and `head` read and write what stands before a body, `body` frames what is sent and unframes what is received, `client` is the
//! exchange itself, `proxy` the way to it, `reason` reads why a server refused, and `retry` says what is tried again. `url`, `head` and `body` take bytes and give bytes.

pub mod body;
pub mod client;
pub mod head;
pub mod proxy;
pub mod reason;
pub mod retry;
pub mod url;
