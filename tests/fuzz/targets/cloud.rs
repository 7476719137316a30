//! Reads any bytes as a cloud service's answer, and as a message of Hyper-V's exchange: no panic, and nothing but what stands in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdreport::cloud::hyperv::device as kvp;
use rdreport::cloud::{json, xml};
use rdreport::text::Text;

fuzz_target!(|data: &[u8]| {
    let mut buf = [0; 64];
    for name in ["id", "user_state_url", ""] {
        let mut text = Text::new(&mut buf);
        let found = json::string(data, name, &mut text);
        if found.is_ok() {
            let key = data.windows(name.len().max(1)).any(|part| part == name.as_bytes());
            assert!(key || name.is_empty());
        }
    }
    if let Ok(text) = xml::text(data, "Incarnation") {
        assert!(!text.is_empty() && !text.contains('<') && text.trim_ascii() == text);
    }
    let mut message = [0; kvp::MESSAGE_LEN];
    for (to, from) in message.iter_mut().zip(data) {
        *to = *from;
    }
    let mut step = kvp::Step::Registered;
    assert!(kvp::answer(&mut message, b"KEY", b"value", &mut step));
    // The record is given where it is said to be taken, and only there.
    let is_given = message[..4] == [0; 4] && message[532..538] == *b"value\0";
    assert_eq!(step == kvp::Step::Taken, is_given);
});
