#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demo's act of sharing: one gpu, training that takes all of it as best
# effort, and requests that are to be answered within an objective; first in the
# order of arrival, then with objectives first. The gpu is paced to a small and
# known speed: jobs of training take up to 42 ms there, and are of one block.
# $DISTMIND_RUN/preemption.svg is a picture of what the lanes do.
set -euo pipefail

work=$(mktemp -d)
examples=$DISTMIND_BUILD/examples
gpu=shared0

printf '[compute]\ngflops = 0.05\n' >"$work/profile"
distmind-engine-cpu --name $gpu --memory 64M --profile "$work/profile" >"$work/engine" &
engine=$!
until [ -s "$work/engine" ]; do
	kill -0 $engine
	sleep 0.1
done

preemptions() {
	distmindctl -j gpu show $gpu | sed -n 's/.*"preemptions": \([0-9]*\).*/\1/p'
}

train() { # OUTPUT
	"$examples/train" --seconds 60 --hidden 512 --batch 4 --json >"$1" &
	train=$!
}

serve() { # OUTPUT
	"$examples/serve" --seconds 10 --rate 4 --objective 50 --json >"$1" &
	serve=$!
	until distmindctl vgpu list | grep -q latency; do
		kill -0 $serve
		sleep 0.1
	done
}

share() { # POLICY
	distmindctl policy "$1" --gpu $gpu
	distmindctl -j gpu show $gpu >"$work/before.$1"
	train "$work/train.$1"
	serve "$work/serve.$1"
	distmindctl -j top --once --interval 4s >"$work/top.$1"
	wait $serve
	kill $train
	wait $train
	distmindctl -j gpu show $gpu >"$work/after.$1"
}

# On its own: to record takes time, too. It begins before the requests, and goes on until
# there is something to see.
picture() { # FILE
	local tracer before

	before=$(preemptions)
	train /dev/null
	distmindctl trace --gpu $gpu --svg "$1" >/dev/null 2>"$work/recording" &
	tracer=$!
	until grep -q recording "$work/recording"; do
		kill -0 $tracer
		sleep 0.1
	done
	serve /dev/null
	until [ "$(preemptions)" -gt $((before + 2)) ]; do
		kill -0 $serve
		sleep 0.1
	done
	kill $tracer $serve $train
	wait $tracer
	wait $train
	if grep -q ' 0 preemptions' "$1"; then
		echo "demo: the picture shows no preemption" >&2
		exit 1
	fi
}

share fifo
share slo
picture "$DISTMIND_RUN/preemption.svg"
/usr/bin/python3 - "$work" <<'PYTHON'
import json, sys

def read(name, policy):
    with open(f"{sys.argv[1]}/{name}.{policy}") as file:
        value = json.load(file)
    return value["gpus"][0] if "gpus" in value else value

# Of each second: what requests used, and how much of the rest training got.
def rest(policy):
    with open(f"{sys.argv[1]}/top.{policy}") as file:
        vgpus = {vgpu["class"]: vgpu["utilisation"] for vgpu in json.load(file)["vgpus"]}
    return 100 * vgpus["best-effort"] / (100 - vgpus["latency"])

def ms(ns):
    return f"{ns / 1e6:7.1f}" if ns else "      -"

print("        inference                          training                              preemptions")
print("policy  p50 ms   p99 ms   above 50 ms      steps/s   loss           of the rest   number   p50 ms   p99 ms")
misses = {}
for policy in "fifo", "slo":
    serve, train = read("serve", policy), read("train", policy)
    count = [read(when, policy)["preemptions"] for when in ("before", "after")]
    misses[policy] = serve["misses"]
    print(f"{policy:6} {serve['p50_ms']:7.1f}  {serve['p99_ms']:7.1f}"
          f"   {serve['misses']:4} of {serve['requests']:<6}"
          f"   {train['steps_per_second']:7.2f}   {train['first_loss']:.2f} -> {train['last_loss']:.2f}"
          f"  {rest(policy):9.0f} %  {count[1] - count[0]:7}"
          f"  {ms(read('after', policy)['preempt_p50_ns'])}  {ms(read('after', policy)['preempt_p99_ns'])}")
if misses["slo"] >= misses["fifo"]:
    sys.exit("demo: the objective made no difference")
PYTHON
kill $engine
wait $engine
rm -r "$work"
