//! What a delivery takes beside bytes on disk: instructions, memory and page faults, from start to answer, over TLS 1.3 on loopback.
//!
//! Instructions are callgrind's, of all processes, in user space: the same from run to run within a per cent, which seconds are not.
//! Memory is read from the page tables (`/proc/PID/smaps_rollup`) of the process that has sent the most, while it waits for the answer:
//! by then everything it will need is mapped, and neither musl nor a stack gives pages back. (The kernel's own peak, VmHWM, is off by
//! hundreds of kilobytes for so small a process.)

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// `linux/prctl.h`
const PR_GET_AUXV: u64 = 0x4155_5856;
const PYTHON: &str = "/usr/bin/python3";
const PIDS: &str = "/proc";

/// What is sent. The names are those of the measures.
struct Scenario {
    setting: &'static str,
    instructions: &'static str,
    rss: &'static str,
    faults: &'static str,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario { setting: "url", instructions: "status-instructions", rss: "status-rss", faults: "status-faults" },
    Scenario { setting: "journal", instructions: "journal-instructions", rss: "journal-rss", faults: "journal-faults" },
];
/// The journal of a real failed boot, with its secrets made up.
const JOURNAL: &str = "tests/fixtures/initrd-systemd252-ignition-disks-missing.journal.zst";

/// Whether a measure is one of ours.
pub fn is_effort(measure: &str) -> bool {
    SCENARIOS.iter().any(|s| [s.instructions, s.rss, s.faults].contains(&measure))
}

/// Values by measure.
pub fn measure(root: &Path, binary: &Path) -> Result<Vec<(&'static str, u64)>, String> {
    // Asked first: it would be missed only after the first delivery.
    run("valgrind (apt-get install valgrind)", Command::new("valgrind").arg("--version").stdout(Stdio::null()))?;
    let folder = Folder::new()?;
    let log = folder.0.join("tools.log");
    run("tests/harness/pki.sh", Command::new("sh").arg(root.join("tests/harness/pki.sh")).arg(&folder.0))?;
    let tree = folder.0.join("root");
    let journals = tree.join("run/log/journal/0123456789abcdef0123456789abcdef");
    for made in [&journals, &tree.join("proc")] {
        fs::create_dir_all(made).map_err(|e| format!("{}: {e}", made.display()))?;
    }
    let copied = fs::copy(folder.0.join("ca.pem"), tree.join("ca.pem"));
    copied.map_err(|e| format!("ca.pem of tests/harness/pki.sh: {e}"))?;
    run(
        "zstd",
        Command::new("zstd").args(["-q", "-d", "-o"]).arg(journals.join("system.journal")).arg(root.join(JOURNAL)),
    )?;

    let mut values = Vec::new();
    for Scenario { setting, instructions, rss, faults } in &SCENARIOS {
        let receiver = || Receiver::start(root, &folder.0, &tree, setting);
        let seen = deliver(receiver()?, Command::new(binary), &tree, &log, || memory(binary))?;
        values.push((*rss, seen.rss));
        values.push((*faults, seen.faults));
        values.push((*instructions, count(receiver()?, binary, &tree, &folder.0, &log)?));
    }
    Ok(values)
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("size-report-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The server, and the command line in `proc/cmdline` that leads to it.
struct Receiver {
    child: Child,
    port: u16,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Receiver {
    fn start(root: &Path, keys: &Path, tree: &Path, setting: &str) -> Result<Receiver, String> {
        let mut python = Command::new(PYTHON);
        python.arg(root.join("size-report/receiver.py")).args([keys.join("p256.pem"), keys.join("p256.key")]);
        let child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|e| format!("cannot run {PYTHON} ({e}); install it: apt-get install python3"))?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("the receiver has no pipes")?;
        let mut receiver = Receiver { child, port: 0, input, output: BufReader::new(output) };
        let port = receiver.line()?;
        receiver.port = port.parse().map_err(|_| format!("the receiver's port: {port}"))?;
        let url = format!("rd.report.{setting}=https://127.0.0.1:{port}/{setting} rd.report.ca=/ca.pem\n");
        fs::write(tree.join("proc/cmdline"), url).map_err(|e| format!("proc/cmdline: {e}"))?;
        Ok(receiver)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|e| format!("the receiver: {e}"))?;
        let line = line.trim_end();
        if line.is_empty() { Err("the receiver ended early".into()) } else { Ok(line.to_owned()) }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `command` with the arguments of a failed boot; `look` is called when the whole body was sent and no answer given.
fn deliver<T>(
    mut receiver: Receiver,
    mut command: Command,
    tree: &Path,
    log: &Path,
    look: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let said = fs::File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
    command.arg("--root").arg(tree).args(["failed", "--force", "--stage", "disks", "--message", "disk not found"]);
    command.stdin(Stdio::null()).stderr(said);
    let port = receiver.port;
    let client = thread::spawn(move || {
        hide_vdso()?;
        let status = command.status().map_err(|e| format!("cannot run {command:?}: {e}"));
        // Should the receiver still wait for somebody: nobody comes any more.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        status
    });
    let seen = receiver.line().and_then(|_| {
        let seen = look();
        writeln!(receiver.input).map_err(|e| format!("the receiver: {e}"))?;
        seen
    });
    let status = client.join().map_err(|_| "a thread panicked")??;
    if !status.success() {
        let said = fs::read_to_string(log).unwrap_or_default();
        return Err(format!("a delivery on loopback failed ({status}): {}", said.trim()));
    }
    seen
}

/// Valgrind does not map the vDSO, and hides it in `/proc/self/auxv`, but not in what the kernel answers to `PR_GET_AUXV`. So this thread's
/// children are told that there is no such call, as before Linux 6.4. Nor is there seccomp: the sandbox would hold valgrind as well, which
/// makes system calls of its own in the process. With and without valgrind, to measure the same thing.
fn hide_vdso() -> Result<(), String> {
    let filter = || {
        let is_auxv = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, PR_GET_AUXV)?;
        let is_seccomp =
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::PR_SET_SECCOMP as u64)?;
        let rules = vec![SeccompRule::new(vec![is_auxv])?, SeccompRule::new(vec![is_seccomp])?];
        let rules = BTreeMap::from([(libc::SYS_prctl, rules)]);
        let refuse = SeccompAction::Errno(libc::EINVAL as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
    };
    let program: Result<BpfProgram, seccompiler::BackendError> = filter();
    let program = program.map_err(|e| format!("seccomp: {e}"))?;
    seccompiler::apply_filter(&program).map_err(|e| format!("seccomp: {e}"))
}

fn count(receiver: Receiver, binary: &Path, tree: &Path, folder: &Path, log: &Path) -> Result<u64, String> {
    let outs = folder.join("callgrind");
    let _ = fs::remove_dir_all(&outs);
    fs::create_dir(&outs).map_err(|e| format!("{}: {e}", outs.display()))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}/%p", outs.display())).arg(binary);
    deliver(receiver, valgrind, tree, log, || Ok(()))?;
    let mut sum = 0;
    for entry in fs::read_dir(&outs).map_err(|e| e.to_string())? {
        let file = entry.map_err(|e| e.to_string())?.path();
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        sum += total(&text).ok_or("callgrind's output has no total")?;
    }
    Ok(sum)
}

/// The sum of a callgrind file. <https://valgrind.org/docs/manual/cl-format.html>
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals: "))?.split_whitespace().next()?.parse().ok()
}

struct Memory {
    /// Bytes of the largest process.
    rss: u64,
    /// Of all processes.
    faults: u64,
}

fn memory(binary: &Path) -> Result<Memory, String> {
    let binary = binary.canonicalize().map_err(|e| format!("{}: {e}", binary.display()))?;
    let mut memory = Memory { rss: 0, faults: 0 };
    for entry in fs::read_dir(PIDS).map_err(|e| format!("{PIDS}: {e}"))? {
        let Ok(entry) = entry else { continue };
        // Processes that are not ours, and such as have ended since.
        if fs::read_link(entry.path().join("exe")).ok().as_deref() != Some(&*binary) {
            continue;
        }
        let read = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        memory.rss = memory.rss.max(resident(&read("smaps_rollup")).unwrap_or(0));
        memory.faults += minor_faults(&read("stat")).unwrap_or(0);
    }
    if memory.rss == 0 { Err("the memory of the delivering process cannot be read".into()) } else { Ok(memory) }
}

/// `Rss:  712 kB`, in bytes.
fn resident(smaps_rollup: &str) -> Option<u64> {
    let line = smaps_rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// The tenth field of `/proc/PID/stat`; the second, in brackets, may hold spaces and brackets.
fn minor_faults(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(7)?.parse().ok()
}

fn run(name: &str, command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("cannot run {name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_callgrind() {
        assert_eq!(total("events: Ir\nfn=(1) main\n1 5\n\ntotals: 1234567\n"), Some(1_234_567));
        assert_eq!(total("totals: 7 8\n"), Some(7));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn resident_bytes() {
        assert_eq!(
            resident("00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss:                 712 kB\nPss: 1 kB\n"),
            Some(712 * 1024)
        );
        assert_eq!(resident(""), None);
    }

    #[test]
    fn faults_after_any_name() {
        assert_eq!(minor_faults("7 (rdreport) S 1 2 3 4 5 6 119 0 0 0"), Some(119));
        assert_eq!(minor_faults("7 (a) S) (b) S 1 2 3 4 5 6 119 0"), Some(119));
        assert_eq!(minor_faults("7 (a"), None);
    }
}
