"""The configuration that is fetched once provisioning failed: what is put in place, what is not, and what follows."""
import contextlib
import gzip
import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import unittest

from harness import BINARY, OK, PATIENCE, Pki, Root, Server, children_of, resident_kb

CONFIG = b'{"ignition":{"version":"3.3.0"}}\n' * 1000
MOST = 8 << 20
NOT_FOUND = b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"
UNCHECKED = "without rd.report.fallback.sha512="


def sha512(body):
    return hashlib.sha512(body).hexdigest()


def whole(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def chunked(body, piece=65_521):
    parts = [body[at:at + piece] for at in range(0, len(body), piece)]
    return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"".join(b"%x;x=y\r\n" % len(part) + part + b"\r\n" for part in parts) + b"0\r\n\r\n")


def until_close(body):
    return b"HTTP/1.0 200 OK\r\n\r\n" + body


class Fallback(unittest.TestCase):
    def serve(self, *answers, tls=None, **options):
        """A server that gives these answers at each connection, the last from then on: bytes, or a function of the connection."""
        def behave(connection, server):
            answer = answers[min(server.connections, len(answers)) - 1]
            answer(connection, server) if callable(answer) else connection.answer(answer)

        server = Server(behave, tls=tls, **options)
        self.addCleanup(server.close)
        return server

    def root(self, server, words="", path="/f"):
        root = Root(f"rd.report.fallback={server.url(path)} rd.report.ca=/ca.pem {words}")
        self.addCleanup(root.remove)
        root.write("ca.pem", Pki.read("ca.pem"))
        root.write("proc/sysrq-trigger", "")
        return root

    def in_place(self, root):
        """What is in place, if anything; nothing else may be left but the interlock's own."""
        folder = os.path.join(root.path, "run/rdreport")
        names = sorted(name for name in os.listdir(folder) if not name.startswith("failed."))
        self.assertIn(names, ([], ["fallback.ign"]))
        if not names:
            return None
        path = os.path.join(folder, "fallback.ign")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, "rb") as file:
            return file.read()

    def put(self, root, body, *said, **options):
        """Runs, and the configuration is put in place."""
        result = root.run("failed", **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f": put in place ({len(body)} bytes", result.stderr)
        self.assertIn("rdreport-fallback.target is started, were this not below --root", result.stderr)
        for words in said:
            self.assertIn(words, result.stderr)
        self.assertEqual(self.in_place(root), body)
        return result

    def refused(self, root, *said, **options):
        """Runs, and nothing is put in place nor started."""
        result = root.run("failed", **options)
        self.assertEqual(result.returncode, 1, result.stderr)
        for words in said:
            self.assertIn(words, result.stderr)
        self.assertNotIn("rdreport-fallback.target", result.stderr)
        self.assertIsNone(self.in_place(root))
        return result

    def test_hashes_in_both_forms(self):
        for tls in (None, "p256"):
            server = self.serve(whole(CONFIG), tls=tls)
            for form in ("{}", "sha512-{}"):
                for digits in (sha512(CONFIG), sha512(CONFIG).upper()):
                    root = self.root(server, "rd.report.fallback.sha512=" + form.format(digits))
                    result = self.put(root, CONFIG)
                    self.assertNotIn(UNCHECKED, result.stderr)
                    request = server.requests.pop()
                    self.assertEqual((request.method, request.target, request.body), ("GET", "/f", b""))
                    self.assertEqual(len(request.headers["x-report-id"]), 36)

    def test_without_a_hash_it_is_taken_and_over_http_warned_about(self):
        status = self.serve(OK)
        root = self.root(self.serve(whole(CONFIG)), f"rd.report.url={status.url()}")
        self.assertIn(UNCHECKED, self.put(root, CONFIG).stderr)
        self.assertTrue(any(UNCHECKED in line for line in json.loads(status.requests[0].body)["warnings"]))
        result = self.put(self.root(self.serve(whole(CONFIG), tls="p256")), CONFIG)
        self.assertNotIn(UNCHECKED, result.stderr)

    def test_another_hash(self):
        for body in (CONFIG + b" ", CONFIG[:-1], CONFIG.replace(b"3.3", b"3.2", 1)):
            server = self.serve(whole(body))
            root = self.root(server, "rd.report.fallback.sha512=" + sha512(CONFIG))
            self.refused(root, "not put in place: the configuration does not have the hash in rd.report.fallback.sha512=")
            self.assertEqual(len(server.requests), 1, "it would be the same again")

    def test_what_reads_from_the_server_does_not_decide_alone(self):
        """The process that fetched says that all is well, and wrote something else: the hash is looked at again."""
        server = self.serve(whole(CONFIG))
        root = self.root(server, "rd.report.fallback.sha512=" + sha512(CONFIG))
        new = os.path.join(root.path, "run/rdreport/fallback.new")
        result = subprocess.run(["strace", "-qq", "-f", "-o", "/dev/null", "-P", new, "-e", "inject=write:poke_enter=@arg2=2020", BINARY,
                                 "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("not put in place: it is not what it should be", result.stderr)
        self.assertIsNone(self.in_place(root))

    def test_what_is_no_hash_fetches_nothing(self):
        server, status = self.serve(whole(CONFIG)), self.serve(OK)
        for value in (sha512(CONFIG)[1:], sha512(CONFIG) + "0", "sha256-" + sha512(CONFIG), "x" * 128, "''",
                      hashlib.sha256(CONFIG).hexdigest()):
            root = self.root(server, f"rd.report.url={status.url()} rd.report.fallback.sha512={value}")
            self.refused(root, "is not fetched: rd.report.fallback.sha512= is not a SHA-512")
            self.assertTrue(any("is not a SHA-512" in line for line in json.loads(status.requests.pop().body)["warnings"]))
        for words in ("rd.report.fallback.sha512", "rd.report.fallback.sha512="):
            self.refused(self.root(server, words), "is not a SHA-512")
        root = self.root(server)
        root.write("proc/cmdline", f"rd.report.fallback={server.url()} rd.report.fallback.sha512=".encode() + b"\xff" * 128)
        self.refused(root, "is not a SHA-512")
        self.assertEqual(server.connections, 0)

    def test_what_is_no_url(self):
        for value, said in (("ftp://h/", "is not a URL"), ("https://h/${nothing}", "variable"), ("file:/f", "is not a URL")):
            root = Root(f"rd.report.fallback={value}")
            self.addCleanup(root.remove)
            result = root.run("failed")
            self.assertEqual(result.returncode, 1)
            self.assertIn(said, result.stderr)

    def test_variables_and_header_fields(self):
        server = self.serve(whole(CONFIG))
        root = self.root(server, "rd.report.header='X-Key: 1'", path="/${state}?h=${hostname}")
        root.write("proc/sys/kernel/hostname", "a/b\n")
        self.put(root, CONFIG)
        self.assertEqual(server.requests[0].target, "/failed?h=a%2Fb")
        self.assertEqual(server.requests[0].headers["x-key"], "1")

    def test_a_compressed_answer_is_refused_by_its_name(self):
        for field in ("Content-Encoding: gzip", "content-encoding: x-gzip", "Content-Encoding: br", "Content-Encoding: zstd",
                      "Transfer-Encoding: gzip, chunked"):
            body = gzip.compress(CONFIG)
            server = self.serve(f"HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            name = field.split(": ")[1].split(",")[0]
            self.refused(self.root(server), f"the server compressed the configuration ({name}) although asked not to")
            request, = server.requests
            self.assertEqual(request.headers["accept-encoding"], "identity")
        for field in ("identity", "utf-8", "aws-chunked"):
            server = self.serve(f"HTTP/1.1 200 OK\r\nContent-Encoding: {field}\r\nContent-Length: {len(CONFIG)}\r\n\r\n".encode() + CONFIG)
            self.put(self.root(server), CONFIG)

    def test_a_body_whose_length_is_not_clear_is_refused(self):
        for fields in (b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Content-Length: 2, 2", b"Content-Length : 9",
                       b"Content-Length:\r\n 9", b"Transfer-Encoding: identity", b"X: a\r\nhello"):
            with self.subTest(fields):
                server = self.serve(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n" + CONFIG)
                self.refused(self.root(server, "rd.report.timeout=2"), "not put in place")

    def test_answers_that_are_final(self):
        for answer, said in ((NOT_FOUND, "the server answered 404 (not found)"),
                             (b"HTTP/1.1 304 X\r\n\r\n", "the server answered 304"),
                             (b"SSH-2.0-x\r\n", "the server does not speak HTTP/1.1")):
            server = self.serve(answer)
            self.refused(self.root(server), "not put in place: " + said)
            self.assertEqual(len(server.requests), 1)

    def test_answers_that_may_pass(self):
        for first in (UNAVAILABLE, whole(CONFIG)[:-1], chunked(CONFIG)[:-5], b"", whole(CONFIG + b"longer" * 9999)[:-1]):
            with self.subTest(first[:60]):
                root = self.root(self.serve(first, whole(CONFIG)), "rd.report.fallback.sha512=" + sha512(CONFIG))
                self.put(root, CONFIG, "2 tries)")

    def test_nothing_in_it(self):
        for answer in (whole(b""), chunked(b""), until_close(b""), b"HTTP/1.1 204 X\r\n\r\n"):
            self.refused(self.root(self.serve(answer)), "not put in place: the configuration is empty")

    def test_the_largest_and_one_more(self):
        body = os.urandom(1 << 20) * 8
        for frame in (whole, chunked, until_close):
            for tls in (None, "p256"):
                with self.subTest(f"{frame.__name__} {tls}"):
                    root = self.root(self.serve(frame(body), tls=tls), "rd.report.fallback.sha512=" + sha512(body))
                    self.put(root, body)
                    server = self.serve(frame(body + b"x"), tls=tls)
                    root = self.root(server, "rd.report.fallback.sha512=" + sha512(body))
                    self.refused(root, "not put in place: the configuration is larger than 8 MiB")
                    self.assertEqual(len(server.requests), 1)

    def test_what_is_cut(self):
        def unannounced(connection, _):
            # TLS that ends without a word, behind a body whose end only that tells.
            connection.answer(until_close(CONFIG))
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

        for answer, tls, said in ((whole(CONFIG)[:-1], None, "the server closed the connection"),
                                  (chunked(CONFIG)[:-5], None, "the server closed the connection"),
                                  (chunked(CONFIG)[:-7], "p256", "the server closed the connection"),
                                  (unannounced, "p256", "the connection ended without a TLS close")):
            server = self.serve(answer, tls=tls)
            self.refused(self.root(server, "rd.report.timeout=2"), "not put in place in", said)
            self.assertGreater(server.connections, 1)

    def test_a_slow_body_ends_with_the_deadline(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def trickle(connection, _):
            connection.answer(whole(CONFIG)[:60])
            while not over.wait(0.1):
                connection.sock.sendall(b"x")

        began = time.monotonic()
        self.refused(self.root(self.serve(trickle), "rd.report.timeout=3"), "raise rd.report.timeout=")
        self.assertLess(time.monotonic() - began, 6)

    def test_a_body_that_stalls_is_tried_again(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def stall(connection, _):
            connection.answer(whole(CONFIG)[:-1])
            over.wait(PATIENCE)

        self.put(self.root(self.serve(stall, whole(CONFIG)), "rd.report.timeout=20"), CONFIG, "2 tries)")

    def test_redirects(self):
        other = self.serve(whole(CONFIG))
        for code in (301, 302, 303, 307, 308):
            redirect = f"HTTP/1.1 {code} X\r\nLocation: {other.url('/g', host='127.0.0.1')}\r\nContent-Length: 4\r\n\r\nbody"
            self.put(self.root(self.serve(redirect.encode()), "rd.report.header='X-Key: 1'"), CONFIG)
            request = other.requests.pop()
            self.assertEqual((request.method, request.target), ("GET", "/g"))
            self.assertNotIn("x-key", request.headers)
        redirect = f"HTTP/1.1 302 X\r\nLocation: {other.url()}\r\nContent-Length: 0\r\n\r\n"
        self.refused(self.root(self.serve(redirect.encode(), tls="p256")), "redirects from https to http")
        self.assertEqual(other.requests, [])

    def test_where_nothing_can_be_written(self):
        server = self.serve(whole(CONFIG))
        root = self.root(server)
        root.write("run/rdreport", "")
        result = root.run("failed", is_new_boot=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("not put in place: the output was refused: not a folder", result.stderr)
        self.assertNotIn("rdreport-fallback.target", result.stderr)
        self.assertEqual(server.requests, [])
        for options, said in (("ro", "read-only file system"), ("size=16k", "no space left")):
            root = self.root(server)
            inside = ('mount -t tmpfs -o "$3" none "$1/run" && { "$2" --root "$1" failed; status=$?; find "$1/run" -name "fallback*"; '
                      'exit $status; }')
            result = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", inside, "sh", root.path, BINARY, options],
                                    capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
            self.assertIn(f"not put in place: the output was refused: {said}", result.stderr)

    def half_way(self, root, body, cut):
        """Starts the binary, which gets a body up to `cut`; gives the process, and what lets the rest come."""
        came, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def pause(connection, _):
            answer = whole(body)
            at = answer.index(b"\r\n\r\n") + 4 + cut
            connection.answer(answer[:at])
            came.set()
            go_on.wait(PATIENCE)
            connection.sock.sendall(answer[at:])

        server = self.serve(pause, tls="p256")
        root.write("proc/cmdline", f"rd.report.fallback={server.url()} rd.report.ca=/ca.pem rd.report.fallback.sha512={sha512(body)}")
        process = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        self.assertTrue(came.wait(PATIENCE))
        return process, go_on

    def names(self, root):
        return sorted(name for name in os.listdir(os.path.join(root.path, "run/rdreport")) if name.startswith("fallback"))

    def written(self, root, size):
        """Waits until so much has been written to what is not in place yet."""
        path = os.path.join(root.path, "run/rdreport/fallback.new")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_size >= size:
                    return os.stat(path)
            time.sleep(0.01)
        self.fail("it is not written")

    def test_it_is_never_seen_half_and_takes_no_memory(self):
        body, cut = os.urandom(1 << 20) * 8, MOST - 20_000
        root = self.root(self.serve(OK))
        process, go_on = self.half_way(root, body, cut)
        found = self.written(root, cut - 16_384)
        self.assertEqual(self.names(root), ["fallback.new"])
        self.assertEqual(stat.S_IMODE(found.st_mode), 0o600)
        made = children_of(process.pid)
        self.assertEqual(len(made), 1)
        for pid in [process.pid, *made]:
            resident = resident_kb(pid)
            self.assertLess(resident, 1536)
        with open(f"/proc/{made[0]}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        self.assertEqual((status["NoNewPrivs"].strip(), status["Seccomp"].strip(), int(status["CapEff"], 16)), ("1", "2", 0))
        go_on.set()
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual((process.returncode, self.in_place(root)), (0, body), said)
        print(f"fallback of 8 MiB over TLS: {resident} KB resident")

    def test_a_run_that_is_killed_leaves_nothing_that_counts(self):
        root = self.root(self.serve(OK))
        process, _ = self.half_way(root, CONFIG * 100, len(CONFIG) * 50)
        self.written(root, 100_000)
        process.kill()
        process.wait(PATIENCE)
        self.assertEqual(self.names(root), ["fallback.new"])
        root.write("proc/cmdline", f"rd.report.fallback={self.serve(whole(CONFIG)).url()}")
        self.put(root, CONFIG, is_new_boot=False)

    def test_told_to_end(self):
        root = self.root(self.serve(OK))
        process, _ = self.half_way(root, CONFIG * 100, len(CONFIG) * 50)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertLess(time.monotonic() - began, 2)
        self.assertEqual(process.returncode, 1)
        self.assertIn("not put in place: rdreport was told to end", said)
        self.assertIsNone(self.in_place(root))

    def test_the_status_goes_first(self):
        def answer(connection, server):
            request = connection.request()
            server.order.append(request.method)
            if request.method == "POST":
                time.sleep(0.5)
                server.order.append("answered")
            connection.sock.sendall(OK if request.method == "POST" else whole(CONFIG))

        server = self.serve(answer)
        server.order = []
        root = self.root(server, f"rd.report.url={server.url('/s')}")
        self.put(root, CONFIG)
        self.assertEqual(server.order, ["POST", "answered", "GET"])

    def trigger(self, root):
        with open(os.path.join(root.path, "proc/sysrq-trigger")) as file:
            return file.read()

    def test_the_action_comes_only_where_there_is_no_fallback(self):
        root = self.root(self.serve(whole(CONFIG)), "rd.report.action=panic")
        self.put(root, CONFIG, "rd.report.action=panic is not done: it would end what rdreport-fallback.target does")
        self.assertEqual(self.trigger(root), "")
        root = self.root(self.serve(NOT_FOUND), "rd.report.action=panic")
        result = root.run("failed")
        self.assertEqual((result.returncode, self.trigger(root)), (1, "c"))
        lines = result.stderr.splitlines()
        self.assertIn("not put in place: the server answered 404", lines[-2])
        self.assertIn("rd.report.action=panic now", lines[-1])
        # Nothing is fetched for one that is stuck.
        root = self.root(self.serve(whole(CONFIG)), "rd.report.action=panic")
        root.run("stuck")
        self.assertEqual(self.trigger(root), "c")

    def test_states(self):
        server = self.serve(whole(CONFIG))
        for state in ("running", "succeeded", "stuck"):
            result = self.root(server, "rd.report.on=all").run(state)
            self.assertEqual((result.returncode, server.connections), (0, 0), result.stderr)
        # Nothing else needs to be reported.
        self.put(self.root(server, "rd.report.on=none rd.report.journal.on=none"), CONFIG)

    def test_once(self):
        server = self.serve(whole(CONFIG))
        root = self.root(server)
        self.put(root, CONFIG)
        self.assertEqual(root.run("failed", is_new_boot=False).returncode, 3)
        self.assertEqual(len(server.requests), 1)
        self.assertEqual(root.run("failed", "--force", is_new_boot=False).returncode, 0)
        self.assertEqual(len(server.requests), 2)

    def test_a_fallback_that_failed_is_tried_by_the_next_run_alone(self):
        status, server = self.serve(OK), self.serve(NOT_FOUND, whole(CONFIG))
        root = self.root(server, f"rd.report.url={status.url()}")
        self.refused(root)
        self.put(root, CONFIG, is_new_boot=False)
        self.assertEqual((len(status.requests), len(server.requests)), (1, 2))
        self.assertEqual(root.run("failed", is_new_boot=False).returncode, 3)

    def test_one_that_was_started_holds_back_the_action_of_the_next_run(self):
        status, server = self.serve(NOT_FOUND, OK), self.serve(whole(CONFIG))
        root = self.root(server, f"rd.report.url={status.url()} rd.report.action=panic")
        self.assertEqual(root.run("failed").returncode, 1)
        result = root.run("failed", is_new_boot=False)
        self.assertEqual((result.returncode, len(status.requests), len(server.requests)), (0, 2, 1), result.stderr)
        self.assertEqual((self.trigger(root), self.in_place(root)), ("", CONFIG))
        self.assertNotIn("were this not", result.stderr)
        self.assertIn("rd.report.action=panic is not done", result.stderr)

    def test_check_and_dry_run_say_it(self):
        server = self.serve(OK)
        root = self.root(server, "rd.report.action=reboot rd.report.fallback.sha512=sha512-" + sha512(b""))
        result = root.run("check")
        self.assertEqual(result.returncode, 0, result.stderr)
        said = f"GET the fallback configuration from {server.url('/f')}: checked by its SHA-512, without TLS"
        self.assertEqual(result.stdout.count(said), 1, "after a failure alone")
        result = root.run("failed", "--dry-run")
        self.assertIn(said, result.stdout)
        self.assertIn("then: reboot, unless rdreport-fallback.target is started", result.stdout)
        secret = self.root(server, path="/f?key=SECRET")
        result = secret.run("check")
        self.assertEqual(result.returncode, 1)
        self.assertIn(UNCHECKED.removeprefix("rdreport: "), result.stdout)
        self.assertNotIn("SECRET", result.stdout + result.stderr + secret.run("failed").stderr)
        self.assertEqual(server.connections, 1)


class Started(unittest.TestCase):
    """On the machine's own root, with a systemctl of ours in a mount namespace."""

    INSIDE = r'''
        mount --bind "$FOLDER/cmdline" /proc/cmdline; mount -t tmpfs none /run; mount --bind /dev/null /dev/kmsg
        mkdir /run/bin; cp "$FOLDER/systemctl" /run/bin/ 2> /dev/null || :
        mount --bind "$FOLDER" /mnt
        # Over the folder of the script's shell, too.
        cp /bin/sh /run/sh
        mount --bind /run/bin /usr/bin
        exec "$RDREPORT" failed
    '''

    def start(self, systemctl, words=""):
        """Reports a failure where systemctl is this script, or missing; gives the result, the seconds, and what it was asked."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = Server(lambda connection, _: connection.answer(whole(CONFIG)))
        self.addCleanup(server.close)
        with open(os.path.join(folder.name, "cmdline"), "w") as file:
            file.write(f"rd.report.platform=none rd.report.fallback={server.url(host='127.0.0.1')} {words}\n")
        if systemctl:
            path = os.path.join(folder.name, "systemctl")
            with open(path, "w") as file:
                file.write(f'#!/run/sh\necho "$@" > /mnt/asked\n{systemctl}\n')
            os.chmod(path, 0o755)
        began = time.monotonic()
        result = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", self.INSIDE], capture_output=True, text=True,
                                timeout=PATIENCE, env={**os.environ, "FOLDER": folder.name, "RDREPORT": BINARY})
        self.assertIn(f"put in place ({len(CONFIG)} bytes)", result.stderr)
        seconds, asked = time.monotonic() - began, None
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder.name, "asked")) as file:
            asked = file.read()
        return result, seconds, asked

    def test_it_is_started(self):
        result, _, asked = self.start("exit 0")
        self.assertEqual((result.returncode, asked), (0, "--no-ask-password --no-block --job-mode=replace start rdreport-fallback.target\n"))
        self.assertEqual(result.stderr.splitlines()[-1], "rdreport: rdreport-fallback.target is started")

    def test_systemctl_refuses(self):
        result, _, asked = self.start("echo no such unit >&2; exit 5")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such unit\nrdreport: rdreport-fallback.target is not started: systemctl ended with status 5", result.stderr)

    def test_systemctl_hangs(self):
        result, seconds, asked = self.start("kill -STOP $$")
        self.assertEqual(result.returncode, 1)
        self.assertIsNotNone(asked)
        self.assertIn("is not started: systemctl did not end by itself", result.stderr)
        self.assertLess(seconds, 15)

    def test_no_systemctl(self):
        result, _, _ = self.start(None)
        self.assertEqual(result.returncode, 0)
        self.assertIn("rdreport-fallback.target is not started: there is no systemctl here", result.stderr)


if __name__ == "__main__":
    unittest.main()
