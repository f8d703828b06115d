# SPDX-License-Identifier: GPL-2.0-or-later
"""KVM where it works, else TCG.

/dev/kvm may exist and still not run a stock kernel, so it is tried: a boot
whose initramfs prints one line. The outcome is kept in build/accel.
"""

import os
import subprocess

from . import initramfs
from .paths import BUILD

KVM = ["-accel", "kvm", "-cpu", "host"]
TCG = ["-accel", "tcg,thread=multi", "-cpu", "max"]
# Time is what was executed, and passes at once where nobody does anything.
COUNTED = ["-accel", "tcg,thread=single", "-cpu", "max",
           "-icount", "shift=0,sleep=off"]
PROBE_SECONDS = 4
PROBE_LINE = "distmind: kvm works"


def options(vmlinuz):
    cache = BUILD / "accel"
    kind = os.environ.get("DISTMIND_ACCEL")
    if not kind and cache.exists():
        kind = cache.read_text().strip()
    if not kind:
        kind = "kvm" if kvm_works(vmlinuz) else "tcg"
        cache.write_text(kind + "\n")
    return KVM if kind == "kvm" else TCG


def kvm_works(vmlinuz):
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    probe = BUILD / "kvm-probe.cpio"
    probe.write_bytes(initramfs.probe(PROBE_LINE))
    try:
        result = subprocess.run(
            ["qemu-system-x86_64", *KVM, "-m", "256", "-nodefaults",
             "-no-user-config", "-no-reboot", "-display", "none",
             "-serial", "stdio", "-kernel", str(vmlinuz),
             "-initrd", str(probe), "-append", "console=ttyS0 quiet panic=-1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return PROBE_LINE.encode() in result.stdout
