#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demo's act of the memory pool, on three hosts: host 1 has a gpu and the
# catalog, hosts 2 and 3 give memory. The gpu is paced so that computing with the model
# takes about as long as reading it.
set -euo pipefail

work=$(mktemp -d)
make_model=$DISTMIND_SOURCE/tests/model/make-model
infer=$DISTMIND_BUILD/examples/infer

until_true() {
	for _ in $(seq 300); do
		if "$@"; then return; fi
		sleep 0.1
	done
	echo "demo: gave up waiting for: $*" >&2
	return 1
}

stop() { # SIGNAL PID
	kill "-$1" "$2"
	wait "$2" 2>/dev/null || true
}

step() {
	printf '\n== %s\n' "$*"
}

# Through a pipe: plain lines, no progress bars.
show() {
	printf '$ %s\n' "$*"
	"$@" 2>&1 | cat
}

. tests/cluster/common/hosts.sh

if [ "$DISTMIND_HOST" -ne 1 ]; then
	insmod "$DISTMIND_MODULE"
	configure 128M
	vm-barrier catalog 3
	start_host
	serve
	rmmod distmind
	exit
fi

pool_has() { # HOSTS
	[ "$(distmindctl -j model list | grep -o '"state": "live"' | wc -l)" -eq "$1" ]
}

# The time to an answer of a model that is not there yet.
cold() { # NAME OPTION...
	distmindctl model evict mlp >/dev/null 2>&1 || true
	"$infer" --model mlp --rows 64 --json "${@:2}" >"$work/$1"
}

step "Three hosts: one has a gpu, two give 128 MiB of memory each to the pool"
insmod "$DISTMIND_MODULE"
printf '[compute]\ngflops = 1.5\n' >"$work/profile"
distmind-engine-cpu --name gpu0 --memory 256M --profile "$work/profile" >/dev/null &
engine=$!
configure 0
start_etcd
vm-barrier catalog 3
start_host
until_true pool_has 3

step "A model is pushed: its chunks are spread over the donors, twice"
"$make_model" mlp --width 768 --layers 6 "$work/mlp.st"
show distmindctl model push --replicas 2 mlp "$work/mlp.st"
show distmindctl model list

step "A cold request computes while the model still arrives"
for i in 1 2 3; do
	cold pipelined.$i
	cold whole.$i --unpipelined
done
distmindctl trace --duration 2s --svg "$DISTMIND_RUN/pipeline.svg" >/dev/null &
trace=$!
cold staged.1 --form staged
wait $trace
"$infer" --file "$work/mlp.st" --rows 64 --json >"$work/file"
/usr/bin/python3 - "$work" <<'PYTHON'
import glob, json, sys

def best(name):
    runs = (json.load(open(path)) for path in glob.glob(f"{sys.argv[1]}/{name}*"))
    return min(runs, key=lambda run: run["total_ms"])

runs = {name: best(name) for name in ("pipelined", "staged", "whole", "file")}
print("weights                              answer after   checksum")
for name, text in (("pipelined", "read into the gpu, group by group"),
                   ("staged", "the same, by way of host memory"),
                   ("whole", "all of the model first")):
    run = runs[name]
    print(f"{text:34} {run['total_ms']:9.0f} ms      {run['checksum']}")
print(f"{'from the file':34} {'':9}         {runs['file']['checksum']}")
if len({run["checksum"] for run in runs.values()}) != 1:
    sys.exit("demo: the answers differ")
if runs["pipelined"]["total_ms"] >= runs["whole"]["total_ms"]:
    sys.exit("demo: the pipeline made no difference")
PYTHON

step "A fine-tuned copy shares what it has in common"
"$make_model" tune "$work/mlp.st" "$work/tuned.st"
show distmindctl model push tuned "$work/tuned.st"

step "A donor is killed while its chunks are read"
distmindctl model evict mlp >/dev/null
"$infer" --model mlp --rows 64 --json >"$work/killed" &
killed=$!
touch "$DISTMIND_SHARED/ask.3.kill1"
wait $killed
until_true test -e "$DISTMIND_SHARED/done.3.kill1"
until_true pool_has 2
/usr/bin/python3 - "$work" <<'PYTHON'
import json, sys

file, killed = (json.load(open(f"{sys.argv[1]}/{name}")) for name in ("file", "killed"))
print(f"the answer came after {killed['total_ms']:.0f} ms, from the other donor: {killed['checksum']}")
if killed["checksum"] != file["checksum"]:
    sys.exit("demo: the answer is another one")
PYTHON
show distmindctl model list

ask 3 start2
ask 2 end
ask 3 end
stop TERM $daemon
stop TERM $engine
stop TERM $etcd
rmmod distmind
dmesg | sed -n 's/.*distmind: //p' | tail -1
