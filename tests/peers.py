"""What the tests of the whole binary share: a root folder to run it in, and servers for it to talk to."""
import contextlib
import gzip
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "fixtures")
BINARY = os.path.abspath(os.environ.get("RDREPORT", os.path.join(HERE, "..", "target", "release", "rdreport")))
MACHINE = "0123456789abcdef0123456789abcdef"
# Seconds after which the binary hangs, whatever its own deadlines say.
PATIENCE = 90


def children_of(pid):
    """The numbers of the processes that this one has made."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def resident_kb(pid):
    """Exact kilobytes of a process, from its page tables."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Rss:"))


def most_kb():
    """What a whole process may take, code included: the design's limit. What a build without link-time optimisation has more of that, and of
    the data that it comes with, is not counted."""
    return 1536 + 5 * max(0, (os.path.getsize(BINARY) >> 10) - 750) // 4


def sample(name):
    """A recorded file of tests/fixtures, unpacked."""
    return subprocess.run(["zstd", "-dqc", os.path.join(FIXTURES, name + ".zst")], check=True,
                          stdout=subprocess.PIPE).stdout


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


class Root:
    """A folder that stands for `/`."""

    def __init__(self, cmdline=None, journal="initrd-systemd252-ignition-disks-missing"):
        self.path = tempfile.mkdtemp(prefix="rdreport-root-")
        os.mkdir(os.path.join(self.path, "run"))
        if cmdline is not None:
            self.write("proc/cmdline", cmdline + "\n")
        if journal:
            self.write(f"run/log/journal/{MACHINE}/system.journal", sample(journal + ".journal"))

    def write(self, path, content):
        whole = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return whole

    def run(self, *args, stdin=None, is_new_boot=True, **options):
        """Runs the binary, of whose earlier runs nothing is left unless asked for; gives its result with text in `stdout` and
        `stderr`."""
        if is_new_boot:
            shutil.rmtree(os.path.join(self.path, "run/rdreport"), ignore_errors=True)
        return subprocess.run([BINARY, "--root", self.path, *args], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, text=True, errors="replace", **options)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Pki:
    """The certificates of pki.sh, made once for a test run."""

    _folder = None

    @classmethod
    def file(cls, name):
        # Made by the process that this one is a part of.
        if "RDREPORT_TEST_PKI" in os.environ:
            return os.path.join(os.environ["RDREPORT_TEST_PKI"], name)
        if cls._folder is None:
            cls._folder = tempfile.TemporaryDirectory(prefix="rdreport-pki-")
            subprocess.run(["sh", os.path.join(HERE, "pki.sh"), cls._folder.name], check=True)
        return os.path.join(cls._folder.name, name)

    @classmethod
    def read(cls, name):
        with open(cls.file(name), "rb") as file:
            return file.read()


# Set in the processes that [`InNamespace`] starts.
INSIDE = "RDREPORT_TEST_NAMESPACE"


class InNamespace(unittest.TestCase):
    """Runs each test in a process of its own in a new network namespace, in which any address can be had."""

    def run(self, result=None):
        if INSIDE in os.environ:
            return super().run(result)
        result = result or self.defaultTestResult()
        result.startTest(self)
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        name = ".".join(self.id().split(".")[-2:])
        done = subprocess.run(
            ["unshare", "--net", *user, sys.executable, os.path.abspath(sys.modules[type(self).__module__].__file__), name],
            env={**os.environ, INSIDE: "1", "RDREPORT": BINARY, "RDREPORT_TEST_PKI": os.path.dirname(Pki.file("ca.pem"))},
            capture_output=True, text=True, timeout=180,
        )
        if done.returncode == 0 and "Ran 1 test" in done.stderr and "skipped" not in done.stderr:
            result.addSuccess(self)
        else:
            result.addFailure(self, (AssertionError, AssertionError(done.stdout + done.stderr), None))
        result.stopTest(self)
        return result


class Request:
    """What a client sent."""

    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body

    def text(self):
        """The body, unpacked if it says that it is packed."""
        return gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Server:
    """A server on loopback that is told what to do: `behave(connection, server)` gets each connection, its file as `.file`, and does with
    it what the test wants; the default reads a request, keeps it in `requests` and answers 200. `address` is for tests in a network
    namespace of their own."""

    def __init__(self, behave=None, tls=None, rcvbuf=None, address=("127.0.0.1", 0)):
        self.requests = []
        self.errors = []
        self.connections = 0
        self.behave = behave or (lambda connection, server: connection.answer(OK))
        self.context = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(Pki.file(tls + ".pem"), Pki.file(tls + ".key"))
        self.listener = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if rcvbuf:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.listener.bind(address)
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self, path="/", host="localhost"):
        return f"{'https' if self.context else 'http'}://{host}:{self.port}{path}"

    def close(self):
        # A thread that waits in accept() would hold the port until one more peer has come.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._connection, args=(plain,), daemon=True).start()

    def _connection(self, plain):
        try:
            connection = Connection(self.context.wrap_socket(plain, server_side=True) if self.context else plain, self)
        except OSError as error:
            self.errors.append(error)
            return
        with contextlib.suppress(OSError):
            self.behave(connection, self)
        connection.close()


class Connection:
    """One connection of a [`Server`]."""

    def __init__(self, sock, server):
        self.sock, self.server = sock, server
        self.file = sock.makefile("rb")

    def head(self):
        """Reads a request's head."""
        line = self.file.readline().decode().split(" ")
        if len(line) < 3:
            raise OSError("no request came")
        headers = {}
        while True:
            field = self.file.readline().decode("latin-1").rstrip("\r\n")
            if not field:
                break
            name, value = field.split(":", 1)
            headers[name.lower()] = value.strip()
        return Request(line[0], line[1], headers, b"")

    def request(self):
        """Reads a request, and keeps it once it is whole."""
        request = self.head()
        if request.headers.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.file.readline(), 16)
                request.body += self._exactly(size)
                if self._exactly(2) != b"\r\n":
                    raise OSError("no line end behind a chunk")
                if size == 0:
                    break
        else:
            request.body = self._exactly(int(request.headers.get("content-length", 0)))
        self.server.requests.append(request)
        return request

    def _exactly(self, size):
        data = self.file.read(size)
        if len(data) != size:
            raise OSError("the client ended within its body")
        return data

    def answer(self, said):
        """Reads a request and answers it."""
        self.request()
        self.sock.sendall(said)

    def reset(self):
        """Ends the connection without an orderly end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.file.close()
        self.sock.close()

    def close(self):
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.fileno() >= 0:
            # ValueError: TLS has been ended already.
            with contextlib.suppress(OSError, ValueError):
                self.sock = self.sock.unwrap()
        with contextlib.suppress(OSError):
            self.file.close()
            self.sock.close()
