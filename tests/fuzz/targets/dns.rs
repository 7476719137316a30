//! Reads any bytes as the answer to a query, of both kinds: nothing panics or loops, and only an answer to this query gives addresses.
#![no_main]

use heapless::Vec;
use libfuzzer_sys::fuzz_target;
use rdreport::net::dns::message::{Kind, Query, answer};

fuzz_target!(|message: &[u8]| {
    for kind in [Kind::A, Kind::Aaaa] {
        let mut query = Query::new(b"host.example", b"").unwrap();
        let query = query.message(0x1234, kind);
        let mut found = Vec::new();
        let read = answer(query, kind, message, &mut found);
        assert!(found.is_empty() || read.is_some_and(|answer| answer.rcode == 0));
        assert!(read.is_none() || message.starts_with(&query[..2]));
        assert!(found.iter().all(|ip| ip.is_ipv4() == (kind == Kind::A)));
    }
});
