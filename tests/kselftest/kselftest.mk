# SPDX-License-Identifier: GPL-2.0-or-later
#
# Guest tests in C: each tests/kselftest/NAME.c is a program that uses the
# kernel's own kselftest_harness.h, from linux-source. A test that needs a library
# says so here: KSFT_LDLIBS_NAME; those called rdma* have verbs.

KSFT_LDLIBS_netlink = $(shell pkg-config --libs libnl-genl-3.0)
KSFT_CFLAGS_netlink = $(shell pkg-config --cflags libnl-genl-3.0)

# The memory pool's own code, in one process with the test.
KSFT_LDLIBS_memory = -libverbs -lrdmacm -lcrypto -lxxhash -lsystemd -ljansson -linih
KSFT_LDLIBS_donor = $(KSFT_LDLIBS_memory)

KSFT_SRC := $(wildcard tests/kselftest/*.c)
KSFT := $(KSFT_SRC:tests/kselftest/%.c=$(O)/kselftest/%)
KSFT_HARNESS := $(O)/linux/tools/testing/selftests
KSFT_CFLAGS = -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-sign-compare -Wno-maybe-uninitialized -D_GNU_SOURCE -Iuapi -Iuserspace/libdistmind \
	-include tests/kselftest/time_limit.h -isystem $(KSFT_HARNESS) -MMD -MP -pthread

.PHONY: kselftest
.PRECIOUS: $(O)/obj/kselftest/%.o
kselftest: $(KSFT) $(O)/engine/template

# The engine of docs/engine.md, with nothing but the uapi header.
$(O)/engine/template: tests/engine/template.c uapi/linux/distmind.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iuapi $< -o $@ -pthread

$(O)/kselftest/memory $(O)/kselftest/donor: \
	$(call us_objects,$(MEMORY_SRC) $(MODEL_SRC) $(COMMON_SRC))

$(O)/obj/kselftest/%.o: tests/kselftest/%.c
	@mkdir -p $(@D)
	$(CC) $(KSFT_CFLAGS) $(KSFT_CFLAGS_$*) -c $< -o $@

# Another library of the same headers needs no other program.
$(O)/kselftest/%: $(O)/obj/kselftest/%.o | $(O)/lib/libdistmind.so
	@mkdir -p $(@D)
	$(CC) -pthread $^ -o $@ -L$(O)/lib -ldistmind $(if $(filter rdma%,$*),-libverbs) \
		$(KSFT_LDLIBS_$*)

# Chaos with as many kills as are asked for; built each time, since the number may be another.
KILLS = 10000
.PHONY: kills
kills: $(O)/lib/libdistmind.so $(O)/engine/template
	@mkdir -p $(O)/kills
	$(CC) $(filter-out -MMD -MP,$(KSFT_CFLAGS)) -DKILLS=$(KILLS) tests/kselftest/chaos.c \
		-o $(O)/kills/chaos -L$(O)/lib -ldistmind

-include $(wildcard $(O)/obj/kselftest/*.d)
