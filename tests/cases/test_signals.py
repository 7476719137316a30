"""How it ends before its time: asked to by a signal, killed, or without a process for a sink."""
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import BINARY, PATIENCE, Root, Server, children_of


class Ending(unittest.TestCase):
    def setUp(self):
        self.over = threading.Event()
        self.addCleanup(self.over.set)
        self.heard = threading.Semaphore(0)

        def hang(connection, server):
            try:
                connection.request()
            except (ValueError, IndexError):
                return  # it was stopped within its request
            self.heard.release()
            self.over.wait(60)

        self.peer = Server(hang)
        self.addCleanup(self.peer.close)
        self.root = Root(f"rd.report.url={self.peer.url('/a')} rd.report.url={self.peer.url('/b')} "
                         f"rd.report.journal={self.peer.url('/j')}")
        self.addCleanup(self.root.remove)

    def start(self, connections):
        """Starts it, and waits until all that it sends has been sent."""
        binary = subprocess.Popen([BINARY, "--root", self.root.path, "failed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, start_new_session=True)
        for _ in range(connections):
            self.assertTrue(self.heard.acquire(timeout=30))
        return binary

    def gone(self, pid):
        """Whether it has ended; one whose parent does not wait for it stays as a zombie."""
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    def wait_for_the_end_of(self, *pids):
        deadline = time.monotonic() + 5
        while not all(self.gone(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_signal_ends_it_within_a_second(self):
        # Two connections: while it gives the statuses their head start. Three: while it waits for all.
        for connections in (2, 3):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                with self.subTest(f"{connections} {number}"):
                    binary = self.start(connections)
                    children = children_of(binary.pid)
                    self.assertEqual(len(children), connections)
                    began = time.monotonic()
                    binary.send_signal(number)
                    _, said = binary.communicate(timeout=10)
                    self.assertLess(time.monotonic() - began, 1)
                    self.assertEqual(binary.returncode, 1, said)
                    self.assertEqual(said.count("not delivered: rdreport was told to end"), 3, said)
                    self.assertTrue(all(self.gone(pid) for pid in children))

    def test_a_signal_to_all_of_its_group(self):
        binary = self.start(3)
        os.killpg(binary.pid, signal.SIGTERM)
        _, said = binary.communicate(timeout=10)
        self.assertEqual(binary.returncode, 1, said)
        self.assertEqual(said.count("not delivered: rdreport was told to end"), 3, said)

    def test_killed_it_leaves_no_process(self):
        binary = self.start(3)
        children = children_of(binary.pid)
        self.assertEqual(len(children), 3)
        binary.kill()
        binary.communicate(timeout=10)
        self.wait_for_the_end_of(*children)

    def test_a_sink_that_was_through_stays_delivered(self):
        good = Server()
        self.addCleanup(good.close)
        self.root.write("proc/cmdline", f"rd.report.url={good.url()} rd.report.journal={self.peer.url()}\n")
        binary = self.start(1)
        binary.terminate()
        _, said = binary.communicate(timeout=10)
        self.assertEqual(binary.returncode, 1)
        self.assertIn(": delivered (200", said)
        self.assertEqual(said.count("not delivered: rdreport was told to end"), 1, said)

    def test_a_sink_whose_process_dies(self):
        """A status gets a second process, and no third one."""
        binary = self.start(2)
        first = children_of(binary.pid)
        os.kill(first[0], signal.SIGSEGV)
        deadline = time.monotonic() + PATIENCE
        while not (second := set(children_of(binary.pid)) - set(first)):
            self.assertLess(time.monotonic(), deadline)
        os.kill(*second, signal.SIGSEGV)
        self.wait_for_the_end_of(first[0], *second)
        binary.terminate()
        _, said = binary.communicate(timeout=10)
        self.assertIn("its process died of signal 11", said)

    def test_a_status_that_hangs_leaves_time_for_the_journal(self):
        good = Server()
        self.addCleanup(good.close)
        for timeout in (1, 3, 5):
            good.requests.clear()
            self.root.write("proc/cmdline", f"rd.report.url={self.peer.url('/hangs', '127.0.0.1')} rd.report.timeout={timeout} "
                                            f"rd.report.journal={good.url('/j', '127.0.0.1')}\n")
            result = self.root.run("failed")
            self.assertEqual([request.target for request in good.requests], ["/j"], result.stderr)
            self.assertEqual(result.stderr.count(": delivered (200"), 1, result.stderr)
            self.assertEqual(result.returncode, 1)

    def test_no_process_for_a_sink(self):
        trace = self.root.write("trace", "")
        result = subprocess.run(
            ["strace", "-f", "-o", trace, "-e", "trace=fork,vfork,clone,clone3", "-e", "inject=fork,vfork,clone,clone3:error=ENOMEM",
             BINARY, "--root", self.root.path, "failed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("not delivered: no process can be made for it: no memory left"), 3, result.stderr)
        self.assertEqual(self.peer.connections, 0)


class LastResort(unittest.TestCase):
    def setUp(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        good = Server()
        self.addCleanup(good.close)
        self.root = Root(f"rd.report.url=http://u:p4ss@127.0.0.1:{port}/?s3cret rd.report.url={good.url()} rd.report.url=nonsense "
                         f"rd.report.journal=http://127.0.0.1:{port}/j rd.report.timeout=2")
        self.addCleanup(self.root.remove)

    def fails(self, **options):
        result = self.root.run("failed", **options)
        self.assertEqual(result.returncode, 1)
        lines = [line + "\n" for line in result.stderr.splitlines() if "not delivered" in line]
        return lines + ["rdreport: rd.report.url=nonsense is not a URL that begins with http:// or https://\n"]

    def read(self, path):
        with open(os.path.join(self.root.path, path)) as file:
            return file.read()

    def test_console_and_kernel_log(self):
        self.root.write("dev/console", "")
        self.root.write("dev/kmsg", "")
        lines = self.fails()
        self.assertEqual(len(lines), 3, lines)
        self.assertEqual(self.read("dev/console"), "".join(lines))
        self.assertEqual(self.read("dev/kmsg"), "".join("<12>" + line for line in lines))
        for line in lines[:2]:
            self.assertIn("connection refused", line)
            self.assertIn("check host and port of the URL", line)
        self.assertNotIn("p4ss", "".join(lines))
        self.assertNotIn("s3cret", "".join(lines))

    def test_once_where_the_kernel_shows_its_log_on_the_console(self):
        for level, shown in ((7, True), (4, False)):
            with self.subTest(level):
                self.root.write("proc/sys/kernel/printk", f"{level}\t4\t1\t7\n")
                self.root.write("dev/console", "")
                self.root.write("dev/kmsg", "")
                lines = self.fails()
                self.assertEqual(self.read("dev/console"), "" if shown else "".join(lines))
                self.assertEqual(self.read("dev/kmsg").count("<12>"), 3)

    def test_not_twice_where_standard_error_is_the_console(self):
        console = self.root.write("dev/console", "")
        with open(console, "a") as stderr:
            result = subprocess.run([BINARY, "--root", self.root.path, "failed"], stderr=stderr, timeout=30)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.read("dev/console").count("not delivered"), 2)

    def test_a_console_that_takes_nothing(self):
        os.makedirs(os.path.join(self.root.path, "dev"))
        console = os.path.join(self.root.path, "dev/console")
        os.mkfifo(console)
        # Full, and open for reading, so that a write would wait.
        reader = os.open(console, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        writer = os.open(console, os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, writer)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        began = time.monotonic()
        self.assertEqual(len(self.fails()), 3)
        self.assertLess(time.monotonic() - began, 4)

    def test_a_standard_error_that_nobody_reads(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        self.root.write("dev/console", "")
        began = time.monotonic()
        result = subprocess.run([BINARY, "--root", self.root.path, "failed"], stderr=writer, timeout=30)
        os.close(writer)
        self.assertEqual(result.returncode, 1)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.read("dev/console").count("not delivered"), 2)

    def test_success_says_nothing_there(self):
        good = Server()
        self.addCleanup(good.close)
        self.root.write("proc/cmdline", f"rd.report.url={good.url()}\n")
        self.root.write("dev/console", "")
        self.root.write("dev/kmsg", "")
        self.assertEqual(self.root.run("failed").returncode, 0)
        self.assertEqual(self.read("dev/console") + self.read("dev/kmsg"), "")


if __name__ == "__main__":
    unittest.main()
