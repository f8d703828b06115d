# SPDX-License-Identifier: GPL-2.0-or-later
"""The small initramfs of a stock kernel: busybox, and the modules without
which the host's files cannot be reached. Everything else is there to be
loaded afterwards.
"""

import hashlib
import lzma
from pathlib import Path

from .paths import BUILD, VM

BUSYBOX = Path("/bin/busybox")
INIT = VM / "guest" / "initramfs-init"
MODULES = ["virtio_pci", "virtio_console", "virtio_rng", "9pnet_virtio", "9p",
           "overlay"]


class Archive:
    """A cpio archive in the "newc" format that the kernel unpacks."""

    def __init__(self):
        self.data = bytearray()
        self.count = 0

    def add(self, name, mode, data=b""):
        self.count += 1
        name = name.encode() + b"\0"
        fields = [self.count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0,
                  len(name), 0]
        self.data += b"070701" + b"".join(b"%08x" % f for f in fields) + name
        self.pad()
        self.data += data
        self.pad()

    def pad(self):
        self.data += bytes(-len(self.data) % 4)

    def directory(self, name):
        self.add(name, 0o040755)

    def file(self, name, data):
        self.add(name, 0o100755, data)

    def symlink(self, name, target):
        self.add(name, 0o120777, target.encode())

    def finish(self):
        self.add("TRAILER!!!", 0)
        return bytes(self.data)


def base():
    archive = Archive()
    for name in ("bin", "dev", "proc", "host", "modules"):
        archive.directory(name)
    archive.file("bin/busybox", BUSYBOX.read_bytes())
    archive.symlink("bin/sh", "busybox")
    return archive


def probe(line):
    archive = base()
    archive.file("init", f"#!/bin/sh\necho {line}\n"
                         "busybox poweroff -f\n".encode())
    return archive.finish()


def load_order(tree):
    """Files of MODULES and what they need, each after its dependencies."""
    dependencies = {}
    for line in (tree / "modules.dep").read_text().splitlines():
        file, _, needs = line.partition(":")
        dependencies[file] = needs.split()
    names = {Path(file).name.partition(".")[0].replace("-", "_"): file
             for file in dependencies}
    order = []

    def visit(file):
        if file not in order:
            for need in dependencies[file]:
                visit(need)
            order.append(file)

    for name in MODULES:
        # What is not a module is built in.
        if name in names:
            visit(names[name])
    return order


def path(kernel, release):
    """The initramfs for that kernel, made anew if its parts have changed."""
    result = BUILD / "guests" / kernel / "initramfs.cpio"
    stamp = result.with_suffix(".stamp")
    key = hashlib.sha256(repr([
        release, MODULES, INIT.read_bytes(),
        BUSYBOX.stat().st_mtime_ns, Path(__file__).read_bytes(),
    ]).encode()).hexdigest()
    if result.exists() and stamp.exists() and stamp.read_text() == key:
        return result

    tree = BUILD / "guests" / kernel / "lib" / "modules" / release
    archive = base()
    archive.file("init", INIT.read_bytes())
    for number, file in enumerate(load_order(tree)):
        data = (tree / file).read_bytes()
        if file.endswith(".xz"):
            data = lzma.decompress(data)
        archive.file(f"modules/{number:02}.ko", data)
    temporary = result.with_suffix(".new")
    temporary.write_bytes(archive.finish())
    temporary.rename(result)
    stamp.write_text(key)
    return result
