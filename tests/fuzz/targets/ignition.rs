//! Reads any bytes as an Ignition configuration: nothing panics; what comes out are keys, in lines that hold one each; and each stands in
//! the input, its escapes read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdreport::recovery::ignition::Scan;
use rdreport::settings::ssh_key::{LINE_MAX, PublicKey};

fuzz_target!(|config: &[u8]| {
    let mut scan = Scan::default();
    let mut lines: Vec<String> = Vec::new();
    let mut found = |key: Option<PublicKey<'_>>| {
        let Some(key) = key else { return };
        assert!(key.line.len() <= LINE_MAX && key.line.starts_with(key.key));
        assert!(!key.line.chars().any(char::is_control));
        assert_eq!(PublicKey::parse(key.line), Some(key));
        lines.push(key.line.to_owned());
    };
    let read = config.iter().take_while(|byte| scan.take(**byte, &mut found)).count();
    assert!(read == config.len() || !scan.is_whole() || read > 0);
    let text = String::from_utf8_lossy(config);
    for line in lines {
        let (kind, _) = line.split_once(' ').unwrap();
        assert!(text.contains(kind) || text.contains('\\'));
        assert!(text.contains("sshAuthorizedKeys") && text.contains("passwd") && text.contains("users"));
    }
    // A line of its own.
    if let Some(key) = std::str::from_utf8(config).ok().and_then(PublicKey::parse) {
        assert!(key.key.matches(' ').count() == 1 && !key.line.contains('\n'));
    }
});
