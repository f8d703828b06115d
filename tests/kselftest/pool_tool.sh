#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# distmindctl pool beside a running daemon: what is promised, where things go and why,
# repacking, and what becomes of everything on a gpu whose engine dies.
#
# time-limit: 300
. tests/kselftest/common/tap.sh

# Whether something holds of what a command prints: a Python expression over "it".
tells() { # EXPRESSION COMMAND...
	distmindctl -j "${@:2}" >"$work/it" && holds "$1" it
}

make_vgpu() { # NAME GPU MEMORY SHARE
	distmindctl vgpu create --name "$1" --gpu "$2" --memory "$3" --share "$4"
}

is_on() { # VGPU GPU
	pool_has "any(v['name'] == '$1' and v['state'] == 'bound' and v['gpu'] == g['id']
		for v in vgpus for g in gpus if g['name'] == '$2')"
}

fill_the_pool() {
	make_vgpu a cpu0 24M 50 && make_vgpu b cpu1 8M 40 && make_vgpu c cpu2 8M 20
}

show_sums_up() {
	tells "[g['share'] for g in it['gpus']] == [50, 40, 20] and
		[g['memory_left'] >> 20 for g in it['gpus']] == [40, 56, 56] and
		it['pool'][0]['share'] == 110 and it['pool'][0]['share_left'] == 190 and
		it['pool'][0]['fragmentation'] == 100 and
		sum(b['gpus'] for b in it['boxes']) == 3" pool show &&
		distmindctl pool show | grep -q '^3 gpus in '
}

show_is_for_root() {
	! setpriv --reuid 65534 --regid 65534 --clear-groups -- distmindctl pool show 2>"$work/why" &&
		grep -q "as root" "$work/why"
}

# What fills a gpu to the last bit goes there, and the daemon thinks so too.
explain_foresees_the_daemon() {
	local app

	tells "it['answer'][0]['placed'] and it['answer'][0]['gpus'] == it['candidates'][0]['gpus'] and
		[c['verdict'] for c in it['candidates']].count('chosen') == 1" \
		pool explain --memory 4M --share 50 || return
	distmindctl pool explain --memory 4M --share 50 | tee "$work/text" || return
	mkfifo "$work/hold"
	distmindctl run --memory 4M --share 50 --name app -- cat "$work/hold" &
	app=$!
	until_true pool_has "any(v['name'] == 'app' for v in vgpus)" || return
	grep -q "^goes to gpu $(distmindctl -j | /usr/bin/python3 -c '
import json, sys
print(*(v["gpu"] for v in json.load(sys.stdin)["vgpus"] if v["name"] == "app"))')\$" "$work/text" || return
	: >"$work/hold"
	wait $app
}

explain_says_why_not() {
	tells "not it['answer'][0]['placed'] and '1G' in it['answer'][0]['reason'] and
		all(c['verdict'] == 'unfit' and 'memory' in c['why'] for c in it['candidates'])" \
		pool explain --memory 1G &&
		distmindctl pool explain --memory 1M --kind H100 | grep -q "^refused: no gpu of kind H100"
}

explain_knows_where_a_vgpu_is() {
	tells "[c['verdict'] for c in it['candidates']].count('here') == 1" pool explain a
}

a_dry_run_moves_nothing() {
	distmindctl -j vgpu list >"$work/before" &&
		tells "[m['name'] for m in it['moves']] == ['c'] and not it['moves'][0]['done']" \
			pool repack --dry-run &&
		distmindctl -j vgpu list | cmp - "$work/before"
}

repacking_frees_a_gpu() {
	distmindctl pool repack --free 1 | tee "$work/text" &&
		grep -q '^moved vgpu .* "c" .*: frees gpu' "$work/text" &&
		grep -q '^1 move freed 1 gpu$' "$work/text" &&
		tells "it['pool'][0]['whole'] == 1 and
			[g['vgpus'] for g in it['gpus'] if g['name'] == 'cpu2'] == [0]" pool show
}

what_cannot_be_freed_is_said() {
	! distmindctl pool repack --free 3 2>"$work/why" &&
		grep -q "cannot free 3 gpus" "$work/why"
}

# One by one, a and b would leave no room for c.
# How many; a plan that takes longer than a turn of the daemon's loop is made again.
moved_vgpus() {
	grep 'event=recovery-move .*where it costs least' "$work/daemon" |
		grep -o 'plan="vgpu [0-9]*' | sort -u | wc -l
}

all_of_a_lost_gpu_are_elsewhere() {
	distmindctl vgpu set a --gpu cpu1 --share 20 && distmindctl vgpu set b --gpu cpu1 --share 30 &&
		distmindctl vgpu set c --gpu cpu1 --share 40 &&
		make_vgpu d cpu0 1M 60 && make_vgpu e cpu2 1M 50 || return
	stop KILL "$middle"
	until_true pool_has "all(v['state'] == 'bound' for v in vgpus)" || return
	! is_on a cpu1 && ! is_on b cpu1 && ! is_on c cpu1 &&
		tells "all(g['share'] <= 100 for g in it['gpus'])" pool show &&
		grep 'event=recovery-' "$work/daemon" &&
		grep -q 'event=recovery-planned vgpus=3 moves=3 waiting=0' "$work/daemon" &&
		[ "$(moved_vgpus)" -eq 3 ]
}

plan 10
start_engine cpu0 64M
start_engine cpu1 64M
middle=$engine
start_engine cpu2 64M
start_daemon
check pool.has_vgpus fill_the_pool
check pool.show_sums_up show_sums_up
check pool.show_is_for_root show_is_for_root
check pool.explain_foresees_the_daemon explain_foresees_the_daemon
check pool.explain_says_why_not explain_says_why_not
check pool.explain_knows_where_a_vgpu_is explain_knows_where_a_vgpu_is
check pool.repack_dry_run_moves_nothing a_dry_run_moves_nothing
check pool.repack_frees_a_gpu repacking_frees_a_gpu
check pool.repack_says_what_cannot_be_freed what_cannot_be_freed_is_said
check daemon.re_places_all_of_a_lost_gpu all_of_a_lost_gpu_are_elsewhere
for vgpu in a b c d e; do
	distmindctl vgpu delete "$vgpu"
done
finish
