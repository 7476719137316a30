"""Servers on loopback that are told what to do."""
import contextlib
import gzip
import socket
import ssl
import threading

from harness.pki import Pki


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
