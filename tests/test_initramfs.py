"""What initramfs/install puts where, and the hooks that need no boot to be tried."""
import os
import subprocess
import tempfile
import unittest

from peers import BINARY, HERE

FOLDER = os.path.join(HERE, "..", "initramfs")
HOOKS = os.path.join(FOLDER, "dracut")


class Install(unittest.TestCase):
    def install(self, kind, files=()):
        to = tempfile.TemporaryDirectory()
        self.addCleanup(to.cleanup)
        for path in files:
            os.makedirs(os.path.join(to.name, os.path.dirname(path)), exist_ok=True)
            open(os.path.join(to.name, path), "w").close()
        subprocess.run([os.path.join(FOLDER, "install"), kind], check=True,
                       env={**os.environ, "DESTDIR": to.name, "RDREPORT": BINARY})
        return to.name, {os.path.relpath(os.path.join(folder, name), to.name)
                         for folder, _, names in os.walk(to.name) for name in names}

    def test_each_kind(self):
        for kind, files in {
            "dracut": {"usr/lib/dracut/modules.d/97rdreport/module-setup.sh",
                       "usr/lib/dracut/modules.d/97rdreport/rdreport-failed.service",
                       "usr/lib/dracut/modules.d/97rdreport/rdreport-fallback.target",
                       "usr/lib/dracut/modules.d/97rdreport/rdreport-fallback-ignition.service"},
            "initramfs-tools": {"usr/share/initramfs-tools/hooks/rdreport",
                                "usr/share/initramfs-tools/scripts/panic/rdreport"},
            "mkinitcpio": {"usr/lib/initcpio/install/rdreport", "usr/lib/initcpio/hooks/rdreport"},
            "systemd": {"usr/lib/systemd/system/emergency.target.wants/rdreport-failed.service"},
            "busybox": {"init", "bin/rdreport"},
        }.items():
            with self.subTest(kind=kind):
                folder, found = self.install(kind)
                self.assertLessEqual(files, found)
                binary = os.path.join(folder, "bin/rdreport" if kind == "busybox" else "usr/bin/rdreport")
                subprocess.run([binary, "--version"], check=True, stdout=subprocess.DEVNULL)

    def test_an_unknown_kind_is_told_the_known_ones(self):
        result = subprocess.run([os.path.join(FOLDER, "install"), "grub"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("mkinitcpio", result.stderr)

    def test_units_are_enabled_and_valid(self):
        folder, found = self.install("systemd")
        self.assertIn("usr/lib/systemd/system/rdreport-fallback.target", found)
        self.assertFalse([name for name in found if "ignition" in name], "Ignition is not there")
        folder, found = self.install("systemd", ["usr/bin/ignition"])
        for unit in ("failed", "succeeded", "stuck", "follow", "fallback-ignition"):
            links = [name for name in found if name.endswith(f".wants/rdreport-{unit}.service")]
            self.assertEqual(len(links), 1)
            self.assertTrue(os.path.exists(os.path.join(folder, links[0])))
            said = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                                   os.path.join(folder, f"usr/lib/systemd/system/rdreport-{unit}.service")],
                                  stderr=subprocess.PIPE, text=True, check=False).stderr
            # The binary is not where the unit says.
            wrong = [line for line in said.splitlines() if "rdreport" in line and "not executable" not in line]
            self.assertEqual(wrong, [])

    def test_shell_passes_shellcheck(self):
        for name in subprocess.run(["find", FOLDER, "-type", "f"], check=True, stdout=subprocess.PIPE,
                                   text=True).stdout.split():
            if name.endswith((".service", ".target", ".conf")):
                continue
            with open(name) as file:
                first = file.readline()
            shell = "bash" if "bash" in first else "dash"
            # Not followed: what belongs to the image's builder, sourced or set there.
            subprocess.run(["shellcheck", "-s", shell, "-e", "SC1091,SC2013,SC2034,SC2154,SC2317", name], check=True)


class Hooks(unittest.TestCase):
    def source(self, hook, cmdline):
        """What a hook does where dracut's functions find these words on the command line: what it runs, and what it asks for."""
        script = '''
            mount -t tmpfs none /etc; mkdir /etc/cmdline.d
            getarg() { for key; do case $key in -d) return 1 ;; esac; case " $CMDLINE" in *" $key"*) return 0 ;; esac; done; return 1; }
            getargbool() { getarg "$2"; }
            getargs() { for word in $CMDLINE; do case $word in "$1"*) echo "${word#"$1"}" ;; esac; done; }
            rdreport() { echo "ran $*"; }
            . "$1"
            wait
            cat /etc/cmdline.d/* 2> /dev/null || :
            echo "still here"
        '''
        result = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh",
                                 os.path.join(HOOKS, hook)], check=True, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "CMDLINE": cmdline})
        lines = result.stdout.splitlines()
        # dracut goes on behind it.
        self.assertEqual(lines.pop(), "still here")
        return lines

    def test_a_failure_is_reported_but_not_a_break(self):
        self.assertEqual(self.source("rdreport-failed.sh", "quiet"), ["ran failed"])
        self.assertEqual(self.source("rdreport-failed.sh", "rd.break=pre-mount"), [])

    def test_the_watchdog_runs_where_it_is_set(self):
        self.assertEqual(self.source("rdreport-stuck.sh", "rd.report.stuck=60"), ["ran stuck --wait"])
        self.assertEqual(self.source("rdreport-stuck.sh", "rd.report.url=http://h/"), [])

    def test_the_journal_is_followed_where_it_is_set(self):
        self.assertEqual(self.source("rdreport-follow.sh", "rd.report.follow"), ["ran follow"])
        self.assertEqual(self.source("rdreport-follow.sh", "rd.report.journal=http://h/"), [])

    def test_the_network_is_asked_for_when_it_is_needed(self):
        for cmdline, expected in [("quiet", []), ("rd.report.journal=file:/dev/ttyS1", []),
                                  ("rd.report.journal=vsock://2:1", []),
                                  ("rd.report.url=http://h/", ["rd.neednet=1"]), ("rd.report.fallback=http://h/", ["rd.neednet=1"]),
                                  ("rd.report.journal=file:/j rd.report.journal=https://h/", ["rd.neednet=1"]),
                                  ("rd.report.ssh=core", ["rd.neednet=1"]),
                                  ("coreos.status.url=http://h/", ["rd.neednet=1"])]:
            self.assertEqual(self.source("rdreport-net.sh", cmdline), expected, cmdline)


if __name__ == "__main__":
    unittest.main()
