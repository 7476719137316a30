"""Where the machines that are booted send their reports."""
import base64
import http.server
import socket
import ssl
import threading
import time


class Sink(http.server.BaseHTTPRequestHandler):
    """Keeps what is POSTed, and knows nothing that could be fetched but what it was given."""
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while True:
            size = int(self.rfile.readline(), 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return body

    def do_POST(self):
        came = time.monotonic()
        body = self.body()
        self.answer(200)
        with self.server.changed:
            self.server.posts.append({
                "path": self.path, "after_s": round(came - self.server.began, 3), "headers": dict(self.headers.items()),
                "body": base64.b64encode(body).decode()})
            self.server.changed.notify_all()

    def do_GET(self):
        body = self.server.files.get(self.path)
        self.answer(404) if body is None else self.answer(200, body.encode())

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Its requests are in `posts`, each with the time since `began`; `changed` is told of each. `files` can be fetched, by path. `tls` is a
    certificate's file, and its key's."""

    def __init__(self, address, port=0, files=None, tls=None):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.files = files or {}
        self.posts, self.changed, self.began = [], threading.Condition(), time.monotonic()
        super().__init__((address, port), Sink)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
