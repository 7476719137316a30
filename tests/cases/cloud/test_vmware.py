"""VMware's guest information."""
import unittest
from harness.clouds import Clouds


class VMware(Clouds):
    def test_elsewhere_the_port_is_not_touched(self):
        """Touching it would end the process by a signal."""
        with open("/proc/cpuinfo") as file:
            self.assertNotIn("VMware", file.read())
        said = self.report("ignition.platform.id=vmware", "failed", code=1)
        self.assertEqual(said, "rdreport: cloud vmware: not delivered: the hypervisor is not VMware's; set rd.report.platform=none to send nothing there\n")


if __name__ == "__main__":
    unittest.main()
