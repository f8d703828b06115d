#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The kernel's own YNL client understands uapi/distmind.yaml. All in one
# process: reading the specification is what takes its time.
. tests/kselftest/common/tap.sh

plan 3
start_engine ynl0 16M || exit
/usr/bin/python3 - "$DISTMIND_BUILD/linux" >"$work/answers" 2>&1 <<'PYTHON'
import sys

linux = sys.argv[1]
sys.path.append(f"{linux}/tools/net/ynl")
from lib import NlError, YnlFamily

ynl = YnlFamily("uapi/distmind.yaml", f"{linux}/Documentation/netlink/genetlink-legacy.yaml")

gpus = ynl.dump("gpu-get", {})
if any(gpu["name"] == "ynl0" and gpu["state"] == "ready" for gpu in gpus):
    print("dumped")

vgpu = ynl.do("vgpu-new", {"name": "by-ynl", "memory": 1048576, "share": 100})
seen = ynl.do("vgpu-get", {"id": vgpu["id"]})
ynl.do("vgpu-del", {"id": vgpu["id"]})
if seen["name"] == "by-ynl" and seen["lease"] == "admin":
    print("created")

try:
    ynl.do("gpu-get", {"id": 4000000})
except NlError as error:
    if "no such gpu" in str(error):
        print("refused")
PYTHON

answered() {
	cat "$work/answers"
	grep -qx "$1" "$work/answers"
}

check ynl.dumps_gpus answered dumped
check ynl.creates_and_deletes_vgpus answered created
check ynl.shows_refusals_in_words answered refused
finish
