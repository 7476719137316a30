"""`put+https`: uploads to presigned URLs of an object store, against a server that checks the signature as the store does (AWS Signature
Version 4, query parameters) and takes no body without its length."""
import contextlib
import gzip
import hashlib
import hmac
import os
import random
import threading
import time
import unittest
import urllib.parse

from harness import MACHINE, OK, Pki, Root, Server, parse_export, sample

KEY_ID, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
DENIED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


def canonical(query):
    """The query's parameters but the signature itself, encoded anew and in order."""
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    quote = lambda text: urllib.parse.quote(text, safe="-_.~")
    return "&".join(sorted(f"{quote(name)}={quote(value)}" for name, value in pairs if name != "X-Amz-Signature"))


def signature(method, path, query, host):
    """The signature of a request whose only signed field is `Host`, and whose body is not signed."""
    given = dict(urllib.parse.parse_qsl(query))
    date = given["X-Amz-Date"]
    scope = given["X-Amz-Credential"].split("/", 1)[1]
    request = "\n".join([method, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"), canonical(query), f"host:{host}\n", "host",
                         "UNSIGNED-PAYLOAD"])
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in [*scope.split("/"), text]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


def presigned(scheme, host, path, date, extra=(), method="PUT", region="eu-central-1"):
    day = date[:8]
    query = urllib.parse.urlencode([("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{KEY_ID}/{day}/{region}/s3/aws4_request"),
                                    ("X-Amz-Date", date), ("X-Amz-Expires", "86400"), ("X-Amz-SignedHeaders", "host"), *extra])
    return f"{scheme}://{host}{path}?{query}&X-Amz-Signature={signature(method, path, query, host)}"


class Store(Server):
    """Checks what comes, and keeps it in `objects`; the first answers are those of `first`."""

    def __init__(self, *first, **options):
        self.objects, self.refused, self.first = {}, [], list(first)
        super().__init__(Store.handle, **options)

    def handle(connection, store):
        request = connection.request()
        fields = request.headers
        path, query = request.target.split("?", 1)
        reasons = []
        if fields.get("content-length") != str(len(request.body)) or "transfer-encoding" in fields:
            reasons.append("no length")
        if signature(request.method, path, query, fields["host"]) != dict(urllib.parse.parse_qsl(query))["X-Amz-Signature"]:
            reasons.append("signature")
        # They would be part of what other presigned requests are signed for.
        reasons += [name for name in fields if name in ("content-type", "content-encoding", "content-md5") or name.startswith("x-amz-")]
        if reasons:
            store.refused.append(reasons)
            connection.sock.sendall(DENIED)
            return
        if store.first:
            connection.sock.sendall(store.first.pop(0))
            return
        store.objects[path] = request.body
        connection.sock.sendall(OK)


class Presigned(unittest.TestCase):
    def test_the_algorithm_here_is_the_published_one(self):
        # The example of "Authenticating Requests: Using Query Parameters" in Amazon S3's API reference.
        url = presigned("https", "examplebucket.s3.amazonaws.com", "/test.txt", "20130524T000000Z", method="GET", region="us-east-1")
        self.assertTrue(url.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"), url)

    def upload(self, store, path="/bucket/journal.gz", extra=(), words="", spoil=lambda url: url):
        self.addCleanup(store.close)
        scheme = "https" if store.context else "http"
        url = presigned(scheme, f"localhost:{store.port}", path, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), extra)
        root = Root(f'rd.report.journal="put+{spoil(url)}" rd.report.ca=/ca.pem {words}')
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        result = root.run("failed")
        self.assertNotIn("X-Amz", result.stderr)
        return result

    def assert_stored(self, result, store, path="/bucket/journal.gz"):
        self.assertEqual(result.returncode, 0, result.stderr + str(store.refused))
        self.assertEqual(list(store.objects), [path])
        self.assertGreater(len(parse_export(gzip.decompress(store.objects[path]))), 500)

    def test_an_upload(self):
        for tls in ("p256", None):
            with self.subTest(tls):
                store = Store(tls=tls)
                self.assert_stored(self.upload(store), store)

    def test_keys_and_parameters_that_are_encoded(self):
        # Ours by name, and characters that somebody might decode, encode or leave out.
        extra = [("gzip", "0"), ("format", "json"), ("x-id", "PutObject"), ("response-content-disposition", "a; b=\"c d\"/é+~"), ("empty", "")]
        store = Store(tls="p256")
        path = "/bucket/a%20b/%C3%A9%2Bc~.gz"
        self.assert_stored(self.upload(store, path, extra), store, path)

    def test_the_same_bytes_at_every_try(self):
        unavailable = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"
        store = Store(unavailable, unavailable)
        result = self.upload(store)
        self.assert_stored(result, store)
        self.assertIn("3 tries", result.stderr)
        self.assertEqual(len({request.body for request in store.requests}), 1)

    def test_fields_of_the_owner_do_not_spoil_it(self):
        store = Store()
        self.assert_stored(self.upload(store, words="rd.report.header='X-Node: n1'"), store)

    def test_a_wrong_signature_is_final(self):
        store = Store()
        result = self.upload(store, spoil=lambda url: url.replace("journal.gz", "other.gz"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("the server answered 403", result.stderr)
        self.assertEqual(store.refused, [["signature"]])


class Length(unittest.TestCase):
    """A journal that changes while it is counted and sent: what comes is as long as was said, or it is not delivered."""

    def test_a_journal_that_is_written_anew(self):
        content = sample("initrd-systemd252-ignition-disks-missing.journal")
        lengths = []

        def behave(connection, server):
            request = connection.head()
            body = bytearray()
            while data := connection.file.read1(65536):
                body += data
                if len(body) >= int(request.headers["content-length"]):
                    break
            # Whatever comes behind.
            connection.sock.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                body += connection.sock.recv(65536)
            lengths.append((len(body), int(request.headers["content-length"])))
            connection.sock.sendall(OK)

        store = Server(behave)
        self.addCleanup(store.close)
        root = Root(f"rd.report.journal=put+{store.url('/j')} rd.report.timeout=4")
        self.addCleanup(root.remove)
        path = os.path.join(root.path, f"run/log/journal/{MACHINE}/system.journal")
        over = threading.Event()

        def disturb():
            chance = random.Random(1)
            with open(path, "r+b", buffering=0) as file:
                while not over.wait(chance.random() * 0.02):
                    file.truncate(chance.choice([0, chance.randrange(len(content))]))
                    os.pwrite(file.fileno(), content, 0)

        thread = threading.Thread(target=disturb)
        thread.start()
        delivered = 0
        for _ in range(20):
            delivered += root.run("failed").returncode == 0
        over.set()
        thread.join()
        self.assertGreater(len(lengths), 0)
        self.assertEqual([pair for pair in lengths if pair[0] > pair[1]], [], "more than was announced")
        whole = sum(sent == announced for sent, announced in lengths)
        self.assertGreaterEqual(whole, delivered)
        self.assertGreater(delivered, 0)


if __name__ == "__main__":
    unittest.main()
