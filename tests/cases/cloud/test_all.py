"""What all clouds have in common: golden bodies, when they are asked, variables, memory."""
import unittest
import json
import os
import re
import subprocess
import threading
import time

from cases.cloud import test_aws, test_azure, test_gcp, test_packet
from harness import BINARY, Root
from harness.clouds import Clouds, DMI, answer, certificate


class Golden(Clouds):
    """The bodies to the byte, with what differs from run to run left out."""

    WORDS = ("failed", "--message", "no <disk> \u00e9", "--stage", "disks", "--code", "1001")
    REPORT = ("result=error|reason=[disks] no <disk> \u00e9|agent=rdreport/VERSION|stage=disks|code=1001|pps_type=None|vm_id=" + test_azure.Azure.VM_ID +
              "|timestamp=TIME|documentation_url=https://aka.ms/linuxprovisioningerror")
    MESSAGE = "[disks] no <disk> \u00e9"

    def bodies(self, cmdline, address, *lines):
        server = self.service(address, *lines)
        self.report(cmdline, *self.WORDS)
        self.done()
        server.close()
        for old, new in ((re.escape(test_azure.Azure.VERSION), "VERSION"), (test_azure.Azure.TIME, "TIME"), (r"[0-9a-f]{8}-[0-9a-f-]{27}(?=\")(?<!" + self.UUID + ")", "ID"),
                         (r"\d{10}\.0", "SECONDS"), (r'(?<="duration":)\d+\.0', "UPTIME")):
            for request in server.requests:
                request.body = re.sub(old, new, request.body.decode()).encode()
        return [request.body.decode() for request in server.requests]

    def test_all(self):
        cfn = f'"Reason":"{self.MESSAGE}","UniqueId":"{self.UUID}","Data":"ID"}}'
        heat = f'{{"status":"FAILURE","reason":"{self.MESSAGE}","id":"{self.UUID}","data":"ID"}}'
        brief = f'{{"schema":1,"report_id":"ID","state":"failed","stage":"disks","message":"{self.MESSAGE}","code":1001,"time":"TIME"}}'
        xml_report = self.REPORT.replace("<", "&lt;").replace(">", "&gt;")
        for cmdline, address, lines, expected in (
            ("em.events_url=http://192.0.2.70/e", "192.0.2.70", ["POST /e"], [f'{{"type":"failure","msg":"{self.MESSAGE}"}}']),
            ("tinkerbell=http://192.0.2.70", "192.0.2.70", ["POST /phone-home"], [f'{{"type":"failure","reason":"{self.MESSAGE}"}}']),
            ("ignition.platform.id=packet rd.report.packet.url=http://192.0.2.70/m", "192.0.2.70", ["GET /m", "POST /s"],
             ["", f'{{"state":"failed","message":"{self.MESSAGE}","code":1001}}']),
            ("rd.report.platform=azure", test_azure.Azure.ADDRESS, [test_azure.Azure.HEALTH, test_azure.Azure.GOAL, test_azure.Azure.XML], [
                f'{{"state":"NotReady","details":{{"subStatus":"ProvisioningFailed","description":"{self.REPORT}"}}}}', "",
                '<?xml version="1.0" encoding="utf-8"?>\n<Health xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
                'xmlns:xsd="http://www.w3.org/2001/XMLSchema"><GoalStateIncarnation>1</GoalStateIncarnation><Container>'
                '<ContainerId>c6d5526c-5ac2-4200</ContainerId><RoleInstanceList><Role><InstanceId>b61f93d0.node-7&amp;x</InstanceId><Health>'
                '<State>NotReady</State><Details><SubStatus>ProvisioningFailed</SubStatus><Description>' + xml_report +
                '</Description></Details></Health></Role></RoleInstanceList></Container></Health>']),
            ("rd.report.platform=gcp", "169.254.169.254", [test_gcp.Google.PATH], [brief]),
            ("rd.report.aws.url=http://192.0.2.70/x", "192.0.2.70", ["PUT /x"], ['{"Status":"FAILURE",' + cfn]),
            ("rd.report.openstack.url=http://192.0.2.70/x/signal", "192.0.2.70", ["POST /x/signal"], [heat]),
            ("rd.report.openstack.url=http://192.0.2.70/waitcondition/x", "192.0.2.70", ["PUT /waitcondition/x"], ['{"Status":"FAILURE",' + cfn]),
        ):
            self.due.clear()
            said = {"GET /m": answer(200, '{"user_state_url":"http://192.0.2.70/s"}'), test_azure.Azure.HEALTH: answer(404), test_azure.Azure.GOAL: test_azure.Azure.goal_state(self)}
            got = self.bodies(cmdline, address, *[(line, said.get(line, answer(200))) for line in lines])
            self.assertEqual(got, expected)

    def test_events(self):
        for key, level, origin in (("maas", '"level":"ERROR",', "curtin"), ("cloudinit", "", "cloudinit")):
            self.due.clear()
            body, = self.bodies(f"rd.report.{key}.url=http://192.0.2.70/x", "192.0.2.70", ("POST /x", answer(204)))
            self.assertEqual(body, '{"name":"rdreport","description":"[disks] no <disk> \\u00e9","event_type":"finish",'
                             f'"origin":"{origin}","timestamp":SECONDS,{level}"result":"FAIL","duration":UPTIME}}')


class Unasked(Clouds):
    """An image that has rdreport in it, on machines that nobody has set it up for."""

    def test_elsewhere_success_ends_at_once(self):
        for words in ("succeeded", "running"):
            log = os.path.join(self.root.path, "strace")
            # There is a journal to be found.
            os.makedirs(os.path.join(self.root.path, "run/log/journal"), exist_ok=True)
            self.root.write("proc/cmdline", "root=LABEL=root quiet\n")
            self.root.write(DMI + "sys_vendor", "QEMU\n")
            began = time.monotonic()
            result = subprocess.run(["strace", "-f", "-o", log, BINARY, "--root", self.root.path, words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertLess(time.monotonic() - began, 2)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
            calls = [line.split(None, 1)[1] for line in self.root_text("strace").splitlines()]
            # No process, no journal, no marker, and nothing is waited for.
            self.assertFalse([call for call in calls if re.match(r"(clone|fork|vfork|connect|sendto|ppoll|poll|mkdirat|nanosleep)", call)], calls)
            # Each path is walked name by name: what is looked for in /run are credentials, and nothing else.
            runs = [re.match(r'openat[(]\d+, "run", .* = (\d+)$', call) for call in calls]
            below = {re.match(rf'\w+[(]{run[1]}, "([^"]*)"', calls[index + 1])[1] for index, run in enumerate(runs) if run}
            self.assertEqual(below - {"credentials"}, set())
            # Below a root each folder of a path is opened by itself; what is opened in the end are few files.
            walk = re.compile(r"(openat\(.*O_PATH|readlinkat|close)\b")
            self.assertLess(len([call for call in calls if not walk.match(call)]), 100)

    def test_a_cloud_without_a_network_does_not_hold_up_the_boot(self):
        """Not even to look at the journal."""
        self.root.write(DMI + "sys_vendor", "Scaleway\n")
        self.ip("link set cloud0 down")
        for more in ("", "ignition.platform.id=scaleway"):
            began = time.monotonic()
            self.assertEqual(self.report(more, "succeeded"), "")
            self.assertLess(time.monotonic() - began, 1)
            self.assertFalse(os.path.exists(os.path.join(self.root.path, "run/rdreport")))

    def test_a_cloud_with_a_network_is_told(self):
        self.root.write(DMI + "sys_vendor", "Scaleway\n")
        self.service("169.254.42.42", ("PATCH /state", answer(200)))
        self.assertIn("cloud scaleway: delivered", self.report("", "succeeded"))
        self.done()

    def test_a_boot_that_provisions_waits_for_the_network(self):
        self.service("169.254.42.42", *[("PATCH /state", answer(200))] * 2)
        for words in ("ignition.firstboot ignition.platform.id=scaleway", "rd.report.platform=scaleway"):
            self.ip("address flush dev cloud0")
            late = threading.Timer(2, self.ip, ["address add 169.254.42.42/32 dev cloud0"])
            late.start()
            self.assertIn("cloud scaleway: delivered", self.report(words, "succeeded"))
            late.join()
        self.done()

    def test_a_setting_of_a_cloud_waits_for_the_network(self):
        self.service("192.0.2.71", *[("POST /x", answer(200))] * 2)
        for key in ("maas", "cloudinit"):
            self.ip("address flush dev cloud0")
            late = threading.Timer(2, self.ip, ["address add 192.0.2.71/32 dev cloud0"])
            late.start()
            self.assertIn(f"cloud {key}: delivered", self.report(f"rd.report.{key}.url=http://192.0.2.71/x", "succeeded"))
            late.join()
        self.done()

    def test_a_failure_waits_ten_seconds_for_a_network_that_nobody_set_up(self):
        """Not for Azure's five minutes: somebody may wait for the shell."""
        self.root.write(DMI + "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n")
        self.ip("link set cloud0 down")
        self.root.write("proc/cmdline", "quiet\n")
        began = time.monotonic()
        result = self.root.run("failed")
        self.assertIn("cloud azure: not delivered", result.stderr)
        self.assertIn("no network", result.stderr)
        self.assertLess(time.monotonic() - began, 25)
        self.assertGreater(time.monotonic() - began, 9)


class Variables(Clouds):
    """In every URL that a setting gives."""

    def test_they_are_replaced(self):
        self.root.write("proc/sys/kernel/hostname", "n\u00e9/7\n")
        name = "n%C3%A9%2F7"
        metadata = json.dumps({"user_state_url": "http://192.0.2.60/state"})
        for words, script in (
            ("rd.report.platform=packet rd.report.packet.url=http://192.0.2.60/${hostname}/m",
             [(f"GET /{name}/m", answer(200, metadata)), ("POST /state", answer(200))]),
            ("rd.report.aws.url=http://192.0.2.60/${hostname}?X-Sig=a%2Fb", [(f"PUT /{name}?X-Sig=a%2Fb", answer(200))]),
            ("rd.report.openstack.url=http://192.0.2.60/${hostname}/signal", [(f"POST /{name}/signal", answer(200))]),
            ("rd.report.maas.url=http://192.0.2.60/${hostname}/${state}", [(f"POST /{name}/failed", answer(204))]),
            ("rd.report.cloudinit.url=http://192.0.2.60/${stage}/${uuid}", [(f"POST /disks/{self.UUID}", answer(200))]),
        ):
            self.due.clear()
            server = self.service("192.0.2.60", *script)
            self.report(words, "failed", "--stage", "disks")
            self.done()
            server.close()

    def test_one_that_is_not_known_is_warned_about(self):
        for key in ("packet", "aws", "openstack", "maas", "cloudinit"):
            for value, why in (("http://192.0.2.60/${nothing}?secret", "/${nothing}?*** holds a ${variable} that is not known"),
                               ("192.0.2.60", "192.0.2.60 is not a URL that begins with http:// or https://")):
                cmdline = f"rd.report.platform=packet rd.report.{key}.url={value}"
                said = self.report(cmdline, "failed", code=1, seconds=1)
                self.assertIn(f"rdreport: rd.report.{key}.url=", said)
                self.assertIn(why, said)
                self.assertNotIn("secret", said)
                if key != "openstack":
                    self.assertIn("not delivered: the URL cannot be used", said)
                self.assertEqual(self.root.run("check").returncode, 1)


class Memory(Clouds):
    """The exact resident memory of the process that tells a cloud, read while its request is held back."""

    MOST_KB = 1536
    TOKEN, IDENTITY = test_aws.CloudFormation.TOKEN, test_aws.CloudFormation.IDENTITY

    def measured(self, cmdline, address, *script, at, **options):
        server = self.service(address, *script, **options)
        behave, found = server.behave, []

        def look(connection, server):
            # Between the request and its answer.
            request = connection.request
            connection.request = lambda: (request(), found.append(self.resident_kb()))[0]
            behave(connection, server)

        server.behave = look
        said = self.report(cmdline, "failed", "--message", self.MESSAGE * 20)
        self.done()
        self.assertTrue(found and all(found), said)
        print(f"{self.id().split('.')[-1]}: {at}: {max(found)} KB", flush=True)
        self.assertLessEqual(max(found), self.MOST_KB)

    def resident_kb(self):
        """Of the largest process of the binary."""
        largest = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(BINARY):
                    continue
                with open(f"/proc/{pid}/smaps_rollup") as rollup:
                    largest = max(largest, *(int(line.split()[1]) for line in rollup if line.startswith("Rss:")))
            except (OSError, ValueError):
                continue
        return largest

    def journal(self):
        journal = Root("")
        self.addCleanup(journal.remove)
        os.rename(os.path.join(journal.path, "run"), os.path.join(self.root.path, "run"))

    def test_azure(self):
        self.journal()
        self.measured("rd.report.platform=azure", test_azure.Azure.ADDRESS, (test_azure.Azure.HEALTH, answer(404)), (test_azure.Azure.GOAL, test_azure.Azure.goal_state(self)),
                      (test_azure.Azure.XML, answer(200)), at="the wire server")

    def test_packet(self):
        self.journal()
        test_packet.Packet.events(self, ("POST /events", answer(200)))
        metadata = json.dumps({"many": ["192.0.2.1"] * 1500, **test_packet.Packet.METADATA})
        self.measured("ignition.platform.id=packet rd.report.ca=/ca.pem", test_packet.Packet.ADDRESS, ("GET /metadata", answer(200, metadata)),
                      at="metadata over TLS", port=443, host=test_packet.Packet.HOST, tls=certificate(test_packet.Packet.HOST))

    def test_aws(self):
        self.journal()
        test_aws.CloudFormation.imds(self, document=test_aws.CloudFormation.DOCUMENT, signature=test_aws.CloudFormation.SIGNATURE)
        host = "cloudformation.eu-west-1.amazonaws.com"
        self.measured(test_aws.CloudFormation.SETTINGS, "192.0.2.32", (test_aws.CloudFormation.request(self, "FAILURE"), answer(200)), at="the API over TLS", port=443,
                      host=host, tls=certificate(host))


if __name__ == "__main__":
    unittest.main()
