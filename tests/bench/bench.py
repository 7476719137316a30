"""Sends journals of several sizes to a TLS server on loopback, by rdreport and by `journalctl | gzip -6 | curl`, in turns on the same
files, and prints CPU seconds, throughput, bytes sent and memory of both, and their ratios: machines differ and are noisy.

Memory is what the page tables say at the end of the process (`VmHWM` is kept by the kernel in batches, and wrong by up to some hundred
KB; `smaps_rollup` is exact): rdreport's is read while its last answer is held back, the largest of its processes.
"""
import os
import resource
import ssl
import subprocess
import sys

import large_journal
from harness import BINARY, MACHINE, OK, Pki, Root, Server, children_of, resident_kb

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work")
ROUNDS = 3


def rss_kb(parent):
    """Exact resident KB of the children of `parent`, the largest; 0 where one has just ended."""
    try:
        return max(map(resident_kb, children_of(parent)), default=0)
    except OSError:
        return 0


class Sink:
    """A TLS server that counts what it is sent, and looks at the sender's memory before it answers. It takes the cipher that the client
    likes best, as nginx, Apache and OpenSSL do by themselves, or insists on AES-256."""

    def __init__(self, insists=False):
        self.sender = None
        self.rss = 0
        self.received = 0
        self.server = Server(self.take, tls="p256")
        if not insists:
            self.server.context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE

    def take(self, connection, _):
        request = connection.head()
        chunked = request.headers.get("transfer-encoding") == "chunked"
        received, step = 0, 0
        while chunked:
            size = int(connection.file.readline(), 16)
            connection.file.read(size + 2)
            received += size
            step += 1
            # In the middle of the stream as well, not at its end alone.
            if self.sender and step % 64 == 0:
                self.rss = max(self.rss, rss_kb(self.sender))
            if size == 0:
                break
        self.received = received
        if self.sender:
            self.rss = max(self.rss, rss_kb(self.sender))
        connection.sock.sendall(OK)


def cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(run):
    before = cpu()
    run()
    return cpu() - before


def bench(mib):
    folder = os.path.join(WORK, f"bench-{mib}")
    journals = large_journal.make(os.path.join(folder, "run/log/journal", MACHINE), mib << 20)
    sink, insistent = Sink(), Sink(insists=True)
    root = Root(journal=None)
    os.makedirs(os.path.join(root.path, "run/log"))
    os.rename(os.path.join(folder, "run/log/journal"), os.path.join(root.path, "run/log/journal"))
    journals = os.path.join(root.path, "run/log/journal", MACHINE)
    root.write("ca.pem", Pki.read("ca.pem"))

    def ours(sink):
        root.write("proc/cmdline", f"rd.report.journal={sink.server.url('/journal')} rd.report.ca=/ca.pem rd.report.timeout=3600\n")
        process = subprocess.Popen([BINARY, "--root", root.path, "failed", "--force"], stderr=subprocess.DEVNULL)
        sink.sender = process.pid
        if process.wait() != 0:
            raise RuntimeError("rdreport did not deliver")

    def theirs(sink):
        sink.sender = None
        subprocess.run(f"journalctl -q --no-pager -o export -D {journals} | gzip -6 | curl -sS -f -T - "
                       f"-X POST -H 'Content-Encoding: gzip' -H Expect: --cacert {Pki.file('ca.pem')} {sink.server.url('/journal')}",
                       shell=True, check=True, stdout=subprocess.DEVNULL)

    try:
        runs = {"rdreport": (ours, sink), "journalctl | gzip -6 | curl": (theirs, sink), "rdreport, AES-256": (ours, insistent)}
        rows = {name: [] for name in runs}
        sent = {}
        for _ in range(ROUNDS):
            for name, (run, to) in runs.items():
                rows[name].append(measured(lambda: run(to)))
                sent[name] = to.received
        size, zipped = (int(subprocess.run(f"{BINARY} --root {root.path} journal | {through} wc -c", shell=True, check=True,
                                           stdout=subprocess.PIPE).stdout) for through in ("", "gzip -6 |"))
    finally:
        os.rename(os.path.join(root.path, "run/log/journal"), os.path.join(folder, "run/log/journal"))
        root.remove()
        sink.server.close()
        insistent.server.close()
    best = {name: min(times) for name, times in rows.items()}
    print(f"\n{size / (1 << 20):.0f} MiB of export format, over TLS, best of {ROUNDS}:\n")
    print("| | CPU seconds | MiB/s | bytes sent | ratio | exact RSS |")
    print("|---|---|---|---|---|---|")
    for name in rows:
        to = runs[name][1]
        rss = f"{to.rss} KB" if runs[name][0] is ours else ""
        print(f"| `{name}` | {best[name]:.2f} | {size / (1 << 20) / best[name]:.0f} | {sent[name]} | "
              f"{size / sent[name]:.2f} | {rss} |")
    one, two = best["rdreport"], best["journalctl | gzip -6 | curl"]
    print(f"\nrdreport takes {one / two:.2f} of the pipeline's CPU time and sends {sent['rdreport'] / sent['journalctl | gzip -6 | curl']:.3f} "
          f"of its bytes, {sent['rdreport'] / zipped:.3f} of what gzip -6 makes of the same stream: it holds two fields more for each "
          "entry than an old journalctl prints.", flush=True)
    return max(sink.rss, insistent.rss)


def main():
    sizes = [int(arg) for arg in sys.argv[1:]] or [64]
    over = [mib for mib in sizes if bench(mib) > 1536]
    if over:
        sys.exit(f"more than 1.5 MiB of memory at {over} MiB")


if __name__ == "__main__":
    main()
