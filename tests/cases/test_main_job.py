"""The main job: a failed boot's outcome and its journal reach an HTTPS server, whole."""
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import jsonschema

from harness import FIXTURES, HERE, MACHINE, Pki, Root, Server, sample

with open(os.path.join(HERE, "status.schema.json")) as file:
    SCHEMA = json.load(file)

# journalctl prints these from systemd 254 on; the one of this machine may be older.
NEWER = (b"__SEQNUM=", b"__SEQNUM_ID=")


def without_newer(export):
    return b"".join(line for line in export.splitlines(True) if not line.startswith(NEWER))


def journalctl(*args):
    return subprocess.run(["journalctl", "--no-pager", "-o", "export", *args], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


class MainJob(unittest.TestCase):
    def setUp(self):
        self.server = Server(tls="p256")
        self.addCleanup(self.server.close)
        self.root = Root(
            f"console=ttyS0 rd.report.url={self.server.url('/status')} "
            f"rd.report.journal={self.server.url('/journal', host='127.0.0.1')} rd.report.ca=/ca.pem "
            "rd.report.journal.redact=off ignition.config.url=https://me:TOPSECRET@host/x?token=TOPSECRET")
        self.addCleanup(self.root.remove)
        self.root.write("ca.pem", Pki.read("ca.pem"))
        self.root.write("proc/sys/kernel/hostname", "node-7\n")
        self.root.write("proc/sys/kernel/osrelease", "6.1.0\n")
        self.root.write("proc/sys/kernel/random/boot_id", "7a1f9fe2-5d0c-4c1a-8c1e-0d9f5a1c2b3d\n")
        self.root.write("etc/machine-id", MACHINE + "\n")
        self.root.write("sys/class/dmi/id/product_uuid", "4C4C4544-0042-3510-8052-B4C04F4A4E32\n")
        self.root.write("sys/class/net/eth0/address", "52:54:00:12:34:56\n")
        self.root.write("sys/class/net/lo/address", "00:00:00:00:00:00\n")

    def run_failed(self):
        result = self.root.run("failed", "--stage", "disks", "--message", "disk \"x\" not found\n", "--code", "12")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.server.errors, [])
        return {request.target: request for request in self.server.requests}, result

    def test_status(self):
        requests, result = self.run_failed()
        status = requests["/status"]
        self.assertEqual(status.method, "POST")
        self.assertEqual(status.headers["content-type"], "application/json")
        self.assertEqual(int(status.headers["content-length"]), len(status.body))
        body = json.loads(status.body)
        jsonschema.validate(body, SCHEMA)
        expected = {
            "state": "failed", "stage": "disks", "message": "disk \"x\" not found\n", "code": 12, "hostname": "node-7",
            "kernel": "6.1.0", "machine_id": MACHINE, "boot_id": "7a1f9fe2-5d0c-4c1a-8c1e-0d9f5a1c2b3d",
            "product_uuid": "4c4c4544-0042-3510-8052-b4c04f4a4e32", "mac": ["52:54:00:12:34:56"],
            "clock_trusted": True, "warnings": [],
        }
        self.assertEqual([(unit["unit"], unit["result"], unit["exit_status"]) for unit in body["failed_units"]],
                         [("dev-vdz.device", "timeout", None), ("ignition-disks.service", "exit-code", 1)])
        self.assertTrue(any("vdz" in line for unit in body["failed_units"] for line in unit["last_lines"]))
        self.assertEqual({key: body[key] for key in expected}, expected)
        self.assertIn("ignition.config.url=https://***@host/x?***", body["cmdline"])
        for seen in (status.body.decode(), result.stderr, result.stdout):
            self.assertNotIn("TOPSECRET", seen)
        self.assertEqual(body["report_id"], requests["/journal"].headers["x-report-id"])

    def test_status_goes_first(self):
        self.run_failed()
        self.assertEqual([request.target for request in self.server.requests], ["/status", "/journal"])

    def test_journal_is_what_journalctl_prints(self):
        requests, _ = self.run_failed()
        journal = requests["/journal"]
        self.assertEqual(journal.headers["transfer-encoding"], "chunked")
        self.assertEqual(journal.headers["content-encoding"], "gzip")
        self.assertEqual(journal.headers["content-type"], "application/vnd.fdo.journal")
        expected = journalctl("--file", os.path.join(self.root.path, f"run/log/journal/{MACHINE}/system.journal"))
        self.assertGreater(len(expected), 100_000)
        self.assertEqual(without_newer(journal.text()), without_newer(expected))

    def test_journal_remote_accepts_it(self):
        requests, _ = self.run_failed()
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        out = os.path.join(folder, "out.journal")
        subprocess.run(["/lib/systemd/systemd-journal-remote", "-o", out, "-"], input=requests["/journal"].text(),
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        made_anew = re.compile(rb"^__CURSOR=.*\n", re.M)
        again = made_anew.sub(b"", without_newer(journalctl("--file", out)))
        sent = made_anew.sub(b"", without_newer(requests["/journal"].text()))
        self.assertEqual(again, sent)

    def test_without_a_message_it_is_ignitions_own(self):
        self.root.run("failed")
        body = json.loads(self.server.requests[0].body)
        jsonschema.validate(body, SCHEMA)
        self.assertIn("create partitions failed", body["message"])

    def test_secrets_are_masked_unless_the_owner_says_otherwise(self):
        self.root.write(f"run/log/journal/{MACHINE}/system.journal",
                        sample("initrd-systemd252-ignition-files-badhash.journal"))
        with open(os.path.join(self.root.path, "proc/cmdline")) as file:
            cmdline = file.read()
        secrets = (b"$notarealhash$", b"TOPSECRET-TOKEN")
        for redact, seen in (("off", True), ("on", False)):
            self.root.write("proc/cmdline", cmdline.replace("redact=off", "redact=" + redact))
            self.server.requests.clear()
            requests, result = self.run_failed()
            for secret in secrets:
                self.assertEqual(secret in requests["/journal"].text(), seen, (redact, secret))
            self.assertEqual("secrets masked" in result.stderr, not seen)
            if not seen:
                self.assertFalse(any(secret in requests["/status"].body for secret in secrets))

    def test_formats(self):
        url = self.server.url("/f?format=")
        for name, kind, start in (("json", "application/x-ndjson", b'{"'), ("short", "text/plain; charset=utf-8", b"["),
                                  ("raw", "application/x-tar", b"system.journal\0")):
            with self.subTest(name):
                self.root.write("proc/cmdline", f"rd.report.journal={url}{name} rd.report.ca=/ca.pem rd.report.journal.redact=off")
                self.server.requests.clear()
                requests, _ = self.run_failed()
                self.assertEqual(requests["/f"].headers["content-type"], kind)
                self.assertTrue(requests["/f"].text().startswith(start), requests["/f"].text()[:40])
        self.root.write("proc/cmdline", f"rd.report.journal={url}raw rd.report.ca=/ca.pem")
        result = self.root.run("failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("rd.report.journal.redact=off", result.stderr)

    def test_every_recorded_boot(self):
        for name in sorted(os.listdir(FIXTURES)):
            name, is_journal, _ = name.partition(".journal.zst")
            if not is_journal:
                continue
            with self.subTest(name):
                self.root.write(f"run/log/journal/{MACHINE}/system.journal", sample(name + ".journal"))
                self.server.requests.clear()
                requests, _ = self.run_failed()
                self.assertEqual(requests["/journal"].text(), self.recorded(name))

    def recorded(self, name):
        """What the recording's own journalctl printed, which was of systemd 254 or later only for some of them."""
        text = sample(name + ".export")
        return text if b"\n__SEQNUM=" in text else self.with_newer(text)

    def with_newer(self, text):
        # The numbers are in the cursor too: s=ID;i=NUMBER in hexadecimal.
        def add(match):
            return match[0] + b"__SEQNUM=%d\n__SEQNUM_ID=%s\n" % (int(match[2], 16), match[1])

        return re.sub(rb"^__CURSOR=s=([0-9a-f]+);i=([0-9a-f]+);.*\n__REALTIME.*\n__MONOTONIC.*\n", add, text, flags=re.M)


class Nginx(unittest.TestCase):
    """A server that was not written here, with an RSA certificate."""

    def test_both_arrive(self):
        folder = tempfile.mkdtemp(prefix="rdreport-nginx-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        conf = os.path.join(folder, "nginx.conf")
        with open(conf, "w") as file:
            file.write(f"""
                daemon off; master_process off; error_log {folder}/error.log; pid {folder}/pid; user root;
                events {{}}
                http {{
                    log_format all '$request_method $request_uri $status $http_content_encoding $content_type $ssl_protocol';
                    access_log {folder}/access.log all;
                    client_body_temp_path {folder}/bodies; client_body_in_file_only on; client_max_body_size 10m;
                    proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
                    scgi_temp_path {folder}/s;
                    server {{
                        listen 127.0.0.1:{port} ssl;
                        ssl_certificate {Pki.file('rsa.pem')}; ssl_certificate_key {Pki.file('rsa.key')};
                        location = /ok {{ return 204; }}
                        location / {{ proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length "";
                                      rewrite ^ /ok break; proxy_pass https://127.0.0.1:{port}; }}
                    }}
                }}""")
        nginx = subprocess.Popen(["nginx", "-p", folder, "-c", conf], stderr=subprocess.DEVNULL)
        self.addCleanup(nginx.wait)
        self.addCleanup(nginx.terminate)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        root = Root(f"rd.report.url=https://localhost:{port}/status rd.report.journal=https://localhost:{port}/journal "
                    "rd.report.ca=/ca.pem")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("rsaca.pem"))
        result = root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(folder, "access.log")) as file:
            lines = [line.split() for line in file if "/ok" not in line]
        self.assertEqual(sorted(line[:5] for line in lines), [
            ["POST", "/journal", "204", "gzip", "application/vnd.fdo.journal"],
            ["POST", "/status", "204", "-", "application/json"],
        ])
        bodies = []
        for entry in os.scandir(os.path.join(folder, "bodies")):
            if entry.is_file():
                with open(entry.path, "rb") as file:
                    bodies.append(file.read())
        journals = [gzip.decompress(body) for body in bodies if body.startswith(b"\x1f\x8b")]
        self.assertEqual([journal.count(b"\n\n") > 400 for journal in journals], [True])


if __name__ == "__main__":
    unittest.main()
