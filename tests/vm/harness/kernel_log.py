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

# User-Mode Linux walks the mappings of another process without a lock when it
# flushes what was unmapped there (flush_tlb_mm in arch/um/kernel/tlb.c), which
# happens when a buffer goes that an engine has mapped. Not ours; the complaint
# is this sequence of lines and no other.
UML_FLUSH = [
    re.compile(r"^WARNING: suspicious RCU usage$"),
    re.compile(r"^lib/maple_tree\.c:\d+ suspicious rcu_dereference_check\(\) usage!$"),
    re.compile(r"&mapping->i_mmap_rwsem.* at: unmap_mapping_range\+"),
]


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


def is_uml_flush(lines):
    """Whether these lines begin with UML's own complaint, and it is whole."""
    if not UML_FLUSH[0].search(lines[0]):
        return False
    return all(any(part.search(line) for line in lines[:20]) for part in UML_FLUSH)


def splats(lines):
    return [line for i, line in enumerate(lines)
            if SPLAT.search(line) and not is_uml_flush(lines[i:])]
