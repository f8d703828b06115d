# SPDX-License-Identifier: GPL-2.0-or-later
"""The private network of a run: an Ethernet made of datagram sockets.

Each guest holds one end of a socket pair. Two guests hold the two ends of the
same one; from three on, the other ends are a switch, a process of its own
that knows a guest by the last byte of its address.
"""

import ctypes
import os
import selectors
import signal
import socket
import threading

SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
CLONE_NEWNET = 0x40000000
BUFFER = 4 << 20
QUEUE = 512
FRAME = 65536


def socketpair():
    """A pair that takes QUEUE frames; by default it is ten, and a sender stalls
    whenever the receiver is off its processor.

    The limit is taken from the network namespace in which a socket is made: a
    thread enters one of its own for that, if it may.
    """
    result = []

    def make():
        if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0:
            try:
                with open("/proc/sys/net/unix/max_dgram_qlen", "w") as limit:
                    limit.write(str(QUEUE))
            except OSError:
                pass
        result.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return result[0]


def pair():
    ends = socketpair()
    for end in ends:
        for option, force in ((socket.SO_SNDBUF, SO_SNDBUFFORCE),
                              (socket.SO_RCVBUF, SO_RCVBUFFORCE)):
            try:
                end.setsockopt(socket.SOL_SOCKET, force, BUFFER)
            except PermissionError:
                end.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    return ends


def links(count):
    """One end per guest; None for a guest that is alone."""
    if count == 1:
        return [None]
    if count == 2:
        return list(pair())
    pairs = [pair() for _ in range(count)]
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for end, _ in pairs:
            end.close()
        switch([end for _, end in pairs])
        os._exit(0)
    for _, end in pairs:
        end.close()
    return [end for end, _ in pairs]


def switch(ports):
    """Forward frames until every guest is gone.

    A guest that does not keep up loses frames, as on a real switch.
    """
    with selectors.DefaultSelector() as selector:
        for port in ports:
            port.setblocking(False)
            selector.register(port, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                forward(key.fileobj, ports)


def forward(source, ports):
    for _ in range(64):
        try:
            frame = source.recv(FRAME)
        except OSError:
            return
        broadcast = frame[0] & 1 if frame else 0
        index = frame[5] - 1 if len(frame) > 5 else -1
        if broadcast:
            targets = [port for port in ports if port is not source]
        else:
            targets = ports[index:index + 1] if index >= 0 else []
        for target in targets:
            try:
                target.send(frame)
            except OSError:
                pass
