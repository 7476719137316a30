"""What initramfs/install puts where, and the hooks that need no boot to be tried."""
import os
import subprocess
import tempfile
import unittest

from harness import BINARY, HERE, Root

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
                       "usr/lib/dracut/modules.d/97rdreport/rdreport-fallback-ignition.service",
                       "usr/lib/dracut/modules.d/97rdreport/rdreport-running@.service",
                       "usr/lib/dracut/modules.d/97rdreport/rdreport-running@fetch.service.d/50-rdreport.conf",
                       "usr/lib/dracut/modules.d/97rdreport/ignition-disks.service.d/50-rdreport.conf"},
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
        self.assertFalse([name for name in found if "ignition" in name or "running" in name], "Ignition is not there")
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

    # In the order in which Ignition has them.
    STAGES = ("fetch-offline", "fetch", "kargs", "disks", "mount", "files")

    def test_each_stage_reports_when_the_ones_before_it_have_ended(self):
        """systemd's own view of it: what a stage wants and goes before, and that nothing goes after a report."""
        folder, _ = self.install("systemd", ["usr/bin/ignition"])
        units = os.path.join(folder, "usr/lib/systemd/system")
        for number, stage in enumerate(self.STAGES):
            settings = {"Wants": set(), "Before": set()}
            with open(os.path.join(units, f"ignition-{stage}.service.d/50-rdreport.conf")) as file:
                for key, value in (line.rstrip("\n").split("=") for line in file if "=" in line):
                    settings[key] |= set(value.split())
            self.assertEqual(settings["Wants"], {f"rdreport-running@{stage}.service"})
            self.assertEqual(settings["Before"], {f"rdreport-running@{later}.service" for later in self.STAGES[number + 1:]})
            with open(os.path.join(units, f"ignition-{stage}.service"), "w") as file:
                file.write("[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n")
        said = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                               *(os.path.join(units, name.format(stage)) for stage in self.STAGES for name in ("ignition-{}.service", "rdreport-running@{}.service"))],
                              stderr=subprocess.PIPE, text=True, check=False).stderr
        wrong = [line for line in said.splitlines() if ("rdreport" in line or "ycle" in line) and "not executable" not in line]
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
    def source(self, hook, cmdline, vendor=""):
        """What a hook does where dracut's functions find these words on the command line: what it runs, and what it asks for."""
        script = '''
            mount -t tmpfs none /etc; mkdir /etc/cmdline.d
            getarg() { for key; do case $key in -d) return 1 ;; esac; case " $CMDLINE" in *" $key"*) return 0 ;; esac; done; return 1; }
            getargbool() { getarg "$2"; }
            rdreport() { case $1 in check) "$BINARY" --root "$ROOT" "$@" ;; *) echo "ran $*" ;; esac; }
            . "$1"
            wait
            cat /etc/cmdline.d/* 2> /dev/null || :
            echo "still here"
        '''
        root = Root(cmdline, journal=None)
        self.addCleanup(root.remove)
        root.write("sys/class/dmi/id/sys_vendor", vendor)
        result = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh",
                                 os.path.join(HOOKS, hook)], check=True, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "CMDLINE": cmdline, "BINARY": BINARY, "ROOT": root.path})
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
        for cmdline, vendor, needed in [
            ("quiet", "", False), ("rd.report.journal=file:/dev/ttyS1", "", False), ("rd.report.journal=vsock://2:1", "", False), ("rd.report.url=http://h/", "", True),
            ("rd.report.journal=file:/j rd.report.journal=https://h/", "", True), ("coreos.status.url=http://h/", "", True), ("rd.report.fallback=http://h/", "", True),
            ("rd.report.ssh=core", "", True),
            # A cloud is told over the network, but does not hold up a boot that provisions nothing.
            ("quiet", "Scaleway", False), ("ignition.platform.id=gcp", "", False), ("ignition.firstboot", "Scaleway", True),
            ("ignition.firstboot=1 ignition.platform.id=gcp", "", True), ("flatcar.first_boot=detected", "Scaleway", True),
            ("rd.report.platform=azure", "", True), ("em.events_url=http://h/", "", True), ("rd.report.maas.url=http://h/", "", True),
            # Nothing to tell, or not over the network.
            ("ignition.firstboot", "Hetzner", False), ("ignition.firstboot ignition.platform.id=vmware", "", False),
            ("ignition.firstboot rd.report.platform=none", "Scaleway", False), ("ignition.firstboot rd.report.on=running", "Scaleway", False),
        ]:
            self.assertEqual(self.source("rdreport-net.sh", cmdline, vendor), ["rd.neednet=1"] if needed else [], (cmdline, vendor))


class Mkinitcpio(unittest.TestCase):
    """There is no package of it here: its functions are stood in for, as they are called by its `mkinitcpio` and `init`."""

    def run_bash(self, script, *args, **environment):
        return subprocess.run(["unshare", "-m", "--propagation", "private", "bash", "-euc", script, "bash", *args], check=True, stdout=subprocess.PIPE,
                              text=True, env={**os.environ, **environment}).stdout.splitlines()

    def test_what_is_put_into_the_image(self):
        script = """
            add_binary() { echo "binary $1"; }
            # A question mark says that it may be missing.
            add_module() { echo "module $1"; }
            add_runscript() { echo "runs ${BASH_SOURCE[1]##*/}"; }
            . "$1"
            build
            [ -n "$(help)" ]
        """
        self.assertEqual(self.run_bash(script, os.path.join(FOLDER, "mkinitcpio/install/rdreport")),
                         ["binary rdreport", "module pvpanic-mmio?", "module pvpanic-pci?", "runs rdreport"])

    def hook(self, function, cmdline="quiet", there=(), is_mounted=None):
        """What the runtime hook's function runs."""
        root = Root(cmdline, journal=None)
        self.addCleanup(root.remove)
        script = """
            mount --bind "$ROOT/proc/cmdline" /proc/cmdline
            exec dash -c '
                stat() { case $3 in / | $MOUNTED | $THERE) case $3 in "$MOUNTED") echo fe02 ;; *) echo 1 ;; esac ;; *) return 1 ;; esac; }
                rdreport() { echo "ran $*"; }
                . "$1"
                '"$FUNCTION"'
                wait
                echo still here' dash "$1"
        """
        lines = self.run_bash(script, os.path.join(FOLDER, "mkinitcpio/hooks/rdreport"), ROOT=root.path, FUNCTION=function,
                              THERE=" ".join(there), MOUNTED=is_mounted or "none")
        self.assertEqual(lines.pop(), "still here")
        return lines

    def test_success_needs_a_root_that_is_mounted(self):
        self.assertEqual(self.hook("run_latehook"), [])
        self.assertEqual(self.hook("run_latehook", there=["/sysroot"]), [])
        for place in ("/sysroot", "/new_root"):
            self.assertEqual(self.hook("run_latehook", is_mounted=place), ["ran succeeded"])

    def test_a_failure_is_reported_but_not_a_break(self):
        self.assertEqual(self.hook("run_emergencyhook"), ["ran failed"])
        self.assertEqual(self.hook("run_emergencyhook", "break=premount"), [])

    def test_the_watchdog_runs_where_it_is_set(self):
        self.assertEqual(self.hook("run_earlyhook", "rd.report.stuck=60"), ["ran stuck --wait"])
        self.assertEqual(self.hook("run_earlyhook"), [])


if __name__ == "__main__":
    unittest.main()
