"""Once: of units, hooks and people that report the same state, one does; a killed one silences nobody."""
import json
import os
import signal
import subprocess
import threading
import unittest

from peers import BINARY, OK, PATIENCE, Root, Server

DONE, UNDELIVERED, ALREADY = 0, 1, 3
# The binary below a root whose processes are the real ones: it looks for those of the markers there.
INSIDE = ('mount --rbind /proc "$1/proc" && mount --bind "$1/cmdline" "$1/proc/cmdline" && '
          'shift && exec "$@"')


class Machine(Root):
    """A root whose /proc is the real one but for the command line."""

    def __init__(self, cmdline, journal=None):
        super().__init__(journal=journal)
        self.write("cmdline", cmdline + "\n")
        self.write("proc/cmdline", "")
        self.write("run/placeholder", "")

    def start(self, *args):
        return subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-ec", INSIDE, "sh", self.path,
                                 BINARY, "--root", self.path, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)

    def ends(self, *args):
        """Runs it; gives exit status and what it said."""
        process = self.start(*args)
        said = process.communicate(timeout=PATIENCE)[1]
        return process.returncode, said


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
        machine = self.machine(f"rd.report.url={server.url()}")
        runs = [machine.start("failed") for _ in range(20)]
        self.assertTrue(arrived.wait(PATIENCE))
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
        self.assertEqual(sum("is being reported by process" in line for line in lines), 19, lines)
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
        machine = self.machine(f"rd.report.url={server.url()}")
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
        machine = self.machine(f"rd.report.url={server.url('/good')} rd.report.url={server.url('/bad')}")
        self.assertEqual(machine.ends("failed")[0], UNDELIVERED)
        self.assertEqual(machine.ends("failed")[0], DONE)
        self.assertEqual(machine.ends("failed")[0], ALREADY)
        self.assertEqual(sorted(r.target for r in server.requests), ["/bad", "/bad", "/good"])
        self.assertEqual(len({r.headers["x-report-id"] for r in server.requests}), 1)

    def test_markers_of_others(self):
        boot = "01234567-89ab-cdef-0123-456789abcdef"
        alive = f"4242 5 {boot}"
        for marker, process, expected in [
            (alive, "4242 (a b) S 1" + 17 * " 0" + " 5 0", ALREADY),
            # Its number was given to another process.
            (alive, "4242 (a b) S 1" + 17 * " 0" + " 6 0", DONE),
            (f"4242 5 {boot[::-1]}", "4242 (a b) S 1" + 17 * " 0" + " 5 0", DONE),
            (alive, None, DONE),
            ("", None, DONE),
        ]:
            with self.subTest(marker=marker, process=process):
                server = self.server()
                root = Root(f"rd.report.url={server.url()}", journal=None)
                self.addCleanup(root.remove)
                root.write("proc/sys/kernel/random/boot_id", boot + "\n")
                root.write("run/rdreport/failed.start.0", marker + "\n")
                if process:
                    root.write("proc/4242/stat", process)
                result = root.run("failed", is_new_boot=False)
                self.assertEqual(result.returncode, expected, result.stderr)
                self.assertEqual(len(server.requests), int(expected == DONE))

    def test_force_reports_again_with_a_new_id(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url()}")
        for args, status in [((), DONE), ((), ALREADY), (("--force",), DONE), ((), ALREADY)]:
            self.assertEqual(machine.ends("failed", *args)[0], status, args)
        first, second = (json.loads(r.body)["report_id"] for r in server.requests)
        self.assertNotEqual(first, second)

    def test_no_success_after_a_failure_was_reported(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url()}")
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
        machine = self.machine(f"rd.report.url={server.url()}", journal="initrd-systemd252-ignition-fetch-404")
        status, said = machine.ends("succeeded")
        self.assertEqual((status, len(server.requests)), (UNDELIVERED, 0))
        self.assertIn("ignition-fetch.service failed", said)
        # It holds nobody off.
        self.assertEqual(machine.ends("failed")[0], DONE)
        self.assertEqual(machine.ends("succeeded", "--force")[0], DONE)

    def test_states_have_their_own(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url()} rd.report.on=all")
        for state in ["running", "running", "stuck", "succeeded", "failed"]:
            self.assertEqual(machine.ends(state)[0], DONE, state)
        self.assertEqual(len(server.requests), 5)

    def test_dry_run_and_check_touch_no_marker(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url()}")
        machine.ends("failed", "--dry-run")
        machine.ends("check")
        self.assertEqual(os.listdir(os.path.join(machine.path, "run")), ["placeholder"])
        machine.ends("failed")
        self.assertEqual(sorted(os.listdir(os.path.join(machine.path, "run/rdreport"))),
                         ["failed.done", "failed.report", "failed.start.0"])

    def test_a_run_that_cannot_be_written_is_no_reason_not_to_report(self):
        server = self.server()
        machine = self.machine(f"rd.report.url={server.url()}")
        readonly = ["unshare", "-m", "--propagation", "private", "sh", "-ec",
                    'mount -t tmpfs -o ro none "$1/run"; ' + INSIDE, "sh", machine.path]
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


if __name__ == "__main__":
    unittest.main()
