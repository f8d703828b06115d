#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# The first five minutes of README.md, line by line as they stand there, on the defaults
# of daemon and engine. A line is a test; what it says is in the log if it fails.
# time-limit: 240
# processors: 1 (see tests/vm/harness/processors.py)
. tests/kselftest/common/tap.sh

# The lines of the first block after the heading.
lines() {
	awk '/^## The first five minutes/ { found = 1 }
		found && /^```/ { if (inside++) exit; next }
		inside' README.md
}

# An engine as its unit starts it, with the configuration that is installed.
start_as_installed() {
	local MEMORY BOX OPTIONS

	. userspace/engines/cpu/engine-cpu0.conf
	# shellcheck disable=SC2086
	start_engine cpu0 "$MEMORY" --box "$BOX" $OPTIONS &&
		start_daemon --config "$DISTMIND_SOURCE/userspace/distmindd/distmindd.conf"
}

# What ends with Ctrl-C must be there until then, and say something.
interrupted() { # LINE
	local rc=0

	timeout --foreground --signal INT 2 bash -c "$1" >"$work/shown" || rc=$?
	cat "$work/shown"
	[ $rc -eq 124 ]
}

whole() { # LINE
	bash -c "$1"
}

lines >"$work/lines"
plan $(($(wc -l <"$work/lines") + 2))
check readme.has_lines [ "$(wc -l <"$work/lines")" -gt 10 ]
check readme.installed_defaults_start start_as_installed
number=0
cd "$work" || exit
"$DISTMIND_SOURCE/tests/model/make-model" mlp model.safetensors --width 256 --layers 8
while read -r line; do
	case $line in
	*'ends with Ctrl-C'*) how=interrupted ;;
	*) how=whole ;;
	esac
	command=${line%%  *#*}
	number=$((number + 1))
	name=$(tr -cs 'a-z0-9\n' _ <<<"${command#distmindctl}" | cut -c 2-40 | sed 's/_$//')
	check "readme.line$number.${name:-bare}" $how "$command" <&-
done <"$work/lines"
cd "$DISTMIND_SOURCE" || exit
finish
