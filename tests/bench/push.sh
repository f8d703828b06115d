#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What it costs to store a model, and to start with what is stored, on one host:
#
#   push.rate     the first push of a model, against sha256sum of the same file
#   push.spool    the same on a host with a spool, on a tmpfs
#   start.ready   a daemon that has the model in its spool, from its start until it is ready,
#                 against a second
#
# In turns, so that whatever else the machine does hits both. Prints a line of JSON each.
set -e
. tests/kselftest/common/tap.sh

megabytes=256
rounds=3

# The logs go with the rest, so that a failure shows them first.
end() {
	[ $? -eq 0 ] || tail -n 20 "$work/daemon" >&2 || true
	clean_up
}
trap end EXIT

now() { date +%s%N; }

configure() { # LINE, of [donor]
	rm -rf "$work/spool" "$work/catalog"
	cat >"$work/conf" <<-CONF
		[host]
		name = host1
		address = 127.0.0.1
		[donor]
		memory = $((megabytes + 64))M
		rdma-device = rxe0
		$1
		[catalog]
		path = $work/catalog/catalog
		[models]
		socket = $work/socket
	CONF
	export DISTMIND_SOCKET=$work/socket
}

start_host() { # sets $daemon
	rm -f "$work/socket"
	distmindd --foreground --config "$work/conf" >>"$work/daemon" 2>&1 &
	daemon=$!
}

pool_answers() {
	distmindctl model list
}

joined() {
	pool_keeps "len(hosts) == 1"
}

# The nanoseconds that a command takes; what it said goes to stderr if it fails.
nanoseconds() { # COMMAND...
	local begin

	begin=$(now)
	"$@" >"$work/said" 2>&1 || { cat "$work/said" >&2 && return 1; }
	echo $(($(now) - begin))
}

measure_push() { # NAME LINE
	local sums=() pushes=() round

	for ((round = 0; round < rounds; round++)); do
		configure "$2"
		start_host
		until_true joined
		sums+=("$(nanoseconds sha256sum "$work/model.st")")
		pushes+=("$(nanoseconds distmindctl model push model "$work/model.st")")
		stop TERM $daemon
	done
	report "$1" sha256sum "${pushes[*]}" "${sums[*]}"
}

# With the spool of the last push. A daemon that goes into the background does so when it is
# ready, and answers from then on.
measure_start() {
	local times=() round

	for ((round = 0; round < rounds; round++)); do
		rm -f "$work/socket"
		times+=("$(nanoseconds distmindd --config "$work/conf")")
		pool_answers >"$work/said"
		until_true pool_keeps "models['model']['state'] == 'available'"
		kill "$(pidof distmindd)"
		while pidof distmindd >"$work/said"; do
			sleep 0.05
		done
	done
	report start.ready "a second" "${times[*]}" 1000000000
}

report() { # NAME BASELINE OURS THEIRS
	/usr/bin/python3 -c '
import json, os, statistics, sys
name, baseline, ours, theirs = sys.argv[1:]
ours, theirs = ([int(n) / 1e9 for n in numbers.split()] for numbers in (ours, theirs))
print(f"{name}: {ours} against {theirs}", file=sys.stderr)
ours, theirs = statistics.median(ours), statistics.median(theirs)
print(json.dumps({"name": name, "kernel": os.environ["DISTMIND_GUEST"], "value": round(ours, 4),
                  "unit": "s", "baseline": baseline, "baseline_value": round(theirs, 4),
                  "ratio": round(theirs / ours, 5)}))' "$@"
}

insmod "$DISTMIND_MODULE"
/usr/bin/python3 - "$work/model.st" $megabytes <<'PYTHON'
import json, os, struct, sys
path, count = sys.argv[1], int(sys.argv[2])
header = json.dumps({f"layers.{i}.weight": {
    "dtype": "F32", "shape": [512, 512], "data_offsets": [i << 20, i + 1 << 20]}
    for i in range(count)}).encode()
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    for _ in range(count):
        file.write(os.urandom(1 << 20))
PYTHON
measure_push push.rate ""
measure_push push.spool "spool = $work/spool"
measure_start
