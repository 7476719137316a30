"""Azure's wire server."""
import unittest
import csv
import json
import os
import re
import subprocess
import time
import xml.etree.ElementTree

from harness import BINARY
from harness.clouds import TIME, Clouds, DMI, Kernel, answer


class Azure(Clouds):
    ADDRESS = "168.63.129.16"
    HEALTH, GOAL, XML = "POST /provisioning/health", "GET /machine/?comp=goalstate", "POST /machine?comp=health"
    POOL = "var/lib/hyperv/.kvp_pool_1"
    # Without UEFI the first three fields are in the other order.
    VM_ID = "44454c4c-4200-1035-8052-b4c04f4a4e32"
    VERSION = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]
    TIME = TIME

    def setUp(self):
        super().setUp()
        self.root.write(DMI + "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n")

    def goal_state(self, incarnation=1):
        return answer(200, f"""<?xml version="1.0" encoding="utf-8"?>
<GoalState xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="goalstate10.xsd">
  <Version>2012-11-30</Version><Incarnation>{incarnation}</Incarnation><Machine><ExpectedState>Started</ExpectedState></Machine>
  <Container><ContainerId>c6d5526c-5ac2-4200</ContainerId><RoleInstanceList><RoleInstance>
  <InstanceId>b61f93d0.node-7&amp;x</InstanceId><State>Started</State></RoleInstance></RoleInstanceList></Container></GoalState>""")

    def fields_of(self, report):
        """The fields of a report as azure-init's reader of it splits them."""
        return next(csv.reader([report], delimiter="|"))

    def expect_error(self, report, reason=None, more=()):
        fields = self.fields_of(report)
        times = [field for field in fields if field.startswith("timestamp=")]
        self.assertRegex(times[0], f"^timestamp={self.TIME}$")
        self.assertEqual(fields, ["result=error", "reason=" + (self.MESSAGE if reason is None else reason), "agent=rdreport/" + self.VERSION, *more,
                                  "pps_type=None", "vm_id=" + self.VM_ID, times[0], "documentation_url=https://aka.ms/linuxprovisioningerror"])

    def xml(self, request):
        """What an XML health report says, its shape being right."""
        self.assertLessEqual(len(request.body), 4096)
        self.assertTrue(request.body.startswith(b'<?xml version="1.0" encoding="utf-8"?>\n<Health xmlns:xsi="'))
        self.fields(request, {"x-ms-agent-name": "rdreport", "x-ms-version": "2012-11-30"}, "text/xml; charset=utf-8", self.ADDRESS)
        return self.flat(xml.etree.ElementTree.fromstring(request.body))

    def flat(self, element):
        return (element.tag, [self.flat(child) for child in element] or element.text)

    def expected_xml(self, state, incarnation="1", details=None):
        details = [("Details", [("SubStatus", details[0]), ("Description", details[1])])] if details else []
        return ("Health", [("GoalStateIncarnation", incarnation), ("Container", [
            ("ContainerId", "c6d5526c-5ac2-4200"), ("RoleInstanceList", [("Role", [
                ("InstanceId", "b61f93d0.node-7&x"), ("Health", [("State", state), *details])])])])])

    def json(self, request):
        self.assertLessEqual(len(request.body), 4096)
        self.fields(request, {"x-ms-guest-agent-name": "rdreport/" + self.VERSION}, "application/json", self.ADDRESS)
        return json.loads(request.body)

    def test_failed(self):
        server = self.service(self.ADDRESS, (self.HEALTH, answer(500)), (self.HEALTH, answer(201)))
        said = self.report("", "failed", "--message", self.MESSAGE, "--stage", "disks", "--code", "12")
        self.done()
        for request in server.requests:
            body = self.json(request)
            self.assertEqual(set(body), {"state", "details"})
            self.assertEqual((body["state"], body["details"]["subStatus"]), ("NotReady", "ProvisioningFailed"))
            self.expect_error(body["details"]["description"], "[disks] " + self.MESSAGE, ["stage=disks", "code=12"])
        self.assertRegex(said, r"^rdreport: cloud azure: delivered \(201, \d+ bytes, 2 tries\)\n$")

    def test_other_states(self):
        for state, want, why in (("succeeded", "Ready", None), ("running", "NotReady", "Provisioning"), ("stuck", "NotReady", "Provisioning")):
            self.due.clear()
            server = self.service(self.ADDRESS, (self.HEALTH, answer(200)))
            self.report("rd.report.on=all", state)
            self.done()
            body = self.json(server.requests[0])
            self.assertEqual((body["state"], body.get("details", {}).get("subStatus")), (want, why))
            self.assertEqual("details" in body, why is not None)
            server.close()

    def test_ready_is_golden(self):
        server = self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        self.report("", "succeeded")
        self.assertEqual(server.requests[0].body, b'{"state":"Ready"}')

    def test_as_xml_where_there_is_no_json(self):
        for code in (400, 401, 403, 404, 405, 410):
            self.due.clear()
            server = self.service(self.ADDRESS, (self.HEALTH, answer(code)), (self.GOAL, self.goal_state()), (self.XML, answer(200)))
            said = self.report("", "failed", "--message", self.MESSAGE)
            self.done()
            self.fields(server.requests[1], {"x-ms-agent-name": "rdreport", "x-ms-version": "2012-11-30"}, host=self.ADDRESS)
            found = self.xml(server.requests[2])
            description = found[1][1][1][1][1][0][1][1][1][1][1][1][1]
            self.expect_error(description)
            self.assertEqual(found, self.expected_xml("NotReady", details=("ProvisioningFailed", description)))
            self.assertRegex(said, r"^rdreport: cloud azure: delivered \(200, \d+ bytes\)\n$")
            server.close()

    def test_ready_as_xml(self):
        server = self.service(self.ADDRESS, (self.HEALTH, answer(404)), (self.GOAL, self.goal_state()), (self.XML, answer(202)))
        self.report("", "succeeded")
        self.done()
        self.assertEqual(self.xml(server.requests[2]), self.expected_xml("Ready"))

    def test_a_goal_state_that_is_gone_is_asked_for_again(self):
        server = self.service(self.ADDRESS, (self.HEALTH, answer(404)), (self.GOAL, self.goal_state(1)), (self.XML, answer(410)),
                              (self.GOAL, self.goal_state(2)), (self.XML, answer(200)))
        self.report("", "succeeded")
        self.done()
        self.assertEqual([self.xml(request) for request in server.requests if request.target.endswith("health") and "?" in request.target],
                         [self.expected_xml("Ready", "1"), self.expected_xml("Ready", "2")])

    def test_a_goal_state_that_is_always_gone(self):
        self.service(self.ADDRESS, *[(self.HEALTH, answer(404)), *[(self.GOAL, self.goal_state()), (self.XML, answer(410))] * 4] * 20)
        said = self.report("", "succeeded", code=1, seconds=3)
        self.assertIn("the service answered 410; raise rd.report.timeout=, or set rd.report.platform=none", said)
        self.assertLess(len(self.log), 9 * 8)

    def test_a_service_that_is_out_of_order_is_told_in_both_ways(self):
        self.service(self.ADDRESS, (self.HEALTH, answer(503)), (self.HEALTH, answer(503)), (self.HEALTH, answer(503)),
                     (self.GOAL, answer(503)), (self.HEALTH, answer(429)), (self.GOAL, self.goal_state()), (self.XML, answer(200)))
        said = self.report("", "succeeded", seconds=20)
        self.done()
        self.assertIn("4 tries", said)

    def test_out_of_order_for_long(self):
        self.service(self.ADDRESS, *[(self.HEALTH, answer(503))] * 2, *[(self.HEALTH, answer(503)), (self.GOAL, answer(503))] * 99)
        said = self.report("", "failed", code=1, seconds=4)
        self.assertRegex(said, r"not delivered in \d tries: the service answered 503; ")

    def test_forbidden_is_final(self):
        self.service(self.ADDRESS, (self.HEALTH, answer(403)), (self.GOAL, answer(403)))
        said = self.report("", "failed", code=1)
        self.done()
        self.assertIn("not delivered: the service answered 403; ", said)

    def test_goal_states_that_are_none(self):
        for said, why in ((answer(200), "is not XML"), (answer(200, "{}"), "is not XML"), (answer(200, "<GoalState/>"), "lacks what is needed"),
                          (answer(200, "<G><Incarnation>1</Incarnation><ContainerId>c</ContainerId></G>"), "lacks what is needed")):
            self.due.clear()
            server = self.service(self.ADDRESS, *[(self.HEALTH, answer(404)), (self.GOAL, said)] * 20)
            line = self.report("", "failed", code=1, seconds=2)
            self.assertIn(f"the service's answer {why}", line)
            server.close()

    def test_long_messages(self):
        for message in ("<&>\"'" * 2000, "\u00e9\U0001f600" * 2000, "|" * 10000, "\"" * 10000, "x" * 10000):
            self.due.clear()
            server = self.service(self.ADDRESS, (self.HEALTH, answer(404)), (self.GOAL, self.goal_state()), (self.XML, answer(200)))
            self.root.write(self.POOL, b"")
            self.report("", "failed", "--message", message)
            self.done()
            in_json = self.json(server.requests[0])["details"]["description"]
            in_xml = self.xml(server.requests[2])[1][1][1][1][1][0][1][1][1][1][1][1][1]
            in_pool = self.records()[0][1]
            self.assertLessEqual(len(in_pool.encode()), 1022)
            for report, least in ((in_json, 300), (in_xml, 250), (in_pool, 150)):
                reason = self.fields_of(report)[1].removeprefix("reason=")
                self.assertEqual(message[:len(reason)], reason)
                self.assertGreater(len(reason), least)
                self.expect_error(report, reason)
            server.close()

    def records(self):
        """The records of the pool, each a key and a value."""
        with open(os.path.join(self.root.path, self.POOL), "rb") as file:
            content = file.read()
        self.assertEqual(len(content) % 2560, 0)
        records = [content[at:at + 2560] for at in range(0, len(content), 2560)]
        return [tuple(part.rstrip(b"\0").decode() for part in (record[:512], record[512:])) for record in records]

    def test_the_exchange_goes_before_the_request(self):
        path = self.root.write(self.POOL, b"OTHER".ljust(512, b"\0") + b"value".ljust(2048, b"\0"))
        written = []
        server = self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        behave = server.behave
        server.behave = lambda connection, server: (written.append(len(self.records())), behave(connection, server))
        self.report("", "failed", "--message", self.MESSAGE)
        self.done()
        self.assertEqual(written, [2])
        other, (key, value) = self.records()
        self.assertEqual((other, key), (("OTHER", "value"), "PROVISIONING_REPORT"))
        self.expect_error(value)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o644)

    def test_success_in_the_exchange(self):
        self.root.write(self.POOL, b"")
        self.root.write("sys/firmware/efi/x", "")
        self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        self.report("", "succeeded")
        (key, value), = self.records()
        self.assertRegex(value, f"^result=success[|]agent=rdreport/{re.escape(self.VERSION)}[|]pps_type=None[|]vm_id={self.UUID}[|]timestamp={self.TIME}$")

    def test_the_exchange_works_without_a_network(self):
        self.ip("link set cloud0 down")
        self.root.write(self.POOL, b"")
        self.report("", "failed", code=1, seconds=1)
        self.assertEqual([key for key, _ in self.records()], ["PROVISIONING_REPORT"])

    def test_the_exchange_by_the_device(self):
        """The host may ask before the request, and when it has come."""
        kernel = Kernel(self.root, None, Kernel.enumerate(0), Kernel.enumerate(1))
        was_registered = []
        server = self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        behave = server.behave
        server.behave = lambda connection, server: (was_registered.append(kernel.registered.is_set()), kernel.go_on.set(),
                                                    behave(connection, server))
        said = self.report("", "failed", "--message", self.MESSAGE)
        self.done()
        self.assertEqual(was_registered, [True])
        self.expect_error(Kernel.record(kernel.wait_for(2)[1])[1])
        self.assertIn("cloud azure: delivered (200, ", said)

    def test_a_host_that_does_not_ask_takes_nothing_from_the_report(self):
        Kernel(self.root)
        self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        self.assertIn("cloud azure: delivered (200, ", self.report("", "failed", seconds=3))

    def test_the_exchange_while_the_service_is_away(self):
        kernel = Kernel(self.root, Kernel.enumerate(0), Kernel.enumerate(1))
        self.ip("link set cloud0 down")
        self.report("", "failed", code=1, seconds=2)
        self.assertEqual(Kernel.record(kernel.wait_for(2)[1])[0], "PROVISIONING_REPORT")

    def test_records_of_an_earlier_boot_are_thrown_away(self):
        path = self.root.write(self.POOL, b"OLD".ljust(2560, b"\0"))
        os.utime(path, (1, 1))
        self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        self.report("", "failed")
        self.assertEqual([key for key, _ in self.records()], ["PROVISIONING_REPORT"])

    def test_the_address_from_dhcp(self):
        for path, line in (("run/systemd/netif/leases/2", "ADDRESS=10.0.0.4\nOPTION_245=c0000214\n"),
                           ("run/NetworkManager/devices/2", "[device]\nprivate_245=c0:00:02:14\n"),
                           ("tmp/dhclient.eth0.lease", "lease {\n  option unknown-245 c0:0:2:14;\n  option unknown-245 c0:00:02:14;\n}\n")):
            self.due.clear()
            server = self.service("192.0.2.20", (self.HEALTH, answer(200)))
            file = self.root.write(path, line)
            self.report("", "failed")
            self.done()
            self.assertEqual(server.requests[0].headers["host"], "192.0.2.20")
            os.remove(file)
            server.close()

    def test_no_proxy_is_asked(self):
        proxy = self.service("192.0.2.50", port=3128)
        self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        self.report("rd.report.proxy=http://192.0.2.50:3128", "failed")
        self.done()
        self.assertEqual(proxy.connections, 0)

    def test_no_wait_for_a_lease(self):
        self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        began = time.monotonic()
        self.report("", "failed")
        self.assertLess(time.monotonic() - began, 1)

    def test_away_for_longer_than_the_others_have_time(self):
        self.ip(f"address add {self.ADDRESS}/32 dev cloud0")
        status = self.service("192.0.2.16", ("POST /s", answer(200)))
        self.root.write("proc/cmdline", "rd.report.url=http://192.0.2.16/s")
        began = time.monotonic()
        with subprocess.Popen([BINARY, "--root", self.root.path, "failed"], stderr=subprocess.PIPE, text=True) as process:
            self.assertIn("rd.report.url=http://192.0.2.16/s: delivered", process.stderr.readline())
            self.assertLess(time.monotonic() - began, 5)
            # Nobody listens, and then the service is out of order, until the usual minute is over.
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(20)
            broken = self.service(self.ADDRESS)
            broken.behave = lambda connection, server: connection.answer(answer(503))
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(42)
            self.assertGreater(len(broken.requests), 3)
            broken.close()
            self.service(self.ADDRESS, (self.HEALTH, answer(200)))
            self.assertRegex(process.communicate(timeout=40)[1], r"cloud azure: delivered \(200, \d+ bytes, \d+ tries\)")
        self.done()
        self.assertEqual(len(status.requests), 1)

    def test_success_waits_no_longer_than_a_boot_may(self):
        self.ip(f"address add {self.ADDRESS}/32 dev cloud0")
        self.root.write("proc/cmdline", "")
        began = time.monotonic()
        self.assertEqual(self.root.run("succeeded").returncode, 1)
        self.assertLess(time.monotonic() - began, 11)


if __name__ == "__main__":
    unittest.main()
