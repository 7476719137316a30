"""What a sink's process has given up before it reads what a server says."""
import os
import subprocess
import threading
import unittest

from peers import BINARY, Pki, Root, Server, children_of


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
        _, children = self.strace(self.root(Server(tls="p256")))
        self.assertEqual(len(children), 2)
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
                    # Places are named to Landlock without being opened.
                    if "O_PATH" not in call:
                        self.assertGreater(n, limited, call)
                self.assertFalse(n > limited and "ENOSYS" in call, f"{call} is refused")

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


if __name__ == "__main__":
    unittest.main()
