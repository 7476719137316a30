//! What the binary costs in a compressed initramfs: the sizes that `gzip -9`, `xz -9e` and `zstd -19` make of it.
//!
//! The commands do it, not crates: the figure is what a reader gets who types the command, and no Rust crate gives gzip's own deflate
//! (zlib's differs). It is the same on every machine: one thread is asked for (with more, xz adds 8 bytes), and neither name nor time is
//! stored. Only another release of a compressor may differ, by tens of bytes; their versions stand in the baseline, and the report says
//! when they are others.

use std::path::Path;
use std::process::Command;

pub struct Compressor {
    /// The measure's name in report, baseline and budgets.
    pub name: &'static str,
    pub program: &'static str,
    arguments: &'static [&'static str],
    package: &'static str,
}

pub const COMPRESSORS: [Compressor; 3] = [
    Compressor { name: "gzip-9", program: "gzip", arguments: &["-9", "-n", "-c"], package: "gzip" },
    Compressor { name: "xz-9e", program: "xz", arguments: &["-9e", "-T1", "-c"], package: "xz-utils" },
    // From a file, not a pipe: the content's size is then in the frame.
    Compressor { name: "zstd-19", program: "zstd", arguments: &["-19", "-T1", "-q", "-c"], package: "zstd" },
];

impl Compressor {
    /// Bytes that the compressed file has.
    pub fn size(&self, file: &Path) -> Result<u64, String> {
        let output =
            Command::new(self.program).args(self.arguments).arg(file).output().map_err(|e| self.missing(&e))?;
        if !output.status.success() {
            return Err(format!("{}: {}", self.program, String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(output.stdout.len() as u64)
    }

    /// Such as `zstd 1.5.4`: the first word of `--version` that begins like a number.
    pub fn version(&self) -> Result<String, String> {
        let output = Command::new(self.program).arg("--version").output().map_err(|e| self.missing(&e))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number = |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
        let word = text.split_whitespace().find(|w| number(w) && w.contains('.')).unwrap_or("?");
        Ok(format!("{} {}", self.program, word.trim_start_matches('v').trim_end_matches(',')))
    }

    fn missing(&self, error: &std::io::Error) -> String {
        let Compressor { program, package, .. } = self;
        format!("cannot run {program} ({error}); install it: apt-get install {package} (Fedora, Arch: {program})")
    }
}

/// All compressors and their versions, in one line.
pub fn versions() -> Result<String, String> {
    let versions: Result<Vec<_>, _> = COMPRESSORS.iter().map(Compressor::version).collect();
    Ok(versions?.join(", "))
}
