"""A root folder to run the binary in, and what is measured of its processes."""
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIXTURES = os.path.join(HERE, "fixtures")
BINARY = os.path.abspath(os.environ.get("RDREPORT", os.path.join(HERE, "..", "target", "release", "rdreport")))
MACHINE = "0123456789abcdef0123456789abcdef"
# Seconds after which the binary hangs, whatever its own deadlines say.
PATIENCE = 90


def children_of(pid):
    """The numbers of the processes that this one has made."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def resident_kb(pid):
    """Exact kilobytes of a process, from its page tables."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Rss:"))


def most_kb():
    """What a whole process may take, code included: the design's limit. What a build without link-time optimisation has more of that, and of
    the data that it comes with, is not counted."""
    return 1536 + 5 * max(0, (os.path.getsize(BINARY) >> 10) - 750) // 4


def sample(name):
    """A recorded file of tests/fixtures, unpacked."""
    return subprocess.run(["zstd", "-dqc", os.path.join(FIXTURES, name + ".zst")], check=True,
                          stdout=subprocess.PIPE).stdout


class Root:
    """A folder that stands for `/`."""

    def __init__(self, cmdline=None, journal="initrd-systemd252-ignition-disks-missing"):
        self.path = tempfile.mkdtemp(prefix="rdreport-root-")
        os.mkdir(os.path.join(self.path, "run"))
        if cmdline is not None:
            self.write("proc/cmdline", cmdline + "\n")
        if journal:
            self.write(f"run/log/journal/{MACHINE}/system.journal", sample(journal + ".journal"))

    def write(self, path, content):
        whole = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return whole

    def run(self, *args, stdin=None, is_new_boot=True, **options):
        """Runs the binary, of whose earlier runs nothing is left unless asked for; gives its result with text in `stdout` and
        `stderr`."""
        if is_new_boot:
            shutil.rmtree(os.path.join(self.path, "run/rdreport"), ignore_errors=True)
        return subprocess.run([BINARY, "--root", self.path, *args], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, text=True, errors="replace", **options)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)
