"""What is tried again, when, and what is final."""
import email.utils
import socket
import threading
import time
import unittest

from harness import OK, Pki, Root, Server, parse_export

UNAVAILABLE = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"


def status(code, *fields):
    return (f"HTTP/1.1 {code} X\r\nContent-Length: 0\r\n" + "".join(f"{f}\r\n" for f in fields) + "\r\n").encode()


class Retry(unittest.TestCase):
    def deliver(self, *behaves, key="url", extra="", tls=None):
        """Reports to a server that behaves so at each connection, the last way from then on; gives result, server and seconds."""
        def behave(connection, server):
            server.times.append(time.monotonic())
            behaves[min(server.connections, len(behaves)) - 1](connection, server)

        peer = Server(behave, tls=tls)
        peer.times = []
        self.addCleanup(peer.close)
        root = Root(f"rd.report.{key}={peer.url('/x')} rd.report.ca=/ca.pem {extra}")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        began = time.monotonic()
        result = root.run("failed")
        return result, peer, time.monotonic() - began

    def answers(self, *said, **options):
        return self.deliver(*[lambda c, s, said=one: c.answer(said) for one in said], **options)

    def assert_delivered(self, result, tries):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f", {tries} tries)", result.stderr)

    def test_statuses_that_may_pass(self):
        for code in (408, 425, 429, 500, 502, 503, 504):
            for key in ("url", "journal"):
                with self.subTest(f"{code} {key}"):
                    result, peer, _ = self.answers(status(code), OK, key=key)
                    self.assert_delivered(result, 2)
                    one, two = peer.requests
                    self.assertEqual(one.headers["x-report-id"], two.headers["x-report-id"])
                    self.assertEqual(one.body, two.body)
                    self.assertGreater(len(two.body), 100)

    def test_statuses_that_are_final(self):
        for code in (400, 401, 403, 404, 405, 409, 410, 413, 415, 422):
            with self.subTest(code):
                result, peer, seconds = self.answers(status(code), OK)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"not delivered: the server answered {code}", result.stderr)
                self.assertEqual(len(peer.requests), 1)
                self.assertLess(seconds, 5)

    def test_waits_grow_and_end_with_the_deadline(self):
        result, peer, seconds = self.answers(UNAVAILABLE, extra="rd.report.timeout=6")
        self.assertEqual(result.returncode, 1)
        self.assertLess(seconds, 7)
        self.assertIn(f"not delivered in {peer.connections} tries: the server answered 503", result.stderr)
        # Half a second, one, two, a quarter more or less; then what is left.
        self.assertGreaterEqual(len(peer.times), 4)
        waits = [b - a for a, b in zip(peer.times, peer.times[1:])]
        self.assertGreater(waits[0], 0.37)
        self.assertGreater(waits[1], 0.74)
        self.assertGreater(waits[2], 1.49)

    def test_retry_after_seconds(self):
        result, peer, _ = self.answers(status(503, "Retry-After: 3"), OK)
        self.assert_delivered(result, 2)
        self.assertGreaterEqual(peer.times[1] - peer.times[0], 3)

    def test_retry_after_date(self):
        # By the server's clock, which is years away from ours.
        there = 1_000_000_000
        answer = status(429, f"Date: {email.utils.formatdate(there, usegmt=True)}",
                        f"Retry-After: {email.utils.formatdate(there + 3, usegmt=True)}")
        result, peer, _ = self.answers(answer, OK)
        self.assert_delivered(result, 2)
        self.assertGreaterEqual(peer.times[1] - peer.times[0], 3)

    def test_retry_after_that_is_too_long(self):
        result, peer, seconds = self.answers(status(503, "Retry-After: 3600"), OK)
        self.assertEqual(result.returncode, 1)
        self.assertLess(seconds, 5)
        self.assertEqual(len(peer.requests), 1)
        self.assertIn("asks to be tried again in 3600 s: raise rd.report.timeout=", result.stderr)

    def test_retry_after_that_is_none(self):
        for value in ("soon", "-1", "", "Sun, 99 Nov 1994 08:49:37 GMT"):
            with self.subTest(value):
                result, peer, _ = self.answers(status(503, f"Retry-After: {value}"), OK)
                self.assert_delivered(result, 2)

    def test_a_journal_that_breaks_anywhere_begins_anew(self):
        whole, peer, _ = self.answers(OK, key="journal")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        whole = peer.requests[0]
        for tls in (None, "p256"):
            for after in (0, 1, 100, 1000, 5_000, 16_384, 16_385, 20_000, 32_768):
                for ending in ("reset", "close"):
                    with self.subTest(f"{tls} {after} {ending}"):
                        def cut(connection, server):
                            connection.file.read(after)
                            getattr(connection, ending)()

                        result, peer, _ = self.deliver(cut, lambda c, s: c.answer(OK), key="journal", tls=tls)
                        self.assert_delivered(result, 2)
                        request, = peer.requests
                        self.assertEqual(len(parse_export(request.text())), len(parse_export(whole.text())))

    def test_an_answer_that_never_comes_leaves_time_for_another_try(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def hang(connection, server):
            connection.request()
            over.wait(60)

        result, peer, seconds = self.deliver(hang, lambda c, s: c.answer(OK), extra="rd.report.timeout=12")
        self.assert_delivered(result, 2)
        self.assertLess(seconds, 12)

    def test_a_byte_a_second_leaves_time_for_another_try(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def drip(connection, server):
            connection.request()
            for byte in OK:
                connection.sock.sendall(bytes([byte]))
                if over.wait(1):
                    return

        result, peer, seconds = self.deliver(drip, lambda c, s: c.answer(OK), extra="rd.report.timeout=12")
        self.assert_delivered(result, 2)
        self.assertLess(seconds, 12)

    def test_a_success_that_dawdles_is_one(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def dawdle(connection, server):
            connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
            over.wait(60)

        result, peer, seconds = self.deliver(dawdle, extra="rd.report.timeout=10")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(peer.requests), 1)
        self.assertLess(seconds, 11)

    def test_a_tls_handshake_that_hangs(self):
        over = threading.Event()
        self.addCleanup(over.set)
        peer = Server(lambda c, s: c.answer(OK), tls="p256")
        self.addCleanup(peer.close)
        real, calls = peer.context.wrap_socket, []

        class Context:
            def wrap_socket(self, plain, **options):
                calls.append(plain)
                if len(calls) == 1:
                    over.wait(60)
                return real(plain, **options)

        peer.context = Context()
        root = Root(f"rd.report.url={peer.url()} rd.report.ca=/ca.pem rd.report.timeout=12")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        self.assert_delivered(root.run("failed"), 2)

    def test_a_server_that_is_not_up_yet(self):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        root = Root(f"rd.report.url=http://127.0.0.1:{listener.getsockname()[1]}/ rd.report.timeout=20")
        self.addCleanup(root.remove)

        def serve():
            time.sleep(2)
            listener.listen()
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(OK)
            connection.close()

        threading.Thread(target=serve, daemon=True).start()
        result = root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r", [3-6] tries\)")


if __name__ == "__main__":
    unittest.main()
