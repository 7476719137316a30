"""How many secrets are masked, and how many harmless lines are touched: the corpus through the real binary."""
import re
import unittest

from peers import Root
from secrets_corpus import HARMLESS, SECRETS
from test_journal import MACHINE, export, written


def messages(items):
    """A journal made by systemd-journal-remote with these messages, an entry each, and one of another program behind each."""
    entries = []
    for item in items:
        for message in item if isinstance(item, tuple) else (item,):
            plain = re.sub("[«»]", "", message).encode()
            entries.append([(b"MESSAGE", plain), (b"SYSLOG_IDENTIFIER", b"tool"), (b"PRIORITY", b"6")])
        entries.append([(b"MESSAGE", b"."), (b"SYSLOG_IDENTIFIER", b"other")])
    files = written(export(entries))
    root = Root("quiet", journal=None)
    for name, content in files.items():
        root.write(f"{MACHINE}/{name}", content)
    return root


class Rates(unittest.TestCase):
    def shown(self, item, format):
        root = messages([item])
        try:
            result = root.run("journal", "--format", format)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout
        finally:
            root.remove()

    def test_at_least_95_of_100_secrets_are_masked(self):
        self.assertGreaterEqual(len(SECRETS), 120)
        for format in ("short", "json"):
            leaks = []
            for item in SECRETS:
                shown = self.shown(item, format)
                text = "\n".join(item) if isinstance(item, tuple) else item
                secrets = re.findall("«(.*?)»", text, re.S)
                self.assertTrue(secrets, text)
                if any(secret in shown or secret.replace("\\", "\\\\").replace('"', '\\"') in shown for secret in secrets):
                    leaks.append((text, shown))
            for text, shown in leaks:
                print(f"shown as {format}: {text}\n    {shown}")
            print(f"{format}: {len(SECRETS) - len(leaks)} of {len(SECRETS)} secrets are masked")
            self.assertLessEqual(len(leaks), len(SECRETS) * 0.05)

    def test_at_most_2_of_100_harmless_lines_are_touched(self):
        self.assertGreaterEqual(len(HARMLESS), 120)
        root = messages(HARMLESS)
        self.addCleanup(root.remove)
        shown = root.run("journal", "--format", "short").stdout
        touched = [line for line in HARMLESS if f"tool: {line}\n" not in shown]
        for line in touched:
            print(f"touched: {line}")
        print(f"{len(touched)} of {len(HARMLESS)} harmless lines are touched")
        self.assertLessEqual(len(touched), len(HARMLESS) * 0.02)


if __name__ == "__main__":
    unittest.main()
