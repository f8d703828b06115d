# SPDX-License-Identifier: GPL-2.0-or-later
#
# Native tests, each file a cmocka program, under ASan and UBSan. Programs that
# begin with ctl_ are linked with distmindctl, those that begin with policy, and
# lane_state, with the module's pure code, those of UNIT_CPU with the cpu engine,
# those that begin with the name of a library of userspace/ (UNIT_POOL) with these
# libraries, all others with distmindd; the functions of libdistmind that a program
# defines itself take the place of the library's.
#
#   make -f tests/unit/unit.mk unit

ifndef US_CFLAGS
include userspace/userspace.mk
endif

UNIT_CFLAGS = $(US_CFLAGS) -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer $(NL_CFLAGS) $(SMARTCOLS_CFLAGS) $(OPENBLAS_CFLAGS) $(TRACEFS_CFLAGS)
UNIT_LIBS = $(NL_LIBS) $(SYSTEMD_LIBS) $(SMARTCOLS_LIBS) $(TRACEFS_LIBS) -linih \
	$(shell $(PKG_CONFIG) --libs cmocka jansson) -lm

# The module's pure code outside of it: with the kernel's own trees.
POLICY_SRC := $(wildcard kmod/policy/*.c) kmod/lane_state.c
POLICY_CFLAGS = -isystem $(O)/linux/tools/include -Wno-unused-parameter
POLICY_RBTREE := $(O)/linux/tools/lib/rbtree.c

$(POLICY_RBTREE):
	scripts/setup $(abspath $(O)) source

UNIT_SRC := $(wildcard tests/unit/*.c)
UNIT_TESTS := $(patsubst tests/unit/%.c,$(O)/unit/%,$(UNIT_SRC))
UNIT_POLICY := $(filter $(O)/unit/policy% $(O)/unit/lane_state,$(UNIT_TESTS))

UNIT_CPU := $(filter $(O)/unit/op% $(O)/unit/pacing,$(UNIT_TESTS))

UNIT_POOL := $(filter $(foreach library,placement router planner sharding model memory catalog sim, \
	$(O)/unit/$(library)_%),$(UNIT_TESTS))

unit_objects = $(patsubst %.c,$(O)/unit/obj/%.o,$(1))
unit_archive = $(O)/unit/lib/$(1).a

$(call unit_archive,common): $(call unit_objects,$(COMMON_SRC) $(MESSAGE_SRC))
$(call unit_archive,placement): $(call unit_objects,$(PLACEMENT_SRC))
$(call unit_archive,router): $(call unit_objects,$(ROUTER_SRC))
$(call unit_archive,planner): $(call unit_objects,$(PLANNER_SRC))
$(call unit_archive,sharding): $(call unit_objects,$(SHARDING_SRC))
$(call unit_archive,model): $(call unit_objects,$(MODEL_SRC))
$(call unit_archive,memory): $(call unit_objects,$(MEMORY_SRC))
$(call unit_archive,catalog): $(call unit_objects,$(CATALOG_SRC))
$(call unit_archive,sim): $(call unit_objects,$(filter-out userspace/sim/main.c,$(SIM_SRC)))
$(call unit_archive,libdistmind): $(call unit_objects,$(LIB_SRC))
$(call unit_archive,distmindd): \
	$(call unit_objects,$(filter-out userspace/distmindd/main.c,$(DAEMON_SRC)))
$(call unit_archive,engine-cpu): \
	$(call unit_objects,$(filter-out userspace/engines/cpu/main.c,$(ENGINE_CPU_SRC)))
$(call unit_archive,distmindctl): \
	$(call unit_objects,$(filter-out userspace/distmindctl/main.c,$(CTL_SRC)))
$(call unit_archive,policy): $(call unit_objects,$(POLICY_SRC)) $(O)/unit/obj/rbtree.o

POLICY_OBJECTS := $(call unit_objects,$(POLICY_SRC) $(wildcard tests/unit/policy*.c) \
	tests/unit/lane_state.c)
$(POLICY_OBJECTS): UNIT_OBJ_CFLAGS = $(POLICY_CFLAGS)
$(POLICY_OBJECTS): | $(POLICY_RBTREE)
$(O)/unit/obj/rbtree.o: $(POLICY_RBTREE) $(O)/unit/.flags
	@mkdir -p $(@D)
	$(call us_say,CC,$@)$(CC) $(UNIT_CFLAGS) $(POLICY_CFLAGS) -c $< -o $@

# As in userspace.mk: what -MMD does not see.
$(call unit_objects,userspace/distmindctl/completion.c): userspace/distmindctl/distmindctl.bash

.PHONY: unit unit-build
unit-build: $(UNIT_TESTS)

# All of them are run; the code is that of the worst.
unit: unit-build
	@failed=0; for test in $(UNIT_TESTS); do \
		echo "# $${test##*/}"; \
		CMOCKA_MESSAGE_OUTPUT=TAP $$test || failed=1; \
	done; exit $$failed

$(O)/unit/.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(CC) $(UNIT_CFLAGS))' | cmp -s - $@ || \
		echo '$(subst ','\'',$(CC) $(UNIT_CFLAGS))' > $@

$(O)/unit/obj/%.o: %.c $(O)/unit/.flags
	@mkdir -p $(@D)
	$(call us_say,CC,$@)$(CC) $(UNIT_CFLAGS) $(UNIT_OBJ_CFLAGS) -c $< -o $@

$(O)/unit/lib/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(call us_say,AR,$@)$(AR) rcs $@ $^

.SECONDARY: $(call unit_objects,$(UNIT_SRC))
UNIT_LINK = $(CC) $(UNIT_CFLAGS) $(LDFLAGS) $^ -Wl,--as-needed $(UNIT_LIBS) -o $@

$(O)/unit/ctl_%: $(O)/unit/obj/tests/unit/ctl_%.o $(call unit_archive,distmindctl) \
		$(call unit_archive,common) $(call unit_archive,libdistmind)
	$(call us_say,LD,$@)$(UNIT_LINK)

$(UNIT_CPU): UNIT_LIBS += $(OPENBLAS_LIBS) -lm
$(UNIT_CPU): $(O)/unit/%: $(O)/unit/obj/tests/unit/%.o $(call unit_archive,engine-cpu) \
		$(call unit_archive,common)
	$(call us_say,LD,$@)$(UNIT_LINK)

$(UNIT_POOL): UNIT_LIBS += -lsqlite3 -lcrypto -lxxhash -lcurl -libverbs -lrdmacm -lglpk -lm
$(UNIT_POOL): $(O)/unit/%: $(O)/unit/obj/tests/unit/%.o $(foreach library,sim memory catalog sharding \
		planner router placement model common libdistmind,$(call unit_archive,$(library)))
	$(call us_say,LD,$@)$(UNIT_LINK)

$(UNIT_POLICY): $(O)/unit/%: $(O)/unit/obj/tests/unit/%.o $(call unit_archive,policy)
	$(call us_say,LD,$@)$(UNIT_LINK)

$(O)/unit/%: $(O)/unit/obj/tests/unit/%.o $(foreach library,distmindd memory catalog sharding planner \
		placement model common libdistmind,$(call unit_archive,$(library)))
	$(call us_say,LD,$@)$(UNIT_LINK) -lsqlite3 -lcrypto -lxxhash -lcurl -libverbs -lrdmacm

-include $(wildcard $(O)/unit/obj/*/*/*.d $(O)/unit/obj/*/*/*/*.d $(O)/unit/obj/*/*/*/*/*.d)
