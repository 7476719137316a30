"""Reaching a peer from a network that is late, half there or lied to.

The binary runs in a network namespace of its own, the peers in another, and a veth pair joins them. Each test is a process in fresh
namespaces (as root, or as root of a user namespace), so nothing of the machine's network is used or changed.
"""

import ipaddress
import os
import shutil
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import BINARY, MACHINE, InNamespace, sample

# Addresses of the peers' side, from the documentation ranges (RFC 5737, RFC 3849).
V4, V6 = "192.0.2.1", "2001:db8::1"
# Nobody has these.
HOLE4, HOLE6 = "192.0.2.9", "2001:db8::9"
# Seconds in which a report must have come through a network that is there.
SOON = 2
# Groups of the routing socket with which a change is waited for, as /proc/net/netlink shows them.
WATCHED = "00000551"


class Http(ThreadingHTTPServer):
    """Takes every POST; `posts` holds a body each."""

    address_family = socket.AF_INET6
    daemon_threads = True

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.posts.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.hosts.append(self.headers["Host"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    def __init__(self):
        self.posts, self.hosts = [], []
        super().__init__(("::", 80), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Dns:
    """A nameserver on UDP and TCP port 53 that knows `names` (name: addresses), and sends for each query what `say` makes of it and of
    the true answer: a list of messages, in which a number is a pause in seconds. `asked` holds (name, type) for each query."""

    A, AAAA = 1, 28

    def __init__(self, names, say=lambda query, truth: [truth], address="::"):
        self.names, self.say, self.asked, self.tcp_asked, self.tcp_hangs = names, say, [], [], False
        self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.bind((address, 53))
        threading.Thread(target=self.serve_udp, daemon=True).start()
        dns = self

        class Tcp(socketserver.StreamRequestHandler):
            def handle(self):
                length, = struct.unpack("!H", self.rfile.read(2))
                query = self.rfile.read(length)
                dns.tcp_asked.append(dns.question(query))
                if dns.tcp_hangs:
                    time.sleep(60)
                truth = dns.truth(query)
                self.wfile.write(struct.pack("!H", len(truth)) + truth)

        class Server(socketserver.ThreadingTCPServer):
            address_family = socket.AF_INET6
            daemon_threads = True

        threading.Thread(target=Server((address, 53), Tcp).serve_forever, daemon=True).start()

    def serve_udp(self):
        while True:
            query, peer = self.udp.recvfrom(512)
            self.asked.append(self.question(query))
            threading.Thread(target=self.answer, args=(query, peer), daemon=True).start()

    def answer(self, query, peer):
        for message in self.say(query, self.truth(query)):
            if isinstance(message, (int, float)):
                time.sleep(message)
            else:
                self.udp.sendto(message, peer)

    @staticmethod
    def question(query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        return ".".join(labels), struct.unpack("!H", query[at + 1:at + 3])[0]

    def truth(self, query):
        name, kind = self.question(query)
        found = [ipaddress.ip_address(a).packed for a in self.names.get(name, [])]
        found = [a for a in found if len(a) == (4 if kind == self.A else 16)]
        head = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if name in self.names else 3), 1, len(found), 0, 0)
        return head + query[12:] + b"".join(self.record(kind, a) for a in found)

    @staticmethod
    def record(kind, data, name=b"\xc0\x0c"):
        return name + struct.pack("!HHIH", kind, 1, 60, len(data)) + data


def truncated(message):
    """`message` with the TC bit, and without its records."""
    end = message.index(b"\0", 12) + 5
    return message[:2] + bytes([message[2] | 2]) + message[3:6] + bytes(6) + message[12:end]


class Network(InNamespace):
    """This machine, and another one at the end of a cable."""

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        # Holds the namespace until its standard input ends.
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdin.close)
        self.addCleanup(holder.stdout.close)
        holder.stdout.readline()
        self.holder = holder.pid
        self.ip("link set lo up")
        self.there("link set lo up")
        self.join("s0", "c0")
        self.ip(f"address add {V4}/24 dev s0")
        self.ip(f"address add {V6}/64 dev s0 nodad")
        for folder in ["run", "etc", "tmp"]:
            self.write(f"/{folder}/.keep", "")

    @staticmethod
    def ip(words):
        subprocess.run(["ip", *words.split()], check=True)

    def inside(self, *words):
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net", "--", *words]

    def there(self, words):
        """`ip` where the binary is."""
        subprocess.run(self.inside("ip", *words.split()), check=True)

    def join(self, here, there):
        """A cable from here to where the binary is, with this end up and no addresses."""
        self.ip(f"link add {here} type veth peer name {there} netns {self.holder}")
        self.ip(f"link set {here} up")

    def network(self, v4=True, v6=True):
        """Brings up the binary's side."""
        self.there("link set c0 up")
        if v4:
            self.there("address add 192.0.2.2/24 dev c0")
        if v6:
            self.there("address add 2001:db8::2/64 dev c0 nodad")

    def hole(self, address):
        """What is sent to `address` goes nowhere and nothing comes back."""
        self.there(f"neighbour replace {address} lladdr 02:00:00:00:00:09 dev c0 nud permanent")

    def write(self, path, text):
        path = self.root + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def start(self, host, words="", seconds=30):
        self.write("/proc/cmdline", f"quiet rd.report.url=http://{host}/ rd.report.platform=none rd.report.timeout={seconds} {words}\n")
        self.began = time.monotonic()
        self.binary = subprocess.Popen(
            self.inside(BINARY, "--root", self.root, "failed"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.binary.stdout.close)
        self.addCleanup(self.binary.kill)

    def wait_until_it_waits(self):
        """Returns when the binary listens for changes of the network, which it does before each try."""
        while self.binary.poll() is None:
            table = subprocess.run(self.inside("cat", "/proc/self/net/netlink"), check=True, capture_output=True, text=True).stdout
            if WATCHED in table:
                return
        self.fail("it ended: " + self.binary.stdout.read())

    def delivered(self, http, within):
        """Waits for the binary's end: one report, in so many seconds."""
        try:
            output, _ = self.binary.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.fail(f"not done after {within} s")
        self.assertEqual(self.binary.returncode, 0, output)
        self.assertEqual(len(http.posts), 1, output)

    def refused(self, within):
        """Waits for the binary's end: not delivered, and said so in time."""
        try:
            output, _ = self.binary.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.fail(f"not done after {within} s")
        self.assertEqual(self.binary.returncode, 1, output)
        return output


class Connecting(Network):
    def test_literals(self):
        self.network()
        http = Http()
        for host in [V4, f"[{V6}]", f"{V4}:80"]:
            http.posts.clear()
            shutil.rmtree(self.root + "/run", ignore_errors=True)
            self.write("/run/.keep", "")
            self.start(host)
            self.delivered(http, SOON)

    def test_v4_black_hole(self):
        self.network()
        self.hole(HOLE4)
        self.write("/etc/hosts", f"{HOLE4} peer\n{V6} peer\n")
        self.start("peer")
        self.delivered(http := Http(), SOON)
        self.assertEqual(http.hosts, ["peer"])

    def test_v6_black_hole(self):
        self.network()
        self.hole(HOLE6)
        self.write("/etc/hosts", f"{HOLE6} peer\n{V4} peer\n")
        http = Http()
        self.start("peer")
        self.delivered(http, SOON)

    def test_black_holes_by_dns(self):
        self.network()
        self.hole(HOLE4)
        self.hole(HOLE6)
        http = Http()
        Dns({"peer.example": [HOLE6, HOLE4, V4, V6]})
        self.start("peer.example", f"nameserver={V4}")
        self.delivered(http, SOON)

    def test_only_black_holes(self):
        self.network()
        self.hole(HOLE4)
        self.hole(HOLE6)
        self.write("/etc/hosts", f"{HOLE4} peer\n{HOLE6} peer\n")
        self.start("peer", seconds=7)
        self.refused(8)

    def test_v6_only(self):
        self.network(v4=False)
        http = Http()
        Dns({"peer.example": [V4, V6]})
        self.start("peer.example", f"nameserver=[{V6}]")
        self.delivered(http, SOON)

    def test_v4_only(self):
        self.network(v6=False)
        http = Http()
        Dns({"peer.example": [V4, V6]})
        self.start("peer.example", f"nameserver={V4}")
        self.delivered(http, SOON)

    def test_link_local_with_and_without_zone(self):
        self.join("s1", "c1")
        self.ip("address add fe80::99/64 dev s1 nodad")
        for link in ["c0", "c1"]:
            self.there(f"link set {link} up")
            self.there(f"address add fe80::{link}/64 dev {link} nodad")
        http = Http()
        for host in ["[fe80::99]", "[fe80::99%25c1]", "[fe80::99%c1]"]:
            http.posts.clear()
            shutil.rmtree(self.root + "/run", ignore_errors=True)
            self.write("/run/.keep", "")
            self.start(host)
            self.delivered(http, SOON)


class Waiting(Network):
    def late(self, host, words="", hold=1):
        """Starts without a network; the binary must wait for `hold` seconds."""
        self.http = Http()
        self.start(host, words)
        self.wait_until_it_waits()
        with self.assertRaises(subprocess.TimeoutExpired):
            self.binary.wait(timeout=hold)

    def test_address_after_five_seconds(self):
        self.there("link set c0 up")
        self.late(V4, hold=5)
        self.there("address add 192.0.2.2/24 dev c0")
        self.delivered(self.http, SOON)

    def test_v6_address_and_link(self):
        self.late(f"[{V6}]")
        self.network(v4=False)
        self.delivered(self.http, SOON)

    def test_interface(self):
        self.there("link delete c0")
        self.late(V4)
        self.join("s0", "c0")
        self.ip(f"address add {V4}/24 dev s0")
        self.network()
        self.delivered(self.http, SOON)

    def test_carrier(self):
        self.ip("link set s0 down")
        self.network(v6=False)
        self.late(V4, hold=5)
        self.ip("link set s0 up")
        # A try under way has up to three seconds of ARP before it.
        self.delivered(self.http, 3 + SOON)

    def test_route(self):
        self.network()
        self.ip("address add 198.51.100.1/32 dev lo")
        self.late("198.51.100.1")
        self.there(f"route add default via {V4}")
        self.delivered(self.http, SOON)

    def test_address_for_the_nameserver(self):
        Dns({"peer.example": [V4]})
        self.late("peer.example", f"rd.report.dns={V4}")
        self.network()
        self.delivered(self.http, SOON)

    def test_nameserver_and_address(self):
        Dns({"peer.example": [V4]})
        self.late("peer.example")
        self.network()
        self.write("/run/systemd/netif/leases/2", f"DNS={V4}\n")
        self.delivered(self.http, SOON)

    def test_nameserver_after_the_address(self):
        Dns({"peer.example": [V4]})
        self.network()
        self.late("peer.example")
        self.write("/etc/resolv.conf", f"nameserver {V4}\n")
        self.delivered(self.http, SOON)

    def test_interface_of_a_zone(self):
        self.ip("address add fe80::99/64 dev s0 nodad")
        self.there("link set c0 name c9")
        self.late("[fe80::99%25c0]")
        self.there("link set c9 name c0")
        self.there("link set c0 up")
        self.there("address add fe80::2/64 dev c0 nodad")
        self.delivered(self.http, SOON)

    def test_never(self):
        self.there("link set c0 up")
        for host in [V4, f"[{V6}]", "peer.example"]:
            shutil.rmtree(self.root + "/run", ignore_errors=True)
            self.write("/run/.keep", "")
            self.start(host, seconds=2)
            self.assertIn("no network: no address or route in time; set rd.neednet=1 ip=dhcp", self.refused(3))

    def test_never_for_the_journal(self):
        self.write(f"/run/log/journal/{MACHINE}/.keep", "")
        with open(f"{self.root}/run/log/journal/{MACHINE}/system.journal", "wb") as file:
            file.write(sample("initrd-systemd252-ignition-disks-missing.journal"))
        self.start(V4, f"rd.report.journal=http://{V4}/journal", seconds=3)
        output = self.refused(4)
        self.assertEqual(output.count("no network: no address or route in time"), 2, output)
        self.assertNotIn("nothing answers", output)

    def test_routes_that_lead_nowhere(self):
        self.network()
        for kind, why in [("prohibit", "a firewall or route of this machine forbids it"), ("blackhole", "a blackhole route")]:
            self.there(f"route add {kind} 198.51.100.1")
            shutil.rmtree(self.root + "/run/rdreport", ignore_errors=True)
            self.start("198.51.100.1", seconds=1)
            self.assertIn("cannot connect: ", output := self.refused(2))
            self.assertIn(why, output)
            self.there(f"route delete {kind} 198.51.100.1")

    def test_an_interface_that_never_comes(self):
        self.network()
        self.start("[fe80::99%25nowhere]", seconds=2)
        output = self.refused(3)
        self.assertIn("http://[fe80::99%25nowhere]/: not delivered: no interface has the name or number behind the %", output)


class Tentative(Network):
    """IPv6 addresses as they come in reality: with duplicate address detection, a second in which they cannot be used."""

    def setUp(self):
        super().setUp()
        self.http = Http()
        self.there("link set c0 up")
        self.address_there("2001:db8::2")

    def address_there(self, address):
        """An address that is tentative yet."""
        self.there(f"address add {address}/64 dev c0")
        self.assertIn("tentative", self.addresses(address))

    def addresses(self, address):
        every = subprocess.run(self.inside("ip", "-o", "address", "show"), check=True, capture_output=True, text=True).stdout
        return next(line for line in every.splitlines() if address in line)

    def test_the_only_address(self):
        self.start(f"[{V6}]")
        self.delivered(self.http, 2 * SOON)

    def test_the_nameserver(self):
        Dns({"peer.example": [V6]})
        self.start("peer.example", f"nameserver=[{V6}]")
        self.delivered(self.http, 2 * SOON)

    def test_with_a_default_route_beside(self):
        # The kernel has a way at once, and takes the loopback address for it.
        self.ip("address add 2001:db8:1::1/128 dev lo nodad")
        self.there(f"route add default via {V6} dev c0")
        self.start("[2001:db8:1::1]")
        self.delivered(self.http, 2 * SOON)

    def test_a_link_local_address_before_it(self):
        # One that can be used at once, which the router at the other end does not answer beyond the link.
        self.there("address add fe80::2/64 dev c0 nodad")
        self.ip("route add unreachable fe80::2/128 metric 1")
        self.start(f"[{V6}]")
        self.delivered(self.http, 2 * SOON)

    def test_a_duplicate(self):
        # Without a link-local address, from which a peer on the link could be reached.
        self.there("link set c0 down")
        self.there("link set c0 addrgenmode none")
        self.there("link set c0 up")
        self.ip("address add 2001:db8::3/64 dev s0")
        # Once its own detection is over, it defends the address.
        while "tentative" in subprocess.run(["ip", "address", "show", "dev", "s0"], check=True, capture_output=True, text=True).stdout:
            time.sleep(0.05)
        self.there("address add 2001:db8::3/64 dev c0")
        self.start(f"[{V6}]", seconds=4)
        self.assertIn("no network: no address or route in time", self.refused(5))

    def test_an_ipv4_address_meanwhile(self):
        self.hole(HOLE6)
        self.write("/etc/hosts", f"{HOLE6} peer\n{V4} peer\n")
        self.start("peer")
        self.wait_until_it_waits()
        time.sleep(1.5)
        self.there("address add 192.0.2.2/24 dev c0")
        self.delivered(self.http, SOON)

    def test_an_address_that_is_deprecated(self):
        self.there("address delete 2001:db8::2/64 dev c0")
        self.there("address add 2001:db8::2/64 dev c0 nodad preferred_lft 0")
        self.start(f"[{V6}]")
        self.delivered(self.http, SOON)


class Changing(Network):
    """Changes while a connection is on its way."""

    def setUp(self):
        super().setUp()
        self.http = Http()

    def pending(self, host, words=""):
        """Starts, and returns when the binary waits for a connection."""
        self.start(host, words)
        while self.binary.poll() is None:
            table = subprocess.run(self.inside("cat", "/proc/self/net/tcp", "/proc/self/net/tcp6"), check=True, capture_output=True, text=True)
            if any(line.split()[3] == "02" for line in table.stdout.splitlines()):
                return
        self.fail("it ended: " + self.binary.stdout.read())

    def test_a_better_source(self):
        # The peer answers one of two addresses only.
        self.there("link set c0 up")
        self.there("address add 2001:db8::2/64 dev c0 nodad preferred_lft 0")
        self.ip("route add unreachable 2001:db8::2/128 metric 1")
        self.pending(f"[{V6}]")
        self.there("address add 2001:db8::4/64 dev c0")
        self.delivered(self.http, 2 * SOON)

    def test_another_family(self):
        self.network(v4=False)
        self.hole(HOLE6)
        self.write("/etc/hosts", f"{HOLE6} peer\n{V4} peer\n")
        self.pending("peer")
        self.there("address add 192.0.2.2/24 dev c0")
        self.delivered(self.http, SOON)

    def test_a_nameserver_of_another_family(self):
        self.network(v4=False)
        self.hole(HOLE6)
        Dns({"peer.example": [V4]})
        self.start("peer.example", f"nameserver=[{HOLE6}] nameserver={V4}")
        self.wait_until_it_waits()
        self.there("address add 192.0.2.2/24 dev c0")
        self.delivered(self.http, SOON)

    def test_an_interface_that_goes_down_and_up(self):
        self.network(v6=False)
        self.there("link set c0 down")
        self.start(V4)
        self.wait_until_it_waits()
        self.there("link set c0 up")
        self.delivered(self.http, SOON)

    def test_a_route_before_its_address(self):
        self.there("link set c0 up")
        self.there("route add 192.0.2.0/24 dev c0")
        self.start(V4)
        self.wait_until_it_waits()
        with self.assertRaises(subprocess.TimeoutExpired):
            self.binary.wait(timeout=0.5)
        self.there("address add 192.0.2.2/24 dev c0")
        self.delivered(self.http, SOON)


class Nameservers(Network):
    def setUp(self):
        super().setUp()
        self.network()
        self.http = Http()

    def resolves(self, words="", within=SOON):
        self.start("peer.example", words)
        self.delivered(self.http, within)

    def known(self, *args):
        return Dns({"peer.example": [V4, V6]}, *args)

    def test_resolv_conf(self):
        self.known()
        self.write("/etc/resolv.conf", f"nameserver {V4}\n")
        self.resolves()

    def test_absent_and_a_lease(self):
        self.known()
        self.write("/run/systemd/netif/leases/2", f"ADDRESS=192.0.2.2\nDNS={V4}\n")
        self.resolves()

    def test_empty_and_resolved(self):
        self.known()
        self.write("/etc/resolv.conf", "")
        self.write("/run/systemd/resolve/resolv.conf", f"nameserver {V4}\n")
        self.resolves()

    def test_dangling_and_networkmanager(self):
        self.known()
        os.symlink("/run/nowhere/stub-resolv.conf", self.root + "/etc/resolv.conf")
        self.write("/run/NetworkManager/no-stub-resolv.conf", f"nameserver {V6}\n")
        self.resolves()

    def test_stub_and_dracut(self):
        self.known()
        self.write("/etc/resolv.conf", "nameserver 127.0.0.53\nnameserver ::1\n")
        self.write("/tmp/net.c0.resolv.conf", f"nameserver {V4}\n")
        self.resolves()

    def test_stub_behind_a_link_out_of_the_root(self):
        self.known()
        self.write("/run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n")
        os.symlink("../run/systemd/resolve/stub-resolv.conf", self.root + "/etc/resolv.conf")
        self.write("/run/net-c0.conf", f"DEVICE='c0'\nIPV4DNS0='{V4}'\nIPV4DNS1='0.0.0.0'\n")
        self.resolves()

    def test_kernel_dhcp(self):
        self.known()
        self.write("/proc/net/pnp", f"#PROTO: DHCP\ndomain example\nnameserver {V4}\nbootserver 192.0.2.3\n")
        self.start("peer")
        self.delivered(self.http, SOON)

    def test_command_line(self):
        self.known()
        self.resolves(f"ip=192.0.2.2::192.0.2.254:255.255.255.0:host:c0:none:{V4}")

    def test_setting_is_the_only_one_asked(self):
        dns = self.known()
        self.write("/etc/resolv.conf", f"nameserver {HOLE4}\n")
        self.resolves(f"rd.report.dns={V4}")
        self.assertEqual(sorted(dns.asked), [("peer.example", Dns.A), ("peer.example", Dns.AAAA)])

    def test_none(self):
        self.start("peer.example", seconds=5)
        self.assertIn("/etc/resolv.conf", self.refused(6))
        self.assertEqual(self.http.posts, [])

    def test_search_domains(self):
        self.known()
        self.write("/etc/resolv.conf", f"search nowhere.example example\nnameserver {V4}\n")
        self.start("peer")
        self.delivered(self.http, SOON)

    def test_wrong_id_wrong_name_and_noise_before_the_answer(self):
        def say(query, truth):
            evil = truth.replace(socket.inet_aton(V4), socket.inet_aton(HOLE4))
            wrong_id = bytes([evil[0] ^ 1]) + evil[1:]
            wrong_name = evil.replace(b"\x04peer", b"\x04poor")
            return [b"", b"\0", wrong_id, wrong_name, query, os.urandom(400), truth]

        self.hole(HOLE4)
        Dns({"peer.example": [V4]}, say)
        self.resolves(f"nameserver={V4}")

    def test_only_lies(self):
        Dns({"peer.example": [V4]}, lambda query, truth: [bytes([truth[0] ^ 1]) + truth[1:]])
        self.start("peer.example", f"nameserver={V4}", seconds=4)
        self.refused(5)
        self.assertEqual(self.http.posts, [])

    def test_slow(self):
        self.known(lambda query, truth: [2.5, truth])
        self.resolves(f"nameserver={V4}", within=5)

    def test_loss(self):
        heard = []
        self.known(lambda query, truth: [truth] if heard.append(query) or len(heard) > 2 else [])
        self.resolves(f"nameserver={V4}", within=4)

    def test_first_one_silent(self):
        self.known()
        self.hole(HOLE4)
        self.resolves(f"nameserver={HOLE4} nameserver={V4}", within=4)

    def test_first_one_refused(self):
        # Nothing listens at this address.
        self.ip("address add 192.0.2.3/24 dev s0")
        self.known((lambda query, truth: [truth]), f"::ffff:{V4}")
        self.resolves(f"nameserver=192.0.2.3 nameserver={V4}")

    def test_first_one_failing(self):
        self.known(lambda query, truth: [truth[:3] + b"\x82" + truth[4:]], f"::ffff:{V4}")
        self.known((lambda query, truth: [truth]), V6)
        self.resolves(f"nameserver={V4} nameserver={V6}")

    def test_truncated(self):
        dns = self.known(lambda query, truth: [truncated(truth)])
        self.resolves(f"nameserver={V4}")
        self.assertEqual(sorted(dns.tcp_asked), [("peer.example", Dns.A), ("peer.example", Dns.AAAA)])

    def test_truncated_and_silent_then(self):
        dns = self.known(lambda query, truth: [truncated(truth)])
        dns.tcp_hangs = True
        self.start("peer.example", f"nameserver={V4}", seconds=4)
        self.refused(5)
        self.assertGreater(len(dns.tcp_asked), 0)

    def test_failing_for_a_while(self):
        heard = []
        self.known(lambda query, truth: [truth[:3] + b"\x82" + truth[4:]] if heard.append(query) or len(heard) <= 4 else [truth])
        self.resolves(f"nameserver={V4}", within=6)

    def test_failing_for_ever(self):
        self.known(lambda query, truth: [truth[:3] + b"\x82" + truth[4:]])
        self.start("peer.example", f"nameserver={V4}", seconds=3)
        self.assertIn("the nameservers answered with error 2", self.refused(4))

    def test_silent_for_longer_than_one_try(self):
        began = time.monotonic()
        self.known(lambda query, truth: [truth] if time.monotonic() - began > 9 else [])
        self.resolves(f"nameserver={V4}", within=25)

    def test_an_alias_of_itself(self):
        def say(query, truth):
            end = query.index(b"\0", 12) + 5
            return [query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + query[12:end] + Dns.record(5, b"\xc0\x0c")]

        self.known(say)
        self.start("peer.example", f"nameserver={V4}", seconds=3)
        self.refused(4)

    def test_many_addresses(self):
        Dns({"peer.example": [V4, *(f"192.0.2.{n}" for n in range(100, 200))]}, lambda query, truth: [truncated(truth)])
        self.resolves(f"nameserver={V4}")

    def test_no_answer_for_one_family(self):
        self.known(lambda query, truth: [truth] if Dns.question(query)[1] == Dns.A else [])
        self.resolves(f"nameserver={V4}")

    def test_failing_for_one_family_for_a_while(self):
        def say(query, truth):
            name, kind = Dns.question(query)
            if kind == Dns.AAAA:
                return [truth[:6] + bytes(6) + query[12:]]
            return [truth] if time.monotonic() - self.began > 3 else []

        self.known(say)
        self.resolves(f"nameserver={V4}", within=8)

    def test_half_answers(self):
        def failing(kind, code):
            return lambda query, truth: [
                truth[:3] + bytes([0x80 | code * (Dns.question(query)[1] == kind)]) + bytes([0, 1]) + bytes(6) + query[12:]]

        self.known(failing(Dns.A, 5), f"::ffff:{V4}")
        self.known((lambda query, truth: [truth]), V6)
        self.resolves(f"nameserver={V4} nameserver={V6}")

    def test_half_an_answer_is_not_that_there_is_none(self):
        self.known(lambda query, truth: [truth[:3] + bytes([0x80 | 2 * (Dns.question(query)[1] == Dns.A)]) + bytes([0, 1]) + bytes(6) + query[12:]])
        self.start("peer.example", f"nameserver={V4}", seconds=3)
        self.assertIn("the nameservers answered with error 2 (server failure)", self.refused(4))

    def test_nine_aliases(self):
        def say(query, truth):
            name, kind = Dns.question(query)
            end = query.index(b"\0", 12) + 5
            names = [b"\xc0\x0c", *(b"\x02n%d\0" % n for n in range(9))]
            records = b"".join(Dns.record(5, to, of) for of, to in zip(names, names[1:]))
            records += Dns.record(Dns.A, socket.inet_aton(V4), names[-1]) if kind == Dns.A else b""
            return [query[:2] + struct.pack("!HHHHH", 0x8180, 1, 9 + (kind == Dns.A), 0, 0) + query[12:end] + records]

        self.known(say)
        self.resolves(f"nameserver={V4}")

    def test_an_alias_without_its_address(self):
        def say(query, truth):
            if Dns.question(query)[0] == "real.example":
                return [truth]
            end = query.index(b"\0", 12) + 5
            return [query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + query[12:end] + Dns.record(5, b"\x04real\xc0\x11")]

        Dns({"real.example": [V4]}, say)
        self.resolves(f"nameserver={V4}")

    def test_initramfs_tools_for_ipv6(self):
        self.known()
        self.write("/run/net6-c0.conf", f"DEVICE6=c0\nIPV6PROTO=dhcp6\nIPV6DNS0={V6}\nIPV6DOMAINSEARCH=example\nDNSDOMAIN=\n")
        self.start("peer")
        self.delivered(self.http, SOON)

    def test_link_local_nameserver_of_a_lease(self):
        self.ip("address add fe80::99/64 dev s0 nodad")
        self.there("address add fe80::2/64 dev c0 nodad")
        self.known()
        for text in ["nameserver fe80::99%c0\r\n", "nameserver fe80::99\n"]:
            shutil.rmtree(self.root + "/run", ignore_errors=True)
            self.http.posts.clear()
            self.write("/run/net-c0.conf", "garbage \0\n" * 9000 + text)
            self.resolves()

    def test_alias(self):
        def say(query, truth):
            # peer.example is real.example, whose address comes first.
            end = query.index(b"\0", 12) + 5
            records = Dns.record(Dns.A, socket.inet_aton(V4), b"\x04real\xc0\x11") + Dns.record(5, b"\x04real\xc0\x11")
            return [query[:2] + b"\x81\x80\0\1\0\2\0\0\0\0" + query[12:end] + records]

        self.known(say)
        self.resolves(f"nameserver={V4}")


if __name__ == "__main__":
    unittest.main()
