#!/usr/bin/python3
"""An HTTPS server for one POST, that lets its client be looked at: the peer of `size-report --run`.

Arguments: certificate and key. Prints its port; prints `body BYTES` once it has the whole body; answers when it reads a line.
TLS 1.3 only. Standard library only.
"""
import socket
import ssl
import sys


def body_size(stream):
    """Reads a request; the bytes of its body, whose framing is chunked or by length."""
    length = None
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if length is not None:
        return len(stream.read(length))
    total = 0
    while (size := int(stream.readline().split(b";")[0], 16)) > 0:
        total += len(stream.read(size))
        stream.readline()
    stream.readline()
    return total


def main():
    certificate, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        # Callgrind makes the client fifty times slower.
        listener.settimeout(60)
        connection, _ = listener.accept()
        connection.settimeout(60)
        with context.wrap_socket(connection, server_side=True) as tls, tls.makefile("rb") as stream:
            print("body", body_size(stream), flush=True)
            sys.stdin.readline()
            tls.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")


main()
