# SPDX-License-Identifier: GPL-2.0-or-later
#
# Guest tests in C: each tests/kselftest/NAME.c is a program that uses the
# kernel's own kselftest_harness.h, from linux-source. What several of them
# share is in tests/kselftest/common. A test that needs a library says so here:
# KSFT_LDLIBS_NAME; those called rdma* have verbs.

KSFT_LDLIBS_netlink = $(shell pkg-config --libs libnl-genl-3.0)
KSFT_CFLAGS_netlink = $(shell pkg-config --cflags libnl-genl-3.0)

# The memory pool's own code, in one process with the test.
KSFT_LDLIBS_memory = -libverbs -lrdmacm -lcrypto -lxxhash -lsystemd -ljansson -linih
KSFT_LDLIBS_donor = $(KSFT_LDLIBS_memory)

KSFT_SRC := $(wildcard tests/kselftest/*.c)
KSFT_COMMON := $(wildcard tests/kselftest/common/*.c)
KSFT := $(KSFT_SRC:tests/kselftest/%.c=$(O)/kselftest/%)
KSFT_HARNESS := $(O)/linux/tools/testing/selftests
KSFT_CFLAGS = -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-sign-compare -Wno-maybe-uninitialized -D_GNU_SOURCE -Iuapi -Iuserspace/libdistmind \
	-Itests/kselftest/common -isystem $(KSFT_HARNESS) -MMD -MP -pthread

.PHONY: kselftest
kselftest: $(KSFT) $(O)/engine/template

# The engine of docs/engine.md, with nothing but the uapi header.
$(O)/engine/template: tests/engine/template.c uapi/linux/distmind.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iuapi $< -o $@ -pthread

$(O)/kselftest/memory $(O)/kselftest/donor: \
	$(call us_objects,$(MEMORY_SRC) $(MODEL_SRC) $(COMMON_SRC))

$(O)/kselftest/%: tests/kselftest/%.c $(KSFT_COMMON) $(O)/lib/libdistmind.so
	@mkdir -p $(@D) $(O)/obj/kselftest
	$(CC) $(KSFT_CFLAGS) $(KSFT_CFLAGS_$*) -MF $(O)/obj/kselftest/$*.d $(filter %.c %.o,$^) -o $@ \
		-L$(O)/lib -ldistmind $(if $(filter rdma%,$*),-libverbs) $(KSFT_LDLIBS_$*)

-include $(wildcard $(O)/obj/kselftest/*.d)
