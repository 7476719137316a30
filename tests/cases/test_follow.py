"""The journal sent while it grows: all of it, once, in order, whatever the network does meanwhile."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from harness import BINARY, MACHINE, OK, Pki, Root, Server, children_of, most_kb, parse_export, resident_kb, sample

REMOTE = "/lib/systemd/systemd-journal-remote"
FOLDER = f"run/log/journal/{MACHINE}"
# journalctl prints these from systemd 254 on.
NEWER = (b"__SEQNUM=", b"__SEQNUM_ID=")
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
# Seconds within which something that is waited for happens, however busy the machine is.
PATIENCE = 60


def without_newer(export):
    return b"".join(line for line in export.splitlines(True) if not line.startswith(NEWER))


def until(what, timeout=PATIENCE):
    deadline = time.monotonic() + timeout
    while not (found := what()):
        if time.monotonic() > deadline:
            raise AssertionError("it does not happen")
        time.sleep(0.01)
    return found


class Writer:
    """Writes a journal file as journald does, entry by entry."""

    number = 0

    def __init__(self, path):
        self.path = path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.process = subprocess.Popen([REMOTE, f"--output={path}", "--split-mode=none", "-"], stdin=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)

    def write(self, *messages, **fields):
        """Writes these, and gives once they are in the file."""
        text = b""
        for message in messages:
            Writer.number += 1
            text += (b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=cc2a2fae552745a68ac61cc401f811a8\n"
                     % (1796000041196128 + Writer.number, 13523456 + Writer.number))
            for name, value in (("MESSAGE", message), ("NUMBER", str(Writer.number)), *fields.items()):
                value = value.encode() if isinstance(value, str) else value
                text += name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
            text += b"\n"
        self.process.stdin.write(text)
        self.process.stdin.flush()
        last = b"\nNUMBER=%d\n" % Writer.number
        until(lambda: os.path.exists(self.path) and last in journalctl(self.path, "-n", "1"))

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0


def journalctl(path, *options):
    """A file as it is printed; one that is just being made, as nothing."""
    return subprocess.run(["journalctl", "--no-pager", "-o", "export", "--file", path, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout


class Case(unittest.TestCase):
    def server(self, *args, **options):
        server = Server(*args, **options)
        self.addCleanup(server.close)
        return server

    def root(self, *urls, words="rd.report.journal.redact=off", journal=None):
        sinks = " ".join(f"rd.report.journal={url}" for url in urls)
        root = Root(f"{sinks} rd.report.ca=/ca.pem {words}", journal=journal)
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        return root

    def writer(self, root, name="system.journal", folder=FOLDER):
        writer = Writer(os.path.join(root.path, folder, name))
        self.addCleanup(writer.process.wait)
        self.addCleanup(writer.process.stdin.close)
        return writer

    def follow(self, root, **options):
        said = tempfile.TemporaryFile("w+")
        self.addCleanup(said.close)
        process = subprocess.Popen([BINARY, "--root", root.path, "follow"], stderr=said, start_new_session=True, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.said = lambda: (said.seek(0), said.read())[1]
        return process

    def stop(self, process, status=0, within=1):
        """Tells it to end, which it does in time."""
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), status, process.said())
        self.assertLess(time.monotonic() - began, within)

    def parts(self, server):
        """What the server was sent, joined; with the parts' numbers as they must be."""
        self.assertEqual([int(r.headers["x-report-part"]) for r in server.requests], list(range(1, len(server.requests) + 1)))
        self.assertEqual(len({r.headers["x-report-id"] for r in server.requests}), min(1, len(server.requests)))
        return b"".join(request.text() for request in server.requests)

    def holds(self, server, *messages):
        text = b"".join(request.text() for request in list(server.requests))
        return all(b"\nMESSAGE=" + message.encode() + b"\n" in text for message in messages)


class Follow(Case):
    def test_all_of_it_once_as_it_is_written(self):
        server = self.server(tls="p256")
        root = self.root(server.url("/j"))
        writer = self.writer(root)
        writer.write("before")
        process = self.follow(root)
        until(lambda: self.holds(server, "before"))
        for number in range(5):
            writer.write(*(f"{number} {n}" for n in range(50)), PAD="x" * 300)
            # While it goes on.
            until(lambda: self.holds(server, f"{number} 49"))
        self.assertGreaterEqual(len(server.requests), 6)
        writer.write("the last")
        self.stop(process)
        self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))
        first = server.requests[0]
        self.assertEqual((first.method, first.target, first.headers["content-type"]), ("POST", "/j", "application/vnd.fdo.journal"))
        self.assertIn(f"delivered to the end ({len(server.requests)} parts, 252 entries)", process.said())
        self.assertEqual(server.errors, [])

    def test_the_last_part_when_told_to_end(self):
        server = self.server()
        root = self.root(server.url())
        writer = self.writer(root)
        writer.write("one")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = self.follow(root)
            until(lambda: self.holds(server, "one"))
            writer.write(f"at last {number}")
            began = time.monotonic()
            # To all its processes, as systemd does.
            os.killpg(process.pid, number)
            self.assertEqual(process.wait(PATIENCE), 0, process.said())
            self.assertLess(time.monotonic() - began, 1)
            self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))
            server.requests.clear()

    def test_formats(self):
        server = self.server()
        root = self.root(*(server.url(f"/{format}?format={format}&gzip={level}")
                           for format, level in (("export", 0), ("json", 1), ("short", 9))))
        writer = self.writer(root)
        writer.write("one", "two")
        process = self.follow(root)
        until(lambda: len(server.requests) >= 3)
        writer.write("three")
        self.stop(process)
        text = {path: b"".join(r.text() for r in server.requests if r.target == path) for path in ("/export", "/json", "/short")}
        self.assertEqual(without_newer(text["/export"]), without_newer(journalctl(writer.path)))
        self.assertEqual([json.loads(line)["MESSAGE"] for line in text["/json"].splitlines()], ["one", "two", "three"])
        self.assertEqual([line.split(b": ")[1] for line in text["/short"].splitlines()], [b"one", b"two", b"three"])
        self.assertEqual({r.target: r.headers.get("content-encoding") for r in server.requests},
                         {"/export": None, "/json": "gzip", "/short": "gzip"})

    def test_journal_remote_takes_the_parts(self):
        out = tempfile.TemporaryDirectory()
        self.addCleanup(out.cleanup)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        remote = subprocess.Popen([REMOTE, f"--output={out.name}/o.journal", "--split-mode=none", f"--listen-http={port}"],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(remote.wait)
        self.addCleanup(remote.kill)
        root = self.root(f"journal-remote+http://127.0.0.1:{port}")
        writer = self.writer(root)
        writer.write("one", "two")
        process = self.follow(root)
        there = lambda: re.findall(rb"^MESSAGE=(.*)$", journalctl(f"{out.name}/o.journal"), re.M)
        until(lambda: there() == [b"one", b"two"])
        writer.write("three")
        until(lambda: there() == [b"one", b"two", b"three"])
        self.stop(process)

    def test_several_files_and_folders_that_come_later(self):
        server = self.server()
        root = self.root(server.url())
        process = self.follow(root)
        writers = [self.writer(root), self.writer(root, "user-1000.journal"),
                   self.writer(root, folder="run/log/journal/fedcba9876543210fedcba9876543210"),
                   self.writer(root, folder="var/log/journal/fedcba9876543210fedcba9876543210")]
        for number in range(20):
            writers[number % 4].write(f"message {number}")
            if number % 5 == 4:
                until(lambda: self.holds(server, f"message {number}"))
        self.stop(process)
        # Their order is that of all files where they came together.
        split = lambda text: sorted(without_newer(text).split(b"\n\n"))
        self.assertEqual(split(self.parts(server)), split(b"".join(journalctl(writer.path) for writer in writers)))

    def test_rotation(self):
        server = self.server()
        root = self.root(server.url())
        old = self.writer(root)
        old.write("old 1", "old 2")
        process = self.follow(root)
        until(lambda: self.holds(server, "old 2"))
        old.write("old 3")
        archived = old.path.replace("system.journal", "system@0006617306fdd11c-b1f5c4ea1b0e0b5e.journal")
        os.rename(old.path, archived)
        new = self.writer(root)
        new.write("new 1")
        until(lambda: self.holds(server, "old 3", "new 1"))
        old.close()
        new.write("new 2")
        until(lambda: self.holds(server, "new 2"))
        os.remove(archived)
        new.write("new 3")
        self.stop(process)
        self.assertEqual(re.findall(rb"^MESSAGE=(.*)$", self.parts(server), re.M),
                         [b"old 1", b"old 2", b"old 3", b"new 1", b"new 2", b"new 3"])

    def test_secrets_are_masked_across_parts(self):
        server = self.server()
        root = self.root(server.url(), words="")
        writer = self.writer(root)
        writer.write("-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj")
        process = self.follow(root)
        until(lambda: self.holds(server, "-----BEGIN PRIVATE KEY-----") or server.requests)
        # The rest of the key comes in another part, and another process makes it.
        writer.write("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKk", "-----END PRIVATE KEY-----", "$6$salt$hash")
        self.stop(process)
        text = self.parts(server)
        self.assertGreaterEqual(len(server.requests), 2)
        self.assertNotIn(b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj", text)
        self.assertNotIn(b"salt", text)
        self.assertIn(b"MESSAGE=-----END PRIVATE KEY-----\n", text)

    def test_max_is_for_each_part(self):
        server = self.server()
        root = self.root(server.url(), words="rd.report.journal.max=3K")
        writer = self.writer(root)
        writer.write(*(f"first {n}" for n in range(50)))
        process = self.follow(root)
        until(lambda: server.requests)
        writer.write(*(f"second {n}" for n in range(50)))
        self.stop(process)
        self.assertGreaterEqual(len(server.requests), 2)
        text = self.parts(server)
        self.assertTrue(all(len(r.text()) < 4096 for r in server.requests))
        self.assertTrue(self.holds(server, "first 0", "first 49", "second 0", "second 49"))
        left = sum(map(int, re.findall(rb"journal: (\d+) entries left out here", text)))
        self.assertEqual(left + text.count(b"__CURSOR="), 100)

    def test_without_journald_the_kernels_log(self):
        server = self.server()
        root = self.root(server.url())
        log = root.write("dev/kmsg", "6,0,0,-;one\n6,1,1500000,-;two\n")
        process = self.follow(root)
        until(lambda: self.holds(server, "two"))
        with open(log, "a") as file:
            file.write("6,2,2500000,-;three\n")
        # Nobody tells of a change of what is no device; it is looked at now and then.
        until(lambda: self.holds(server, "three"))
        with open(log, "a") as file:
            file.write("6,3,3500000,-;four\n")
        self.stop(process)
        self.assertEqual(re.findall(rb"^MESSAGE=(.*)$", self.parts(server), re.M), [b"one", b"two", b"three", b"four"])

    def test_the_kernels_real_log(self):
        if os.geteuid() != 0:
            self.skipTest("only root may make a device")
        server = self.server()
        root = self.root(server.url())
        os.mkdir(os.path.join(root.path, "dev"))
        os.mknod(os.path.join(root.path, "dev/kmsg"), 0o600 | 0o020000, os.makedev(1, 11))
        process = self.follow(root)
        until(lambda: server.requests)
        mark = f"rdreport-test-{os.getpid()}"
        for number in range(3):
            with open("/dev/kmsg", "w") as log:
                log.write(f"<14>{mark}: {number}\n")
            # Sooner than by looking at it now and then.
            until(lambda: any(b"\nMESSAGE=%d\n" % number in r.text() and mark.encode() in r.text() for r in list(server.requests)), 4)
        self.stop(process)
        text = self.parts(server)
        records = re.findall(rb"^__SEQNUM=(\d+)$", text, re.M)
        self.assertEqual(records, sorted(records, key=int))
        self.assertEqual(len(records), len(set(records)))

    def test_with_journald_its_files_are_waited_for(self):
        server = self.server()
        root = self.root(server.url())
        root.write("dev/kmsg", "6,0,0,-;the kernel's own\n")
        root.write("run/systemd/journal/socket", "")
        process = self.follow(root)
        writer = self.writer(root)
        writer.write("one")
        until(lambda: self.holds(server, "one"))
        self.stop(process)
        self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))

    def test_it_ends_when_the_initramfs_is_left(self):
        server = self.server()
        root = self.root(server.url())
        marker = root.write("etc/initrd-release", "")
        self.writer(root).write("one")
        process = self.follow(root)
        until(lambda: self.holds(server, "one"))
        os.remove(marker)
        self.assertEqual(process.wait(PATIENCE), 0)


class Trouble(Case):
    def test_a_server_that_comes_late(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        root = self.root(f"http://127.0.0.1:{port}/")
        writer = self.writer(root)
        writer.write("one")
        process = self.follow(root)
        until(lambda: "connection refused" in process.said())
        writer.write("two")
        time.sleep(2)
        server = self.server(address=("127.0.0.1", port))
        until(lambda: self.holds(server, "one", "two"))
        until(lambda: "it is delivered again" in process.said())
        writer.write("three")
        self.stop(process)
        self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))
        # One line when it began, one when it was over, one at the end.
        self.assertEqual(len(process.said().splitlines()), 3, process.said())

    def test_a_server_that_goes_and_comes_back(self):
        server = self.server()
        root = self.root(server.url())
        writer = self.writer(root)
        process = self.follow(root)
        writer.write("one")
        until(lambda: self.holds(server, "one"))
        server.close()
        writer.write("two")
        until(lambda: "connection refused" in process.said())
        again = self.server(address=("127.0.0.1", server.port))
        until(lambda: self.holds(again, "two"))
        again.requests[:0] = server.requests
        self.stop(process)
        self.assertEqual(without_newer(self.parts(again)), without_newer(journalctl(writer.path)))

    def test_answers_that_are_no_success(self):
        refused = []

        def behave(connection, server):
            request = connection.request()
            if len(refused) < 3:
                refused.append(server.requests.pop())
                connection.sock.sendall([BUSY, b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", BUSY][len(refused) - 1])
            else:
                connection.sock.sendall(OK)
            return request

        server = self.server(behave, tls="p256")
        root = self.root(server.url())
        writer = self.writer(root)
        writer.write("one")
        process = self.follow(root)
        until(lambda: refused)
        writer.write("two")
        until(lambda: self.holds(server, "one", "two"))
        self.stop(process)
        self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))
        # What was not delivered has the number of what was.
        self.assertEqual({r.headers["x-report-part"] for r in refused}, {"1"})
        self.assertIn("the server answered 503", process.said())

    def test_a_server_that_asks_to_be_left_alone(self):
        times = []

        def behave(connection, server):
            times.append(time.monotonic())
            connection.answer(OK if len(times) > 1 else BUSY.replace(b"Busy\r\n", b"Busy\r\nRetry-After: 3\r\n"))

        server = self.server(behave)
        root = self.root(server.url())
        self.writer(root).write("one")
        process = self.follow(root)
        until(lambda: len(times) > 1)
        self.assertGreater(times[1] - times[0], 2.9)
        until(lambda: "it is delivered again" in process.said())
        self.stop(process)

    def test_a_server_that_hangs_when_it_is_told_to_end(self):
        over, heard = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def hang(connection, server):
            connection.request()
            heard.set()
            over.wait(PATIENCE)

        good, bad = self.server(), self.server(hang)
        root = self.root(bad.url(), good.url())
        writer = self.writer(root)
        writer.write("one")
        process = self.follow(root)
        self.assertTrue(heard.wait(PATIENCE))
        until(lambda: self.holds(good, "one"))
        writer.write("two")
        made = children_of(process.pid)
        self.assertEqual(len(made), 1)
        self.stop(process, status=1)
        # The other one was told the last.
        self.assertEqual(without_newer(self.parts(good)), without_newer(journalctl(writer.path)))
        self.assertEqual(process.said().count("not delivered to the end"), 1, process.said())
        self.assertFalse(os.path.exists(f"/proc/{made[0]}"))

    def test_without_a_server_it_ends_in_time_and_says_so(self):
        root = self.root("http://127.0.0.1:9/")
        self.writer(root).write("one")
        root.write("dev/console", "")
        process = self.follow(root)
        until(lambda: "connection refused" in process.said())
        self.stop(process, status=1)
        with open(os.path.join(root.path, "dev/console")) as file:
            self.assertIn("not delivered to the end (of it: 0 parts, 0 entries)", file.read())

    def test_a_process_that_dies_is_replaced(self):
        over, heard = threading.Event(), threading.Semaphore(0)
        self.addCleanup(over.set)

        def behave(connection, server):
            heard.release()
            if server.connections < 3:
                over.wait(PATIENCE)
            else:
                connection.answer(OK)

        server = self.server(behave)
        root = self.root(server.url())
        writer = self.writer(root)
        writer.write("one")
        process = self.follow(root)
        for _ in range(2):
            self.assertTrue(heard.acquire(timeout=PATIENCE))
            [child] = children_of(process.pid)
            os.kill(child, signal.SIGSEGV)
        until(lambda: self.holds(server, "one"))
        self.stop(process)
        self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))
        self.assertIn("its process died of signal 11", process.said())

    def test_killed_it_leaves_no_process(self):
        over, heard = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def hang(connection, server):
            heard.set()
            over.wait(PATIENCE)

        root = self.root(self.server(hang).url())
        self.writer(root).write("one")
        process = self.follow(root)
        self.assertTrue(heard.wait(PATIENCE))
        [child] = children_of(process.pid)
        process.kill()
        process.wait()

        def is_gone():
            try:
                with open(f"/proc/{child}/stat") as file:
                    return file.read().rsplit(")", 1)[1].split()[0] == "Z"
            except FileNotFoundError:
                return True

        until(is_gone)


class Quiet(Case):
    def ticks(self, process):
        """Processor time of it and of its ended children, in ticks of 10 ms."""
        with open(f"/proc/{process.pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15]))

    def test_it_does_nothing_when_nothing_happens(self):
        server = self.server()
        root = self.root(server.url(), server.url("/2"))
        self.writer(root).write("one")
        process = self.follow(root)
        until(lambda: len(server.requests) == 2)
        time.sleep(1)
        before = self.ticks(process)
        time.sleep(12)
        self.assertLessEqual(self.ticks(process) - before, 2)
        self.assertEqual(len(server.requests), 2)
        self.stop(process)
        self.assertEqual(len(server.requests), 2)

    def test_a_busy_writer_is_gathered(self):
        server = self.server()
        root = self.root(server.url())
        writer = self.writer(root)
        process = self.follow(root)
        began = time.monotonic()
        while time.monotonic() < began + 5:
            writer.write("busy")
        self.stop(process)
        # One for the beginning and the end each, and two a second.
        self.assertLessEqual(len(server.requests), 2 + 2 * (time.monotonic() - began))
        self.assertEqual(without_newer(self.parts(server)), without_newer(journalctl(writer.path)))

    def test_memory_does_not_grow(self):
        seen = {"parent": [], "child": []}

        def behave(connection, server):
            connection.request()
            seen["child"].append(resident_kb(children_of(process.pid)[0]))
            seen["parent"].append(resident_kb(process.pid))
            connection.sock.sendall(OK)

        server = self.server(behave, tls="p256")
        root = self.root(server.url(), journal="initrd-systemd252-fakeignition")
        writer = self.writer(root, "user-1.journal")
        process = self.follow(root)
        for number in range(60):
            writer.write(*(f"{number} {n}" for n in range(20)), PAD="x" * 2000)
            until(lambda: self.holds(server, f"{number} 19"))
        self.stop(process)
        self.assertGreaterEqual(len(server.requests), 60)
        for whose, found in seen.items():
            self.assertLess(max(found), most_kb(), f"{whose}: {found}")
            self.assertLessEqual(max(found[30:]), max(found[:30]) + 32, f"{whose}: {found}")
        print(f"resident KB: {', '.join(f'{whose} {max(found)}' for whose, found in seen.items())}")


class Device(Case):
    def content(self, root):
        with open(os.path.join(root.path, "dev/port"), "rb") as file:
            return file.read()

    def test_lines_as_they_come_and_the_end_in_the_end(self):
        root = self.root("file:/dev/port")
        root.write("dev/port", "")
        writer = self.writer(root)
        process = self.follow(root)
        for message in ("one", "two"):
            writer.write(message)
            until(lambda: b'"MESSAGE":"%s"' % message.encode() in self.content(root))
        self.assertNotIn(b"{}", self.content(root))
        writer.write("three")
        self.stop(process)
        lines = [json.loads(line) for line in self.content(root).splitlines()]
        self.assertEqual([line.get("MESSAGE") for line in lines], ["one", "two", "three", None])
        self.assertEqual(lines[-1], {})

    def test_the_end_comes_though_nothing_is_new(self):
        root = self.root("file:/dev/port")
        root.write("dev/port", "")
        self.writer(root).write("one")
        process = self.follow(root)
        until(lambda: b"one" in self.content(root))
        self.stop(process)
        self.assertTrue(self.content(root).endswith(b"}\n{}\n"))


class Usage(Case):
    def test_what_cannot_grow_is_said_and_left(self):
        server = self.server()
        root = self.root("put+" + server.url("/put?sig=S3CRET"), server.url("/raw?format=raw"), server.url("/j"))
        writer = self.writer(root)
        writer.write("one")
        process = self.follow(root)
        until(lambda: self.holds(server, "one"))
        self.stop(process, status=1)
        self.assertEqual({r.target for r in server.requests}, {"/j"})
        self.assertEqual(process.said().count("cannot be sent in parts while it grows"), 2, process.said())
        self.assertNotIn("S3CRET", process.said())

    def test_nothing_to_follow_to(self):
        for words, said in (("quiet", "nothing to follow to: no rd.report.journal="),
                            ("rd.report.journal=http://127.0.0.1:9/ rd.report.follow=off", "rd.report.follow is off")):
            root = Root(words)
            self.addCleanup(root.remove)
            result = root.run("follow")
            self.assertEqual(result.returncode, 0)
            self.assertIn(said, result.stderr)

    def test_check_says_so(self):
        root = Root("rd.report.journal=http://h/j rd.report.journal=put+http://h/p rd.report.follow")
        self.addCleanup(root.remove)
        result = root.run("check")
        self.assertIn("rd.report.follow = on\n", result.stdout)
        self.assertIn("  while it grows, in parts:\n    POST the journal to http://h/j", result.stdout)
        self.assertIn("put+http://h/p cannot be sent in parts", result.stdout)

    def test_a_value_that_is_none_is_said_and_counts_as_none(self):
        root = Root("rd.report.journal=http://h/j rd.report.follow=maybe")
        self.addCleanup(root.remove)
        result = root.run("check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("rd.report.follow: 'maybe' is not known; expected is on or off; the default holds: off\n", result.stdout)
        self.assertNotIn("while it grows, in parts", result.stdout)

    def test_journal_on_is_for_reports(self):
        server = self.server()
        root = self.root(server.url(), words="rd.report.journal.on=none")
        self.writer(root).write("one")
        process = self.follow(root)
        until(lambda: self.holds(server, "one"))
        self.stop(process)

    def test_a_report_is_whole_and_has_an_id_of_its_own(self):
        server = self.server()
        root = self.root(server.url())
        writer = self.writer(root)
        writer.write("one")
        process = self.follow(root)
        until(lambda: self.holds(server, "one"))
        self.assertEqual(root.run("failed").returncode, 0)
        report = server.requests.pop()
        self.assertEqual(without_newer(report.text()), without_newer(journalctl(writer.path)))
        self.assertNotIn("x-report-part", report.headers)
        self.assertNotEqual(report.headers["x-report-id"], server.requests[0].headers["x-report-id"])
        self.stop(process)

    def test_the_owners_header_fields(self):
        server = self.server()
        root = self.root(server.url(), words="rd.report.header='X-Token: abc'")
        self.writer(root).write("one")
        process = self.follow(root)
        until(lambda: self.holds(server, "one"))
        self.stop(process)
        self.assertEqual(server.requests[0].headers["x-token"], "abc")


if __name__ == "__main__":
    unittest.main()
