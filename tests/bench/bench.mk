# SPDX-License-Identifier: GPL-2.0-or-later
# Benchmarks: each tests/bench/NAME.c but bench.c is a program for a guest, those
# called rdma* with verbs, those called load* with the code of the memory pool; each
# tests/bench/native/NAME.c is one that needs no guest, linked with the libraries of
# userspace/, and policy with the module's policies.

BENCH := $(patsubst tests/bench/%.c,$(O)/bench/%,$(filter-out tests/bench/bench.c, \
	$(wildcard tests/bench/*.c tests/bench/native/*.c)))
BENCH_CFLAGS = -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iuapi \
	-Iuserspace/libdistmind -Itests/bench
BENCH_POOL = $(call us_objects,$(PLACEMENT_SRC) $(ROUTER_SRC) $(PLANNER_SRC) $(SHARDING_SRC) \
	$(MODEL_SRC) $(filter-out userspace/sim/main.c,$(SIM_SRC)) $(COMMON_SRC))

BENCH_COMMON := tests/bench/bench.c $(wildcard tests/bench/*.h) $(LIB_LINK)

.PHONY: benchmarks
benchmarks: $(BENCH)

$(O)/bench/native/policy: tests/bench/native/policy.c $(POLICY_SRC) $(POLICY_RBTREE) \
		$(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $(POLICY_CFLAGS) $(filter %.c,$^) -o $@ -L$(O)/lib -ldistmind

# The daemon's own code, with what tests put in the place of the kernel.
$(O)/bench/native/loop: tests/bench/native/loop.c $(wildcard tests/unit/*.h) \
		$(call us_objects,$(filter-out userspace/distmindd/main.c,$(DAEMON_SRC)) $(PLACEMENT_SRC) \
		$(CATALOG_SRC) $(MEMORY_SRC) $(MODEL_SRC) $(SHARDING_SRC) $(PLANNER_SRC) $(COMMON_SRC) \
		$(MESSAGE_SRC)) $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $(filter %.c %.o,$^) -o $@ -L$(O)/lib -ldistmind -Wl,--as-needed \
		$(SYSTEMD_LIBS) -lcmocka -lcurl -lcrypto -lxxhash -ljansson -lsqlite3 -libverbs -lrdmacm \
		-linih -pthread -lm

$(filter-out $(O)/bench/native/policy $(O)/bench/native/loop,$(filter $(O)/bench/native/%,$(BENCH))): \
		$(O)/bench/native/%: tests/bench/native/%.c $(BENCH_POOL) $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $(filter %.c %.o,$^) -o $@ -L$(O)/lib -ldistmind \
		-Wl,--as-needed -lsmartcols -ljansson -lcrypto -lxxhash -lglpk -linih -lm

$(O)/bench/load: $(call us_objects,$(MEMORY_SRC) $(MODEL_SRC) $(COMMON_SRC))

$(filter-out $(O)/bench/native/%,$(BENCH)): $(O)/bench/%: tests/bench/%.c $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $(filter %.c %.o,$^) -o $@ \
		-L$(O)/lib -ldistmind $(if $(filter rdma%,$*),-libverbs) \
		$(if $(filter load%,$*),-libverbs -lrdmacm -lcrypto -lxxhash -ljansson -linih -pthread) -lm
