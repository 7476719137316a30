"""MAAS and cloud-init's webhook."""
import unittest
import email.utils
import json
import re
import time

from harness.clouds import Clouds, answer


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


if __name__ == "__main__":
    unittest.main()
