"""The certificates of pki.sh, made once for a test run."""
import os
import subprocess
import tempfile

from harness.root import HERE


class Pki:
    """The certificates of pki.sh, made once for a test run."""

    _folder = None

    @classmethod
    def file(cls, name):
        # Made by the process that this one is a part of.
        if "RDREPORT_TEST_PKI" in os.environ:
            return os.path.join(os.environ["RDREPORT_TEST_PKI"], name)
        if cls._folder is None:
            cls._folder = tempfile.TemporaryDirectory(prefix="rdreport-pki-")
            subprocess.run(["sh", os.path.join(HERE, "harness/pki.sh"), cls._folder.name], check=True)
        return os.path.join(cls._folder.name, name)

    @classmethod
    def read(cls, name):
        with open(cls.file(name), "rb") as file:
            return file.read()
