"""Certificates and clocks that do not agree.

The clock cannot be set here, so the time at which the program was made is changed instead, in a copy of it: a clock of today is then one
of long before, or long after, it was made. (Boots with other clocks are in the VM tests.)
"""
import email.utils
import json
import os
import socket
import stat
import subprocess
import tempfile
import threading
import time
import unittest

from harness import BINARY, InNamespace, Pki, Root, Server

DAY = 86_400
# As pki.sh has them: over since 2020-01-02, and valid from 2120 on.
IN_EXPIRED = 1_577_880_000  # 2020-01-01 12:00
IN_FUTURE = 4_733_553_600  # 2120-01-01 12:00 and some hours
YEAR_2019 = 1_546_300_800
# The latest January that 32 bits with a sign can say.
YEAR_2037 = 2_114_380_800


def made_at(when):
    """A copy of the binary that believes that it was made then. Its own date, a midnight, stands in the code as a number of 32 bits: as it
    is, less one, or negative."""
    with open(BINARY, "rb") as file:
        code = file.read()
    today = int(time.time()) // DAY * DAY
    for day in range(today, today - 365 * DAY, -DAY):
        forms = [((form(day)) % 2**32, form(when) % 2**32) for form in (lambda t: t, lambda t: t - 1, lambda t: -t)]
        forms = [(old.to_bytes(4, "little"), new.to_bytes(4, "little")) for old, new in forms]
        if any(old in code for old, _ in forms):
            for old, new in forms:
                code = code.replace(old, new)
            break
    else:
        raise AssertionError("the date of the build was not found")
    handle, path = tempfile.mkstemp(prefix="rdreport-")
    with os.fdopen(handle, "wb") as file:
        file.write(code)
    os.chmod(path, stat.S_IRWXU)
    return path


class Clock(InNamespace):
    @classmethod
    def setUpClass(cls):
        cls.old, cls.young = made_at(YEAR_2019), made_at(YEAR_2037)
        cls.addClassCleanup(os.remove, cls.old)
        cls.addClassCleanup(os.remove, cls.young)

    def setUp(self):
        # A loopback of its own, with a port 80 that nobody else uses.
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def report(self, binary, cert, date=None, words=""):
        """Reports to a server with this certificate, whose port 80 tells that date; gives result, server and the requests at port 80."""
        peer = Server(tls=cert)
        self.addCleanup(peer.close)
        plain = []
        listener = None
        if date is not None:
            listener = socket.create_server((self.host, 80))
            self.addCleanup(listener.close)

            def serve():
                while True:
                    try:
                        connection, _ = listener.accept()
                    except OSError:
                        return
                    plain.append(connection.recv(65536).decode())
                    said = email.utils.formatdate(date, usegmt=True) if isinstance(date, int) else date
                    connection.sendall(f"HTTP/1.1 301 Moved\r\nDate: {said}\r\nLocation: https://x/\r\nContent-Length: 9\r\n\r\n".encode())
                    connection.close()

            threading.Thread(target=serve, daemon=True).start()
        root = Root(f"rd.report.url=https://u:p@{self.host}:{peer.port}/?q rd.report.ca=/roots.pem rd.report.timeout=8 "
                    f"rd.report.header='X-Secret: s3cret' {words}")
        self.addCleanup(root.remove)
        root.write("roots.pem", Pki.read("roots.pem"))
        result = subprocess.run([binary, "--root", root.path, "failed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                text=True)
        if listener:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the one who accepts
            listener.close()
        for request in plain:
            self.assertTrue(request.startswith("HEAD / HTTP/1.1\r\n"), request)
            self.assertNotIn("s3cret", request)
            self.assertNotIn("Authorization", request)
        return result, peer, plain

    host = "127.0.0.1"

    def assert_delivered(self, result, peer, trusted):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(peer.requests[0].body)["clock_trusted"], trusted)

    def assert_refused(self, result, peer, *words):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(peer.requests, [])
        for word in words:
            self.assertIn(word, result.stderr)

    def test_a_clock_before_the_build_and_a_server_that_tells_the_time(self):
        result, peer, plain = self.report(self.young, "future", IN_FUTURE)
        self.assert_delivered(result, peer, False)
        self.assertEqual(len(plain), 1)

    def test_a_clock_before_the_build_and_a_network_that_is_late(self):
        asked = threading.Event()

        def tell(connection):
            connection.recv(65536)
            asked.set()
            connection.sendall(f"HTTP/1.1 200 OK\r\nDate: {email.utils.formatdate(IN_FUTURE, usegmt=True)}\r\n\r\n".encode())
            connection.close()

        peer = Server(tls="otherfuture")
        self.addCleanup(peer.close)
        listeners = [(socket.create_server(("0.0.0.0", 80)), tell), (socket.create_server(("0.0.0.0", 443)), peer._connection)]
        for listener, serve in listeners:
            self.addCleanup(listener.close)
            threading.Thread(target=lambda listener=listener, serve=serve: serve(listener.accept()[0]), daemon=True).start()
        root = Root("rd.report.url=https://other.example/ rd.report.ca=/roots.pem rd.report.timeout=20")
        self.addCleanup(root.remove)
        root.write("roots.pem", Pki.read("roots.pem"))
        root.write("etc/hosts", "192.0.2.1 other.example\n")
        binary = subprocess.Popen([self.young, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True)
        # Longer than the time is asked for.
        with self.assertRaises(subprocess.TimeoutExpired):
            binary.wait(4)
        self.assertFalse(asked.is_set())
        subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
        _, said = binary.communicate(timeout=20)
        self.assertEqual(binary.returncode, 0, said)
        self.assertTrue(asked.is_set())
        self.assertEqual(len(peer.requests), 1)

    def test_a_clock_before_the_build_and_no_time_told(self):
        # Then it is the day of the build: that certificate is not valid yet, this one is over.
        result, peer, _ = self.report(self.young, "future")
        self.assert_refused(result, peer, "and it is 2037-01-01T00:00:00Z here", "set the clock")
        result, peer, _ = self.report(self.young, "p256")
        self.assert_refused(result, peer, "was valid until", "2037-01-01T00:00:00Z")

    def test_a_clock_before_the_build_and_a_cloud_that_tells_the_time(self):
        """The server has no port 80; the metadata service answers anything with a date."""
        for platform, address in (("aws", "169.254.169.254"), ("scaleway", "169.254.42.42")):
            with self.subTest(platform):
                subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
                listener = socket.create_server((address, 80))
                self.addCleanup(listener.close)
                heard = []

                def tell(listener=listener, heard=heard):
                    date = email.utils.formatdate(IN_FUTURE, usegmt=True)
                    while True:
                        connection, _ = listener.accept()
                        heard.append(connection.recv(65536))
                        connection.sendall(f"HTTP/1.1 401 Unauthorized\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n".encode())
                        connection.close()

                threading.Thread(target=tell, daemon=True).start()
                result, peer, _ = self.report(self.young, "future", words=f"ignition.platform.id={platform} rd.report.on=failed")
                self.assertEqual([request["clock_trusted"] for request in (json.loads(one.body) for one in peer.requests)], [False],
                                 result.stderr)
                # The cloud's own report goes there as well.
                self.assertTrue(any(request.startswith(b"HEAD / HTTP/1.1\r\n") for request in heard), heard)
                self.assertFalse(any(b"s3cret" in request for request in heard))

    def test_what_is_told_is_never_before_the_build(self):
        for date in (IN_EXPIRED, "yesterday"):
            with self.subTest(date):
                result, peer, plain = self.report(self.young, "p256", date)
                self.assert_refused(result, peer, "2037-01-01T00:00:00Z")
                self.assertEqual(len(plain), 1)

    def test_a_clock_that_may_be_right_asks_nobody(self):
        result, peer, plain = self.report(self.old, "p256", IN_EXPIRED)
        self.assert_delivered(result, peer, True)
        self.assertEqual(plain, [])

    def test_a_clock_ahead_is_refused_and_the_setting_named(self):
        result, peer, plain = self.report(self.old, "expired", IN_EXPIRED)
        self.assert_refused(result, peer, "was valid until 2020-01-02T03:04:05Z", "rd.report.clock=lenient")
        self.assertEqual(plain, [])

    def test_a_clock_ahead_and_lenience(self):
        result, peer, plain = self.report(self.old, "expired", IN_EXPIRED, "rd.report.clock=lenient")
        self.assert_delivered(result, peer, True)
        self.assertEqual(len(plain), 1)

    def test_lenience_needs_a_time_that_contradicts(self):
        for date in (None, IN_FUTURE, YEAR_2019 - DAY, "never"):
            with self.subTest(date):
                result, peer, _ = self.report(self.old, "expired", date, "rd.report.clock=lenient")
                self.assert_refused(result, peer, "was valid until 2020-01-02T03:04:05Z")

    def test_pins_and_insecure_look_at_no_time(self):
        result, peer, plain = self.report(self.young, "future", IN_FUTURE, "rd.report.insecure")
        self.assert_delivered(result, peer, False)
        self.assertEqual(plain, [])

    def test_a_port_80_that_never_answers(self):
        with socket.create_server((self.host, 80)):
            began = time.monotonic()
            result, peer, _ = self.report(self.young, "future")
            self.assert_refused(result, peer, "2037-01-01T00:00:00Z")
            self.assertLess(time.monotonic() - began, 9)

    def test_a_wrong_word(self):
        result, peer, _ = self.report(self.old, "p256", words="rd.report.clock=loose")
        self.assert_delivered(result, peer, True)
        self.assertIn("rd.report.clock: 'loose' is not known; expected is strict|lenient; the default holds: strict", result.stderr)


if __name__ == "__main__":
    unittest.main()
