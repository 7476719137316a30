"""Reports to clouds: each service is a mock at its real address, on an interface of a network namespace made for the test, and what it is
sent is looked at strictly."""
import base64
import csv
import ctypes
import email.utils
import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import termios
import threading
import time
import tty
import unittest
import xml.etree.ElementTree

from peers import BINARY, InNamespace, Pki, Root, Server
from test_clock import IN_FUTURE, YEAR_2037, made_at

DMI = "sys/class/dmi/id/"
# What each kind of machine has in its firmware, and what it is then.
FIRMWARE = [
    ("azure", {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77", "sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}),
    ("hyperv", {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}),
    ("gcp", {"product_name": "Google Compute Engine"}),
    ("gcp", {"product_serial": "GoogleCloud-0123456789ABCDEF"}),
    ("aws", {"sys_vendor": "Amazon EC2", "product_uuid": "EC2F2A1C-0000-0000-0000-000000000000"}),
    ("aws", {"product_uuid": "EC2F2A1C-0000-0000-0000-000000000000", "product_serial": "ec2f2a1c-0000-0000-0000-000000000000"}),
    ("openstack", {"product_name": "OpenStack Nova"}),
    ("openstack", {"product_name": "OpenStack Compute"}),
    ("openstack", {"chassis_asset_tag": "OpenTelekomCloud"}),
    ("openstack", {"chassis_asset_tag": "SAP CCloud VM"}),
    ("openstack", {"chassis_asset_tag": "HUAWEICLOUD"}),
    ("vmware", {"product_name": "VMware Virtual Platform"}),
    ("vmware", {"product_name": "VMware7,1"}),
    ("scaleway", {"sys_vendor": "Scaleway"}),
    ("oraclecloud", {"chassis_asset_tag": "OracleCloud.com"}),
    ("aliyun", {"product_name": "Alibaba Cloud ECS"}),
    ("digitalocean", {"sys_vendor": "DigitalOcean"}),
    ("hetzner", {"sys_vendor": "Hetzner"}),
    ("vultr", {"sys_vendor": "Vultr"}),
    ("akamai", {"sys_vendor": "Akamai"}),
    ("akamai", {"sys_vendor": "Linode"}),
    ("upcloud", {"sys_vendor": "UpCloud"}),
    ("exoscale", {"product_name": "Exoscale Compute Platform"}),
    ("cloudstack", {"product_name": "CloudStack KVM Hypervisor"}),
    ("cloudsigma", {"product_name": "CloudSigma"}),
    ("brightbox", {"product_serial": "srv-abcde.gb1.brightbox.com"}),
]


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
        self.assertIn("rd.report.platform=asure: no such platform", result.stderr)

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



def answer(status, body=b"", *fields):
    """An answer with its length said."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def certificate(*names):
    """The name under which [`Pki`] has a certificate for these hosts, signed by ca.pem."""
    stem = "cloud-" + names[0]
    path = Pki.file(stem)
    if not os.path.exists(path + ".pem"):
        with open(path + ".ext", "w") as file:
            file.write("basicConstraints = CA:FALSE\nsubjectAltName = " + ",".join(f"DNS:{name}" for name in names) + "\n")
        run = lambda *words: subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL)
        run("req", "-new", "-key", Pki.file("p256.key"), "-subj", "/CN=cloud", "-out", path + ".csr")
        run("x509", "-req", "-in", path + ".csr", "-CA", Pki.file("ca.pem"), "-CAkey", Pki.file("ca.key"), "-days", "30",
            "-set_serial", str(abs(hash(names))), "-extfile", path + ".ext", "-out", path + ".pem")
        with open(path + ".key", "wb") as file:
            file.write(Pki.read("p256.key"))
    return stem


class Clouds(InNamespace):
    """A machine in a cloud."""

    MESSAGE = "disk \"x\" not found: <&> \u00e9\U0001f600"
    UUID = "4c4c4544-0042-3510-8052-b4c04f4a4e32"

    def setUp(self):
        self.ip("link set lo up")
        # A cable to nowhere; kernels without it (veth) have no containers either, while dummy is often left out.
        self.ip("link add cloud0 type veth peer name cloud1")
        self.ip("link set cloud0 up")
        self.ip("link set cloud1 up")
        self.log, self.due = [], []
        self.root = Root("", journal=None)
        self.addCleanup(self.root.remove)
        self.root.write(DMI + "product_uuid", self.UUID.upper() + "\n")

    def ip(self, words):
        subprocess.run(["ip", *words.split()], check=True)

    def service(self, address, *script, port=80, host=None, tls=None):
        """A service at its address that expects these requests in this order, each `(method and target, answer)`. A number in place of an
        answer closes the connection after so many seconds. With `host` it is found by that name."""
        prefix = "128 nodad" if ":" in address else "32"
        self.ip(f"address replace {address}/{prefix} dev cloud0")
        due = list(script)
        self.due.append(due)

        def behave(connection, server):
            request = connection.request()
            line = f"{request.method} {request.target}"
            self.log.append(line)
            if not due or due[0][0] != line:
                self.log.append(f"not expected, but {due[0][0] if due else 'nothing'}")
                connection.sock.sendall(answer(418))
                return
            said = due.pop(0)[1]
            if isinstance(said, (int, float)):
                time.sleep(said)
            else:
                connection.sock.sendall(said)

        if tls:
            self.root.write("ca.pem", Pki.read("ca.pem"))
        if host:
            with open(self.root.write("etc/hosts", self.root_text("etc/hosts")), "a") as file:
                file.write(f"{address} {host}\n")
        server = Server(behave, tls=tls, address=(address, port))
        self.addCleanup(server.close)
        return server

    def root_text(self, path):
        path = os.path.join(self.root.path, path)
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def report(self, cmdline, *args, code=0, seconds=8, again=False):
        """Reports, in so many seconds; gives what was said. Unless it is `again`, nothing was reported in this boot before."""
        self.root.write("proc/cmdline", f"quiet rd.report.timeout={seconds} {cmdline}\n")
        began = time.monotonic()
        result = self.root.run(*args, is_new_boot=not again)
        self.assertLess(time.monotonic() - began, seconds + 2)
        self.assertEqual(result.returncode, code, f"{result.stderr}\n{self.log}")
        return result.stderr

    def done(self):
        """All that was expected was asked, and nothing else."""
        self.assertEqual([line for due in self.due for line in due], [], self.log)
        self.assertFalse([line for line in self.log if line.startswith("not expected")], self.log)

    def fields(self, request, own=(), content_type=None, host=None):
        """The header of a request: these own fields, and what every request has."""
        usual = {"host", "user-agent", "accept", "connection", "x-report-id", "content-length"}
        expected = usual | {name.lower() for name in dict(own)} | ({"content-type"} if content_type else set())
        self.assertEqual(set(request.headers), expected)
        self.assertEqual(request.headers.get("content-type"), content_type)
        self.assertEqual(request.headers["accept"], "*/*")
        for name, value in dict(own).items():
            self.assertEqual(request.headers[name.lower()], value)
        if host:
            self.assertEqual(request.headers["host"], host)


class Packet(Clouds):
    HOST, ADDRESS = "metadata.packet.net", "192.0.2.10"
    METADATA = {"id": "7ad2c4f5", "hostname": "node-7", "network": {"addresses": [{"id": "x", "phone_home_url": "wrong"}]},
                "phone_home_url": "http://tinkerbell.sjc1.packet.net/phone-home"}

    def metadata(self, said, more=()):
        said = said if isinstance(said, bytes) else answer(200, json.dumps(said))
        return self.service(self.ADDRESS, *more, ("GET /metadata", said), port=443, host=self.HOST, tls=certificate(self.HOST))

    def events(self, *script):
        return self.service("192.0.2.11", *script, host="tinkerbell.sjc1.packet.net")

    def test_failed(self):
        metadata = self.metadata(self.METADATA)
        events = self.events(("POST /events", answer(500)), ("POST /events", answer(503)), ("POST /events", answer(200)))
        said = self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed", "--stage", "disks", "--message", self.MESSAGE,
                           "--code", "1042")
        self.done()
        self.fields(metadata.requests[0], host=self.HOST)
        self.assertEqual(metadata.requests[0].body, b"")
        for request in events.requests:
            self.fields(request, content_type="application/json", host="tinkerbell.sjc1.packet.net")
            self.assertEqual(json.loads(request.body), {"state": "failed", "message": "[disks] " + self.MESSAGE, "code": 1042})
        self.assertRegex(said, r"^rdreport: cloud packet: delivered \(200, \d+ bytes, 4 tries\)\n$")

    def test_the_whole_way_of_a_machine(self):
        for words, state, message, code in (
            (("running", "--stage", "fetch", "--message", "fetching"), "running", "[fetch] fetching", None),
            (("stuck", "--message", "disks"), "running", "disks", None),
            (("succeeded", "--code", "7"), "succeeded", "provisioning succeeded", None),
        ):
            self.due.clear()
            server = self.metadata(self.METADATA)
            events = self.events(("POST /events", answer(200)))
            self.report("ignition.platform.id=packet rd.report.ca=/ca.pem rd.report.on=all", *words)
            self.done()
            body = json.loads(events.requests[0].body)
            self.assertEqual(body, {"state": state, "message": message})
            server.close()
            events.close()

    def test_the_message_is_from_the_journal(self):
        journal = Root("")
        self.addCleanup(journal.remove)
        os.rename(os.path.join(journal.path, "run"), os.path.join(self.root.path, "run"))
        self.metadata(self.METADATA)
        events = self.events(("POST /events", answer(200)))
        self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed")
        message = json.loads(events.requests[0].body)["message"]
        self.assertIn("vdz", message)
        self.assertNotIn("\n", message)

    def test_user_state_url_goes_before(self):
        self.metadata({**self.METADATA, "user_state_url": "http://tinkerbell.sjc1.packet.net/user/state"})
        self.events(("POST /user/state", answer(202)))
        self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed")
        self.done()

    def test_the_second_host(self):
        host = "metadata.platformequinix.com"
        self.service("192.0.2.10", ("GET /metadata", answer(500)), port=443, host=self.HOST, tls=certificate(self.HOST))
        self.service("192.0.2.12", ("GET /metadata", answer(200, json.dumps(self.METADATA))), port=443, host=host, tls=certificate(host))
        self.events(("POST /events", answer(200)))
        self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed")
        self.done()

    def test_own_metadata(self):
        self.service("192.0.2.13", ("GET /metadata", answer(200, json.dumps(self.METADATA))), port=50061)
        self.events(("POST /events", answer(200)))
        self.report("rd.report.platform=packet rd.report.packet.url=http://192.0.2.13:50061/metadata", "failed")
        self.done()

    def test_metadata_that_are_none(self):
        for said, why in (
            (answer(200), "the service's answer is not JSON"),
            (answer(200, "<html>no</html>"), "the service's answer is not JSON"),
            (answer(200, "{\"id\":\"x\"}"), "the service's answer lacks what is needed from it"),
            (answer(200, "{\"phone_home_url\":null}"), "the service's answer lacks what is needed from it"),
            (answer(406), "the service answered 406"),
        ):
            self.due.clear()
            server = self.metadata(said)
            line = self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed", code=1)
            self.done()
            self.assertEqual(line, f"rdreport: cloud packet: not delivered: {why}; set rd.report.packet.url= to where the metadata are, or "
                                   "rd.report.platform=none\n")
            server.close()

    def test_a_refusal_is_final(self):
        self.metadata(self.METADATA)
        self.events(("POST /events", answer(403)))
        line = self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed", code=1)
        self.done()
        self.assertIn("cloud packet: not delivered in 2 tries: the service answered 403; ", line)

    def test_out_of_order_for_long(self):
        self.metadata(self.METADATA)
        self.events(*[("POST /events", answer(503))] * 99)
        line = self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", "failed", code=1, seconds=4)
        self.assertRegex(line, r"not delivered in [4-9] tries: the service answered 503; ")

    def test_events_url(self):
        for state, kind in (("failed", "failure"), ("succeeded", "activate"), ("running", "info"), ("stuck", "info")):
            self.due.clear()
            server = self.service("192.0.2.14", ("POST /e?x=1", answer(200)))
            self.report("em.events_url=http://192.0.2.14/e?x=1 rd.report.on=all", state, "--message", self.MESSAGE)
            self.done()
            self.fields(server.requests[0])
            self.assertEqual(json.loads(server.requests[0].body), {"type": kind, "msg": self.MESSAGE})
            server.close()

    def test_tinkerbell(self):
        cmdline = "tinkerbell=http://192.0.2.15/ instance_id=abc-1 rd.report.on=all"
        for words, body in ((("failed", "--message", self.MESSAGE), {"type": "failure", "reason": self.MESSAGE}),
                            (("succeeded",), {"instance_id": "abc-1"})):
            self.due.clear()
            server = self.service("192.0.2.15", ("POST /phone-home", answer(200)))
            self.report(cmdline, *words)
            self.done()
            self.fields(server.requests[0], content_type="application/json")
            self.assertEqual(json.loads(server.requests[0].body), body)
            server.close()
        self.assertEqual(self.report(cmdline, "running"), "rdreport: cloud packet: nothing to tell: it has no words for this state\n")

    def test_tinkerbell_asks_for_the_instance(self):
        server = self.service("192.0.2.15", ("GET /m", answer(200, json.dumps(self.METADATA))), ("POST /phone-home", answer(200)))
        self.report("tinkerbell=http://192.0.2.15 rd.report.packet.url=http://192.0.2.15/m", "succeeded")
        self.done()
        self.assertEqual(json.loads(server.requests[1].body), {"instance_id": "7ad2c4f5"})

    def test_a_clock_of_long_ago(self):
        """The certificate is only valid at the time that the service itself tells in plain."""
        young = made_at(YEAR_2037)
        self.addCleanup(os.remove, young)
        date = "Date: " + email.utils.formatdate(IN_FUTURE, usegmt=True)
        plain = self.service("127.0.0.1", ("HEAD /", answer(301, b"", date)))
        secret = self.service("127.0.0.1", ("GET /metadata", answer(200, json.dumps(self.METADATA))), port=443, tls="future")
        self.events(("POST /events", answer(200)))
        proxy = self.service("192.0.2.50", port=3128)
        self.root.write("ca.pem", Pki.read("roots.pem"))
        self.root.write("proc/cmdline", "rd.report.platform=packet rd.report.packet.url=https://127.0.0.1/metadata rd.report.ca=/ca.pem "
                        "rd.report.timeout=8 rd.report.proxy=http://192.0.2.50:3128")
        done = subprocess.run([young, "--root", self.root.path, "failed"], stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.done()
        self.assertEqual((len(plain.requests), len(secret.requests), proxy.connections), (1, 1, 0))

    def test_a_clock_ahead(self):
        """With the owner's leave, and asked for the date once for all tries."""
        old = made_at(1_546_300_800)
        self.addCleanup(os.remove, old)
        date = "Date: " + email.utils.formatdate(1_577_880_000, usegmt=True)
        self.service("127.0.0.1", ("HEAD /", answer(200, b"", date)))
        self.service("127.0.0.1", ("GET /metadata", answer(503)), ("GET /metadata", answer(200, json.dumps(self.METADATA))), port=443, tls="expired")
        self.events(("POST /events", answer(200)))
        self.root.write("ca.pem", Pki.read("roots.pem"))
        self.root.write("proc/cmdline", "rd.report.platform=packet rd.report.packet.url=https://127.0.0.1/metadata rd.report.ca=/ca.pem "
                        "rd.report.timeout=8 rd.report.clock=lenient")
        done = subprocess.run([old, "--root", self.root.path, "failed"], stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.done()

    def test_it_can_be_turned_off(self):
        for words in ("rd.report.platform=none", "rd.report.on=stuck"):
            self.report(f"ignition.platform.id=packet {words}", "failed")
        self.assertEqual(self.log, [])

    def test_what_was_delivered_is_not_sent_again(self):
        cmdline = "ignition.platform.id=packet rd.report.ca=/ca.pem rd.report.url=http://192.0.2.16/s rd.report.on=all"
        status = self.service("192.0.2.16", *[("POST /s", answer(200))] * 3)
        metadata = self.metadata(self.METADATA, [("GET /metadata", answer(200, json.dumps(self.METADATA)))] * 4)
        events = self.events(("POST /events", answer(200)), ("POST /events", answer(200)), ("POST /events", answer(403)), ("POST /events", answer(200)))
        self.report(cmdline, "running", again=True)
        self.report(cmdline, "running", again=True)
        # The status came through, the cloud's report did not: the next run sends that alone, and the one behind it nothing.
        self.report(cmdline, "failed", again=True, code=1)
        self.report(cmdline, "failed", again=True)
        self.report(cmdline, "failed", again=True, code=3)
        self.report(cmdline, "succeeded", again=True, code=1)
        self.assertEqual([json.loads(request.body)["state"] for request in events.requests], ["running", "running", "failed", "failed"])
        self.assertEqual([json.loads(request.body)["state"] for request in status.requests], ["running", "running", "failed"])
        self.assertEqual(len({request.headers["x-report-id"] for request in events.requests[2:] + status.requests[2:]}), 1)
        self.assertEqual(len(metadata.requests), 4)

    def test_progress_and_then_one_end(self):
        """Whatever is reported behind it; the owner's server hears of the rest."""
        cmdline = "ignition.platform.id=packet rd.report.ca=/ca.pem rd.report.url=http://192.0.2.16/s rd.report.on=all"
        for end, other, refused in (("failed", "succeeded", 1), ("succeeded", "failed", 0)):
            self.due.clear()
            shutil.rmtree(os.path.join(self.root.path, "run/rdreport"), ignore_errors=True)
            servers = [self.service("192.0.2.16", *[("POST /s", answer(200))] * (5 - refused)),
                       self.metadata(self.METADATA, [("GET /metadata", answer(200, json.dumps(self.METADATA)))] * 2),
                       self.events(*[("POST /events", answer(200))] * 3)]
            for state in ("running", "running", end, "stuck"):
                self.report(cmdline, state, again=True)
            # Of progress, nobody hears after an end, unless that is asked for.
            self.report(cmdline, "running", again=True, code=3)
            self.report(cmdline, other, again=True, code=refused)
            self.done()
            self.assertEqual([json.loads(request.body)["state"] for request in servers[2].requests], ["running", "running", end])
            states = [json.loads(request.body)["state"] for request in servers[0].requests]
            self.assertEqual(states, ["running", "running", end, "stuck", *([] if refused else [other])])
            for server in servers:
                server.close()

    def test_force_tells_a_second_end(self):
        self.metadata(self.METADATA, [("GET /metadata", answer(200, json.dumps(self.METADATA)))])
        events = self.events(*[("POST /events", answer(200))] * 2)
        for words in (("failed",), ("succeeded", "--force")):
            self.report("ignition.platform.id=packet rd.report.ca=/ca.pem", *words, again=True)
        self.done()
        self.assertEqual([json.loads(request.body)["state"] for request in events.requests], ["failed", "succeeded"])

    def test_a_dry_run_sends_nothing(self):
        self.root.write("proc/cmdline", "ignition.platform.id=packet")
        result = self.root.run("failed", "--dry-run")
        self.assertRegex(result.stdout, r"^    cloud packet: POST state, message and code to .*\n$")

    def test_a_cloud_that_hangs_takes_nothing_from_the_others(self):
        self.metadata(10)
        server = self.service("192.0.2.16", ("POST /s", answer(200)))
        journal = Root("")
        self.addCleanup(journal.remove)
        os.rename(os.path.join(journal.path, "run"), os.path.join(self.root.path, "run"))
        other = self.service("192.0.2.17", ("POST /j", answer(200)))
        said = self.report("ignition.platform.id=packet rd.report.ca=/ca.pem rd.report.url=http://192.0.2.16/s rd.report.journal=http://192.0.2.17/j",
                           "failed", code=1, seconds=4)
        lines = [re.sub(r"(delivered).*", r"\1", line) for line in said.splitlines()]
        self.assertEqual(lines, ["rdreport: rd.report.url=http://192.0.2.16/s: delivered", "rdreport: rd.report.journal=http://192.0.2.17/j: delivered",
                                 "rdreport: cloud packet: not delivered"])
        self.assertEqual((len(server.requests), len(other.requests)), (1, 1))



class Azure(Clouds):
    ADDRESS = "168.63.129.16"
    HEALTH, GOAL, XML = "POST /provisioning/health", "GET /machine/?comp=goalstate", "POST /machine?comp=health"
    POOL = "var/lib/hyperv/.kvp_pool_1"
    # Without UEFI the first three fields are in the other order.
    VM_ID = "44454c4c-4200-1035-8052-b4c04f4a4e32"
    VERSION = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]
    TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

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
        self.expect_error(Kernel.record(kernel.answers[1])[1])
        self.assertIn("cloud azure: delivered (200, ", said)

    def test_a_host_that_does_not_ask_takes_nothing_from_the_report(self):
        Kernel(self.root)
        self.service(self.ADDRESS, (self.HEALTH, answer(200)))
        self.assertIn("cloud azure: delivered (200, ", self.report("", "failed", seconds=3))

    def test_the_exchange_while_the_service_is_away(self):
        kernel = Kernel(self.root, Kernel.enumerate(0), Kernel.enumerate(1))
        self.ip("link set cloud0 down")
        self.report("", "failed", code=1, seconds=2)
        self.assertEqual(Kernel.record(kernel.answers[1])[0], "PROVISIONING_REPORT")

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


class Kernel:
    """The kernel's side of Hyper-V's key-value exchange, with a terminal of two ends in the place of its device: the host's requests go
    through it one after the other, and are answered by the other end."""

    # include/uapi/linux/hyperv.h, struct hv_kvp_msg: a head of four bytes, and the largest of its bodies.
    SIZE = 7432
    ENUMERATE, SET, REGISTER = 3, 1, 100
    NO_MORE, FAIL = b"\x03\x01\x07\x80", b"\x05\x40\x00\x80"

    def __init__(self, root, *requests):
        libc = ctypes.CDLL(None, use_errno=True)
        self.host, self.guest = os.openpty()
        tty.setraw(self.guest)
        path = root.write("dev/vmbus/hv_kvp", b"")
        if libc.unshare(0x20000):  # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", os.ttyname(self.guest), path], check=True)
        self.requests, self.answers, self.go_on = list(requests), [], threading.Event()
        self.registered = threading.Event()
        threading.Thread(target=self.work, daemon=True).start()

    def busy(self):
        """Lets nobody open the device any more, as while the daemon has it open."""
        fcntl.ioctl(self.guest, termios.TIOCEXCL)
        ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_ADMIN: it may

    @classmethod
    def enumerate(cls, index, pool=1):
        return struct.pack("=BBHI", cls.ENUMERATE, pool, 0, index).ljust(cls.SIZE, b"\0")

    def read(self):
        message = b""
        while len(message) < self.SIZE:
            message += os.read(self.host, self.SIZE - len(message))
        return message

    def write(self, message):
        while message:
            message = message[os.write(self.host, message):]

    def work(self):
        self.answers.append(self.read())
        self.write(struct.pack("=BBH", self.REGISTER, 0, 0).ljust(4, b"\0") + b"3.1".ljust(self.SIZE - 4, b"\0"))
        self.registered.set()
        for request in self.requests:
            if request is None:
                self.go_on.wait()
                continue
            self.write(request)
            if len(request) == self.SIZE:
                self.answers.append(self.read())

    @staticmethod
    def record(answer):
        """Key and value of an answer."""
        return answer[20:532].split(b"\0")[0].decode(), answer[532:2580].split(b"\0")[0].decode()


class HyperV(Clouds):
    FIRMWARE = {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}

    def setUp(self):
        super().setUp()
        for name, text in self.FIRMWARE.items():
            self.root.write(DMI + name, text)

    records = Azure.records
    POOL = Azure.POOL

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
        registered, *refused, record, end = kernel.answers
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
        self.assertEqual(len(kernel.answers), 257)
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
        self.assertTrue(Kernel.record(kernel.answers[1])[1].startswith("result=success|agent="))


class Brief:
    """What services get that keep one value."""

    def brief(self, text, state, message, stage=None, code=None):
        body = json.loads(text)
        self.assertRegex(body.pop("report_id"), "^[0-9a-f-]{36}$")
        self.assertRegex(body.pop("time"), "^" + Azure.TIME + "$")
        self.assertEqual(body, {"schema": 1, "state": state, "stage": stage, "message": message, "code": code})


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


class Signals(Clouds):
    """CloudFormation's and Heat's wait conditions."""

    URL = "/x?AWSAccessKeyId=A&Expires=1&Signature=a%2Fb%3d+c"

    def signal(self, request, names, status, message=None):
        body = json.loads(request.body)
        data = body.pop(names[3])
        self.assertEqual(data, request.headers["x-report-id"])
        self.assertEqual(body, {names[0]: status, names[1]: message or self.MESSAGE, names[2]: self.UUID})

    CFN = ("Status", "Reason", "UniqueId", "Data")
    HEAT = ("status", "reason", "id", "data")

    def test_presigned_handle(self):
        for state, status in (("failed", "FAILURE"), ("succeeded", "SUCCESS")):
            self.due.clear()
            host = "cloudformation-waitcondition-eu-west-1.s3.eu-west-1.amazonaws.com"
            server = self.service("192.0.2.30", ("PUT " + self.URL, answer(500)), ("PUT " + self.URL, answer(200)), port=443, host=host,
                                  tls=certificate(host))
            self.report(f"rd.report.ca=/ca.pem rd.report.aws.url=https://{host}{self.URL}", state, "--message", self.MESSAGE)
            self.done()
            for request in server.requests:
                self.fields(request, host=host)
                self.signal(request, self.CFN, status)
            server.close()

    def test_a_proxy_is_for_what_is_far(self):
        proxy = self.service("192.0.2.50", ("PUT http://192.0.2.30" + self.URL, answer(200)), port=3128)
        self.report(f"rd.report.proxy=http://192.0.2.50:3128 rd.report.aws.url=http://192.0.2.30{self.URL}", "failed")
        self.done()
        self.assertEqual(len(proxy.requests), 1)

    def test_an_url_that_is_over(self):
        self.service("192.0.2.30", ("PUT " + self.URL, answer(403)))
        said = self.report(f"rd.report.aws.url=http://192.0.2.30{self.URL}", "failed", code=1)
        self.assertEqual(said, "rdreport: cloud aws: not delivered: the service answered 403; check rd.report.aws.url=, which is valid for a time only\n")

    def test_heat(self):
        for url, method, names, more, content_type in (
            ("/v1/waitcondition/arn%3Aopenstack?SignatureVersion=2&Signature=a%2Bb%3D", "PUT", self.CFN, {}, None),
            ("/v1/AUTH_x/c/o?temp_url_sig=abc&temp_url_expires=1", "PUT", self.HEAT, {}, None),
            ("/v1/p/stacks/s/1/resources/r/signal", "POST", self.HEAT, {"X-Auth-Token": "gAAAA-token"}, "application/json"),
        ):
            for state, status in (("failed", "FAILURE"), ("succeeded", "SUCCESS")):
                self.due.clear()
                server = self.service("192.0.2.31", (f"{method} {url}", answer(200)))
                self.root.write("run/credentials/@initrd/heat", "gAAAA-token\n")
                said = self.report(f"rd.report.openstack.url=http://192.0.2.31{url} rd.report.openstack.token=cred:heat", state, "--message",
                                   self.MESSAGE)
                self.done()
                request = server.requests[0]
                if content_type:
                    self.assertEqual(request.headers["accept"], content_type)
                    request.headers["accept"] = "*/*"
                self.fields(request, more, content_type)
                self.signal(request, names, status)
                self.assertNotIn("Signature", said)
                server.close()

    def test_heat_in_a_form_that_is_named(self):
        server = self.service("192.0.2.31", ("PUT /handle", answer(200)))
        said = self.report("rd.report.openstack.url=http://192.0.2.31/handle", "failed", code=1)
        self.assertIn("set rd.report.openstack.signal=", said)
        self.report("rd.report.openstack.url=http://192.0.2.31/handle rd.report.openstack.signal=cfn", "failed", "--message", self.MESSAGE)
        self.done()
        self.signal(server.requests[0], self.CFN, "FAILURE")

    def test_a_token_that_cannot_be_read(self):
        said = self.report("rd.report.openstack.url=http://192.0.2.31/r/signal rd.report.openstack.token=@/missing", "failed", code=1)
        self.assertIn("the file or credential that a setting names cannot be read", said)

    def test_states_without_a_word(self):
        for state in ("running", "stuck"):
            self.report("rd.report.openstack.url=http://192.0.2.31/r/signal rd.report.aws.url=http://192.0.2.31/ rd.report.on=all", state)
        self.assertEqual(self.log, [])

    def test_secrets_are_not_shown(self):
        self.root.write("proc/cmdline", f"rd.report.aws.url=https://h/{self.URL} rd.report.openstack.token=TOPSECRET rd.report.openstack.url=x")
        said = self.root.run("check").stdout
        self.assertNotIn("TOPSECRET", said)
        self.assertNotIn("Signature", said)
        self.assertIn("cloud aws: PUT a signal to the presigned URL", said)


class CloudFormation(Clouds):
    IMDS = "169.254.169.254"
    TOKEN, IDENTITY = "PUT /latest/api/token", "GET /latest/dynamic/instance-identity/"
    DOCUMENT = json.dumps({"accountId": "1", "instanceId": "i-0abc", "region": "eu-west-1", "version": "2017-09-30"}, indent=2)
    SIGNATURE = "aGVsbG8gd29ybGQ=\naGVsbG8=\n"
    SETTINGS = "rd.report.ca=/ca.pem rd.report.aws.stack=arn:aws:cf/my&stack rd.report.aws.resource=Group"

    def imds(self, *more, document=DOCUMENT, signature=SIGNATURE, address=IMDS):
        return self.service(address, *more, (self.TOKEN, answer(200, "AQAEA-token==")), (self.IDENTITY + "document", answer(200, document)),
                            (self.IDENTITY + "signature", answer(200, signature)))

    def request(self, status):
        return ("GET /?Action=SignalResource&LogicalResourceId=Group&StackName=arn:aws:cf%2Fmy%26stack&UniqueId=i-0abc"
                f"&Status={status}&ContentType=JSON&Version=2010-05-15")

    def api(self, *script, region="eu-west-1", tail=""):
        host = f"cloudformation.{region}.amazonaws.com{tail}"
        return host, self.service("192.0.2.32", *script, port=443, host=host, tls=certificate(host))

    def test_by_identity(self):
        for state, status in (("failed", "FAILURE"), ("succeeded", "SUCCESS")):
            self.due.clear()
            imds = self.imds((self.TOKEN, answer(503)))
            host, api = self.api((self.request(status), answer(503)), (self.request(status), answer(200)))
            self.report(self.SETTINGS, state)
            self.done()
            ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
            for request, own in zip(imds.requests, [ttl, ttl] + [{"X-aws-ec2-metadata-token": "AQAEA-token=="}] * 2, strict=True):
                self.fields(request, own, host=self.IMDS)
                self.assertEqual(request.body, b"")
            proof = "CFN_V1 " + base64.b64encode(self.DOCUMENT.encode()).decode() + ":aGVsbG8gd29ybGQ=aGVsbG8="
            for request in api.requests:
                self.fields(request, {"Authorization": proof}, host=host)
            imds.close()
            api.close()

    def test_in_ipv6_alone(self):
        imds = self.imds(address="fd00:ec2::254")
        self.api((self.request("FAILURE"), answer(200)))
        self.report(self.SETTINGS, "failed", seconds=10)
        self.done()
        self.assertEqual({request.headers["host"] for request in imds.requests}, {"[fd00:ec2::254]"})

    def test_china(self):
        self.imds(document='{"region":"cn-north-1","instanceId":"i-0abc"}')
        self.api((self.request("FAILURE"), answer(200)), region="cn-north-1", tail=".cn")
        self.report(self.SETTINGS, "failed")
        self.done()

    def test_answers_that_are_none(self):
        for changes, why in (
            ({"document": "<html>"}, "is not JSON"), ({"document": "{}"}, "lacks"), ({"document": ""}, "is not JSON"),
            ({"document": '{"region":"a/b","instanceId":"i"}'}, "lacks"), ({"document": '{"region":"a"}'}, "lacks"),
            ({"signature": ""}, "lacks"), ({"signature": "a\r\nX: y"}, "lacks"),
        ):
            self.due.clear()
            imds = self.imds(**changes)
            said = self.report(self.SETTINGS, "failed", code=1)
            self.done()
            self.assertIn("cloud aws: not delivered in 3 tries: the service's answer " + why, said)
            imds.close()

    def test_no_token(self):
        for said, why in ((answer(200), "lacks"), (answer(200, "a\r\nb"), "lacks"), (answer(403), "the service answered 403")):
            self.due.clear()
            imds = self.service(self.IMDS, (self.TOKEN, said))
            self.assertIn(why, self.report(self.SETTINGS, "failed", code=1))
            self.done()
            imds.close()

    def test_a_stack_alone(self):
        self.assertIn("rd.report.aws.resource= is not set", self.report("rd.report.aws.stack=x", "failed", code=1))



class Webhooks(Clouds):
    PATH = "POST /MAAS/metadata/status/abc123"

    def event(self, request, origin, message, state):
        self.assertTrue(request.body.isascii())
        body = json.loads(request.body)
        self.assertAlmostEqual(body.pop("timestamp"), time.time(), delta=5)
        result = {"failed": "FAIL", "succeeded": "SUCCESS"}.get(state)
        expected = {"name": "rdreport", "description": message, "origin": origin, "event_type": "finish" if result else "progress"}
        if origin == "curtin":
            expected["level"] = "ERROR" if state == "failed" else "INFO"
        if result:
            expected["result"] = result
            self.assertGreater(body.pop("duration"), 0)
        self.assertEqual(body, expected)

    def oauth(self, request, signature, skew=0):
        scheme, fields = request.headers["authorization"].split(" ", 1)
        self.assertEqual(scheme, "OAuth")
        fields = dict(re.fullmatch(r'([a-z_]+)="([^"]*)"', field).groups() for field in fields.split(", "))
        self.assertAlmostEqual(int(fields.pop("oauth_timestamp")), time.time() + skew, delta=5)
        nonce = fields.pop("oauth_nonce")
        self.assertEqual(fields, {"oauth_version": "1.0", "oauth_consumer_key": "ck", "oauth_token": "tk", "oauth_signature_method": "PLAINTEXT",
                                  "oauth_signature": signature})
        return nonce

    def test_maas(self):
        for state in ("running", "stuck", "failed", "succeeded"):
            self.due.clear()
            server = self.service("192.0.2.40", (self.PATH, answer(500)), (self.PATH, answer(204)), port=5248)
            self.root.write("etc/maas-key", "ck:tk:ts\n")
            self.report("rd.report.maas.url=http://192.0.2.40:5248/MAAS/metadata/status/abc123 rd.report.maas.token=@/etc/maas-key rd.report.on=all",
                        state, "--message", self.MESSAGE)
            self.done()
            nonces = set()
            for request in server.requests:
                nonces.add(self.oauth(request, "%26ts"))
                self.fields(request, {"Authorization": request.headers["authorization"]}, "application/json")
                self.event(request, "curtin", self.MESSAGE, state)
            self.assertEqual(len(nonces), 2)
            server.close()

    def test_cloudinit(self):
        for state in ("running", "failed", "succeeded"):
            self.due.clear()
            server = self.service("192.0.2.41", ("POST /hook", answer(200)))
            self.report("rd.report.cloudinit.url=http://192.0.2.41/hook rd.report.on=all", state, "--message", self.MESSAGE, "--stage", "disks")
            self.done()
            self.fields(server.requests[0], content_type="application/json")
            self.event(server.requests[0], "cloudinit", "[disks] " + self.MESSAGE, state)
            server.close()

    def test_a_clock_that_is_wrong(self):
        for code, skew in ((401, 86400), (403, -86400)):
            self.due.clear()
            date = "Date: " + email.utils.formatdate(time.time() + skew, usegmt=True)
            server = self.service("192.0.2.40", ("POST /x", answer(code, b"", date)), ("POST /x", answer(204)))
            self.report("rd.report.maas.url=http://192.0.2.40/x rd.report.maas.token=ck:tk:ts:cs", "failed", "--message", self.MESSAGE)
            self.done()
            self.oauth(server.requests[0], "cs%26ts")
            self.oauth(server.requests[1], "cs%26ts", skew)
            server.close()

    def test_a_token_that_is_wrong(self):
        for said in (answer(401), answer(401, b"", "Date: " + email.utils.formatdate(time.time(), usegmt=True))):
            self.due.clear()
            server = self.service("192.0.2.40", ("POST /x", said))
            line = self.report("rd.report.maas.url=http://192.0.2.40/x rd.report.maas.token=ck:tk:TOPSECRET", "failed", code=1)
            self.done()
            self.assertIn("cloud maas: not delivered: the service answered 401; check rd.report.maas.url= and rd.report.maas.token=", line)
            self.assertNotIn("TOPSECRET", line)
            server.close()

    def test_a_server_whose_clock_runs_away(self):
        """It is believed once for a try, and the whole ends."""
        date = "Date: " + email.utils.formatdate(time.time() + 86400, usegmt=True)
        self.service("192.0.2.40", ("POST /x", answer(401, b"", date)), ("POST /x", answer(401, b"", date)))
        self.report("rd.report.maas.url=http://192.0.2.40/x rd.report.maas.token=ck:tk:ts", "failed", code=1)
        self.done()

    def test_tokens_that_are_none(self):
        self.service("192.0.2.40")
        for token in ("ck:tk", "@/missing", "@/binary", "cred:missing", "cred:../x"):
            self.root.write("binary", b"ck:tk:\xff")
            line = self.report(f"rd.report.maas.url=http://192.0.2.40/x rd.report.maas.token={token}", "failed", code=1)
            self.assertIn("cannot be read, or is no text", line)
        self.assertEqual(self.log, [])


class Notify(Clouds):
    """The manager of a virtual machine. There is no host here that listens: what the binary asks of the kernel is seen by strace, which
    answers in the kernel's place."""

    def trace(self, *words, inject):
        """Runs the binary; gives its calls to a socket of the kind, as strace writes them."""
        log = os.path.join(self.root.path, "strace")
        self.root.write("proc/cmdline", "rd.report.timeout=3 rd.report.on=all\n")
        result = subprocess.run(["strace", "-f", "-s", "300", "-xx", "-e", "trace=socket,bind,connect,sendto", *inject, "-o", log, BINARY, "--root",
                                 self.root.path, *words], stderr=subprocess.PIPE, text=True, timeout=30)
        calls = [re.sub(r"^\d+ +", "", line) for line in self.root_text("strace").splitlines()]
        unhex = lambda found: bytes.fromhex(found[1].replace("\\x", "")).decode()
        return result, [re.sub(r'"((?:\\x[0-9a-f]{2})+)"', lambda found: repr(unhex(found)), call) for call in calls if "AF_NETLINK" not in call]

    def test_each_kind_until_one_is_there(self):
        self.root.write("run/credentials/@system/vmm.notify_socket", "vsock:2:1234\n")
        result, calls = self.trace("failed", "--message", "no disk", "--code", "42", inject=["-e", "inject=connect:retval=0", "-e",
                                   "inject=socket:error=ESOCKTNOSUPPORT:when=1..2", "-e", "inject=sendto:retval=38"])
        self.assertEqual([re.search(r"SOCK_[A-Z]+", call)[0] for call in calls if call.startswith("socket(AF_VSOCK")],
                         ["SOCK_DGRAM", "SOCK_SEQPACKET", "SOCK_STREAM"])
        for call in calls:
            if call.startswith("connect("):
                self.assertRegex(call, r"svm_cid=(VMADDR_CID_HOST|0x2), svm_port=0x4d2\b")
            if call.startswith("bind("):
                self.assertRegex(call, r"svm_cid=(VMADDR_CID_ANY|0xffffffff), svm_port=0x3[0-9a-f]{2}\b")
        sent, = [call for call in calls if call.startswith("sendto(")]
        self.assertIn("'STATUS=failed: no disk\\nEXIT_STATUS=42\\n', 38", sent)

    def test_words(self):
        self.root.write("sys/firmware/dmi/entries/11-0/raw", b"\x0b\x05\x00\x0b\x02io.systemd.credential:other=x\0"
                        b"io.systemd.credential:vmm.notify_socket=vsock-stream:2:9999\0\0")
        for words, said in ((("succeeded",), "STATUS=succeeded: provisioning succeeded\\n'"), (("running", "--stage", "disks"), "STATUS=running: [disks] "
                            "provisioning goes on\\n'"), (("failed", "--message", "x"), "STATUS=failed: x\\nEXIT_STATUS=1\\n'"),
                            (("stuck",), "STATUS=stuck: provisioning does not end\\n'")):
            shutil.rmtree(os.path.join(self.root.path, "run/rdreport"), ignore_errors=True)
            size = len(said[:-1].replace("\\n", "\n"))
            result, calls = self.trace(*words, inject=["-e", "inject=connect:retval=0", "-e", f"inject=sendto:retval={size}"])
            self.assertEqual([re.search(r"SOCK_[A-Z]+", call)[0] for call in calls if call.startswith("socket(AF_VSOCK")], ["SOCK_STREAM"])
            sent, = [call for call in calls if call.startswith("sendto(")]
            self.assertIn("'" + said + f", {size},", sent)
            self.assertNotIn("READY", sent)
            self.assertEqual((result.returncode, result.stderr), (0, f"rdreport: cloud notify: delivered ({size} bytes)\n"))

    def test_nobody_listens(self):
        self.root.write("run/credentials/@system/vmm.notify_socket", "vsock:2:1234\n")
        result, _ = self.trace("failed", inject=["-e", "inject=connect:error=ECONNRESET"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("cloud notify: not delivered: cannot connect: ", result.stderr)

    def test_no_socket(self):
        for text in ("", "/run/notify", "vsock:2"):
            self.root.write("run/credentials/@system/vmm.notify_socket", text)
            self.assertIn("nothing to report to", self.report("", "failed"))


class Golden(Clouds):
    """The bodies to the byte, with what differs from run to run left out."""

    WORDS = ("failed", "--message", "no <disk> \u00e9", "--stage", "disks", "--code", "1001")
    REPORT = ("result=error|reason=[disks] no <disk> \u00e9|agent=rdreport/VERSION|stage=disks|code=1001|pps_type=None|vm_id=" + Azure.VM_ID +
              "|timestamp=TIME|documentation_url=https://aka.ms/linuxprovisioningerror")
    MESSAGE = "[disks] no <disk> \u00e9"

    def bodies(self, cmdline, address, *lines):
        server = self.service(address, *lines)
        self.report(cmdline, *self.WORDS)
        self.done()
        server.close()
        for old, new in ((re.escape(Azure.VERSION), "VERSION"), (Azure.TIME, "TIME"), (r"[0-9a-f]{8}-[0-9a-f-]{27}(?=\")(?<!" + self.UUID + ")", "ID"),
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
            ("rd.report.platform=azure", Azure.ADDRESS, [Azure.HEALTH, Azure.GOAL, Azure.XML], [
                f'{{"state":"NotReady","details":{{"subStatus":"ProvisioningFailed","description":"{self.REPORT}"}}}}', "",
                '<?xml version="1.0" encoding="utf-8"?>\n<Health xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
                'xmlns:xsd="http://www.w3.org/2001/XMLSchema"><GoalStateIncarnation>1</GoalStateIncarnation><Container>'
                '<ContainerId>c6d5526c-5ac2-4200</ContainerId><RoleInstanceList><Role><InstanceId>b61f93d0.node-7&amp;x</InstanceId><Health>'
                '<State>NotReady</State><Details><SubStatus>ProvisioningFailed</SubStatus><Description>' + xml_report +
                '</Description></Details></Health></Role></RoleInstanceList></Container></Health>']),
            ("rd.report.platform=gcp", "169.254.169.254", [Google.PATH], [brief]),
            ("rd.report.aws.url=http://192.0.2.70/x", "192.0.2.70", ["PUT /x"], ['{"Status":"FAILURE",' + cfn]),
            ("rd.report.openstack.url=http://192.0.2.70/x/signal", "192.0.2.70", ["POST /x/signal"], [heat]),
            ("rd.report.openstack.url=http://192.0.2.70/waitcondition/x", "192.0.2.70", ["PUT /waitcondition/x"], ['{"Status":"FAILURE",' + cfn]),
        ):
            self.due.clear()
            said = {"GET /m": answer(200, '{"user_state_url":"http://192.0.2.70/s"}'), Azure.HEALTH: answer(404), Azure.GOAL: Azure.goal_state(self)}
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
            self.root.write("proc/cmdline", "root=LABEL=root quiet\n")
            self.root.write(DMI + "sys_vendor", "QEMU\n")
            began = time.monotonic()
            result = subprocess.run(["strace", "-f", "-o", log, BINARY, "--root", self.root.path, words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertLess(time.monotonic() - began, 2)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
            calls = [line.split(None, 1)[1] for line in self.root_text("strace").splitlines()]
            # No process, no journal, no marker, and nothing is waited for.
            self.assertFalse([call for call in calls if re.match(r"(clone|fork|vfork|connect|sendto|ppoll|poll|mkdirat|nanosleep)", call)], calls)
            self.assertFalse([call for call in calls if "run/" in call and "run/credentials/" not in call])
            self.assertLess(len(calls), 100)

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
    TOKEN, IDENTITY = CloudFormation.TOKEN, CloudFormation.IDENTITY

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
        self.measured("rd.report.platform=azure", Azure.ADDRESS, (Azure.HEALTH, answer(404)), (Azure.GOAL, Azure.goal_state(self)),
                      (Azure.XML, answer(200)), at="the wire server")

    def test_packet(self):
        self.journal()
        Packet.events(self, ("POST /events", answer(200)))
        metadata = json.dumps({"many": ["192.0.2.1"] * 1500, **Packet.METADATA})
        self.measured("ignition.platform.id=packet rd.report.ca=/ca.pem", Packet.ADDRESS, ("GET /metadata", answer(200, metadata)),
                      at="metadata over TLS", port=443, host=Packet.HOST, tls=certificate(Packet.HOST))

    def test_aws(self):
        self.journal()
        CloudFormation.imds(self, document=CloudFormation.DOCUMENT, signature=CloudFormation.SIGNATURE)
        host = "cloudformation.eu-west-1.amazonaws.com"
        self.measured(CloudFormation.SETTINGS, "192.0.2.32", (CloudFormation.request(self, "FAILURE"), answer(200)), at="the API over TLS", port=443,
                      host=host, tls=certificate(host))


class VMware(Clouds):
    def test_elsewhere_the_port_is_not_touched(self):
        """Touching it would end the process by a signal."""
        with open("/proc/cpuinfo") as file:
            self.assertNotIn("VMware", file.read())
        said = self.report("ignition.platform.id=vmware", "failed", code=1)
        self.assertEqual(said, "rdreport: cloud vmware: not delivered: the hypervisor is not VMware's; set rd.report.platform=none to send nothing there\n")


if __name__ == "__main__":
    unittest.main()
