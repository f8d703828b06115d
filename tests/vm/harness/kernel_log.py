# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's log as a test sees it: what was said between two markers."""

import os
import re

# What a healthy kernel never says.
SPLAT = re.compile("|".join([
    r"\bBUG\b", r"\bWARNING:", r"\bOops\b", r"\bKASAN\b", r"\bKFENCE\b",
    r"\bKCSAN\b", r"\bUBSAN\b", r"\bODEBUG\b", r"\bDEBUG_LOCKS_WARN_ON\b",
    r"possible circular locking", r"possible recursive locking",
    r"inconsistent lock state", r"trying to register non-static key",
    r"sleeping function called", r"scheduling while atomic",
    r"held lock freed", r"still held!", r"bad unlock balance",
    r"rcu.*(detected|self-detected).*stall", r"soft lockup", r"hard LOCKUP",
    r"hung task", r"blocked for more than", r"general protection fault",
    r"unable to handle", r"Kernel panic", r"Bad page", r"bad page",
    r"refcount_t:", r"list_(add|del) corruption", r"Objects remaining",
    r"page allocation failure", r"kmemleak: \d+ new suspected",
    r"vmalloc error", r"nobody cared",
]))


class KernelLog:
    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDWR | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def mark(self, text):
        """Say something in the log; the <5> keeps it off the console."""
        os.write(self.fd, f"<5>distmind-test: {text}\n".encode())

    def read(self):
        """The lines since the last read."""
        lines = []
        while True:
            try:
                record = os.read(self.fd, 8192)
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                # Overwritten before it was read; go on with what is left.
                continue
            text = record.decode(errors="replace").partition(";")[2]
            lines.append(text.partition("\n")[0])


def splats(lines):
    return [line for line in lines if SPLAT.search(line)]
