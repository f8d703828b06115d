# SPDX-License-Identifier: GPL-2.0-or-later
"""A run: some guests, started together, watched until they report or die.

The run's directory is shared with all its guests:

    1/ 2/ ...   one per guest: command, environment, rc, console and kernel log
    shared/     for the guests to meet in

It is kept until the next run of the same name. Nothing else survives a run:
whatever the guests leave behind on the host is a descendant of this process,
made its child by the kernel (PR_SET_CHILD_SUBREAPER), and killed.
"""

import ctypes
import fcntl
import os
import selectors
import shutil
import signal
import sys
import termios
import time
from pathlib import Path

from . import network
from .guest import Failure
from .paths import BUILD

PR_SET_CHILD_SUBREAPER = 36
CONSOLE_TAIL = 30


def interrupted(number, _frame):
    raise SystemExit(128 + number)


class Run:
    def __init__(self, args, kind):
        self.args = args
        self.dir, self.lock = self.make_directory(args.name or
                                                  f"vm-{args.kernel}")
        self.guests = [kind(self, index, command)
                       for index, command in sorted(args.commands.items())]

    @staticmethod
    def make_directory(name):
        """An empty directory of that name, or of the next one not in use."""
        parent = BUILD / "log"
        parent.mkdir(parents=True, exist_ok=True)
        for suffix in [""] + [f".{i}" for i in range(2, 100)]:
            lock = open(parent / f".{name}{suffix}.lock", "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            path = parent / (name + suffix)
            shutil.rmtree(path, ignore_errors=True)
            (path / "shared").mkdir(parents=True)
            return path, lock
        raise Failure(f"{parent}/{name}: too many runs of that name")

    def execute(self):
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, interrupted)
        terminal = None
        if self.args.shell and sys.stdin.isatty():
            terminal = termios.tcgetattr(sys.stdin)
        try:
            return self.watch()
        finally:
            for guest in self.guests:
                guest.kill()
            self.kill_orphans()
            if terminal:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)

    def watch(self):
        links = network.links(len(self.guests))
        for guest, link in zip(self.guests, links):
            guest.prepare()
            guest.start(link)
            if link is not None:
                link.close()

        deadline = time.monotonic() + (self.args.timeout or float("inf"))
        with selectors.DefaultSelector() as selector:
            for guest in self.guests:
                selector.register(guest.output, selectors.EVENT_READ, guest)
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    return self.timed_out()
                selector.select(min(left, 1))
                for key in list(selector.get_map().values()):
                    guest = key.data
                    # In this order: what it wrote before its end counts.
                    ended = guest.process.poll() is not None
                    if not self.relay(guest) or ended:
                        selector.unregister(guest.output)
                        guest.wait()
                        if self.args.shell and guest.index == 1:
                            return guest.report() or 0
        return self.verdict()

    def relay(self, guest):
        """Pass on the guest's output, whole lines; False at its end."""
        try:
            data = os.read(guest.output, 1 << 20)
        except BlockingIOError:
            return True
        lines = (guest.partial + data).split(b"\n")
        guest.partial = lines.pop()
        if not data and guest.partial:
            lines.append(guest.partial)
        prefix = b"" if len(self.guests) == 1 else f"{guest.index}: ".encode()
        for line in lines:
            sys.stdout.buffer.write(prefix + line + b"\n")
        sys.stdout.buffer.flush()
        return bool(data)

    def timed_out(self):
        for guest in self.guests:
            if guest.report() is None:
                self.complain(guest, "not finished after "
                              f"{self.args.timeout:g} s")
        return 124

    def verdict(self):
        """The exit code; nothing but a guest's own report counts as one."""
        result = 0
        for guest in self.guests:
            code = guest.report()
            if code is None:
                self.complain(guest, "ended without a report, "
                              f"exit status {guest.wait()}")
                code = 125
            result = result or code
        return result

    def complain(self, guest, what):
        print(f"vm: guest {guest.index} ({self.args.kernel}): {what}; its "
              f"console, {guest.console}, ends with:", file=sys.stderr)
        try:
            text = guest.console.read_text(errors="replace")
        except OSError as error:
            text = str(error)
        for line in text.splitlines()[-CONSOLE_TAIL:]:
            print("    " + line, file=sys.stderr)

    @staticmethod
    def kill_orphans():
        """UML's user processes outlive a kernel that was killed."""
        for _ in range(100):
            children = Path(f"/proc/self/task/{os.getpid()}/children")
            pids = [int(pid) for pid in children.read_text().split()]
            if not pids:
                return
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            for pid in pids:
                os.waitpid(pid, 0)
