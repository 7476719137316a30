"""Reports to clouds: each service is a mock at its real address, on an interface of a network namespace made for the test, and what it is
sent is looked at strictly."""
import ctypes
import fcntl
import json
import os
import struct
import subprocess
import tempfile
import termios
import threading
import time
import tty

from harness import PATIENCE, InNamespace, Pki, Root, Server

# A time as RFC 3339 has it, as a pattern.
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
DMI = "sys/class/dmi/id/"
# What each kind of machine has in its firmware, and what it is then.
FIRMWARE = [
    ("azure", {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77", "sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}),
    ("hyperv", {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}),
    ("gcp", {"product_name": "Google Compute Engine"}),
    ("gcp", {"product_serial": "GoogleCloud-0123456789ABCDEF"}),
    ("aws", {"sys_vendor": "Amazon EC2", "product_uuid": "EC2F2A1C-0000-0000-0000-000000000000"}),
    ("aws", {"product_uuid": "EC2F2A1C-0000-0000-0000-000000000000", "product_serial": "ec2f2a1c-0000-0000-0000-000000000000"}),
    ("openstack", {"product_name": "OpenStack Nova"}),
    ("openstack", {"product_name": "OpenStack Compute"}),
    ("openstack", {"chassis_asset_tag": "OpenTelekomCloud"}),
    ("openstack", {"chassis_asset_tag": "SAP CCloud VM"}),
    ("openstack", {"chassis_asset_tag": "HUAWEICLOUD"}),
    ("vmware", {"product_name": "VMware Virtual Platform"}),
    ("vmware", {"product_name": "VMware7,1"}),
    ("scaleway", {"sys_vendor": "Scaleway"}),
    ("oraclecloud", {"chassis_asset_tag": "OracleCloud.com"}),
    ("aliyun", {"product_name": "Alibaba Cloud ECS"}),
    ("digitalocean", {"sys_vendor": "DigitalOcean"}),
    ("hetzner", {"sys_vendor": "Hetzner"}),
    ("vultr", {"sys_vendor": "Vultr"}),
    ("akamai", {"sys_vendor": "Akamai"}),
    ("akamai", {"sys_vendor": "Linode"}),
    ("upcloud", {"sys_vendor": "UpCloud"}),
    ("exoscale", {"product_name": "Exoscale Compute Platform"}),
    ("cloudstack", {"product_name": "CloudStack KVM Hypervisor"}),
    ("cloudsigma", {"product_name": "CloudSigma"}),
    ("brightbox", {"product_serial": "srv-abcde.gb1.brightbox.com"}),
]


def answer(status, body=b"", *fields):
    """An answer with its length said."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def certificate(*names):
    """The name under which [`Pki`] has a certificate for these hosts, signed by ca.pem."""
    stem = "cloud-" + names[0]
    path = Pki.file(stem)
    if not os.path.exists(path + ".pem"):
        # Test processes share the folder: a file appears there whole, or not at all.
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            own = os.path.join(folder, "own")
            with open(own + ".ext", "w") as file:
                file.write("basicConstraints = CA:FALSE\nsubjectAltName = " + ",".join(f"DNS:{name}" for name in names) + "\n")
            run = lambda *words: subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL)
            run("req", "-new", "-key", Pki.file("p256.key"), "-subj", "/CN=cloud", "-out", own + ".csr")
            run("x509", "-req", "-in", own + ".csr", "-CA", Pki.file("ca.pem"), "-CAkey", Pki.file("ca.key"), "-days", "30",
                "-set_serial", str(abs(hash(names))), "-extfile", own + ".ext", "-out", own + ".pem")
            with open(own + ".key", "wb") as file:
                file.write(Pki.read("p256.key"))
            for end in (".key", ".pem"):
                os.replace(own + end, path + end)
    return stem


class Clouds(InNamespace):
    """A machine in a cloud."""

    MESSAGE = "disk \"x\" not found: <&> \u00e9\U0001f600"
    UUID = "4c4c4544-0042-3510-8052-b4c04f4a4e32"

    def setUp(self):
        self.ip("link set lo up")
        # A cable to nowhere; kernels without it (veth) have no containers either, while dummy is often left out.
        self.ip("link add cloud0 type veth peer name cloud1")
        self.ip("link set cloud0 up")
        self.ip("link set cloud1 up")
        self.log, self.due = [], []
        self.root = Root("", journal=None)
        self.addCleanup(self.root.remove)
        self.root.write(DMI + "product_uuid", self.UUID.upper() + "\n")

    def ip(self, words):
        subprocess.run(["ip", *words.split()], check=True)

    def service(self, address, *script, port=80, host=None, tls=None):
        """A service at its address that expects these requests in this order, each `(method and target, answer)`. A number in place of an
        answer closes the connection after so many seconds. With `host` it is found by that name."""
        prefix = "128 nodad" if ":" in address else "32"
        self.ip(f"address replace {address}/{prefix} dev cloud0")
        due = list(script)
        self.due.append(due)

        def behave(connection, server):
            request = connection.request()
            line = f"{request.method} {request.target}"
            self.log.append(line)
            if not due or due[0][0] != line:
                self.log.append(f"not expected, but {due[0][0] if due else 'nothing'}")
                connection.sock.sendall(answer(418))
                return
            said = due.pop(0)[1]
            if isinstance(said, (int, float)):
                time.sleep(said)
            else:
                connection.sock.sendall(said)

        if tls:
            self.root.write("ca.pem", Pki.read("ca.pem"))
        if host:
            with open(self.root.write("etc/hosts", self.root_text("etc/hosts")), "a") as file:
                file.write(f"{address} {host}\n")
        server = Server(behave, tls=tls, address=(address, port))
        self.addCleanup(server.close)
        return server

    def root_text(self, path):
        path = os.path.join(self.root.path, path)
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def report(self, cmdline, *args, code=0, seconds=8, again=False):
        """Reports, in so many seconds; gives what was said. Unless it is `again`, nothing was reported in this boot before."""
        self.root.write("proc/cmdline", f"quiet rd.report.timeout={seconds} {cmdline}\n")
        began = time.monotonic()
        result = self.root.run(*args, is_new_boot=not again)
        self.assertLess(time.monotonic() - began, seconds + 2)
        self.assertEqual(result.returncode, code, f"{result.stderr}\n{self.log}")
        return result.stderr

    def done(self):
        """All that was expected was asked, and nothing else."""
        self.assertEqual([line for due in self.due for line in due], [], self.log)
        self.assertFalse([line for line in self.log if line.startswith("not expected")], self.log)

    def fields(self, request, own=(), content_type=None, host=None):
        """The header of a request: these own fields, and what every request has."""
        usual = {"host", "user-agent", "accept", "accept-encoding", "connection", "x-report-id", "content-length"}
        expected = usual | {name.lower() for name in dict(own)} | ({"content-type"} if content_type else set())
        self.assertEqual(set(request.headers), expected)
        self.assertEqual(request.headers.get("content-type"), content_type)
        self.assertEqual((request.headers["accept"], request.headers["accept-encoding"]), ("*/*", "identity"))
        for name, value in dict(own).items():
            self.assertEqual(request.headers[name.lower()], value)
        if host:
            self.assertEqual(request.headers["host"], host)


class Kernel:
    """The kernel's side of Hyper-V's key-value exchange, with a terminal of two ends in the place of its device: the host's requests go
    through it one after the other, and are answered by the other end."""

    # include/uapi/linux/hyperv.h, struct hv_kvp_msg: a head of four bytes, and the largest of its bodies.
    SIZE = 7432
    ENUMERATE, SET, REGISTER = 3, 1, 100
    NO_MORE, FAIL = b"\x03\x01\x07\x80", b"\x05\x40\x00\x80"

    def __init__(self, root, *requests):
        libc = ctypes.CDLL(None, use_errno=True)
        self.host, self.guest = os.openpty()
        tty.setraw(self.guest)
        path = root.write("dev/vmbus/hv_kvp", b"")
        if libc.unshare(0x20000):  # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", os.ttyname(self.guest), path], check=True)
        self.requests, self.answers, self.go_on = list(requests), [], threading.Event()
        self.registered = threading.Event()
        self.has_read = threading.Condition()
        threading.Thread(target=self.work, daemon=True).start()

    def take_answer(self):
        answer = self.read()
        with self.has_read:
            self.answers.append(answer)
            self.has_read.notify_all()

    def wait_for(self, count):
        """Returns the answers once there are `count`: rdreport may end before the last one is read."""
        with self.has_read:
            self.has_read.wait_for(lambda: len(self.answers) >= count, PATIENCE)
            return list(self.answers)

    def busy(self):
        """Lets nobody open the device any more, as while the daemon has it open."""
        fcntl.ioctl(self.guest, termios.TIOCEXCL)
        ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_ADMIN: it may

    @classmethod
    def enumerate(cls, index, pool=1):
        return struct.pack("=BBHI", cls.ENUMERATE, pool, 0, index).ljust(cls.SIZE, b"\0")

    def read(self):
        message = b""
        while len(message) < self.SIZE:
            message += os.read(self.host, self.SIZE - len(message))
        return message

    def write(self, message):
        while message:
            message = message[os.write(self.host, message):]

    def work(self):
        self.take_answer()
        self.write(struct.pack("=BBH", self.REGISTER, 0, 0).ljust(4, b"\0") + b"3.1".ljust(self.SIZE - 4, b"\0"))
        self.registered.set()
        for request in self.requests:
            if request is None:
                self.go_on.wait()
                continue
            self.write(request)
            if len(request) == self.SIZE:
                self.take_answer()

    @staticmethod
    def record(answer):
        """Key and value of an answer."""
        return answer[20:532].split(b"\0")[0].decode(), answer[532:2580].split(b"\0")[0].decode()


class Brief:
    """What services get that keep one value."""

    def brief(self, text, state, message, stage=None, code=None):
        body = json.loads(text)
        self.assertRegex(body.pop("report_id"), "^[0-9a-f-]{36}$")
        self.assertRegex(body.pop("time"), "^" + TIME + "$")
        self.assertEqual(body, {"schema": 1, "state": state, "stage": stage, "message": message, "code": code})
