#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The benchmarks of the memory pool, in two guests with soft-RoCE between them:
#
#   host 1, 10.77.0.1   a gpu with a paced profile, and the catalog (etcd)
#   host 2, 10.77.0.2   a donor, which has the models
#
# Prints a line of JSON each, on host 1.
set -e
. tests/kselftest/common/tap.sh
. tests/cluster/common/hosts.sh

# The logs go with the rest, so that a failure shows them first.
end() {
	[ $? -eq 0 ] || tail -n 20 "$work"/{daemon,engine.*,*.log} >&2 || true
	clean_up
}
trap end EXIT

insmod "$DISTMIND_MODULE"
if [ "$DISTMIND_HOST" -ne 1 ]; then
	mkfifo "$work/hold"
	"$DISTMIND_BUILD/bench/load" serve 10.77.0.2 <"$work/hold" >"$work/serve.log" 2>&1 &
	exec 3>"$work/hold"
	until_true grep -q ready "$work/serve.log"
	vm-barrier donor 2
	vm-barrier catalog 2 300
	exec 3>&-
	configure 192M volatile
	start_host
	vm-barrier measured 2 600
	exit
fi

vm-barrier donor 2
"$DISTMIND_BUILD/bench/load" read 10.77.0.1 10.77.0.2

start_etcd
vm-barrier catalog 2
# It does not compute: a gpu would not do it with the processor that soft-RoCE needs.
printf '[compute]\ngflops = 1\nexecute = no\n' >"$work/profile"
start_engine cpu0 256M --profile "$work/profile"
configure 0 volatile
start_host
until_true pool_keeps "len(hosts) == 2"

for seed in 1 2; do
	"$DISTMIND_SOURCE/tests/model/make-model" mlp "$work/model.st" --seed $seed \
		--width 720 --inputs 720 --classes 720 --layers 40
	until_true distmindctl model push --order "$work/model.st.order" model$seed "$work/model.st"
	rm "$work/model.st"
done
# None on this host, which would copy them instead of reading.
until_true pool_keeps "all(m['state'] == 'available' for m in models.values()) and
	hosts['host1']['memory_free'] == hosts['host1']['memory_total'] and
	hosts['host2']['memory_free'] < hosts['host2']['memory_total']"
"$DISTMIND_BUILD/bench/load_model" model1 model2
vm-barrier measured 2
