#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The installed units under a live systemd: what starts them, what they may not do and
# still can, what brings them back, and what they leave behind.
#
# Wants a guest with systemd and, in $DISTMIND_BUILD/systemd, what "make install" made.
# time-limit: 900
PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset LD_LIBRARY_PATH
. tests/kselftest/common/tap.sh

daemon=distmindd.service
engine=distmind-engine-cpu@cpu0.service
conf=/etc/distmind/distmindd.conf
infer=$DISTMIND_BUILD/examples/infer

# All but the module, which comes later.
install_files() {
	tar -C "$DISTMIND_BUILD/systemd" -c etc usr |
		tar -C / -x --keep-directory-symlink --no-overwrite-dir
	ldconfig
	printf '[donor]\nspool = /var/lib/distmind/spool\n' >$conf
	udevadm control --reload
	systemctl daemon-reload
}

# An address for the memory pool, and an RDMA device that has it.
add_network() {
	modprobe -q dummy
	ip link add distmind0 type dummy
	ip address add 10.78.0.1/24 dev distmind0
	ip link set distmind0 up
	rdma link add distmind0 type rxe netdev distmind0
}

shown() { # UNIT PROPERTY
	systemctl show --property "$2" --value "$1"
}

is() { # UNIT PROPERTY VALUE
	[ "$(shown "$1" "$2")" = "$3" ] || {
		systemctl status --no-pager "$1"
		return 1
	}
}

logged() { # EVENT
	journalctl --quiet --no-pager -u $daemon "DISTMIND_EVENT=$1" | grep .
}

gpu_is() { # NAME STATE
	pool_has "any(g['name'] == '$1' and g['state'] == '$2' for g in gpus)"
}

node_is() { # NODE "MODE UID"
	[ "$(stat -c '%a %u' "/dev/distmind/$1")" = "$2" ] || {
		ls -ln /dev/distmind
		return 1
	}
}

unload() {
	systemctl stop $engine $daemon && distmindctl gpu remove cpu0
	rmmod distmind
}

units_are_right() {
	systemd-analyze verify --man=yes $daemon $engine >"$work/complaints" 2>&1
	local rc=$?

	cat "$work/complaints"
	[ $rc -eq 0 ] && [ ! -s "$work/complaints" ]
}

little_is_exposed() {
	systemd-analyze security --no-pager --threshold=30 "$1" >"$work/exposure"
	local rc=$?

	tail -n 1 "$work/exposure" | tee -a "$work/exposures"
	return $rc
}

a_missing_module_is_named() {
	! systemctl start $daemon && is $daemon ExecMainStatus 69 && is $daemon ActiveState failed &&
		logged no-module | grep "modprobe distmind" &&
		! systemctl start $engine && is $engine ExecMainStatus 69 &&
		is $engine ActiveState failed &&
		journalctl --quiet --no-pager -u $engine | grep "modprobe distmind"
}

# The module is installed, but nobody has loaded it.
enabled_units_come_with_the_host() {
	mount --bind "$DISTMIND_BUILD/systemd/lib/modules" /lib/modules &&
		systemctl reset-failed && systemctl enable $daemon $engine &&
		systemctl start multi-user.target && is $daemon ActiveState active &&
		is $engine ActiveState active && gpu_is cpu0 ready
}

the_module_brings_the_daemon() {
	unload && modprobe distmind && until_true is $daemon ActiveState active
}

an_engine_puts_its_gpu_into_the_pool() {
	systemctl start $engine && gpu_is cpu0 ready && distmindctl
}

an_instance_has_its_own_options() {
	printf 'MEMORY=64M\nBOX=3\nOPTIONS=--kind other --lanes 2\n' >/etc/distmind/engine-cpu1.conf
	systemctl start distmind-engine-cpu@cpu1 &&
		pool_has "any(g['name'] == 'cpu1' and g['memory'] == 64 << 20 and g['box'] == 3 and
			g['kind'] == 'other' for g in gpus)"
}

# An operator removes the gpu, and does not want it back.
an_engine_whose_gpu_was_removed_stays_away() {
	distmindctl gpu remove cpu1 && until_true is distmind-engine-cpu@cpu1 ActiveState failed &&
		is distmind-engine-cpu@cpu1 ExecMainStatus 69 &&
		pool_has "all(g['name'] != 'cpu1' for g in gpus)"
}

box_id() {
	distmindctl -j vgpu show box | grep -o '"id": [0-9]*' | head -n 1 | tr -dc 0-9
}

nodes_are_whose_they_should_be() {
	distmindctl vgpu create --name box --gpu cpu0 --memory 8M --share 10 --uid 1000 || return
	udevadm settle
	node_is control "666 0" && node_is engine "600 0" && node_is "vgpu$(box_id)" "600 1000"
}

# More than the usual limit of 8M, which binds whoever lacks both of these.
donated_memory_is_pinned() {
	local pid

	pid=$(shown $daemon MainPID)
	grep VmPin "/proc/$pid/status"
	[ "$(sed -n 's/^VmPin:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")" -ge 65536 ] &&
		is $daemon LimitMEMLOCK infinity
}

readers_are_listened_to() {
	! logged no-rdma && rdma resource show cm_id | tee "$work/cm" &&
		grep "state LISTEN .*comm distmindd src-addr 10.78.0.1:7471" "$work/cm"
}

same_bits() {
	"$infer" --model mlp --json >"$work/pool" && "$infer" --file "$work/mlp.st" --json >"$work/file" &&
		holds "pool['checksum'] == file['checksum']" pool file
}

models_are_stored_and_computed_with() {
	distmindctl model push mlp "$work/mlp.st" && same_bits
}

# What the pool had before is there again: the vgpu where it was, and the model.
everything_is_there() {
	pool_has "any(v['name'] == 'box' and v['state'] == 'bound' for v in vgpus)" &&
		until_true pool_keeps "models['mlp']['state'] == 'available'" && same_bits
}

a_restart_changes_nothing() {
	systemctl restart $daemon && everything_is_there
}

is_back() { # UNIT PID; another process serves it
	is "$1" ActiveState active && [ "$(shown "$1" MainPID)" != "$2" ]
}

comes_back() { # UNIT SIGNAL
	local pid

	pid=$(shown "$1" MainPID)
	systemctl kill --signal "$2" "$1" && until_true is_back "$1" "$pid"
}

a_killed_daemon_comes_back() {
	comes_back $daemon KILL && is $daemon NRestarts 1 && everything_is_there
}

# Stopped, it does not tell that it is well. Thirty seconds are long for a test.
a_stuck_daemon_comes_back() {
	mkdir -p /run/systemd/system/$daemon.d
	printf '[Service]\nWatchdogSec=10\n' >/run/systemd/system/$daemon.d/watchdog.conf
	systemctl daemon-reload && systemctl restart $daemon && comes_back $daemon STOP &&
		journalctl --quiet --no-pager -u $daemon | grep "Watchdog timeout" &&
		rm -r /run/systemd/system/$daemon.d && systemctl daemon-reload &&
		systemctl restart $daemon && everything_is_there
}

a_reload_takes_the_configuration() {
	local pid

	pid=$(shown $daemon MainPID)
	systemctl reload $daemon && until_true logged config-reloaded && is $daemon MainPID "$pid"
}

a_bad_configuration_is_not_tried_again() {
	cp $conf "$work/conf"
	printf '[log]\nlevel = loud\n' >$conf
	! systemctl restart $daemon && is $daemon ActiveState failed && is $daemon NRestarts 0 &&
		is $daemon ExecMainStatus 78 && logged config-refused | grep "$conf:2:" &&
		cp "$work/conf" $conf && systemctl start $daemon && everything_is_there
}

a_killed_engine_comes_back() {
	comes_back $engine KILL && gpu_is cpu0 ready && until_true everything_is_there
}

stopped_units_leave_nothing() {
	distmindctl vgpu delete box
	systemctl stop $engine $daemon && is $engine ActiveState inactive &&
		is $daemon ActiveState inactive && ! pgrep --list-name distmind &&
		! ls /run/distmind/distmindd.sock && ! rdma resource show cm_id | grep distmindd &&
		! rdma resource show mr | grep distmindd && gpu_is cpu0 lost
}

install_files
add_network
"$DISTMIND_SOURCE/tests/model/make-model" mlp "$work/mlp.st" --width 256 --layers 4

plan 20
check units.are_right units_are_right
check daemon.is_little_exposed little_is_exposed $daemon
check engine.is_little_exposed little_is_exposed $engine
check module.that_is_missing_is_named a_missing_module_is_named
check boot.brings_what_is_enabled enabled_units_come_with_the_host
check module.brings_the_daemon the_module_brings_the_daemon
check engine.puts_its_gpu_into_the_pool an_engine_puts_its_gpu_into_the_pool
check engine.has_the_options_of_its_instance an_instance_has_its_own_options
check engine.stays_away_when_its_gpu_is_removed an_engine_whose_gpu_was_removed_stays_away
check nodes.are_whose_they_should_be nodes_are_whose_they_should_be
check daemon.pins_what_it_donates donated_memory_is_pinned
check daemon.listens_to_readers readers_are_listened_to
check daemon.serves_models models_are_stored_and_computed_with
check daemon.restarts_without_loss a_restart_changes_nothing
check daemon.comes_back_when_killed a_killed_daemon_comes_back
check daemon.comes_back_when_stuck a_stuck_daemon_comes_back
check daemon.reloads a_reload_takes_the_configuration
check daemon.is_not_tried_again_with_a_bad_configuration a_bad_configuration_is_not_tried_again
check engine.comes_back_when_killed a_killed_engine_comes_back
check units.leave_nothing_when_stopped stopped_units_leave_nothing
sed 's/^/# /' "$work/exposures"
finish
