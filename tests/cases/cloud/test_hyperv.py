"""Hyper-V's key-value exchange."""
import unittest
import fcntl
import os
import struct
import time

from cases.cloud import test_azure
from harness.clouds import Clouds, DMI, FIRMWARE, Kernel, answer


class HyperV(Clouds):
    FIRMWARE = {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}

    def setUp(self):
        super().setUp()
        for name, text in self.FIRMWARE.items():
            self.root.write(DMI + name, text)

    records = test_azure.Azure.records
    POOL = test_azure.Azure.POOL

    def test_a_record(self):
        self.root.write(self.POOL, b"")
        said = self.report("", "failed", "--message", "no disk")
        (key, value), = self.records()
        self.assertTrue(value.startswith("result=error|reason=no disk|agent=rdreport/"))
        self.assertEqual(said, f"rdreport: cloud hyperv: delivered ({len(value)} bytes)\n")

    def test_without_the_exchange(self):
        said = self.report("", "failed", code=1)
        self.assertEqual(said, "rdreport: cloud hyperv: not delivered: no key-value exchange is here; put the module hv_utils into the image, "
                               "or set rd.report.platform=none\n")

    def test_a_pool_that_cannot_be_written(self):
        self.root.write(self.POOL + "/x", b"")
        self.assertIn("the key-value exchange: not a file", self.report("", "failed", code=1))

    def test_a_pool_that_another_holds(self):
        with open(self.root.write(self.POOL, b""), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            began = time.monotonic()
            self.report("", "failed")
            self.assertLess(time.monotonic() - began, 2)
        self.assertEqual(len(self.records()), 1)

    def test_by_the_device(self):
        addresses = struct.pack("=BBH", 5, 0, 0).ljust(Kernel.SIZE, b"a")
        item = struct.pack("=BBHIII", Kernel.SET, 0, 0, 1, 5, 6).ljust(Kernel.SIZE, b"x")
        kernel = Kernel(self.root, item, addresses, Kernel.enumerate(0, pool=2), Kernel.enumerate(0, pool=0), Kernel.enumerate(0), Kernel.enumerate(1))
        began = time.monotonic()
        said = self.report("", "failed", "--message", "no disk", "--stage", "disks")
        # It ends with the enumeration.
        self.assertLess(time.monotonic() - began, 4)
        registered, *refused, record, end = kernel.wait_for(7)
        self.assertEqual(registered, bytes([Kernel.REGISTER]).ljust(Kernel.SIZE, b"\0"))
        self.assertEqual([answer[:4] for answer in refused], [Kernel.FAIL, Kernel.FAIL, Kernel.NO_MORE, Kernel.NO_MORE])
        self.assertEqual((record[:4], end[:4]), (bytes(4), Kernel.NO_MORE))
        key, value = Kernel.record(record)
        self.assertEqual(key, "PROVISIONING_REPORT")
        self.assertTrue(value.startswith("result=error|reason=[disks] no disk|agent=rdreport/"), value)
        self.assertEqual(said, f"rdreport: cloud hyperv: delivered ({len(value)} bytes)\n")
        self.assertFalse(os.path.exists(os.path.join(self.root.path, self.POOL)))

    def test_a_host_that_does_not_ask_on(self):
        Kernel(self.root, Kernel.enumerate(0))
        began = time.monotonic()
        self.assertIn("delivered (", self.report("", "failed"))
        self.assertLess(time.monotonic() - began, 4)

    def test_a_host_that_does_not_ask(self):
        for requests in ((), (Kernel.enumerate(0, pool=2),), (Kernel.enumerate(1),), (b"\3\1",)):
            Kernel(self.root, *requests)
            said = self.report("", "failed", code=1, seconds=2)
            self.assertIn("cloud hyperv: not delivered: the host has not asked for the record; put the module", said)

    def test_a_host_that_asks_for_what_is_not_there_without_end(self):
        kernel = Kernel(self.root, *[bytes([n]) * Kernel.SIZE for n in range(256)])
        self.report("", "failed", code=1, seconds=4)
        self.assertEqual(len(kernel.wait_for(257)), 257)
        self.assertEqual({answer[:4] for answer in kernel.answers[1:]}, {Kernel.FAIL, Kernel.NO_MORE})

    def test_a_device_that_does_not_answer(self):
        kernel = Kernel(self.root)
        kernel.write = lambda message: None
        self.assertIn("has not asked", self.report("", "failed", code=1, seconds=2))

    def test_a_device_that_the_daemon_has(self):
        kernel = Kernel(self.root, Kernel.enumerate(0))
        kernel.busy()
        said = self.report("", "failed")
        self.assertIn("delivered (", said)
        self.assertEqual([key for key, _ in self.records()], ["PROVISIONING_REPORT"])
        self.assertEqual(kernel.answers, [])

    def test_success_is_left_to_the_system_that_boots(self):
        kernel = Kernel(self.root, Kernel.enumerate(0), Kernel.enumerate(1))
        self.assertEqual(self.report("", "succeeded"), "rdreport: cloud hyperv: nothing to tell: it has no words for this state\n")
        self.assertEqual(kernel.answers, [])
        self.report("rd.report.platform=hyperv", "succeeded")
        self.assertTrue(Kernel.record(kernel.wait_for(2)[1])[1].startswith("result=success|agent="))


if __name__ == "__main__":
    unittest.main()
