"""Which cloud a machine is in."""
import json
import re
import unittest

from harness import Root, Server
from harness.clouds import DMI, FIRMWARE


class Recognising(unittest.TestCase):
    def check(self, cmdline, firmware=(), files=()):
        root = Root(cmdline, journal=None)
        self.addCleanup(root.remove)
        for name, text in dict(firmware).items():
            root.write(DMI + name, text + "\n")
        for path, text in dict(files).items():
            root.write(path, text + "\n")
        result = root.run("check")
        return re.search("^platform: (.*)$", result.stdout, re.M)[1], result

    def test_firmware(self):
        for name, firmware in FIRMWARE:
            said, result = self.check("quiet", firmware)
            self.assertEqual(said.split(",")[0], name, firmware)
            self.assertRegex(said, r", by /sys/class/dmi/id/\w+: .")
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_xen_on_aws(self):
        said, _ = self.check("quiet", files={"sys/hypervisor/uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"})
        self.assertEqual(said, "aws, by /sys/hypervisor/uuid: ec2e1916-9099-7caf-fd21-012345abcdef")

    def test_nothing(self):
        for firmware in ({}, {"sys_vendor": "QEMU", "product_name": "Standard PC", "product_uuid": "EC2F2A1C-0000-0000-0000-000000000000"}):
            said, _ = self.check("quiet", firmware)
            self.assertEqual(said, "not found; rd.report.platform= names it")

    def test_arguments_go_before_firmware_and_the_owner_before_both(self):
        firmware = {"sys_vendor": "Hetzner"}
        for cmdline, said in (
            ("ignition.platform.id=gce", "gcp, by ignition.platform.id= on the kernel command line"),
            ("coreos.oem.id=ec2", "aws, by coreos.oem.id= on the kernel command line"),
            ("flatcar.oem.id=packet", "packet, by flatcar.oem.id= on the kernel command line"),
            ("em.events_url=http://h/e", "packet, by em.events_url= on the kernel command line"),
            ("ignition.platform.id=gcp rd.report.platform=vultr", "vultr, by rd.report.platform="),
            ("ignition.platform.id=gcp rd.report.platform=none", "none, by rd.report.platform="),
        ):
            self.assertEqual(self.check(cmdline, firmware)[0], said)

    def test_a_name_that_is_none(self):
        said, result = self.check("rd.report.platform=asure")
        self.assertEqual((said, result.returncode), ("asure, by rd.report.platform=", 1))
        self.assertIn("  rd.report.platform = asure\n    ! rd.report.platform=asure: no such platform; no cloud is told\n", result.stdout)

    def test_the_status_names_it(self):
        server = Server()
        self.addCleanup(server.close)
        for words, name in (("", "vultr"), ("rd.report.platform=none", None)):
            server.requests.clear()
            root = Root(f"rd.report.url={server.url('/')} {words}")
            self.addCleanup(root.remove)
            root.write(DMI + "sys_vendor", "Vultr\n")
            self.assertEqual(root.run("failed").returncode, 0)
            self.assertEqual(json.loads(server.requests[0].body)["platform"], name)


if __name__ == "__main__":
    unittest.main()
