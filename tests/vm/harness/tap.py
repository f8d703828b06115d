# SPDX-License-Identifier: GPL-2.0-or-later
"""The Test Anything Protocol, as much of it as kselftests speak."""

import re

RESULT = re.compile(r"(?P<not>not )?ok\b\s*(?P<number>\d+)?[\s-]*"
                    r"(?P<name>[^#]*?)\s*"
                    r"(?:#\s*(?P<directive>SKIP|XFAIL)\b\s*(?P<reason>.*))?$",
                    re.IGNORECASE)
PLAN = re.compile(r"1\.\.(?P<count>\d+)\s*(?:#\s*SKIP\b\s*(?P<reason>.*))?$",
                  re.IGNORECASE)


class Tap:
    """A parser of one program's output, a line at a time."""

    def __init__(self):
        self.plan = None
        self.seen = 0
        self.skip_all = None
        self.comments = []

    def feed(self, line):
        """(status, name, reason, comments) if the line is a result."""
        plan = PLAN.match(line)
        if plan:
            self.plan = int(plan["count"])
            if plan["reason"] is not None or self.plan == 0:
                self.skip_all = plan["reason"] or "no test to run"
            return None
        result = RESULT.match(line)
        if not result:
            self.comments.append(line)
            return None
        self.seen += 1
        comments, self.comments = self.comments, []
        status = "ok"
        if result["directive"]:
            status = "skip"
        elif result["not"]:
            status = "not ok"
        return (status, result["name"] or result["number"],
                result["reason"] or "", comments)

    def complaint(self):
        """What is wrong with the output as a whole, or None."""
        if self.skip_all is not None and self.seen == 0:
            return None
        if self.plan is None:
            return "it printed no plan"
        if self.plan != self.seen:
            return f"{self.seen} of {self.plan} planned tests reported"
        return None
