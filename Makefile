# SPDX-License-Identifier: GPL-2.0-or-later
#
#   make            the module for this kernel (or KVER=, KDIR=), and userspace
#   make install    both; DESTDIR= and PREFIX= as usual
#   make dkms       the module through DKMS, built anew for every kernel
#   make demo       the main job, in two guests
#   make demo-pool  the memory pool, in three guests
#   make check      unit tests, lint, DKMS, the module on 6.12; T=PATTERN for a part of them
#   make check-6.1, check-6.12  all guest tests there; PART=-kernel or -userspace for one half
#   make check-cluster  what wants several hosts; K=uml|uml-debug
#   make check-systemd  the installed units, in a guest that runs systemd
#   make check-debug  guest tests on a kernel with KASAN, lockdep, kmemleak
#   make check-smp  the same on several CPUs, in QEMU: slow
#   make check-kills  programs killed at random; KILLS=10000, K=uml-debug
#   make bench      the benchmarks; PART="native uml 6.12 isolation load push" for some
#   make fuzz       the parsers, ten minutes each
#   make vm         a shell in a guest; K=6.12|6.1|uml|uml-debug|smp
#   make lint       what can be said of the source without running it
#   make unit       the native tests
#   make module, userspace, kselftest, benchmarks  parts, built
#   make module-K   the module for a guest; make uml-kernel, uml-debug-kernel, smp-kernel
#   make setup      what the rest needs of the machine, once
#   make netlink    what is generated from uapi/distmind.yaml
#   make clean      all but what was fetched
#   make help       this
#
# demo, check, bench, lint and vm prepare the machine first, once.

O ?= build
DISTMIND_VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)

KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
DKMS_SOURCE ?= $(DESTDIR)/usr/src/distmind-$(DISTMIND_VERSION)
K ?= 6.12

# The guests' files are found by absolute names.
BUILD := $(abspath $(O))
export DISTMIND_BUILD := $(BUILD)

# Make a target, a line of progress; what it says is shown if it fails.
quietly = @echo "== $(1)"; mkdir -p $(O)/log; \
	$(MAKE) $(1) >$(O)/log/make-$(1).log 2>&1 </dev/null || \
	{ tail -n 40 $(O)/log/make-$(1).log; exit 1; }

# What was given to this make, O= above all, is not meant for the kernel's.
unflagged = env -u MAKEFLAGS -u MAKEOVERRIDES

.PHONY: all
all: module userspace

.PHONY: help
help:
	@sed -n 's/^#   //p; /^$$/q' Makefile

include userspace/userspace.mk
include tests/unit/unit.mk
include tests/kselftest/kselftest.mk
include tests/bench/bench.mk
include tests/demo/demo.mk
include tests/fuzz/fuzz.mk

# The module

.PHONY: module install install-module dkms dkms-source netlink
module: | $(O)
	@if [ -e $(KDIR)/Makefile ]; then \
		scripts/module $(O) host $(abspath $(KDIR)); \
	else \
		echo "no kernel headers in $(KDIR): the module is not built (KVER= or KDIR= name others)"; \
	fi

install: all install-module install-userspace

install-module: module
	@if [ -e $(O)/kmod/host/distmind.ko ]; then \
		$(unflagged) $(MAKE) -C $(KDIR) M=$(BUILD)/kmod/host/distmind \
			INSTALL_MOD_PATH=$(DESTDIR) modules_install && \
		{ [ -n "$(DESTDIR)" ] || \
			depmod $$(cat $(KDIR)/include/config/kernel.release); }; \
	fi

dkms-source:
	$(INSTALL) -d $(DKMS_SOURCE)
	cp -R Kbuild kmod uapi dkms.conf $(DKMS_SOURCE)

dkms: dkms-source
	-$(unflagged) dkms remove distmind/$(DISTMIND_VERSION) --all
	$(unflagged) dkms add -m distmind -v $(DISTMIND_VERSION)
	$(unflagged) dkms build -m distmind -v $(DISTMIND_VERSION) -k $(KVER)
	$(unflagged) dkms install -m distmind -v $(DISTMIND_VERSION) -k $(KVER)

netlink: setup
	sh uapi/generate.sh $(O)/linux .

# The guests

.PHONY: setup setup-guests uml-kernel uml-debug-kernel smp-kernel vm
.PHONY: module-6.1 module-6.12 module-uml module-uml-debug module-smp
setup: | $(O)
	@scripts/setup $(BUILD) packages guests source

# What is enough to boot a stock kernel.
setup-guests: | $(O)
	@scripts/setup $(BUILD) packages guests

uml-kernel uml-debug-kernel smp-kernel: %-kernel: setup-guests
	@scripts/kernel $(BUILD) $*

module-uml module-uml-debug module-smp: module-%: %-kernel
	scripts/module $(BUILD) $*

module-6.1 module-6.12: module-%: setup-guests
	scripts/module $(BUILD) $*

vm: $(if $(filter uml% smp,$(K)),$(K)-kernel,setup-guests)
	$(call quietly,userspace)
	$(call quietly,module-$(K))
	@tests/vm/vm -k $(K) --rxe --shell

# Tests

.PHONY: check check-6.1 check-6.12 check-cluster check-debug check-kills check-smp check-systemd demo demo-pool bench lint
check: setup
	@T='$(T)' scripts/check $(BUILD) native 6.12-kernel

check-6.1 check-6.12: check-%: setup
	@T='$(T)' RESULTS=$(BUILD)/results.$* scripts/check $(BUILD) $*$(PART)

check-debug: setup uml-debug-kernel
	@T='$(T)' RESULTS=$(BUILD)/results.debug scripts/check $(BUILD) uml-debug

check-smp: setup smp-kernel
	@T='$(T)' RESULTS=$(BUILD)/results.smp scripts/check $(BUILD) smp

# Several stock kernels at once are more than two CPUs can emulate.
check-cluster: K = uml
check-cluster: setup
	@$(MAKE) --no-print-directory $(K)-kernel
	@T='$(T)' RESULTS=$(BUILD)/results.cluster scripts/check $(BUILD) cluster-$(K)

# Clients, engines and daemons killed at random, as often as one likes.
check-kills: K = uml-debug
check-kills: setup
	@$(if $(filter uml% smp,$(K)),$(MAKE) --no-print-directory $(K)-kernel)
	@KILLS=$(KILLS) RESULTS=$(BUILD)/results.kills scripts/check $(BUILD) kills-$(K)

check-systemd: setup
	@T='$(T)' RESULTS=$(BUILD)/results.systemd scripts/check $(BUILD) systemd

demo: setup-guests
	$(call quietly,userspace)
	$(call quietly,demo-programs)
	$(call quietly,module-6.12)
	@tests/demo/run

demo-pool: setup-guests uml-kernel
	$(call quietly,userspace)
	$(call quietly,module-uml)
	@tests/demo/run-pool

bench: setup uml-kernel
	$(call quietly,userspace)
	$(call quietly,benchmarks)
	$(call quietly,module-6.12)
	$(call quietly,module-uml)
	@tests/bench/run $(PART)

lint: setup
	@T='$(T)' scripts/lint $(BUILD)

$(O):
	@mkdir -p $@

# What was fetched stays; "rm -rf build" is for that.
.PHONY: clean
clean:
	cd $(O) && rm -rf $(filter-out guests linux setup accel,$(notdir $(wildcard $(O)/*)))
