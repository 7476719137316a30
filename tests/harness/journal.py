"""Journals, read and made."""


def parse_export(text):
    """The entries of a text in journal export format, a dictionary each."""
    entries, entry, at = [], {}, 0
    while at < len(text):
        end = text.index(b"\n", at)
        line, at = text[at:end], end + 1
        if not line:
            entries.append(entry)
            entry = {}
        elif b"=" in line:
            key, value = line.split(b"=", 1)
            entry[key.decode()] = value
        else:
            size = int.from_bytes(text[at:at + 8], "little")
            entry[line.decode()] = text[at + 8:at + 8 + size]
            at += 8 + size + 1
    return entries
