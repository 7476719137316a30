"""Tests in network namespaces of their own."""
import os
import subprocess
import sys
import unittest

from harness.pki import Pki
from harness.root import BINARY, HERE

# Set in the processes that [`InNamespace`] starts.
INSIDE = "RDREPORT_TEST_NAMESPACE"


class InNamespace(unittest.TestCase):
    """Runs each test in a process of its own in a new network namespace, in which any address can be had."""

    def run(self, result=None):
        if INSIDE in os.environ:
            return super().run(result)
        result = result or self.defaultTestResult()
        result.startTest(self)
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        name = ".".join(self.id().split(".")[-2:])
        done = subprocess.run(
            ["unshare", "--net", *user, sys.executable, os.path.abspath(sys.modules[type(self).__module__].__file__), name],
            env={**os.environ, "PYTHONPATH": HERE, INSIDE: "1", "RDREPORT": BINARY, "RDREPORT_TEST_PKI": os.path.dirname(Pki.file("ca.pem"))},
            capture_output=True, text=True, timeout=180,
        )
        if done.returncode == 0 and "Ran 1 test" in done.stderr and "skipped" not in done.stderr:
            result.addSuccess(self)
        else:
            result.addFailure(self, (AssertionError, AssertionError(done.stdout + done.stderr), None))
        result.stopTest(self)
        return result
