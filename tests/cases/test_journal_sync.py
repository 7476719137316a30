"""What was logged just before the call is in the report: journald is asked to write it, and not waited for without end."""
import os
import socket
import threading
import time
import unittest

from harness import MACHINE, Root, Server, sample

SOCKET = "run/systemd/journal/io.systemd.journal"
CALL = b'{"method":"io.systemd.Journal.Synchronize"}\0'


class Journald:
    """journald's varlink socket below a root. `work` is called for each request, and gives the answer, or None for silence."""

    def __init__(self, root, work):
        path = os.path.join(root.path, SOCKET)
        os.makedirs(os.path.dirname(path))
        self.calls, self.work, self.open = [], work, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            call = b""
            while not call.endswith(b"\0"):
                call += peer.recv(100)
            self.calls.append(call)
            answer = self.work()
            if answer is None:
                self.open.append(peer)
            else:
                peer.sendall(answer)
                peer.close()

    def close(self):
        self.listener.close()
        for peer in self.open:
            peer.close()


class Sync(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.root = Root(f"rd.report.journal={self.server.url('/j')} rd.report.journal.redact=off", journal=None)
        self.addCleanup(self.root.remove)
        self.whole = sample("initrd-systemd252-fakeignition.journal")
        self.write(b"")

    def write(self, content):
        self.root.write(f"run/log/journal/{MACHINE}/system.journal", content)

    def journald(self, work):
        journald = Journald(self.root, work)
        self.addCleanup(journald.close)
        return journald

    def test_journald_writes_first(self):
        def work():
            self.write(self.whole)
            return b'{"parameters":{}}\0'

        journald = self.journald(work)
        result = self.root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.server.requests[-1].text().count(b"__CURSOR="), 527)
        self.write(b"")
        self.assertEqual(self.root.run("journal").stdout.count("__CURSOR="), 527)
        self.assertEqual(journald.calls, [CALL, CALL])

    def test_a_silent_journald_is_left_after_a_second(self):
        self.write(self.whole)
        self.journald(lambda: None)
        begin = time.monotonic()
        result = self.root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(self.server.requests[-1].text().count(b"__CURSOR="), 527)

    def test_nobody_behind_the_socket(self):
        self.write(self.whole)
        self.journald(lambda: None).close()
        self.assertEqual(self.root.run("failed").returncode, 0)
        self.assertEqual(self.server.requests[-1].text().count(b"__CURSOR="), 527)


if __name__ == "__main__":
    unittest.main()
