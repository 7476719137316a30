"""A build without TLS, the least there is: what it sends, and what it says of what it cannot do."""
import json
import os
import subprocess
import unittest

from peers import HERE, Root, Server

# Without the minute that optimising the whole takes: this is about what it does.
QUICK = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


class WithoutTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        project = os.path.dirname(HERE)
        target = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(project, "target"))), "plain")
        subprocess.run(["cargo", "build", "-q", "--release", "--bin", "rdreport", "--no-default-features", "--target-dir", target],
                       cwd=project, env={**os.environ, **QUICK}, check=True)
        cls.binary = os.path.join(target, "release", "rdreport")

    def run_in(self, root, *args):
        return subprocess.run([self.binary, "--root", root.path, *args], capture_output=True, text=True, timeout=60)

    def root(self, cmdline):
        root = Root(cmdline)
        self.addCleanup(root.remove)
        return root

    def serve(self, behave=None):
        server = Server(behave)
        self.addCleanup(server.close)
        return server

    def test_it_delivers_in_plain(self):
        server = self.serve()
        root = self.root(f"rd.report.url={server.url('/status')} rd.report.journal={server.url('/journal')}")
        result = self.run_in(root, "failed", "--stage", "disks")
        self.assertEqual(result.returncode, 0, result.stderr)
        requests = {request.target: request for request in server.requests}
        self.assertEqual(json.loads(requests["/status"].body)["failed_units"][0]["unit"], "dev-vdz.device")
        self.assertIn(b"\nMESSAGE=", requests["/journal"].text())

    def test_what_needs_tls_is_refused_by_name(self):
        root = self.root("rd.report.url=https://a.example/ rd.report.ca=/ca.pem rd.report.pin=sha256:abc "
                         "rd.report.journal=http://127.0.0.1:1/")
        root.write("ca.pem", "")
        result = self.run_in(root, "check")
        self.assertEqual(result.returncode, 1)
        for line in ("rd.report.url=https://a.example/ asks for TLS, which this build does not have; use http://",
                     "rd.report.ca=/ca.pem: this build has no TLS", "rd.report.pin=sha256:abc: this build has no TLS"):
            self.assertIn(line, result.stderr)

    def test_a_redirect_to_tls_is_no_way_out(self):
        server = self.serve(lambda connection, _: connection.answer(
            b"HTTP/1.1 307 Elsewhere\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"))
        result = self.run_in(self.root(f"rd.report.url={server.url('/')}"), "failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn(": not delivered: ", result.stderr)


if __name__ == "__main__":
    unittest.main()
