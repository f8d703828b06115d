#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# distmindctl trace: what it tells of a load and of training that requests preempt, on
# a gpu that is paced as in compute.sh, and what it leaves behind.
# time-limit: 300
# processors: 1 (see tests/vm/harness/processors.py)
. tests/kselftest/common/tap.sh

examples=$DISTMIND_BUILD/examples
instances=/sys/kernel/tracing/instances

has_instance() {
	compgen -G "$instances/distmindctl-*" >/dev/null
}

# A model that comes by way of host memory: from the network, by a copy, to the work.
records_the_stages_of_a_load() {
	local tracer

	distmindctl model push mlp "$work/mlp.st" || return
	distmindctl trace --gpu cpu0 --output "$work/load.json" --svg "$work/load.svg" \
		2>"$work/hint" &
	tracer=$!
	until_true grep -q recording "$work/hint" || return
	"$examples/infer" --model mlp --form staged --json >"$work/infer" || return
	stop TERM $tracer
	cat "$work/infer"
	grep -q '>network<' "$work/load.svg" || return
	/usr/bin/python3 - "$work" <<'PYTHON'
import json, sys
work = sys.argv[1]
answer = json.load(open(f"{work}/infer"))
events = json.load(open(f"{work}/load.json"))["traceEvents"]
tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}

def stage(name):
    return sorted((e for e in events if e["ph"] == "X" and name in tracks[e["tid"]]),
                  key=lambda e: e["ts"])

def end(event):
    return event["ts"] + event["dur"]

network, copies, computing = (stage(name) for name in ("network", "(copy)", "(compute)"))
print(tracks, network, len(copies), len(computing))
# One load, group after group, until all have come.
assert len({e["args"]["timeline"] for e in network}) == 1
assert all(a["args"]["group"] < b["args"]["group"] and end(a) <= b["ts"] + 0.001
           for a, b in zip(network, network[1:]))
assert network[-1]["args"]["group"] == answer["groups"] == len(copies) > 1
assert all(e["cat"] == "network" and e["args"]["error"] == 0 for e in network)
# What has not come is not copied, and what is not copied is not worked with.
for number, copy in enumerate(copies, 1):
    assert any(e["args"]["group"] >= number and end(e) <= copy["ts"] + 0.001 for e in network)
assert end(copies[0]) <= computing[0]["ts"] and len(computing) == answer["jobs"]
# It was ended by hand: it is as long as what it tells of.
assert min(e["ts"] for e in network + copies + computing) == 0
PYTHON
}

# Training, and requests that preempt it, until the end.
keep_busy() {
	"$examples/train" --seconds 60 --hidden 512 --batch 4 >"$work/train" &
	until_true grep -q step "$work/train" || return
	"$examples/serve" --seconds 60 --rate 8 >"$work/serve" &
}

records_what_the_lanes_do() {
	distmindctl -j trace --gpu cpu0 --duration 4s --output "$work/trace.json" \
		--svg "$work/trace.svg" >"$work/summary" || return
	cat "$work/summary"
	/usr/bin/python3 - "$work" <<'PYTHON'
import json, sys
import xml.etree.ElementTree as xml
work = sys.argv[1]
summary = json.load(open(f"{work}/summary"))["traces"][0]
trace = json.load(open(f"{work}/trace.json"))
events = trace["traceEvents"]

def of(phase, **keys):
    return [e for e in events if e["ph"] == phase and all(e.get(k) == v for k, v in keys.items())]

names = {e["args"]["name"] for e in of("M", name="thread_name")}
jobs, asked = of("X", cat="job"), of("i", name="asked to yield")
print(names, len(jobs), len(asked), summary)
assert any(e["args"]["name"].endswith("(cpu0)") for e in of("M", name="process_name"))
assert "lane 0 (compute)" in names and any(name.endswith("waits") for name in names)
assert summary["runs"] == len(jobs) > 10 and summary["preemptions"] == len(asked) > 0
assert summary["groups"] == 0
assert len({e["args"]["vgpu"] for e in jobs}) == 2
assert any(e["args"]["end"] == "yielded" for e in jobs)
# What is served are requests: they ran, and where their time went adds up.
requests = of("X", cat="request")
print(len(requests), requests[:3])
assert len({e["args"]["vgpu"] for e in requests}) == 1
assert any(e["dur"] > 0 and e["args"]["run_percent"] > 0 for e in requests)
assert all(abs(sum(value for key, value in e["args"].items() if key.endswith("_percent")) - 100) < 1
           for e in requests)
# A job that has yielded goes on: every arrow ends after it began.
begins = {e["id"]: e["ts"] for e in of("s")}
ends = {e["id"]: e["ts"] for e in of("f")}
assert begins and begins.keys() == ends.keys() and all(begins[i] <= ends[i] for i in begins)
# One job at a time on the lane.
lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in jobs if e["tid"] == jobs[0]["tid"])
assert all(a[1] <= b[0] + 0.001 for a, b in zip(lane, lane[1:]))
assert trace["otherData"]["lost_events"] == summary["lost_events"] == 0
assert xml.parse(f"{work}/trace.svg").getroot().tag.endswith("svg")
PYTHON
}

leaves_no_instance() {
	! has_instance
}

ends_at_a_signal() {
	local tracer rc=0

	distmindctl trace --svg "$work/signal.svg" >"$work/summary" 2>&1 &
	tracer=$!
	until_true has_instance || return
	kill -TERM $tracer
	wait $tracer || rc=$?
	cat "$work/summary"
	[ $rc -eq 0 ] && ! has_instance && grep -q '</svg>' "$work/signal.svg"
}

cleans_up_after_one_that_was_killed() {
	distmindctl trace --svg "$work/killed.svg" >"$work/summary" 2>&1 &
	until_true has_instance || return
	stop KILL $!
	has_instance || return
	distmindctl trace --duration 10ms --svg "$work/next.svg" && ! has_instance
}

refuses_what_it_cannot_write() {
	! distmindctl trace --duration 10ms --output /nowhere/trace.json 2>"$work/error" &&
		grep -q 'cannot write /nowhere/trace.json' "$work/error" && ! has_instance
}

plan 6
if [ ! -d /sys/kernel/tracing/events/distmind ]; then
	for number in 1 2 3 4 5 6; do
		echo "ok $number trace_tool # SKIP the kernel has no tracepoints"
	done
	exit
fi
printf '[compute]\ngflops = 0.02\n' >"$work/profile"
start_engine cpu0 64M --profile "$work/profile"
printf '[donor]\nmemory = 16M\n\n[catalog]\npath = %s/catalog\n' "$work" >"$work/conf"
"$DISTMIND_SOURCE/tests/model/make-model" mlp "$work/mlp.st" --width 256 --layers 4
start_daemon --config "$work/conf"
check trace_tool.records_the_stages_of_a_load records_the_stages_of_a_load
# Weights take a share, and training and requests want all of them.
stop TERM $daemon
start_daemon
keep_busy
check trace_tool.records_what_the_lanes_do records_what_the_lanes_do
check trace_tool.leaves_no_instance leaves_no_instance
check trace_tool.ends_at_a_signal ends_at_a_signal
check trace_tool.cleans_up_after_one_that_was_killed cleans_up_after_one_that_was_killed
check trace_tool.refuses_what_it_cannot_write refuses_what_it_cannot_write
finish
