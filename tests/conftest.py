"""Set-up of a test run: the certificates are made once, for all workers."""
import os

from harness import Pki


def pytest_configure(config):
    # Workers, and the processes that tests start, inherit it.
    if "RDREPORT_TEST_PKI" not in os.environ:
        os.environ["RDREPORT_TEST_PKI"] = os.path.dirname(Pki.file("ca.pem"))
