#!/usr/bin/python3
"""Writes the journal target's corpus: small journal files of each layout and compression, made by hand."""

import lzma
import pathlib
import struct
import subprocess

OUT = pathlib.Path(__file__).parent / "corpus/journal"
BOOT = b"\xb0" * 16


def journal(entries, compact=False):
    out = bytearray(272)
    out[:8] = b"LPKSHHRH"
    struct.pack_into("<I", out, 12, 0x1F if compact else 0xF)
    out[56:72], out[72:88] = BOOT, b"\x5e" * 16
    struct.pack_into("<Q", out, 88, 272)

    def add(kind, flags, rest):
        at = len(out)
        out.extend(struct.pack("<BB6xQ", kind, flags, 16 + len(rest)) + rest)
        out.extend(bytes(-len(out) % 8))
        return at

    offsets, shared = [], {}
    for number, fields in enumerate(entries, 1):
        items = []
        for flags, payload in fields:
            if (flags, payload) not in shared:
                head = bytes(40) + struct.pack("<Q", 2) + (bytes(8) if compact else b"")
                shared[flags, payload] = add(1, flags, head + payload)
            items.append(shared[flags, payload])
        rest = struct.pack("<QQQ", number, 1796000000000000 + number, number) + BOOT + struct.pack("<Q", number)
        rest += b"".join(struct.pack("<I", at) if compact else struct.pack("<QQ", at, 0) for at in items)
        offsets.append(add(3, 0, rest))
    half = len(offsets) // 2
    arrays = []
    for part in (offsets[:half], offsets[half:] + [0]):
        items = b"".join(struct.pack("<I" if compact else "<Q", at) for at in part)
        arrays.append(add(6, 0, bytes(8) + items))
    struct.pack_into("<Q", out, arrays[0] + 16, arrays[1])
    for at, value in ((136, arrays[1]), (152, len(offsets)), (160, len(offsets)), (176, arrays[0])):
        struct.pack_into("<Q", out, at, value)
    return bytes(out)


def zstd(payload, *options):
    return 4, subprocess.run(["zstd", "-qc", "--no-check", *options], input=payload, stdout=subprocess.PIPE, check=True).stdout


def xz(payload):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    return 1, lzma.compress(payload, lzma.FORMAT_XZ, lzma.CHECK_NONE, filters=filters)


def lz4(payload):
    """Literals, a match of them, and literals again."""
    head, tail = payload[:14], payload[-5:]
    matched = len(payload) - len(head) - len(tail)
    block = bytes([14 << 4 | 15]) + head + struct.pack("<H", 1) + b"\xff" * ((matched - 19) // 255) + bytes([(matched - 19) % 255])
    return 2, struct.pack("<Q", len(payload)) + block + bytes([5 << 4]) + tail


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    text = b"MESSAGE=" + b"the quick brown fox %d jumps over the lazy dog " * 30
    run = b"FIELD=" + b"x" * 2000
    plain = [
        [(0, b"PRIORITY=6"), (0, b"_HOSTNAME=host"), (0, b"MESSAGE=hello"), (0, b"_PID=1"), (0, b"SYSLOG_IDENTIFIER=systemd")],
        [(0, b"PRIORITY=6"), (0, b"_HOSTNAME=host"), (0, b"MESSAGE=two\nlines\xff"), (0, b"EMPTY="), (0, b"A=1"), (0, b"A=2")],
        [(0, b"UNIT=a.service"), (0, b"UNIT_RESULT=signal"), (0, b"MESSAGE_ID=d9b373ed55a64feb8242e02dbe79a49c"), (0, b"MESSAGE=failed")],
        [(0, b"MESSAGE=https://u:p@h/?a=b $6$salt$hash \"source\": \"data:,secret\" Authorization: Bearer abc -----BEGIN PRIVATE KEY-----")],
        [(0, b"MESSAGE=-----BEGIN RSA PRIVATE KEY-----")],
        [(0, b"MESSAGE=MIIEpAIBAAKCAQEA"), (0, b"_SYSTEMD_UNIT=a.service")],
        [(0, b"MESSAGE=-----END RSA PRIVATE KEY-----")],
        [(0, b"MESSAGE=MIIEpAIBAAKCAQEA"), (0, b"_SYSTEMD_UNIT=a.service")],
    ]
    for compact in (False, True):
        name = "compact" if compact else "regular"
        for kind, fields in {
            "plain": [],
            "zstd": [zstd(text), zstd(run), zstd(bytes(range(256)) * 9), zstd(text, "-19")],
            "lz4": [lz4(run)],
            "xz": [xz(text), xz(run)],
        }.items():
            (OUT / f"{name}-{kind}").write_bytes(journal(plain + [[field, (0, b"_HOSTNAME=host")] for field in fields], compact))


if __name__ == "__main__":
    main()
