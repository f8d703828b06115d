#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The kernel's own YNL client understands uapi/distmind.yaml.
. tests/kselftest/common/tap.sh

linux=$DISTMIND_BUILD/linux

ynl() {
	/usr/bin/python3 "$linux/tools/net/ynl/cli.py" --spec uapi/distmind.yaml \
		--schema "$linux/Documentation/netlink/genetlink-legacy.yaml" --output-json "$@"
}

dumps_gpus() {
	ynl --dump gpu-get >"$work/out" && grep -q '"name": "ynl0"' "$work/out" &&
		grep -q '"state": "ready"' "$work/out"
}

creates_and_deletes_vgpus() {
	ynl --do vgpu-new --json '{"name": "by-ynl", "memory": 1048576, "share": 100}' >"$work/out" &&
		grep -q '"lease": "admin"' "$work/out" || return
	id=$(sed 's/.*"id": \([0-9]*\).*/\1/' "$work/out")
	ynl --do vgpu-get --json "{\"id\": $id}" | grep -q by-ynl &&
		ynl --do vgpu-del --json "{\"id\": $id}"
}

shows_refusals_in_words() {
	! ynl --do gpu-get --json '{"id": 4000000}' >"$work/out" 2>&1 &&
		grep -q "no such gpu" "$work/out"
}

plan 3
start_engine ynl0 16M
check ynl.dumps_gpus dumps_gpus
check ynl.creates_and_deletes_vgpus creates_and_deletes_vgpus
check ynl.shows_refusals_in_words shows_refusals_in_words
finish
