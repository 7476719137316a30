"""Boots an unpacked image without a virtual machine: its own init as process 1 in namespaces (mount, pid, uts, ipc, cgroup, network, time) of
its own, with a server at 10.0.2.2 and fd00::2, port 8000. Reads what to boot as JSON from standard input, writes what became of it as JSON to
standard output. Run in fresh network and mount namespaces (`unshare -n -m`), so that nothing of the machine's own is touched, and all of it ends
with the processes."""
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from receiver import Server

# Mounts what the kernel or QEMU would have there, and becomes init. A container has no kernel command line: systemd takes process 1's arguments
# for it, all others read the file.
INSIDE = r'''
set -e
read -r go <&"$GO"
mount --make-rprivate /
mount -t tmpfs tmpfs "$TOP"; mkdir "$TOP/upper" "$TOP/work" "$TOP/root"
mount -t overlay -o "lowerdir=$FILES:$TREE,upperdir=$TOP/upper,workdir=$TOP/work" overlay "$TOP/root"
cd "$TOP/root"; mkdir -p proc sys run dev
mount -t proc proc proc; mount --bind "$CMDLINE" proc/cmdline
mount -t sysfs -o ro sysfs sys; mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run; mount -t tmpfs -o mode=755 tmpfs dev; mkdir dev/pts dev/shm
for name in null zero full random urandom tty; do : > dev/$name; mount --bind /dev/$name dev/$name; done
: > dev/kmsg; mount --bind /dev/null dev/kmsg; ln -s /proc/self/fd dev/fd
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts; ln -s pts/ptmx dev/ptmx
: > dev/console; mount --bind "$CONSOLE" dev/console
mkdir -p oldroot; pivot_root . oldroot; cd /; umount -l /oldroot
arguments=$ARGUMENTS; for name in $(compgen -e); do unset "$name"; done
export container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin; exec /init $arguments
'''


def answer_names(address):
    """A nameserver that knows one address for every name, and no other kind of record (RFC 1035)."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))

    def serve():
        while True:
            query, peer = server.recvfrom(4096)
            end = query.index(b"\0", 12) + 5
            is_a = query[end - 4:end] == b"\0\1\0\1"
            record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(address) if is_a else b""
            server.sendto(query[:2] + b"\x81\x80\0\1" + bytes([0, is_a]) + bytes(4) + query[12:end] + record, peer)

    threading.Thread(target=serve, daemon=True).start()


def sh(command):
    subprocess.run(command, shell=True, check=True)


def main():
    want = json.load(sys.stdin)
    top = tempfile.mkdtemp(prefix="rdreport-boot-")
    try:
        print(json.dumps(boot(want, top)))
    finally:
        # The mounts are this namespace's, and go with it.
        for name in ("cgroup", "top"):
            subprocess.run(["umount", "-l", os.path.join(top, name)], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(top, ignore_errors=True)


def boot(want, top):
    here = {name: os.path.join(top, name) for name in ("cgroup", "files", "cmdline", "console", "top")}
    for name in ("cgroup", "files", "top"):
        os.mkdir(here[name])
    for path, content in want["files"].items():
        whole = os.path.join(here["files"], path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        if content.startswith("-> "):
            os.symlink(content[3:], whole)
            continue
        with open(whole, "w") as file:
            file.write(content)
        os.chmod(whole, 0o755 if content.startswith("#!") else 0o600 if "PRIVATE KEY" in content else 0o644)
    with open(here["cmdline"], "w") as file:
        file.write(" ".join(want["cmdline"]) + "\n")
    sh("ip link set lo up; ip link add host0 type veth peer name eth0; ip link set host0 up;"
       "ip addr add 10.0.2.2/24 dev host0; ip addr add fd00::2/64 dev host0 nodad")
    server = Server("::", 8000, want.get("served"), want.get("tls"))
    answer_names("10.0.2.2")
    # Whatever the machine has mounted where: the second hierarchy can be mounted anywhere.
    sh(f"mount -t cgroup2 cgroup2 {here['cgroup']}")
    group = os.path.join(here["cgroup"], f"rdreport-boot-{os.getpid()}")
    os.mkdir(group)
    # To anything but a terminal, systemd writes nothing.
    master, slave = pty.openpty()
    console = bytearray()

    def read_console():
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                return
            with server.changed:
                console.extend(part)
                server.changed.notify_all()

    threading.Thread(target=read_console, daemon=True).start()
    go_read, go_write = os.pipe()
    uptime = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    environment = dict(os.environ, TREE=want["tree"], FILES=here["files"], TOP=here["top"], CMDLINE=here["cmdline"],
                       CONSOLE=os.ttyname(slave), ARGUMENTS=" ".join(want["cmdline"]), GO=str(go_read))
    server.began = time.monotonic()
    init = subprocess.Popen(
        ["unshare", "-m", "-u", "-i", "-C", "-n", "-p", "-f", "-T", "--boottime", str(-uptime), "--monotonic",
         str(-int(time.monotonic())), "--kill-child=SIGKILL", "bash", "-c", INSIDE],
        stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment, pass_fds=[go_read],
        preexec_fn=lambda: open(os.path.join(group, "cgroup.procs"), "w").write("0"))
    children = f"/proc/{init.pid}/task/{init.pid}/children"
    deadline = time.monotonic() + 10
    while not (found := open(children).read().split()):
        if time.monotonic() > deadline or init.poll() is not None:
            raise SystemExit("unshare: " + console.decode(errors="replace"))
        time.sleep(0.005)
    inner = found[0]
    inside = f"nsenter -n -t {inner} "
    sh(f"ip link set eth0 netns {inner}; {inside} ip link set lo up")

    def addresses():
        if want["net"] == "ipv6":
            sh(f"{inside} ip addr add fd00::15/64 dev eth0 nodad; {inside} ip link set eth0 up;"
               f"{inside} ip route add default via fd00::2")
        else:
            sh(f"{inside} ip addr add 10.0.2.15/24 dev eth0; {inside} ip link set eth0 up;"
               f"{inside} ip route add default via 10.0.2.2")

    if want["net"] in ("up", "ipv6"):
        addresses()
    elif want["net"] == "late":
        timer = threading.Timer(want["late_s"], addresses)
        timer.daemon = True
        timer.start()
    os.write(go_write, b"go\n")

    def is_over():
        return (len(server.posts) >= want["posts"] and want["console"].encode() in console
                and (not want["ends"] or init.poll() is not None))

    deadline = time.monotonic() + want["timeout_s"]
    with server.changed:
        while not is_over() and time.monotonic() < deadline and (init.poll() is None):
            server.changed.wait(0.1)
    # What is done from the server's side.
    outside = want.get("outside") and subprocess.run(
        want["outside"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=max(1, deadline - time.monotonic()), check=False).stdout
    # Whatever comes too often comes now.
    time.sleep(want.get("linger_s", 0))
    ended = init.poll() is not None
    took = round(time.monotonic() - server.began, 3)
    with open(os.path.join(group, "cpu.stat")) as stat:
        cpu_s = int(stat.readline().split()[1]) / 1e6
    init.send_signal(signal.SIGKILL)
    init.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
            break
        except OSError:
            time.sleep(0.02)
    with server.changed:
        return {"posts": server.posts, "console": console.decode(errors="replace"), "ended": ended, "took_s": took,
                "cpu_s": cpu_s, "outside": outside}


if __name__ == "__main__":
    main()
