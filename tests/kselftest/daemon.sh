#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# The whole of it: engine, kernel, daemon, library and tool together, and what
# happens when one of them dies.
. tests/kselftest/common/tap.sh

refuses_without_daemon() {
	! distmindctl run --memory 1M --timeout 200ms -- true 2>"$work/why" &&
		grep -q "start distmindd" "$work/why"
}

returns_the_commands_exit_code() {
	local rc=0

	distmindctl run --memory 1M -- sh -c 'exit 7' || rc=$?
	[ $rc -eq 7 ]
}

gives_the_command_its_device() {
	# shellcheck disable=SC2016
	distmindctl run --memory 2M --share 12.5 --name given -- \
		sh -c '[ -c "$DISTMIND_VGPU" ] && distmindctl -j vgpu list' |
		grep -q '"name": *"given"'
}

refuses_in_words_what_does_not_fit() {
	! distmindctl run --memory 1G -- true 2>"$work/why" &&
		grep -q "64M" "$work/why" &&
		! distmindctl run --memory 1M --kind A100 -- true 2>"$work/why" &&
		grep -q "A100" "$work/why"
}

never_promises_more_than_there_is() {
	local first second=0

	mkfifo "$work/hold"
	distmindctl run --memory 48M --share 10 -- cat "$work/hold" &
	first=$!
	until_true pool_has "any(v['memory'] == 48 << 20 for v in vgpus)" || return
	distmindctl run --memory 48M --share 10 -- true 2>"$work/why" || second=$?
	: >"$work/hold"
	wait $first && [ $second -ne 0 ] && grep -q "16M" "$work/why" &&
		distmindctl run --memory 48M --share 10 -- true
}

# The daemon dies while one vgpu is in use and another one is asked for.
work_goes_on_without_the_daemon() {
	local running waiting

	mkfifo "$work/go"
	distmindctl run --memory 8M --share 10 --name running -- cat "$work/go" &
	running=$!
	until_true pool_has "any(v['name'] == 'running' for v in vgpus)" || return
	stop KILL "$daemon"
	pool_has "any(v['name'] == 'running' and v['state'] == 'bound' for v in vgpus)" || return
	distmindctl run --memory 8M --timeout 60s --name waiting --share 5 -- true &
	waiting=$!
	until_true sh -c "distmindctl -j claim list | grep -q waiting" || return
	kill -0 $running || return
	distmindd --foreground >"$work/daemon" 2>&1 &
	daemon=$!
	# Answered by the new one, which knows of the vgpu that is in use.
	wait $waiting || return
	pool_has "any(v['name'] == 'running' for v in vgpus)" || return
	! distmindctl run --memory 60M --share 1 -- true 2>"$work/why" || return
	: >"$work/go"
	wait $running
}

a_second_daemon_is_refused() {
	! distmindd --foreground 2>"$work/why" && grep -q "$daemon" "$work/why"
}

config_errors_name_line_and_fix() {
	printf '[log]\nlevel = loud\n' >"$work/bad.conf"
	! distmindd --check --config "$work/bad.conf" 2>"$work/why" &&
		grep -q "bad.conf:2:" "$work/why" && grep -q "info" "$work/why"
}

config_check_looks_at_the_files_that_are_named() {
	printf '[catalog]\nkind = etcd\nendpoints = https://a:1\nca = %s\n' "$work/none.pem" \
		>"$work/bad.conf"
	! distmindd --check --config "$work/bad.conf" 2>"$work/why" &&
		grep -q "bad.conf: ca: cannot read $work/none.pem: No such file" "$work/why"
}

a_lost_gpu_is_replaced() {
	local app lost=$engine

	start_engine cpu1 64M || return
	mkfifo "$work/app"
	distmindctl run --memory 8M --share 10 --name app -- cat "$work/app" &
	app=$!
	until_true pool_has "any(v['name'] == 'app' for v in vgpus)" || return
	if pool_has "any(v['name'] == 'app' and v['gpu'] == g['id'] for v in vgpus for g in gpus if g['name'] == 'cpu1')"; then
		lost=$engine
	fi
	stop KILL "$lost"
	until_true pool_has "any(v['name'] == 'app' and v['state'] == 'bound' and v['gpu'] == g['id'] and g['state'] == 'ready' for v in vgpus for g in gpus)" || return
	: >"$work/app"
	wait $app
}

example_runs() {
	"$DISTMIND_BUILD/examples/hello"
}

doctor_finds_a_healthy_pool() {
	distmindctl -j doctor >"$work/doctor" || true
	/usr/bin/python3 - "$work/doctor" <<'PYTHON'
import json, sys
checks = {c["check"]: c["status"] for c in json.load(open(sys.argv[1]))["checks"]}
assert checks["module"] == "ok" and checks["daemon"] == "ok", checks
PYTHON
}

plan 12
check daemon.is_missed_in_words refuses_without_daemon
start_engine cpu0 64M
start_daemon
check run.returns_the_commands_exit_code returns_the_commands_exit_code
check run.gives_the_command_its_device gives_the_command_its_device
check daemon.refuses_in_words_what_does_not_fit refuses_in_words_what_does_not_fit
check daemon.never_promises_more_than_there_is never_promises_more_than_there_is
check daemon.can_die_while_work_goes_on work_goes_on_without_the_daemon
check daemon.is_alone a_second_daemon_is_refused
check daemon.config_errors_name_line_and_fix config_errors_name_line_and_fix
check daemon.config_check_looks_at_the_files_that_are_named config_check_looks_at_the_files_that_are_named
check doctor.finds_a_healthy_pool doctor_finds_a_healthy_pool
check example.hello_runs example_runs
check daemon.replaces_a_lost_gpu a_lost_gpu_is_replaced
finish
