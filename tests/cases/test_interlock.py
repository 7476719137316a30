"""Once: of units, hooks and people that report the same state, one does; a killed one silences nobody."""
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import BINARY, OK, PATIENCE, Root, Server, children_of

DONE, UNDELIVERED, ALREADY = 0, 1, 3
BOOT = "01234567-89ab-cdef-0123-456789abcdef"
class Machine(Root):
    """A bare root: /proc holds a command line and nothing of any process."""

    def __init__(self, cmdline, journal=None):
        super().__init__(cmdline, journal=journal)
        self.write("run/placeholder", "")

    def start(self, *args, **options):
        return subprocess.Popen([BINARY, "--root", self.path, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True, **options)

    def ends(self, *args):
        """Runs it; gives exit status and what it said."""
        process = self.start(*args)
        said = process.communicate(timeout=PATIENCE)[1]
        return process.returncode, said

    def record(self, state="failed"):
        with open(os.path.join(self.path, f"run/rdreport/{state}.report")) as file:
            return file.read()


class Interlock(unittest.TestCase):
    def server(self, behave=None):
        server = Server(behave)
        self.addCleanup(server.close)
        return server

    def machine(self, cmdline, **options):
        machine = Machine(cmdline, **options)
        self.addCleanup(machine.remove)
        return machine

    def test_of_twenty_at_once_one_reports(self):
        arrived, go_on = threading.Event(), threading.Event()

        def behave(connection, server):
            connection.request()
            arrived.set()
            # The report is under way until all others have ended.
            go_on.wait(PATIENCE)
            connection.sock.sendall(OK)

        server = self.server(behave)
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        runs = [machine.start("failed") for _ in range(20)]
        if not arrived.wait(PATIENCE):
            self.fail([run.communicate(timeout=PATIENCE) for run in runs])
        ended, lines = [], []

        def wait(run):
            said = run.communicate(timeout=PATIENCE)[1]
            ended.append(run.returncode)
            lines.append(said)
            if len(ended) == 19:
                go_on.set()

        threads = [threading.Thread(target=wait, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(sorted(ended), [DONE] + 19 * [ALREADY], lines)
        self.assertEqual(sum("is being reported by another run" in line for line in lines), 19, lines)
        self.assertEqual(len(server.requests), 1)
        status, said = machine.ends("failed")
        self.assertEqual(status, ALREADY)
        self.assertIn("was reported before", said)
        self.assertEqual(len(server.requests), 1)

    def test_a_killed_run_lets_the_next_report_under_its_id(self):
        arrived = threading.Event()
        seen = []

        def behave(connection, server):
            seen.append(connection.head())
            if len(seen) > 1:
                connection.sock.sendall(OK)
                return
            arrived.set()
            connection.file.read()

        server = self.server(behave)
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        run = machine.start("failed")
        self.assertTrue(arrived.wait(PATIENCE))
        run.send_signal(signal.SIGKILL)
        # Not waited for yet: a dead process with a number still.
        status, said = machine.ends("failed")
        self.assertEqual(status, DONE, said)
        run.communicate()
        self.assertEqual(seen[0].headers["x-report-id"], seen[1].headers["x-report-id"])
        self.assertEqual(machine.ends("failed")[0], ALREADY)

    def test_the_next_try_sends_what_was_not_delivered(self):
        refusals = [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"]

        def behave(connection, server):
            request = connection.request()
            connection.sock.sendall(refusals.pop() if request.target == "/bad" and refusals else OK)

        server = self.server(behave)
        machine = self.machine(f"rd.report.url={server.url('/good', '127.0.0.1')} rd.report.url={server.url('/bad', '127.0.0.1')}")
        self.assertEqual(machine.ends("failed")[0], UNDELIVERED)
        self.assertEqual(machine.ends("failed")[0], DONE)
        self.assertEqual(machine.ends("failed")[0], ALREADY)
        self.assertEqual(sorted(r.target for r in server.requests), ["/bad", "/bad", "/good"])
        self.assertEqual(len({r.headers["x-report-id"] for r in server.requests}), 1)

    def test_the_lock_is_one_that_others_see(self):
        arrived, go_on = threading.Event(), threading.Event()

        def behave(connection, server):
            connection.request()
            arrived.set()
            go_on.wait(PATIENCE)
            connection.sock.sendall(OK)

        server = self.server(behave)
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        run = machine.start("failed")
        self.assertTrue(arrived.wait(PATIENCE))
        path = os.path.join(machine.path, "run/rdreport/failed.lock")
        with open(path) as file:
            with self.assertRaises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The parent alone has it.
            for child in children_of(run.pid):
                links = [os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")]
                self.assertNotIn(path, links)
            go_on.set()
            said = run.communicate(timeout=PATIENCE)[1]
            self.assertEqual(run.returncode, DONE, said)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_while_another_has_the_lock(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        path = machine.write("run/rdreport/failed.lock", "")
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertEqual(machine.ends("failed")[0], ALREADY)
            self.assertEqual(machine.ends("failed", "--force")[0], ALREADY)
            self.assertEqual(machine.ends("stuck")[0], DONE)
        self.assertEqual(machine.ends("failed")[0], DONE)
        self.assertEqual(len(server.requests), 2)

    def test_files_of_another_boot_hold_nobody_off(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        for boot in ("01234567-89ab-cdef-0123-456789abcdef", "11234567-89ab-cdef-0123-456789abcdef"):
            machine.write("proc/sys/kernel/random/boot_id", boot + "\n")
            self.assertEqual(machine.ends("failed")[0], DONE)
            self.assertEqual(machine.ends("failed")[0], ALREADY)
            self.assertIn(boot, machine.record())
        machine.write("proc/sys/kernel/random/boot_id", "21234567-89ab-cdef-0123-456789abcdef\n")
        self.assertEqual(machine.ends("succeeded")[0], DONE)
        self.assertEqual(len({r.headers["x-report-id"] for r in server.requests}), 3)

    def test_deliveries_are_remembered_as_they_end(self):
        arrived = threading.Event()
        slow = []

        def behave(connection, server):
            request = connection.request()
            if request.target == "/slow" and not slow:
                slow.append(request)
                arrived.set()
                connection.file.read()
                return
            connection.sock.sendall(OK)

        server = self.server(behave)
        base = server.url("", "127.0.0.1")
        for journal in (None, "initrd-systemd252-ignition-disks-missing"):
            slow.clear()
            arrived.clear()
            server.requests.clear()
            machine = self.machine(f"rd.report.url={base}/slow rd.report.url={base}/fast rd.report.journal={base}/journal", journal=journal)
            run = machine.start("failed")
            self.assertTrue(arrived.wait(PATIENCE))
            line = run.stderr.readline()
            while "/fast" not in line:
                line = run.stderr.readline()
            self.assertIn("/fast: delivered", line)
            run.kill()
            run.communicate()
            self.assertEqual(machine.ends("failed")[0], DONE if journal else UNDELIVERED)
            targets = [r.target for r in server.requests]
            self.assertEqual((targets.count("/fast"), targets.count("/slow")), (1, 2))
            self.assertEqual(len({r.headers["x-report-id"] for r in server.requests}), 1)

    def test_no_success_after_a_failure_that_nobody_heard_of(self):
        server = self.server()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{taken.getsockname()[1]}/"
            for settings in (f"rd.report.url={dead} rd.report.timeout=1", f"rd.report.url={server.url()} rd.report.on=succeeded"):
                machine = self.machine(settings)
                machine.ends("failed")
                machine.write("proc/cmdline", f"rd.report.url={server.url()} rd.report.on=all\n")
                status, said = machine.ends("succeeded")
                self.assertEqual((status, len(server.requests)), (UNDELIVERED, 0), said)
                self.assertIn("--force", said)
                # It silences neither the failure nor the watchdog, and they do not bar what was forced.
                for verb in (("stuck",), ("failed", "--force"), ("succeeded", "--force")):
                    self.assertEqual(machine.ends(*verb)[0], DONE, (settings, verb))
                self.assertEqual(machine.ends("succeeded")[0], ALREADY)
                server.requests.clear()

    def test_no_success_after_a_failure_that_was_killed(self):
        arrived = threading.Event()

        def behave(connection, server):
            connection.request()
            arrived.set()
            connection.file.read()

        server = self.server(behave)
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        run = machine.start("failed")
        self.assertTrue(arrived.wait(PATIENCE))
        run.kill()
        run.communicate()
        self.assertEqual(machine.ends("succeeded")[0], UNDELIVERED)
        self.assertEqual([json.loads(r.body)["state"] for r in server.requests], ["failed"])

    def test_a_failure_after_a_success_is_reported(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        for state in ("succeeded", "failed"):
            self.assertEqual(machine.ends(state)[0], DONE)
        self.assertEqual([json.loads(r.body)["state"] for r in server.requests], ["succeeded", "failed"])

    def test_force_reports_again_with_a_new_id(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        for args, status in [((), DONE), ((), ALREADY), (("--force",), DONE), ((), ALREADY)]:
            self.assertEqual(machine.ends("failed", *args)[0], status, args)
        first, second = (json.loads(r.body)["report_id"] for r in server.requests)
        self.assertNotEqual(first, second)

    def test_no_success_after_a_failure_was_reported(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        self.assertEqual(machine.ends("failed")[0], DONE)
        status, said = machine.ends("succeeded")
        self.assertEqual(status, UNDELIVERED)
        self.assertIn("a failure was reported", said)
        self.assertEqual(machine.ends("succeeded", "--force")[0], DONE)
        # What the unit says afterwards on the way of the boot.
        self.assertEqual(machine.ends("succeeded")[0], ALREADY)
        self.assertEqual([json.loads(r.body)["state"] for r in server.requests], ["failed", "succeeded"])

    def test_no_success_while_a_unit_is_failed(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}", journal="initrd-systemd252-ignition-fetch-404")
        status, said = machine.ends("succeeded")
        self.assertEqual((status, len(server.requests)), (UNDELIVERED, 0))
        self.assertIn("ignition-fetch.service failed", said)
        # It holds nobody off.
        self.assertEqual(machine.ends("failed")[0], DONE)
        self.assertEqual(machine.ends("succeeded", "--force")[0], DONE)

    def test_states_have_their_own(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')} rd.report.on=all")
        for state in ["running", "running", "stuck", "succeeded", "failed"]:
            self.assertEqual(machine.ends(state)[0], DONE, state)
        self.assertEqual(len(server.requests), 5)

    def test_dry_run_and_check_touch_no_marker(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        machine.ends("failed", "--dry-run")
        machine.ends("check")
        self.assertEqual(os.listdir(os.path.join(machine.path, "run")), ["placeholder"])
        machine.ends("failed")
        self.assertEqual(sorted(os.listdir(os.path.join(machine.path, "run/rdreport"))),
                         ["failed.done", "failed.lock", "failed.report"])

    def test_a_disk_that_is_full(self):
        """The lock needs no byte of it; what was delivered cannot be remembered, and a warning says so."""
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        full = ["unshare", "-m", "--propagation", "private", "sh", "-ec",
                'mount -t tmpfs -o size=4k none "$1/run"; mkdir "$1/run/rdreport"; head -c 4096 /dev/zero > "$1/run/x"; shift; exec "$@"',
                "sh", machine.path]
        result = subprocess.run([*full, BINARY, "--root", machine.path, "failed"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, len(server.requests)), (DONE, 1), result.stderr)
        self.assertIn("/run/rdreport: no space left", result.stderr)

    def test_a_run_that_cannot_be_written_is_no_reason_not_to_report(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url(host='127.0.0.1')}")
        readonly = ["unshare", "-m", "--propagation", "private", "sh", "-ec",
                    'mount -t tmpfs -o ro none "$1/run"; shift; exec "$@"', "sh", machine.path]
        for _ in range(2):
            result = subprocess.run([*readonly, BINARY, "--root", machine.path, "failed"], stderr=subprocess.PIPE,
                                    text=True, timeout=PATIENCE)
            self.assertEqual(result.returncode, DONE, result.stderr)
            self.assertIn("/run/rdreport: read-only file system", result.stderr)
        os.remove(os.path.join(machine.path, "run/placeholder"))
        os.rmdir(os.path.join(machine.path, "run"))
        status, said = machine.ends("failed")
        self.assertEqual(status, DONE)
        self.assertIn("/run/rdreport: no such file", said)
        self.assertIn("/run/rdreport", json.loads(server.requests[-1].body)["warnings"][0])


class Progress(unittest.TestCase):
    """All `running` events of a boot share one budget of time."""

    BUDGET = 10

    def root(self, words):
        root = Root(words + " rd.report.on=all", journal=None)
        self.addCleanup(root.remove)
        root.write("proc/sys/kernel/random/boot_id", BOOT + "\n")
        return root

    def test_events_that_nobody_answers_share_one_budget(self):
        over = threading.Event()
        server = Server(lambda connection, _: over.wait(PATIENCE))
        self.addCleanup(server.close)
        self.addCleanup(over.set)
        root = self.root(f"rd.report.url={server.url(host='127.0.0.1')}")
        began = time.monotonic()
        results = [root.run("running", "--stage", str(n), is_new_boot=False) for n in range(50)]
        took = time.monotonic() - began
        self.assertEqual({result.returncode for result in results}, {UNDELIVERED})
        # Each run may take half a second beyond its share, and starting 50 of them takes time, too.
        self.assertLess(took, self.BUDGET + 8)
        self.assertIn("the progress of this boot has used its 10 s; raise rd.report.timeout=", results[-1].stderr)
        # After the first event each had one attempt at most.
        for result in results[1:]:
            self.assertNotIn(" tries", result.stderr)
        # The end of the boot has its own time.
        self.assertIn("not delivered", root.run("failed", is_new_boot=False).stderr)

    def test_events_at_the_same_time_share_it_too(self):
        over = threading.Event()
        server = Server(lambda connection, _: over.wait(PATIENCE))
        self.addCleanup(server.close)
        self.addCleanup(over.set)
        root = self.root(f"rd.report.url={server.url(host='127.0.0.1')}")
        began = time.monotonic()
        runs = [subprocess.Popen([BINARY, "--root", root.path, "running"], stderr=subprocess.PIPE) for _ in range(10)]
        for run in runs:
            run.communicate(timeout=PATIENCE)
            self.assertEqual(run.returncode, UNDELIVERED)
        self.assertLess(time.monotonic() - began, self.BUDGET + 2)

    def test_a_refused_event_makes_the_next_one_a_single_attempt_until_one_is_delivered(self):
        answers = [b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n"]
        server = Server(lambda connection, _: connection.answer(answers[0]))
        self.addCleanup(server.close)
        root = self.root(f"rd.report.url={server.url(host='127.0.0.1')}")
        first = root.run("running")
        self.assertIn(" tries", first.stderr)
        before = server.connections
        for _ in range(2):
            self.assertEqual(root.run("running", is_new_boot=False).returncode, UNDELIVERED)
        self.assertEqual(server.connections, before + 2)
        answers[0] = OK
        self.assertEqual(root.run("running", is_new_boot=False).returncode, DONE)
        # Full attempts again.
        answers[0] = b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n"
        self.assertIn(" tries", root.run("running", is_new_boot=False).stderr)

    def test_another_boot_has_its_own(self):
        server = Server()
        self.addCleanup(server.close)
        root = self.root(f"rd.report.url={server.url(host='127.0.0.1')}")
        root.write("run/rdreport/running.report", f"{BOOT} 10000 1\n")
        self.assertEqual(root.run("running", is_new_boot=False).returncode, UNDELIVERED)
        root.write("proc/sys/kernel/random/boot_id", BOOT.replace("0", "f") + "\n")
        self.assertEqual(root.run("running", is_new_boot=False).returncode, DONE)
        root.write("run/rdreport/running.report", b"\xff" * 5000)
        self.assertEqual(root.run("running", is_new_boot=False).returncode, DONE)
        self.assertEqual(len(server.requests), 2)


class Killed(unittest.TestCase):
    """A status whose own process dies is sent once more, without what the journal says of units."""

    def test_a_status_is_sent_again(self):
        killed = []

        def behave(connection, server):
            if len(killed) < kills:
                child, = children_of(run.pid)
                killed.append(child)
                os.kill(child, signal.SIGKILL)
                return
            connection.answer(OK)

        for kills, status in ((1, DONE), (2, UNDELIVERED)):
            with self.subTest(kills=kills):
                killed.clear()
                server = Server(behave)
                self.addCleanup(server.close)
                root = Root(f"rd.report.url={server.url(host='127.0.0.1')}")
                self.addCleanup(root.remove)
                run = subprocess.Popen([BINARY, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True)
                said = run.communicate(timeout=PATIENCE)[1]
                self.assertEqual((run.returncode, server.connections), (status, 2), said)
                if status == DONE:
                    body = json.loads(server.requests[0].body)
                    self.assertEqual(body["failed_units"], [])
                    self.assertIn("the process that sent the status was killed; units are left out of this one",
                                  body["warnings"])
                else:
                    self.assertIn("its process was killed", said)


if __name__ == "__main__":
    unittest.main()
