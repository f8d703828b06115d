#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# Models of the memory pool on one host, which is donor and gpu host at once: stored,
# found again, computed with, shared, deleted.
# time-limit: 300
. tests/kselftest/common/tap.sh

make_model=$DISTMIND_SOURCE/tests/model/make-model
infer=$DISTMIND_BUILD/examples/infer

# Run something as a user who is nobody.
as_user() { # COMMAND...
	setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"
}

push() { # NAME OPTION...; leaves what was said in push_NAME
	local name=$1

	shift
	distmindctl -j model push "$name" "$@" >"$work/push_$name"
}

pushes() {
	push mlp "$work/mlp.st" && push transformer --order "$work/tr.st.order" "$work/tr.st" &&
		holds "all(p['models'][0]['sent_chunks'] == p['models'][0]['chunks'] and
			p['models'][0]['new_bytes'] > 0 for p in (push_mlp, push_transformer))" \
			push_mlp push_transformer
}

lists() {
	pool_keeps "models['mlp']['state'] == models['transformer']['state'] == 'available' and
		models['mlp']['resident'] == '' and len(hosts) == 1 and
		stored >= models['mlp']['bytes']"
}

shows() {
	distmindctl model show transformer --map --svg "$work/map.svg" &&
		distmindctl -j model show transformer --map >"$work/shown" &&
		holds "shown['models'][0]['groups'] == len(shown['groups']) and
			sum(m['chunks'] for m in shown['map']) == shown['models'][0]['chunks']" \
			shown && grep -q '</svg>' "$work/map.svg"
}

# The same bits from the pool and from the file. What this host gives to the pool itself
# is copied, and nothing is read from others.
same_bits() { # NAME FILE OPTION...
	local name=$1 file=$2

	shift 2
	"$infer" --file "$file" "$@" --json >"$work/file" &&
		"$infer" --model "$name" --json >"$work/pool" &&
		holds "pool['checksum'] == file['checksum'] and not pool['cached'] and
			pool['read_bytes'] == 0 and pool['groups'] > 1 and pool['jobs'] > 8" \
			file pool
}

cached() {
	"$infer" --model mlp --json >"$work/again" &&
		"$infer" --file "$work/mlp.st" --json >"$work/file" &&
		holds "again['cached'] and again['read_bytes'] == 0 and
			again['checksum'] == file['checksum']" again file &&
		pool_keeps "models['mlp']['resident'] == '$gpu'"
}

evicts() {
	distmindctl model evict mlp --gpu cpu0 && pool_keeps "models['mlp']['resident'] == ''"
}

unpipelined() {
	"$infer" --model mlp --unpipelined --verify --json >"$work/whole" &&
		"$infer" --file "$work/mlp.st" --json >"$work/file" &&
		holds "whole['checksum'] == file['checksum'] and not whole['cached']" whole file
}

in_form() { # FORM
	distmindctl model evict mlp && "$infer" --model mlp --form "$1" --json >"$work/form" &&
		"$infer" --file "$work/mlp.st" --json >"$work/file" &&
		holds "form['checksum'] == file['checksum'] and form['form'] == '$1'" form file
}

loads_ahead() {
	distmindctl model evict mlp && distmindctl model load mlp &&
		"$infer" --model mlp --json >"$work/ahead" &&
		holds "ahead['cached'] and ahead['read_bytes'] == 0" ahead
}

# A copy of which 5 % are other numbers.
tuned_copy_is_stored_once() {
	push tuned "$work/tuned.st" &&
		holds "all(m['new_bytes'] <= 0.07 * m['bytes'] for m in push_tuned['models'])" \
			push_tuned &&
		pool_keeps "models['tuned']['shared_bytes'] >= 0.93 * models['tuned']['bytes']"
}

tuned_copy_is_another_model() {
	"$infer" --model tuned --json >"$work/tuned" &&
		"$infer" --file "$work/tuned.st" --json >"$work/changed" &&
		"$infer" --model mlp --json >"$work/base" &&
		holds "tuned['checksum'] == changed['checksum'] != base['checksum'] and
			base['cached'] and not tuned['cached']" tuned changed base
}

same_again_stores_nothing() {
	push same "$work/mlp.st" &&
		holds "[m['new_bytes'] + m['sent_bytes'] for m in push_same['models']] == [0]" \
			push_same && distmindctl model delete same
}

verifies() {
	distmindctl model verify mlp && distmindctl model verify tuned
}

user_may_load() {
	as_user "$infer" --model mlp --json >"$work/user" &&
		"$infer" --file "$work/mlp.st" --json >"$work/file" &&
		holds "user['checksum'] == file['checksum']" user file &&
		as_user distmindctl model list | grep -q mlp
}

# With the capability that the tool looks at, so that it is the daemon who refuses.
# What is for root, and what the model's mode does not let others do.
user_may_not_change() {
	local verb refused=0

	for verb in "push stolen $work/mlp.st" "delete mlp" "evict mlp" "replicas mlp 2" \
		"chmod mlp 0666" "chown mlp 65534"; do
		# shellcheck disable=SC2086
		! setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps +net_admin \
			--ambient-caps +net_admin -- distmindctl model $verb 2>"$work/why" &&
			grep -q "not permitted\|may not change it" "$work/why" &&
			refused=$((refused + 1))
	done
	[ "$refused" -eq 6 ] && pool_keeps "'stolen' not in models and 'mlp' in models"
}

# 0640: root's group may, and others may not. Whose it is they see all the same.
others_need_the_right_to_read() {
	local user="setpriv --reuid 65534 --regid 65534 --clear-groups --"

	distmindctl model chmod mlp 0640 &&
		until_true eval '! $user distmindctl model show mlp 2>"$work/why"' &&
		grep -q "may not read it: it belongs to user 0" "$work/why" &&
		! $user "$infer" --model mlp --json 2>"$work/why" &&
		grep -q "may not read it" "$work/why" &&
		$user distmindctl model list | grep -q "mlp.*0640" &&
		distmindctl model chown mlp 65534 &&
		until_true $user distmindctl model show mlp >/dev/null &&
		$user distmindctl model chmod mlp 0600 &&
		until_true $user "$infer" --model mlp --json >"$work/own" &&
		distmindctl model chown mlp 0:0 && distmindctl model chmod mlp 0644 &&
		until_true $user distmindctl model show mlp >/dev/null
}

# A vgpu of 4 MB cannot use 40 MB of the gpu, whoever else does.
user_pays_for_what_he_loads() {
	push big "$work/big.st" &&
		! distmindctl run --memory 4M --share 0.1 -- "$infer" --model big 2>"$work/why" &&
		grep -q "of its quota are left" "$work/why" &&
		distmindctl model delete big
}

# A user acquires vgpus of 16 MB, one after the other, loads 7 MB for each, lets the vgpu go and
# keeps the weights in another process. The model is put out and the daemon told of nothing.
hoards() {
	/usr/bin/python3 - <<-'PYTHON'
		import json, os, socket, subprocess, sys
		LOADER = '''
		import json, os, socket, sys
		for fd in os.listdir("/proc/self/fd"):
		    try:
		        with open("/proc/self/fdinfo/" + fd) as info:
		            for line in info:
		                if line.startswith("distmind-vgpu:"):
		                    vgpu = int(line.split()[1])
		    except OSError:
		        pass
		daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		daemon.connect("/run/distmind/distmindd.sock")
		daemon.send(json.dumps({"op": "load", "model": "mlp", "vgpu": vgpu, "wait": True}).encode())
		answer, fds, _, _ = socket.recv_fds(daemon, 65536, 8)
		parent = socket.socket(fileno=int(sys.argv[1]))
		socket.send_fds(parent, [answer], fds[:1])
		'''
		LOADER = LOADER.replace("\n\t\t", "\n")
		def load():
		    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		    subprocess.run(["distmindctl", "run", "--memory", "16M", "--share", "1", "--",
		                    "/usr/bin/python3", "-c", LOADER, str(its.fileno())],
		                   pass_fds=[its.fileno()], check=True)
		    answer, fds, _, _ = socket.recv_fds(mine, 65536, 8)
		    answer = json.loads(answer)
		    print(answer)
		    return answer, fds
		kept = [load() for _ in range(4)]
		paid = [len(fds) for _, fds in kept]
		for _, fds in kept:
		    for fd in fds:
		        os.close(fd)
		again, _ = load()
		sys.exit(not (paid == [1, 1, 0, 0] and again["ok"] and kept[2][0]["errno"] == "EDQUOT"))
	PYTHON
}

user_pays_for_what_he_keeps() {
	export -f hoards
	as_user bash -c hoards && distmindctl model evict mlp && distmindctl buffer list
}

# A vgpu of root's stays root's, also where a user got its descriptor.
user_may_not_load_for_others() {
	! distmindctl run --memory 20M --share 10 -- setpriv --reuid 65534 --regid 65534 \
		--clear-groups -- "$infer" --model mlp 2>"$work/why" && cat "$work/why" &&
		grep -q "vgpu: .* is somebody else's" "$work/why"
}

bad_files_are_refused() {
	head -c 100000 "$work/mlp.st" >"$work/short.st"
	! distmindctl model push short "$work/short.st" 2>"$work/why" &&
		grep -q "short.st" "$work/why" &&
		! distmindctl model show short 2>"$work/why" &&
		grep -q "cannot show model short" "$work/why"
}

# The connection is the upload: when it ends nothing is left.
upload_ends_with_its_process() {
	distmindctl --dry-run model push gone "$work/flat.st" >"$work/would" &&
		grep -q "would store" "$work/would" &&
		until_true pool_keeps "'gone' not in models" &&
		! distmindctl model show gone 2>"$work/why"
}

delete_frees_what_nobody_shares() {
	distmindctl -j model delete tuned >"$work/freed" &&
		holds "0 < freed['models'][0]['freed_bytes'] <=
			0.07 * push_tuned['models'][0]['bytes']" \
			freed push_tuned && distmindctl model verify mlp &&
		same_bits_after mlp
}

same_bits_after() { # NAME
	distmindctl model evict "$1" && "$infer" --model "$1" --json >"$work/left" &&
		"$infer" --file "$work/$1.st" --json >"$work/file" &&
		holds "left['checksum'] == file['checksum']" left file
}

# By way of host memory it takes only a little more than itself.
more_than_half_of_the_gpu() {
	push big "$work/big.st" && "$infer" --file "$work/big.st" --json >"$work/file" &&
		"$infer" --model big --form staged --json >"$work/big" &&
		holds "2 * big['bytes'] > $memory << 20 and big['form'] == 'staged' and
			big['checksum'] == file['checksum']" big file &&
		distmindctl model delete big
}

delete_leaves_nothing() {
	distmindctl model delete mlp && distmindctl model delete transformer &&
		distmindctl -j model list && until_true pool_keeps "not models and stored == 0 and
			all(h['memory_free'] == h['memory_total'] for h in hosts.values())" &&
		! "$infer" --model mlp 2>"$work/why" && grep -q mlp "$work/why"
}

# A user who keeps connections open only keeps himself out.
user_may_not_crowd_others_out() {
	as_user /usr/bin/python3 -c '
import json, os, socket
held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(129)]
for one in held:
    one.connect("/run/distmind/distmindd.sock")
refusal = json.loads(held[-1].recv(65536))
print(refusal)
assert refusal["errno"] == "EUSERS" and "close others" in refusal["reason"]
held[0].send(json.dumps({"op": "list"}).encode())
assert json.loads(held[0].recv(65536))["ok"]
assert os.system("distmindctl model list") != 0' &&
		distmindctl model list
}

# 7 MB, so that a chunk more or less does not count.
"$make_model" mlp "$work/mlp.st" --width 640 --layers 6
"$make_model" transformer "$work/tr.st" --blocks 2
"$make_model" flat "$work/flat.st" --size 4000000
"$make_model" tune "$work/mlp.st" "$work/tuned.st" --share 0.05
"$make_model" mlp "$work/big.st" --width 1856 --layers 6
chmod 755 "$work"
memory=96
printf '[donor]\nmemory = 96M\n\n[catalog]\npath = %s/catalog\n' "$work" >"$work/conf"

plan 27
start_engine cpu0 ${memory}M
gpu=$(distmindctl -j gpu show cpu0 | grep -o '"id": [0-9]*' | head -n 1 | tr -dc 0-9)
start_daemon --config "$work/conf"
check push.stores_models pushes
check list.has_models_and_hosts lists
check show.draws_the_map shows
check load.of_an_mlp_gives_the_bits_of_the_file same_bits mlp "$work/mlp.st"
check load.again_is_cached cached
check load.of_a_transformer_gives_the_bits_of_the_file \
	same_bits transformer "$work/tr.st" --order "$work/tr.st.order"
check evict.puts_it_out evicts
check load.unpipelined_gives_the_same_bits unpipelined
check load.direct_gives_the_same_bits in_form direct
check load.staged_gives_the_same_bits in_form staged
check load.ahead_is_cached loads_ahead
check dedupe.stores_a_tuned_copy_once tuned_copy_is_stored_once
check dedupe.keeps_a_tuned_copy_apart tuned_copy_is_another_model
check dedupe.stores_nothing_of_the_same_again same_again_stores_nothing
check verify.finds_nothing_wrong verifies
check user.may_load user_may_load
check user.may_not_change user_may_not_change
check user.needs_the_right_to_read others_need_the_right_to_read
check user.pays_for_what_he_loads user_pays_for_what_he_loads
check user.pays_for_what_he_keeps user_pays_for_what_he_keeps
check user.may_not_load_for_others user_may_not_load_for_others
check user.may_not_crowd_others_out user_may_not_crowd_others_out
check push.refuses_bad_files bad_files_are_refused
check push.ends_with_its_process upload_ends_with_its_process
check delete.frees_what_nobody_shares delete_frees_what_nobody_shares
check load.staged_is_possible_for_more_than_half_of_the_gpu more_than_half_of_the_gpu
check delete.leaves_nothing delete_leaves_nothing
finish
