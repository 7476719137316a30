"""The SSH user on failure: what is written below --root, and real servers that let it in and nobody else."""
import functools
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BINARY, HERE, INSIDE, PATIENCE, InNamespace, Root, Server, children_of

CACHE = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))), "boot")
TYPES = {"ssh-ed25519": ("ed25519",), "ssh-rsa": ("rsa", "-b", "4096"), "ecdsa-sha2-nistp256": ("ecdsa", "-b", "256"),
         "ecdsa-sha2-nistp384": ("ecdsa", "-b", "384"), "ecdsa-sha2-nistp521": ("ecdsa", "-b", "521")}
# These need a token to be made.
TOKENS = [
    "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gAAAABHNzaDo= a",
    "sk-ecdsa-sha2-nistp256@openssh.com AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyNTYAAABBBAECAwQFBgcICQoLDA0ODxAREh"
    "MUFRYXGBkaGxwdHh8gAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAAAAAEc3NoOg== b",
]


@functools.cache
def folder():
    """Where keys are, for as long as the tests run."""
    return tempfile.TemporaryDirectory(prefix="rdreport-keys-")


def key(kind="ssh-ed25519", number=0):
    """The path of a private key; its public one has `.pub` behind it."""
    path = os.path.join(folder().name, f"{kind}-{number}")
    if not os.path.exists(path):
        subprocess.run(["ssh-keygen", "-q", "-t", *TYPES[kind], "-N", "", "-C", f"{kind} number {number}", "-f", path], check=True)
    return path


def public(kind="ssh-ed25519", number=0):
    with open(key(kind, number) + ".pub") as file:
        return file.read().strip()


def configuration(*keys, **more):
    """A configuration of Ignition's with a user for each list of keys."""
    users = [{"name": f"user{n}", "passwordHash": "$6$hash", "sshAuthorizedKeys": of_one} for n, of_one in enumerate(keys)]
    return json.dumps({"ignition": {"version": "3.4.0"}, **more, "passwd": {"users": users}})


class BelowRoot(unittest.TestCase):
    PASSWD = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
    GROUP = "root:x:0:\ntape:x:26:\nsystemd-journal:x:101:other\n"
    SHADOW = "root:$6$secret:19000:0:99999:7:::\n"

    def root(self, *words, keys=(), config=None):
        """A folder with account files and a shell; `keys` are those of the command line."""
        root = Root(" ".join([*(words or ["rd.report.ssh=core"]), *(f'rd.report.ssh.key="{key}"' for key in keys)]), journal=None)
        self.addCleanup(subprocess.run, ["rm", "-rf", root.path])
        for path, content, mode in [("etc/initrd-release", "ID=x\n", 0o644), ("bin/sh", "", 0o755), ("etc/passwd", self.PASSWD, 0o644),
                                    ("etc/group", self.GROUP, 0o644), ("etc/shadow", self.SHADOW, 0o640)]:
            os.chmod(root.write(path, content), mode)
        os.chown(os.path.join(root.path, "etc/shadow"), 0, 42)
        if config is not None:
            root.write("run/ignition.json", config)
        return root

    def read(self, root, path):
        with open(os.path.join(root.path, path)) as file:
            return file.read()

    def said(self, root, *words, status=0):
        """Runs it, and gives the line of the user."""
        result = root.run("failed", *words)
        self.assertEqual(result.returncode, status, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("rdreport: rd.report.ssh=core: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0].removeprefix("rdreport: rd.report.ssh=core: ")

    def keys(self, root):
        return self.read(root, "home/core/.ssh/authorized_keys").splitlines()

    def nobody(self, root, why):
        """Nobody was made, for this reason, and no account file was touched."""
        before = self.accounts(root)
        said = self.said(root)
        self.assertIn("no user is made: ", said)
        self.assertIn(why, said)
        self.assertEqual(self.accounts(root), before)
        self.assertFalse(os.path.lexists(os.path.join(root.path, "home/core")))

    def accounts(self, root):
        found = {}
        for name in os.listdir(os.path.join(root.path, "etc")):
            path = os.path.join(root.path, "etc", name)
            if name != ".pwd.lock":
                stat = os.lstat(path)
                found[name] = stat.st_ino, stat.st_mode, stat.st_uid, stat.st_gid, os.path.isfile(path) and self.read(root, path)
        return found

    def test_what_is_made(self):
        root = self.root(keys=[public()])
        self.assertIn("user core is made with 1 key; nothing is started", self.said(root))
        self.assertEqual(self.read(root, "etc/passwd"), self.PASSWD + "core:x:1000:1000:rdreport:/home/core:/bin/sh\n")
        self.assertEqual(self.read(root, "etc/group"), self.GROUP.replace("other", "other,core") + "core:x:1000:\n")
        self.assertEqual(self.read(root, "etc/shadow"), self.SHADOW + "core:*:::::::\n")
        self.assertEqual(self.keys(root), [public()])
        for path, expected in {"etc/passwd": (0o644, 0, 0), "etc/group": (0o644, 0, 0), "etc/shadow": (0o640, 0, 42), "home": (0o755, 0, 0),
                               "home/core": (0o700, 1000, 1000), "home/core/.ssh": (0o700, 1000, 1000),
                               "home/core/.ssh/authorized_keys": (0o600, 1000, 1000)}.items():
            stat = os.stat(os.path.join(root.path, path))
            self.assertEqual((stat.st_mode & 0o7777, stat.st_uid, stat.st_gid), expected, path)
        self.assertEqual({name for name in os.listdir(os.path.join(root.path, "etc")) if "rdreport" in name}, set())
        self.assertEqual(os.listdir(os.path.join(root.path, "home/core/.ssh")), ["authorized_keys"])
        # As Debian's own tools see it.
        for tool in ("pwck", "grpck"):
            checked = subprocess.run([tool, "-r", "-R", root.path], stdout=subprocess.PIPE, text=True, check=False).stdout
            self.assertNotIn("core", checked.replace("directory '/home/core'", ""))

    def test_a_umask_changes_nothing(self):
        root = self.root(keys=[public()])
        old = os.umask(0o777)
        self.addCleanup(os.umask, old)
        self.said(root)
        os.umask(old)
        for path, mode in {"etc/passwd": 0o644, "home": 0o755, "home/core/.ssh": 0o700, "home/core/.ssh/authorized_keys": 0o600}.items():
            self.assertEqual(os.stat(os.path.join(root.path, path)).st_mode & 0o7777, mode, path)

    def test_failed_alone(self):
        root = self.root("rd.report.ssh=core", "rd.report.on=all", keys=[public()])
        for state in ("running", "stuck", "succeeded"):
            self.assertEqual(root.run(state, "--force").returncode, 0)
            self.assertEqual(self.read(root, "etc/passwd"), self.PASSWD)
        self.assertIn("then: user core with the keys of rd.report.ssh.key= (1) and of Ignition's configuration; SSH by no server", root.run("failed", "--dry-run").stdout)
        self.assertIn("then: user core with the keys of rd.report.ssh.key= (1) and of Ignition's configuration; SSH by no server", root.run("check").stdout)
        self.assertEqual(self.read(root, "etc/passwd"), self.PASSWD)

    def test_the_report_does_not_wait_for_it_nor_it_for_the_report(self):
        seen = []

        def behave(connection, _):
            connection.head()
            deadline = time.monotonic() + PATIENCE
            while "core" not in (passwd := self.read(root, "etc/passwd")) and time.monotonic() < deadline:
                time.sleep(0.01)
            seen.append(passwd)

        server = Server(behave)
        self.addCleanup(server.close)
        root = self.root("rd.report.ssh=core", f"rd.report.url={server.url(host='127.0.0.1')}", "rd.report.timeout=3", keys=[public()])
        said = self.said(root, status=1)
        self.assertIn("made with 1 key", said)
        # While the server had not answered yet.
        self.assertIn("core:x:1000", seen[0])

    def test_keys_of_all_types(self):
        keys = [public(kind) for kind in TYPES] + TOKENS
        root = self.root(keys=keys)
        self.assertIn(f"made with {len(keys)} keys;", self.said(root))
        self.assertEqual(self.keys(root), keys)

    def test_what_is_no_key(self):
        _, blob, comment = public().split(" ", 2)
        for bad in [blob, f"ssh-rsa {blob}", f"ssh-ed25519 {blob[:-4]}", f"ssh-ed25519 {blob[:-2]}!!", f"ssh-dss {blob}",
                    f"restrict {public()}", f"command=/bin/x {public()}", f"ssh-ed25519  {blob}", f"ssh-ed25519 {blob}\x01",
                    public("ssh-rsa")[:400]]:
            with self.subTest(bad=bad):
                root = self.root(keys=[bad])
                result = root.run("check")
                self.assertIn("rd.report.ssh.key: the value is not of the form 'TYPE BASE64'; ignored", result.stdout)
                self.nobody(root, "no key in rd.report.ssh.key=")
                # In a configuration it is passed over, and another is taken.
                root = self.root(config=configuration([bad, public(number=1)]))
                self.assertIn("made with 1 key, and others that cannot be taken;", self.said(root))
                self.assertEqual(self.keys(root), [public(number=1)])
                self.nobody(self.root(config=configuration([bad])), "the keys in Ignition's configuration cannot be taken")

    def test_no_key(self):
        self.nobody(self.root(), "no key in rd.report.ssh.key= or in a configuration")
        self.nobody(self.root(config=configuration([], [])), "no key in rd.report.ssh.key= or in a configuration")
        self.assertIn("rd.report.ssh: no key: set rd.report.ssh.key=", self.root().run("check").stdout)
        alone = self.root("rd.report.url=http://127.0.0.1:9/", keys=[public()])
        self.assertIn("rd.report.ssh.key: nobody is there to have it", alone.run("check").stdout)

    def test_names(self):
        for name in ["root", "Core", "9core", "-core", "co:re", "co/re", "..", "a" * 32, "'co re'", "\u00e9"]:
            with self.subTest(name=name):
                root = self.root(f"rd.report.ssh={name}", keys=[public()])
                result = root.run("failed")
                self.assertIn("is not of the form USER; ignored", result.stderr)
                self.assertEqual(self.read(root, "etc/passwd"), self.PASSWD)
        root = self.root(f"rd.report.ssh={'a' * 31}", keys=[public()])
        self.assertIn("is made with 1 key", root.run("failed").stderr)

    def test_who_is_there_stays_as_they_are(self):
        for file, line in [("passwd", "core:x:500:500::/home/core:/bin/sh\n"), ("passwd", "core:x:1000:1000::/home/core:/bin/bash"),
                           ("group", "core:x:500:\n"), ("group", "core:x:1000:other\n"), ("shadow", "core:!*:1::::::\n"),
                           ("shadow", "core:$6$x:::::::\n")]:
            with self.subTest(file=file, line=line):
                root = self.root(keys=[public()])
                path = os.path.join(root.path, "etc", file)
                with open(path, "a") as to:
                    to.write(line)
                self.nobody(root, f"there is one of this name in /etc/{file}, which stays as it is; choose another")

    def test_numbers_that_are_taken(self):
        root = self.root(keys=[public()])
        with open(os.path.join(root.path, "etc/passwd"), "a") as file:
            file.write("a:x:1000:100::/:\nb:x:5:1001::/:")
        with open(os.path.join(root.path, "etc/group"), "a") as file:
            file.write("c:x:1002:\n")
        self.said(root)
        self.assertTrue(self.read(root, "etc/passwd").endswith("b:x:5:1001::/:\ncore:x:1003:1003:rdreport:/home/core:/bin/sh\n"))
        self.assertEqual(os.stat(os.path.join(root.path, "home/core")).st_uid, 1003)
        full = self.root(keys=[public()])
        with open(os.path.join(full.path, "etc/passwd"), "a") as file:
            file.write("".join(f"u{n}:x:{n}:{n}::/:\n" for n in range(1000, 2000)))
        self.nobody(full, "all numbers from 1000 on are taken")

    def test_all_configurations(self):
        root = self.root("rd.report.ssh=core", "ignition.platform.id=metal", keys=[public()],
                         config=configuration([public(number=1)], [public(number=2), public(number=3) + "\n"], [public()]))
        for number, path in enumerate(["usr/lib/ignition/user.ign", "usr/lib/ignition/base.ign", "usr/lib/ignition/base.d/10-a.ign",
                                       "usr/lib/ignition/base.platform.d/metal/20.ign", "etc/ignition/user.ign"], 4):
            root.write(path, configuration([public(number=number), public(number=1).rsplit(" ", 3)[0] + " again"]))
        root.write("usr/lib/ignition/base.platform.d/aws/20.ign", configuration([public(number=20)]))
        root.write("usr/lib/ignition/readme", configuration([public(number=20)]))
        self.assertIn("made with 9 keys;", self.said(root))
        self.assertEqual(sorted(self.keys(root)), sorted(public(number=number) for number in range(9)))

    def test_what_a_configuration_may_look_like(self):
        escaped = "".join(f"\\u{ord(c):04x}" for c in public())
        one = f'"{escaped}"'
        for text, keys in [
            (configuration([public(), public(number=1) + " \u00e9\U0001f600"]), [public(), public(number=1) + " \u00e9\U0001f600"]),
            ('{"passwd":{"users":[{"sshAuthorizedKeys":[%s]}]}}' % one, [public()]),
            (' {\n"a":[[[]],{}],"passwd" :{"users":[ {} ,{"name":"]}","sshAuthorizedKeys":[ %s ],"x":-1e5},{"y":null}]}}\r\n' % one, [public()]),
            (configuration([public()], storage={"files": [{"contents": {"source": "data:," + "x" * 5_000_000}}]}), [public()]),
            (configuration([public()], storage={"files": [{"path": f"/{n}", "mode": n} for n in range(100_000)]}), [public()]),
        ]:
            with self.subTest(text=text[:60]):
                root = self.root(config=text)
                self.assertIn(f"made with {len(keys)} key", self.said(root))
                self.assertEqual(self.keys(root), keys)
        for text in ['{"users":[{"sshAuthorizedKeys":["KEY"]}]}', '{"passwd":{"users":[{"sshAuthorizedKeys":"KEY"}]}}',
                     '{"passwd":{"users":[{"comment":["KEY"]}],"x":[{"sshAuthorizedKeys":["KEY"]}]}}', '["KEY"]', '"KEY"',
                     '{"storage":{"passwd":{"users":[{"sshAuthorizedKeys":["KEY"]}]}}}']:
            self.nobody(self.root(config=text.replace("KEY", public())), "no key in rd.report.ssh.key=")

    def test_a_broken_configuration_gives_what_stands_before(self):
        text = configuration([public()], [public(number=1)])
        for end, keys in [(len(text) - 1, 2), (text.index(public(number=1)) + 30, 1), (text.index(public()) + 30, 0), (0, 0)]:
            with self.subTest(end=end):
                root = self.root(config=text[:end])
                if keys:
                    self.assertRegex(self.said(root), f"made with {keys} keys?, and others that cannot be taken;")
                    self.assertEqual(len(self.keys(root)), keys)
                else:
                    self.nobody(root, "the keys in Ignition's configuration cannot be taken")
        for junk in [b"\xff\xfe" * 9000, b"[" * 1_000_000, b'{"a":' * 100_000, b'"' + b"x" * 100_000, b"\0"]:
            root = self.root(keys=[public()])
            root.write("run/ignition.json", junk)
            self.assertIn("made with 1 key, and others that cannot be taken;", self.said(root))

    def test_more_keys_than_there_is_room_for(self):
        root = self.root(config=configuration([public(number=number) + "y" * 3900 for number in range(20)]))
        self.assertIn("made with 8 keys, and others that cannot be taken;", self.said(root))
        self.assertLessEqual(os.stat(os.path.join(root.path, "home/core/.ssh/authorized_keys")).st_size, 32 * 1024)

    def test_files_that_are_missing(self):
        root = self.root(keys=[public()])
        os.remove(os.path.join(root.path, "etc/shadow"))
        self.said(root)
        # Nobody's entry there starts to count, nor stops.
        self.assertFalse(os.path.exists(os.path.join(root.path, "etc/shadow")))
        self.assertTrue(self.read(root, "etc/passwd").endswith("core:*:1000:1000:rdreport:/home/core:/bin/sh\n"))
        root = self.root(keys=[public()])
        for name in ("passwd", "group"):
            os.remove(os.path.join(root.path, "etc", name))
        self.said(root)
        self.assertEqual(self.read(root, "etc/passwd"), "core:x:1000:1000:rdreport:/home/core:/bin/sh\n")
        self.assertEqual(self.read(root, "etc/group"), "core:x:1000:\n")

    def test_files_that_cannot_be_used(self):
        root = self.root(keys=[public()])
        with open(os.path.join(root.path, "etc/passwd"), "a") as file:
            file.write("# comment\n" * 7000)
        self.nobody(root, "/etc/passwd is too large")
        root = self.root(keys=[public()])
        os.remove(os.path.join(root.path, "etc/group"))
        os.mkdir(os.path.join(root.path, "etc/group"))
        self.nobody(root, "/etc/group is too large, or no file")
        root = self.root(keys=[public()])
        os.remove(os.path.join(root.path, "bin/sh"))
        self.nobody(root, "there is no /bin/sh")
        root = self.root(keys=[public()])
        os.remove(os.path.join(root.path, "etc/initrd-release"))
        self.nobody(root, "this is no initramfs")
        root = self.root(keys=[public()])
        root.write("home", "")
        self.nobody(root, "its home below /home")

    def test_etc_that_cannot_be_written(self):
        root = self.root(keys=[public()])
        before = self.accounts(root)
        inside = 'mount --bind "$1/etc" "$1/etc"; mount -o remount,ro,bind "$1/etc"; exec "$2" --root "$1" failed'
        done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", inside, "sh", root.path, BINARY],
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
        self.assertIn("no user is made: /etc/.pwd.lock: read-only file system", done.stderr)
        self.assertEqual(self.accounts(root), before)

    def test_who_else_changes_them_is_waited_for(self):
        root = self.root(keys=[public()])
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
                                   "print('locked', flush=True); sys.stdin.read()", os.path.join(root.path, "etc/.pwd.lock")],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdout.close)
        self.assertEqual(holder.stdout.readline(), b"locked\n")
        self.nobody(root, "/etc/.pwd.lock: not now")
        process = subprocess.Popen([BINARY, "--root", root.path, "failed", "--force"], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        fds = f"/proc/{process.pid}/fd"
        while (not any(os.path.realpath(os.path.join(fds, fd)).endswith(".pwd.lock") for fd in os.listdir(fds))
               and time.monotonic() < deadline):
            time.sleep(0.01)
        holder.stdin.close()
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertIn("user core is made with 1 key", said)

    def test_links_do_not_lead_out(self):
        outside = tempfile.mkdtemp(prefix="rdreport-outside-")
        self.addCleanup(shutil.rmtree, outside)
        for name, content in [("passwd", self.PASSWD), ("user.ign", configuration([public(number=1)]))]:
            with open(os.path.join(outside, name), "w") as file:
                file.write(content)
        root = self.root(keys=[public()])
        for name in ("passwd", "shadow"):
            os.remove(os.path.join(root.path, "etc", name))
        up = "../" * 20
        os.symlink(up + outside[1:] + "/passwd", os.path.join(root.path, "etc/passwd"))
        # One within, as in an image whose files are links to a store.
        root.write("nix/store/shadow", self.SHADOW)
        os.symlink("/nix/store/shadow", os.path.join(root.path, "etc/shadow"))
        os.makedirs(os.path.join(root.path, "usr/lib/ignition"))
        os.symlink(outside + "/user.ign", os.path.join(root.path, "usr/lib/ignition/user.ign"))
        self.assertIn("made with 1 key;", self.said(root))
        self.assertFalse(os.path.islink(os.path.join(root.path, "etc/passwd")))
        self.assertEqual(self.read(root, "etc/passwd"), "core:x:1000:1000:rdreport:/home/core:/bin/sh\n")
        self.assertEqual(self.read(root, "etc/shadow"), self.SHADOW + "core:*:::::::\n")
        self.assertEqual(self.read(root, "nix/store/shadow"), self.SHADOW)
        with open(os.path.join(outside, "passwd")) as file:
            self.assertEqual(file.read(), self.PASSWD)
        for link in ("home", "home/core", "home/core/.ssh"):
            with self.subTest(link=link):
                root = self.root(keys=[public()])
                path = os.path.join(root.path, link)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(outside, path)
                said = self.said(root)
                self.assertIn("no user is made: its home below /home would not be a folder, or a symbolic link", said)
                self.assertEqual(sorted(os.listdir(outside)), ["passwd", "user.ign"])
                self.assertEqual(self.read(root, "etc/passwd"), self.PASSWD)

    def outside(self, root, path, make):
        """Puts a file or folder beside the root, and makes `path` lead there by `make`; gives what must stay as it is, as a function."""
        beside = tempfile.mkdtemp(prefix="rdreport-outside-")
        self.addCleanup(shutil.rmtree, beside)
        target, whole = os.path.join(beside, "target"), os.path.join(root.path, path)
        with open(target, "wb") as file:
            if os.path.exists(whole):
                with open(whole, "rb") as old:
                    file.write(old.read())
                os.unlink(whole)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        make(target, whole)

        def state():
            found = os.stat(target)
            with open(target, "rb") as file:
                return os.listdir(beside), found.st_uid, found.st_mode, file.read()

        return state

    def test_what_lies_beside_the_root_stays_as_it_is(self):
        for make in (os.symlink, os.link):
            for path in ("home/core/.ssh/authorized_keys", "home/core/.ssh/authorized_keys.new", "etc/passwd", "etc/shadow", "etc/group",
                         "etc/.pwd.lock", "etc/passwd.rdreport", "etc/shadow.rdreport", "etc/group.rdreport"):
                with self.subTest(make=make.__name__, path=path):
                    root = self.root(keys=[public()])
                    state = self.outside(root, path, make)
                    before = state()
                    self.said(root)
                    self.assertEqual(state(), before)

    def test_no_files_in_the_place_of_the_tables(self):
        for name in ("passwd", "group", "shadow"):
            for make in (os.mkfifo, os.mkdir, lambda path: os.mknod(path, stat.S_IFCHR | 0o644, os.makedev(1, 5))):
                with self.subTest(name=name):
                    root = self.root(keys=[public()])
                    path = os.path.join(root.path, "etc", name)
                    os.unlink(path)
                    make(path)
                    self.assertRegex(self.said(root), f"no user is made: /etc/{name}(:| is)")
                    self.assertFalse(os.path.lexists(os.path.join(root.path, "home/core")))

    def test_odd_tables(self):
        line = "core:x:1000:1000:rdreport:/home/core:/bin/sh\n"
        for passwd in ["", "\n\n", "root:x:0:0::/:/bin/sh", "+::::::\n", "\0" * 100 + "\nroot:x:0:0::/:/bin/sh\n", "a:x:01000:1::/:\nb:x:+1000:1::/:\n",
                       ":" * 5000 + "\n", "\u00e9:x:5:5::/:\n", "core2:x:5:5::/:\n", "acore:x:5:5::/:\n"]:
            with self.subTest(passwd=passwd[:40]):
                root = self.root(keys=[public()])
                root.write("etc/passwd", passwd)
                self.assertIn("made with 1 key", self.said(root))
                kept = "".join(entry + "\n" for entry in passwd.split("\n") if entry)
                # A number with a sign or a zero before it may be read as the same one.
                self.assertIn(self.read(root, "etc/passwd"), (kept + line, kept + line.replace("1000", "1001")))
        for name in ("passwd", "group", "shadow"):
            root = self.root(keys=[public()])
            root.write("etc/" + name, "#" * 70_000 + "\n")
            self.nobody(root, f"/etc/{name} is too large")

    def test_a_home_that_was_there(self):
        root = self.root(keys=[public()])
        root.write("home/core/.ssh/authorized_keys", public(number=9) + "\n")
        root.write("home/core/kept", "text")
        for path in ("home/core", "home/core/.ssh"):
            os.chmod(os.path.join(root.path, path), 0o777)
            os.chown(os.path.join(root.path, path), 65534, 65534)
        self.said(root)
        self.assertEqual((self.keys(root), self.read(root, "home/core/kept")), ([public()], "text"))
        for path in ("home/core", "home/core/.ssh"):
            found = os.stat(os.path.join(root.path, path))
            self.assertEqual((found.st_mode & 0o7777, found.st_uid), (0o700, 1000))

    def test_what_a_configuration_makes_of_its_reader(self):
        """One that took the process over that reads it could write anything; what is no key lets nobody in."""
        evil = b'command="sh" ssh-ed25519 '
        for bytes_ in (evil, b"\n", b"#", b"\xff", b"ssh-ed25519 \n", b"environment=\"A=B\" "):
            with self.subTest(bytes=bytes_):
                root = self.root(config=configuration([public(), public(number=1)]))
                path = os.path.join(root.path, "home/core/.ssh/authorized_keys.new")
                run = subprocess.run(["strace", "-qq", "-f", "-o", "/dev/null", "-P", path, "-e", f"inject=write:poke_enter=@arg2={bytes_.hex()}",
                                      BINARY, "--root", root.path, "failed"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
                self.assertIn("no user is made: the process that read Ignition's configuration broke off, or wrote no keys", run.stderr)
                self.assertEqual((self.read(root, "etc/passwd"), self.read(root, "etc/group")), (self.PASSWD, self.GROUP))
                self.assertFalse(os.path.lexists(os.path.join(root.path, "home/core")))

    def test_a_second_run(self):
        root = self.root(keys=[public()])
        self.said(root)
        before, keys = self.accounts(root), self.keys(root)
        self.assertIn("user core was made by an earlier run; nothing is started", self.said(root, "--force"))
        self.assertEqual((self.accounts(root), self.keys(root)), (before, keys))
        self.assertEqual(root.run("failed", is_new_boot=False).returncode, 3)

    def test_a_run_that_was_killed_is_gone_on_from(self):
        whole = self.root(keys=[public()])
        self.said(whole)
        names = ["shadow", "group", "passwd"]
        for done in range(4):
            with self.subTest(done=names[:done]):
                root = self.root(keys=[public()])
                for name in names[:done]:
                    root.write("etc/" + name, self.read(whole, "etc/" + name))
                root.write("home/core/.ssh/authorized_keys.new", "half of it")
                root.write("etc/passwd.rdreport", "half of it")
                self.assertIn("user core ", self.said(root))
                for name in names:
                    self.assertEqual(self.read(root, "etc/" + name), self.read(whole, "etc/" + name))
                if done < 3:
                    self.assertEqual(self.keys(root), [public()])

    def test_kills_at_any_time(self):
        """Killed at each of its renames (of the keys, shadow, group and passwd), nobody can log in; the next run
        finishes."""
        for which in range(1, 5):
            with self.subTest(rename=which):
                root = self.root(keys=[public()])
                killed = subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", "trace=renameat",
                                         "-e", f"inject=renameat:signal=SIGKILL:when={which}+10", BINARY, "--root", root.path, "failed"],
                                        stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
                self.assertEqual(killed.returncode, -9)
                self.assertEqual(self.read(root, "etc/passwd"), self.PASSWD)
                self.assertEqual("core" in self.read(root, "etc/group"), which > 3)
                self.said(root)
                self.assertTrue(self.read(root, "etc/passwd").endswith("core:x:1000:1000:rdreport:/home/core:/bin/sh\n"))
                self.assertEqual(self.keys(root), [public()])

    def test_which_server(self):
        def has(root, *paths):
            for path in paths:
                root.write(path, "")
            return self.said(root).split("; ", 1)[1]

        start = "is started, were this not below --root"
        for paths, expected in [
            (["usr/lib/systemd/system/sshd.service"], "nothing is started: there is no sshd.service"),
            (["run/systemd/system/x", "usr/lib/systemd/system/sshd.service", "usr/sbin/dropbear"], f"sshd.service {start}"),
            (["run/systemd/system/x", "lib/systemd/system/ssh.service"], f"ssh.service {start}"),
            (["run/systemd/system/x", "etc/systemd/system/dropbear.service"], f"dropbear.service {start}"),
            (["run/systemd/system/x", "usr/sbin/dropbear", "usr/sbin/sshd", "etc/ssh/ssh_host_rsa_key"], f"dropbear {start}"),
            (["usr/sbin/sshd", "etc/ssh/ssh_host_ed25519_key"], f"sshd {start}"),
            (["usr/sbin/sshd"], "nothing is started: there is no sshd.service"),
        ]:
            with self.subTest(paths=paths):
                root = self.root(keys=[public()])
                self.assertIn(expected, has(root, *paths))
                self.assertFalse(os.path.exists(os.path.join(root.path, "etc/dropbear")))
                if "nothing" in expected:
                    self.assertIn("rd.report.ssh: nothing to log in by is here", root.run("check").stdout)

    def test_who_reads_the_configuration_can_do_little(self):
        root = self.root(config=configuration([public()]))
        trace = os.path.join(root.path, "trace")
        subprocess.run(["strace", "-f", "-o", trace, "-e", "trace=prctl,capset,openat2,openat", BINARY, "--root", root.path, "failed"],
                       stderr=subprocess.DEVNULL, timeout=PATIENCE, check=True)
        with open(trace) as file:
            lines = file.read().splitlines()
        filters = [n for n, line in enumerate(lines) if "PR_SET_SECCOMP, SECCOMP_MODE_FILTER" in line]
        # The process that reads the configuration, and those of the journal.
        self.assertGreaterEqual(len(filters), 1)
        for at in filters:
            pid = lines[at].split()[0]
            self.assertNotEqual(pid, lines[0].split()[0])
            # Behind it nothing is opened.
            self.assertEqual([line for line in lines[at + 1:] if line.startswith(pid + " ") and "open" in line], [])


@unittest.skipIf(os.geteuid() and INSIDE not in os.environ, "only root may make such a machine")
class Servers(InNamespace):
    """A root with real servers, entered by chroot, in a network of its own."""

    ADDRESSES = ("192.0.2.5/32", "2001:db8::5/128")

    @classmethod
    def setUpClass(cls):
        # Before the network of its own, in which nothing can be downloaded.
        cls.tree = subprocess.run([os.path.join(HERE, "boot/prepare"), CACHE, "ssh"], check=True, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "RDREPORT": BINARY}).stdout.strip()

    def machine(self, *gone, words=("rd.report.ssh=core",), files=None):
        """Makes the root, without what `gone` names, and gives what runs in it: `inside(command...)`."""
        top = tempfile.mkdtemp(prefix="rdreport-ssh-")
        self.addCleanup(subprocess.run, ["rm", "-rf", top])
        host = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{top}/host"], check=True) and f"{top}/host"
        files = {"etc/passwd": "root::0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n", "etc/shadow": "root:*:::::::\n",
                 "etc/group": "root:x:0:\nsystemd-journal:x:101:\n", "etc/initrd-release": "", "proc-cmdline": " ".join(
                     [*words, f'rd.report.ssh.key="{public("ssh-rsa")}"', f'rd.report.ssh.key="{public()}"']),
                 "etc/ssh/sshd_config": "UsePAM no\nPasswordAuthentication yes\n", **(files or {})}
        for path, content in files.items():
            whole = os.path.join(top, "upper", path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w") as file:
                file.write(content)
        shutil.copy(host, f"{top}/upper/etc/ssh/ssh_host_ed25519_key")
        shutil.copy(BINARY, f"{top}/upper/rdreport")
        script = '''
            mkdir "$TOP/work" "$TOP/root"; mount -t tmpfs none "$TOP/work"; mkdir "$TOP/work/u" "$TOP/work/w"; cp -a "$TOP/upper/." "$TOP/work/u"
            mount -t overlay -o "lowerdir=$TREE,upperdir=$TOP/work/u,workdir=$TOP/work/w" overlay "$TOP/root"; cd "$TOP/root"
            for name in $GONE; do rm -rf "./$name"; done
            mount -t tmpfs -o mode=755 none run; mount -t tmpfs -o mode=755 none dev; mount -t proc proc proc; mount --bind proc-cmdline proc/cmdline
            mkdir dev/pts; mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts; ln -s pts/ptmx dev/ptmx
            for name in null zero random urandom tty; do : > dev/$name; mount --bind /dev/$name dev/$name; done
            exec chroot . /bin/sh -c 'echo ready; exec sleep 1000'
        '''
        process = subprocess.Popen(["unshare", "-m", "-p", "-f", "--kill-child=SIGKILL", "--propagation", "private", "sh", "-ec", script],
                                   env={**os.environ, "TOP": top, "TREE": self.tree, "GONE": " ".join(gone)}, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        pid = str(children_of(process.pid)[0])
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in self.ADDRESSES:
            subprocess.run(["ip", "addr", "add", address, "dev", "lo", *(["nodad"] if ":" in address else [])], check=True)
        enter = ["nsenter", "-m", "-p", "-t", pid, "--root", "--wd=/"]
        return lambda *command, **options: subprocess.run(
            [*enter, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False, **options)

    def client(self, *options, host="192.0.2.5", user="core", command="id -un", **more):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection((host, 22), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        return subprocess.run(
            ["ssh", "-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
             "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", *options, f"{user}@{host}", command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False, **more)

    def check_who_gets_in(self, inside):
        ours = ["-i", key(), "-o", "BatchMode=yes"]
        for options, host in [(ours, "192.0.2.5"), (["-i", key("ssh-rsa"), "-o", "BatchMode=yes"], "2001:db8::5")]:
            result = self.client(*options, host=host, command="echo $(id -un) $(id -Gn) $HOME")
            self.assertEqual(result.stdout, "core core systemd-journal /home/core\n")
        # Another key, another user, and no password.
        self.assertIn("Permission denied (publickey)", self.client("-i", key(number=9), "-o", "BatchMode=yes").stdout)
        self.assertIn("Permission denied (publickey)", self.client(*ours, user="root").stdout)
        self.assertIn("Permission denied (publickey)", self.client("-o", "PubkeyAuthentication=no").stdout)

    def ask(self, password):
        """The environment in which the client gives this password."""
        path = os.path.join(folder().name, "askpass")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\necho '{password}'\n")
        os.chmod(path, 0o755)
        return {**os.environ, "SSH_ASKPASS": path, "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": "x"}

    def test_sshd(self):
        inside = self.machine("usr/sbin/dropbear")
        said = inside("/rdreport", "failed").stdout
        self.assertIn("user core is made with 2 keys; sshd is started; ssh core@192.0.2.5; ssh core@2001:db8::5\n", said)
        self.check_who_gets_in(inside)
        # What would become of it if the password were the usual one for those who are locked.
        inside("tee", "/etc/shadow", input="root:*:::::::\ncore:!:::::::\n")
        self.assertIn("Permission denied (publickey)", self.client("-i", key(), "-o", "BatchMode=yes").stdout)

    def test_dropbear(self):
        inside = self.machine()
        said = inside("/rdreport", "failed").stdout
        self.assertIn("user core is made with 2 keys; dropbear is started; ssh core@192.0.2.5; ssh core@2001:db8::5\n", said)
        self.check_who_gets_in(inside)
        # It hears signals, whatever rdreport did not want to hear.
        processes = [dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
                     for status in inside("/bin/sh", "-c", "for file in /proc/[0-9]*/status; do cat $file; echo; echo; done").stdout.split("\n\n\n")]
        masks = [status["SigBlk"].strip() for status in processes if status.get("Name", "").strip() == "dropbear"]
        self.assertEqual(set(masks), {16 * "0"})

    def test_no_shadow(self):
        inside = self.machine("etc/shadow", "usr/sbin/dropbear")
        self.assertIn("made with 2 keys; sshd is started", inside("/rdreport", "failed").stdout)
        self.check_who_gets_in(inside)
        self.assertEqual(inside("ls", "/etc/shadow").returncode, 2)

    def test_no_password_is_right(self):
        for gone in ((), ("etc/shadow",)):
            with self.subTest(gone=gone):
                inside = self.machine("usr/sbin/dropbear", "etc/ssh/ssh_host_ed25519_key", *gone)
                self.assertIn("nothing is started", inside("/rdreport", "failed").stdout)
                inside("/bin/sh", "-c", "mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key; "
                       "/usr/sbin/sshd -o PidFile=/run/sshd.pid", stdin=subprocess.DEVNULL)
                passwords = ["-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"]
                for password in ("", "*", "x", "core"):
                    self.assertIn("Permission denied (publickey,password", self.client(*passwords, env=self.ask(password)).stdout)
                self.assertEqual(self.client("-i", key(), "-o", "BatchMode=yes").stdout, "core\n")
                inside("/bin/sh", "-c", "kill $(cat /run/sshd.pid)")
                for address in self.ADDRESSES:
                    subprocess.run(["ip", "addr", "del", address, "dev", "lo"], check=True)

    def test_a_server_that_does_not_start(self):
        for script, expected in [("exit 3", "dropbear is not started: it ended with status 3"),
                                 ("exec sleep 1000", "dropbear is not started: it did not go into the background")]:
            inside = self.machine("usr/sbin/dropbear", files={"usr/bin/dropbear": f"#!/bin/sh\n{script}\n"})
            inside("chmod", "755", "/usr/bin/dropbear")
            said = inside("/rdreport", "failed").stdout
            self.assertIn(expected, said)
            self.assertNotIn("sleep 1000", inside("/bin/sh", "-c", "for p in /proc/[0-9]*; do [ $p = /proc/1 ] || tr '\\0' ' ' < $p/cmdline; done").stdout)
            for address in self.ADDRESSES:
                subprocess.run(["ip", "addr", "del", address, "dev", "lo"], check=True)


if __name__ == "__main__":
    unittest.main()
