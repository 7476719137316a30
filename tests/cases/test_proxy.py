"""A proxy on the way: what it is asked for, what it may say, and what never goes through it."""
import base64
import contextlib
import socket
import threading
import time
import unittest

from harness import Pki, Root, Server

AUTH = "Basic " + base64.b64encode(b"us:er:p@ss").decode()


class Proxy(Server):
    """A proxy for CONNECT and for requests in absolute form, which leads every name to `target`. `asked` holds the first lines; with
    `auth` it lets in who says that."""

    def __init__(self, target, auth=None, before=None):
        self.target, self.auth, self.before, self.asked = target, auth, before, []
        super().__init__(Proxy.handle)

    def handle(connection, proxy):
        head = connection.head()
        proxy.asked.append(f"{head.method} {head.target}")
        proxy.requests.append(head)
        if proxy.before and proxy.before(connection, head):
            return
        if proxy.auth and head.headers.get("proxy-authorization") != proxy.auth:
            connection.sock.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\n"
                                    b"Content-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", proxy.target.port)) as behind:
            if head.method == "CONNECT":
                connection.sock.sendall(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
            else:
                path = "/" + head.target.split("/", 3)[3]
                fields = "".join(f"{name}: {value}\r\n" for name, value in head.headers.items() if name != "proxy-authorization")
                behind.sendall(f"{head.method} {path} HTTP/1.1\r\n{fields}\r\n".encode())
            back = threading.Thread(target=Proxy.copy, args=(behind.recv, connection.sock), daemon=True)
            back.start()
            Proxy.copy(connection.file.read1, behind)
            back.join(30)

    def copy(read, to):
        with contextlib.suppress(OSError):
            while data := read(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)


class ProxyTest(unittest.TestCase):
    def report(self, target, proxy, host="other.example", key="url", user="us%3Aer:p%40ss@", extra="", path="/x?q"):
        self.addCleanup(target.close)
        self.addCleanup(proxy.close)
        root = Root(f"rd.report.{key}={target.url(path, host)} rd.report.proxy=http://{user}127.0.0.1:{proxy.port} "
                    f"rd.report.ca=/ca.pem rd.report.timeout=5 {extra}")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        began = time.monotonic()
        result = root.run("failed")
        self.assertLess(time.monotonic() - began, 6)
        self.assertNotIn("p@ss", result.stderr)
        self.assertNotIn("p%40ss", result.stderr)
        return result

    def test_tunnels_for_https(self):
        for key in ("url", "journal"):
            with self.subTest(key):
                target = Server(tls="other")
                proxy = Proxy(target, AUTH)
                result = self.report(target, proxy, key=key)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(proxy.asked, [f"CONNECT other.example:{target.port}"])
                self.assertEqual(proxy.requests[0].headers["host"], f"other.example:{target.port}")
                request, = target.requests
                self.assertEqual(request.target, "/x?q")
                self.assertNotIn("proxy-authorization", request.headers)
                self.assertNotIn(b"p%40ss", request.text())
                self.assertNotIn(b"p@ss", request.text())

    def test_absolute_form_for_http(self):
        for key in ("url", "journal"):
            with self.subTest(key):
                target = Server()
                proxy = Proxy(target, AUTH)
                result = self.report(target, proxy, key=key)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(proxy.asked, [f"POST http://other.example:{target.port}/x?q"])
                request, = target.requests
                self.assertEqual((request.target, request.headers["host"]), ("/x?q", f"other.example:{target.port}"))

    def test_without_credentials(self):
        target = Server(tls="other")
        proxy = Proxy(target)
        result = self.report(target, proxy, user="")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("proxy-authorization", proxy.requests[0].headers)

    def test_near_ones_are_not_gone_to_through_it(self):
        for host in ("localhost", "127.0.0.1"):
            for tls in (None, "p256"):
                with self.subTest(f"{host} {tls}"):
                    target = Server(tls=tls)
                    proxy = Proxy(target)
                    result = self.report(target, proxy, host=host)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(proxy.asked, [])
        # Nobody is there; the proxy must not be asked either.
        target = Server()
        for host in ("169.254.169.254", "[fe80::1%25lo]", "[::ffff:127.0.0.1]"):
            with self.subTest(host):
                proxy = Proxy(target)
                self.report(target, proxy, host=host, extra="rd.report.timeout=1")
                self.assertEqual(proxy.asked, [])

    def test_wrong_credentials(self):
        for tls in ("other", None):
            for user in ("", "us:wrong@"):
                with self.subTest(f"{tls} {user}"):
                    target = Server(tls=tls)
                    proxy = Proxy(target, AUTH)
                    result = self.report(target, proxy, user=user)
                    self.assertEqual(result.returncode, 1)
                    self.assertIn("through rd.report.proxy=: the proxy wants credentials (407); put user:password@ into rd.report.proxy=",
                                  result.stderr)
                    self.assertEqual(len(proxy.asked), 1, "tried again, though nothing has changed")
                    self.assertEqual(target.requests, [])

    def test_a_refusal(self):
        def refuse(connection, head):
            connection.sock.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nnever")
            return True

        target = Server(tls="other")
        proxy = Proxy(target, before=refuse)
        result = self.report(target, proxy)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the proxy answered 403; check that it lets us reach the host of the URL, or rd.report.proxy=", result.stderr)
        self.assertEqual(len(proxy.asked), 1)

    def test_what_may_pass_is_tried_again(self):
        for said in (b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200", b""):
            with self.subTest(said):
                def once(connection, head):
                    if len(proxy.asked) == 1:
                        connection.sock.sendall(said)
                        return True

                target = Server(tls="other")
                proxy = Proxy(target, before=once)
                result = self.report(target, proxy)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("2 tries", result.stderr)

    def test_what_is_no_proxy(self):
        over = threading.Event()
        self.addCleanup(over.set)
        for said, expected in ((b"SSH-2.0-x\r\n\r\n", "the proxy does not speak HTTP/1.1"),
                               (b"HTTP/1.1 200 OK\r\n\r\nhello", "the proxy does not speak HTTP/1.1"),
                               (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "the head of the proxy's answer is too large"),
                               (b"HTTP/1.1 200 OK\r\nX:", "the proxy closed the connection without an answer"),
                               (b"", "the proxy closed the connection without an answer"), (None, "the proxy did not answer in time")):
            with self.subTest(said and said[:40]):
                def say(connection, head):
                    if said is None:
                        return over.wait(60)
                    connection.sock.sendall(said)
                    return True

                target = Server(tls="other")
                result = self.report(target, Proxy(target, before=say))
                self.assertEqual(result.returncode, 1)
                self.assertIn("through rd.report.proxy=", result.stderr)
                self.assertIn(f"{expected}; check rd.report.proxy=", result.stderr)
                self.assertEqual(target.connections, 0)

    def test_what_is_no_proxy_for_http_either(self):
        for said, expected in ((b"SSH-2.0-x\r\n\r\n", "the proxy does not speak HTTP"), (b"", "the proxy closed the connection")):
            with self.subTest(said):
                def say(connection, head):
                    connection.sock.sendall(said)
                    return True

                result = self.report(Server(), Proxy(None, before=say))
                self.assertEqual(result.returncode, 1)
                self.assertIn(expected, result.stderr)

    def test_the_proxys_own_reason(self):
        def refuse(connection, head):
            body = b"<html><title>ERROR: host not allowed for us:er or p@ss</title></html>"
            connection.sock.sendall(b"HTTP/1.1 502 X\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return True

        target = Server(tls="other")
        result = self.report(target, Proxy(target, before=refuse))
        self.assertEqual(result.returncode, 1)
        self.assertIn("the proxy answered 502; check that it lets us reach the host of the URL, or rd.report.proxy=; "
                      "its reason: ERROR: host not allowed for", result.stderr)

    def test_nobody_is_there(self):
        target = Server()
        proxy = Proxy(target)
        proxy.listener.shutdown(socket.SHUT_RDWR)
        proxy.close()
        result = self.report(target, proxy)
        self.assertEqual(result.returncode, 1)
        self.assertIn("through rd.report.proxy=: cannot connect: connection refused; check rd.report.proxy=", result.stderr)

    def test_the_certificate_is_still_the_servers(self):
        target = Server(tls="p256")
        result = self.report(target, Proxy(target))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not for the host of the URL", result.stderr)

    def test_what_is_no_url_of_a_proxy(self):
        for value in ("https://127.0.0.1:1", "127.0.0.1:3128", "socks5://127.0.0.1:1", "http://"):
            with self.subTest(value):
                target = Server()
                self.addCleanup(target.close)
                root = Root(f"rd.report.url={target.url()} rd.report.proxy={value}")
                self.addCleanup(root.remove)
                result = root.run("failed")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("rd.report.proxy=: not of the form http://[user:password@]host:port; no proxy is used", result.stderr)

    def test_it_is_said_what_goes_through_it(self):
        root = Root("rd.report.url=https://ops.example/ rd.report.journal=http://169.254.169.254/ rd.report.proxy=http://u:p4ss@h:3128")
        self.addCleanup(root.remove)
        result = root.run("failed", "--dry-run")
        status, journal = result.stdout.splitlines()
        self.assertTrue(status.endswith(", through rd.report.proxy="), status)
        self.assertNotIn("proxy", journal)
        self.assertNotIn("p4ss", root.run("check").stdout)


if __name__ == "__main__":
    unittest.main()
