#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demo on the host that has the gpus. A step that does not hold ends it.
set -euo pipefail

work=$(mktemp -d)

step() {
	printf '\n== %s\n' "$*"
}

show() {
	printf '$ %s\n' "$*"
	"$@"
}

. tests/kselftest/common/wait.sh

gpu_is() { # NAME STATE
	distmindctl -j gpu list | python3 -c '
import json, sys
gpus = json.load(sys.stdin)["gpus"]
sys.exit(not any(g["name"] == sys.argv[1] and g["state"] == sys.argv[2] for g in gpus))' "$@"
}

vgpu_is_on() { # NAME GPU
	distmindctl -j vgpu list | python3 -c '
import json, sys
vgpus = json.load(sys.stdin)["vgpus"]
sys.exit(not any(v["name"] == sys.argv[1] and v["gpu"] == int(sys.argv[2]) for v in vgpus))' "$@"
}

step "A host with two gpus of 256 MiB and a daemon that decides"
insmod "$DISTMIND_MODULE"
distmind-engine-cpu --name cpu0 --memory 256M >/dev/null &
engine0=$!
until_true gpu_is cpu0 ready
distmind-engine-cpu --name cpu1 --memory 256M >/dev/null &
engine1=$!
distmindd --foreground 2>/tmp/distmindd.log &
daemon=$!
until_true gpu_is cpu1 ready
show distmindctl

step "An application acquires a vgpu, fills a buffer and offers it by RDMA"
mkfifo /tmp/check
"$DISTMIND_BUILD/demo/remote_memory" serve 10.77.0.1 </tmp/check >/tmp/app.log &
app=$!
exec 3>/tmp/check
until_true grep -q offering /tmp/app.log
head -1 /tmp/app.log
show distmindctl
vm-barrier offered 2

step "The other host reads and writes that memory"
vm-barrier visited 2
until_true grep -q "visitor wrote" /tmp/app.log
tail -1 /tmp/app.log

step "A second tenant asks for more than the pool has, and is told so"
printf '$ distmindctl run --memory 1G -- true\n'
if distmindctl run --memory 1G -- true 2>/tmp/refusal; then
	echo "demo: the pool gave what it does not have" >&2
	exit 1
fi
cat /tmp/refusal

step "A tenant within its quota gets exactly that"
show distmindctl run --memory 32M --share 25 --name tenant -- distmindctl vgpu list

step "The engine of the application's gpu is killed: the vgpu moves, its memory stays"
stop KILL $engine0
until_true gpu_is cpu0 lost
until_true vgpu_is_on app 1
echo check >&3
until_true grep -q intact /tmp/app.log
tail -1 /tmp/app.log
show distmindctl

step "The application leaves; its lease ends with it"
exec 3>&-
wait $app
show distmindctl vgpu list
kill $engine1
wait $engine1

step "Training fills a gpu; inference with an objective of 50 ms shares it"
tests/demo/sharing.sh

kill $daemon
wait $daemon
rmmod distmind
dmesg | sed -n 's/.*distmind: //p' | tail -1
