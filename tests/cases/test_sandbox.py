"""What a sink's process has given up before it reads what a server says."""
import ctypes
import errno
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import BINARY, MACHINE, OK, PATIENCE, Pki, Root, Server, children_of, sample


class Sandbox(unittest.TestCase):
    def setUp(self):
        self.over, self.heard = threading.Event(), threading.Event()
        self.addCleanup(self.over.set)

    def root(self, peer, words=""):
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url={peer.url()} rd.report.journal={peer.url()} rd.report.ca=/ca.pem {words}")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        return root

    def test_status_of_the_process(self):
        def hang(connection, server):
            self.heard.set()
            self.over.wait(60)

        root = self.root(Server(hang))
        binary = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.DEVNULL)
        try:
            self.assertTrue(self.heard.wait(30))
            child = children_of(binary.pid)[0]
            with open(f"/proc/{child}/status") as file:
                status = dict(line.split(":", 1) for line in file)
            self.assertEqual(status["NoNewPrivs"].strip(), "1")
            self.assertEqual(status["Seccomp"].strip(), "2")
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(status[name], 16), 0, name)
        finally:
            binary.terminate()
            binary.wait(10)

    def strace(self, root, *options):
        """The system calls of the program's first process, and those of each of its children."""
        folder = os.path.dirname(root.write("traces/none", ""))
        result = subprocess.run(["strace", "-ff", "-o", os.path.join(folder, "of"), *options, BINARY, "--root", root.path, "failed"],
                                stderr=subprocess.PIPE, timeout=60, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        parent, children = None, []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name)) as file:
                calls = file.read().splitlines()
            if calls and calls[0].startswith("execve("):
                parent = calls
            elif calls:
                children.append(calls)
        return parent, children

    def test_before_the_first_byte_and_nothing_is_refused(self):
        parent, children = self.strace(self.root(Server(tls="p256")))
        # One that looks at the journal, one that looks through rd.report.ca=, the status', and the journal's.
        self.assertEqual(len(children), 4)
        self.assert_reads_no_journal(parent)
        for own in children:
            limited = next(n for n, call in enumerate(own) if "PR_SET_SECCOMP" in call)
            # Landlock is there since Linux 5.13; not every kernel has it built in.
            version = next(call for call in own if call.startswith("landlock_create_ruleset(NULL"))
            if not version.endswith("ENOSYS (Function not implemented)") and "EOPNOTSUPP" not in version:
                restricted = next(n for n, call in enumerate(own) if call.startswith("landlock_restrict_self"))
                self.assertTrue(own[restricted].endswith("= 0"), own[restricted])
                self.assertLess(restricted, limited)
            for n, call in enumerate(own):
                if call.split("(")[0] in ("connect", "recvfrom", "pread64", "sendto", "openat"):
                    # Places are named to Landlock without being opened; what is printed goes nowhere.
                    if "O_PATH" not in call and '"/dev/null"' not in call:
                        self.assertGreater(n, limited, call)
                self.assertFalse(n > limited and "ENOSYS" in call, f"{call} is refused")

    def assert_reads_no_journal(self, calls):
        """The journal's files are read with this call alone: not by a process that has all its rights."""
        limited = next((n for n, call in enumerate(calls) if "PR_SET_SECCOMP" in call), len(calls))
        self.assertEqual([call for call in calls[:limited] if call.startswith("pread64")], [])

    def test_who_has_all_rights_reads_no_journal(self):
        def behave(connection, server):
            connection.answer(OK)
            self.heard.set()

        root = self.root(Server(behave))
        for verb in ("succeeded", "stuck", "journal", "follow"):
            self.heard.clear()
            trace = root.write("traces/parent", "")
            process = subprocess.Popen(["strace", "-o", trace, BINARY, "--root", root.path, verb], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            if verb == "follow":
                self.assertTrue(self.heard.wait(PATIENCE))
                os.kill(children_of(process.pid)[0], signal.SIGTERM)
            process.wait(PATIENCE)
            with open(trace) as file:
                calls = file.read().splitlines()
            self.assertTrue(any("system.journal" in call for call in calls), verb)
            self.assert_reads_no_journal(calls)

    def test_a_kernel_that_has_none_of_it(self):
        inject = []
        for call, error in (("landlock_create_ruleset", "ENOSYS"), ("capset", "EPERM"), ("prctl", "EINVAL")):
            inject += ["-e", f"inject={call}:error={error}"]
        self.strace(self.root(Server(tls="p256")), *inject)
        inject = ["-e", "inject=landlock_restrict_self:error=EPERM", "-e", "inject=landlock_add_rule:error=EINVAL"]
        # Without rules, and not restricted.
        self.strace(self.root(Server(tls="p256")), *inject)

    def test_no_core_dump(self):
        parent, _ = self.strace(self.root(Server()))
        hidden = next(n for n, call in enumerate(parent) if "PR_SET_DUMPABLE, SUID_DUMP_DISABLE) = 0" in call)
        read = next(n for n, call in enumerate(parent) if "openat" in call and '"cmdline"' in call)
        self.assertLess(hidden, read, "secrets are read before")


LIBC = ctypes.CDLL(None, use_errno=True)
# System calls of x86-64, and flags.
CALLS = {"write": 1, "mmap": 9, "mprotect": 10, "ioctl": 16, "pread64": 17, "dup": 32, "getpid": 39, "socket": 41, "sendmsg": 46, "bind": 49,
         "listen": 50, "socketpair": 53, "setsockopt": 54, "clone": 56, "fork": 57, "execve": 59, "kill": 62, "fcntl": 72, "flock": 73,
         "ftruncate": 77, "chmod": 90, "ptrace": 101, "setuid": 105, "prctl": 157, "mount": 165, "reboot": 169, "tkill": 200, "openat": 257,
         "mkdirat": 258, "unlinkat": 263, "renameat": 264, "accept4": 288, "prlimit64": 302, "process_vm_writev": 311, "seccomp": 317,
         "bpf": 321, "execveat": 322, "userfaultfd": 323, "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435, "openat2": 437,
         "x32 socket": 0x40000029}
CWD = -100 & 0xffffffffffffffff


def without_landlock():
    """Makes this process one of a kernel before 5.13: its system calls are not there."""
    code = b"".join(struct.pack("HBBI", *one) for one in [(0x20, 0, 0, 0), (0x35, 0, 2, 444), (0x25, 1, 0, 446), (0x06, 0, 0, 0x50026),
                                                          (0x06, 0, 0, 0x7fff0000)])
    instructions = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("H6xQ", len(code) // 8, ctypes.addressof(instructions)))
    assert LIBC.prctl(38, 1, 0, 0, 0) == 0 and LIBC.prctl(22, 2, program, 0, 0) == 0


def has_landlock():
    return LIBC.syscall(444, None, 0, 1) > 0


class Taken:
    """A process that was taken over: it makes the system calls that it is told to (ptrace(2))."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        self._trace(16)
        os.waitpid(self.pid, 0)
        self.before = (ctypes.c_ulonglong * 27)()
        self._trace(12, data=self.before)
        return self

    def __exit__(self, *_):
        self._trace(13, data=self.before)
        self._trace(17)

    def _trace(self, request, at=0, data=0):
        data = ctypes.c_void_p(data) if isinstance(data, int) else data
        if LIBC.ptrace(request, self.pid, ctypes.c_void_p(at), data) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request}")

    def call(self, name, *arguments):
        """Makes a call; gives what it returns. A text is put into the memory of the process."""
        registers = (ctypes.c_ulonglong * 27)(*self.before)
        at = (self.before[19] - 8192) & ~15
        numbers = []
        for argument in arguments:
            if isinstance(argument, str):
                text = argument.encode() + b"\0"
                for offset in range(0, len(text), 8):
                    self._trace(5, at + offset, int.from_bytes(text[offset:offset + 8].ljust(8, b"\0"), "little"))
                argument = at
            numbers.append(argument)
        # Onto the instruction of the call that it is in: rip, orig_rax, rax, and the arguments.
        registers[16], registers[15], registers[10] = self.before[16] - 2, 2**64 - 1, CALLS[name]
        for place, number in zip((14, 13, 12, 7, 9, 8), numbers + [0] * 6):
            registers[place] = number
        self._trace(13, data=registers)
        self._trace(9)
        os.waitpid(self.pid, 0)
        self._trace(12, data=registers)
        return ctypes.c_longlong(registers[10]).value


@unittest.skipUnless(platform.machine() == "x86_64" and os.geteuid() == 0, "takes a process over, which only root may, by x86-64's registers")
class TakenOver(unittest.TestCase):
    """What a process can still do once what it read has taken it over. Each test runs with and without Landlock."""

    def children(self, words="", is_old=False, prepare=None, count=1):
        """The processes of a report to a server that never answers."""
        over, heard = threading.Event(), threading.Semaphore(0)
        self.addCleanup(over.set)

        def hang(connection, _):
            connection.head()
            heard.release()
            over.wait(60)

        peer = Server(hang)
        self.addCleanup(peer.close)
        root = Root(f"rd.report.platform=none rd.report.timeout=50 rd.report.url={peer.url(host='127.0.0.1')} "
                    + words.replace("URL", peer.url(host="127.0.0.1")))
        self.addCleanup(root.remove)
        for path in ("etc/known", "tmp/known", "run/known", "proc/net/known", "sysroot/luks.key"):
            root.write(path, "text")
        if prepare:
            prepare(root)
        binary = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.DEVNULL,
                                  preexec_fn=without_landlock if is_old else None)
        self.addCleanup(binary.wait, 10)
        self.addCleanup(binary.terminate)
        for _ in range(count):
            self.assertTrue(heard.acquire(timeout=30))
        return root, binary, children_of(binary.pid)

    def both(self, *arguments, **options):
        for is_old in (False, True):
            if is_old or has_landlock():
                with self.subTest(landlock=not is_old):
                    root, binary, children = self.children(*arguments, is_old=is_old, **options)
                    with Taken(children[0]) as taken:
                        yield root, binary, taken, is_old

    def test_nothing_is_written(self):
        for root, binary, taken, is_old in self.both():
            self.assertGreaterEqual(taken.call("openat", CWD, f"{root.path}/etc/known", os.O_RDONLY), 0)
            kept = "text"
            for flags in (os.O_WRONLY, os.O_RDWR, 3, os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND,
                          os.O_RDONLY | os.O_CREAT, os.O_RDWR | os.O_TMPFILE, 1 << 32 | os.O_WRONLY):
                for path in (f"{root.path}/etc/known", f"{root.path}/tmp/new", f"{root.path}/tmp", "/proc/sys/kernel/core_pattern", "/dev/kmsg",
                             f"/proc/{binary.pid}/mem", f"/proc/{taken.pid}/mem", "/proc/self/fd/3"):
                    self.assertLess(taken.call("openat", CWD, path, flags, 0o600), 0, f"{path} {flags:o}")
            # Its flags are in memory.
            self.assertEqual(taken.call("openat2", CWD, "/etc/hostname", 0, 24), -errno.ENOSYS)
            with open(f"{root.path}/etc/known") as file:
                self.assertEqual(file.read(), kept)
            self.assertEqual(os.listdir(f"{root.path}/tmp"), ["known"])
            if not is_old:
                for path in (f"{root.path}/sysroot/luks.key", "/etc/shadow", f"{root.path}/proc/cmdline", "/"):
                    self.assertEqual(taken.call("openat", CWD, path, os.O_RDONLY), -errno.EACCES, path)

    def test_an_image_without_one_of_the_folders(self):
        if not has_landlock():
            self.skipTest("the kernel has no Landlock")
        for gone in ("etc", "run/known", "tmp", "proc/net"):
            for link in (None, "/", ".", "known"):
                def prepare(root, gone=gone, link=link):
                    path = os.path.join(root.path, gone)
                    (os.remove if gone == "run/known" else shutil.rmtree)(path)
                    if link:
                        os.symlink(link, path)

                with self.subTest(gone=gone, link=link):
                    root, _, children = self.children(prepare=prepare)
                    with Taken(children[0]) as taken:
                        self.assertEqual(taken.call("openat", CWD, f"{root.path}/sysroot/luks.key", os.O_RDONLY), -errno.EACCES)

    def test_sockets_are_of_the_network(self):
        ours = os.O_CLOEXEC | os.O_NONBLOCK
        for _, _, taken, _ in self.both():
            for family, kind, protocol in ((2, 1, 6), (10, 1, 6), (2, 2, 17), (10, 2, 17), (16, 3, 0)):
                self.assertGreaterEqual(taken.call("socket", family, kind | ours, protocol), 0, (family, kind, protocol))
            for family in range(46):
                for kind in range(1, 6):
                    for protocol in (0, 1, 6, 17, 58, 132, 136, 262):
                        is_fine = (family, kind, protocol) == (16, 3, 0) or family in (2, 10) and kind in (1, 2) and protocol in (0, 6, 17)
                        if not is_fine:
                            self.assertEqual(taken.call("socket", family, kind | ours, protocol), -errno.ENOSYS, (family, kind, protocol))
            self.assertEqual(taken.call("socket", 2**32 + 1, 1 | ours, 0), -errno.ENOSYS)

    def test_other_calls_are_not_there(self):
        for _, binary, taken, _ in self.both():
            for name, arguments in {
                "bind": (9, 0, 16), "listen": (9, 1), "accept4": (9,), "socketpair": (1, 1), "sendmsg": (1,), "execve": (), "execveat": (), "fork": (),
                "clone": (17,), "clone3": (), "ptrace": (), "kill": (binary.pid, 0), "tkill": (binary.pid, 0), "mmap": (0, 4096, 7, 34, 2**64 - 1),
                "mprotect": (0, 4096, 7), "mount": (), "io_uring_setup": (1,), "userfaultfd": (), "bpf": (), "dup": (2,), "fcntl": (2, 1),
                "ftruncate": (3, 0), "chmod": (), "unlinkat": (3, "etc/known"), "renameat": (3, "etc/known", 3), "mkdirat": (3, "x", 0o700),
                "setuid": (), "prctl": (4, 1), "seccomp": (1,), "x32 socket": (1, 1), "process_vm_writev": (binary.pid,), "pidfd_open": (binary.pid,),
                "reboot": (), "getpid": (), "flock": (3, 2), "prlimit64": (binary.pid,),
                # TIOCSTI, SIOCSIFFLAGS; SO_ATTACH_FILTER, SO_BINDTODEVICE, TCP_ULP.
                "ioctl": (0, 0x5412), "ioctl ": (9, 0x8914), "setsockopt": (9, 1, 26), "setsockopt ": (9, 1, 25), "setsockopt  ": (9, 6, 31),
            }.items():
                self.assertEqual(taken.call(name.strip(), *arguments), -errno.ENOSYS, name)

    def test_a_device_gets_neither_files_nor_sockets(self):
        def prepare(root):
            path = os.path.join(root.path, "dev/port")
            os.makedirs(os.path.dirname(path))
            os.mkfifo(path)
            self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            self.addCleanup(os.close, self.reader)

        for is_old in (False, True):
            with self.subTest(landlock=not is_old):
                root, binary, children = self.children("rd.report.journal=file:/dev/port rd.report.journal=URL", is_old, prepare, count=2)
                device = next(child for child in children if f"{root.path}/dev/port" in self.open(child).values())
                with Taken(device) as taken:
                    self.assertEqual(taken.call("socket", 2, 1 | os.O_CLOEXEC | os.O_NONBLOCK, 6), -errno.ENOSYS)
                    self.assertEqual(taken.call("openat", CWD, f"{root.path}/etc/known", os.O_RDONLY), -errno.ENOSYS)

    def test_who_fetches_can_empty_its_file_and_not_fill_the_memory(self):
        root, _, children = self.children("rd.report.fallback=URL", count=2)
        new = f"{root.path}/run/rdreport/fallback.new"
        fetching = next(child for child in children if new in self.open(child).values())
        self.assertRegex(self.limits(fetching), r"Max file size +8388608 +8388608")
        with Taken(fetching) as taken:
            file = next(number for number, path in self.open(fetching).items() if path == new)
            self.assertEqual(taken.call("ftruncate", file, 0), 0)

    def open(self, pid):
        """What is behind the descriptors of a process."""
        return {int(number): os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}

    def limits(self, pid):
        with open(f"/proc/{pid}/limits") as file:
            return file.read()

    def test_descriptors(self):
        """Nothing to print to, nothing of the other processes, and of the journal nothing where that is not sent."""
        root, _, children = self.children("rd.report.url=URLb rd.report.journal=URLc rd.report.journal=URLd", count=4)
        self.assertEqual(len(children), 4)
        pipes = []
        for child in children:
            found = self.open(child)
            self.assertEqual([found.pop(number) for number in range(3)], ["/dev/null"] * 3)
            self.assertIn(root.path, found.values())
            self.assertEqual([path for path in found.values() if "/run/rdreport/" in path], [])
            own = [(number, path) for number, path in found.items() if path.startswith("pipe:")]
            self.assertEqual(len(own), 1, found)
            pipes.append(own[0][1])
            with open(f"/proc/{child}/fdinfo/{own[0][0]}") as info:
                self.assertIn("flags:\t02000001\n", info.read())
            self.assertEqual(len([path for path in found.values() if path.startswith("socket:")]), 1)
            journal = [path for path in found.values() if path.endswith(".journal")]
            self.assertEqual(len(journal), 1 if child in children[2:] else 0, found)
        self.assertEqual(len(set(pipes)), 4)

    def test_no_process_looks_into_another(self):
        _, binary, children = self.children("rd.report.url=URLb", count=2)
        # As one without CAP_SYS_PTRACE but of the same user, which the sandbox leaves.
        script = ("import ctypes, os, sys; libc = ctypes.CDLL(None); [libc.prctl(24, cap, 0, 0, 0) for cap in range(64)]; "
                  "libc.capset(ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)), ctypes.byref((ctypes.c_uint32 * 6)())); "
                  "print([libc.ptrace(16, int(pid), None, None) for pid in sys.argv[1:]])")
        pids = [str(pid) for pid in (binary.pid, *children)]
        looked = subprocess.run([sys.executable, "-c", script, *pids], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(looked.stdout, "[-1, -1, -1]\n")
        self.assertRegex(self.limits(children[0]), "Max core file size")


class BelowRoot(unittest.TestCase):
    """Nothing outside of --root is read or written, whatever lies within."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rdreport-outside-")
        self.addCleanup(folder.cleanup)
        self.outside = folder.name

    def root(self, words=""):
        peer = Server(lambda connection, _: connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
        self.addCleanup(peer.close)
        url = peer.url(host="127.0.0.1")
        root = Root(f"rd.report.url={url} rd.report.platform=none rd.report.timeout=10 {words.replace('URL', url)}", journal=None)
        self.addCleanup(root.remove)
        return root, peer

    def delivered(self, root, peer, status=0):
        result = root.run("failed", is_new_boot=False)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual([request.method for request in peer.requests if request.method == "POST"], ["POST"])
        return result.stderr

    def test_the_folder_of_the_markers_is_a_link(self):
        for target in (self.outside, os.path.relpath(self.outside, "/"), "../" * 9 + self.outside[1:], "../etc", "missing"):
            with self.subTest(target=target):
                root, peer = self.root("rd.report.fallback=URL")
                root.write("etc/known", "text")
                os.symlink(target, os.path.join(root.path, "run/rdreport"))
                said = self.delivered(root, peer, status=1)
                self.assertIn("/run/rdreport: not a folder; this report may be sent again", said)
                self.assertIn("not put in place: the output was refused: not a folder", said)
                self.assertEqual((os.listdir(self.outside), os.listdir(os.path.join(root.path, "etc"))), ([], ["known"]))

    def test_links_in_the_place_of_markers(self):
        root, peer = self.root("rd.report.fallback=URL")
        names = ["failed.report", "failed.report.new", "fallback.new", "fallback.ign", "failed.pid", "STATE.lock", "failed.lock"]
        root.write("run/rdreport/x", "")
        for name in names:
            target = os.path.join(self.outside, name)
            with open(target, "w") as file:
                file.write("precious")
            os.symlink(target, os.path.join(root.path, "run/rdreport", name))
        root.run("failed", is_new_boot=False)
        self.assertEqual([request.method for request in peer.requests][:1], ["POST"])
        for name in names:
            with open(os.path.join(self.outside, name)) as file:
                self.assertEqual(file.read(), "precious")
        self.assertEqual(sorted(os.listdir(self.outside)), sorted(names))

    @unittest.skipIf(os.geteuid(), "only root gives folders away")
    def test_a_folder_that_others_can_change_is_not_trusted(self):
        for mode, owner in ((0o755, 65534), (0o1777, 0), (0o757, 0), (0o1777, 65534)):
            with self.subTest(mode=oct(mode), owner=owner):
                root, peer = self.root("rd.report.fallback=URL")
                root.write("run/rdreport/failed.done", "")
                path = os.path.join(root.path, "run/rdreport")
                os.chmod(path, mode)
                os.chown(path, owner, 0)
                said = self.delivered(root, peer, status=1)
                self.assertIn("/run/rdreport: it belongs to another user, or others can write to it; this report may be sent again", said)
                self.assertEqual(os.listdir(path), ["failed.done"])

    def test_pipes_hold_nobody_up(self):
        root, peer = self.root("rd.report.ca=/ca.pem 'rd.report.header=X-T: @/token'")
        for path in ("run/rdreport/failed.report", "run/rdreport/failed.start.0", "etc/hosts", "etc/resolv.conf", "ca.pem", "token",
                     "run/ignition.json"):
            whole = os.path.join(root.path, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            os.mkfifo(whole)
        root.run("failed", is_new_boot=False, stdin="")
        self.assertEqual([request.method for request in peer.requests], ["POST"])

    def test_the_journal_is_a_link(self):
        with open(os.path.join(self.outside, "system.journal"), "wb") as file:
            file.write(sample("initrd-systemd252-ignition-disks-missing.journal"))
        for link, target in ((f"run/log/journal/{MACHINE}", self.outside), (f"run/log/journal/{MACHINE}/system.journal", f"{self.outside}/system.journal"),
                             ("run/log/journal", self.outside), ("run/log", os.path.dirname(self.outside))):
            with self.subTest(link=link):
                root = Root("", journal=None)
                self.addCleanup(root.remove)
                path = os.path.join(root.path, link)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(target, path)
                self.assertEqual(root.run("journal").stdout, "")


if __name__ == "__main__":
    unittest.main()
