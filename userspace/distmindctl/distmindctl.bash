# SPDX-License-Identifier: GPL-2.0-or-later
# Completion of distmindctl for bash.

# The values of a key ("id", "name") in the lists that distmindctl prints.
_distmindctl_values()
{
	local noun=$1 key=$2

	distmindctl -j "$noun" list 2>/dev/null |
		sed -n "s/.*[{ ]\"$key\": \"\\{0,1\\}\\([A-Za-z0-9._-]\\{1,\\}\\).*/\\1/p"
}

_distmindctl_verbs() # NOUN
{
	case $1 in
	gpu) echo list show drain undrain remove grace hang ;;
	vgpu) echo list show create set delete ;;
	buffer | claim | limit) echo list ;;
	model) echo list show push verify delete load evict replicas chmod chown ;;
	host) echo list show forget ;;
	pool) echo show explain repack ;;
	esac
}

# The words before the one that is completed, without options and their values:
# the noun, the verb and the arguments. Sets "words", and "end" when a "--" or
# the command of "run" came by.
_distmindctl_words()
{
	local i word skip=

	words=()
	end=
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $skip ]]; then
			skip=
			continue
		fi
		case $word in
		--)
			end=$((i + 1))
			return
			;;
		--memory | --share | --capped | --class | --objective | --gpu | --name | --uid | --gid | \
			--kind | --count | --timeout | --interval | --duration | --output | --svg | \
			--order | --replicas | --owner | --mode | --free)
			skip=1
			;;
		-*) ;;
		*)
			words+=("$word")
			if [[ ${words[0]} == run && ${#words[@]} -eq 2 ]]; then
				end=$i
				return
			fi
			;;
		esac
	done
}

_distmindctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local nouns="gpu vgpu buffer claim limit model host pool policy top trace monitor run doctor completion help version"
	local options="--json --dry-run --help"
	local terms="--memory --share --capped --class --objective"
	local choices="" words end

	COMPREPLY=()
	_distmindctl_words
	if [[ $end ]]; then
		# A command of its own; bash-completion knows how where it is there.
		if declare -F _command_offset >/dev/null; then
			_command_offset "$end"
		elif ((COMP_CWORD == end)); then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		return
	fi

	case $prev in
	--class) choices="best-effort standard latency" ;;
	--memory) choices="256M 512M 1G 4G" ;;
	--share) choices="10 25 50 100" ;;
	--capped) choices="yes no" ;;
	--objective) choices="1ms 10ms 100ms" ;;
	--timeout) choices="10s 30s 1min" ;;
	--interval) choices="100ms 1s 10s" ;;
	--duration) choices="1s 10s 1min" ;;
	--output | --svg | --order)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--gpu)
		choices="$(_distmindctl_values gpu id) $(_distmindctl_values gpu name)"
		[[ ${words[*]} == "vgpu set"* ]] && choices="none $choices"
		;;
	--kind) choices=$(_distmindctl_values gpu kind) ;;
	--uid | --owner) choices=$(compgen -u) ;;
	--gid) choices=$(compgen -g) ;;
	--replicas) choices="1 2 3" ;;
	--mode) choices="0644 0640 0600" ;;
	--name | --count | --free) return ;;
	*)
		case "${words[*]}" in
		"") choices="$nouns $options --version" ;;
		gpu | vgpu | buffer | claim | limit | model | host | pool)
			choices="$(_distmindctl_verbs "${words[0]}") $options"
			;;
		help) choices=$nouns ;;
		help\ [a-z]*) ((${#words[@]} > 2)) || choices=$(_distmindctl_verbs "${words[1]}") ;;
		"model show") choices="$(_distmindctl_values model name) --map --svg $options" ;;
		"model show "*) choices="--map --svg $options" ;;
		"model verify" | "model delete" | "model replicas" | "model chmod" | "model chown")
			choices="$(_distmindctl_values model name) $options"
			;;
		"model load" | "model evict") choices="$(_distmindctl_values model name) --gpu $options" ;;
		"model load "* | "model evict "*) choices="--gpu $options" ;;
		"model push") choices="--order --replicas --owner --mode $options" ;;
		"model push "*)
			# Files, unless an option was begun.
			if [[ $cur != -* ]]; then
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
				return
			fi
			choices="--order --replicas --owner --mode $options"
			;;
		"host forget") choices="$(_distmindctl_values host host) --force $options" ;;
		"host forget "*) choices="--force $options" ;;
		run) choices="$terms --kind --count --same-box --timeout --name $options --" ;;
		"pool explain")
			choices="$(_distmindctl_values vgpu id) $(_distmindctl_values vgpu name)"
			choices+=" $terms --kind --count --same-box $options"
			;;
		"pool repack") choices="--free $options" ;;
		policy) choices="fifo fair slo srpt $options" ;;
		"policy "*) choices="--gpu --all $options" ;;
		top) choices="--interval --once $options" ;;
		trace) choices="--gpu --duration --output --svg $options" ;;
		monitor) choices="--preempt $options" ;;
		"gpu show" | "gpu drain" | "gpu undrain" | "gpu remove" | "gpu grace" | "gpu hang")
			choices="$(_distmindctl_values gpu id) $(_distmindctl_values gpu name) $options"
			;;
		"gpu grace "* | "gpu hang "*) choices="100ms 1s 10s $options" ;;
		"vgpu show" | "vgpu delete")
			choices="$(_distmindctl_values vgpu id) $(_distmindctl_values vgpu name) $options"
			;;
		"vgpu set")
			choices="$(_distmindctl_values vgpu id) $(_distmindctl_values vgpu name)"
			choices+=" $terms --gpu $options"
			;;
		"vgpu set "*) choices="$terms --gpu $options" ;;
		"vgpu create") choices="$terms --gpu --name --uid --gid $options" ;;
		*) choices=$options ;;
		esac
		;;
	esac
	# An option only when one was begun, or there is nothing else to offer.
	if [[ $cur != -* && $choices == *[!-\ ]* ]]; then
		local word offered=
		for word in $choices; do
			[[ $word == -* ]] || offered+="$word "
		done
		[[ $offered ]] && choices=$offered
	fi
	mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
}

complete -F _distmindctl distmindctl
