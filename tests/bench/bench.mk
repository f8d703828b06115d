# SPDX-License-Identifier: GPL-2.0-or-later
# Benchmarks: each tests/bench/NAME.c but bench.c is a program; those called
# rdma* have verbs, those called policy* the module's policies.

BENCH := $(patsubst tests/bench/%.c,$(O)/bench/%,$(filter-out tests/bench/bench.c,$(wildcard tests/bench/*.c)))

.PHONY: benchmarks
benchmarks: $(BENCH)

$(O)/bench/policy: $(POLICY_SRC) $(POLICY_RBTREE)

$(O)/bench/%: tests/bench/%.c tests/bench/bench.c tests/bench/bench.h $(O)/lib/libdistmind.so
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iuapi -Iuserspace/libdistmind \
		$(if $(filter policy%,$*),$(POLICY_CFLAGS)) $(filter %.c,$^) -o $@ \
		-L$(O)/lib -ldistmind $(if $(filter rdma%,$*),-libverbs)
