"""Boots a kernel and an image in QEMU, of Debian's package as it was unpacked, and collects what becomes of it."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from receiver import Server


def accelerator():
    """Emulation, unless the machine's processor does it: a /dev/kvm alone says nothing."""
    real = any(os.path.isdir(f"/sys/module/{name}") for name in ("kvm_intel", "kvm_amd"))
    return ("kvm", "host") if real and os.access("/dev/kvm", os.W_OK) else ("tcg", "qemu64")


class Machine:
    """A virtual machine that boots `image`, of the tree `root`. In `words`, the command line, SERVER is where the server is."""

    def __init__(self, root, image, words, memory=512, config=None, more=(), served=None):
        self.folder = tempfile.mkdtemp(prefix="rdreport-vm-")
        self.server = Server("127.0.0.1", files=served)
        self.events = []
        kernel = next(name for name in os.listdir(os.path.join(root, "boot")) if name.startswith("vmlinuz-"))
        libraries = [os.path.join(root, "usr/lib/x86_64-linux-gnu"), os.path.join(root, "usr/lib/x86_64-linux-gnu/systemd")]
        qemu = [os.path.join(root, "lib64/ld-linux-x86-64.so.2"), "--library-path", ":".join(libraries),
                os.path.join(root, "usr/bin/qemu-system-x86_64"), "-L", os.path.join(root, "usr/share/qemu"),
                "-L", os.path.join(root, "usr/share/seabios")]
        kind, processor = accelerator()
        line = " ".join(words).replace("SERVER", f"http://10.0.2.2:{self.server.server_port}")
        command = [*qemu, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel", kind,
                   "-cpu", processor, "-m", str(memory), "-no-reboot", "-kernel", os.path.join(root, "boot", kernel),
                   "-initrd", image, "-append", "console=ttyS0 net.ifnames=0 " + line,
                   "-serial", "file:" + self.path("serial"), "-qmp", f"unix:{self.path('qmp')},server=on,wait=off",
                   "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=", *more]
        if config:
            with open(self.path("config"), "w") as file:
                file.write(config.replace("SERVER", f"http://10.0.2.2:{self.server.server_port}"))
            command += ["-fw_cfg", "name=opt/com.coreos/config,file=" + self.path("config")]
        self.server.began = time.monotonic()
        environment = dict(os.environ, QEMU_MODULE_DIR=os.path.join(libraries[0], "qemu"))
        with open(self.path("errors"), "w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, env=environment)
        threading.Thread(target=self._read_events, daemon=True).start()

    def path(self, name):
        return os.path.join(self.folder, name)

    def console(self):
        with open(self.path("serial"), "rb") as file, open(self.path("errors")) as errors:
            return errors.read() + file.read().decode(errors="replace")

    def wait(self, is_done, timeout_s):
        """Waits until `is_done` of posts and events, or the machine's end; gives whether it was."""
        deadline = time.monotonic() + timeout_s
        with self.server.changed:
            while not is_done(self.server.posts, self.events):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    return is_done(self.server.posts, self.events)
                self.server.changed.wait(0.2)
        return True

    def close(self):
        self.process.kill()
        self.process.wait()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read_events(self):
        control = socket.socket(socket.AF_UNIX)
        while self.process.poll() is None:
            try:
                control.connect(self.path("qmp"))
                break
            except OSError:
                time.sleep(0.02)
        try:
            with control, control.makefile("rw") as lines:
                lines.readline()
                lines.write('{"execute":"qmp_capabilities"}\n')
                lines.flush()
                for line in lines:
                    event = json.loads(line).get("event")
                    if event:
                        with self.server.changed:
                            self.events.append(event)
                            self.server.changed.notify_all()
        except (OSError, ValueError):
            return
