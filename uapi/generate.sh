#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Generate the netlink family's C from uapi/distmind.yaml with the kernel's own
# YNL generator. usage: generate.sh LINUX-SOURCE OUTPUT-DIR
#
# The generator wants its schema one directory above an absolute --spec path,
# and looks for a file named MAINTAINERS above its working directory for ever
# if there is none: hence the small tree it is run in. The table of multicast
# groups is left to kmod/netlink.c, which adds who may join.
set -eu
mkdir -p "$2/uapi/linux" "$2/kmod"
linux=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/uapi"
touch "$tree/MAINTAINERS"
cp "$linux"/Documentation/netlink/*.yaml "$tree/"
cp "$here/distmind.yaml" "$tree/uapi/"
cd "$tree"
gen() {
	/usr/bin/python3 "$linux/tools/net/ynl/ynl-gen-c.py" \
		--spec "$tree/uapi/distmind.yaml" "$@"
}
gen --mode uapi --header -o "$out/uapi/linux/distmind_netlink.h"
gen --mode kernel --header -o "$out/kmod/netlink-gen.h"
gen --mode kernel --source -o netlink-gen.c
sed '/^static const struct genl_multicast_group/,$d' netlink-gen.c |
	sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$out/kmod/netlink-gen.c"
