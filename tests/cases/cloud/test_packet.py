"""Packet, Equinix Metal and Tinkerbell."""
import unittest
import email.utils
import json
import os
import re
import shutil
import subprocess

from cases.test_clock import IN_FUTURE, YEAR_2037, made_at
from harness import Pki, Root
from harness.clouds import Clouds, answer, certificate


class Packet(Clouds):
    HOST, ADDRESS = "metadata.packet.net", "192.0.2.10"
    METADATA = {"id": "7ad2c4f5", "hostname": "node-7", "network": {"addresses": [{"id": "x", "phone_home_url": "wrong"}]},
                "phone_home_url": "http://tinkerbell.sjc1.packet.net/phone-home"}

    def metadata(self, said, more=()):
        said = said if isinstance(said, (bytes, float)) else answer(200, json.dumps(said))
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
        self.metadata(10.0)
        server = self.service("192.0.2.16", ("POST /s", answer(200)))
        journal = Root("")
        self.addCleanup(journal.remove)
        os.rename(os.path.join(journal.path, "run"), os.path.join(self.root.path, "run"))
        other = self.service("192.0.2.17", ("POST /j", answer(200)))
        said = self.report("ignition.platform.id=packet rd.report.ca=/ca.pem rd.report.url=http://192.0.2.16/s rd.report.journal=http://192.0.2.17/j",
                           "failed", code=1, seconds=4)
        lines = [re.sub(r"(delivered).*", r"\1", line) for line in said.splitlines()]
        # In the order in which they end: the cloud is given up when the time is over.
        self.assertEqual(lines, ["rdreport: rd.report.url=http://192.0.2.16/s: delivered",
                                 "rdreport: rd.report.journal=http://192.0.2.17/j: delivered",
                                 "rdreport: cloud packet: not delivered"])
        self.assertIn("GET /metadata", self.log)
        self.assertEqual((len(server.requests), len(other.requests)), (1, 1))


if __name__ == "__main__":
    unittest.main()
