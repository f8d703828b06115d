# SPDX-License-Identifier: GPL-2.0-or-later
#
# Fuzzing: each tests/fuzz/NAME.c is a libFuzzer target for what comes from
# outside. tests/fuzz/corpus/NAME is the kept corpus, which the unit tests replay.
#
#   make fuzz                 all of them, FUZZ_SECONDS=600 each
#   make fuzz-NAME            one of them
#   make fuzz-keep-NAME       add what the last run has found to the kept corpus
#
# Alone, too: make -f tests/fuzz/fuzz.mk fuzz

ifndef US_CFLAGS
include userspace/userspace.mk
endif

FUZZ_SECONDS ?= 600
FUZZ_CC ?= clang
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
FUZZ_CFLAGS = -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iuapi -Iuserspace/libdistmind \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_SRC = $(MODEL_SRC) userspace/common/text_file.c $(wildcard userspace/memory/wire.c)

.PHONY: fuzz fuzz-build $(FUZZ:%=fuzz-%) $(FUZZ:%=fuzz-keep-%)
fuzz-build: $(FUZZ:%=$(O)/fuzz/%)
fuzz: $(FUZZ:%=fuzz-%)

$(O)/fuzz/%: tests/fuzz/%.c $(FUZZ_SRC) $(wildcard userspace/model/*.h userspace/memory/wire.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_CFLAGS) $(filter %.c,$^) -o $@ -ljansson -lcrypto -lxxhash

# What is found goes to the first directory; a crash is kept beside it.
$(FUZZ:%=fuzz-%): fuzz-%: $(O)/fuzz/%
	@mkdir -p $(O)/fuzz/corpus/$*
	$(O)/fuzz/$* -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 -print_final_stats=1 \
		-artifact_prefix=$(O)/fuzz/$*- $(wildcard tests/fuzz/$*.dict:%=-dict=%) \
		$(O)/fuzz/corpus/$* $(wildcard tests/fuzz/corpus/$*)

$(FUZZ:%=fuzz-keep-%): fuzz-keep-%: $(O)/fuzz/%
	@mkdir -p tests/fuzz/corpus/$*
	$(O)/fuzz/$* -merge=1 tests/fuzz/corpus/$* $(O)/fuzz/corpus/$*
