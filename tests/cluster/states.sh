#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guests: 3
# time-limit: 600
#
# What an operator has to see: a catalog that is silent, an RDMA device that goes and comes.
# Host 1 has the gpu and the catalog, hosts 2 and 3 have the model.
. tests/kselftest/common/tap.sh
. tests/cluster/common/hosts.sh

make_model=$DISTMIND_SOURCE/tests/model/make-model
infer=$DISTMIND_BUILD/examples/infer

[ "$DISTMIND_HOST" -eq 1 ] || be_donor 96M

all_are_live() {
	pool_keeps "sorted(hosts) == ['host1', 'host2', 'host3'] and
		all(m['state'] == 'available' for m in models.values())"
}

doctor_says() { # CHECK STATUS TEXT
	distmindctl -j doctor >"$work/doctor"
	holds "any(c['check'] == '$1' and c['status'] == '$2' and '$3' in c['finding'] and
		(c['status'] == 'ok' or c['fix']) for c in doctor['checks'])" doctor
}

is_said() { # EVENT COUNT
	[ "$(grep -c "event=$1" "$work/daemon")" -eq "$2" ]
}

model_is_pushed() {
	start_host && until_true pool_keeps "sorted(hosts) == ['host1', 'host2', 'host3']" &&
		distmindctl model push --replicas 2 net "$work/model.st" && until_true all_are_live &&
		until_true all_is_given && "$infer" --file "$work/model.st" --json >"$work/file"
}

loads_from_others() {
	distmindctl model evict net && "$infer" --model net --json >"$work/load" &&
		holds "load['checksum'] == file['checksum'] and load['read_bytes'] > 0" load file
}

hosts_are_unknown() {
	! distmindctl -j host list >"$work/hosts" 2>"$work/why" && cat "$work/why" &&
		grep -q "fix: .*etcdctl" "$work/why" &&
		holds "all(h['state'] == 'unknown' for h in hosts['hosts'])" hosts
}

# The kernel takes connections for it, so it seems to be there.
a_paused_etcd_is_seen() {
	kill -STOP "$etcd" && until_true doctor_says catalog fail "no answer" &&
		hosts_are_unknown && ! distmindctl doctor && is_said catalog-silent 1 &&
		distmindctl pool show 2>"$work/why" >/dev/null && grep -q "no answer" "$work/why"
}

nobody_is_told_twice() {
	sleep 20
	is_said catalog-silent 1 && is_said catalog-answers 0 && hosts_are_unknown
}

one_that_goes_on_is_seen() {
	kill -CONT "$etcd" && until_true doctor_says catalog ok host1 && is_said catalog-answers 1 &&
		is_said catalog-silent 1 && until_true all_are_live && distmindctl host list
}

a_donor_without_its_device_is_done_without() {
	ask 2 unlink1 && loads_from_others
}

one_that_has_it_again_is_read_from() {
	ask 2 relink1 && ask 3 unlink1 && until_true loads_from_others && ask 3 relink1
}

this_host_follows_its_own() {
	local netdev

	netdev=$(rdma link show rxe0/1 | sed 's/.* netdev \([^ ]*\).*/\1/')
	timeout 15 rdma link delete rxe0 && doctor_says rdma warn "no RDMA device" &&
		rdma link add rxe0 type rxe netdev "$netdev" &&
		until_true doctor_says rdma ok "distmindd uses rxe0" && until_true loads_from_others
}

plan 8
configure 0
"$make_model" mlp "$work/model.st" --width 512 --layers 6
start_etcd
vm-barrier catalog 3
start_engine cpu0 256M
check states.model_is_pushed model_is_pushed
check states.loads_from_others loads_from_others
check states.a_paused_etcd_is_seen a_paused_etcd_is_seen
check states.nobody_is_told_twice nobody_is_told_twice
check states.one_that_goes_on_is_seen one_that_goes_on_is_seen
check states.a_donor_without_its_device_is_done_without a_donor_without_its_device_is_done_without
check states.one_that_has_it_again_is_read_from one_that_has_it_again_is_read_from
check states.this_host_follows_its_own this_host_follows_its_own
end_hosts
stop TERM "$etcd"
finish
