"""The watchdog: one report of a boot that does not end, and none of one that did."""
import json
import time
import unittest

from harness import Root, Server


def uptime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Stuck(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)

    def root(self, after, journal="initrd-systemd252-ignition-disks-missing"):
        root = Root(f"rd.report.url={self.server.url(host='127.0.0.1')} rd.report.stuck={after}", journal=journal)
        self.addCleanup(root.remove)
        root.write("init", "")
        return root

    def test_it_waits_for_its_time_after_the_boot(self):
        due = int(uptime()) + 2
        result = self.root(due).run("stuck", "--wait")
        self.assertEqual(result.returncode, 0, result.stderr)
        status = json.loads(self.server.requests[0].body)
        self.assertEqual(status["state"], "stuck")
        self.assertGreaterEqual(status["uptime_s"], due)

    def test_it_reports_once_and_bars_nobody(self):
        root = self.root(1)
        for verb, expected in [(("stuck", "--wait"), 0), (("stuck", "--wait"), 3), (("failed",), 0)]:
            self.assertEqual(root.run(*verb, is_new_boot=False).returncode, expected, verb)
        self.assertEqual([json.loads(r.body)["state"] for r in self.server.requests], ["stuck", "failed"])

    def test_success_comes_after_it(self):
        root = self.root(1, journal=None)
        root.run("stuck", "--wait", is_new_boot=False)
        self.assertEqual(root.run("succeeded", is_new_boot=False).returncode, 0)

    def test_what_ended_is_not_stuck(self):
        for verb in ["failed", "succeeded"]:
            root = self.root(1, journal=None)
            root.run(verb, is_new_boot=False)
            self.assertEqual(root.run("stuck", "--wait", is_new_boot=False).returncode, 0)
        self.assertEqual([json.loads(r.body)["state"] for r in self.server.requests], ["failed", "succeeded"])

    def test_nothing_without_a_time_or_outside_an_initramfs(self):
        self.assertEqual(self.root(0).run("stuck", "--wait").returncode, 0)
        # The unit runs it wherever the image brings words of its own: nothing is said there.
        plain = Root("quiet")
        self.addCleanup(plain.remove)
        result = plain.run("stuck", "--wait")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        root = Root(f"rd.report.url={self.server.url(host='127.0.0.1')} rd.report.stuck=1")
        self.addCleanup(root.remove)
        self.assertEqual(root.run("stuck", "--wait").returncode, 0)
        self.assertEqual(self.server.requests, [])


if __name__ == "__main__":
    unittest.main()
