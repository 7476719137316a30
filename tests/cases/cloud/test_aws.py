"""AWS CloudFormation."""
import unittest
import base64
import json

from harness.clouds import Clouds, answer, certificate


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


if __name__ == "__main__":
    unittest.main()
