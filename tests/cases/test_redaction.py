"""How many secrets are masked, and how many harmless lines are touched: the corpus through the real binary."""
import os
import re
import unittest

from harness import Root
from harness.secrets_corpus import HARMLESS, SECRETS
from cases.test_journal import MACHINE, export, written


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


class CommandLine(unittest.TestCase):
    """What the status masks, the journal masks, wherever it has the same words."""

    def test_the_journal_masks_what_the_status_does(self):
        for words, secret in (
                ("rd.report.maas.token=a:b:S3CR", "S3CR"), ('rd.report.header="X-Tok: S3CR x"', "S3CR"),
                ("rd.report.header=Authorization: Bearer S3CR", "S3CR"), ("rd.report.headers='X-Tok: S3CR'", "S3CR"),
                ("rd.report.tokne=S3CR", "S3CR"), ("rd.reprot.header=S3CR", "S3CR"), ("rd.report.url=u:S3CR@ops.example/s?sig=1", "S3CR"),
                ("rd.report.url=https://ops.example/s?S3CR", "S3CR"), ('"rd.report.url=http://127.0.0.1:1/s?sig=a S3CR"', "S3CR"),
                ("netroot=iscsi:u:S3CR@10.0.0.1::3260::iqn", "S3CR"), ("systemd.set_credential=a:S3CR", "S3CR"), ("rd.luks.key=S3CR", "S3CR"),
                ("systemd.setenv=A_TOKEN=S3CR", "S3CR"), ("inst.sshpw=S3CR", "S3CR"), ("wifi.psk=S3CR", "S3CR"), ("k3s.server_key=S3CR", "S3CR"),
                ("rootflags=user=u,password=S3CR,ro", "S3CR"), ("my.token.of=S3CR", "S3CR")):
            line = f"BOOT_IMAGE=/vmlinuz ro {words} quiet"
            for message in (f"Command line: {line}", f"Kernel command line: {line}", f"Using kernel command line parameters:  {line}"):
                with self.subTest(message):
                    self.held(line, message, secret)
            if words.lstrip('"').startswith("rd.") or "=iscsi:" in words:
                with self.subTest(words):
                    self.held(line, f"ignored: {words}", secret)

    def held(self, line, message, secret):
        root = messages([message])
        try:
            root.write("proc/cmdline", line + "\n")
            status = root.run("failed", "--dry-run")
            self.assertNotIn(secret, status.stdout)
            for format in ("export", "short", "json"):
                shown = root.run("journal", "--format", format).stdout
                self.assertIn(message.split()[0], shown)
                self.assertNotIn(secret, shown)
            os.remove(os.path.join(root.path, MACHINE, os.listdir(os.path.join(root.path, MACHINE))[0]))
            # The kernel's log, where there is no journal.
            root.write("dev/kmsg", f"6,1,1000,-;{message}\n")
            self.assertNotIn(secret, root.run("journal", "--format", "short").stdout)
        finally:
            root.remove()


if __name__ == "__main__":
    unittest.main()
