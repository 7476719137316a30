"""Replays a recorded boot in which Ignition did not find its disk, against an HTTPS server with a certificate of its own.

`demo.py --svg FILE` draws the output into FILE as well, for the README."""
import contextlib
import html
import io
import json
import sys

from harness import Pki, Root, Server, parse_export


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


# The picture: columns and lines that a reader takes in, and the size of a character.
COLUMNS, LINES = 118, 54
WIDTH, HEIGHT = 8, 17


def picture(text):
    """The output as an SVG of a terminal. Long lines, and lines beyond the middle of long output, are cut with a mark."""
    lines = [line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "\u2026" for line in text.rstrip().split("\n")]
    if len(lines) > LINES:
        lines = lines[:LINES - 14] + ["\u2026"] + lines[-13:]
    width, height = (COLUMNS + 4) * WIDTH, (len(lines) + 2) * HEIGHT
    rows = []
    for number, line in enumerate(lines):
        style = "p" if line.startswith("$ ") else "r" if line.startswith("rdreport: ") else "h" if line.startswith("---") else "t"
        rows.append(f'<text xml:space="preserve" class="{style}" x="{2 * WIDTH}" y="{(number + 2) * HEIGHT - 4}">{html.escape(line)}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<style>text { font: 13px ui-monospace, Menlo, Consolas, monospace; white-space: pre; fill: #d0d7de }"
        " .p { fill: #ffffff; font-weight: bold } .r { fill: #7ee787 } .h { fill: #79c0ff }</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>', *rows, "</svg>", ""])


def draw(path):
    """Runs the demo, and draws what it prints into `path`."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main()
    finally:
        print(printed.getvalue(), end="")
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(printed.getvalue()))


def show_journal(text):
    entries = parse_export(text)
    print(f"{len(entries)} entries, {len(text)} bytes in export format; the last ones:")
    for entry in entries[-12:]:
        time = int(entry["__MONOTONIC_TIMESTAMP"]) / 1e6
        message = entry.get("MESSAGE", b"").decode(errors="replace")
        print(f"[{time:12.6f}] {entry.get('SYSLOG_IDENTIFIER', b'').decode()}: {message}")


if __name__ == "__main__":
    draw(sys.argv[2]) if sys.argv[1:2] == ["--svg"] else main()
