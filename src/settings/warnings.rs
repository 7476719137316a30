//! Warnings: one line for each problem that did not stop the report.

use heapless::Vec;

/// Capacity for warnings, in bytes. Further warnings are only counted.
const WARNINGS_BYTES: usize = 4096;

/// Non-fatal problems, one line each, for standard error and the status body.
pub struct Warnings {
    lines: heapless::Vec<u8, WARNINGS_BYTES>,
    dropped: u32,
}

impl Default for Warnings {
    fn default() -> Self {
        Self { lines: Vec::new(), dropped: 0 }
    }
}

impl Warnings {
    /// Adds a line made of `parts`, unless the same line is there already.
    pub fn add(&mut self, parts: &[&str]) {
        let len = parts.iter().map(|p| p.len()).sum::<usize>().saturating_add(1);
        if len > self.lines.capacity().saturating_sub(self.lines.len()) {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        let start = self.lines.len();
        for c in parts.iter().flat_map(|part| part.chars()) {
            // The text may be untrusted: a line feed would split the line, and an escape sequence
            // could hide it.
            let c = if c.is_control() { ' ' } else { c };
            let _ = self.lines.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        let _ = self.lines.push(b'\n');
        let (earlier, this) = self.lines.split_at(start.min(self.lines.len()));
        if earlier.split_inclusive(|b| *b == b'\n').any(|line| line == this) {
            self.lines.truncate(start);
        }
    }

    /// Returns the lines, in the order in which they were added.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let text = core::str::from_utf8(&self.lines).unwrap_or_default();
        text.lines()
    }

    /// Number of warnings that did not fit.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::settings::tests::parse;
    use heapless::String;

    #[test]
    fn a_warning_is_given_once() {
        assert_eq!(parse(&"rd.report.nonsense=1 ".repeat(3)).1.len(), 1);
    }

    #[test]
    fn many_warnings_are_counted_not_kept() {
        let line: String<8192> = (0..200).fold(String::new(), |mut line, n| {
            let _ = line.push_str(&std::format!("rd.report.nonsense{n}=1 "));
            line
        });
        let mut warnings = Warnings::default();
        Settings::parse(line.as_bytes(), &mut warnings);
        assert!(warnings.dropped() > 0);
        assert_eq!(warnings.lines().count() + warnings.dropped() as usize, 200);
    }
}
