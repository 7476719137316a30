"""The binary as a file, its arguments, `check`, and input that is wrong: one clear line each, and the rest still runs."""
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

from harness import BINARY, HERE, MACHINE, Pki, Root, Server


class File(unittest.TestCase):
    def readelf(self, *args):
        return subprocess.run(["readelf", "-W", *args, BINARY], check=True, stdout=subprocess.PIPE, text=True).stdout

    def test_it_is_static(self):
        segments = self.readelf("-l")
        self.assertNotIn("INTERP", segments)
        self.assertNotIn("DYNAMIC", segments)
        self.assertIn("no dynamic section", self.readelf("-d"))
        self.assertIn("EXEC", self.readelf("-h"))
        self.assertNotRegex(segments, r"LOAD.* RWE ")
        self.assertRegex(segments, r"GNU_STACK.* RW ")

    def test_it_is_stripped_and_names_no_path(self):
        self.assertNotIn(".symtab", self.readelf("-S"))
        self.assertNotIn(".eh_frame", self.readelf("-S"))
        with open(BINARY, "rb") as file:
            content = file.read()
        for word in (os.path.dirname(HERE).encode(), b"/.cargo/", b"/rustc/", b"GLIBC"):
            self.assertFalse(word in content, word)


class Arguments(unittest.TestCase):
    def run_plain(self, *args):
        return subprocess.run([BINARY, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)

    def test_help_names_every_setting_of_the_readme(self):
        result = self.run_plain("--help")
        self.assertEqual(result.returncode, 0)
        with open(os.path.join(HERE, "..", "docs/settings.md")) as file:
            readme = re.findall(r"^\| `([a-z0-9.]+)` \| (?:`([^`]*)`)? ?\| ([^|]*) \| (.*) \|$", file.read(), re.M)
        told = re.findall(r"^  rd\.report\.([a-z0-9.]+)=?(.*)\n      (.*) \[(.*)\]$", result.stdout, re.M)
        self.assertGreater(len(told), 20)
        rows = [(key, value.replace("\\", "").strip(), default.strip(), text.strip())
                for key, value, default, text in readme]
        self.assertEqual(rows, [(key, value, default, text) for key, value, text, default in told])
        self.assertNotIn("not in this build", result.stdout)

    def test_the_help_keeps_its_columns(self):
        verbs = self.run_plain("--help").stdout.split("usage:")[1].split("exit status:")[0].splitlines()[1:]
        for line in filter(None, verbs):
            self.assertRegex(line, r"^ {2,}\S")

    def test_version(self):
        self.assertRegex(self.run_plain("--version").stdout, r"^rdreport \d+\.\d+\.\d+\n$")

    def test_wrong_usage(self):
        for args in ((), ("nonsense",), ("--root",), ("--root", "/nowhere", "check"), ("journal", "--format", "xml"),
                     ("journal", "--stage", "x"), ("check", "again"), ("--stagg", "x", "journal")):
            with self.subTest(args):
                result = self.run_plain(*args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_a_report_is_sent_whatever_its_arguments(self):
        """A hook passes what it has: bytes that are not UTF-8, codes that are not numbers, options of another version."""
        server = Server()
        self.addCleanup(server.close)
        root = Root(f"rd.report.url={server.url('/x')}", journal=None)
        self.addCleanup(root.remove)
        for state in ("failed", "stuck"):
            for args, expected, note in (
                    (["--message", b"caf\xe9"], {"message": "caf\ufffd"}, None),
                    (["--stage", b"\xff\xfe"], {"stage": "\ufffd\ufffd"}, None),
                    (["--message", "x" * 60_000], {"message": "x" * 60_000}, None),
                    (["--message", ""], {"message": ""}, None),
                    (["--code", "abc", "--stage", "disks"], {"code": None, "stage": "disks"}, "--code: not a valid value"),
                    (["--code", "-1"], {"code": None}, "--code: not a valid value"),
                    (["--code=99999999999999999999"], {"code": None}, "--code: not a valid value"),
                    (["--code", ""], {"code": None}, "--code: not a valid value"),
                    (["--code"], {"code": None}, "--code: needs a value"),
                    (["--stage"], {"stage": None}, "--stage: needs a value"),
                    (["--new-option", "--stage", "disks"], {"stage": "disks"}, "--new-option: unknown argument"),
                    (["some", "words"], {}, "words: unknown argument"),
                    (["--stage", "a", "--stage", "b"], {"stage": "b"}, None)):
                with self.subTest(state=state, args=args):
                    result = root.run(state, *args)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    body = json.loads(server.requests.pop().body)
                    self.assertEqual({key: body[key] for key in expected}, expected)
                    if note:
                        self.assertIn(f"rdreport: {note}; left out", result.stderr)
                        self.assertIn(f"{note}; left out", body["warnings"])
                    else:
                        self.assertEqual(body["warnings"], [])

    def test_a_dry_run_with_a_value_sends_nothing(self):
        server = Server()
        self.addCleanup(server.close)
        root = Root(f"rd.report.url={server.url('/x')}", journal=None)
        self.addCleanup(root.remove)
        self.assertIn("POST the status", root.run("failed", "--dry-run=1").stdout)
        self.assertEqual(server.connections, 0)

    def test_a_closed_standard_output_does_not_kill(self):
        root = Root("")
        self.addCleanup(root.remove)
        script = f"{BINARY} --root {root.path} journal; echo $? >&2"
        result = subprocess.run(["bash", "-c", f"({script}) | head -c 10"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=30)
        self.assertEqual((result.stdout, result.stderr), ("__CURSOR=s", "0\n"))

    def test_closed_descriptors_are_not_taken_for_sockets(self):
        server = Server()
        self.addCleanup(server.close)
        root = Root(f"rd.report.url={server.url('/x')} rd.report.nonsense=1")
        self.addCleanup(root.remove)
        subprocess.run(["bash", "-c", f"exec {BINARY} --root {root.path} failed <&- >&- 2>&-"], timeout=30, check=True)
        self.assertEqual(len(server.requests), 1)
        self.assertTrue(server.requests[0].body.startswith(b'{"schema":1'))


class WrongInput(unittest.TestCase):
    def failed(self, cmdline, lines, code, journal="initrd-systemd252-fakeignition", prepare=None):
        """Reports with this command line; expects these lines, in which `...` is anything."""
        root = Root(cmdline, journal)
        self.addCleanup(root.remove)
        if prepare:
            prepare(root)
        result = root.run("failed")
        said = result.stderr.splitlines()
        for line in lines:
            pattern = ".*".join(re.escape(part) for part in line.split("..."))
            self.assertTrue(any(re.fullmatch(pattern, one) for one in said), f"{line!r} is not in {result.stderr}")
        self.assertEqual(len(said), len(lines), result.stderr)
        self.assertEqual(result.returncode, code, result.stderr)

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.good = f"rd.report.url={self.server.url('/ok')}"
        self.delivered = f"rdreport: {self.good}: delivered (200, ..."

    def test_no_command_line(self):
        self.failed(None, ["rdreport: /proc/cmdline: no such file; the settings are unknown, so nothing was sent"], 1)

    def test_a_command_line_that_cannot_be_opened(self):
        """No descriptor is left for it: what was to be sent is unknown, which is not the same as nothing."""
        for verb in ("failed", "succeeded", "running", "stuck", "follow"):
            with self.subTest(verb):
                root = Root(self.good, journal=None)
                self.addCleanup(root.remove)
                result = root.run(verb, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, "/proc/cmdline: .*; the settings are unknown, so nothing was sent")
        self.assertEqual(self.server.connections, 0)

    def test_no_settings(self):
        for line in ("", "quiet", "\n"):
            self.failed(line, ["rdreport: nothing to report to: neither rd.report.url= nor rd.report.journal= ..."], 0)

    def test_what_is_no_url(self):
        self.failed(f"rd.report.url=nonsense rd.report.journal=https:///x {self.good}", [
            "rdreport: rd.report.url=nonsense is not a URL that begins with http:// or https://",
            "rdreport: rd.report.journal=https:///x has no valid host",
            self.delivered,
        ], 1)

    def test_a_ca_file_that_is_missing_or_holds_nothing(self):
        def prepare(root):
            root.write("empty.pem", "")
            root.write("text.pem", "no certificate\n")
            root.write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            root.write("folder/x", "")

        names = ("missing", "empty", "text", "broken", "folder")
        said = ("no such file", "holds no certificate in PEM", "holds no certificate in PEM", "its certificate cannot be read", "not a file")
        paths = [f"/{n}" if n == "folder" else f"/{n}.pem" for n in names]
        self.failed(self.good + "".join(f" rd.report.ca={path}" for path in paths),
                    [f"rdreport: rd.report.ca={path}: {why}; it is not trusted" for path, why in zip(paths, said)]
                    + [self.delivered], 0, prepare=prepare)

    def journal_line(self, why):
        url = self.server.url("/journal")
        return f"{self.good} rd.report.journal={url}", [f"rdreport: journal: {why}", self.delivered,
                                                        f"rdreport: rd.report.journal={url}: not delivered: {why}"]

    def test_no_journal(self):
        cmdline, lines = self.journal_line("no journal file under /run/log/journal or /var/log/journal")
        self.failed(cmdline, lines, 1, journal=None)

    def test_a_folder_or_file_without_permission(self):
        """As a user whom permissions hold back: to root they mean nothing."""
        def as_nobody(root, *paths):
            subprocess.run(["chmod", "-R", "a+rX", root.path], check=True)
            for path in paths:
                os.chmod(os.path.join(root.path, path), 0)
            with tempfile.TemporaryDirectory(prefix="rdreport-bin-") as folder:
                os.chmod(folder, 0o755)
                binary = shutil.copy(BINARY, folder)
                return subprocess.run([binary, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True,
                                      timeout=60, user=65534, group=65534, extra_groups=[])

        url = self.server.url("/journal")
        for path in ("run/log/journal", f"run/log/journal/{MACHINE}", f"run/log/journal/{MACHINE}/system.journal"):
            root = Root(f"{self.good} rd.report.journal={url} rd.report.ca=/closed/ca.pem")
            self.addCleanup(root.remove)
            root.write("closed/ca.pem", "")
            result = as_nobody(root, path, "closed")
            lines = result.stderr.splitlines()
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("rdreport: rd.report.ca=/closed/ca.pem: permission denied; it is not trusted", lines)
            self.assertTrue(any(line.startswith("rdreport: journal: ") and "permission denied" in line
                                for line in lines), result.stderr)
            self.assertNotIn("in time", result.stderr)
            self.assertTrue(any(line.startswith(f"{self.delivered[:-3]}") for line in lines), result.stderr)
            self.assertTrue(any(line.startswith(f"rdreport: rd.report.journal={url}: not delivered: ")
                                and "permission denied" in line for line in lines), result.stderr)
        root = Root(self.good)
        self.addCleanup(root.remove)
        result = as_nobody(root, "proc/cmdline")
        self.assertEqual(result.stderr, "rdreport: /proc/cmdline: permission denied; the settings are unknown, so "
                                        "nothing was sent\n")
        self.assertEqual(result.returncode, 1)

    def test_settings_that_are_wrong_cost_themselves_alone(self):
        self.failed(f"rd.report.timeout=soon rd.report.jurnal=x rd.report.on=sometimes {self.good}", [
            "rdreport: rd.report.timeout: 'soon' is not a time of at most a day, ...; the default holds: ...",
            "rdreport: rd.report.jurnal: no such setting; is rd.report.journal meant?",
            "rdreport: rd.report.on: 'sometimes' is not known; ...; the default holds: ...",
            self.delivered,
        ], 0)
        warnings = self.server.requests[0].body
        self.assertIn(b'"rd.report.jurnal: no such setting; is rd.report.journal meant?"', warnings)

    def test_what_is_wrong_with_settings_is_on_the_console(self):
        root = Root(f"rd.report.tiemout=1 rd.report.stuck=on {self.good}", None)
        self.addCleanup(root.remove)
        root.write("dev/kmsg", "")
        root.write("dev/console", "")
        self.assertEqual(root.run("failed").returncode, 0)
        said = ("rdreport: rd.report.tiemout: no such setting; is rd.report.timeout meant?\n",
                "rdreport: rd.report.stuck: 'on' is not a time")
        for path in ("dev/kmsg", "dev/console"):
            with open(os.path.join(root.path, path)) as file:
                text = file.read()
            for line in said:
                self.assertEqual(text.count(line), 1, path)

    def test_words_of_the_image_stand_before_those_of_the_kernel(self):
        url = self.server.url
        root = Root(f"rd.report.timeout=7 rd.report.url={url('/kernel')}", None)
        self.addCleanup(root.remove)
        root.write("etc/cmdline.d/20-b.conf", f"rd.report.url={url('/b')} rd.report.timeout=2\n")
        root.write("etc/cmdline.d/10-a.conf", f"rd.neednet=1\nrd.report.url={url('/a')} rd.report.stuck=\"30\n")
        root.write("etc/cmdline.d/ignored", f"rd.report.url={url('/ignored')}\n")
        root.write("etc/cmdline", "rd.report.timeout=3 rd.report.stuck=40\n")
        said = root.run("check").stdout
        self.assertIn("".join(f"  rd.report.url = {url(path)}\n" for path in ("/a", "/b", "/kernel")), said)
        self.assertIn("  rd.report.timeout = 7\n  rd.report.stuck = 40\n", said)
        self.assertEqual(root.run("failed").returncode, 0)
        self.assertEqual(sorted(request.target for request in self.server.requests), ["/a", "/b", "/kernel"])
        root.write("etc/cmdline.d/30-c.conf", "x" * 5000)
        self.assertIn("hold more than 4096 bytes", root.run("check").stdout)

    def test_states_that_are_not_reported(self):
        root = Root(f"{self.good} rd.report.on=failed")
        self.addCleanup(root.remove)
        result = root.run("succeeded")
        self.assertEqual((result.returncode, self.server.requests), (0, []))
        self.assertIn("rd.report.on=", result.stderr)


class Check(unittest.TestCase):
    def check(self, cmdline, *args, stdin=None):
        root = Root(cmdline, journal=None)
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        return root.run("check", *args, stdin=stdin)

    LINE = ("quiet rd.report.url=https://u:PW@h.example/s?t=SECRET rd.report.journal=http://[::1]:8080/j?gzip=9 "
            "rd.report.journal=put+https://s3.example/k?X-Sig=SECRET rd.report.ca=/ca.pem rd.report.header='X-T: SECRET' "
            "rd.report.on=all")

    def test_it_says_what_goes_where(self):
        for args, cmdline, stdin in (((), self.LINE, None), (("-",), None, self.LINE)):
            result = self.check(cmdline, *args, stdin=stdin)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            self.assertNotIn("rd.report.timeout", result.stdout)
            for said in ("report:\n  rd.report.url = https://***@h.example/s?***\n  rd.report.on = all\n  rd.report.header = ***\n"
                         "journal:\n  rd.report.journal = http://[::1]:8080/j?***\n", "\nnot set: ",
                         "POST the status to https://***@h.example/s?***: JSON, TLS",
                         "POST the journal to http://[::1]:8080/j: export format, gzip level 9, chunked, without TLS",
                         "PUT the journal to https://s3.example/k?***: export format, gzip level 6, with its length, TLS",
                         "and 1 of rd.report.ca="):
                self.assertIn(said, result.stdout)
            self.assertNotIn("SECRET", result.stdout + result.stderr)
            self.assertNotIn("PW", result.stdout + result.stderr)

    def test_what_is_refused_stands_beside_what_holds(self):
        result = self.check("rd.report.timeout=5m rd.report.timeout=soon rd.report.stuck=on rd.reprot.url=http://h/ "
                            "rd.report.journal=http://h/j?host= rd.report.url=http://h//x")
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        for said in ("problems:\n  ! rd.reprot.url: has no effect; is rd.report.url meant?\nreport:\n",
                     "  rd.report.timeout = 5m\n    ! rd.report.timeout: 'soon' is not a time of at most a day, such as 90, 90s, "
                     "5min or 1h; what holds is 5m\n",
                     "  rd.report.stuck = 0 (off) (the default)\n    ! rd.report.stuck: 'on' is not a time",
                     "  rd.report.url = http://h//x\n    ! rd.report.url=http://h//x: a part of its path is empty",
                     "  rd.report.journal = http://h/j?***\n    ! rd.report.journal=http://h/j?***: a name in its query has no value"):
            self.assertIn(said, result.stdout)

    def test_it_says_what_is_wrong(self):
        result = self.check("rd.report.url=ftp://h/ rd.report.colour=red rd.report.ssh=core")
        self.assertEqual(result.returncode, 1)
        for said in ("rd.report.url=ftp://h/ is not a URL", "rd.report.colour: no such setting",
                     "rd.report.ssh: no key", "rd.report.ssh: nothing to log in by is here"):
            self.assertIn(f"! {said}", result.stdout)
        self.assertEqual(result.stderr, "")

    def test_settings_of_later_versions_are_known(self):
        with open(os.path.join(HERE, "..", "docs/settings.md")) as file:
            table = file.read().split("## Variables")[0]
        keys = re.findall(r"^\| `([a-z0-9.]+)` \|", table, re.M)
        self.assertGreater(len(keys), 20)
        result = self.check(" ".join(f"rd.report.{key}=1" for key in keys))
        self.assertNotIn("no such setting", result.stdout)

    def test_a_dry_run_sends_nothing(self):
        server = Server()
        self.addCleanup(server.close)
        root = Root(f"rd.report.url={server.url('/s')}")
        self.addCleanup(root.remove)
        result = root.run("failed", "--dry-run")
        self.assertEqual(result.returncode, 0)
        self.assertIn(f"POST the status to {server.url('/s')}", result.stdout)
        self.assertEqual(server.connections, 0)


if __name__ == "__main__":
    unittest.main()
