#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# part: userspace
# Models with the tensors and layers of today's, scaled in bytes and not in number, on one
# host: stored, shown, loaded in both forms with the bytes of the files, deleted. The
# largest only where processors are not emulated.
# time-limit: 600
. tests/kselftest/common/tap.sh

make_model=$DISTMIND_SOURCE/tests/model/make-model
compare=$DISTMIND_SOURCE/tests/model/compare-model

compares() { # FORM-OPTION NAME FILE...
	# shellcheck disable=SC2086
	distmindctl run --memory 64M --share 10 -- "$compare" $1 "${@:2}" >"$work/loaded"
}

# From the push to the deletion.
lives() { # NAME EXPRESSION FILES-TO-PUSH -- FILES-TO-COMPARE
	local name=$1 expression=$2 pushed=()

	shift 2
	while [ "$1" != -- ]; do
		pushed+=("$1")
		shift
	done
	shift
	distmindctl -j model push "$name" "${pushed[@]}" >"$work/pushed" &&
		distmindctl -j model show "$name" >"$work/shown" &&
		holds "$expression and shown['models'][0]['groups'] == len(shown['groups'])" \
			pushed shown &&
		compares "" "$name" "$@" && distmindctl model evict "$name" &&
		compares --staged "$name" "$@" && distmindctl model verify "$name" &&
		distmindctl model delete "$name" &&
		until_true pool_keeps "not models and stored == 0" && keeps_its_lease
}

# It never was so busy that others took it for dead.
keeps_its_lease() {
	! grep -E 'pool-(left|fenced)' "$work/daemon"
}

like() { # MODEL TENSORS
	"$make_model" like "$1" "$work/$1" --size 24000000 --shards 3 &&
		lives "$1" "shown['models'][0]['tensors'] == $2" \
			"$work/$1.safetensors.index.json" -- "$work/$1"-*.safetensors &&
		rm "$work/$1"*
}

flat() { # NAME TENSORS BYTES EMPTY
	"$make_model" flat "$work/$1.st" --tensors "$2" --size "$3" --empty "$4" &&
		lives "$1" "shown['models'][0]['tensors'] == $2" "$work/$1.st" -- "$work/$1.st" &&
		rm "$work/$1.st"
}

# All of them empty: there would be nothing to load.
refuses_nothing() {
	"$make_model" flat "$work/nothing.st" --tensors 2 --size 2 --empty 0,1 &&
		! distmindctl model push nothing "$work/nothing.st" 2>"$work/why" &&
		cat "$work/why" && grep -q "size: the model is empty: push one with tensors" "$work/why"
}

chmod 755 "$work"
printf '[donor]\nmemory = 96M\n\n[catalog]\npath = %s/catalog\n' "$work" >"$work/conf"

full=false
case $DISTMIND_GUEST in uml*) full=true ;; esac

plan "$($full && echo 9 || echo 5)"
start_engine cpu0 256M
start_daemon --config "$work/conf"
check shape.of_mixtral_8x7b_lives like mixtral-8x7b 995
check empty.first_tensor_is_loaded flat first 3 100000 0
check empty.last_tensor_is_loaded flat last 3 100001 2
check empty.tensors_around_another_are_loaded flat around 3 70001 0,2
check empty.model_is_refused refuses_nothing
if $full; then
	check shape.of_llama_2_70b_lives like llama-2-70b 723
	check shape.of_qwen3_30b_a3b_lives like qwen3-30b-a3b 18867
	check shape.of_22000_layers_lives flat layers 22000 22000000 ""
	check shape.of_more_than_65536_tensors_lives flat tensors 70000 35000000 ""
fi
finish
