#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# RDMA devices that come and go while distmindd runs: one that goes is let go of, so that
# whoever removes it need not wait; one that comes is used. Soft-RoCE on an interface of its
# own, since the connection manager does not do lo.
# time-limit: 300
. tests/kselftest/common/tap.sh

netdev=dmrdma0
address=10.78.0.1
device=rxe9
make_model=$DISTMIND_SOURCE/tests/model/make-model
infer=$DISTMIND_BUILD/examples/infer

add_link() {
	rdma link add $device type rxe netdev $netdev
}

# The time limit is the test: the kernel waits for whoever has the device open.
delete_link() { # DEVICE
	local begin=$SECONDS

	timeout 15 rdma link delete "$1" && [ $((SECONDS - begin)) -le 5 ] &&
		! rdma link show | grep -q "$1/"
}

doctor_says() { # STATUS TEXT
	distmindctl -j doctor >"$work/doctor"
	holds "any(c['check'] == 'rdma' and c['status'] == '$1' and '$2' in c['finding'] and
		(c['status'] == 'ok' or c['fix']) for c in doctor['checks'])" doctor
}

# Others can connect: somebody listens on the device.
is_used() {
	doctor_says ok "distmindd uses $device" &&
		rdma resource show cm_id link $device/1 | grep -q "state LISTEN"
}

is_said() { # EVENT COUNT
	[ "$(grep -c "$1" "$work/daemon")" -eq "$2" ]
}

without_one_the_doctor_complains() {
	doctor_says fail "distmindd uses none" || return
	! distmindctl doctor
}

one_that_comes_is_used() {
	add_link && until_true is_used && until_true is_said rdma-found 1
}

one_that_goes_is_let_go_of() {
	delete_link $device && is_said rdma-lost 1 &&
		until_true doctor_says fail "distmindd uses none"
}

that_works_again_and_again() {
	local round

	for round in 2 3 4; do
		add_link && until_true is_used && delete_link $device &&
			is_said rdma-lost "$round" || return
	done
	add_link && until_true is_used && kill -0 "$daemon"
}

# Descriptors and memory of devices that went are not kept: only the one in use is open.
nothing_piles_up() {
	[ "$(find "/proc/$daemon/fd" -lname '/dev/infiniband/uverbs*' | wc -l)" -eq 1 ]
}

# The guest's own, on lo, which distmindd never used.
one_that_is_not_used_can_go() {
	rdma link show | grep -q "rxe0/" || return 0
	delete_link rxe0 && is_used && rdma link add rxe0 type rxe netdev lo
}

models_load_all_the_while() {
	"$infer" --file "$work/mlp.st" --json >"$work/file" &&
		distmindctl model push mlp "$work/mlp.st" && delete_link $device &&
		"$infer" --model mlp --json >"$work/without" && add_link && until_true is_used &&
		distmindctl model evict mlp && "$infer" --model mlp --json >"$work/again" &&
		holds "file['checksum'] == without['checksum'] == again['checksum'] and
			not again['cached']" file without again
}

it_ends_with_the_device_in_use() {
	is_used && stop TERM "$daemon" && delete_link $device
}

"$make_model" mlp "$work/mlp.st"
plan 8
ip link add $netdev type dummy && ip address add $address/24 dev $netdev && ip link set $netdev up
printf '[host]\naddress = %s\n\n[donor]\nmemory = 96M\n\n[catalog]\npath = %s/catalog\n' \
	$address "$work" >"$work/conf"
start_engine cpu0 256M
start_daemon --config "$work/conf"
check rdma_device.without_one_the_doctor_complains without_one_the_doctor_complains
check rdma_device.one_that_comes_is_used one_that_comes_is_used
check rdma_device.one_that_goes_is_let_go_of one_that_goes_is_let_go_of
check rdma_device.that_works_again_and_again that_works_again_and_again
check rdma_device.nothing_piles_up nothing_piles_up
check rdma_device.one_that_is_not_used_can_go one_that_is_not_used_can_go
check rdma_device.models_load_all_the_while models_load_all_the_while
check rdma_device.it_ends_with_the_device_in_use it_ends_with_the_device_in_use
[ $tap_failed -eq 0 ] || tail -n 40 "$work/daemon" | sed 's/^/# /'
ip link delete $netdev
finish
