#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Tracepoints tell the story of a pool.
# processors: 1 (see tests/vm/harness/processors.py)
. tests/kselftest/common/tap.sh

events=/sys/kernel/tracing/events/distmind

tells_the_story() {
	: >/sys/kernel/tracing/trace
	echo 1 >$events/enable || return
	start_engine traced 16M || return
	distmindctl vgpu create --memory 4M --share 10 --name seen --gpu traced >"$work/node" ||
		return
	distmindctl vgpu delete "$(sed 's/.*vgpu//' "$work/node")" || return
	stop KILL "$engine"
	until_true pool_has "any(g['name'] == 'traced' and g['state'] == 'lost' for g in gpus)" || return
	echo 0 >$events/enable
	cat /sys/kernel/tracing/trace
	for event in distmind_gpu_register distmind_vgpu_bind distmind_vgpu_create \
		distmind_vgpu_kill distmind_gpu_lose; do
		grep -q "$event: " /sys/kernel/tracing/trace || return
	done
	grep -q 'distmind_gpu_register:.*name=traced memory=16777216' /sys/kernel/tracing/trace
}

plan 1
if [ -d $events ]; then
	check trace.tells_the_story tells_the_story
else
	echo "ok 1 trace.tells_the_story # SKIP the kernel has no $events"
fi
finish
