#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# All benchmarks of a guest, in the guest. Prints a line of JSON each.
set -e
insmod "$DISTMIND_MODULE"
"$DISTMIND_BUILD/bench/buffer"
"$DISTMIND_BUILD/bench/rdma"
"$DISTMIND_BUILD/bench/slo"
"$DISTMIND_BUILD/bench/srpt"
"$DISTMIND_BUILD/bench/request"

# These are about the real daemon and the real engine.
ready=$(mktemp -d)/ready
distmind-engine-cpu --name cpu0 --memory 64M >"$ready.engine" &
engine=$!
distmindd --foreground 2>"$ready.daemon" &
daemon=$!
trap 'kill $engine $daemon' EXIT
for _ in $(seq 100); do
	if distmindctl run --memory 1M --share 1 -- true 2>"$ready.error"; then
		"$DISTMIND_BUILD/bench/acquire"
		"$DISTMIND_BUILD/bench/job"
		exit
	fi
	sleep 0.1
done
cat "$ready.error" "$ready.daemon" >&2
exit 1
