# SPDX-License-Identifier: GPL-2.0-or-later
"""Results inside a guest: printed, and kept for the host to count.

The file has lines like the host's own, "ok|not ok|skip NAME # REASON", and is
closed after each, so that a panic takes none with it.
"""

import os
from fnmatch import fnmatchcase


class Results:
    def __init__(self, guest, group, path, pattern):
        self.guest = guest
        self.prefix = f"{group}." if group else ""
        self.path = path
        self.pattern = pattern
        self.failed = 0

    def wants(self, name):
        """Whether the pattern names that test, or all of its group."""
        if not self.pattern:
            return True
        full = f"{self.guest}.{name}"
        return any(fnmatchcase(text, pattern) for text in (name, full)
                   for pattern in (self.pattern, self.pattern + ".*"))

    def wants_program(self, name):
        """Whether the pattern may name a test of that program."""
        if self.wants(name) or self.pattern.startswith("*"):
            return True
        parts = self.pattern.removeprefix(self.guest + ".").split(".")
        return any(fnmatchcase(name, ".".join(parts[:i]))
                   for i in range(1, len(parts)))

    def add(self, status, name, reason=""):
        name = self.prefix + name
        if status == "not ok":
            self.failed += 1
        elif not self.wants(name):
            return
        reason = f" # {reason}" if reason else ""
        print(f"{status} {self.guest} {name}{reason}", flush=True)
        with open(self.path, "a") as file:
            file.write(f"{status} {self.guest}.{name}{reason}\n")
            file.flush()
            os.fsync(file.fileno())
