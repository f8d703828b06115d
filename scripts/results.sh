# SPDX-License-Identifier: GPL-2.0-or-later
# Results of checks, for shell scripts to source: one line per test in the
# file $RESULTS, "ok|not ok|skip NAME # REASON". $T, if set, is a pattern that
# selects tests by name, or by the name of a group of theirs.
# shellcheck shell=bash

: "${RESULTS:?names no file}"

# wanted NAME: whether $T selects that test.
wanted() {
	# shellcheck disable=SC2254  # a pattern it is
	case $1 in
	${T:-*} | ${T:-*}.*) return 0 ;;
	esac
	return 1
}

# result STATUS NAME [REASON]
result() {
	local line="$1 $2${3:+ # $3}"

	echo "$line"
	echo "$line" >>"$RESULTS"
}

# try NAME COMMAND...: one test, which is that the command succeeds. Its
# output is kept in $LOG and shown if it does not.
try() {
	local name=$1 log=${LOG:?names no directory}/$1.log

	shift
	wanted "$name" || return 0
	if "$@" >"$log" 2>&1 </dev/null; then
		result ok "$name"
	else
		tail -n 40 "$log"
		result "not ok" "$name" "see $log"
	fi
}

# summary FILE...: the last line of a check; fails if a test did, or none ran.
summary() {
	local passed failed skipped

	passed=$(cat "$@" | grep -c '^ok ')
	failed=$(cat "$@" | grep -c '^not ok ')
	skipped=$(cat "$@" | grep -c '^skip ')
	if [ "$failed" -gt 0 ]; then
		echo "failed:"
		cat "$@" | sed -n 's/^not ok /  /p'
	fi
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] && [ "$((passed + skipped))" -gt 0 ]
}
