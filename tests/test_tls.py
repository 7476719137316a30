"""TLS from outside: what is refused is said with the certificate's name, the reason and the setting that would change it."""
import json
import os
import socket
import ssl
import subprocess
import unittest
import warnings

from peers import BINARY, OK, Pki, Root, Server


def pin_of(name):
    """The pin of a certificate's key, made by openssl alone."""
    public = subprocess.run(["openssl", "x509", "-in", Pki.file(name + ".pem"), "-noout", "-pubkey"], check=True,
                            stdout=subprocess.PIPE).stdout
    command = "openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"
    return subprocess.run(["sh", "-c", command], input=public, check=True, stdout=subprocess.PIPE).stdout.decode().strip()


class Tls(unittest.TestCase):
    def deliver(self, peer, extra="rd.report.ca=/roots.pem", host="localhost", files=()):
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url=https://{host}:{peer.port}/x rd.report.timeout=5 {extra}")
        self.addCleanup(root.remove)
        for name in ("roots.pem", *files):
            root.write(name, Pki.read(name))
        return root.run("failed")

    def assert_delivered(self, result, peer):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(peer.requests), 1)

    def assert_refused(self, result, peer, *words):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(peer.requests, [])
        for word in words:
            self.assertIn(word, result.stderr)

    def test_certificates_that_are_refused(self):
        for name, words in (
            ("expired", ("of localhost was valid until 2020-01-02T03:04:05Z", "rd.report.pin=")),
            ("future", ("of localhost is valid from 2120-01-01T00:00:00Z", "clock")),
            ("other", ("of other.example is not for the host",)),
            ("nosan", ("of localhost names no host (no subject alternative name)",)),
            ("unknown", ("of localhost comes from an issuer that is not trusted", "rd.report.ca=")),
            ("self", ("of localhost is self-signed", "rd.report.ca=", "rd.report.pin=")),
            ("selfca", ("of localhost is self-signed", "rd.report.ca=", "rd.report.pin=")),
            ("oldchain", ("an issuer of the certificate of localhost was valid until 2020-01-02T03:04:05Z",)),
            ("client", ("not for a server",)),
        ):
            with self.subTest(name):
                peer = Server(tls=name)
                self.assert_refused(self.deliver(peer), peer, *words)
                self.assertEqual(peer.connections, 1, "tried again, though it will not be another one")

    def test_the_built_in_roots_trust_none_of_ours(self):
        peer = Server(tls="p256")
        self.assert_refused(self.deliver(peer, ""), peer, "issuer that is not trusted")

    def test_versions_and_certificates(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for name in ("p256", "p384", "rsa", "rsapss", "chained"):
                for host in ("localhost", "127.0.0.1"):
                    with self.subTest(f"{version} {name} {host}"):
                        peer = Server(tls=name)
                        peer.context.minimum_version = peer.context.maximum_version = version
                        self.assert_delivered(self.deliver(peer, host=host), peer)

    def test_tls_1_1_alone(self):
        peer = Server(tls="p256")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            peer.context.minimum_version = peer.context.maximum_version = ssl.TLSVersion.TLSv1_1
        peer.context.set_ciphers("DEFAULT:@SECLEVEL=0")
        self.assert_refused(self.deliver(peer), peer, "TLS 1.2 or 1.3")

    def test_nothing_in_common(self):
        peer = Server(tls="rsa")
        peer.context.maximum_version = ssl.TLSVersion.TLSv1_2
        peer.context.set_ciphers("AES128-SHA")
        self.assert_refused(self.deliver(peer), peer, "in common")

    def test_a_server_without_tls(self):
        peer = Server(lambda connection, server: connection.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        self.assert_refused(self.deliver(peer), peer, "does not speak TLS")

    def test_a_server_that_hangs_up(self):
        peer = Server(lambda connection, server: connection.sock.recv(10))
        self.assert_refused(self.deliver(peer, "rd.report.timeout=1"), peer, "rd.report.url=")

    def test_an_answer_that_is_cut(self):
        def cut(connection, server):
            connection.request()
            connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")
            # The connection ends; Python says no close_notify unless told to.

        peer = Server(cut, tls="p256")
        result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.timeout=1")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("before it had answered in full", result.stderr)

    def test_a_record_that_is_none(self):
        def spoil(connection, server):
            connection.request()
            with socket.socket(fileno=os.dup(connection.sock.fileno())) as plain:
                plain.sendall(b"\x17\x03\x03\x00\x20" + b"?" * 32)
                plain.recv(1000)

        peer = Server(spoil, tls="p256")
        result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.timeout=1")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("a TLS record was broken", result.stderr)

    def test_pins(self):
        for name in ("expired", "other", "selfca", "rsa"):
            for notation in ("sha256:", "sha256//"):
                with self.subTest(f"{name} {notation}"):
                    peer = Server(tls=name)
                    self.assert_delivered(self.deliver(peer, f"rd.report.pin={notation}{pin_of(name)}"), peer)
        peer = Server(tls="p256")
        result = self.deliver(peer, f"rd.report.ca=/roots.pem rd.report.pin=sha256:{pin_of('rsa')}")
        self.assert_refused(result, peer, "rd.report.pin=")
        peer = Server(tls="p256")
        result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.pin=sha256:AAAA")
        self.assert_delivered(result, peer)
        self.assertIn("rd.report.pin=sha256:AAAA", result.stderr)

    def test_any_certificate(self):
        for name in ("expired", "other", "selfca"):
            with self.subTest(name):
                peer = Server(tls=name)
                result = self.deliver(peer, "rd.report.insecure")
                self.assert_delivered(result, peer)
                self.assertIn("ANY certificate is accepted", result.stderr)
                self.assertTrue(any("rd.report.insecure" in warning
                                    for warning in json.loads(peer.requests[0].body)["warnings"]))

    def test_random_numbers_that_the_kernel_does_not_give(self):
        # Not ready, an old kernel, forbidden.
        for error in ("EAGAIN", "ENOSYS", "EPERM"):
            with self.subTest(error):
                peer = Server(tls="p256")
                self.addCleanup(peer.close)
                root = Root(f"rd.report.url={peer.url()} rd.report.ca=/roots.pem")
                self.addCleanup(root.remove)
                root.write("roots.pem", Pki.read("roots.pem"))
                trace = root.write("trace", "")
                result = subprocess.run(
                    ["strace", "-f", "-o", trace, "-e", "trace=getrandom", "-e", f"inject=getrandom:error={error}", BINARY,
                     "--root", root.path, "failed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, text=True)
                self.assert_delivered(result, peer)
                self.assertIn("random numbers are not ready", result.stderr)
                with open(trace) as file:
                    calls = [line for line in file if "getrandom(" in line]
                self.assertGreater(len(calls), 3)
                self.assertTrue(all(error in call and "GRND_NONBLOCK" in call for call in calls), calls)

    def asking(self):
        peer = Server(lambda connection, server: (server.names.append(connection.sock.getpeercert()["subject"]),
                                                  connection.answer(OK)), tls="p256")
        peer.names = []
        peer.context.verify_mode = ssl.CERT_REQUIRED
        peer.context.load_verify_locations(Pki.file("ca.pem"))
        return peer

    def test_a_client_certificate(self):
        for cert, key, name in (("client.pem", "client.key", "test client"),
                                ("client.pem", "client-sec1.key", "test client"),
                                ("clientrsa.pem", "clientrsa.key", "test RSA client"),
                                ("clientrsa.pem", "clientrsa-pkcs1.key", "test RSA client")):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with self.subTest(f"{cert} {key} {version}"):
                    peer = self.asking()
                    peer.context.maximum_version = version
                    result = self.deliver(peer, f"rd.report.ca=/roots.pem rd.report.cert=/{cert} rd.report.key=/{key}",
                                          files=(cert, key))
                    if "rsa" in cert and f"rd.report.key=/{key}: no key of the certificate" in result.stderr:
                        # RSA keys are a feature of their own, which a binary may be built without.
                        self.assertNotEqual(result.returncode, 0)
                        continue
                    self.assert_delivered(result, peer)
                    self.assertEqual(peer.names, [((("commonName", name),),)])

    def test_a_client_certificate_with_its_key_in_one_file(self):
        peer = self.asking()
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url=https://localhost:{peer.port}/ rd.report.ca=/roots.pem rd.report.cert=/both.pem")
        self.addCleanup(root.remove)
        root.write("roots.pem", Pki.read("roots.pem"))
        root.write("both.pem", Pki.read("client.pem") + Pki.read("client.key"))
        self.assert_delivered(root.run("failed"), peer)

    def test_a_client_certificate_that_cannot_be_used(self):
        for cert, key, said in (("client.pem", "p384.key", "rd.report.key=/p384.key: no key of the certificate"),
                                ("client.key", "client.key", "rd.report.cert=/client.key: no certificate"),
                                ("client.pem", "missing.key", "rd.report.key=/missing.key: no such file"),
                                ("missing.pem", "client.key", "rd.report.cert=/missing.pem: no such file")):
            with self.subTest(f"{cert} {key}"):
                peer = Server(tls="p256")
                result = self.deliver(peer, f"rd.report.ca=/roots.pem rd.report.cert=/{cert} rd.report.key=/{key}",
                                      files=[name for name in (cert, key) if "missing" not in name])
                self.assert_delivered(result, peer)
                self.assertIn(said, result.stderr)

    def test_a_client_certificate_that_is_missing(self):
        peer = self.asking()
        result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.timeout=1")
        self.assert_refused(result, peer, "rd.report.url=", "116", "rd.report.cert=")


if __name__ == "__main__":
    unittest.main()
