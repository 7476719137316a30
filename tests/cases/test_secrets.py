"""Header values from files and credentials: where they come from, and where they must never be."""
import re
import subprocess
import threading
import time
import unittest

from harness import BINARY, PATIENCE, Root, Server, children_of

SECRET = "s3cr3t-7d1f4c52"


class Secrets(unittest.TestCase):
    def report(self, header, files, behave=None):
        peer = Server(behave)
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url={peer.url()} rd.report.journal={peer.url('/j')} rd.report.header='{header}'")
        self.addCleanup(root.remove)
        for path, content in files.items():
            root.write(path, content)
        return root, peer

    def sent(self, header, files):
        root, peer = self.report(header, files)
        result = root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(SECRET, result.stdout + result.stderr)
        for request in peer.requests:
            self.assertNotIn(SECRET.encode(), request.text())
        return {request.headers.get("x-token") for request in peer.requests}, result.stderr

    def test_from_a_credential(self):
        for content in (SECRET, SECRET + "\n", SECRET + "\r\n"):
            for folder in ("@initrd", "@system"):
                with self.subTest(f"{content!r} {folder}"):
                    sent, _ = self.sent("X-Token: cred:my.token", {f"run/credentials/{folder}/my.token": content})
                    self.assertEqual(sent, {SECRET})

    def test_that_of_the_initramfs_goes_first(self):
        sent, _ = self.sent("X-Token: cred:t", {"run/credentials/@initrd/t": SECRET, "run/credentials/@system/t": "other"})
        self.assertEqual(sent, {SECRET})

    def test_without_one_the_field_is_not_sent(self):
        for name, said in (("t", "no such credential"), ("", "no credential can have this name"), ("../../etc/t", "no credential can"),
                           (".", "no credential can"), ("x" * 256, "no credential can")):
            with self.subTest(name):
                sent, warned = self.sent(f"X-Token: cred:{name}", {"etc/t": SECRET})
                self.assertEqual(sent, {None})
                self.assertIn(f"rd.report.header=X-Token: {said}", warned)

    def test_a_line_end_within_cannot_make_another_field(self):
        sent, warned = self.sent("X-Token: cred:t", {"run/credentials/@initrd/t": "a\r\nX-Evil: 1"})
        self.assertEqual(sent, {None})
        self.assertIn("control character", warned)

    def test_nothing_of_it_stays_in_the_process_that_waits(self):
        for header, path in (("X-Token: cred:t", "run/credentials/@initrd/t"), ("X-Token: @/t", "t")):
            with self.subTest(header):
                over, heard = threading.Event(), threading.Semaphore(0)
                self.addCleanup(over.set)

                def hang(connection, server):
                    connection.request()
                    heard.release()
                    over.wait(60)

                root, peer = self.report(header, {path: SECRET}, hang)
                binary = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.DEVNULL)
                try:
                    for _ in range(2):
                        self.assertTrue(heard.acquire(timeout=30))
                    self.assertEqual({request.headers["x-token"] for request in peer.requests}, {SECRET})
                    child = children_of(binary.pid)[0]
                    # The search is able to find it: in a process that may have to send it again.
                    self.assertTrue(self.holds(child))
                    # The process that waits could have to start another one, for the head start and a second more.
                    deadline = time.monotonic() + PATIENCE
                    while self.holds(binary.pid):
                        self.assertLess(time.monotonic(), deadline)
                finally:
                    binary.terminate()
                    binary.wait(10)

    def holds(self, pid):
        """Whether the secret is in the memory of a process."""
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for start, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", maps.read(), re.MULTILINE):
                memory.seek(int(start, 16))
                if SECRET.encode() in memory.read(int(end, 16) - int(start, 16)):
                    return True
        return False


class WronglyWritten(unittest.TestCase):
    """Secrets in settings that are not as they should be, and in those of others: nothing of them leaves by any way."""

    LINES = (
        "rd.report.url=http://127.0.0.1:1/s?sig={}", "rd.report.url=http://u:{}@127.0.0.1:1/s",
        "rd.report.url=u:{}@ops.example/s?sig={}", "rd.report.url=https:/u:{}@ops.example/s?sig={}",
        "\"rd.report.url=http://127.0.0.1:1/s?sig=a {}\"", "rd.report.proxy=u:{}@p:3128", "\"rd.report.header=X-Tok: {}\"",
        "rd.report.header=X-Tok: {}", "rd.report.header={}", "rd.report.headers='Authorization: Bearer {}'", "rd.report.tokne={}",
        "rd.report.maas.token=a:b:{}", "rd.reprot.header='X: {}'", "RD.REPORT.HEADER='X: {}'", "rd.report_header='X: {}'",
        "rd.report.fallback=http://u:{}@127.0.0.1:1/?q={}", "rd.report.journal=file:/dev/x?tok={}",
        "rd.luks.key={}", "netroot=iscsi:u:{}@10.0.0.1::3260::iqn", "root=cifs://u:{}@h/s", "systemd.setenv=TOKEN={}",
        "systemd.set_credential=a:{}", "rd.iscsi.password={}", "k3s.server_key={}", "luks.passphrase={}",
        "inst.sshpw={} rootpw={}", "wifi.psk={}", "ignition.config.url=https://u:{}@h/c?k={}", "proxy=u:{}@h:3128",
        "inst.ks=ftp://u:{}@h/ks",
    )

    def test_nothing_leaves(self):
        peer = Server()
        self.addCleanup(peer.close)
        for line in self.LINES:
            with self.subTest(line):
                peer.requests.clear()
                root = Root(f"rd.report.url={peer.url()} rd.report.platform=none rd.report.timeout=1 {line.replace('{}', SECRET)}", None)
                self.addCleanup(root.remove)
                paths = [root.write(path, "") for path in ("dev/kmsg", "dev/console")]
                results = [root.run(*args) for args in (("check",), ("failed", "--dry-run"), ("failed",))]
                said = "".join(result.stdout + result.stderr for result in results)
                for path in paths:
                    with open(path) as file:
                        said += file.read()
                self.assertEqual(len(peer.requests), 1)
                self.assertNotIn(SECRET, said + peer.requests[0].text().decode())


if __name__ == "__main__":
    unittest.main()
