#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The benchmarks of the memory pool, in two guests with soft-RoCE between them:
#
#   host 1, 10.77.0.1   a gpu with a paced profile, and the catalog (etcd)
#   host 2, 10.77.0.2   a donor, which has the models
#
# Prints a line of JSON each, on host 1.
set -e
work=$(mktemp -d)
export DISTMIND_SOCKET=$work/socket
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# Wait until a command succeeds, for at most 30 seconds; else show what was logged.
until_true() { # COMMAND...
	local tries=600

	until "$@" >"$work/output" 2>&1; do
		tries=$((tries - 1))
		if [ $tries -eq 0 ]; then
			echo "load.sh: gave up waiting for: $*" >&2
			cat "$work/output" "$work"/*.log >&2
			exit 1
		fi
		sleep 0.05
	done
}

start_daemon() { # MEMORY, that the host gives
	cat >"$work/conf" <<-CONF
		[host]
		name = host$DISTMIND_HOST
		address = 10.77.0.$DISTMIND_HOST
		[donor]
		memory = $1
		[catalog]
		kind = etcd
		endpoints = http://10.77.0.1:2379
		[models]
		socket = $work/socket
	CONF
	distmindd --foreground --config "$work/conf" >"$work/daemon.log" 2>&1 &
	until_true test -S "$work/socket"
}

live_hosts() { # COUNT
	[ "$(distmindctl -j model list | grep -o '"state": *"live"' | wc -l)" -eq "$1" ]
}

# Where the chunks are: none on this host, which would copy them instead of reading.
all_on_the_donor() {
	distmindctl -j model list | /usr/bin/python3 -c '
import json, sys
told = json.load(sys.stdin)
used = {h["host"]: h["memory_total"] - h["memory_free"] for h in told["hosts"]}
sys.exit(used["host1"] != 0 or used["host2"] == 0 or
         any(m["state"] != "available" for m in told["models"]))'
}

insmod "$DISTMIND_MODULE"
if [ "$DISTMIND_HOST" -ne 1 ]; then
	mkfifo "$work/hold"
	"$DISTMIND_BUILD/bench/load" serve 10.77.0.2 <"$work/hold" >"$work/serve.log" 2>&1 &
	exec 3>"$work/hold"
	until_true grep -q ready "$work/serve.log"
	vm-barrier donor 2
	vm-barrier catalog 2 300
	exec 3>&-
	start_daemon 192M
	vm-barrier measured 2 600
	exit
fi

vm-barrier donor 2
"$DISTMIND_BUILD/bench/load" read 10.77.0.1 10.77.0.2

etcd --data-dir "$work/etcd" --listen-client-urls http://10.77.0.1:2379 \
	--advertise-client-urls http://10.77.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
	--initial-advertise-peer-urls http://127.0.0.1:2380 \
	--initial-cluster default=http://127.0.0.1:2380 >"$work/etcd.log" 2>&1 &
until_true etcdctl --endpoints http://10.77.0.1:2379 get x
vm-barrier catalog 2
printf '[compute]\ngflops = 1\n' >"$work/profile"
distmind-engine-cpu --name cpu0 --memory 256M --profile "$work/profile" >"$work/engine.log" 2>&1 &
start_daemon 0
until_true live_hosts 2

for seed in 1 2; do
	"$DISTMIND_SOURCE/tests/model/make-model" mlp "$work/model.st" --seed $seed \
		--width 1024 --inputs 1024 --classes 1024 --layers 20
	until_true distmindctl model push --order "$work/model.st.order" model$seed "$work/model.st"
	rm "$work/model.st"
done
until_true all_on_the_donor
"$DISTMIND_BUILD/bench/load_model" model1 model2 || {
	tail -n 20 "$work/daemon.log" "$work/engine.log" >&2
	exit 1
}
vm-barrier measured 2
