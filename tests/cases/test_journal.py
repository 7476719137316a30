"""`rdreport journal` against journalctl: every format, every layout, several files, and broken ones."""

import gzip
import io
import json
import os
import pathlib
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz"))
import seeds

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
RDREPORT = os.environ.get("RDREPORT", "target/release/rdreport")
MACHINE = "run/log/journal/8e40128e62394571a74cba500e0d4b0a"
SYSTEM = [p.name.removesuffix(".journal.zst") for p in sorted(FIXTURES.glob("*.journal.zst"))]
LAYOUTS = [p.name.removesuffix(".journal.zst") for p in sorted((FIXTURES / "layouts").glob("*.journal.zst"))]
REMOTE = "/lib/systemd/systemd-journal-remote"


def unpacked(name):
    return subprocess.run(["zstd", "-dcq", FIXTURES / f"{name}.zst"], stdout=subprocess.PIPE, check=True).stdout


def has_xz():
    """Whether the program reads XZ: a feature that is off by default."""
    with Root({"a.journal": unpacked("layouts/xz.journal")}) as root:
        return b"compression is not built in" not in root.journal()


class Root:
    """A root folder with journal files, and what of it is printed."""

    def __init__(self, files, cmdline="rd.report.journal.redact=off"):
        self.path = tempfile.mkdtemp(prefix="rdreport-test-")
        os.makedirs(f"{self.path}/{MACHINE}")
        os.makedirs(f"{self.path}/proc")
        pathlib.Path(f"{self.path}/proc/cmdline").write_text(cmdline)
        for name, content in files.items():
            pathlib.Path(f"{self.path}/{MACHINE}/{name}").write_bytes(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def run(self, *options, timeout=60):
        command = [RDREPORT, "--root", self.path, "journal", *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)

    def journal(self, *options):
        done = self.run(*options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def journalctl(self, *options):
        command = ["journalctl", "--no-pager", "--directory", f"{self.path}/{MACHINE}", *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout


def without(text, *starts):
    return b"\n".join(line for line in text.split(b"\n") if not line.startswith(starts))


def entries(text):
    """Objects of a JSON stream as sorted pairs; __SEQNUM and __SEQNUM_ID, which journalctl before 254 does not print, left out."""
    found = []
    for line in text.splitlines():
        pairs = json.loads(line, object_pairs_hook=list)
        assert len({name for name, _ in pairs}) == len(pairs), line[:200]
        found.append(sorted(pair for pair in pairs if pair[0] not in ("__SEQNUM", "__SEQNUM_ID")))
    return found


def export(entries):
    """Text in the export format from dictionaries' items."""
    out = b""
    for number, fields in enumerate(entries, 1):
        out += b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n" % (1796000041196128 + number, 13523456 + number)
        out += b"_BOOT_ID=cc2a2fae552745a68ac61cc401f811a8\n"
        for name, value in fields:
            out += name + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
        out += b"\n"
    return out


def written(text, *options, **environment):
    """The journal files that systemd-journal-remote makes of an export: names and contents."""
    with tempfile.TemporaryDirectory(prefix="rdreport-test-") as folder:
        command = [REMOTE, f"--output={folder}/o.journal", "--split-mode=none", *options, "-"]
        subprocess.run(command, input=text, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=os.environ | environment)
        return {name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}


class Formats(unittest.TestCase):
    def assert_like_journalctl(self, files, what):
        with Root(files) as root:
            seqnums = (b"__SEQNUM=", b"__SEQNUM_ID=")
            self.assertTrue(
                without(root.journal(), *seqnums) == without(root.journalctl("-o", "export"), *seqnums), f"{what}: export")
            self.assertTrue(
                entries(root.journal("--format", "json")) == entries(root.journalctl("-o", "json", "--all")), f"{what}: json")
            self.assertTrue(
                root.journal("--format", "short") == root.journalctl("-o", "short-monotonic"), f"{what}: short")

    def test_real_journals(self):
        for name in SYSTEM:
            self.assert_like_journalctl({"system.journal": unpacked(f"{name}.journal")}, name)

    def test_layouts(self):
        for name in LAYOUTS:
            if not name.startswith("xz") or has_xz():
                self.assert_like_journalctl({"system.journal": unpacked(f"layouts/{name}.journal")}, name)

    def test_odd_values(self):
        text = export([
            [(b"MESSAGE", b"every byte")] + [(b"BYTE_%02X" % byte, bytes([byte])) for byte in range(256)],
            [(b"MESSAGE", b"all bytes"), (b"ALL", bytes(range(256)) * 300), (b"EMPTY", b""), (b"TWICE", b"1"), (b"TWICE", b"\xff")],
            [(b"MESSAGE", b"many")] + [(b"FIELD_%d" % i, b"value") for i in range(1000)],
            [(b"MESSAGE", "größer\tals €\n\n  zwei\n".encode())],
            [(b"MESSAGE", b""), (b"SYSLOG_IDENTIFIER", b"x\ny"), (b"_COMM", b"comm"), (b"SYSLOG_PID", b"7")],
            [(b"MESSAGE", b"\x01" * 2000), (b"_HOSTNAME", b"host"), (b"_PID", b"1"), (b"_SOURCE_MONOTONIC_TIMESTAMP", b"1234567890123")],
            [(b"NO_MESSAGE", b"1")],
            [(b"MESSAGE", b"large"), (b"LARGE", b"\xc3\xa4" * (1 << 20))],
        ])
        flags = set()
        for number in range(8):
            compress, compact, keyed = "yes" if number & 1 else "no", str(number >> 1 & 1), str(number >> 2)
            files = written(text, f"--compress={compress}", SYSTEMD_JOURNAL_COMPACT=compact, SYSTEMD_JOURNAL_KEYED_HASH=keyed)
            flags.update(content[12] & 0x14 for content in files.values())
            self.assert_like_journalctl(files, f"compress={compress} compact={compact} keyed={keyed}")
        # This systemd knows both.
        self.assertEqual(flags, {0, 4, 0x10, 0x14})

    def test_escape_sequences_and_control_characters(self):
        messages = [
            b"\x1b[0;32mgreen\x1b[0m done", b"a\tb\x1b[1mc", b"\x1b]8;;http://h/\x07link\x1b]8;;\x07 x", b"\x1b[31", b"\x1b[2Kclear",
            b"\x1b", b"x\x1b", b"\x1b[", b"\x1b]", b"\x1b(B\x1b[mx", b"\x7f", b"bell\x07", b"\x1b]0;t\x1b\\x", b"\x1b[1m", b"\x01\ta",
            b"\x1b[1m\ttab\x01", b"\x1b[\x1b[1mx", b"\x1b\tx", b"\x1b]ab\x1b[1mz", b"\x1b]\xc3\xa4\x07q", b"cr\r\nlf", b"cr\rmid",
            b"end\r", b"end\r\n", b"\r\r\nx", b"a\r\x1b[0m\nb", b"a\x1b[0m\r\nb", b"\x1b[1m\r\n\x1b[0m", b"   \x1b[1m  ",
            b"x\n\n\x1b[1m\n", b"\x1b[1m\n\nx", "\x1b[1mgr\u00f6\u00dfer\nzwei\x1b[m\n".encode(), b"a\xc3\x1b[0m\xb6", b"\x1b[0m\xff",
            b"\x1b[32m" + b"a" * 70000 + b"\x1b[0m", b"\x1b[" + b"1;" * 40000 + b"mX", b"\x1b[" + b"1;" * 40000 + b"X",
        ]
        text = export([[(b"SYSLOG_IDENTIFIER", b"number%d" % number), (b"MESSAGE", m)] for number, m in enumerate(messages)])
        files = written(text)
        with Root(files) as root:
            lines = root.journal("--format", "short")
            self.assertEqual(lines, root.journalctl("-o", "short-monotonic"))
        self.assertNotRegex(lines, rb"[\x00-\x09\x0b-\x1f\x7f]")
        self.assert_like_journalctl(files, "escape sequences")
        text = export([[(b"MESSAGE", b"\x1b[1mhttps://u:p@h/?token\x1b[0m $6$salt$hash\x1b[0m")]])
        with Root(written(text), "quiet") as root:
            self.assertTrue(root.journal("--format", "short").endswith(b"unknown: https://***@h/?*** $6$***\n"))

    def test_raw(self):
        files = {"system.journal": unpacked("layouts/zstd.journal"), "user-1000.journal~": unpacked("layouts/none.journal")}
        with Root(files) as root:
            with tarfile.open(fileobj=io.BytesIO(root.journal("--format", "raw"))) as archive:
                found = {os.path.basename(member.name): archive.extractfile(member).read() for member in archive}
        self.assertTrue(found == files)
        with Root(files, "quiet") as root:
            self.assertEqual(gzip.decompress(root.journal("--gzip")), root.journal())
            done = root.run("--format", "raw")
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertIn(b"rd.report.journal.redact=off", done.stderr)

    def test_redacted_by_default(self):
        name = "initrd-systemd252-ignition-files-badhash"
        with Root({"system.journal": unpacked(f"{name}.journal")}, "quiet") as root:
            for format in ("export", "json", "short"):
                text = root.journal("--format", format)
                self.assertNotIn(b"TOPSECRET", text)
                self.assertNotIn(b"notarealhash", text)
                self.assertIn(b"***", text)

    def test_every_export_of_the_fixtures_is_taken_by_journal_remote(self):
        for name in SYSTEM:
            with Root({"system.journal": unpacked(f"{name}.journal")}) as root:
                text = root.journal()
                files = written(text)
            with Root(files) as root:
                again = root.journal()
            # journald has put the fields in an order of its own.
            fields = lambda text: [sorted(without(e, b"__CURSOR", b"__SEQNUM").split(b"\n")) for e in text.split(b"\n\n")]
            self.assertTrue(fields(again) == fields(text), name)


class Remote(unittest.TestCase):
    """systemd-journal-remote takes 1024 fields of an entry, and drops the connection at one with more. journald makes more: it adds its own
    to a client's 1023."""

    def entries(self):
        fields = [(0, b"FIELD_%d=%d" % (number, number)) for number in range(1040)]
        said = lambda text: [(0, b"MESSAGE=" + text), (0, b"PRIORITY=3"), (0, b"_SYSTEMD_UNIT=a.service")]
        return [said(b"first"), fields + said(b"large"), fields[:1020] + said(b"whole"), said(b"last")]

    def test_an_entry_of_more_fields_than_it_takes_is_trimmed(self):
        with Root({"system.journal": seeds.journal(self.entries())}) as root:
            text = root.journal()
        files = written(text)
        with Root(files) as root:
            taken = [dict(e) for e in entries(root.journalctl("-o", "json", "--all"))]
        self.assertEqual([e["MESSAGE"] for e in taken], ["first", "large", "whole", "last"])
        self.assertEqual([(e["PRIORITY"], e["_SYSTEMD_UNIT"]) for e in taken], [("3", "a.service")] * 4)
        self.assertEqual([e.get("RDREPORT_FIELDS_LEFT_OUT") for e in taken], [None, "21", "1", None])
        self.assertIn("FIELD_1018", taken[1])

    def test_it_is_delivered_once(self):
        with tempfile.TemporaryDirectory(prefix="rdreport-test-") as folder, Root({"system.journal": seeds.journal(self.entries())}) as root:
            with socket.socket() as port:
                port.bind(("127.0.0.1", 0))
                number = port.getsockname()[1]
            remote = subprocess.Popen([REMOTE, f"--output={folder}/o.journal", "--split-mode=none", f"--listen-http={number}"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                pathlib.Path(f"{root.path}/proc/cmdline").write_text(
                    f"rd.report.journal=journal-remote+http://127.0.0.1:{number} rd.report.platform=none")
                # It listens a while after it was started; until then, the delivery is tried again.
                done = subprocess.run([RDREPORT, "--root", root.path, "failed"], stderr=subprocess.PIPE, timeout=90)
                self.assertEqual(done.returncode, 0, done.stderr)
            finally:
                remote.terminate()
                remote.wait(30)
            shown = subprocess.run(["journalctl", "--no-pager", "--file", f"{folder}/*.journal", "-o", "cat"], stdout=subprocess.PIPE)
            self.assertEqual(shown.stdout.split(), [b"first", b"large", b"whole", b"last"])


class Merge(unittest.TestCase):
    def test_files_are_interleaved_and_doubles_are_given_once(self):
        text = unpacked("layouts/expected.export").split(b"\n\n__CURSOR=")
        rng = random.Random(1)
        halves = [[], []]
        for number, entry in enumerate(text):
            entry = entry.removeprefix(b"__CURSOR=")
            entry = b"__CURSOR=" + entry.rstrip(b"\n") + b"\n\n"
            # Some are in both.
            for half in ([0, 1] if number % 7 == 0 else [rng.randrange(2)]):
                halves[half].append(entry)
        files = {}
        for number, half in enumerate(halves):
            for name, content in written(b"".join(half)).items():
                files[f"{number}-{name}"] = content
        for name in ("initrd-systemd252-fakeignition", "initrd-systemd252-ignition-fetch-404"):
            files[f"{name}.journal"] = unpacked(f"{name}.journal")
        self.assertGreaterEqual(len(files), 4)
        with Root(files) as root:
            ours, theirs = root.journal(), root.journalctl("-o", "export")
        # Of an entry that is in both, either file's address is right.
        addresses = (b"__CURSOR=", b"__SEQNUM=", b"__SEQNUM_ID=")
        self.assertTrue(without(ours, *addresses) == without(theirs, *addresses))

    def test_many_files(self):
        one = unpacked("layouts/none.journal")
        with Root({f"system-{number}.journal": one for number in range(70)}) as root:
            text = root.journal()
        self.assertEqual(text.count(b"__CURSOR="), 60)
        self.assertIn(b"\nMESSAGE=journal: 6 files with older entries left out\n\n", text)


    def test_machines_boots_users_and_places(self):
        places = {
            f"{MACHINE}/system.journal": "initrd-systemd252-fakeignition",
            f"{MACHINE}/system@0006617306fdd11c-b1f5c4ea1b0e0b5e.journal~": "initrd-systemd252-ignition-disks-missing",
            f"{MACHINE}/user-1000.journal": "initrd-systemd252-ignition-fetch-404",
            "run/log/journal/0123456789abcdef0123456789abcdef/system.journal": "layouts/none",
            "var/log/journal/fedcba9876543210fedcba9876543210/system.journal": "initrd-systemd252-ignition-files-badhash",
            "var/log/journal/remote.journal": "initrd-systemd252-ignition-fetchoffline-badhash",
        }
        with Root({}) as root:
            for place, name in places.items():
                path = pathlib.Path(root.path, place)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(unpacked(f"{name}.journal"))
            ours = root.journal()
            command = ["journalctl", "--no-pager", f"--root={root.path}", "--merge", "-o", "export"]
            theirs = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        seqnums = (b"__SEQNUM=", b"__SEQNUM_ID=")
        self.assertTrue(without(ours, *seqnums) == without(theirs, *seqnums))
        # The 60 entries are of the first file's boot, and 24 of them in it.
        self.assertEqual(ours.count(b"__CURSOR="), 527 + 612 + 554 + (60 - 24) + 684 + 534)
        self.assertEqual(len(set(re.findall(rb"^_BOOT_ID=.*", ours, re.M))), 5)

    def test_what_is_appended_meanwhile_is_not_read(self):
        old, new = ([[(b"MESSAGE", b"%s %d" % (when, n)), (b"PAD", b"x" * 300)] for n in range(2000)] for when in (b"old", b"new"))
        with Root({}) as root:
            path = f"{root.path}/{MACHINE}/system.journal"
            remote = subprocess.Popen([REMOTE, f"--output={path}", "--split-mode=none", "-"], stdin=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
            remote.stdin.write(export(old) + export([[(b"MESSAGE", b"between")]]))
            remote.stdin.flush()
            while b"MESSAGE=between\n" not in root.journalctl("-o", "export", "-n", "1"):
                self.assertIsNone(remote.poll())
            command = [RDREPORT, "--root", root.path, "journal"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
                # It has begun, and waits for us: the pipe holds 64 KiB.
                begin = reader.stdout.read(100)
                remote.stdin.write(export(new))
                remote.stdin.close()
                self.assertEqual(remote.wait(), 0)
                text = begin + reader.stdout.read()
            self.assertEqual(reader.wait(), 0)
            self.assertEqual(root.journal().count(b"\nMESSAGE=new "), 2000)
        self.assertEqual([text.count(b"\nMESSAGE=" + kind) for kind in (b"old ", b"between", b"new ")], [2000, 1, 0])
        self.assertNotIn(b"SYSLOG_IDENTIFIER=rdreport", text)

    def test_without_journald_the_kernels_log(self):
        with Root({}) as root:
            os.rmdir(f"{root.path}/{MACHINE}")
            os.makedirs(f"{root.path}/dev")
            pathlib.Path(f"{root.path}/dev/kmsg").write_text(
                "6,0,0,-;Linux version 6.1\n4,1,1500000,-;usb 1-1: new\n SUBSYSTEM=usb\n DEVICE=+usb:1-1\n30,2,2500000,-;systemd[1]: up\n")
            self.assertEqual(root.journal("--format", "short"),
                b"[    0.000000] kernel: Linux version 6.1\n[    1.500000] kernel: usb 1-1: new\n[    2.500000] systemd[1]: up\n")
            entry = root.journal().split(b"\n\n")[1].split(b"\n")
            for line in (b"PRIORITY=4", b"SYSLOG_FACILITY=0", b"_KERNEL_SUBSYSTEM=usb", b"_KERNEL_DEVICE=+usb:1-1",
                         b"__MONOTONIC_TIMESTAMP=1500000", b"MESSAGE=usb 1-1: new"):
                self.assertIn(line, entry)


class Bounded(unittest.TestCase):
    """Whatever a file holds, memory stays what it is."""

    # Kilobytes of the whole process, code included. What a build without link-time optimisation has more of that is not counted.
    RSS_MAX = 1536

    @classmethod
    def setUpClass(cls):
        cls.RSS_MAX += max(0, (os.path.getsize(RDREPORT) >> 10) - 750)

    def read(self, content, size, *options, cmdline="rd.report.journal.redact=off"):
        """What is printed of a file, at least `size` bytes. The memory is looked at behind most of it, when it waits for us."""
        with Root({"system.journal": content}, cmdline) as root:
            process = subprocess.Popen([RDREPORT, "--root", root.path, "journal", *options], stdout=subprocess.PIPE)
            text = process.stdout.read(size * 3 // 4)
            with open(f"/proc/{process.pid}/smaps_rollup") as rollup:
                rss = next(int(line.split()[1]) for line in rollup if line.startswith("Rss:"))
            text += process.stdout.read()
            process.stdout.close()
            self.assertEqual(process.wait(), 0)
        self.assertLess(rss, self.RSS_MAX)
        self.assertGreaterEqual(len(text), size)
        return text

    def test_a_field_of_64_mb(self):
        value = bytes(range(32, 127)) * 700_000
        for options in (), ("--format", "json"), ("--format", "short"):
            text = self.read(seeds.journal([[(0, b"MESSAGE=" + value)]]), len(value), *options)
            self.assertTrue(options == ("--format", "json") or value in text)
        # And where secrets are looked for.
        self.assertIn(value[-20_000:], self.read(seeds.journal([[(0, b"MESSAGE=" + value)]]), len(value), cmdline=""))

    def test_bombs(self):
        # Each of the blocks is four bytes and becomes 128 KiB.
        block = lambda kind, size, data, last=0: struct.pack("<I", last | kind << 1 | size << 3)[:3] + data
        count = 8000
        frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 8 + (count << 17)) + block(0, 8, b"MESSAGE=")
        frame += block(1, 1 << 17, b"x") * (count - 1) + block(1, 1 << 17, b"x", 1)
        text = self.read(seeds.journal([[(4, frame)]]), 128 << 20)
        self.assertLess(len(text), (128 << 20) + 1000)
        self.assertIn(b"x [cut by rdreport: %d of %d bytes]\n" % (128 << 20, 8 + (count << 17)), text[-500:])
        for codec in (seeds.lz4, seeds.xz) if has_xz() else (seeds.lz4,):
            packed = codec(b"MESSAGE=" + b"x" * 64_000_000)
            self.assertTrue(b"x" * 64_000_000 + b"\n" in self.read(seeds.journal([[packed]]), 64_000_000))

    def test_entries_of_1024_fields(self):
        entry = [(0, b"FIELD_%d=%d" % (number, number)) for number in range(1024)]
        for options in (), ("--format", "json"):
            text = self.read(seeds.journal([entry] * 200, compact=True), 200 * 14_000, *options)
            self.assertEqual(text.count(b"FIELD_1021"), 200)

    def test_max(self):
        content = unpacked("initrd-systemd252-fakeignition.journal")
        with Root({"system.journal": content}, "rd.report.journal.max=20K") as root:
            text = root.journal()
            whole = len(Root.journal(root, "--format", "short"))
        self.assertLess(len(text), 21_000)
        self.assertGreater(whole, 1000)
        left = re.search(rb"\nMESSAGE=journal: (\d+) entries left out here, (\d+) bytes;", text)
        self.assertEqual(int(left[1]) + text.count(b"__CURSOR="), 527)


class Broken(unittest.TestCase):
    """Each run must end by itself, with status 0 and an export whose entries are whole, whatever the file holds."""

    FLIPS = int(os.environ.get("RDREPORT_FLIPS", "700"))

    def test_flipped_bits(self):
        rng = random.Random(0x5EED)
        for name in ("initrd-systemd252-fakeignition", "layouts/zstd-compact", "layouts/lz4"):
            original = unpacked(f"{name}.journal")
            used = len(original.rstrip(b"\0"))
            with Root({"system.journal": b""}) as root:
                path = f"{root.path}/{MACHINE}/system.journal"
                for _ in range(self.FLIPS):
                    content = bytearray(original[: used + 8])
                    at = rng.randrange(rng.choice((used, used // 8, 4096)))
                    content[at] ^= 1 << rng.randrange(8)
                    pathlib.Path(path).write_bytes(content)
                    done = root.run(timeout=20)
                    if done.returncode != 0:
                        self.assertLess(at, 272, name)
                        self.assertEqual(done.returncode, 1, f"{name}: bit in {at}")
                    else:
                        self.assertTrue(done.stdout.endswith(b"\n\n") or not done.stdout, f"{name}: bit in {at}")

    def test_cut(self):
        original = unpacked("layouts/zstd.journal")
        used = len(original.rstrip(b"\0"))
        before = 0
        for size in range(4096, used + 4096, 4096):
            with Root({"system.journal": original[:size]}) as root:
                count = root.journal().count(b"__CURSOR=")
            self.assertGreaterEqual(count, before)
            before = count
        self.assertEqual(before, 60)


if __name__ == "__main__":
    unittest.main()
