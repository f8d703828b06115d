# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What several hosts with one memory pool share: the daemon of each, the catalog on
# host 1, and donors that do what host 1 asks for by files in the directory that all
# share. Wants wait.sh and a directory $work; be_donor all of tap.sh.

# The file that describes this host's part; what a volatile host gives is lost with its
# daemon.
configure() { # MEMORY [volatile]
	local spool="spool = $work/spool"

	[ "${2:-}" != volatile ] || spool=
	cat >"$work/conf" <<-CONF
		[host]
		name = host$DISTMIND_HOST
		address = 10.77.0.$DISTMIND_HOST
		[donor]
		memory = $1
		$spool
		[catalog]
		kind = etcd
		endpoints = http://10.77.0.1:2379
		[models]
		socket = $work/socket
	CONF
	export DISTMIND_SOCKET=$work/socket
}

start_host() { # sets $daemon
	distmindd --foreground --config "$work/conf" >>"$work/daemon" 2>&1 &
	daemon=$!
	until_true test -S "$work/socket"
}

start_etcd() { # sets $etcd
	etcd --data-dir "$work/etcd" --listen-client-urls http://10.77.0.1:2379 \
		--advertise-client-urls http://10.77.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 \
		--initial-advertise-peer-urls http://127.0.0.1:2380 \
		--initial-cluster default=http://127.0.0.1:2380 >>"$work/etcd.log" 2>&1 &
	etcd=$!
	until_true etcdctl --endpoints http://10.77.0.1:2379 get x
}

# Of what was pushed here this host, which is no donor, has given all away: loads have to read
# it from others. Its spool has a file for each chunk that it still has.
all_is_given() {
	[ -z "$(ls -A "$work/spool")" ] || { ls "$work/spool"; false; }
}

# Ask a donor for something, and wait until it is done.
ask() { # HOST WHAT
	touch "$DISTMIND_SHARED/ask.$1.$2"
	until_true test -e "$DISTMIND_SHARED/done.$1.$2"
}

# Change a byte wherever the daemon's memory has one of the patterns that somebody left: as a
# host with bad memory would.
damage_memory() {
	/usr/bin/python3 - "$daemon" "$DISTMIND_SHARED/patterns" <<'PYTHON'
import sys
with open(sys.argv[2], "rb") as file:
    data = file.read()
patterns = [data[at:at + 64] for at in range(0, len(data), 64)]
changed = 0
with open(f"/proc/{sys.argv[1]}/maps") as maps, \
     open(f"/proc/{sys.argv[1]}/mem", "r+b", buffering=0) as memory:
    for line in maps:
        fields = line.split()
        begin, end = (int(number, 16) for number in fields[0].split("-"))
        # The arena is the only one of this size.
        if not fields[1].startswith("rw") or end - begin < 32 << 20:
            continue
        memory.seek(begin)
        data = b""
        while len(data) < end - begin and (part := memory.read(end - begin - len(data))):
            data += part
        for pattern in patterns:
            at = data.find(pattern)
            if at >= 0:
                memory.seek(begin + at)
                memory.write(bytes([pattern[0] ^ 1]))
                changed += 1
print("changed", changed, "of", len(patterns))
sys.exit(not changed)
PYTHON
}

# What a donor does until it is told to end.
serve() {
	local order netdev

	while :; do
		for order in "$DISTMIND_SHARED/ask.$DISTMIND_HOST".*; do
			[ -e "$order" ] || continue
			rm "$order"
			case ${order##*.} in
			kill*)
				stop KILL $daemon
				rm -f "$work/socket"
				;;
			start*) start_host || return ;;
			# The order is not acknowledged if it hangs.
			unlink*)
				netdev=$(rdma link show rxe0/1 | sed 's/.* netdev \([^ ]*\).*/\1/')
				timeout 15 rdma link delete rxe0 || return
				;;
			relink*) rdma link add rxe0 type rxe netdev "$netdev" || return ;;
			damage*) damage_memory || return ;;
			end)
				stop TERM $daemon
				cp "$work/daemon" "$DISTMIND_SHARED/daemon.$DISTMIND_HOST"
				touch "$DISTMIND_SHARED/done.$DISTMIND_HOST.end"
				return 0
				;;
			esac
			touch "$DISTMIND_SHARED/done.$DISTMIND_HOST.${order##*.}"
		done
		sleep 0.05
	done
}

# The end of a test for all hosts, told by host 1. If something has failed, what their daemons
# have said is told too.
end_hosts() {
	local host

	for host in 2 3; do
		ask $host end
	done
	stop TERM "$daemon"
	cp "$work/daemon" "$DISTMIND_SHARED/daemon.1"
	[ $tap_failed -ne 0 ] || return 0
	for host in 1 2 3; do
		tail -n 100 "$DISTMIND_SHARED/daemon.$host" | sed "s/^/# host$host: /"
	done
}

# All that a donor does in a test of three hosts.
be_donor() { # MEMORY
	plan 1
	configure "$1"
	vm-barrier catalog 3
	donate() { start_host && serve; }
	check donor.serves donate
	[ $tap_failed -eq 0 ] || tail -n 50 "$work/daemon" | sed 's/^/# /'
	finish
}
