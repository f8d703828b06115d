#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guests: 3
# time-limit: 400
#
# The memory pool of three hosts, with soft-RoCE between them:
#
#   host 1, 10.77.0.1   a gpu, and the catalog (etcd); gives no memory
#   host 2, 10.77.0.2   a donor
#   host 3, 10.77.0.3   a donor, whose daemon is killed and comes back
#
# Hosts 2 and 3 do what host 1 asks for by files in the directory that all share.
. tests/kselftest/common/tap.sh
. tests/cluster/common/hosts.sh

make_model=$DISTMIND_SOURCE/tests/model/make-model
infer=$DISTMIND_BUILD/examples/infer

[ "$DISTMIND_HOST" -eq 1 ] || be_donor 64M

all_hosts_join() {
	start_host && until_true pool_keeps "sorted(hosts) == ['host1', 'host2', 'host3']"
}

# Each donor has about half of the bytes, and this host, which only staged, none.
models_are_spread() {
	distmindctl model push --replicas 2 twice "$work/mlp.st" &&
		distmindctl model push once "$work/flat.st" &&
		until_true pool_keeps "models['once']['state'] == models['twice']['state'] == 'available'" &&
		until_true all_is_given && distmindctl model show once --map &&
		distmindctl -j model show once --map >"$work/map" &&
		grep -q host2 "$work/map" && grep -q host3 "$work/map" && ! grep -q host1 "$work/map"
}

same_bits() { # FORM
	"$infer" --file "$work/mlp.st" --json >"$work/file" &&
		"$infer" --model twice --form "$1" --json >"$work/pool" &&
		holds "pool['checksum'] == file['checksum'] and not pool['cached'] and
			pool['read_bytes'] > 0.99 * pool['bytes'] and pool['groups'] > 1" file pool &&
		distmindctl model evict twice
}

# A part of the model's bytes is other bytes on one of two donors: nobody gets them, the donor
# is named and has good ones again.
damage_is_found_and_repaired() {
	/usr/bin/python3 - "$work/mlp.st" "$DISTMIND_SHARED/patterns" <<-'PYTHON' || return
		import sys
		with open(sys.argv[1], "rb") as model, open(sys.argv[2], "wb") as patterns:
		    data = model.read()
		    step = len(data) // 17
		    for part in range(1, 17):
		        patterns.write(data[part * step:part * step + 64])
	PYTHON
	ask 3 damage1 && same_bits direct || return
	# Of a donor that was slow, the other one may have taken all over.
	for _ in 1 2 3 4 5 6 7 8; do
		pool_keeps "hosts['host3']['damaged'] > 0" && break
		same_bits direct || return
	done
	until_true pool_keeps "hosts['host3']['damaged'] > 0 and hosts['host2']['damaged'] == 0" &&
		grep -q 'event=chunk-damaged host=host3' "$work/daemon" &&
		until_true pool_keeps "models['twice']['copies'] == 2" || return
	# What the load has not read, and what was repaired and is damaged anew, is for verify.
	ask 3 damage2 && ! distmindctl model verify twice >"$work/bad" && cat "$work/bad" &&
		grep -q host3 "$work/bad" && ! grep -q host2 "$work/bad" &&
		until_true distmindctl model verify twice &&
		until_true pool_keeps "models['twice']['copies'] == 2" && distmindctl host list
}

# Read from donors three times in a row, which have room for another copy.
is_hot() {
	for _ in 1 2 3; do
		distmindctl model load once && distmindctl model evict once || return
	done
	pool_keeps "models['once']['extra_replicas'] == 1 and models['once']['copies'] == 2"
}

hot_model_is_copied() {
	until_true is_hot && pool_keeps "models['once']['replicas'] == 1 and
		models['twice']['extra_replicas'] == 0 and models['twice']['copies'] == 2" &&
		distmindctl model list
}

# Every chunk is on one donor again, and neither of them has all.
is_held_once() {
	distmindctl -j model show once --map >"$work/map" &&
		holds "sum(row['chunks'] for row in map['map']) == map['models'][0]['chunks'] and
			{row['host'] for row in map['map'] if row['chunks']} == {'host2', 'host3'}" map
}

cold_model_is_shed() {
	until_true pool_keeps "models['once']['extra_replicas'] == 0" && until_true is_held_once &&
		pool_keeps "models['once']['state'] == 'available' and models['once']['copies'] == 1" &&
		distmindctl model load once && distmindctl model evict once
}

# The other one has everything too.
survives_a_donor() {
	ask 3 kill1 && until_true pool_keeps "sorted(hosts) == ['host1', 'host2']" &&
		same_bits direct && until_true pool_keeps "models['twice']['state'] == 'scarce'"
}

# In words: which chunk, and which donor had it.
says_what_is_missing() {
	pool_keeps "models['once']['state'] in ('missing', 'away')" &&
		! distmindctl model load once 2>"$work/why" && cat "$work/why" &&
		grep -q host3 "$work/why"
}

# Who is there is not, and nothing is lost unless that is said.
is_forgotten_on_demand() {
	distmindctl host list | grep -q '^host3 .* away' &&
		! distmindctl host forget host2 2>"$work/why" && grep -q 'host2 is live' "$work/why" &&
		! distmindctl host forget host3 2>"$work/why" && grep -q 'of once: say --force' "$work/why" &&
		distmindctl host forget host3 --force | grep -q ': once$' &&
		until_true pool_keeps "models['once']['state'] == 'missing' and
			models['twice']['state'] == 'scarce'" && ! distmindctl host list | grep -q host3
}

# As if it had not been forgotten.
comes_back_with_its_spool() {
	ask 3 start1 && until_true pool_keeps "'host3' in hosts and
		models['once']['state'] == models['twice']['state'] == 'available'" &&
		distmindctl model verify once && distmindctl model load once
}

outlives_the_catalog() {
	kill -9 $etcd
	wait $etcd
	start_etcd && until_true pool_keeps "'once' in models and 'twice' in models and
		sorted(hosts) == ['host1', 'host2', 'host3']" && same_bits staged
}

# A copy of which 5 % are other numbers: the rest comes from the gpu, which has the base.
tuned_copy_reads_what_is_its_own() {
	distmindctl model push base "$work/base.st" && distmindctl model push tuned "$work/tuned.st" &&
		until_true pool_keeps "models['base']['state'] == models['tuned']['state'] == 'available'" &&
		until_true all_is_given &&
		"$infer" --model base --json >"$work/base" &&
		"$infer" --file "$work/tuned.st" --json >"$work/file" &&
		"$infer" --model tuned --json >"$work/tuned" &&
		holds "base['read_bytes'] > 0.99 * base['bytes'] and not tuned['cached'] and
			0 < tuned['read_bytes'] <= 0.07 * tuned['bytes'] and
			tuned['checksum'] == file['checksum'] != base['checksum']" base tuned file
}

# What was read for the first load is copied for the second.
evicted_model_is_not_read_again() {
	stop TERM $daemon
	printf '[cache]\nmemory = 32M\n' >>"$work/conf"
	start_host && until_true pool_keeps "len(hosts) == 3 and models['base']['state'] == 'available'" &&
		"$infer" --model base --json >"$work/base" &&
		until_true pool_keeps "cache['chunks'] == cache['misses'] > 0" &&
		distmindctl model evict base &&
		"$infer" --file "$work/base.st" --json >"$work/file" &&
		"$infer" --model base --json >"$work/again" &&
		holds "base['read_bytes'] > 0.99 * base['bytes'] and not again['cached'] and
			again['read_bytes'] == 0 and
			again['checksum'] == base['checksum'] == file['checksum']" base again file &&
		pool_keeps "cache['hits'] == cache['misses'] == cache['chunks']" &&
		distmindctl model delete tuned && distmindctl model delete base
}

# The memory that it comes through is used more than once.
comes_through_staging() {
	until_true pool_keeps "models['wide']['state'] == 'available'" && until_true all_is_given &&
		"$infer" --file "$work/wide.st" --json >"$work/file" &&
		"$infer" --model wide --form staged --json >"$work/wide" &&
		holds "wide['checksum'] == file['checksum'] and wide['form'] == 'staged' and
			wide['bytes'] > 16 << 20 and
			wide['read_bytes'] > 0.99 * wide['bytes']" wide file
}

larger_than_its_staging() {
	local rc=0

	distmindctl model push --replicas 2 wide "$work/wide.st" || return
	comes_through_staging || { rc=$?; distmindctl model show wide --map; distmindctl host list; }
	distmindctl model delete wide && return $rc
}

deletes() {
	distmindctl model delete once && distmindctl model delete twice && pool_keeps "not models"
}

plan 16
configure 0
echo "hot-half-life = 5s" >>"$work/conf"
"$make_model" mlp "$work/mlp.st"
# Small enough to be read three times within the half-life above on the slowest kernel.
"$make_model" flat --size 2097152 "$work/flat.st"
# 7 MB, so that a chunk more or less does not count.
"$make_model" mlp "$work/base.st" --width 640 --layers 6
"$make_model" tune "$work/base.st" "$work/tuned.st" --share 0.05
# None of its bytes are those of the others, which this host's cache has.
"$make_model" mlp "$work/wide.st" --seed 2 --width 1152 --layers 6
check catalog.starts start_etcd
start_engine cpu0 256M
vm-barrier catalog 3
check pool.has_all_hosts all_hosts_join
check push.spreads_chunks_over_donors models_are_spread
check load.has_the_bits_of_the_file same_bits direct
check load.finds_damage_and_has_it_repaired damage_is_found_and_repaired
check hot.gets_a_copy_of_its_own hot_model_is_copied
check hot.loses_it_when_it_has_cooled cold_model_is_shed
check donor.killed_leaves_its_replicas survives_a_donor
check donor.killed_is_named_by_loads_without_replica says_what_is_missing
check donor.is_forgotten_on_demand is_forgotten_on_demand
check donor.comes_back_with_its_spool comes_back_with_its_spool
check catalog.killed_loses_nothing outlives_the_catalog
check dedupe.reads_only_what_the_gpu_lacks tuned_copy_reads_what_is_its_own
check cache.brings_back_what_was_evicted evicted_model_is_not_read_again
check load.staged_may_be_larger_than_its_staging larger_than_its_staging
check delete.leaves_nothing deletes
end_hosts
finish
