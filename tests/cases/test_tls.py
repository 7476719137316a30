"""TLS from outside: what is refused is said with the certificate's name, the reason and the setting that would change it."""
import json
import os
import socket
import ssl
import subprocess
import threading
import unittest
import warnings

from harness import BINARY, OK, PATIENCE, Pki, Root, Server, children_of, most_kb, resident_kb


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

    @staticmethod
    def weak(name):
        """A server whose certificate may be one that OpenSSL itself finds too weak."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.load_cert_chain(Pki.file(name + ".pem"), Pki.file(name + ".key"))
        peer = Server(tls="p256")
        peer.context = context
        return peer

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
            ("client", ("of localhost is not for a server (extendedKeyUsage without serverAuth)",)),
            ("v1", ("of localhost is of X.509 version 1", "subjectAltName", "rd.report.pin=")),
            ("asca", ("of localhost is a CA's own", "rd.report.ca=", "rd.report.pin=")),
            ("critical", ("of localhost has a critical extension",)),
            ("sha1", ("by an algorithm that is not supported", "rd.report.pin=")),
            ("rsa1024", ("the certificate of localhost has an RSA key of 1024 bits", "2048 to 8192")),
            ("rsa2047", ("the certificate of localhost has an RSA key of 2047 bits",)),
            ("weakca", ("an issuer of the certificate of localhost has an RSA key of 1024 bits",)),
            ("notca", ("an issuer of the certificate of localhost is no CA", "rd.report.pin=")),
            ("pathlen", ("an issuer of the certificate of localhost allows fewer CAs", "rd.report.pin=")),
            ("onlycorp", ("an issuer of the certificate of localhost has nameConstraints that exclude",)),
            ("directory", ("nameConstraints of directoryName, which are not supported", "rd.report.pin=")),
        ):
            with self.subTest(name):
                peer = self.weak(name)
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
        # The connection ends; Python says no close_notify unless told to. A status line that came decides.
        for said, is_delivered in ((b"HTTP/1.1 200 OK\r\nContent-Le", True), (b"HTTP/1.1 20", False)):
            def cut(connection, server):
                connection.request()
                connection.sock.sendall(said)

            with self.subTest(said):
                peer = Server(cut, tls="p256")
                result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.timeout=1")
                if is_delivered:
                    self.assert_delivered(result, peer)
                else:
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn("not delivered", result.stderr)

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

    def test_with_a_pin_the_key_alone_counts(self):
        for name in ("v1", "asca", "critical", "sha1", "weakca", "notca", "pathlen", "onlycorp", "directory", "client", "future"):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                for extra in (f"rd.report.pin=sha256:{pin_of(name)}", "rd.report.insecure"):
                    with self.subTest(f"{name} {version} {extra}"):
                        peer = self.weak(name)
                        peer.context.minimum_version = peer.context.maximum_version = version
                        self.assert_delivered(self.deliver(peer, extra), peer)
        for name in ("rsa1024", "rsa2047"):
            with self.subTest(name):
                peer = self.weak(name)
                self.assert_refused(self.deliver(peer, f"rd.report.pin=sha256:{pin_of(name)}"), peer, "an RSA key of")
                peer = self.weak(name)
                self.assert_delivered(self.deliver(peer, "rd.report.insecure"), peer)

    def test_a_pin_that_cannot_be_read_is_no_server_s(self):
        good = pin_of("p256")
        for pin in ("=sha256:AAAA", "=" + good, f"=sha256:{good[:-2]}", f"=sha256:{good}x", "=sha256:" + "0" * 64, "=", "",
                    f"=SHA256:{good}", f"=sha512:{good}", "=sha256:", f"=sha256:{pin_of('rsa')};x", "s=sha256:AAAA"):
            for extra in ("", " rd.report.insecure"):
                with self.subTest(pin + extra):
                    peer = Server(tls="p256")
                    result = self.deliver(peer, f"rd.report.ca=/roots.pem rd.report.pin{pin}{extra}")
                    self.assert_refused(result, peer, "rdreport: rd.report.pin", "of which one is no sha256:BASE64; correct it")
        # Beside one that can be read, that one holds.
        peer = Server(tls="p256")
        result = self.deliver(peer, f"rd.report.pin=sha256:AAAA rd.report.pin=sha256:{good}")
        self.assert_delivered(result, peer)
        self.assertIn("rd.report.pin=sha256:AAAA: no SHA-256 of a public key", result.stderr)

    def test_insecure_that_cannot_be_read_is_off(self):
        for word in ("insecure=never", "insecure=", "insecure=0", "insecure=no", "insecure=false", "insecure=off",
                     "insecure rd.report.insecure=x"):
            with self.subTest(word):
                peer = Server(tls="selfca")
                self.assert_refused(self.deliver(peer, f"rd.report.{word}"), peer, "self-signed")

    def test_roots_off(self):
        for word in ("roots=off", "roots=no", "roots=of", "roots="):
            with self.subTest(word):
                peer = Server(tls="p256")
                self.assert_delivered(self.deliver(peer, f"rd.report.ca=/roots.pem rd.report.{word}"), peer)
                for ca in ("", "rd.report.ca=/missing.pem ", "rd.report.ca=/p256.key "):
                    peer = Server(tls="p256")
                    result = self.deliver(peer, f"{ca}rd.report.{word}", files=("p256.key",))
                    self.assert_refused(result, peer, "no server is trusted over TLS", "issuer that is not trusted")

    def bundle(self, content, host="localhost"):
        """What comes of a report with these bytes as rd.report.ca=."""
        peer = Server(tls="p256")
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url=https://{host}:{peer.port}/x rd.report.timeout=5 rd.report.ca=/ca.pem")
        self.addCleanup(root.remove)
        root.write("ca.pem", content)
        return root.run("failed"), peer, root.run("check")

    def test_forms_of_pem(self):
        ca = Pki.read("ca.pem")
        for name, content in (
            ("a byte order mark", b"\xef\xbb\xbf" + ca),
            ("CR LF", ca.replace(b"\n", b"\r\n")),
            ("X509 CERTIFICATE", ca.replace(b" CERTIFICATE", b" X509 CERTIFICATE")),
            ("TRUSTED CERTIFICATE", Pki.read("ca-trusted.pem")),
            ("indented", b"  " + ca.replace(b"\n", b"\n\t ")),
            ("one line", b"\n".join([ca.split(b"\n")[0], b"".join(ca.split(b"\n")[1:-2]), ca.split(b"\n")[-2]])),
            ("text and a key around", b"Subject: CN=test root\n\n" + Pki.read("p256.key") + ca + b"the end"),
        ):
            with self.subTest(name):
                result, peer, check = self.bundle(content)
                self.assert_delivered(result, peer)
                self.assertNotIn("rd.report.ca=", result.stderr)
                self.assertIn("and 1 of rd.report.ca=", check.stdout)

    def test_what_is_broken_in_a_bundle_costs_itself_alone(self):
        ca, stranger = Pki.read("ca.pem"), Pki.read("stranger.pem")
        for name, bad in (
            ("no end", stranger[:stranger.index(b"-----END")]),
            ("not base64", stranger.replace(b"M", b"*")),
            ("cut", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
            ("not for servers", Pki.read("ca-rejected.pem")),
        ):
            with self.subTest(name):
                result, peer, check = self.bundle(stranger + bad + ca)
                self.assert_delivered(result, peer)
                self.assertIn("rd.report.ca=/ca.pem: 1 of its certificates cannot be read; the others are trusted", result.stderr)
                self.assertIn("and 2 of rd.report.ca=", check.stdout)

    def test_a_whole_system_s_bundle(self):
        stranger = Pki.read("stranger.pem")
        result, peer, check = self.bundle(stranger * 400 + Pki.read("ca.pem") + stranger * 50)
        self.assert_delivered(result, peer)
        self.assertIn("and 451 of rd.report.ca=", check.stdout)
        result, peer, _ = self.bundle(stranger * 400)
        self.assert_refused(result, peer, "comes from an issuer that is not trusted")

    def test_a_whole_system_s_bundle_takes_no_memory(self):
        found = []

        def measure(connection, server):
            connection.request()
            found.extend(map(resident_kb, [server.process.pid, *children_of(server.process.pid)]))
            connection.sock.sendall(OK)

        peer = Server(measure, tls="p256")
        self.addCleanup(peer.close)
        root = Root(f"rd.report.url={peer.url()} rd.report.ca=/ca.pem rd.report.timeout=10", journal=None)
        self.addCleanup(root.remove)
        # Those that are the issuer by their name are kept, and no more of them than 32.
        root.write("ca.pem", Pki.read("stranger.pem") * 1000 + Pki.read("ca.pem") * 1000)
        peer.process = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.PIPE)
        _, said = peer.process.communicate(timeout=PATIENCE)
        self.assertEqual(peer.process.returncode, 0, said)
        self.assertEqual(len(found), 2)
        self.assertLess(max(found), most_kb())

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
        self.assert_refused(result, peer, "rd.report.url=", "asks for a client certificate", "rd.report.cert=")

    def test_a_client_certificate_that_does_not_do(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                peer = self.asking()
                peer.context.minimum_version = peer.context.maximum_version = version
                result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.timeout=2")
                self.assert_refused(result, peer, "asks for a client certificate, and refused us without one", "rd.report.cert=")
                peer = self.asking()
                peer.context.minimum_version = peer.context.maximum_version = version
                result = self.deliver(peer, "rd.report.ca=/roots.pem rd.report.timeout=2 rd.report.cert=/self.pem "
                                            "rd.report.key=/self.key", files=("self.pem", "self.key"))
                self.assert_refused(result, peer, "refused our client certificate", "rd.report.cert=")

    def test_a_client_certificate_that_is_asked_for_later(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(["openssl", "s_server", "-tls1_2", "-accept", f"127.0.0.1:{port}", "-cert", Pki.file("p256.pem"),
                                   "-key", Pki.file("p256.key")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdin.close)
        while not server.stdout.readline().startswith(b"ACCEPT"):
            pass

        def ask():
            # The request was read: what Apache does for one Location.
            while b"POST" not in server.stdout.readline():
                pass
            server.stdin.write(b"R\n")
            server.stdin.flush()

        asking = threading.Thread(target=ask)
        asking.start()
        root = Root(f"rd.report.url=https://localhost:{port}/x rd.report.timeout=5 rd.report.ca=/roots.pem")
        self.addCleanup(root.remove)
        root.write("roots.pem", Pki.read("roots.pem"))
        result = root.run("failed")
        asking.join()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("wanted a second handshake (renegotiation)", result.stderr)
        self.assertIn("rd.report.cert=", result.stderr)


if __name__ == "__main__":
    unittest.main()
