# SPDX-License-Identifier: GPL-2.0-or-later
"""A stock Debian kernel in QEMU.

The kernel is the unpacked image package below build/guests. The host's root
comes by 9p, read-only and cached; the run's directory by a second 9p,
writable and not cached, since several guests meet there.
"""

from . import accel, initramfs
from .guest import INIT, Failure, Guest
from .paths import BUILD

CMDLINE = ("console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr "
           "tsc=reliable no_timer_check random.trust_cpu=on "
           "log_buf_len=4M printk.devkmsg=on net.ifnames=0").split()


def image(kernel):
    """The guest kernel's file and its release."""
    found = sorted((BUILD / "guests" / kernel / "boot").glob("vmlinuz-*"))
    if not found:
        raise Failure(f"no {kernel} kernel below {BUILD}/guests; "
                      "run: make setup")
    return found[-1], found[-1].name.partition("-")[2]


class QemuGuest(Guest):
    def argv(self, output, link):
        vmlinuz, release = image(self.kernel)
        modules = BUILD / "guests" / self.kernel / "lib" / "modules"
        cmdline = CMDLINE + [f"VM_INIT={INIT}", f"VM_MODULES={modules}"]
        counted = self.args.counted
        options = accel.COUNTED if counted else accel.options(vmlinuz)
        argv = ["qemu-system-x86_64", *options, "-machine", "pc",
                "-smp", 1 if counted else self.args.cpus, "-m", self.memory,
                "-nodefaults", "-no-user-config", "-no-reboot",
                "-display", "none",
                "-kernel", vmlinuz,
                "-initrd", initramfs.path(self.kernel, release),
                "-append", " ".join(cmdline + self.parameters()),
                "-fsdev", "local,id=host,path=/,security_model=none,"
                          "readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
                "-fsdev", f"local,id=run,path={self.run.dir},"
                          "security_model=none",
                "-device", "virtio-9p-pci,fsdev=run,mount_tag=run",
                "-device", "virtio-rng-pci",
                "-device", "virtio-serial-pci",
                "-chardev", f"file,id=output,path=/dev/fd/{output}",
                "-device", "virtserialport,chardev=output,name=output"]
        if link is not None:
            argv += ["-netdev",
                     f"dgram,id=net,local.type=fd,local.str={link}",
                     "-device",
                     f"virtio-net-pci,netdev=net,mac={self.mac},"
                     "host_mtu=9000,romfile="]
        if self.interactive:
            argv += ["-chardev", "stdio,id=console,mux=on,signal=off",
                     "-serial", "chardev:console",
                     "-mon", "chardev=console"]
        else:
            argv += ["-serial", f"file:{self.console}"]
        return argv
