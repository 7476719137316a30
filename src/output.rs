//! The last resort: a line on the console and in the kernel's log, where whoever looks at a machine that does not come up looks first.

use crate::sys::file::Root;
use crate::sys::time::Deadline;
use heapless::Vec;

/// Milliseconds that a line may take: a console whose flow is stopped must not hold up the rest.
const LINE_MS: u64 = 250;
/// The kernel takes lines up to 1024 bytes less its own prefix of 32 (`PRINTKRB_RECORD_MAX`), and refuses longer ones.
const KMSG_MAX: usize = 960;
/// Facility "user", level "warning" (kernel documentation, ABI/testing/dev-kmsg).
const KMSG_PREFIX: &[u8] = b"<12>";
/// That level, which the kernel shows on its consoles if it is below theirs.
const KMSG_LEVEL: u8 = 4;

/// Prints `line`, which ends with a line feed, as far as it can be done without waiting.
pub fn print(root: &Root, line: &[u8]) {
    let deadline = Deadline::after_ms(LINE_MS);
    let mut message: Vec<u8, KMSG_MAX> = Vec::new();
    let room = KMSG_MAX.saturating_sub(KMSG_PREFIX.len());
    let _ = message.extend_from_slice(KMSG_PREFIX);
    let _ = message.extend_from_slice(line.get(..line.len().min(room)).unwrap_or_default());
    let in_log = root.output("dev/kmsg").is_ok_and(|kmsg| kmsg.write(&message, deadline).is_ok());
    if in_log && is_shown(root) {
        return;
    }
    if let Ok(console) = root.output("dev/console")
        && !console.is_stderr()
    {
        let _ = console.write(line, deadline);
    }
}

/// Whether the kernel shows what is in its log on the console, by the first number of `printk`.
fn is_shown(root: &Root) -> bool {
    let level = root.read("proc/sys/kernel/printk", &mut [0; 2]).ok().and_then(|text| text.first().copied());
    level.is_some_and(|digit| digit.is_ascii_digit() && digit.saturating_sub(b'0') > KMSG_LEVEL)
}
