"""Servers that answer early, late, wrongly or not at all: what the report makes of it."""
import os
import socket
import subprocess
import threading
import time
import unittest

from harness import BINARY, MACHINE, OK, InNamespace, Pki, Root, Server, children_of, most_kb, resident_kb


def answer(status, *fields, body=b""):
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n" + "".join(f"{f}\r\n" for f in fields) + "\r\n"
    return head.encode() + body


class Http(unittest.TestCase):
    def deliver(self, behave, tls=None, key="url", extra=""):
        """Reports to a server that behaves so; gives the result and the server."""
        peer = Server(behave, tls=tls)
        self.addCleanup(peer.close)
        root = Root(f"rd.report.{key}={peer.url('/x')} rd.report.ca=/ca.pem {extra}")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        return root.run("failed"), peer

    def assert_failed(self, result, *words):
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertNotIn("pipe", result.stderr)

    def test_every_success_is_one(self):
        for status in (200, 201, 202, 204):
            with self.subTest(status):
                result, _ = self.deliver(lambda c, s: c.answer(answer(status)))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"delivered ({status}", result.stderr)

    def test_every_other_status_is_a_failure(self):
        for status in (400, 401, 403, 404, 405, 410, 413, 418, 429, 500, 503):
            with self.subTest(status):
                result, _ = self.deliver(lambda c, s: c.answer(answer(status)), extra="rd.report.timeout=1")
                self.assert_failed(result, "rd.report.url=", f"the server answered {status}")

    def test_the_servers_own_reason(self):
        denied = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
        for status, fields, body, expected in (
            (400, (), denied, "AccessDenied: Request has expired"),
            (403, ("x-ms-error-code: AuthenticationFailed",), b"", "AuthenticationFailed"),
            (403, (), b'{"error":{"code":403,"message":"no write \\"here\\""}}', 'no write "here"'),
            (422, (), b'{"error":"invalid","message":"the state is missing"}', "invalid: the state is missing"),
            (413, (), b"<html><head><title>413 Too Large</title></head><body>nginx</body></html>", "413 Too Large"),
            (507, (), b"the disk\nis full", "the disk is full"),
            (401, (), b"\x1b[2J\xe2\x80\xaebad\0 token\x9b\xc2\x9b", "[2Jbad token"),
            (404, (), b"x" * 100_000, "x" * 200),
            (500, ("Transfer-Encoding: chunked",), b"5\r\nhello\r\n0\r\n\r\n", "hello"),
        ):
            for tls in (None, "p256"):
                with self.subTest(f"{status} {tls}"):
                    said = answer(status, *fields, body=body)
                    if fields and "chunked" in fields[0]:
                        said = said.replace(b"Content-Length", b"X-Length")
                    result, _ = self.deliver(lambda c, s: c.answer(said), tls=tls, extra="rd.report.timeout=1")
                    self.assert_failed(result, f"the server answered {status}")
                    self.assertTrue(result.stderr.endswith(f"; its reason: {expected}\n"), result.stderr)

    def test_secrets_do_not_come_back_as_a_reason(self):
        def echo(connection, server):
            head = connection.request()
            text = f"{head.target} " + " ".join(f"{name}: {value}" for name, value in head.headers.items())
            connection.sock.sendall(answer(400, body=text.encode()))

        peer = Server(echo)
        self.addCleanup(peer.close)
        url = peer.url("/x?sig=QUERY%2FSECRET&k=9").replace("//", "//us%3Aer:PASS%40SECRET@")
        root = Root(f"rd.report.url={url} \"rd.report.header=Authorization: Bearer HEADERSECRET\" \"rd.report.header=X-Key: OTHERSECRET\"")
        self.addCleanup(root.remove)
        result = root.run("failed")
        self.assert_failed(result, "the server answered 400", "; its reason: /x?sig=***&k=9 host: ")
        self.assertNotIn("SECRET", result.stderr)

    def test_what_is_printed_is_graphic(self):
        odd = "a\x1b[2J\u202eb\u200b\x9b31m\u2028c"
        for words in (f"rd.report.{odd}=1", f"rd.report.url=ftp://h/{odd}", f"rd.report.journal=file:/dev/{odd}",
                      f"rd.report.ca=/{odd}", f"rd.report.url=http://localhost:1/{odd} rd.report.timeout=1"):
            root = Root(words)
            self.addCleanup(root.remove)
            root.write("dev/console", "")
            for args in (("failed",), ("failed", "--dry-run"), ("check",)):
                with self.subTest(f"{words!a} {args}"):
                    result = root.run(*args)
                    with open(os.path.join(root.path, "dev/console")) as file:
                        said = result.stdout + result.stderr + file.read()
                    self.assertIn("rd.report.", said)
                    self.assertEqual([c for c in "\x1b\u202e\u200b\x9b\u2028" if c in said], [])

    def test_a_body_in_chunks_is_not_taken_by_all(self):
        for status in (411, 501):
            with self.subTest(status):
                result, peer = self.deliver(lambda c, s: c.answer(answer(status)), key="journal")
                self.assert_failed(result, f"the server answered {status}", "rd.report.journal=put+http")
                self.assertEqual(peer.connections, 1)

    def test_interim_answers(self):
        interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"

        def early(connection, server):
            connection.sock.sendall(interim)
            connection.answer(OK)

        for key in ("url", "journal"):
            with self.subTest(key):
                result, _ = self.deliver(early, key=key)
                self.assertEqual(result.returncode, 0, result.stderr)
        result, _ = self.deliver(lambda c, s: c.answer(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
                                 extra="rd.report.timeout=1")
        self.assert_failed(result, "interim answers without end")

    def test_redirects_that_keep_the_request(self):
        for status in (307, 308):
            for key in ("url", "journal"):
                with self.subTest(f"{status} {key}"):
                    target = Server()
                    self.addCleanup(target.close)
                    result, first = self.deliver(lambda c, s: c.answer(answer(status, f"Location: {target.url('/y?z')}")),
                                                 key=key)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    one, two = first.requests[0], target.requests[0]
                    self.assertEqual((two.method, two.target), ("POST", "/y?z"))
                    self.assertEqual(one.body, two.body, "the body is sent again from its beginning")
                    self.assertGreater(len(two.body), 100)

    def test_a_redirect_to_a_path(self):
        def behave(connection, server):
            connection.answer(OK if server.requests else answer(307, "Location: ../y"))

        result, server = self.deliver(behave)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([r.target for r in server.requests], ["/x", "/../y"])

    def test_redirects_that_lose_the_request_are_refused(self):
        for status in (301, 302, 303):
            with self.subTest(status):
                result, server = self.deliver(lambda c, s: c.answer(answer(status, "Location: /y")))
                self.assert_failed(result, f"answered {status}", "redirect", "URL")
                self.assertEqual(len(server.requests), 1)

    def test_redirects_without_end(self):
        result, server = self.deliver(lambda c, s: c.answer(answer(307, "Location: /x")))
        self.assert_failed(result, "redirects in circles")
        self.assertLess(server.connections, 10)

    def test_a_redirect_out_of_tls_is_refused(self):
        plain = Server()
        self.addCleanup(plain.close)
        result, _ = self.deliver(lambda c, s: c.answer(answer(307, f"Location: {plain.url()}")), tls="p256")
        self.assert_failed(result, "from https to http")
        self.assertEqual(plain.connections, 0)

    def test_credentials_do_not_follow_to_another_server(self):
        target = Server()
        self.addCleanup(target.close)
        result, first = self.deliver(lambda c, s: c.answer(answer(307, f"Location: {target.url()}")),
                                     extra='rd.report.header="X-Token: SECRET"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(first.requests[0].headers["x-token"], "SECRET")
        self.assertNotIn("x-token", target.requests[0].headers)

    def test_an_early_refusal_is_reported_by_its_code(self):
        for tls in (None, "p256"):
            for status in (401, 413):
                for ending in ("stays", "closes", "resets"):
                    with self.subTest(f"{tls} {status} {ending}"):
                        def behave(connection, server):
                            connection.head()
                            connection.sock.sendall(answer(status))
                            if ending == "stays":
                                server.over.wait(60)
                            elif ending == "resets":
                                # Once the client has seen the answer: a reset takes away what it has not read.
                                server.over.wait(1)
                                connection.reset()

                        over = threading.Event()
                        peer = Server(behave, tls=tls, rcvbuf=4096)
                        peer.over = over
                        self.addCleanup(peer.close)
                        self.addCleanup(over.set)
                        root = noisy_root(peer.url("/x"))
                        self.addCleanup(root.remove)
                        began = time.monotonic()
                        result = root.run("failed")
                        self.assert_failed(result, f"the server answered {status}")
                        self.assertLess(time.monotonic() - began, 20)

    def test_what_is_not_http(self):
        for said in (b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100, b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1 099 X\r\n\r\n",
                     b"ICY 200 OK\r\n\r\n", b"\0\0\x06\x04\0\0\0\0\0\0\3\0\0\0\x64", b"hello"):
            with self.subTest(said):
                result, _ = self.deliver(lambda c, s: c.answer(said), extra="rd.report.timeout=1")
                self.assert_failed(result, "does not speak HTTP")

    def test_answers_that_are_cut_before_their_status(self):
        for said in (b"", b"\r\n", b"HTTP/1.1", b"HTTP/1.1 20", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n"):
            with self.subTest(said):
                result, _ = self.deliver(lambda c, s: c.answer(said), extra="rd.report.timeout=1")
                self.assert_failed(result, "closed the connection")

    # What follows the status line of an answer whose body nobody wants.
    BEHIND = {
        "a folded field": b" OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "two framings": b" OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two lengths": b" OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "a list of lengths": b" OK\r\nContent-Length: 2, 2\r\n\r\nok",
        "no length": b" OK\r\nContent-Length: x\r\n\r\n",
        "identity": b" OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "compressed": b" OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "a blank before the colon": b" OK\r\nContent-Length : 0\r\n\r\n",
        "a line that is no field": b" OK\r\nhello\r\n: x\r\n\r\n",
        "odd bytes": b" OK\r\nX: \0\x01\xff\r\n\r\n",
        "line feeds alone": b" OK\nContent-Length: 0\n\n",
        "no reason": b"\r\nContent-Length: 0\r\n\r\n",
        "200 fields": b" OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        "100 KB of fields": b" OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        "nothing": b"",
        "no more of the line": b" O",
        "half a head": b" OK\r\nContent-Le",
        "half a body": b" OK\r\nContent-Length: 9\r\n\r\n123",
        "half a chunk": b" OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "chunks that are none": b" OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    }
    BEFORE = {
        "HTTP/1.0": b"HTTP/1.0 ",
        "HTTP/2": b"HTTP/2 ",
        "small letters": b"http/1.1 ",
        "empty lines": b"\r\n\r\n\nHTTP/1.1 ",
        "an interim answer": b"HTTP/1.1 103 X\nLink: " + b"x" * 20_000 + b"\n\nHTTP/1.1 ",
    }

    def assert_once(self, status, head, endings=("closes", "resets"), **options):
        """One request and one answer, however it ends, decide."""
        for ending in endings:
            with self.subTest(f"{options} {status} {ending}"):
                over = threading.Event()
                self.addCleanup(over.set)

                def behave(connection, server):
                    # A reset takes away what has not left yet.
                    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connection.answer(head)
                    if ending == "stalls":
                        over.wait(60)
                    elif ending == "resets":
                        connection.reset()
                    elif connection.server.context:
                        # Without close_notify.
                        connection.sock.shutdown(socket.SHUT_RDWR)

                began = time.monotonic()
                result, peer = self.deliver(behave, extra="rd.report.timeout=20", **options)
                if status == 200:
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn("delivered (200, ", result.stderr)
                else:
                    self.assert_failed(result, f"not delivered: the server answered {status}")
                self.assertEqual(peer.connections, 1, result.stderr)
                self.assertLess(time.monotonic() - began, 15)

    def test_the_status_line_decides(self):
        for status in (200, 413):
            for name, behind in self.BEHIND.items():
                with self.subTest(name):
                    self.assert_once(status, b"HTTP/1.1 %d" % status + behind)
            for name, before in self.BEFORE.items():
                with self.subTest(name):
                    self.assert_once(status, before + b"%d X\r\nContent-Length: 0\r\n\r\n" % status)

    def test_the_status_line_decides_over_tls(self):
        for key in ("url", "journal"):
            for status in (200, 413):
                for name in ("half a body", "half a head", "nothing", "two framings"):
                    with self.subTest(name):
                        self.assert_once(status, b"HTTP/1.1 %d" % status + self.BEHIND[name], tls="p256", key=key)

    def test_a_peer_that_stalls_behind_its_status_is_not_waited_for(self):
        for tls in (None, "p256"):
            for status in (200, 413):
                for name in ("no more of the line", "half a head", "half a body"):
                    with self.subTest(name):
                        self.assert_once(status, b"HTTP/1.1 %d" % status + self.BEHIND[name], endings=("stalls",), tls=tls)

    def test_a_success_before_the_body_was_read(self):
        for tls in (None, "p256"):
            for ending in ("closes", "stalls"):
                with self.subTest(f"{tls} {ending}"):
                    over = threading.Event()
                    self.addCleanup(over.set)

                    def behave(connection, server):
                        connection.head()
                        connection.sock.sendall(OK)
                        if ending == "stalls":
                            over.wait(60)

                    peer = Server(behave, tls=tls, rcvbuf=4096)
                    self.addCleanup(peer.close)
                    root = noisy_root(peer.url("/x"))
                    self.addCleanup(root.remove)
                    began = time.monotonic()
                    result = root.run("failed")
                    self.assertLess(time.monotonic() - began, 12, "waited for a peer that needs no more")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertRegex(result.stderr, r"delivered \(answered 200 after \d+ bytes were sent\)")
                    self.assertEqual(peer.connections, 1)
                    root.write("proc/cmdline", f"rd.report.journal=put+{peer.url('/x')} rd.report.ca=/ca.pem")
                    result = root.run("failed")
                    self.assertRegex(result.stderr, r"delivered \(answered 200 after \d+ bytes of \d{8} were sent\)")

    def test_a_server_that_never_answers(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def one_byte_a_second(connection, server):
            connection.request()
            for byte in OK:
                connection.sock.sendall(bytes([byte]))
                if over.wait(1):
                    return

        for behave in (lambda c, s: over.wait(60), one_byte_a_second):
            began = time.monotonic()
            result, _ = self.deliver(behave, extra="rd.report.timeout=2")
            self.assert_failed(result, "in time", "rd.report.timeout=")
            self.assertLess(time.monotonic() - began, 3)

    def test_nobody_listens(self):
        # A port that is taken, but not listened on.
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            root = Root(f"rd.report.url=http://127.0.0.1:{taken.getsockname()[1]}/ rd.report.timeout=2")
            self.addCleanup(root.remove)
            self.assert_failed(root.run("failed"), "connection refused")

    def test_one_sink_that_hangs_takes_nothing_from_the_others(self):
        over = threading.Event()
        self.addCleanup(over.set)
        hanging, good = Server(lambda c, s: over.wait(60)), Server()
        self.addCleanup(hanging.close)
        self.addCleanup(good.close)
        root = Root(f"rd.report.url={hanging.url()} rd.report.url={good.url('/a')} rd.report.journal={hanging.url()} "
                    f"rd.report.journal={good.url('/j')} rd.report.timeout=8")
        self.addCleanup(root.remove)
        began = time.monotonic()
        result = root.run("failed")
        self.assertLess(time.monotonic() - began, 9)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count(": delivered"), 2, result.stderr)
        self.assertEqual(sorted(r.target for r in good.requests), ["/a", "/j"])

    def test_headers(self):
        def behave(connection, server):
            connection.answer(OK)

        peer = Server(behave)
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url=http://us%40er:p%3Aw@localhost:{peer.port}/a?b=%2F "
                    "rd.report.header='X-Token: @/token' rd.report.header='X-Node: n-${machine_id}-${state}' "
                    "rd.report.header='X-Bad: @/missing' rd.report.header='Content-Length: 1'")
        self.addCleanup(root.remove)
        root.write("token", "s3cr3t\n")
        root.write("etc/machine-id", "m1\n")
        result = root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        headers = peer.requests[0].headers
        self.assertEqual(headers["x-token"], "s3cr3t")
        self.assertEqual(headers["x-node"], "n-m1-failed")
        self.assertEqual(headers["authorization"], "Basic dXNAZXI6cDp3")
        self.assertEqual(peer.requests[0].target, "/a?b=%2F")
        self.assertNotIn("x-bad", headers)
        self.assertIn("rd.report.header=X-Bad: its file cannot be read", result.stderr)
        self.assertIn("rd.report.header=Content-Length: this field is set by rdreport", result.stderr)
        self.assertNotIn("s3cr3t", result.stderr + result.stdout)


class Memory(unittest.TestCase):
    def test_large_zstd_fields_over_tls(self):
        """The decoder's buffers come on top of those of gzip and TLS."""
        found = []

        def behave(connection, server):
            connection.head()
            chunks = 0
            while size := int(connection.file.readline(), 16):
                connection.file.read(size + 2)
                chunks += 1
                if chunks % 64 == 0:
                    found.extend(map(resident_kb, children_of(process.pid)))
            connection.sock.sendall(OK)

        peer = Server(behave, tls="p256")
        self.addCleanup(peer.close)
        root = noisy_root(peer.url("/x"))
        self.addCleanup(root.remove)
        process = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertIn(" 400 entries", said)
        self.assertGreater(len(found), 5)
        self.assertLessEqual(max(found), most_kb())
        print(f"ZSTD fields of 60 KB over TLS: {max(found)} KB resident")


class Redirects(InNamespace):
    """From a server that is far away to what only this machine can reach."""

    FAR = "192.0.2.1"

    def setUp(self):
        for command in ("link set lo up", f"addr add {self.FAR}/32 dev lo", "addr add 169.254.169.254/32 dev lo"):
            subprocess.run(["ip", *command.split()], check=True)

    def follow(self, location, words="", near_port=8080, first=None):
        near = Server(address=("::", near_port))
        self.addCleanup(near.close)
        far = Server(lambda c, s: c.answer(answer(307, f"Location: {location}")), address=(first or self.FAR, 0))
        self.addCleanup(far.close)
        root = Root(f"rd.report.url={far.url('/x', host=first or self.FAR)} rd.report.timeout=3 {words}")
        self.addCleanup(root.remove)
        root.write("etc/hosts", "127.0.0.1 loop.example\n169.254.169.254 link.example\n192.0.2.1 far.example\n")
        return root.run("failed"), near, far

    def test_to_what_is_near_is_refused(self):
        for host in ("127.0.0.1", "127.9.9.9", "localhost", "a.localhost.", "[::1]", "[::]", "0.0.0.0", "[::ffff:127.0.0.1]",
                     "[::ffff:7f00:1]", "[::127.0.0.1]", "169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1%25lo]", "127.1",
                     "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "loop.example", "link.example", "LOOP.example"):
            with self.subTest(host):
                result, near, far = self.follow(f"http://{host}:8080/y")
                self.assertEqual(result.returncode, 1)
                self.assertIn("the server redirects to this machine or its link, which is not followed", result.stderr)
                self.assertEqual((near.connections, far.connections), (0, 1))
                near.close()

    def test_to_what_is_far_is_followed(self):
        for host in (self.FAR, "far.example"):
            with self.subTest(host):
                result, near, _ = self.follow(f"http://{host}:8080/y")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(near.connections, 1)
                near.close()

    def test_from_what_is_near_is_followed(self):
        result, near, _ = self.follow("http://127.0.0.1:8080/y", first="127.0.0.1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(near.connections, 1)

    def test_through_a_proxy_it_is_refused_as_well(self):
        proxy = Server(lambda c, s: c.answer(answer(307, "Location: http://127.0.0.1:8080/y")))
        self.addCleanup(proxy.close)
        result, near, _ = self.follow("", words=f"rd.report.proxy=http://127.0.0.1:{proxy.port}")
        self.assertIn("the server redirects to this machine or its link", result.stderr)
        self.assertEqual((near.connections, proxy.connections), (0, 1))


def noisy_root(url):
    """A root whose journal is too large, and too much noise, for the buffers of a connection."""
    root = Root(f"rd.report.journal={url} rd.report.ca=/ca.pem", journal=None)
    root.write("ca.pem", Pki.read("ca.pem"))
    folder = os.path.join(root.path, f"run/log/journal/{MACHINE}")
    os.makedirs(folder)
    entries = []
    for number in range(400):
        noise = os.urandom(30_000).hex().encode()
        entries.append(b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\nMESSAGE=%s\n\n"
                       % (1_700_000_000_000_000 + number, number, b"7" * 32, noise))
    subprocess.run(["/lib/systemd/systemd-journal-remote", "-o", os.path.join(folder, "system.journal"), "-"],
                   input=b"".join(entries), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return root


if __name__ == "__main__":
    unittest.main()
