//! When a proxy is on the way. For `https` `client` asks it for a tunnel (CONNECT, RFC 9110 section 9.3.6); for `http` the request itself
//! names the server (RFC 9112 section 3.2.2), which is `head`'s.

use crate::http::url::Url;
use crate::net::is_near;

/// The proxy to go through to the server of `url`: none for what is on this machine or link, such as a cloud's metadata service.
pub fn on_the_way<'a>(proxy: Option<Url<'a>>, url: &Url<'_>) -> Option<Url<'a>> {
    proxy.filter(|_| cfg!(feature = "net-extra") && !is_near(url.host))
}
