#!/usr/bin/python3
"""Speed and memory of `rdreport journal` beside journalctl on the same journals, in one run.

    tests/bench_journal.py [MEGABYTES...]        (default: 64 512)

The journals are made by systemd-journal-remote of the fixtures' entries, repeated with other times. Prints MB/s of output and CPU seconds
of each, and the ratio; cold is the first run after the pages of the files were dropped (as root), warm the best of three. RSS is the peak
of /proc/PID/smaps_rollup.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from cases.test_journal import MACHINE, RDREPORT, REMOTE, unpacked


def entries(size):
    """Entries of a real boot over and over, each with its own times and message."""
    source = [e for e in unpacked("initrd-systemd252-ignition-files-badhash.export").split(b"\n\n") if e]
    rng, made, number, now = random.Random(1), 0, 0, 10_000_000
    while made < size:
        lines = []
        now += rng.randint(10, 5000)
        for line in source[number % len(source)].split(b"\n"):
            name, _, value = line.partition(b"=")
            if name == b"__CURSOR":
                continue
            if name in (b"__MONOTONIC_TIMESTAMP", b"_SOURCE_MONOTONIC_TIMESTAMP"):
                line = b"%s=%d" % (name, now)
            elif name in (b"__REALTIME_TIMESTAMP", b"_SOURCE_REALTIME_TIMESTAMP"):
                line = b"%s=%d" % (name, 1796000000000000 + now)
            elif name == b"MESSAGE":
                line += b" [%d]" % number
            lines.append(line)
        entry = b"\n".join(lines) + b"\n\n"
        made += len(entry)
        number += 1
        yield entry


def make(root, megabytes):
    folder = f"{root}/{MACHINE}"
    os.makedirs(folder)
    os.makedirs(f"{root}/proc")
    command = [REMOTE, f"--output={folder}/system.journal", "--split-mode=none", "-"]
    remote = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for entry in entries(megabytes << 20):
        remote.stdin.write(entry)
    remote.stdin.close()
    assert remote.wait() == 0
    return sum(f.stat().st_size for f in pathlib.Path(folder).iterdir())


def measure(command):
    """Seconds, CPU seconds, bytes of output, peak RSS in KB."""
    begin = time.monotonic()
    before = os.times()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    peak, size = 0, 0

    def watch():
        nonlocal peak
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/smaps_rollup") as rollup:
                    peak = max([peak] + [int(line.split()[1]) for line in rollup if line.startswith("Rss:")])
            except OSError:
                return
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    while piece := process.stdout.read1(1 << 20):
        size += len(piece)
    assert process.wait() == 0, command
    watcher.join()
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.monotonic() - begin, cpu, size, peak


def drop(root):
    """Forgets the pages of the files, where that is allowed."""
    os.sync()
    for path in pathlib.Path(f"{root}/{MACHINE}").iterdir():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    for megabytes in [int(argument) for argument in sys.argv[1:]] or [64, 512]:
        root = tempfile.mkdtemp(prefix="rdreport-bench-")
        try:
            size = make(root, megabytes)
            print(f"{megabytes} MB of entries, {size >> 20} MB of journal files")
            for format, redact in (("export", "off"), ("export", "on"), ("json", "off")):
                pathlib.Path(f"{root}/proc/cmdline").write_text(f"rd.report.journal.redact={redact}\n")
                folder = f"{root}/{MACHINE}"
                theirs = ["journalctl", "--no-pager", "--directory", folder, "-o", format, *(["--all"] if format == "json" else [])]
                ours = [RDREPORT, "--root", root, "journal", "--format", format]
                cpu = {}
                for name, command in (("journalctl", theirs), ("rdreport", ours)):
                    drop(root)
                    cold = measure(command)
                    warm = min((measure(command) for _ in range(3)), key=lambda run: run[1])
                    cpu[name] = warm[1]
                    print(
                        f"  {format:6} redact={redact:3} {name:10} cold {cold[0]:6.2f} s {cold[1]:6.2f} CPU s, warm {warm[0]:6.2f} s "
                        f"{warm[1]:6.2f} CPU s, {warm[2] / warm[0] / 1e6:6.0f} MB/s, RSS {warm[3]} KB")
                print(f"  {format:6} redact={redact:3} journalctl / rdreport, CPU: {cpu['journalctl'] / cpu['rdreport']:.2f}")
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
