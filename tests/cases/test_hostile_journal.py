"""Journals that are made to hang, to crash or to deceive whoever reads them: the status is on its way all the same, and says what is not
known."""
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import unittest

from harness import BINARY, HERE, MACHINE, OK, PATIENCE, Root, Server, sample

sys.path.insert(0, os.path.join(HERE, "fuzz"))
import seeds

PLACE = f"run/log/journal/{MACHINE}"
HEADER = 272
FAILURE = b"MESSAGE_ID=d9b373ed55a64feb8242e02dbe79a49c"
JOB_FAILED = b"MESSAGE_ID=be02cf6855d2428ba40df7e9d022f03d"
UNKNOWN = "; units may have failed that are not named here"
# Seconds of `rd.report.timeout=`: the status may wait for the journal for a third of it. More than that is what the machine is slow by.
TIMEOUT = 6
LOOK = TIMEOUT / 3
SLACK = 1.5


def head(entries=9999, tail=0, array=0):
    """A file's header."""
    header = bytearray(HEADER)
    header[:8] = b"LPKSHHRH"
    for at, value in ((88, HEADER), (136, tail), (152, entries), (160, 1), (176, array)):
        struct.pack_into("<Q", header, at, value)
    return bytes(header)


def array(items, next_array=0):
    """An entry array object."""
    body = struct.pack("<Q", next_array) + b"".join(struct.pack("<Q", item) for item in items)
    return struct.pack("<BB6xQ", 6, 0, 16 + len(body)) + body


def bomb(blocks=1024):
    """A field in a ZSTD frame of a few KB, which is 128 KiB a block."""
    block = lambda kind, size, data, last=0: struct.pack("<I", last | kind << 1 | size << 3)[:3] + data
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 5 + (blocks << 17)) + block(0, 5, b"BOMB=")
    return 4, frame + block(1, 1 << 17, b"x") * (blocks - 1) + block(1, 1 << 17, b"x", 1)


def failed(unit, result=b"exit-code"):
    """What systemd logs of a unit that failed."""
    return [(0, FAILURE), (0, b"UNIT=" + unit), (0, b"UNIT_RESULT=" + result), (0, b"PRIORITY=4"),
            (0, b"SYSLOG_IDENTIFIER=systemd"), (0, b"MESSAGE=" + unit + b": Failed with result '" + result + b"'.")]


class Machine(unittest.TestCase):
    def setUp(self):
        self.arrived = []
        self.server = Server(self.behave)
        self.addCleanup(self.server.close)
        self.root = Root(f"rd.report.url={self.server.url('/s', '127.0.0.1')} rd.report.platform=none rd.report.timeout={TIMEOUT}",
                         journal=None)
        self.addCleanup(self.root.remove)
        self.root.write(f"{PLACE}/none", "")

    def behave(self, connection, server):
        connection.request()
        self.arrived.append(time.monotonic() - self.begun)
        connection.sock.sendall(OK)

    def path(self, name="system.journal"):
        return os.path.join(self.root.path, PLACE, name)

    def journal(self, *parts, size=0, name="system.journal"):
        """A journal file, with a hole behind it up to a size."""
        with open(self.path(name), "wb") as file:
            file.write(b"".join(parts))
            if size:
                file.truncate(size)

    def status(self, verb="failed", *args, code=0):
        """Runs it; returns the status that was delivered in time."""
        self.begun = time.monotonic()
        result = self.root.run(verb, *args)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(self.arrived), 1, result.stderr)
        self.assertLess(self.arrived.pop(), LOOK + SLACK, result.stderr)
        return json.loads(self.server.requests.pop().body)

    def refused(self, *said):
        self.begun = time.monotonic()
        result = self.root.run("succeeded")
        self.assertEqual((result.returncode, self.arrived), (1, []), result.stderr)
        for words in said:
            self.assertIn(words, result.stderr)


class Hangs(Machine):
    def test_holes_of_2_and_100_gb(self):
        for size in (2 << 30, 100 << 30):
            self.journal(head(tail=size - 8), size=size)
            self.assertEqual(self.status()["failed_units"], [])
            self.assertLess(len(self.root.run("journal").stdout), 2000)

    def test_zeros_behind_eight_files(self):
        # What a crash leaves of files that journald had grown. Names of one file, so that it takes no more room.
        with open(self.path("system.journal"), "wb") as file:
            file.write(head(tail=(128 << 20) - 8))
            for _ in range(128):
                file.write(bytes(1 << 20))
        for number in range(7):
            os.link(self.path(), self.path(f"user-{number}.journal"))
        self.assertIn("8 entries", str(self.status()["warnings"]).replace(f"{8 * 9999} entries", "8 entries"))

    def test_rubbish_between_the_head_and_what_is_promised(self):
        words = b"".join(struct.pack("<BB6xQ", 1, 0, 16) for _ in range(1 << 16))
        self.journal(head(tail=1 << 40), words * 64)
        self.status()

    def test_arrays_of_offsets_that_lead_nowhere(self):
        items = struct.pack("<Q", 1 << 40) * (1 << 21)
        self.journal(head(entries=1 << 30, tail=1 << 40, array=HEADER),
                     struct.pack("<BB6xQQ", 6, 0, 24 + len(items) * 4, 0), items * 4)
        self.status()
        self.assertLess(len(self.root.run("journal").stdout), 2000)

    def test_a_chain_of_arrays_with_nothing_in_them(self):
        chain = b"".join(array([0], HEADER + (number + 1) * 32) for number in range(1 << 18))
        self.journal(head(entries=1 << 20, tail=1 << 40, array=HEADER), chain)
        self.status()
        self.journal(head(entries=1 << 20, tail=1 << 40, array=HEADER), array([HEADER], HEADER))
        self.status()

    def test_a_field_that_inflates_referred_to_a_thousand_times(self):
        content = seeds.journal([[bomb()] * 1000, failed(b"ignition-disks.service")])
        self.assertLess(len(content), 30_000)
        self.journal(content)
        status = self.status()
        self.assertEqual([unit["unit"] for unit in status["failed_units"]], ["ignition-disks.service"])
        self.assertEqual(status["warnings"], [])

    def test_fields_that_inflate_whose_names_matter(self):
        frame = bomb()[1].replace(b"BOMB=", b"UNIT=")
        self.journal(seeds.journal([[(4, frame + bytes(number))] for number in range(3000)]))
        self.status()

    def test_a_failure_is_not_forgotten_for_what_comes_behind_it(self):
        later = [(0, b"MESSAGE=later"), (0, b"_SYSTEMD_UNIT=other.service")]
        self.journal(seeds.journal([failed(b"ignition-files.service")] + [later] * 210_000))
        self.refused("ignition-files.service failed")
        self.assertEqual([unit["unit"] for unit in self.status()["failed_units"]], ["ignition-files.service"])


class Unknown(Machine):
    """Whether a unit failed cannot be told: neither "none did" nor a reason to keep the success to oneself."""

    def traced(self, inject, *args):
        self.begun = time.monotonic()
        result = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", f"inject={inject}", BINARY, "--root", self.root.path, *args],
                                stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.arrived), 1)
        warning, = json.loads(self.server.requests.pop().body)["warnings"]
        self.assertTrue(warning.endswith(UNKNOWN), warning)
        self.assertIn(warning, result.stderr)
        return warning

    def test_the_one_that_looks_is_killed(self):
        self.journal(seeds.journal([failed(b"ignition-disks.service")]))
        for verb in ("succeeded", "failed"):
            self.assertIn("its process was killed", self.traced("pread64:signal=KILL:when=1", verb, "--force"))
            self.arrived.clear()

    def test_no_process_can_be_made_for_it(self):
        self.journal(seeds.journal([failed(b"ignition-disks.service")]))
        self.assertIn("no process can be made", self.traced("fork,clone:error=EAGAIN:when=1", "succeeded"))

    def test_more_than_can_be_read_in_time(self):
        frame = bomb(2)[1].replace(b"BOMB=", b"UNIT=")
        entry = [(0, b"MESSAGE=x")]
        many = [[(4, frame + struct.pack("<I", number))] for number in range(60_000)]
        self.journal(seeds.journal([failed(b"other.service")] + many + [entry]))
        status = self.status("succeeded")
        self.assertEqual([unit["unit"] for unit in status["failed_units"]], ["other.service"])
        self.assertTrue(any(warning.endswith(UNKNOWN) for warning in status["warnings"]), status["warnings"])
        # What was found before the time was over counts.
        self.journal(seeds.journal([failed(b"ignition-disks.service")] + many + [entry]))
        self.refused("ignition-disks.service failed")

    def test_how_many_entries_there_were(self):
        for entries in (1 << 40, (1 << 64) - 1):
            self.journal(head(entries=entries), size=1 << 20)
            warning, = self.status()["warnings"]
            self.assertIn("an unknown number of entries unreadable", warning)
            self.assertIn(b"an unknown number of entries", self.root.run("journal").stdout.encode())

    def test_how_long_a_cut_field_was(self):
        frame = bomb()[1]
        self.journal(seeds.journal([[(4, frame[:5] + struct.pack("<Q", (1 << 64) - 1) + frame[13:])]]))
        self.assertIn("of an unknown number of bytes]", self.root.run("journal").stdout[-500:])


class Verdict(Machine):
    """Which failures keep a success from being reported: those that end provisioning."""

    def units(self, *entries):
        self.journal(seeds.journal(list(entries)))
        return [(unit["unit"], unit["result"]) for unit in self.status("succeeded")["failed_units"]]

    def test_what_provisioning_does_without_is_listed(self):
        self.assertEqual(self.units(failed(b"systemd-vconsole-setup.service")), [("systemd-vconsole-setup.service", "exit-code")])

    def test_ignition(self):
        self.journal(seeds.journal([failed(b"a.service"), failed(b"ignition-mount.service")]))
        self.refused("ignition-mount.service failed")

    def test_what_starts_others(self):
        triggers = [(0, b"SYSLOG_IDENTIFIER=systemd"), (0, b"UNIT=a.service"),
                    (0, b"MESSAGE=a.service: Triggering OnFailure= dependencies.")]
        self.journal(seeds.journal([failed(b"a.service"), triggers]))
        self.refused("a.service failed")
        # Among more units than are told.
        others = [failed(b"other-%d.service" % number) for number in range(20)]
        self.journal(seeds.journal(others + [failed(b"a.service"), triggers]))
        self.refused("a.service failed")
        started = [(0, b"MESSAGE_ID=39f53479d3a045ac8e11786248231fbf"), (0, b"UNIT=a.service"), (0, b"JOB_RESULT=done")]
        self.assertEqual(len(self.units(*others, failed(b"a.service"), triggers, started)), 15)

    def test_targets_that_failed_by_dependency(self):
        entry = lambda unit: [(0, JOB_FAILED), (0, b"UNIT=" + unit), (0, b"JOB_RESULT=dependency"),
                              (0, b"MESSAGE=Dependency failed for " + unit)]
        self.journal(seeds.journal([entry(b"initrd.target")]))
        self.refused("initrd.target failed")
        self.assertEqual(self.units(entry(b"other.service")), [])
        self.journal(seeds.journal([entry(b"initrd.target")]))
        status = self.status("failed")
        self.assertEqual([(unit["unit"], unit["result"]) for unit in status["failed_units"]], [("initrd.target", "dependency")])
        # The cause is told where it is known.
        self.journal(seeds.journal([failed(b"sysroot.mount"), entry(b"initrd.target")]))
        self.assertEqual([unit["unit"] for unit in self.status("failed")["failed_units"]], ["sysroot.mount"])
        self.refused("initrd.target failed")


class LastLines(Machine):
    def lines(self, name, unit):
        self.journal(sample(name))
        return next(found["last_lines"] for found in self.status()["failed_units"] if found["unit"] == unit)

    def test_of_ignition_without_the_configuration_that_it_dumps(self):
        lines = self.lines("initrd-systemd252-ignition-files-badhash.journal", "ignition-files.service")
        self.assertTrue(lines[2].startswith("CRITICAL : Ignition failed: failed to create files"), lines)
        self.assertEqual(lines[3], "ignition-files.service: Failed with result 'exit-code'.")
        for line in lines:
            self.assertFalse(line.strip() in ("{", "}", "},", "]", "],") or line.strip().startswith('"'), lines)

    def test_what_happened_comes_first(self):
        lines = self.lines("initrd-systemd252-ignition-fetch-404.journal", "ignition-fetch.service")
        self.assertEqual(lines[:3], ["failed to fetch config: resource not found", "failed to acquire config: resource not found",
                                     "Ignition failed: resource not found"])
        self.assertIn("GET result: Not Found", lines[5:])

    def test_of_a_message_with_a_configuration_behind_it(self):
        unit = (0, b"_SYSTEMD_UNIT=ignition-files.service")
        says = lambda text: [unit, (0, b"SYSLOG_IDENTIFIER=ignition"), (0, b"PRIORITY=6"), (0, b"MESSAGE=" + text)]
        dump = b'{\n  "ignition": {\n    "version": "3.4.0"\n  }\n}'
        self.journal(seeds.journal([says(b"full config:\n" + dump), says(dump), says(b"  384,"), says(b"384 files"),
                                    failed(b"ignition-files.service")]))
        unit, = self.status()["failed_units"]
        self.assertEqual(unit["last_lines"], ["ignition-files.service: Failed with result 'exit-code'.", "full config:", "384 files"])


class Files(Machine):
    """What is no journal file, by its kind or by how many there are."""

    def test_other_things_with_the_names_of_journals(self):
        os.mkfifo(self.path("fifo.journal"))
        os.mkdir(self.path("folder.journal"))
        os.symlink("/dev/zero", self.path("link.journal"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("socket.journal"))
        os.mknod(self.path("device.journal"), 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        self.journal(seeds.journal([failed(b"a.service")]))
        self.assertEqual([unit["unit"] for unit in self.status()["failed_units"]], ["a.service"])

    def test_thousands_of_names(self):
        self.journal(seeds.journal([failed(b"a.service")]))
        for number in range(17_000):
            os.link(self.path(), self.path(f"{number}.journal"))
        self.assertTrue(any("more names than are looked at" in warning for warning in self.status()["warnings"]))

    def test_the_newest_of_too_many(self):
        rubbish = seeds.journal([[(0, b"MESSAGE=old")]])
        for number in range(200):
            self.journal(rubbish, name=f"{number}.journal")
            os.utime(self.path(f"{number}.journal"), (number, number))
        self.journal(seeds.journal([failed(b"a.service")]))
        status = self.status()
        self.assertEqual([unit["unit"] for unit in status["failed_units"]], ["a.service"])
        self.assertIn("journal: 137 files with older entries left out", status["warnings"])

    def test_cut_and_rewritten_while_they_are_read(self):
        content = sample("initrd-systemd252-fakeignition.journal")
        self.journal(content)
        is_over = threading.Event()

        def change():
            number = 0
            while not is_over.is_set():
                number += 1
                with open(self.path(), "r+b") as file:
                    file.truncate(number * 4099 % len(content))
                    file.seek(0)
                    file.write(content if number % 2 else bytes(300))

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(30):
                result = self.root.run("journal")
                self.assertIn(result.returncode, (0, 1), result.stderr)
                self.status(code=0)
        finally:
            is_over.set()
            thread.join()

    def test_the_kernels_log_without_an_end(self):
        os.mkdir(os.path.join(self.root.path, "dev"))
        os.mknod(os.path.join(self.root.path, "dev/kmsg"), 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        self.status()


if __name__ == "__main__":
    unittest.main()
