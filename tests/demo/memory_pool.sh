#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demo's act of the memory pool, on three hosts: host 1 has a gpu and the
# catalog, hosts 2 and 3 give memory. The gpu is paced so that computing with the model
# takes about as long as loading it by way of host memory.
set -euo pipefail

work=$(mktemp -d)
make_model=$DISTMIND_SOURCE/tests/model/make-model

infer() { # OPTION...
	"$DISTMIND_BUILD/examples/infer" --rows 32 --json "$@"
}

step() {
	printf '\n== %s\n' "$*"
}

# Through a pipe: plain lines, no progress bars.
show() {
	printf '$ %s\n' "$*"
	"$@" 2>&1 | cat
}

. tests/kselftest/common/wait.sh
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

# A request for a model that is not there, and what happens until it is answered.
cold() { # NAME OPTION...
	local trace

	distmindctl model evict mlp >/dev/null 2>&1 || true
	distmindctl trace --output "$work/$1.json" --svg "$work/$1.svg" \
		>/dev/null 2>"$work/trace" &
	trace=$!
	until_true grep -q recording "$work/trace"
	infer --model mlp "${@:2}" >"$work/$1"
	stop TERM $trace
}

step "Three hosts: one has a gpu, two give 128 MiB of memory each to the pool"
insmod "$DISTMIND_MODULE"
printf '[compute]\ngflops = 2.5\n' >"$work/profile"
distmind-engine-cpu --name gpu0 --memory 256M --profile "$work/profile" >/dev/null &
engine=$!
configure 0
start_etcd
vm-barrier catalog 3
start_host
until_true pool_has 3

step "A model is pushed: its chunks are spread over the donors, twice"
"$make_model" mlp --width 1024 --layers 12 "$work/mlp.st"
show distmindctl model push --replicas 2 mlp "$work/mlp.st"
show distmindctl model list

step "A cold request computes while the model still arrives"
# In turns, so that whatever else the machine does meets all of them.
for i in 1 2 3; do
	cold pipelined.$i --form staged
	cold unpipelined.$i --form staged --unpipelined
	cold direct.$i --form direct
	cold direct-unpipelined.$i --form direct --unpipelined
done
infer --file "$work/mlp.st" >"$work/file"
/usr/bin/python3 - "$work" "$DISTMIND_RUN" <<'PYTHON'
import json, shutil, sys

work, pictures = sys.argv[1:]

def load(name):
    return json.load(open(f"{work}/{name}"))

def stages(trace):
    """How long each was at work, in ms."""
    events = trace["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return {stage: sum(e["dur"] / 1e3 for e in events
                       if e["ph"] == "X" and stage in tracks[e["tid"]])
            for stage in ("network", "copy", "compute")}

file, fastest = load("file"), {}
print("weights, best of three               network      copy   compute   answer after   checksum")
for name, text in (("pipelined", "by host memory, group by group"),
                   ("unpipelined", "by host memory, all of it first"),
                   ("direct", "into the gpu, group by group"),
                   ("direct-unpipelined", "into the gpu, all of it first")):
    runs = {f"{name}.{i}": load(f"{name}.{i}") for i in (1, 2, 3)}
    best = min(runs, key=lambda run: runs[run]["total_ms"])
    spent = stages(load(f"{best}.json"))
    fastest[name] = runs[best]["total_ms"]
    times = " ".join(f"{ms:6.0f} ms" if ms else "        -" for ms in spent.values())
    print(f"{text:34} {times} {fastest[name]:11.0f} ms   {runs[best]['checksum']}   {name}.svg")
    shutil.copy(f"{work}/{best}.svg", f"{pictures}/{name}.svg")
    if any(run["checksum"] != file["checksum"] for run in runs.values()):
        sys.exit("demo: the answers differ")
    if sum(ms > 0 for ms in spent.values()) != (2 if "direct" in name else 3):
        sys.exit("demo: the picture lacks a stage")
print(f"{'from the file':81} {file['checksum']}")
if (fastest["pipelined"] >= fastest["unpipelined"] or
        fastest["direct"] >= fastest["direct-unpipelined"]):
    sys.exit("demo: the pipeline made no difference")
PYTHON

step "A fine-tuned copy shares what it has in common"
"$make_model" tune "$work/mlp.st" "$work/tuned.st"
show distmindctl model push tuned "$work/tuned.st"

step "A donor is killed while its chunks are read"
distmindctl model evict mlp >/dev/null
infer --model mlp >"$work/killed" &
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
