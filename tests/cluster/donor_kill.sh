#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guests: 3
# time-limit: 1500
#
# Donors that are killed in the middle of loads, a hundred times: host 1 has the gpu and
# the catalog, hosts 2 and 3 have a model each has all of, and one that is spread.
. tests/kselftest/common/tap.sh
. tests/cluster/common/hosts.sh

make_model=$DISTMIND_SOURCE/tests/model/make-model
infer=$DISTMIND_BUILD/examples/infer
kills=100
alone=10 # of loads without a replica
deadline=5000

[ "$DISTMIND_HOST" -eq 1 ] || be_donor 96M

everything_is_there() {
	until_true pool_keeps "sorted(hosts) == ['host1', 'host2', 'host3'] and
		all(m['state'] == 'available' for m in models.values())"
}

models_are_pushed() {
	start_host && until_true pool_keeps "sorted(hosts) == ['host1', 'host2', 'host3']" &&
		distmindctl model push --replicas 2 twice "$work/model.st" &&
		distmindctl model push once "$work/other.st" && everything_is_there &&
		"$infer" --file "$work/model.st" --json >"$work/file"
}

# A load of a model, during which a donor is told to die; $mid: it died before the end.
load_and_kill() { # MODEL HOST ROUND OPTION...
	local rc=0

	rm -f "$work/load"
	"$infer" --model "$1" --deadline $deadline "${@:4}" --json >"$work/load" 2>"$work/why" &
	touch "$DISTMIND_SHARED/ask.$2.kill$3"
	wait $! || rc=$?
	mid=0
	[ ! -e "$DISTMIND_SHARED/done.$2.kill$3" ] || mid=1
	until_true test -e "$DISTMIND_SHARED/done.$2.kill$3" || return 2
	return $rc
}

# With a replica every load ends well, with the bits of the file.
loads_survive() {
	local round=0 hits=0 victim

	while [ $hits -lt $kills ] && [ $round -lt $((3 * kills)) ]; do
		round=$((round + 1))
		victim=$((2 + round % 2))
		load_and_kill twice $victim $round || { cat "$work/why"; return 1; }
		holds "load['checksum'] == file['checksum'] and not load['cached']" load file || return
		hits=$((hits + mid))
		distmindctl model evict twice || return
		ask $victim start$round && everything_is_there || return
	done
	echo "killed $round times, $hits of them in the middle of a load"
	[ $hits -eq $kills ]
}

# Without one they end by their deadline, and say which chunk of whom is missing.
loads_name_what_is_missing() {
	local round=$((3 * kills)) failed=0 begin victim

	while [ $failed -lt $alone ] && [ $round -lt $((4 * kills)) ]; do
		round=$((round + 1))
		victim=$((2 + round % 2))
		begin=$(date +%s%3N)
		if load_and_kill once $victim $round --unpipelined; then
			distmindctl model evict once || return
		else
			failed=$((failed + 1))
			[ $(($(date +%s%3N) - begin)) -lt $((2 * deadline)) ] || return
			cat "$work/why"
			grep -Eq "chunk [0-9a-f]+ .*host$victim" "$work/why" || return
		fi
		ask $victim start$round && everything_is_there || return
	done
	[ $failed -eq $alone ]
}

plan 4
configure 0
"$make_model" mlp "$work/model.st" --width 1024 --inputs 1024 --classes 1024 --layers 6
"$make_model" mlp "$work/other.st" --seed 2 --width 1024 --inputs 1024 --classes 1024 --layers 6
check catalog.starts start_etcd
start_engine cpu0 256M
vm-barrier catalog 3
check models.are_pushed models_are_pushed
check kill.with_a_replica_every_load_completes loads_survive
grep '^killed' "$work/output" | sed 's/^/# /'
check kill.without_one_the_missing_is_named loads_name_what_is_missing
end_hosts
finish
