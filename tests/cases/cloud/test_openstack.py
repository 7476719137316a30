"""OpenStack Heat."""
import unittest
import json

from harness.clouds import Clouds, answer, certificate


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


if __name__ == "__main__":
    unittest.main()
