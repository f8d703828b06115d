# SPDX-License-Identifier: GPL-2.0-or-later
"""A User-Mode Linux kernel, built from linux-source and cached.

It is pinned to one CPU: unpinned, its system calls cost six times more.
"""

import os

from .guest import INIT, Failure, Guest
from .paths import BUILD


class UmlGuest(Guest):
    def argv(self, output, link):
        linux = BUILD / "guests" / self.kernel / "linux"
        if not linux.exists():
            raise Failure(f"no {self.kernel} kernel below {BUILD}/guests; "
                          f"run: make {self.kernel}-kernel")
        console = "fd:0,fd:1" if self.interactive else "null,fd:1"
        argv = [linux, f"mem={self.memory}M", "root=/dev/root",
                "rootfstype=hostfs", "rootflags=/", "ro", f"init={INIT}",
                "con=null", f"con0={console}", f"con1=null,fd:{output}",
                "console=tty0", "loglevel=5", "panic=-1",
                "log_buf_len=4M", "printk.devkmsg=on",
                f"uml_dir={self.dir}/", "umid=uml"]
        if link is not None:
            argv.append(f"vec0:transport=fd,fd={link},depth=128,"
                        f"mac={self.mac},mtu=9000")
        return argv + self.parameters()

    def in_child(self):
        super().in_child()
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[self.index % len(cpus)]})
