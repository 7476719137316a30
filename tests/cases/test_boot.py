"""Whole boots of an image with real systemd, real dracut and the real Ignition, in namespaces: what arrives outside, how often, and when.

The image is made of Debian's packages, which are downloaded and unpacked, not installed, into target/boot; a second run finds it there."""
import base64
import gzip
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import unittest

from harness import BINARY, HERE, parse_export

BOOT = os.path.join(HERE, "boot")
sys.path.insert(0, BOOT)
import vsock  # noqa: E402
from vm import Machine, accelerator  # noqa: E402

CACHE = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))), "boot")
SERVER = "http://10.0.2.2:8000"
# What a container lacks: devices, so no root device, and no queue for them; the root file system is a folder.
CONTAINER = {
    "etc/systemd/system/initrd-root-device.target.d/50-root-device.conf": "",
    "etc/systemd/system/dracut-initqueue.service": "-> /dev/null",
    "etc/systemd/system/systemd-resolved.service": "-> /dev/null",
    "etc/systemd/system/sysroot.mount": "[Unit]\nBefore=initrd-root-fs.target\nDefaultDependencies=no\n"
                                        "[Mount]\nWhat=/newroot\nWhere=/sysroot\nType=none\nOptions=bind\n",
    "newroot/etc/os-release": "ID=test\n",
    # Ignition's files stage labels what it makes, which takes a policy and a program.
    "newroot/etc/selinux/config": "SELINUX=enforcing\nSELINUXTYPE=targeted\n",
    "newroot/etc/selinux/targeted/contexts/files/file_contexts": "",
    "usr/sbin/setfiles": "#!/bin/sh\nexit 0\n", "usr/bin/setfiles": "#!/bin/sh\nexit 0\n",
    "newroot/sbin/init": "#!/bin/busybox sh\necho the boot went on > /dev/console\n/bin/busybox poweroff -f\n",
    "newroot/bin/placeholder": "", "newroot/proc/placeholder": "", "newroot/sys/placeholder": "",
    "newroot/dev/placeholder": "", "newroot/run/placeholder": "", "newroot/tmp/placeholder": "",
}
HASH = "$y$j9T$notarealhash$secretsecretsecret"


def can_boot():
    """Why not, or nothing."""
    if os.geteuid() != 0:
        return "only root may"
    if platform.machine() != "x86_64":
        return "the images are for x86-64"
    tried = subprocess.run(["unshare", "-n", "-m", "unshare", "-m", "-u", "-i", "-C", "-n", "-p", "-f", "-T", "true"],
                           stderr=subprocess.PIPE, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else None


def ignition(**config):
    return json.dumps({"ignition": {"version": "3.3.0", **config.pop("ignition", {})}, **config})


class Arrived:
    """What became of a boot."""

    def __init__(self, result):
        self.console, self.has_ended = result["console"], result["ended"]
        self.statuses, self.journals, self.parts, self.events, self.after_s = [], [], [], [], None
        self.outside, self.took_s = result.get("outside"), result.get("took_s")
        for post in result["posts"]:
            body = base64.b64decode(post["body"])
            if post["path"] == "/events":
                self.events.append(json.loads(body))
                self.after_s = self.after_s or post["after_s"]
            elif post["path"] == "/status":
                self.statuses.append(json.loads(body))
                self.after_s = self.after_s or post["after_s"]
            elif "X-Report-Part" in post["headers"]:
                self.parts.append((post["after_s"], int(post["headers"]["X-Report-Part"]), parse_export(gzip.decompress(body))))
            else:
                self.journals.append(parse_export(gzip.decompress(body)))


def prepare(kind):
    """Makes what a tier needs, and gives where it is."""
    return subprocess.run([os.path.join(BOOT, "prepare"), CACHE, kind], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "RDREPORT": BINARY}).stdout.strip()


class Virtual(unittest.TestCase):
    """A kernel, its modules, its clock, and devices."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or platform.machine() != "x86_64":
            why = "the images are made by root, for x86-64"
            print(f"\nSKIPPED, all boots in QEMU: {why}", file=sys.stderr)
            raise unittest.SkipTest(why)

    def machine(self, kind, *words, **options):
        machine = Machine(os.path.join(CACHE, "root"), prepare(kind), words, **options)
        self.addCleanup(machine.close)
        return machine

    def arrived(self, machine, posts, timeout_s):
        self.assertTrue(machine.wait(lambda came, _: len(came) >= posts, timeout_s), machine.console())
        arrived = Arrived({"console": machine.console(), "ended": False, "posts": machine.server.posts})
        print(f"{self.id().split('.')[-1]}: status after {arrived.after_s} s ({accelerator()[0]})", file=sys.stderr)
        return arrived

    TINY = ("address=10.0.2.15/24", "gateway=10.0.2.2", "rd.report.url=SERVER/status", "rd.report.journal=SERVER/journal")

    def test_busybox(self):
        arrived = self.arrived(self.machine("tiny", *self.TINY, memory=256), 2, 120)
        status = arrived.statuses[0]
        self.assertEqual((status["state"], status["stage"]), ("failed", "root"))
        self.assertEqual(status["message"], "no file system has the label root")
        self.assertTrue(status["clock_trusted"])
        # There is no journald: it is the kernel's log.
        self.assertTrue(any(b"Linux version" in entry.get("MESSAGE", b"") for entry in arrived.journals[0]))

    def test_a_panic_is_seen_by_the_hypervisor(self):
        for device in ("pvpanic", "pvpanic-pci"):
            with self.subTest(device=device):
                machine = self.machine("tiny", *self.TINY, "rd.report.action=panic", memory=256,
                                       more=("-device", device, "-action", "panic=none"))
                panicked = machine.wait(lambda _, events: "GUEST_PANICKED" in events, 120)
                self.assertTrue(panicked, machine.console())
                # Only once all was delivered.
                self.assertEqual(len(machine.server.posts), 2)

    def test_the_port_that_kola_reads(self):
        with tempfile.NamedTemporaryFile() as port:
            machine = self.machine("tiny", *self.TINY[:3], "rd.report.journal=file:/dev/vport1p1", memory=256, more=(
                "-device", "virtio-serial-pci", "-chardev", "file,id=port,path=" + port.name,
                "-device", "virtserialport,chardev=port,name=com.coreos.ignition.journal"))
            # In the end it powers off.
            self.assertTrue(machine.wait(lambda _, events: "SHUTDOWN" in events, 120), machine.console())
            lines = port.read().splitlines()
            self.assertEqual(lines[-1:], [b"{}"], machine.console())
            self.assertTrue(any("Linux version" in json.loads(line)["MESSAGE"] for line in lines[:-1]))

    def test_the_manager_is_told_by_vsock(self):
        """It hears by packets if it knows them, else by a stream; which port it is, is in the firmware's strings."""
        for packets in (True, False):
            with tempfile.TemporaryDirectory() as folder, self.subTest(packets=packets):
                path = os.path.join(folder, "vsock")
                device = vsock.Device(path, 1234, packets)
                self.addCleanup(device.close)
                machine = self.machine("tiny", *self.TINY[:3], memory=256, more=(
                    "-object", "memory-backend-memfd,id=memory,size=256M,share=on", "-machine", "memory-backend=memory",
                    "-chardev", "socket,id=vsock,path=" + path, "-device", "vhost-user-vsock-pci,chardev=vsock",
                    "-smbios", "type=11,value=io.systemd.credential:vmm.notify_socket=vsock:2:1234"))
                self.arrived(machine, 1, 120)
                self.assertTrue(machine.wait(lambda _, events: "SHUTDOWN" in events, 120), machine.console())
                said, = device.said
                self.assertEqual(said["bytes"], b"STATUS=failed: [root] no file system has the label root\nEXIT_STATUS=1\n", machine.console())
                self.assertEqual((said["kind"], said["has_ended"]), (vsock.PACKETS if packets else vsock.STREAM, True))
                # A port that only root can have.
                self.assertLess(said["port"], 1024)
                self.assertIn("cloud notify: delivered", machine.console())

    def test_initramfs_tools(self):
        machine = self.machine("initramfs-tools", "root=/dev/vda1", "rootdelay=1", "ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:none", "quiet", *self.TINY[2:], memory=512)
        arrived = self.arrived(machine, 2, 180)
        self.assertEqual([status["state"] for status in arrived.statuses], ["failed"])
        self.assertTrue(any(b"Linux version" in entry.get("MESSAGE", b"") for entry in arrived.journals[0]))

    def test_initramfs_tools_and_dhcp(self):
        machine = self.machine("initramfs-tools", "root=/dev/vda1", "rootdelay=1", "ip=dhcp", "quiet", *self.TINY[2:], memory=512)
        arrived = self.arrived(machine, 2, 180)
        self.assertEqual([status["state"] for status in arrived.statuses], ["failed"])

    def test_dracut_without_systemd(self):
        machine = self.machine("dracut", "root=/dev/vda1", "rd.retry=2", "ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:none", *self.TINY[2:], memory=512)
        arrived = self.arrived(machine, 2, 180)
        self.assertEqual([status["state"] for status in arrived.statuses], ["failed"])
        self.assertTrue(any(b"Linux version" in entry.get("MESSAGE", b"") for entry in arrived.journals[0]))
        self.assertNotIn("systemd[1]", machine.console())

    def test_a_disk_that_is_missing(self):
        """The watchdog tells that the boot hangs, and what it waits for; systemd gives up later."""
        machine = self.machine("ignition", "root=LABEL=nowhere", "rd.timeout=45", "rd.report.stuck=15", "ip=dhcp", "quiet",
                               "rd.report.url=SERVER/status", "rd.report.journal=SERVER/journal", memory=1024)
        arrived = self.arrived(machine, 4, 240)
        stuck, failed = arrived.statuses
        device = "dev-disk-by\\x2dlabel-nowhere.device"
        self.assertEqual((stuck["state"], failed["state"]), ("stuck", "failed"))
        self.assertIn(device, stuck["starting_units"])
        self.assertEqual(stuck["failed_units"], [])
        self.assertIn((device, "timeout"), [(unit["unit"], unit["result"]) for unit in failed["failed_units"]])

    def test_a_clock_of_long_ago(self):
        arrived = self.arrived(self.machine("tiny", *self.TINY, memory=256, more=("-rtc", "base=2000-01-01")), 2, 120)
        self.assertFalse(arrived.statuses[0]["clock_trusted"])
        self.assertTrue(arrived.statuses[0]["time"].startswith("2000-01-01"))

    def test_ignition(self):
        config = json.dumps({"ignition": {"version": "3.3.0", "config": {"merge": [{"source": "SERVER/missing.ign"}]}}})
        machine = self.machine("ignition", "ignition.firstboot", "ignition.platform.id=qemu", "root=LABEL=root", "ip=dhcp",
                               "quiet", "rd.report.url=SERVER/status", "rd.report.journal=SERVER/journal",
                               memory=1024, config=config)
        arrived = self.arrived(machine, 2, 240)
        status = arrived.statuses[0]
        self.assertEqual(status["state"], "failed")
        self.assertIn("ignition-fetch.service", [u["unit"] for u in status["failed_units"]])
        self.assertIn("resource not found", status["message"])
        self.assertTrue(any(entry.get("_TRANSPORT") == b"kernel" for entry in arrived.journals[0]))

    def test_a_fallback_reaches_the_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = os.path.join(folder, "disk")
            os.makedirs(os.path.join(folder, "root/etc"))
            with open(disk, "wb") as file:
                file.truncate(32 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-L", "root", "-O", "^has_journal", "-d", os.path.join(folder, "root"), disk], check=True)
            fallback = ignition(storage={"files": [{"path": "/etc/fallback", "contents": {"source": "data:,it%20is%20here"}}]})
            config = ignition(ignition={"config": {"merge": [{"source": "SERVER/missing.ign"}]}})
            # The root file system is read-only until Ignition comes, and then nothing of it stays in memory. (In the end it
            # wants SELinux labels, for which nothing is here: its unit fails behind what is looked at.)
            machine = self.machine("ignition", "ignition.firstboot", "ignition.platform.id=qemu", "root=LABEL=root", "ro", "rootflags=sync", "ip=dhcp",
                                   "quiet", "rd.report.url=SERVER/status", "rd.report.fallback=SERVER/fallback.ign",
                                   "rd.report.fallback.sha512=" + hashlib.sha512(fallback.encode()).hexdigest(), memory=1024, config=config,
                                   more=("-drive", f"file={disk},if=virtio,format=raw"), served={"/fallback.ign": fallback})
            self.arrived(machine, 1, 240)
            self.assertTrue(machine.wait(lambda *_: "Press Enter for maintenance" in machine.console(), 300), machine.console())
            self.assertIn("rdreport-fallback.target is started", machine.console())
            found = subprocess.run(["debugfs", "-R", "cat /etc/fallback", disk], capture_output=True, check=True).stdout
            self.assertEqual(found, b"it is here", machine.console())


class Namespace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = can_boot()
        if why:
            print(f"\nSKIPPED, all boots in namespaces: {why}", file=sys.stderr)
            raise unittest.SkipTest(why)
        cls.image = prepare("namespace")

    def boot(self, *words, config=None, files=None, net="up", posts=2, console="", ends=False, timeout_s=60,
             server=SERVER, settings=True, without=(), tree=None, **more):
        """Boots until so many requests have come, the console shows `console`, and (if asked for) the machine has ended."""
        cmdline = ["console=ttyS0", "net.ifnames=0", "root=LABEL=root", *words]
        if settings:
            cmdline += [f"rd.report.url={server}/status", f"rd.report.journal={server}/journal"]
        extra = dict(CONTAINER)
        if config is not None:
            cmdline += ["ignition.firstboot", "ignition.platform.id=metal"]
            extra["usr/lib/ignition/user.ign"] = config
        extra.update(files or {})
        for path in without:
            del extra[path]
        want = {"tree": tree or self.image, "files": extra, "cmdline": cmdline, "net": net, "posts": posts,
                "console": console, "ends": ends, "timeout_s": timeout_s, **more}
        done = subprocess.run(["unshare", "-n", "-m", "--propagation", "private", sys.executable,
                               os.path.join(BOOT, "namespace.py")], input=json.dumps(want), stdout=subprocess.PIPE,
                              timeout=timeout_s + 60, text=True, check=True)
        arrived = Arrived(json.loads(done.stdout))
        print(f"{self.id().split('.')[-1]}: status after {arrived.after_s} s", file=sys.stderr)
        return arrived

    def failed(self, arrived, unit, message):
        """One status and one journal, with this unit and message, and nothing secret."""
        self.assertEqual([s["state"] for s in arrived.statuses], ["failed"], arrived.console)
        self.assertEqual(len(arrived.journals), 1, arrived.console)
        status, journal = arrived.statuses[0], arrived.journals[0]
        self.assertIn(unit, [u["unit"] for u in status["failed_units"]])
        self.assertIn(message, status["message"] or "")
        self.assertTrue(any(message.encode() in entry.get("MESSAGE", b"") for entry in journal))
        self.assertNotIn(HASH.encode(), b"".join(b"".join(entry.values()) for entry in journal))

    def test_ignition_fetches_what_is_not_there(self):
        config = ignition(ignition={"config": {"merge": [{"source": SERVER + "/missing.ign"}]}})
        self.failed(self.boot(config=config, linger_s=1), "ignition-fetch.service", "resource not found")

    def test_ignition_fetches_where_nobody_listens(self):
        config = ignition(ignition={"config": {"merge": [{"source": "http://10.0.2.2:9/x"}]}, "timeouts": {"httpTotal": 3}})
        self.failed(self.boot(config=config), "ignition-fetch.service", "Ignition failed")

    def test_ignition_fetches_what_is_not_what_was_meant(self):
        config = ignition(ignition={"config": {"merge": [{
            "source": "data:;base64,eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMy4zLjAifX0=",
            "verification": {"hash": "sha256-" + 64 * "0"}}]}})
        self.failed(self.boot(config=config), "ignition-fetch-offline.service", "hash verification failed")

    def test_ignition_cannot_create_a_user(self):
        config = ignition(passwd={"users": [{"name": "core", "passwordHash": HASH, "primaryGroup": "nobodys"}]})
        self.failed(self.boot(config=config), "ignition-files.service", "failed to create users/groups")

    def test_ignition_cannot_write_a_file(self):
        config = ignition(storage={"files": [{"path": "/etc/hello", "contents": {
            "source": "data:,hello", "verification": {"hash": "sha512-" + 128 * "0"}}}]})
        self.failed(self.boot(config=config), "ignition-files.service", "failed to create files")

    BAD = ignition(storage={"files": [{"path": "relative"}]})

    def test_success(self):
        arrived = self.boot(config=ignition(), posts=1, console="the boot went on")
        self.assertEqual([s["state"] for s in arrived.statuses], ["succeeded"], arrived.console)
        self.assertEqual(arrived.journals, [])
        self.assertIn("the boot went on", arrived.console)

    def test_no_shell(self):
        halt = "#!/bin/sh\necho and now it is halted > /dev/console\nexec sleep 1000\n"
        arrived = self.boot("rd.shell=0", config=self.BAD, console="and now it is halted", files={"usr/sbin/halt": halt})
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertLess(arrived.console.index("delivered (200"), arrived.console.index("and now it is halted"))

    def test_unit_and_hook(self):
        arrived = self.boot(config=self.BAD, console="'failed' was reported before", linger_s=1)
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertIn("'failed' was reported before", arrived.console)

    def log_in(self, servers, files, *words):
        """A boot that fails, of an image with SSH servers in it, and what somebody outside sees who logs in then by the key that is in
        Ignition's configuration."""
        keys = tempfile.TemporaryDirectory()
        self.addCleanup(keys.cleanup)
        text = {}
        for name in ("host", "user"):
            path = os.path.join(keys.name, name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
            for suffix in ("", ".pub"):
                with open(path + suffix) as file:
                    text[name + suffix] = file.read()
        config = json.dumps({**json.loads(self.BAD), "passwd": {"users": [{"name": "a", "sshAuthorizedKeys": [text["user.pub"]]}]}})
        # The server may not listen yet.
        client = ["ssh", "-F", "/dev/null", "-i", os.path.join(keys.name, "user"), "-o", "StrictHostKeyChecking=no",
                  "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectionAttempts=20", "-o", "BatchMode=yes",
                  "core@10.0.2.15", "echo in as $USER, $(id -u) $(id -Gn); journalctl -q -o cat | grep -m 1 'Ignition failed:'"]
        arrived = self.boot("rd.report.ssh=core", *words, config=config, console="Press Enter for maintenance",
                            tree=f"{self.image}:{servers}", outside=client, linger_s=1, files={
                                "etc/ssh/ssh_host_ed25519_key": text["host"],
                                "etc/passwd": "root::0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n", **files})
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        who, line = arrived.outside.splitlines() or ("", "")
        self.assertEqual(who, "in as core, 1000 core systemd-journal", arrived.console)
        self.assertIn("Ignition failed: config is not valid", line)
        return arrived

    def test_somebody_logs_in_by_the_unit_of_an_image(self):
        arrived = self.log_in(prepare("ssh"), {"etc/ssh/sshd_config": "UsePAM no\n"})
        self.assertIn("user core is made with 1 key; ssh.service is started; ssh core@10.0.2.15", arrived.console)

    def test_somebody_logs_in_by_dropbear_without_a_unit(self):
        tree, layer = prepare("ssh"), tempfile.TemporaryDirectory()
        self.addCleanup(layer.cleanup)
        for name in ("usr/sbin/dropbear", "usr/bin/id", *(
                os.path.join("usr/lib/x86_64-linux-gnu", name) for name in os.listdir(os.path.join(tree, "usr/lib/x86_64-linux-gnu"))
                if name.split(".")[0] in ("libtomcrypt", "libtommath", "libgmp", "libcrypt", "libz", "libselinux", "libpcre2-8"))):
            os.makedirs(os.path.join(layer.name, os.path.dirname(name)), exist_ok=True)
            subprocess.run(["cp", "-a", os.path.join(tree, name), os.path.join(layer.name, name)], check=True)
        arrived = self.log_in(layer.name, {})
        self.assertIn("user core is made with 1 key; dropbear is started; ssh core@10.0.2.15", arrived.console)

    def test_power_off_comes_after_the_report(self):
        arrived = self.boot("rd.report.action=poweroff", config=self.BAD, ends=True)
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertIn("rd.report.action=poweroff now", arrived.console)
        self.assertTrue(arrived.has_ended)

    def test_a_unit_that_hangs_and_then_does_not(self):
        unit = ("[Unit]\nDefaultDependencies=no\nBefore=initrd.target\nAfter=basic.target\n[Service]\nType=oneshot\n"
                "ExecStart=/bin/sleep 6\n")
        arrived = self.boot("rd.report.stuck=3", posts=3, console="the boot went on", files={
            "etc/systemd/system/slow.service": unit,
            "etc/systemd/system/initrd.target.requires/slow.service": "-> ../slow.service"})
        self.assertEqual([s["state"] for s in arrived.statuses], ["stuck", "succeeded"], arrived.console)
        self.assertIn("slow.service", arrived.statuses[0]["starting_units"])
        self.assertEqual(len(arrived.journals), 1)

    def test_a_watchdog_that_the_image_asks_for(self):
        """Words of the image, which systemd does not read."""
        unit = ("[Unit]\nDefaultDependencies=no\nBefore=initrd.target\nAfter=basic.target\n[Service]\nType=oneshot\n"
                "ExecStart=/bin/sleep 1000\n")
        arrived = self.boot(posts=1, settings=False, files={
            "etc/cmdline.d/01-default.conf": f"rd.report.url={SERVER}/status rd.report.stuck=2\n",
            "etc/systemd/system/slow.service": unit,
            "etc/systemd/system/initrd.target.requires/slow.service": "-> ../slow.service"})
        self.assertEqual([s["state"] for s in arrived.statuses], ["stuck"], arrived.console)

    def followed(self, arrived):
        """The entries that came while the boot went on, each once, by their cursors."""
        self.assertEqual([number for _, number, _ in arrived.parts], list(range(1, len(arrived.parts) + 1)), arrived.console)
        entries = [entry for *_, entries in arrived.parts for entry in entries]
        cursors = {entry["__CURSOR"]: entry for entry in entries}
        self.assertEqual(len(cursors), len(entries))
        return cursors

    def test_the_journal_while_it_grows_and_a_failure(self):
        slow = ("[Unit]\nDefaultDependencies=no\nBefore=initrd.target\nAfter=basic.target\n[Service]\nType=oneshot\n"
                "ExecStart=/bin/sh -c 'for i in 1 2 3 4; do echo second $i; sleep 1; done; echo it fails now; exit 1'\n")
        arrived = self.boot("rd.report.follow", posts=5, linger_s=4, files={
            "etc/systemd/system/slow.service": slow + "[Unit]\nOnFailure=emergency.target\nOnFailureJobMode=isolate\n",
            "etc/systemd/system/initrd.target.requires/slow.service": "-> ../slow.service"})
        self.assertEqual([s["state"] for s in arrived.statuses], ["failed"], arrived.console)
        self.assertGreaterEqual(len(arrived.parts), 2, arrived.console)
        # Long before the failure, what was there; afterwards, in the shell, what came.
        self.assertLess(arrived.parts[0][0], arrived.after_s - 2)
        # journald tells of each: nobody waited for the next look.
        seconds = [[entry for entry in entries if entry.get("MESSAGE", b"").startswith(b"second ")] for *_, entries in arrived.parts]
        self.assertGreaterEqual(len([part for part in seconds if part]), 3)
        followed = self.followed(arrived)
        self.assertTrue(any(entry.get("MESSAGE") == b"it fails now" for entry in followed.values()))
        self.assertTrue(any(b"Reached target emergency.target" in entry.get("MESSAGE", b"") for entry in followed.values()),
                        arrived.console)
        # The report's own journal is whole, and nothing of it had been lost.
        journal = {entry["__CURSOR"]: entry for entry in arrived.journals[0] if "__CURSOR" in entry}
        self.assertEqual(len(arrived.journals), 1)
        self.assertEqual([cursor for cursor in journal if cursor not in followed], [])
        self.assertTrue(all(followed[cursor] == entry for cursor, entry in journal.items()))

    def test_the_journal_while_it_grows_and_success(self):
        arrived = self.boot("rd.report.follow", config=ignition(), posts=2, console="the boot went on", linger_s=1)
        self.assertEqual([s["state"] for s in arrived.statuses], ["succeeded"], arrived.console)
        self.assertEqual(arrived.journals, [])
        followed = self.followed(arrived)
        self.assertTrue(any(b"Ignition finished successfully" in entry.get("MESSAGE", b"") for entry in followed.values()),
                        [entry.get("MESSAGE") for entry in followed.values()][-20:])
        self.assertIn("delivered to the end", arrived.console)

    def test_without_the_flag_nothing_is_followed(self):
        arrived = self.boot(config=ignition(), posts=1, console="the boot went on")
        self.assertEqual(arrived.parts, [])

    # Those that a configuration in the image goes through.
    STAGES = {"fetch-offline", "kargs", "disks", "mount", "files"}

    def stages(self, arrived):
        """The stages of the progress that was reported, once each, all before the end."""
        self.assertEqual([status["state"] for status in arrived.statuses[:-1]], ["running"] * (len(arrived.statuses) - 1), arrived.console)
        stages = [status["stage"] for status in arrived.statuses[:-1]]
        self.assertEqual(len(set(stages)), len(stages))
        return set(stages)

    def test_progress_and_then_success(self):
        # Slow stages: of one that takes milliseconds, the report may be under way when the end is reported.
        slow = {f"etc/systemd/system/ignition-{stage}.service.d/90-slow.conf": "[Service]\nExecStartPre=/bin/sleep 1\n" for stage in self.STAGES}
        arrived = self.boot("rd.report.on=all", config=ignition(), posts=6, console="the boot went on", files=slow)
        self.assertEqual(arrived.statuses[-1]["state"], "succeeded", arrived.console)
        # What is skipped, here fetch, is not reported.
        self.assertEqual(self.stages(arrived), self.STAGES, arrived.console)
        begun = sorted(arrived.statuses[:-1], key=lambda status: status["uptime_s"])
        self.assertEqual([status["stage"] for status in begun], ["fetch-offline", "kargs", "disks", "mount", "files"])

    def test_progress_and_then_a_failure(self):
        config = ignition(ignition={"config": {"merge": [{"source": SERVER + "/missing.ign"}]}})
        arrived = self.boot("rd.report.on=failed,running", "rd.report.journal.on=failed", config=config, posts=4, linger_s=2)
        self.assertEqual(arrived.statuses[-1]["state"], "failed", arrived.console)
        self.assertEqual(self.stages(arrived), {"fetch-offline", "fetch"}, arrived.console)
        self.assertEqual(self.progress_units(arrived), {"rdreport-running@fetch-offline.service", "rdreport-running@fetch.service"})

    def progress_units(self, arrived):
        """The units of progress that a process was started for, by the journal of a failure."""
        entries = [entry for entry in arrived.journals[0] if b"Report that Ignition's" in entry.get("MESSAGE", b"")
                   or entry.get("_SYSTEMD_UNIT", b"").startswith(b"rdreport-running@") or entry.get("UNIT", b"").startswith(b"rdreport-running@")]
        return {(entry.get("_SYSTEMD_UNIT") if entry.get("_PID") != b"1" else entry.get("UNIT")).decode() for entry in entries
                if entry["MESSAGE"].startswith(b"Started ") or entry.get("_PID") != b"1"}

    def test_without_running_nothing_is_started(self):
        config = ignition(storage={"files": [{"path": "/etc/hello", "contents": {
            "source": "data:,hello", "verification": {"hash": "sha512-" + 128 * "0"}}}]})
        arrived = self.boot(config=config)
        self.failed(arrived, "ignition-files.service", "failed to create files")
        self.assertEqual(self.progress_units(arrived), set())

    def test_progress_waits_for_the_network_in_the_background(self):
        config = ignition(ignition={"config": {"merge": [{"source": SERVER + "/more.ign"}]}})
        arrived = self.boot("rd.report.on=all", config=config, net="late", late_s=2, posts=3, console="the boot went on",
                            served={"/more.ign": ignition()}, files={
                                "etc/systemd/system/ignition-fetch.service.d/90-slow.conf": "[Service]\nExecStartPre=/bin/sleep 3\n"})
        self.assertEqual(arrived.statuses[-1]["state"], "succeeded", arrived.console)
        self.assertLessEqual({"fetch-offline", "fetch"}, self.stages(arrived), arrived.console)

    def test_progress_that_the_image_asks_for(self):
        """Words of the image, which systemd does not read."""
        arrived = self.boot(config=self.BAD, posts=2, linger_s=1, settings=False, files={
            "etc/cmdline.d/01-default.conf": f"rd.report.url={SERVER}/status rd.report.on=all\n"})
        self.assertEqual([(status["state"], status["stage"]) for status in arrived.statuses], [("running", "fetch-offline"), ("failed", None)],
                         arrived.console)

    def test_progress_to_nobody_holds_nothing_up(self):
        """The end does not wait for it, nor does leaving the initramfs."""
        arrived = self.boot("rd.report.on=failed,running", "rd.report.timeout=60", config=ignition(), posts=0, console="the boot went on", net="none",
                            settings=True)
        self.assertEqual(arrived.statuses, [])
        self.assertIn("the boot went on", arrived.console)
        self.assertLess(arrived.took_s, 30, arrived.console)

    def test_the_address_comes_late(self):
        arrived = self.boot(config=self.BAD, net="late", late_s=4)
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")

    def test_the_address_is_set_by_networkd(self):
        arrived = self.boot("ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:none", config=self.BAD, net="ip")
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")

    def test_a_failure_before_users_and_network(self):
        unit = ("[Unit]\nDefaultDependencies=no\nAfter=systemd-journald.service\n"
                "Before=systemd-sysusers.service systemd-networkd.service\n"
                "OnFailure=emergency.target\nOnFailureJobMode=isolate\n[Service]\nType=oneshot\n"
                "ExecStart=/bin/sh -c 'echo nothing works; exit 7'\n")
        arrived = self.boot("ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:none", net="ip", files={
            "etc/systemd/system/early.service": unit,
            "etc/systemd/system/sysinit.target.requires/early.service": "-> ../early.service"})
        self.assertEqual([s["state"] for s in arrived.statuses], ["failed"], arrived.console)
        early = next(u for u in arrived.statuses[0]["failed_units"] if u["unit"] == "early.service")
        self.assertEqual(early["exit_status"], 7)
        self.assertIn("nothing works", early["last_lines"])

    FALLBACK = ignition(storage={"files": [{"path": "/etc/fallback", "contents": {"source": "data:,it%20is%20here"}}]})
    # What an image may attach: it shows what came of it, and that another failure changes nothing.
    ATTACHED = {
        "usr/lib/ignition/base.d/10-base.ign": ignition(storage={"files": [{"path": "/etc/base", "contents": {"source": "data:,%20and%20the%20base"}}]}),
        "etc/systemd/system/rdreport-fallback.target.wants/show.service": "-> ../show.service",
        "etc/systemd/system/show.service":
            "[Unit]\nDefaultDependencies=no\nAfter=rdreport-fallback-ignition.service\nIgnoreOnIsolate=yes\n"
            "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exec > /dev/console; echo \"in the file: $(cat /sysroot/etc/fallback /sysroot/etc/base)\";"
            " systemctl --no-block isolate emergency.target; sleep 1; "
            "  echo \"after another failure: $(systemctl is-active rdreport-fallback-ignition.service)\"'\n"}

    def fall_back(self, *words, served=FALLBACK, sha512=None, **options):
        sha512 = sha512 or hashlib.sha512(served.encode()).hexdigest()
        return self.boot(f"rd.report.fallback={SERVER}/fallback.ign", f"rd.report.fallback.sha512=sha512-{sha512}", *words,
                         served={"/fallback.ign": served}, **options)

    def test_a_fallback_is_worked_on_by_ignition(self):
        arrived = self.fall_back("rd.report.action=poweroff", config=self.BAD, files=self.ATTACHED, console="after another failure")
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        for said in (f"put in place ({len(self.FALLBACK)} bytes", "rdreport-fallback.target is started", "in the file: it is here and the base",
                     "rd.report.action=poweroff is not done", "after another failure: active"):
            self.assertIn(said, arrived.console)
        self.assertFalse(arrived.has_ended)

    def test_a_fallback_does_not_stop_the_shell_but_goes_first(self):
        halt = "#!/bin/sh\necho and now it is halted > /dev/console\nexec sleep 1000\n"
        # What failed was named on the command line, where Ignition looks first.
        arrived = self.fall_back("rd.shell=0", "ignition.firstboot", "ignition.platform.id=metal", f"ignition.config.url={SERVER}/missing.ign",
                                 files={**self.ATTACHED, "usr/sbin/halt": halt}, console="and now it is halted")
        self.failed(arrived, "ignition-fetch.service", "resource not found")
        self.assertIn("in the file: it is here and the base", arrived.console)
        self.assertLess(arrived.console.index("Finished"), arrived.console.index("and now it is halted"))

    def test_a_fallback_does_not_wait_for_a_disk_for_ever(self):
        arrived = self.fall_back(config=self.BAD, console="Press Enter for maintenance", files={
            "etc/systemd/system/never.service": "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sleep 1000\n",
            "etc/systemd/system/sysroot.mount.d/never.conf": "[Unit]\nRequires=never.service\nAfter=never.service\n",
            "etc/systemd/system/rdreport-fallback-ignition.service.d/sooner.conf": "[Unit]\nJobTimeoutSec=3\n"})
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertLess(arrived.console.index("rdreport-fallback.target is started"), arrived.console.index("Press Enter"))
        self.assertIn("Timed out", arrived.console)

    def test_a_boot_goes_on_with_a_fallback(self):
        arrived = self.fall_back(config=self.BAD, console="the boot went on", files={
            "etc/systemd/system/rdreport-fallback.target.wants/go-on.service": "-> ../go-on.service",
            "etc/systemd/system/go-on.service":
                "[Unit]\nDefaultDependencies=no\nRequires=rdreport-fallback-ignition.service\nAfter=rdreport-fallback-ignition.service\n"
                "Before=emergency.service\n"
                "[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl --no-block switch-root /sysroot\n",
            "newroot/sbin/init": "#!/bin/busybox sh\necho the boot went on: $(/bin/busybox cat /etc/fallback) > /dev/console\n"
                                 "/bin/busybox poweroff -f\n"})
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertIn("the boot went on: it is here", arrived.console)

    def test_a_fallback_that_ignition_refuses(self):
        arrived = self.fall_back(config=self.BAD, served=self.BAD, console="Press Enter for maintenance", files=self.ATTACHED)
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertIn("put in place", arrived.console)
        self.assertIn("Failed to start rdreport-fallback-i", arrived.console)

    def test_a_fallback_that_is_another(self):
        arrived = self.fall_back("rd.report.action=poweroff", config=self.BAD, sha512=128 * "0", files=self.ATTACHED, ends=True)
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")
        self.assertIn("not put in place: the configuration does not have the hash", arrived.console)
        self.assertNotIn("rdreport-fallback.target is started", arrived.console)
        self.assertNotIn("in the file:", arrived.console)
        self.assertTrue(arrived.has_ended)

    def test_ipv6_alone(self):
        arrived = self.boot(config=self.BAD, net="ipv6", server="http://[fd00::2]:8000")
        self.failed(arrived, "ignition-fetch-offline.service", "Ignition failed")

    def test_resolved_is_stopped_by_the_isolation(self):
        """Its stub is all that resolv.conf names. The nameserver is known to it and to networkd, or to it alone."""
        link = "[Match]\nName=eth0\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n"
        for files in ({"etc/systemd/network/50-eth0.network": link + "DNS=10.0.2.2\n"},
                      {"etc/systemd/network/50-eth0.network": link, "etc/systemd/resolved.conf.d/50-dns.conf": "[Resolve]\nDNS=10.0.2.2\n"}):
            # Ignition waits for names until the network is there, and then there is nothing under this one.
            config = ignition(ignition={"config": {"merge": [{"source": "http://names.test:8000/missing.ign"}]}})
            arrived = self.boot(config=config, net="ip", server="http://ops.test:8000", without=["etc/systemd/system/systemd-resolved.service"],
                                files={"etc/resolv.conf": "-> ../run/systemd/resolve/stub-resolv.conf",
                                       # What is being stopped might answer still.
                                       "etc/systemd/system/rdreport-failed.service.d/50-late.conf": "[Unit]\nAfter=systemd-resolved.service\n",
                                       "etc/systemd/system/sysinit.target.wants/systemd-networkd.service":
                                       "-> /usr/lib/systemd/system/systemd-networkd.service", **files})
            self.failed(arrived, "ignition-fetch.service", "resource not found")
            stopped = [entry for entry in arrived.journals[0] if entry.get("UNIT") == b"systemd-resolved.service"]
            self.assertIn(b"Stopped", stopped[-1]["MESSAGE"], [entry["MESSAGE"] for entry in stopped])

    def test_without_settings_success_says_nothing(self):
        arrived = self.boot(settings=False, posts=0, console="the boot went on")
        self.assertNotIn("rdreport:", arrived.console)
        self.assertIn("Report that the boot succeeded", arrived.console)

    def test_without_settings_the_cloud_is_told(self):
        failing = {"etc/systemd/system/broken.service": "[Unit]\nBefore=initrd.target\nOnFailure=emergency.target\n"
                   "OnFailureJobMode=isolate\n[Service]\nType=oneshot\nExecStart=/bin/false\n",
                   "etc/systemd/system/initrd.target.requires/broken.service": "-> ../broken.service"}
        for files, event, console in (({}, "activate", "the boot went on"), (failing, "failure", "Press Enter")):
            arrived = self.boot(f"em.events_url={SERVER}/events", files=files, settings=False, posts=1, console=console)
            self.assertEqual([event["type"] for event in arrived.events], [event], arrived.console)

    def test_a_shell_that_was_asked_for_is_no_failure(self):
        arrived = self.boot("rd.break=pre-pivot", config=ignition(), posts=0, console="Press Enter for maintenance", linger_s=2)
        self.assertEqual(arrived.statuses, [], arrived.console)


if __name__ == "__main__":
    unittest.main()
