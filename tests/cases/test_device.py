"""A journal sink that is a device: what kola reads from a virtio port."""
import json
import os
import pty
import subprocess
import threading
import time
import tty
import unittest

from harness import BINARY, FIXTURES, PATIENCE, Root, sample
from cases.test_journal import export, written

LINE_MAX = 64768


class Device(unittest.TestCase):
    def root(self, settings="", journal="initrd-systemd252-ignition-fetch-404"):
        root = Root(f"rd.report.journal=file:/dev/port {settings}", journal=journal)
        self.addCleanup(root.remove)
        root.write("dev/port", "")
        return root

    def content(self, root):
        with open(os.path.join(root.path, "dev/port"), "rb") as file:
            return file.read()

    def test_lines_of_json_and_an_end(self):
        root = self.root()
        result = root.run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"file:/dev/port: delivered \(\d+ bytes, \d+ entries")
        lines = self.content(root).splitlines()
        self.assertEqual(lines[-1], b"{}")
        entries = [json.loads(line) for line in lines[:-1]]
        self.assertTrue(any("Ignition failed" in str(entry.get("MESSAGE")) for entry in entries))
        self.assertNotIn({}, entries)
        self.assertIn("write the journal to /dev/port: JSON", root.run("failed", "--dry-run").stdout)

    def test_no_line_is_longer_than_its_reader_takes(self):
        root = self.root(journal=None)
        folder = os.path.join(FIXTURES, "layouts")
        name = sorted(n for n in os.listdir(folder) if n.endswith(".journal.zst"))[0]
        root.write("run/log/journal/m/system.journal", sample("layouts/" + name[:-4]))
        self.assertEqual(root.run("failed").returncode, 0)
        lines = self.content(root).splitlines()
        self.assertLess(max(map(len, lines)), LINE_MAX)
        # The long field is there, as far as it fits.
        self.assertNotIn(b":null", b"".join(lines))
        self.assertIn(b" [cut by rdreport: 8192 of ", b"".join(lines))
        whole = root.run("journal", "--format", "json").stdout.splitlines()
        self.assertGreater(max(map(len, whole)), LINE_MAX)
        self.assertEqual(len(lines), len(whole) + 1)

    def lines(self, *entries):
        """What is written of a real journal with these entries: names and values."""
        root = self.root(journal=None)
        for name, content in written(export(entries)).items():
            root.write(f"run/log/journal/m/{name}", content)
        self.assertEqual(root.run("failed").returncode, 0)
        lines = self.content(root).splitlines()
        self.assertLess(max(map(len, lines)), LINE_MAX)
        self.assertEqual(lines[-1], b"{}")
        return [json.loads(line) for line in lines[:-1]]

    def test_a_long_message_is_cut_and_not_lost(self):
        for character in ("x", "\u00e4", "\u20ac", '"', "\U0001f600"):
            with self.subTest(character):
                for before in ("", "x", "xx"):
                    text = before + character * 9000
                    entry, = self.lines([(b"MESSAGE", text.encode()), (b"PRIORITY", b"3"), (b"LONG", b"y" * 70000)])
                    start, cut, _ = entry["MESSAGE"].partition(" [cut by rdreport: ")
                    self.assertTrue(cut and text.startswith(start))
                    self.assertIn(len(start.encode()), range(8192, 8196))
                    self.assertEqual(entry["PRIORITY"], "3")

    def test_a_long_binary_message_is_cut(self):
        entry, = self.lines([(b"MESSAGE", b"\xff\x01" * 9000)])
        self.assertEqual(entry["MESSAGE"], [255, 1] * 1024)

    def test_of_many_fields_the_least_important_are_left_out(self):
        fields = [(b"A_FIELD_%d" % number, b"%d" % number + b"v" * 40) for number in range(1015)]
        entry, = self.lines([*fields, (b"SYSLOG_IDENTIFIER", b"tool"), (b"MESSAGE", b"said"), (b"PRIORITY", b"2"),
                             (b"_SYSTEMD_UNIT", b"a.service"), (b"TWICE", b"1"), (b"TWICE", b"2")])
        self.assertEqual((entry["MESSAGE"], entry["PRIORITY"], entry["_SYSTEMD_UNIT"], entry["SYSLOG_IDENTIFIER"]),
                         ("said", "2", "a.service", "tool"))
        for name in ("__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "__CURSOR", "_BOOT_ID"):
            self.assertIn(name, entry)
        kept = sum(name.startswith("A_FIELD_") for name in entry)
        self.assertGreater(kept, 300)
        self.assertEqual(int(entry["RDREPORT_FIELDS_LEFT_OUT"]), 1016 - kept - ("TWICE" in entry))
        # Small ones fit all.
        entry, = self.lines([*((b"F%d" % number, b"v") for number in range(1019)), (b"MESSAGE", b"said")])
        self.assertEqual((entry["MESSAGE"], entry["F1018"], entry.get("RDREPORT_FIELDS_LEFT_OUT")), ("said", "v", None))

    def test_a_host_name_leads_to_no_other_file(self):
        # DHCP sets it.
        for name in ("../../etc/x", "../x", "..", "", "port/../../etc/x"):
            with self.subTest(name):
                root = Root("rd.report.journal=file:/dev/vp/${hostname}")
                self.addCleanup(root.remove)
                root.write("proc/sys/kernel/hostname", name + "\n")
                for path in ("etc/x", "dev/x", "dev/vp/_"):
                    root.write(path, "")
                root.run("failed")
                for path in ("etc/x", "dev/x"):
                    self.assertEqual(os.path.getsize(os.path.join(root.path, path)), 0)

    def test_what_is_not_there_is_said(self):
        root = self.root()
        os.remove(os.path.join(root.path, "dev/port"))
        result = root.run("failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not delivered: the output was refused: no such file", result.stderr)

    def test_one_that_another_process_has_is_waited_for(self):
        root = self.root()
        trace = root.write("trace", "")
        # A virtio port, as long as `rdreport follow` writes to it.
        result = subprocess.run(["strace", "-f", "-o", trace, "-P", "port", "-e", "inject=openat2,openat:error=EBUSY:when=1..3",
                                 BINARY, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(trace) as file:
            self.assertEqual(file.read().count("EBUSY"), 3)
        self.assertTrue(self.content(root).endswith(b"\n{}\n"))

    def terminal(self, root):
        """A character device in place of the port, and its other end."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        tty.setraw(slave)
        inside = 'mount --bind "$1" "$2/dev/port" && exec "$3" --root "$2" failed'
        process = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-ec", inside, "sh",
                                    os.ttyname(slave), root.path, BINARY], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        return process, master

    def test_a_character_device(self):
        process, master = self.terminal(self.root())
        content = bytearray()

        def read():
            while not content.endswith(b"\n{}\n"):
                content.extend(os.read(master, 65536))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self.assertEqual(process.wait(PATIENCE), 0)
        reader.join(PATIENCE)
        self.assertTrue(content.endswith(b"\n{}\n"))

    def test_one_that_takes_nothing_is_given_up(self):
        process, _ = self.terminal(self.root("rd.report.timeout=3"))
        began = time.monotonic()
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 1)
        self.assertLess(time.monotonic() - began, 10)
        self.assertIn("file:/dev/port: not delivered", said)


if __name__ == "__main__":
    unittest.main()
