//! Reads any bytes as a journal file, twice and in every format: no panic, no endless loop, no memory beyond the bound, and the same each time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdreport::encode::{Format, stream};
use rdreport::error::Error;
use rdreport::journal::files::Journal;
use rdreport::journal::source::Source;
use rdreport::journal::units;
use rdreport::sink::Sink;
use rdreport::sys::file::Root;
use rdreport::sys::time::Deadline;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Bytes that are written of one input before it is given up: a bomb may hold 128 MiB.
const OUTPUT_MAX: u64 = 4 << 20;

/// Counts bytes and sums them up.
struct Sum(u64, u64);

impl Sink for Sum {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0 += bytes.len() as u64;
        self.1 = bytes.iter().fold(self.1, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
        match self.0 {
            0..OUTPUT_MAX => Ok(()),
            _ => Err(Error::Output(rdreport::sys::Errno::FBIG)),
        }
    }
}

/// A folder in memory with the file that is read.
fn folder() -> &'static (PathBuf, Root) {
    static FOLDER: OnceLock<(PathBuf, Root)> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let path = PathBuf::from(format!("/dev/shm/rdreport-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(path.join("run/log/journal/a")).unwrap();
        let root = Root::new(Some(path.as_os_str().as_encoded_bytes())).unwrap();
        (path.join("run/log/journal/a/system.journal"), root)
    })
}

fuzz_target!(|content: &[u8]| {
    let (path, root) = folder();
    std::fs::write(path, content).unwrap();
    let Ok(mut source) = Source::new(Journal::open(root).take(root), true, Deadline::after_ms(60_000)) else { return };
    for (format, redact) in [(Format::Export, false), (Format::Json, true), (Format::Short, true), (Format::Raw, false)]
    {
        source.restart(redact);
        let mut sums = [Sum(0, 0), Sum(0, 0)];
        let ends = sums.each_mut().map(|sum| stream(&mut source, format, None, sum).map(|stats| stats.entries));
        assert_eq!(ends[0], ends[1]);
        assert_eq!(sums[0].1, sums[1].1);
    }
    let failed = units::failed(&mut source, Deadline::NEVER, Deadline::NEVER);
    // What one process finds, another reads.
    let mut encoded = Vec::new();
    failed.encode(&mut |_| {}, &mut encoded);
    let again = units::Failed::decode(&encoded, &mut |_| {});
    assert_eq!((again.is_late, again.units.len()), (failed.is_late, failed.units.len()));
    // And what is no encoding is read to an end.
    units::Failed::decode(content, &mut |_| {});
    units::verdict(content, &mut |_| {});
});
