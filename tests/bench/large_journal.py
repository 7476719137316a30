"""A journal of any size, as a real boot writes it: the entries of a recorded boot over and over, each round at a later time and
with its own numbers in the messages, so that nothing is more alike than in a long boot. Written by systemd-journal-remote."""
import os
import re
import subprocess

FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures")
SAMPLE = os.path.join(FIXTURES, "initrd-systemd252-ignition-disks-missing.export.zst")
REMOTE = "/lib/systemd/systemd-journal-remote"


def entries():
    """The recorded boot's entries in export format, without what journal-remote makes anew."""
    text = subprocess.run(["zstd", "-dqc", SAMPLE], check=True, stdout=subprocess.PIPE).stdout
    out = []
    for entry in text.split(b"\n\n"):
        # Entries with binary fields could not be cut at empty lines.
        lines = [line for line in entry.split(b"\n") if line]
        if lines and all(b"=" in line for line in lines):
            out.append([line for line in lines if not line.startswith((b"__CURSOR", b"__SEQNUM"))])
    return out


def write(stream, size):
    """Writes at least `size` bytes of export format to `stream`."""
    recorded, written, number = entries(), 0, 0
    shift = 0
    while written < size:
        for lines in recorded:
            number += 1
            out = []
            for line in lines:
                key, value = line.split(b"=", 1)
                if key in (b"__REALTIME_TIMESTAMP", b"__MONOTONIC_TIMESTAMP", b"_SOURCE_MONOTONIC_TIMESTAMP",
                           b"_SOURCE_REALTIME_TIMESTAMP", b"SYSLOG_TIMESTAMP"):
                    if value.isdigit():
                        value = b"%d" % (int(value) + shift)
                elif key in (b"MESSAGE", b"_PID", b"INVOCATION_ID", b"_SYSTEMD_INVOCATION_ID"):
                    value = re.sub(rb"\d+", lambda m: b"%d" % (int(m[0]) + number), value, count=1)
                out.append(key + b"=" + value)
            entry = b"\n".join(out) + b"\n\n"
            stream.write(entry)
            written += len(entry)
        shift += 120_000_000


def make(folder, export_size):
    """Journal files in `folder` whose export is about `export_size` bytes; journal-remote begins a new file when one is full."""
    if os.path.exists(os.path.join(folder, "done")):
        return folder
    os.makedirs(folder, exist_ok=True)
    remote = subprocess.Popen([REMOTE, "-o", os.path.join(folder, "system.journal"), "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    write(remote.stdin, export_size)
    remote.stdin.close()
    if remote.wait() != 0:
        raise RuntimeError("systemd-journal-remote failed")
    with open(os.path.join(folder, "done"), "w"):
        pass
    return folder
