//! A proxy on the way: a tunnel for `https` (CONNECT, RFC 9110 section 9.3.6). For `http` the request itself names the server (RFC 9112
//! section 3.2.2), which is `head`'s.

use crate::error::{Error, HttpError};
use crate::http::head::{self, Answer};
use crate::http::url::Url;
use crate::net::{Transport, is_near};
use crate::sink::Sink;
use crate::sys::time::Deadline;
use alloc::vec;
use heapless::Vec;

/// Longest request for a tunnel: the name of a host twice, and credentials.
const REQUEST_MAX: usize = 2048;
/// Longest head of the proxy's answer.
const HEAD_MAX: usize = 8192;

/// The proxy to go through to the server of `url`: none for what is on this machine or link, such as a cloud's metadata service.
pub fn on_the_way<'a>(proxy: Option<Url<'a>>, url: &Url<'_>) -> Option<Url<'a>> {
    proxy.filter(|_| cfg!(feature = "proxy") && !is_near(url.host))
}

/// Asks the proxy at the other end of `transport` for a tunnel to the server of `url`.
#[inline(never)] // as for `net::connect`
pub fn tunnel(transport: &mut dyn Transport, proxy: &Url<'_>, url: &Url<'_>, deadline: Deadline) -> Result<(), Error> {
    let mut request = Request(Vec::new());
    head::write_connect(url, proxy, &mut request)?;
    transport.send(&request.0, deadline)?;
    let mut buf = vec![0; HEAD_MAX];
    let mut len = 0usize;
    loop {
        let free = buf.get_mut(len..).filter(|free| !free.is_empty()).ok_or(HttpError::HeadTooLarge)?;
        match transport.recv(free, deadline)? {
            0 => return Err(HttpError::Cut.into()),
            n => len = len.saturating_add(n),
        }
        match Answer::parse(buf.get(..len).unwrap_or_default())? {
            None => {}
            // Of a server that speaks TLS nothing comes before it is spoken to.
            Some(answer) if answer.is_success() && answer.len == len => return Ok(()),
            Some(answer) if answer.is_success() => return Err(HttpError::NotHttp.into()),
            Some(answer) => return Err(HttpError::Proxy(answer.status).into()),
        }
    }
}

struct Request(Vec<u8, REQUEST_MAX>);

impl Sink for Request {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(bytes).map_err(|_| HttpError::BadUrl.into())
    }
}
