#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What neighbours can do to others, in a guest whose clock counts instructions. Prints a
# line of JSON each.
set -e
insmod "$DISTMIND_MODULE"
insmod "$DISTMIND_IMPORTER"
# A neighbour is promised more than the gpu has, by who made its vgpu.
printf '[placement]\nmemory-overcommit = 1000%%\n' >/tmp/conf
# Nor does it say who gets the processor: those that serve come first.
chrt -f -p 1 "$(pgrep -x kdevtmpfs)"
chrt -f 1 distmindd --foreground --config /tmp/conf 2>/tmp/daemon &
daemon=$!
trap 'kill $daemon' EXIT
until distmindctl -j model list >/dev/null 2>&1; do
	sleep 0.1
done
"$DISTMIND_BUILD/bench/isolation"
