"""A virtual machine manager's socket."""
import unittest
import os
import re
import shutil
import subprocess

from harness import BINARY
from harness.clouds import Clouds


class Notify(Clouds):
    """The manager of a virtual machine. There is no host here that listens: what the binary asks of the kernel is seen by strace, which
    answers in the kernel's place."""

    def trace(self, *words, inject):
        """Runs the binary; gives its calls to a socket of the kind, as strace writes them."""
        log = os.path.join(self.root.path, "strace")
        self.root.write("proc/cmdline", "rd.report.timeout=3 rd.report.on=all\n")
        result = subprocess.run(["strace", "-f", "-s", "300", "-xx", "-e", "trace=socket,bind,connect,sendto", *inject, "-o", log, BINARY, "--root",
                                 self.root.path, *words], stderr=subprocess.PIPE, text=True, timeout=30)
        calls = [re.sub(r"^\d+ +", "", line) for line in self.root_text("strace").splitlines()]
        unhex = lambda found: bytes.fromhex(found[1].replace("\\x", "")).decode()
        return result, [re.sub(r'"((?:\\x[0-9a-f]{2})+)"', lambda found: repr(unhex(found)), call) for call in calls if "AF_NETLINK" not in call]

    def test_each_kind_until_one_is_there(self):
        self.root.write("run/credentials/@system/vmm.notify_socket", "vsock:2:1234\n")
        result, calls = self.trace("failed", "--message", "no disk", "--code", "42", inject=["-e", "inject=connect:retval=0", "-e",
                                   "inject=socket:error=ESOCKTNOSUPPORT:when=1..2", "-e", "inject=sendto:retval=38"])
        self.assertEqual([re.search(r"SOCK_[A-Z]+", call)[0] for call in calls if call.startswith("socket(AF_VSOCK")],
                         ["SOCK_DGRAM", "SOCK_SEQPACKET", "SOCK_STREAM"])
        for call in calls:
            if call.startswith("connect("):
                self.assertRegex(call, r"svm_cid=(VMADDR_CID_HOST|0x2), svm_port=0x4d2\b")
            if call.startswith("bind("):
                self.assertRegex(call, r"svm_cid=(VMADDR_CID_ANY|0xffffffff), svm_port=0x3[0-9a-f]{2}\b")
        sent, = [call for call in calls if call.startswith("sendto(")]
        self.assertIn("'STATUS=failed: no disk\\nEXIT_STATUS=42\\n', 38", sent)

    def test_words(self):
        self.root.write("sys/firmware/dmi/entries/11-0/raw", b"\x0b\x05\x00\x0b\x02io.systemd.credential:other=x\0"
                        b"io.systemd.credential:vmm.notify_socket=vsock-stream:2:9999\0\0")
        for words, said in ((("succeeded",), "STATUS=succeeded: provisioning succeeded\\n'"), (("running", "--stage", "disks"), "STATUS=running: [disks] "
                            "provisioning goes on\\n'"), (("failed", "--message", "x"), "STATUS=failed: x\\nEXIT_STATUS=1\\n'"),
                            (("stuck",), "STATUS=stuck: provisioning does not end\\n'")):
            shutil.rmtree(os.path.join(self.root.path, "run/rdreport"), ignore_errors=True)
            size = len(said[:-1].replace("\\n", "\n"))
            result, calls = self.trace(*words, inject=["-e", "inject=connect:retval=0", "-e", f"inject=sendto:retval={size}"])
            self.assertEqual([re.search(r"SOCK_[A-Z]+", call)[0] for call in calls if call.startswith("socket(AF_VSOCK")], ["SOCK_STREAM"])
            sent, = [call for call in calls if call.startswith("sendto(")]
            self.assertIn("'" + said + f", {size},", sent)
            self.assertNotIn("READY", sent)
            self.assertEqual((result.returncode, result.stderr), (0, f"rdreport: cloud notify: delivered ({size} bytes)\n"))

    def test_nobody_listens(self):
        self.root.write("run/credentials/@system/vmm.notify_socket", "vsock:2:1234\n")
        result, _ = self.trace("failed", inject=["-e", "inject=connect:error=ECONNRESET"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("cloud notify: not delivered: cannot connect: ", result.stderr)

    def test_no_socket(self):
        for text in ("", "/run/notify", "vsock:2"):
            self.root.write("run/credentials/@system/vmm.notify_socket", text)
            self.assertIn("nothing to report to", self.report("", "failed"))


if __name__ == "__main__":
    unittest.main()
