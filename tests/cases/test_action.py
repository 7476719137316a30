"""What is done with the machine after its failure was reported. Below --root, a panic is a letter in a plain file, and the rest is said."""
import os
import pty
import subprocess
import unittest

from harness import BINARY, OK, PATIENCE, Root, Server


class Action(unittest.TestCase):
    def setUp(self):
        self.triggered_at_request = None

        def behave(connection, server):
            connection.request()
            self.triggered_at_request = self.trigger()
            connection.sock.sendall(OK)

        self.server = Server(behave)
        self.addCleanup(self.server.close)

    def root(self, settings):
        self.machine = Root(f"rd.report.url={self.server.url(host='127.0.0.1')} {settings}")
        self.addCleanup(self.machine.remove)
        self.machine.write("proc/sysrq-trigger", "")
        return self.machine

    def trigger(self):
        with open(os.path.join(self.machine.path, "proc/sysrq-trigger")) as file:
            return file.read()

    def test_panic_comes_after_the_report(self):
        result = self.root("rd.report.action=panic").run("failed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.triggered_at_request, self.trigger()), ("", "c"))
        lines = result.stderr.splitlines()
        self.assertIn("delivered (200", lines[-2])
        self.assertIn("rd.report.action=panic now", lines[-1])

    def test_panic_comes_when_the_report_fails(self):
        self.server.close()
        root = self.root("rd.report.action=panic rd.report.timeout=2")
        result = root.run("failed")
        self.assertEqual((result.returncode, self.trigger()), (1, "c"), result.stderr)

    def test_it_needs_no_receiver(self):
        root = Root("rd.report.action=panic")
        self.addCleanup(root.remove)
        self.machine = root
        root.write("proc/sysrq-trigger", "")
        self.assertEqual(root.run("failed").returncode, 0)
        self.assertEqual(self.trigger(), "c")

    def test_states(self):
        for state, expected in [("succeeded", ""), ("running", ""), ("stuck", "c"), ("failed", "c")]:
            with self.subTest(state=state):
                root = self.root("rd.report.action=panic rd.report.on=all")
                root.run(state, "--force")
                self.assertEqual(self.trigger(), expected)

    def test_others_are_said_below_root(self):
        for action in ["reboot", "poweroff"]:
            result = self.root(f"rd.report.action={action}").run("failed")
            self.assertIn(f"rd.report.action={action} now, were this not below --root", result.stderr)
            self.assertEqual(self.trigger(), "")
        self.assertIn("then: poweroff", self.machine.run("failed", "--dry-run").stdout)

    def test_once(self):
        root = self.root("rd.report.action=panic")
        root.run("failed")
        root.write("proc/sysrq-trigger", "")
        self.assertEqual(root.run("failed", is_new_boot=False).returncode, 3)
        self.assertEqual(self.trigger(), "")

    def at_console(self, root, *args):
        """Starts the binary with a terminal for a console; gives the process and the terminal's other end."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        root.write("dev/console", "")
        inside = 'mount --bind "$1" "$2/dev/console" && exec "$3" --root "$2" failed'
        process = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-ec", inside, "sh",
                                    os.ttyname(slave), root.path, BINARY], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        return process, master

    def test_a_key_stops_it(self):
        process, keys = self.at_console(self.root("rd.report.action=panic rd.report.action.delay=60"), "failed")
        os.write(keys, b"typed before it was asked for\n")
        for line in process.stderr:
            if "in 60 seconds; any key stops it" in line:
                break
        os.write(keys, b"x")  # no line end
        said = process.stderr.read()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertIn("stopped", said)
        self.assertEqual(self.trigger(), "")

    def test_the_delay_counts_down(self):
        process, _ = self.at_console(self.root("rd.report.action=panic rd.report.action.delay=2"), "failed")
        said = process.communicate(timeout=PATIENCE)[1].splitlines()[-3:]
        self.assertEqual([line.split("=panic ")[1] for line in said],
                         ["in 2 seconds; any key stops it", "in 1 second; any key stops it",
                          "now, were this not below --root"])
        self.assertEqual(self.trigger(), "c")


if __name__ == "__main__":
    unittest.main()
