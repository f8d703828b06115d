# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Waiting for other processes, in tests and demos. Wants a directory $work.

# Wait until a command succeeds, for at most 30 seconds; else show what it said last.
until_true() { # COMMAND...
	local deadline=$((SECONDS + 30))

	until "$@" >"$work/attempt" 2>&1; do
		if [ $SECONDS -ge $deadline ]; then
			echo "gave up waiting for: $*"
			cat "$work/attempt"
			return 1
		fi
		sleep 0.05
	done
}

stop() { # SIGNAL PID
	kill "-$1" "$2"
	wait "$2" 2>/dev/null || true
}
