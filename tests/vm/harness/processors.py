# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's processors: how many of them a test may use.

An emulated processor can go on with a translation of an instruction that
another one has patched: where trace events are switched on and off, it takes
the breakpoint of a patch that is complete, and the kernel dies of an int3 that
is not there. QEMU 7.2 does that within half a minute, with any trace event, and
never with one processor.
"""

import contextlib
from pathlib import Path


def switchable():
    """The switches of all processors but the one that cannot be taken."""
    return sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/online"))


@contextlib.contextmanager
def only(count):
    """Keep that many processors, of all if it is None, until the end."""
    idle = []
    if count is not None:
        idle = [switch for switch in switchable()
                if int(switch.parent.name[3:]) >= count]
    try:
        for switch in idle:
            switch.write_text("0")
        yield
    finally:
        for switch in idle:
            switch.write_text("1")
