# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the guest tests in shell share: TAP, the processes of a pool, waiting.
. tests/kselftest/common/wait.sh

tap_number=0
tap_failed=0
work=$(mktemp -d)

plan() { # COUNT
	echo "TAP version 13"
	echo "1..$1"
}

# A test: name it, and the command that proves it.
check() { # NAME COMMAND...
	local name=$1 rc=0

	shift
	tap_number=$((tap_number + 1))
	"$@" >"$work/output" 2>&1 || rc=$?
	if [ $rc -eq 0 ]; then
		echo "ok $tap_number $name"
	else
		echo "not ok $tap_number $name"
		sed 's/^/# /' "$work/output"
		echo "# $*: exit code $rc"
		tap_failed=1
	fi
}

finish() {
	exit $tap_failed
}

# Whether something of the pool is so: a Python expression over gpus and vgpus.
pool_has() { # EXPRESSION
	distmindctl -j | /usr/bin/python3 -c '
import json, sys
pool = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1], {"gpus": pool["gpus"], "vgpus": pool["vgpus"]}))' "$1"
}

# Whether the memory pool is so: a Python expression over models and live hosts, both
# by their names, the bytes stored, and the cache of this host.
pool_keeps() { # EXPRESSION
	distmindctl -j model list | /usr/bin/python3 -c '
import json, sys
told = json.load(sys.stdin)
print(told)
sys.exit(not eval(f"({sys.argv[1]})", {
    "models": {m["name"]: m for m in told["models"]},
    "hosts": {h["host"]: h for h in told["hosts"] if h["state"] == "live"},
    "stored": told["pool"][0]["stored_bytes"],
    "cache": told["cache"][0] if told["cache"] else None}))' "$1"
}

# Whether something holds: a Python expression over JSON files in $work, by their names.
holds() { # EXPRESSION NAME...
	/usr/bin/python3 -c '
import json, sys
work, expression, *names = sys.argv[1:]
told = {name: json.load(open(f"{work}/{name}")) for name in names}
print(*(f"{name}: {value}" for name, value in told.items()), sep="\n")
sys.exit(not eval(f"({expression})", told))' "$work" "$@"
}

start_engine() { # NAME MEMORY OPTION...; sets $engine
	distmind-engine-cpu --name "$1" --memory "$2" "${@:3}" >"$work/engine.$1" 2>&1 &
	engine=$!
	until_true pool_has "any(g['name'] == '$1' and g['state'] == 'ready' for g in gpus)"
}

start_daemon() { # ARGUMENT...; sets $daemon
	distmindd --foreground "$@" >"$work/daemon" 2>&1 &
	daemon=$!
	until_true distmindctl run --memory 4K --share 0.1 --timeout 1s -- true
}

# Whatever happens, nothing stays behind: neither processes nor lost gpus.
clean_up() {
	local process gpu

	for process in $(jobs -p); do
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	for gpu in $(distmindctl -j gpu list | /usr/bin/python3 -c '
import json, sys
print(*(g["id"] for g in json.load(sys.stdin)["gpus"]))'); do
		distmindctl gpu remove "$gpu"
	done
	rm -rf "$work"
}
trap clean_up EXIT
