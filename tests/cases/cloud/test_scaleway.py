"""Scaleway."""
import unittest
from harness.clouds import Clouds, answer


class Scaleway(Clouds):
    def test_booted(self):
        for address in ("169.254.42.42", "fd00:42::42"):
            self.due.clear()
            self.ip("address flush dev cloud0")
            server = self.service(address, ("PATCH /state", answer(200)))
            self.report("ignition.platform.id=scaleway", "succeeded")
            self.done()
            self.fields(server.requests[0], content_type="application/json")
            self.assertEqual(server.requests[0].body, b'{"state_detail":"booted"}')
            server.close()

    def test_nothing_else(self):
        self.service("169.254.42.42")
        said = self.report("ignition.platform.id=scaleway rd.report.on=failed", "failed")
        self.assertIn("nothing to report to", said)
        self.assertEqual(self.log, [])


if __name__ == "__main__":
    unittest.main()
