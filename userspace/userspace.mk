# SPDX-License-Identifier: GPL-2.0-or-later
#
# Library, daemon, engine, tool, man pages. Included by the top Makefile, and
# works alone:
#
#   make -f userspace/userspace.mk userspace
#   make -f userspace/userspace.mk install-userspace DESTDIR=/tmp/x PREFIX=/usr

O ?= build
# Dependency files name targets by it, so it must always be spelled the same.
override O := $(abspath $(O))
DISTMIND_VERSION ?= 0.1.0

PREFIX ?= /usr/local
EXEC_PREFIX ?= $(PREFIX)
BINDIR ?= $(EXEC_PREFIX)/bin
SBINDIR ?= $(EXEC_PREFIX)/sbin
LIBDIR ?= $(EXEC_PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
SYSCONFDIR ?= /etc
# systemd and udev look into /usr/local/lib too, the loader of modules does not.
SYSTEMD_UNIT_DIR ?= $(PREFIX)/lib/systemd/system
UDEV_RULES_DIR ?= $(PREFIX)/lib/udev/rules.d
COMPLETION_DIR ?= $(DATADIR)/bash-completion/completions
PKGCONFIG_DIR ?= $(LIBDIR)/pkgconfig

# V=1 shows the commands.
ifeq ($(V),1)
us_say =
us_quiet =
else
us_quiet = @
us_say = @printf '  %-7s %s\n' $(1) $(2);
endif

PKG_CONFIG ?= pkg-config
SCDOC ?= scdoc
INSTALL ?= install
CFLAGS ?= -O2 -g
# What every file of userspace is built with; EXTRA_CFLAGS come last.
US_CFLAGS = -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
	-DDISTMIND_VERSION='"$(DISTMIND_VERSION)"' -DSYSCONFDIR='"$(SYSCONFDIR)"' \
	-Iuapi -Iuserspace/libdistmind -MMD -MP $(CFLAGS) $(EXTRA_CFLAGS)

# Only asked for when something is built, so that other targets need no packages.
NL_CFLAGS = $(shell $(PKG_CONFIG) --cflags libnl-3.0 libnl-genl-3.0)
NL_LIBS = $(shell $(PKG_CONFIG) --libs libnl-3.0 libnl-genl-3.0)
SYSTEMD_LIBS = $(shell $(PKG_CONFIG) --libs libsystemd)
OPENBLAS_CFLAGS = $(shell $(PKG_CONFIG) --cflags openblas)
OPENBLAS_LIBS = $(shell $(PKG_CONFIG) --libs openblas)
SMARTCOLS_CFLAGS = $(shell $(PKG_CONFIG) --cflags smartcols)
TRACEFS_CFLAGS = $(shell $(PKG_CONFIG) --cflags libtracefs libtraceevent)
TRACEFS_LIBS = $(shell $(PKG_CONFIG) --libs libtracefs libtraceevent)
SMARTCOLS_LIBS = $(shell $(PKG_CONFIG) --libs smartcols)

LIB_SRC := $(wildcard userspace/libdistmind/*.c)
# How distmindd is talked to: the library's, the daemon's and the tool's.
MESSAGE_SRC := userspace/common/message.c
COMMON_SRC := $(filter-out $(MESSAGE_SRC),$(wildcard userspace/common/*.c))
PLACEMENT_SRC := $(wildcard userspace/placement/*.c)
ROUTER_SRC := $(wildcard userspace/router/*.c)
PLANNER_SRC := $(wildcard userspace/planner/*.c)
SHARDING_SRC := $(wildcard userspace/sharding/*.c)
MODEL_SRC := $(wildcard userspace/model/*.c)
MEMORY_SRC := $(wildcard userspace/memory/*.c)
CATALOG_SRC := $(wildcard userspace/catalog/*.c)
SIM_SRC := $(wildcard userspace/sim/*.c)
DAEMON_SRC := $(wildcard userspace/distmindd/*.c userspace/distmindd/*/*.c)
ENGINE_CPU_SRC := $(wildcard userspace/engines/cpu/*.c)
CTL_SRC := $(wildcard userspace/distmindctl/*.c)
EXAMPLE_SRC := $(wildcard userspace/examples/*.c)
EXAMPLE_NET_SRC := $(wildcard userspace/examples/net/*.c)
MAN_SRC := $(wildcard docs/man/*.scd)

us_objects = $(patsubst userspace/%.c,$(O)/obj/userspace/%.o,$(1))

SONAME := libdistmind.so.1
LIB := $(O)/lib/$(SONAME)
LIB_LINK := $(O)/lib/libdistmind.so
BIN := $(O)/bin/distmindd $(O)/bin/distmind-engine-cpu $(O)/bin/distmindctl \
	$(if $(SIM_SRC),$(O)/bin/distmind-sim)
EXAMPLES := $(patsubst userspace/examples/%.c,$(O)/examples/%,$(EXAMPLE_SRC))
MAN := $(patsubst docs/man/%.scd,$(O)/man/%,$(MAN_SRC))
US_GENERATED := $(O)/gen/distmind.pc $(O)/gen/distmindd.service \
	$(O)/gen/distmind-engine-cpu@.service
US_CONF := userspace/distmindd/distmindd.conf userspace/engines/cpu/engine-cpu0.conf

.PHONY: userspace install-userspace userspace-man
userspace: $(LIB_LINK) $(BIN) $(EXAMPLES) $(US_GENERATED) userspace-man
userspace-man: $(MAN)

# A change of compiler, flags or version rebuilds everything.
US_SIGNATURE = $(CC) $(US_CFLAGS) $(LDFLAGS)
$(O)/obj/userspace/.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(US_SIGNATURE))' | cmp -s - $@ || \
		echo '$(subst ','\'',$(US_SIGNATURE))' > $@
.PHONY: FORCE
FORCE:

$(call us_objects,$(LIB_SRC) $(MESSAGE_SRC)): US_OBJ_CFLAGS = -fPIC -fvisibility=default $(NL_CFLAGS)
$(call us_objects,$(CTL_SRC) $(SIM_SRC)): US_OBJ_CFLAGS = $(SMARTCOLS_CFLAGS) $(TRACEFS_CFLAGS)
$(call us_objects,$(ENGINE_CPU_SRC)): US_OBJ_CFLAGS = $(OPENBLAS_CFLAGS)

$(O)/obj/userspace/%.o: userspace/%.c $(O)/obj/userspace/.flags
	@mkdir -p $(@D)
	$(call us_say,CC,$@)$(CC) $(US_CFLAGS) $(US_OBJ_CFLAGS) -c $< -o $@

$(LIB): $(call us_objects,$(LIB_SRC) $(MESSAGE_SRC)) userspace/libdistmind/libdistmind.map
	@mkdir -p $(@D)
	$(call us_say,LD,$@)$(CC) $(CFLAGS) $(EXTRA_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs \
		-Wl,--version-script=userspace/libdistmind/libdistmind.map \
		$(filter %.o,$^) $(NL_LIBS) -ljansson -o $@

$(LIB_LINK): $(LIB)
	@ln -sf $(SONAME) $@

# Programs find the library beside them in the build tree; installed ones
# find it by the loader's configuration or by the same relative path.
US_LINK = $(CC) $(CFLAGS) $(EXTRA_CFLAGS) $(LDFLAGS) $(filter %.o,$^) -L$(O)/lib -ldistmind \
	-Wl,-rpath,'$$ORIGIN/../lib' -Wl,--as-needed

$(O)/bin/distmindd: $(call us_objects,$(DAEMON_SRC) $(PLACEMENT_SRC) $(CATALOG_SRC) $(MEMORY_SRC) \
		$(MODEL_SRC) $(SHARDING_SRC) $(PLANNER_SRC) $(COMMON_SRC) $(MESSAGE_SRC)) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call us_say,LD,$@)$(US_LINK) $(SYSTEMD_LIBS) -lsqlite3 -lcurl -lcrypto -lxxhash -ljansson -libverbs \
		-lrdmacm -linih -lm -o $@

$(O)/bin/distmind-sim: $(call us_objects,$(SIM_SRC) $(PLACEMENT_SRC) $(ROUTER_SRC) $(PLANNER_SRC) \
		$(COMMON_SRC)) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call us_say,LD,$@)$(US_LINK) $(SMARTCOLS_LIBS) -ljansson -linih -lm -o $@

$(O)/bin/distmind-engine-cpu: $(call us_objects,$(ENGINE_CPU_SRC) $(COMMON_SRC)) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call us_say,LD,$@)$(US_LINK) $(SYSTEMD_LIBS) $(OPENBLAS_LIBS) -linih -lm -o $@

# The completion is part of the program, by an instruction that -MMD does not see.
$(call us_objects,userspace/distmindctl/completion.c): userspace/distmindctl/distmindctl.bash

# How distmindd is talked to is no part of the library's interface; what is promised of a gpu is
# what distmindd's configuration says.
CTL_CONFIG_SRC := userspace/distmindd/common/config.c userspace/distmindd/common/log.c
$(O)/bin/distmindctl: $(call us_objects,$(CTL_SRC) $(MODEL_SRC) $(PLACEMENT_SRC) $(COMMON_SRC) \
		$(CTL_CONFIG_SRC) $(MESSAGE_SRC) userspace/libdistmind/service.c) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call us_say,LD,$@)$(US_LINK) $(SMARTCOLS_LIBS) $(TRACEFS_LIBS) $(SYSTEMD_LIBS) -lcrypto -lxxhash \
		-ljansson -linih -lm -o $@
# So are its tests, see tests/unit/unit.mk.
US_CTL_TESTS := $(patsubst tests/unit/%.c,$(O)/unit/%,$(wildcard tests/unit/ctl_*.c))
$(O)/unit/lib/ctl-config.a: $(patsubst %.c,$(O)/unit/obj/%.o,$(CTL_CONFIG_SRC))
$(US_CTL_TESTS): $(O)/unit/lib/model.a $(O)/unit/lib/ctl-config.a $(O)/unit/lib/placement.a
$(US_CTL_TESTS): UNIT_LIBS += $(O)/unit/lib/common.a -linih -lcrypto -lxxhash

.SECONDARY: $(call us_objects,$(EXAMPLE_SRC))
$(O)/examples/train $(O)/examples/serve $(O)/examples/infer: $(call us_objects,$(EXAMPLE_NET_SRC))
$(O)/examples/infer: $(call us_objects,$(MODEL_SRC) userspace/common/text_file.c)
$(O)/examples/infer: EXAMPLE_LIBS = -lcrypto -lxxhash -ljansson
$(O)/examples/%: $(O)/obj/userspace/examples/%.o $(LIB_LINK)
	@mkdir -p $(@D)
	$(call us_say,LD,$@)$(US_LINK) $(EXAMPLE_LIBS) -lm -o $@

$(O)/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	$(call us_say,MAN,$@)$(SCDOC) < $< > $@.tmp && mv $@.tmp $@

# Rebuilt every time: they carry the directories of this very invocation.
vpath %.in userspace/libdistmind userspace/distmindd userspace/engines/cpu
$(O)/gen/%: %.in FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@SBINDIR@|$(SBINDIR)|g' \
		-e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
		-e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' -e 's|@VERSION@|$(DISTMIND_VERSION)|g' $< > $@

# A configuration file that is there is the administrator's.
install-userspace: userspace
	$(call us_say,INSTALL,$(DESTDIR)$(PREFIX))$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(SBINDIR) $(DESTDIR)$(LIBDIR) \
		$(DESTDIR)$(INCLUDEDIR)/linux $(DESTDIR)$(PKGCONFIG_DIR) \
		$(DESTDIR)$(SYSTEMD_UNIT_DIR) $(DESTDIR)$(UDEV_RULES_DIR) \
		$(DESTDIR)$(SYSCONFDIR)/distmind $(DESTDIR)$(COMPLETION_DIR)
	$(us_quiet)$(INSTALL) -m 755 $(O)/bin/distmindd $(O)/bin/distmind-engine-cpu $(DESTDIR)$(SBINDIR)
	$(us_quiet)$(INSTALL) -m 755 $(O)/bin/distmindctl $(if $(SIM_SRC),$(O)/bin/distmind-sim) \
		$(DESTDIR)$(BINDIR)
	$(us_quiet)$(INSTALL) -m 755 $(LIB) $(DESTDIR)$(LIBDIR)
	$(us_quiet)ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libdistmind.so
	$(us_quiet)$(INSTALL) -m 644 userspace/libdistmind/distmind.h \
		userspace/libdistmind/distmind_ops.h $(DESTDIR)$(INCLUDEDIR)
	$(us_quiet)$(INSTALL) -m 644 uapi/linux/distmind.h uapi/linux/distmind_netlink.h \
		$(DESTDIR)$(INCLUDEDIR)/linux
	$(us_quiet)$(INSTALL) -m 644 $(O)/gen/distmind.pc $(DESTDIR)$(PKGCONFIG_DIR)
	$(us_quiet)$(INSTALL) -m 644 $(O)/gen/distmindd.service $(O)/gen/distmind-engine-cpu@.service \
		$(DESTDIR)$(SYSTEMD_UNIT_DIR)
	$(us_quiet)$(INSTALL) -m 644 userspace/distmindd/60-distmind.rules $(DESTDIR)$(UDEV_RULES_DIR)
	$(us_quiet)$(foreach conf,$(US_CONF),test -e $(DESTDIR)$(SYSCONFDIR)/distmind/$(notdir $(conf)) || \
		$(INSTALL) -m 644 $(conf) $(DESTDIR)$(SYSCONFDIR)/distmind ;)
	$(us_quiet)$(if $(wildcard userspace/distmindctl/distmindctl.bash),$(INSTALL) -m 644 \
		userspace/distmindctl/distmindctl.bash $(DESTDIR)$(COMPLETION_DIR)/distmindctl)
	$(us_quiet)$(foreach page,$(MAN),$(INSTALL) -D -m 644 $(page) \
		$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)) ;)
	$(us_quiet)$(if $(DESTDIR),:,ldconfig || :)

-include $(wildcard $(O)/obj/userspace/*/*.d $(O)/obj/userspace/*/*/*.d)
