"""The host's side of vsock for a virtual machine, where the kernel here has none: a vhost-user device (QEMU's docs/interop/vhost-user.rst) that
takes connections to one port and keeps what comes (virtio 1.2, section 5.10)."""
import array
import collections
import mmap
import os
import select
import socket
import struct
import threading

# Features: of virtio 1, of vhost-user itself; and the one for sockets of packets.
VERSION_1, PROTOCOL_FEATURES, SEQPACKET = 1 << 32, 1 << 30, 1 << 1
# The one protocol feature that is needed: the device's configuration is asked for.
CONFIG = 1 << 9
(GET_FEATURES, SET_FEATURES, SET_MEM_TABLE, SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL,
 GET_PROTOCOL_FEATURES, GET_CONFIG) = 1, 2, 5, 8, 9, 10, 11, 12, 13, 15, 24
RX, TX = 0, 1
# The header of a packet, and what it is for.
HEADER = struct.Struct("<QQIIIHHIII")
REQUEST, RESPONSE, RESET, SHUTDOWN, DATA, CREDIT_UPDATE, CREDIT_REQUEST = range(1, 8)
STREAM, PACKETS = 1, 2
GUEST, HOST = 3, 2
CREDIT = 256 * 1024


class Ring:
    """A split virtqueue."""

    def __init__(self):
        self.size, self.next, self.used, self.addresses, self.kick, self.call = 0, 0, 0, None, None, None


class Device:
    """Listens at `path` for QEMU. `said` has, for each connection, its kind, the guest's port, its bytes, and whether it ended in order."""

    def __init__(self, path, port, packets=True, changed=None):
        self.port, self.kinds = port, (STREAM, PACKETS) if packets else (STREAM,)
        self.features = VERSION_1 | PROTOCOL_FEATURES | (SEQPACKET if packets else 0)
        self.changed = changed or threading.Condition()
        self.said, self.open, self.regions, self.rings = [], {}, [], [Ring(), Ring()]
        self.pending = collections.deque()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self._work, daemon=True).start()

    def close(self):
        self.listener.close()

    def _work(self):
        try:
            self.qemu, _ = self.listener.accept()
        except OSError:
            return
        try:
            while True:
                kicks = {ring.kick: ring for ring in self.rings if ring.kick is not None}
                ready, _, _ = select.select([self.qemu, *kicks], [], [])
                for one in ready:
                    if one is self.qemu:
                        self._message()
                    else:
                        os.read(one, 8)
                self._serve()
        except (OSError, EOFError, ValueError):
            # The machine has ended.
            self.qemu.close()

    def _message(self):
        fds = array.array("i")
        head, ancillary, _, _ = self.qemu.recvmsg(12, socket.CMSG_SPACE(8 * 4))
        if len(head) < 12:
            raise EOFError
        for _, _, data in ancillary:
            fds.frombytes(data[:len(data) - len(data) % 4])
        request, _, size = struct.unpack("<III", head)
        payload = b""
        while len(payload) < size:
            payload += self.qemu.recv(size - len(payload))
        reply = self._answer(request, payload, list(fds))
        if reply is not None:
            self.qemu.sendall(struct.pack("<III", request, 5, len(reply)) + reply)

    def _answer(self, request, payload, fds):
        if request == GET_FEATURES:
            return struct.pack("<Q", self.features)
        if request == GET_PROTOCOL_FEATURES:
            return struct.pack("<Q", CONFIG)
        if request == GET_CONFIG:
            offset, size, flags = struct.unpack_from("<III", payload)
            config = struct.pack("<Q", GUEST).ljust(offset + size, b"\0")[offset:offset + size]
            return struct.pack("<III", offset, size, flags) + config
        if request == SET_MEM_TABLE:
            self.regions = []
            for number, fd in enumerate(fds):
                guest, size, user, offset = struct.unpack_from("<QQQQ", payload, 8 + 32 * number)
                self.regions.append((guest, user, size, offset, mmap.mmap(fd, offset + size)))
            return None
        if request in (SET_VRING_NUM, SET_VRING_BASE, SET_VRING_ADDR, GET_VRING_BASE):
            index, value = struct.unpack_from("<II", payload)
            ring = self.rings[index & 1] if index < 2 else Ring()
            if request == SET_VRING_NUM:
                ring.size = value
            elif request == SET_VRING_BASE:
                ring.next = ring.used = value
            elif request == SET_VRING_ADDR:
                ring.addresses = struct.unpack_from("<QQQ", payload, 8)  # descriptors, used, available
            else:
                ring.kick = None
                return struct.pack("<II", index, ring.next)
        if request in (SET_VRING_KICK, SET_VRING_CALL):
            index = struct.unpack("<Q", payload)[0] & 0xff
            if index < 2 and fds:
                setattr(self.rings[index], "kick" if request == SET_VRING_KICK else "call", fds[0])
        return None

    def _place(self, address, which):
        """Where an address is: of the guest's (0) or of QEMU's own (1)."""
        for region in self.regions:
            if region[which] <= address < region[which] + region[2]:
                return region[4], region[3] + address - region[which]
        raise ValueError(address)

    def _chain(self, ring):
        """The buffers of the next chain that the guest has made available, with its number; nothing if there is none."""
        table, used, available = ring.addresses
        memory, at = self._place(available, 1)
        if struct.unpack_from("<H", memory, at + 2)[0] == ring.next & 0xffff:
            return None
        head = number = struct.unpack_from("<H", memory, at + 4 + 2 * (ring.next % ring.size))[0]
        ring.next += 1
        buffers = []
        while True:
            memory, at = self._place(table, 1)
            address, size, flags, following = struct.unpack_from("<QIHH", memory, at + 16 * number)
            buffers.append((*self._place(address, 0), size))
            if not flags & 1:
                return head, buffers
            number = following

    def _done(self, ring, head, size):
        memory, at = self._place(ring.addresses[1], 1)
        struct.pack_into("<II", memory, at + 4 + 8 * (ring.used % ring.size), head, size)
        ring.used += 1
        struct.pack_into("<H", memory, at + 2, ring.used & 0xffff)
        if ring.call is not None:
            os.write(ring.call, struct.pack("<Q", 1))

    def _serve(self):
        if not all(ring.addresses and ring.kick is not None and ring.size for ring in self.rings):
            return
        while (chain := self._chain(self.rings[TX])) is not None:
            head, buffers = chain
            self._take(b"".join(memory[at:at + size] for memory, at, size in buffers))
            self._done(self.rings[TX], head, 0)
        while self.pending and (chain := self._chain(self.rings[RX])) is not None:
            head, ((memory, at, _), *_) = chain
            memory[at:at + HEADER.size] = self.pending.popleft()
            self._done(self.rings[RX], head, HEADER.size)

    def _take(self, packet):
        source, to, source_port, to_port, size, kind, operation, flags, _, _ = HEADER.unpack_from(packet)
        key = (kind, source_port)

        def reply(operation, taken=0):
            self.pending.append(HEADER.pack(HOST, source, to_port, source_port, 0, kind, operation, 0, CREDIT, taken))

        known = self.open.get(key)
        if operation == REQUEST and (to, to_port) == (HOST, self.port) and kind in self.kinds:
            self.open[key] = {"kind": kind, "port": source_port, "bytes": b"", "has_ended": False}
            reply(RESPONSE)
        elif operation == DATA and known:
            known["bytes"] += packet[HEADER.size:HEADER.size + size]
            reply(CREDIT_UPDATE, len(known["bytes"]))
        elif operation == CREDIT_REQUEST and known:
            reply(CREDIT_UPDATE, len(known["bytes"]))
        elif operation in (SHUTDOWN, RESET) and known:
            known["has_ended"] = operation == SHUTDOWN
            # Both directions, or only the guest's.
            if operation == SHUTDOWN:
                reply(RESET)
            with self.changed:
                self.said.append(self.open.pop(key))
                self.changed.notify_all()
        elif operation not in (RESET, CREDIT_UPDATE):
            reply(RESET)
