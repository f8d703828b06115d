#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# Programs that compute: training, inference, and both of them on one gpu, whose
# speed is paced so that the machine's does not matter much. Blocks of training
# take up to 26 ms there, its jobs up to 105, a request alone 1.
# time-limit: 300
. tests/kselftest/common/tap.sh

training=(--hidden 512 --batch 4)
examples=$DISTMIND_BUILD/examples

training_learns() {
	"$examples/train" --steps 10 --seconds 60 "${training[@]}" --json >"$work/alone" &&
		holds "alone['steps'] == 10 and alone['last_loss'] < alone['first_loss']" alone
}

training_uses_the_vgpu_it_is_given() {
	distmindctl run --memory 16M --share 30 --name given -- \
		"$examples/train" --steps 8 --hidden 64 --batch 4
}

requests_are_answered() {
	"$examples/serve" --seconds 1.5 --rate 10 --json >"$work/served" &&
		holds "served['requests'] > 3 and served['p50_ms'] <= served['p99_ms']" served
}

# Leaves what both of them said in progress and serve_POLICY.
share_the_gpu() { # POLICY
	local train rc=0

	distmindctl policy "$1" --gpu cpu0 || return
	"$examples/train" --seconds 60 "${training[@]}" >"$work/progress" &
	train=$!
	until_true grep -q step "$work/progress" || return
	"$examples/serve" --seconds 5 --rate 4 --json >"$work/serve_$1" || rc=$?
	kill $train
	wait $train && cat "$work/progress" && return $rc
}

latency_is_lower_under_slo() {
	holds "serve_slo['p99_ms'] < serve_fifo['p99_ms']" serve_slo serve_fifo
}

preemptions_are_counted() {
	pool_has "gpus[0]['preemptions'] > 0"
}

# A program with work of its own, which requests interrupt; 0 + 1 + ... + 127.
borrowing_makes_room() {
	local borrow

	distmindctl run --memory 1M --share 30 --class best-effort -- \
		"$examples/borrow" 100 >"$work/borrow" &
	borrow=$!
	until_true pool_has "any(v['running'] for v in vgpus)" || return
	"$examples/serve" --seconds 1 --rate 10 || return
	kill $borrow
	wait $borrow && cat "$work/borrow" &&
		grep -Eq 'given back [1-9][0-9]* times meanwhile, sum 8128$' "$work/borrow"
}

plan 8
printf '[compute]\ngflops = 0.02\n' >"$work/profile"
start_engine cpu0 64M --profile "$work/profile"
start_daemon
check train.learns training_learns
check train.uses_the_vgpu_it_is_given training_uses_the_vgpu_it_is_given
check serve.answers requests_are_answered
# Each time training must bring its loss down.
check share.goes_on_under_fifo share_the_gpu fifo
check share.goes_on_under_slo share_the_gpu slo
check share.has_lower_latency_under_slo latency_is_lower_under_slo
check share.counts_preemptions preemptions_are_counted
check borrow.makes_room_for_requests borrowing_makes_room
finish
