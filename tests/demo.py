"""Replays a recorded boot in which Ignition did not find its disk, against an HTTPS server with a certificate of its own."""
import json
import sys

from peers import Pki, Root, Server, parse_export


def main():
    server = Server(tls="p256")
    root = Root(f"quiet ignition.firstboot ignition.platform.id=qemu rd.report.url={server.url('/status')} "
                f"rd.report.journal={server.url('/journal')} rd.report.ca=/ca.pem")
    try:
        root.write("ca.pem", Pki.read("ca.pem"))
        root.write("proc/sys/kernel/hostname", "node-7\n")
        arguments = ["failed", "--stage", "disks"]
        print("$ rdreport --root ROOT", *arguments, flush=True)
        result = root.run(*arguments)
        print(result.stderr)
        for request in server.requests:
            print(f"--- {request.method} {request.target}: {len(request.body)} bytes, "
                  f"{request.headers.get('content-encoding', 'not compressed')}")
            if request.target == "/status":
                print(json.dumps(json.loads(request.text()), indent=2))
            else:
                show_journal(request.text())
        sys.exit(result.returncode or len(server.requests) != 2)
    finally:
        root.remove()


def show_journal(text):
    entries = parse_export(text)
    print(f"{len(entries)} entries, {len(text)} bytes in export format; the last ones:")
    for entry in entries[-12:]:
        time = int(entry["__MONOTONIC_TIMESTAMP"]) / 1e6
        message = entry.get("MESSAGE", b"").decode(errors="replace")
        print(f"[{time:12.6f}] {entry.get('SYSLOG_IDENTIFIER', b'').decode()}: {message}")


if __name__ == "__main__":
    main()
