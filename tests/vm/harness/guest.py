# SPDX-License-Identifier: GPL-2.0-or-later
"""What the two kinds of guest have in common.

A guest's standard output is a stream of its own, apart from the kernel's
console, so neither garbles the other. Its exit code is a file, written by the
guest's init after everything else: a guest that panics, hangs or is killed
has none.
"""

import ctypes
import os
import shlex
import signal
import subprocess

from .paths import BUILD, SOURCE, VM

PR_SET_PDEATHSIG = 1
INIT = VM / "guest" / "init"
LIBC = ctypes.CDLL(None)


class Failure(Exception):
    """The run could not be started; the text says what to do."""


class Guest:
    memory = 1280

    def __init__(self, run, index, command):
        self.run = run
        self.args = run.args
        self.index = index
        self.command = command
        self.kernel = run.args.kernel
        self.dir = run.dir / str(index)
        self.console = self.dir / "console.log"
        self.interactive = run.args.shell and index == 1
        self.process = None
        self.output = None
        self.partial = b""
        # KASAN has an eighth of it.
        if run.args.kernel in ("uml-debug", "smp"):
            self.memory = 2048
        if run.args.mem:
            self.memory = run.args.mem

    @property
    def mac(self):
        return f"52:54:00:77:00:{self.index:02x}"

    def environment(self):
        """What the command finds in its environment."""
        modules = BUILD / "kmod" / self.kernel
        path = [BUILD / "bin", VM / "guest" / "bin", "/usr/local/sbin",
                "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        result = {
            "PATH": ":".join(map(str, path)),
            "LD_LIBRARY_PATH": BUILD / "lib",
            "HOME": "/root",
            "TERM": os.environ.get("TERM", "linux"),
            "LC_ALL": "C.UTF-8",
            "DISTMIND_SOURCE": SOURCE,
            "DISTMIND_BUILD": BUILD,
            "DISTMIND_LINUX": BUILD / "linux",
            "DISTMIND_GUEST": self.kernel,
            "DISTMIND_HOST": self.index,
            "DISTMIND_HOSTS": len(self.run.guests),
            "DISTMIND_MODULE": modules / "distmind.ko",
            "DISTMIND_IMPORTER": (modules / "importer" /
                                  "distmind_test_importer.ko"),
            "DISTMIND_HOOK": modules / "hook" / "distmind_test_hook.ko",
            "DISTMIND_SHARED": "/run/dm/shared",
            "DISTMIND_RUN": f"/run/dm/{self.index}",
        }
        result.update(spec.split("=", 1) for spec in self.args.env)
        return result

    def parameters(self):
        """What init needs before it can read a file of the run.

        The kernel hands NAME=VALUE parameters that it does not know to init
        as environment.
        """
        several = len(self.run.guests) > 1
        result = {"VM_INDEX": self.index, "VM_RUN": self.run.dir}
        if several:
            result["VM_NET"] = f"10.77.0.{self.index}/24"
        if several or self.args.rxe:
            result["VM_RXE"] = 1
        if self.interactive:
            result["VM_SHELL"] = 1
        if self.args.systemd:
            result["VM_SYSTEMD"] = 1
        return [f"{name}={value}" for name, value in result.items()]

    def prepare(self):
        self.dir.mkdir()
        with open(self.dir / "environment", "w") as file:
            for name, value in self.environment().items():
                file.write(f"export {name}={shlex.quote(str(value))}\n")
        (self.dir / "command").write_text(self.command + "\n")

    def start(self, link):
        """Start it; link is its end of the network, or None."""
        self.output, output = os.pipe()
        os.set_blocking(self.output, False)
        fds = [output] + ([link.fileno()] if link is not None else [])
        argv = self.argv(output, link.fileno() if link is not None else None)
        (self.dir / "argv").write_text(shlex.join(map(str, argv)) + "\n")
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(
                list(map(str, argv)), pass_fds=fds, preexec_fn=self.in_child,
                stdin=None if self.interactive else subprocess.DEVNULL,
                stdout=None if self.interactive else console,
                stderr=None if self.interactive else subprocess.STDOUT)
        os.close(output)

    def in_child(self):
        """The guest does not survive the harness, however that ends."""
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if not self.interactive:
            os.setsid()

    def wait(self):
        return self.process.wait()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def report(self):
        """The exit code that the guest reported, None if it did not."""
        try:
            return int((self.dir / "rc").read_text())
        except (OSError, ValueError):
            return None
