"""Progress: it ends where the end begins, and costs nothing where nobody asked for it."""
import json
import os
import re
import subprocess
import threading
import unittest

from harness import BINARY, OK, PATIENCE, Root, Server

DONE, UNDELIVERED, ALREADY = 0, 1, 3
REFUSED = "rdreport: 'running' is not sent: '{}' was reported, or began to be; --force sends it anyway\n"


class Progress(unittest.TestCase):
    def server(self, behave=None):
        server = Server(behave)
        self.addCleanup(server.close)
        return server

    def root(self, server, *words):
        root = Root(" ".join([f"rd.report.url={server.url(host='127.0.0.1')}", *words]), journal=None)
        self.addCleanup(root.remove)
        return root

    def run_in(self, root, *args):
        result = root.run(*args, is_new_boot=False)
        return result.returncode, result.stderr

    def states(self, server):
        return [json.loads(request.body)["state"] for request in server.requests]

    def test_none_after_the_end(self):
        for end in ("failed", "succeeded"):
            with self.subTest(end=end):
                server = self.server()
                root = self.root(server, "rd.report.on=all")
                self.assertEqual(self.run_in(root, "running", "--stage", "disks")[0], DONE)
                self.assertEqual(self.run_in(root, end)[0], DONE)
                self.assertEqual(self.run_in(root, "running", "--stage", "files"), (ALREADY, REFUSED.format(end)))
                self.assertEqual(self.states(server), ["running", end])
                self.assertEqual(self.run_in(root, "running", "--stage", "files", "--force")[0], DONE)
                self.assertEqual(self.states(server), ["running", end, "running"])

    def test_an_end_that_reached_nobody_ends_it_too(self):
        """The next run of it sends it."""
        server = self.server(lambda connection, server: connection.answer(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"))
        root = self.root(server, "rd.report.on=all")
        self.assertEqual(self.run_in(root, "failed")[0], UNDELIVERED)
        self.assertEqual(self.run_in(root, "running"), (ALREADY, REFUSED.format("failed")))
        self.assertEqual(self.states(server), ["failed"])

    def test_the_end_of_another_boot_does_not_count(self):
        server = self.server()
        root = self.root(server, "rd.report.on=all")
        for number, states in ((1, ["running", "failed"]), (2, ["running"])):
            root.write("proc/sys/kernel/random/boot_id", f"0000000{number}-89ab-cdef-0123-456789abcdef\n")
            for state in states:
                self.assertEqual(self.run_in(root, state)[0], DONE)
        self.assertEqual(self.states(server), ["running", "failed", "running"])

    def test_what_is_under_way_when_the_end_begins_is_given_up(self):
        """A server that is slow to take progress must not be told of it after the end."""
        arrived = threading.Event()
        heads = []

        def behave(connection, server):
            heads.append(connection.head())
            if len(heads) == 1:
                arrived.set()
                connection.file.read()
                return
            connection.sock.sendall(OK)

        server = self.server(behave)
        root = self.root(server, "rd.report.on=all")
        progress = subprocess.Popen([BINARY, "--root", root.path, "running", "--stage", "disks"], stderr=subprocess.PIPE, text=True)
        self.assertTrue(arrived.wait(PATIENCE))
        self.assertEqual(self.run_in(root, "failed")[0], DONE)
        said = progress.communicate(timeout=PATIENCE)[1]
        self.assertEqual(progress.returncode, UNDELIVERED, said)
        self.assertIn(": not delivered: the end of the boot is being reported\n", said)
        self.assertEqual(len(heads), 2)

    def test_where_nobody_asked_for_it_nothing_is_made(self):
        """No process, no socket and no file, and a line only for those who set a URL."""
        server = self.server()
        for words, said in (([], "'running' is not reported; set rd.report.on= to change that"), (["rd.report.on=failed,succeeded"], "'running' is not reported")):
            root = self.root(server, *words)
            trace = os.path.join(root.path, "trace")
            done = subprocess.run(["strace", "-f", "-o", trace, BINARY, "--root", root.path, "running", "--stage", "disks"],
                                  stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, DONE)
            self.assertIn(said, done.stderr)
            with open(trace) as file:
                calls = re.findall(r"^\d+ +(\w+)\(", file.read(), re.M)
            self.assertIn("execve", calls)
            self.assertEqual([call for call in calls if call in ("fork", "vfork", "clone", "clone3", "socket", "mkdirat", "nanosleep")], [])
            self.assertEqual(os.listdir(os.path.join(root.path, "run")), [])
        self.assertEqual(server.connections, 0)
        root = Root("quiet", journal=None)
        self.addCleanup(root.remove)
        self.assertEqual(self.run_in(root, "running", "--stage", "disks"), (DONE, ""))


if __name__ == "__main__":
    unittest.main()
