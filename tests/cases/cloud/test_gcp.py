"""Google Cloud's guest attributes."""
import unittest
from harness.clouds import Brief, Clouds, answer


class Google(Clouds, Brief):
    PATH = "PUT /computeMetadata/v1/instance/guest-attributes/rdreport/status"

    def test_all_states(self):
        for state in ("running", "stuck", "failed", "succeeded"):
            self.due.clear()
            server = self.service("169.254.169.254", (self.PATH, answer(503)), (self.PATH, answer(200)))
            self.report("ignition.platform.id=gcp rd.report.on=all", state, "--message", self.MESSAGE, "--stage", "disks", "--code", "3")
            self.done()
            for request in server.requests:
                self.fields(request, {"Metadata-Flavor": "Google"}, host="169.254.169.254")
                self.brief(request.body, state, "[disks] " + self.MESSAGE, "disks", 3)
            server.close()

    def test_guest_attributes_are_off(self):
        self.service("169.254.169.254", (self.PATH, answer(403)))
        said = self.report("ignition.platform.id=gce", "failed", code=1)
        self.done()
        self.assertEqual(said, "rdreport: cloud gcp: not delivered: the service answered 403; set enable-guest-attributes=TRUE in the instance's "
                               "metadata, or rd.report.platform=none\n")

    def test_in_ipv6_alone(self):
        server = self.service("fd20:ce::254", (self.PATH, answer(200)))
        self.report("ignition.platform.id=gcp", "failed")
        self.done()
        self.assertEqual(server.requests[0].headers["host"], "[fd20:ce::254]")

    def test_it_hangs(self):
        self.service("169.254.169.254", *[(self.PATH, 9)] * 3)
        self.assertIn("no answer in time", self.report("ignition.platform.id=gcp", "failed", code=1, seconds=4))


if __name__ == "__main__":
    unittest.main()
