"""Journal files that need what this program does not know: named, and sent as they are where that is allowed."""
import io
import tarfile
import unittest

from harness import MACHINE, OK, Root, Server, parse_export, sample

NAME = "user-1000@0006617306fdd11c-b1f5c4ea1b0e0b5e.journal~"


class Unknown(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.root = Root("")
        self.addCleanup(self.root.remove)
        self.unknown = bytearray(sample("layouts/none.journal"))
        # Two flags that no systemd has.
        self.unknown[12] |= 0x60
        self.root.write(f"run/log/journal/{MACHINE}/{NAME}", bytes(self.unknown))

    def report(self, settings, path="/j"):
        self.root.write("proc/cmdline", f"rd.report.journal={self.server.url(path)} {settings}\n")
        result = self.root.run("failed")
        return result, [(r.method, r.target, r.headers["content-type"]) for r in self.server.requests]

    def test_sent_behind_the_stream(self):
        result, seen = self.report("rd.report.journal.redact=off", "/j?a=b&gzip=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(seen, [("POST", "/j?a=b", "application/vnd.fdo.journal"), ("POST", "/j?a=b", "application/x-tar")])
        stream, archive = self.server.requests
        self.assertEqual(stream.headers["x-report-id"], archive.headers["x-report-id"])
        self.assertEqual(archive.headers["content-encoding"], "gzip")
        with tarfile.open(fileobj=io.BytesIO(archive.text())) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}
        self.assertEqual(found, {f"run/log/journal/{MACHINE}/{NAME}": bytes(self.unknown)})
        remark = parse_export(stream.text())[-1]
        self.assertEqual(remark["SYSLOG_IDENTIFIER"], b"rdreport")
        said = f"1 files need what is not known here (incompatible flags 96), the first {NAME}; they go as they are"
        self.assertIn(said, remark["MESSAGE"].decode())
        self.assertIn(said, result.stderr)
        self.assertRegex(result.stderr, r"by \?format=raw: delivered \(200, \d+ bytes\)\n")

    def test_not_where_secrets_are_masked(self):
        result, seen = self.report("")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(seen, [("POST", "/j", "application/vnd.fdo.journal")])
        self.assertIn(f"the first {NAME}; rd.report.journal.redact=off sends them as they are", result.stderr)
        self.assertIn(NAME.encode(), self.server.requests[0].text())

    def test_with_the_others_in_raw(self):
        _, seen = self.report("rd.report.journal.redact=off", "/j?format=raw")
        self.assertEqual(seen, [("POST", "/j", "application/x-tar")])
        with tarfile.open(fileobj=io.BytesIO(self.server.requests[0].text())) as tar:
            self.assertEqual(sorted(name.rpartition("/")[2] for name in tar.getnames()), ["system.journal", NAME])

    def test_a_refusal_is_told(self):
        def behave(connection, server):
            first = not server.requests
            connection.answer(OK if first else b"HTTP/1.1 415 No\r\nContent-Length: 0\r\n\r\n")

        self.server.behave = behave
        result, seen = self.report("rd.report.journal.redact=off")
        self.assertEqual((result.returncode, len(seen)), (1, 2))
        self.assertRegex(result.stderr, r": delivered \(200, .*by \?format=raw: not delivered: the server answered 415")

    def test_alone(self):
        self.root.write(f"run/log/journal/{MACHINE}/system.journal", b"")
        _, seen = self.report("rd.report.journal.redact=off")
        self.assertEqual([kind for _, _, kind in seen], ["application/vnd.fdo.journal", "application/x-tar"])


if __name__ == "__main__":
    unittest.main()
