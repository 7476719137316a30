"""Servers that do harm without end: each report ends by its deadline, and says why."""
import concurrent.futures
import os
import socket
import subprocess
import threading
import time
import unittest

from harness import BINARY, OK, Pki, Root, Server
from cases.test_http import noisy_root

# Seconds for a report, and those that it may take beyond.
TIMEOUT, GRACE = 3, 1
# A server without TLS where there should be one with it.
PLAIN = "plain"


def again(connection, *pieces, every=0.0):
    """Sends the last piece without end."""
    for piece in pieces[:-1]:
        connection.sock.sendall(piece)
    while True:
        connection.sock.sendall(pieces[-1])
        time.sleep(every)


def read(connection, size):
    """Reads so much, or what comes."""
    connection.sock.settimeout(10)
    while size > 0 and (got := connection.sock.recv(min(size, 4096))):
        size -= len(got)


def reset_after(size):
    def behave(connection, server):
        read(connection, size)
        connection.reset()
    return behave


def close_after(size):
    def behave(connection, server):
        read(connection, size)
    return behave


def sip(connection, server):
    """Reads a byte a second."""
    while connection.sock.recv(1):
        time.sleep(1)


def after_request(*pieces, every=0.0):
    def behave(connection, server):
        try:
            connection.request()
        except (ValueError, IndexError):
            return  # its time was over within the request
        again(connection, *pieces, every=every)
    return behave


def before_request(*pieces, every=0.0):
    return lambda connection, server: again(connection, *pieces, every=every)


def hang(connection, server):
    server.over.wait(60)


HEAD = b"HTTP/1.1 200 OK\r\n"
CUT = ("closed the connection before it had answered", "connection reset", "connection closed by the server", "within the TLS handshake",
       "without a TLS close", "in time")
SLOW = ("in time",)
# Name: behaviour, and what is said of it (one of these).
FAULTS = {
    "accepts and says nothing": (hang, SLOW),
    "closes at once": (close_after(0), CUT),
    "resets at once": (reset_after(0), CUT),
    **{f"resets after {size} bytes": (reset_after(size), CUT) for size in (1, 10, 100, 300, 500, 1000, 2000, 10_000, 40_000)},
    **{f"closes after {size} bytes": (close_after(size), CUT) for size in (1, 100, 1000, 10_000, 40_000)},
    "interim answers without end": (after_request(b"HTTP/1.1 100 Continue\r\n\r\n"), ("interim answers without end",)),
    "an interim answer a second": (after_request(b"HTTP/1.1 100 Continue\r\n\r\n", every=1), SLOW),
    "noise": (before_request(os.urandom(1000)), ("does not speak HTTP",)),
    "zeros": (before_request(bytes(1000)), ("does not speak HTTP",)),
    "empty lines before an answer, without end": (after_request(b"\r\n" * 100), ("too large",)),
    "500 for ever": (after_request(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", b""), ("the server answered 500",)),
    "500 with a body that never comes": (after_request(b"HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\n", b""), ("the server answered 500",)),
}
# These have said that all is well, and that is what counts, once: whatever stands behind the status line.
DELIVERED = {
    "a body without end": after_request(HEAD + b"\r\n", b"x" * 1000),
    "chunks without end": after_request(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n"),
    "a byte of the head a second": after_request(*[bytes([byte]) for byte in HEAD], b"x", every=1),
    "fields without end": after_request(HEAD, b"X-Fill: " + b"x" * 100 + b"\r\n"),
    "a field without end": after_request(HEAD + b"X-Fill: ", b"x" * 1000),
    "a field of 100 KB": after_request(HEAD + b"X-Fill: " + b"x" * 100_000 + b"\r\n\r\n", b""),
    "chunks that are none": after_request(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"garbage\r\n"),
    "a chunk's size without end": after_request(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 100),
    "a chunk too large to be one": after_request(HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", b"x"),
    "trailers without end": after_request(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    "a byte of the body a second": after_request(HEAD + b"Content-Length: 1000\r\n\r\n", b"x", every=1),
}


class Faults(unittest.TestCase):
    def setUp(self):
        self.over = threading.Event()
        self.addCleanup(self.over.set)
        Pki.file("ca.pem")

    def report(self, behave, tls, key, seconds=TIMEOUT):
        """Gives what it printed, its exit status and how long it took."""
        peer = Server(behave, tls=None if tls == PLAIN else tls)
        peer.over = self.over
        url = f"https://localhost:{peer.port}/" if tls == PLAIN else peer.url()
        root = Root(f"rd.report.{key}={url} rd.report.ca=/ca.pem rd.report.timeout={seconds}")
        root.write("ca.pem", Pki.read("ca.pem"))
        try:
            began = time.monotonic()
            result = root.run("failed")
            return result, time.monotonic() - began
        finally:
            peer.close()
            root.remove()

    def timely(self, behave, tls, key):
        """As `report`; what took too long is done again, since the machine may have been busy."""
        result, seconds = self.report(behave, tls, key)
        return (result, seconds) if seconds < TIMEOUT + GRACE else self.report(behave, tls, key)

    def at_once(self, cases):
        """Runs all cases, some at a time, and gives each with its result."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = [(case, pool.submit(self.timely, *case[1:4])) for case in cases]
            for case, run in runs:
                yield case, *run.result()

    def test_servers_that_do_harm(self):
        cases = [(name, behave, tls, key, said) for name, (behave, said) in FAULTS.items() for tls in (None, "p256")
                 for key in ("url", "journal")]
        for (name, _, tls, key, said), result, seconds in self.at_once(cases):
            with self.subTest(f"{name}, {tls}, {key}"):
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertLess(seconds, TIMEOUT + GRACE)
                line = result.stderr.splitlines()[-1]
                self.assertTrue(any(words in line for words in said), line)
                self.assertIn(f"rd.report.{key}=", line)

    def test_what_counts_is_that_all_is_well(self):
        cases = [(name, behave, tls, key) for name, behave in DELIVERED.items() for tls in (None, "p256") for key in ("url", "journal")]
        for (name, _, tls, key), result, seconds in self.at_once(cases):
            with self.subTest(f"{name}, {tls}, {key}"):
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"rd.report.{key}=", result.stderr.splitlines()[-1])
                self.assertIn(": delivered (200, ", result.stderr.splitlines()[-1])
                self.assertNotIn(" tries", result.stderr)
                self.assertLess(seconds, TIMEOUT + GRACE)

    def test_a_server_that_reads_a_byte_a_second(self):
        for tls in (None, "p256"):
            with self.subTest(tls):
                peer = Server(sip, tls=tls, rcvbuf=4096)
                self.addCleanup(peer.close)
                root = noisy_root(f"{peer.url()} rd.report.timeout={TIMEOUT}")
                self.addCleanup(root.remove)
                began = time.monotonic()
                result = root.run("failed")
                self.assertLess(time.monotonic() - began, TIMEOUT + GRACE)
                self.assertEqual(result.returncode, 1)
                self.assertIn("in time", result.stderr)

    def test_handshakes_that_do_harm(self):
        record = b"\x16\x03\x03"
        for name, behave, said in (
            ("a byte a second", before_request(record + b"\x40\x00", b"\x02", every=1), SLOW),
            ("a message without end", before_request(record + b"\x40\x00\x02\xff\xff\xff" + b"x" * 16380, record + b"\x40\x00" + b"x" * 16384),
             ("too large", "breaks the TLS protocol", "a TLS record was broken")),
            ("empty records without end", before_request(record + b"\x00\x00"), ("TLS",)),
            ("warnings without end", before_request(b"\x15\x03\x03\x00\x02\x01\x5a"), ("TLS", "in time")),
            ("application data", before_request(b"\x17\x03\x03\x40\x00" + b"x" * 16384), ("TLS",)),
        ):
            with self.subTest(name):
                result, seconds = self.timely(behave, PLAIN, "url")
                self.assertLess(seconds, TIMEOUT + GRACE)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(any(words in result.stderr for words in said), result.stderr)

    def test_random_numbers_that_never_get_ready(self):
        # Neither does /dev/random become readable: poll(2) is told that its time was over.
        peer = Server(tls="p256")
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url={peer.url()} rd.report.ca=/ca.pem rd.report.timeout=10", journal=None)
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        began = time.monotonic()
        result = subprocess.run(["strace", "-f", "-o", os.devnull, "-P", "/dev/random", "-e", "inject=ppoll,poll:retval=0:delay_enter=1000000",
                                 "-e", "inject=getrandom:error=EAGAIN", BINARY, "--root", root.path, "failed"],
                                stderr=subprocess.PIPE, timeout=60, text=True)
        self.assertLess(time.monotonic() - began, 11)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(peer.requests), 1)


if __name__ == "__main__":
    unittest.main()
