#!/usr/bin/env python3
"""Runs the tests of the whole binary, several classes at once: most of them wait for deadlines, not for the processor.

Each class is a process of its own. A class that fails next to others runs once more by itself, since some deadlines are too
short for a busy machine; the summary names such classes. Arguments choose tests: substrings of file.Class names."""
import concurrent.futures
import os
import re
import subprocess
import sys
import time
import unittest

from peers import HERE, Pki

# Processes at once. Tests mostly wait, so there may be more of them than processors.
WORKERS = int(os.environ.get("RDREPORT_TEST_WORKERS", 2 * (os.cpu_count() or 1)))
# Seconds after which a class hangs.
CLASS_MAX_S = 1500
# Boots in QEMU and builds take all processors there are, so these files run by themselves, first.
ALONE = ("test_boot", "test_features")


def classes():
    """The names of all test classes, `file.Class`, in the order of files."""
    names = {}
    suites = [unittest.defaultTestLoader.discover(HERE, top_level_dir=HERE)]
    while suites:
        for test in suites.pop(0):
            if isinstance(test, unittest.TestSuite):
                suites.append(test)
            else:
                names.setdefault(".".join(test.id().split(".")[:2]))
    return sorted(names)


def run(name):
    """Runs a class: its name, the number of tests, whether all passed, seconds, and what it printed."""
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, "-m", "unittest", name], cwd=os.path.dirname(HERE),
                              env={**os.environ, "PYTHONPATH": HERE}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=CLASS_MAX_S)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, text = 1, (error.stdout or b"").decode(errors="replace") + f"\n{name} hangs\n"
    count = re.search(r"^Ran (\d+) test", text, re.MULTILINE)
    skipped = re.search(r"skipped=(\d+)", text)
    return (name, int(count[1]) if count else 0, int(skipped[1]) if skipped else 0, code == 0 and count is not None,
            time.monotonic() - start, text)


def main():
    os.environ["RDREPORT_TEST_PKI"] = os.path.dirname(Pki.file("ca.pem"))
    chosen = [name for name in classes() if not sys.argv[1:] or any(part in name for part in sys.argv[1:])]
    alone = [name for name in chosen if name.startswith(ALONE)]
    passed = failed = skipped = 0
    again = []

    def note(result, is_last):
        nonlocal passed, failed, skipped
        name, count, skips, is_good, seconds, text = result
        print(f"{'ok' if is_good else 'FAILED'} {name}: {count} tests in {seconds:.0f} s", flush=True)
        if is_good:
            passed, skipped = passed + count - skips, skipped + skips
        elif not is_last:
            again.append(name)
        else:
            failures = len(re.findall(r"^(?:FAIL|ERROR): ", text, re.MULTILINE)) or 1
            failed, passed = failed + failures, passed + max(0, count - failures)
        if not is_good:
            print(text, flush=True)

    for name in alone:
        note(run(name), is_last=True)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for result in concurrent.futures.as_completed([pool.submit(run, name) for name in chosen if name not in alone]):
            note(result.result(), is_last=False)
    retried, again = again, []
    for name in retried:
        note(run(name), is_last=True)
    for name in retried:
        print(f"failed next to others, run again by itself: {name}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
