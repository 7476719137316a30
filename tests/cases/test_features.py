"""Builds with fewer features: what they send, and what they say of what they cannot do."""
import json
import os
import subprocess
import sys
import unittest

from harness import HERE, Root, Server

# Without the minute that optimising the whole takes: this is about what it does.
QUICK = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


def built(name, *features):
    """A build with these features, in a target folder of this name."""
    project = os.path.dirname(HERE)
    target = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(project, "target"))), name)
    subprocess.run(["cargo", "build", "-q", "--release", "--bin", "rdreport", "--target-dir", target, "--no-default-features",
                    "--features", ",".join(features)], cwd=project, env={**os.environ, **QUICK}, check=True)
    return os.path.join(target, "release", "rdreport")


class MainJobAlone(unittest.TestCase):
    """The set `main-job` of size-report/budgets."""

    def test_it_needs_no_more(self):
        binary = built("main-job", "tls12", "rsa", "roots", "zstd")
        for tests, names in (("test_main_job.py", ("status", "journal", "secrets", "boot")),
                             ("test_tls.py", ("refused", "built_in", "versions", "cut"))):
            ran = subprocess.run([sys.executable, "-m", "unittest", "discover", "-s", os.path.join(HERE, "cases"), "-t", HERE, "-p", tests,
                                  *(word for name in names for word in ("-k", name))],
                                 env={**os.environ, "RDREPORT": binary}, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stderr, r"\nRan ([4-9]|1[0-9]) tests in ")


class WithoutAny(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.binary = built("plain")

    def run_in(self, root, *args):
        return subprocess.run([self.binary, "--root", root.path, *args], capture_output=True, text=True, errors="replace",
                              timeout=60)

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
            self.assertIn(line, result.stdout)

    def test_a_redirect_to_tls_is_no_way_out(self):
        server = self.serve(lambda connection, _: connection.answer(
            b"HTTP/1.1 307 Elsewhere\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"))
        result = self.run_in(self.root(f"rd.report.url={server.url('/')}"), "failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn(": not delivered: ", result.stderr)

    def test_names_are_those_of_hosts_alone(self):
        server = self.serve()
        root = self.root(f"rd.report.url=http://here.example:{server.port}/ rd.report.url=http://there.example/ "
                         "rd.report.dns=127.0.0.1 rd.report.action.delay=5")
        root.write("etc/hosts", "127.0.0.1 here.example\n")
        result = self.run_in(root, "failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("rd.report.dns: recognised, but this build does not act on it", result.stderr)
        self.assertIn("there.example/: not delivered: this build asks no nameservers and /etc/hosts has no such name; "
                      "use an address in the URL", result.stderr)
        self.assertEqual(len(server.requests), 1)

    def test_what_is_left_out_is_refused_by_name(self):
        server = self.serve()
        url = server.url("/journal")
        root = self.root(f"rd.report.journal={url} rd.report.journal=file:/dev/port rd.report.journal={url}?format=json "
                         "rd.report.proxy=http://127.0.0.1:1 rd.report.fallback=http://127.0.0.1:1/f.ign "
                         "rd.report.action=panic rd.report.clock=lenient")
        root.write("dev/port", "")
        result = self.run_in(root, "failed")
        self.assertEqual(result.returncode, 1)
        for key in ("proxy", "fallback", "action", "clock"):
            self.assertIn(f"rd.report.{key}: recognised, but this build does not act on it", result.stderr)
        self.assertIn("rd.report.journal=file:/dev/port asks for a transport that this build does not speak", result.stderr)
        self.assertIn("/journal?*** has a ?format= or ?gzip= that this build does not know", result.stderr)
        self.assertNotIn("panic", result.stderr.replace("rd.report.action=panic", ""))
        # What is left is delivered all the same, as it always is, past the proxy that is none.
        self.assertEqual([request.target for request in server.requests], ["/journal"])
        self.assertIn(b"\nMESSAGE=", server.requests[0].text())
        with open(os.path.join(root.path, "dev/port"), "rb") as port:
            self.assertEqual(port.read(), b"")
        self.assertFalse(os.path.exists(os.path.join(root.path, "run/rdreport/fallback.ign")))
        self.assertEqual(self.run_in(root, "check", "--network").returncode, 0)
        self.assertEqual(self.run_in(self.root("rd.report.fallback=http://192.0.2.1/"), "check", "--network").returncode, 1)

    def test_the_export_format_is_the_only_one(self):
        root = self.root("")
        self.assertIn("\nMESSAGE=", self.run_in(root, "journal").stdout)
        self.assertIn("\nMESSAGE=", self.run_in(root, "journal", "--format", "export").stdout)
        self.assertEqual(self.run_in(root, "journal", "--format", "json").returncode, 2)
        said = self.run_in(root, "--help").stdout
        self.assertIn("--format NAME    export\n", said)
        self.assertIn("  rd.report.proxy=URL\n      [not in this build]\n", said)
        self.assertNotIn("rd.report.proxy", self.run_in(root, "check").stdout)

    def test_the_kernels_log_is_no_journal(self):
        server = self.serve()
        root = Root(f"rd.report.journal={server.url('/')}", journal=None)
        self.addCleanup(root.remove)
        root.write("dev/kmsg", "6,1,1,-;a line\n")
        result = self.run_in(root, "failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no journal", result.stderr)
        self.assertEqual(server.requests, [])


if __name__ == "__main__":
    unittest.main()
