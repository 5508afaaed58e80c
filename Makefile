# SPDX-License-Identifier: MIT
# The user-space build: library, command, tests, examples. See `make help`.
# (The kernel's side is Kbuild, which the kernel's own make reads.)

B ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
ifeq ($(origin CC),default)
CC = gcc
endif
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config
ifneq ($(SANITIZE)$(COVERAGE),)
# Lines are all that a report names: with more, compiling takes twice as long.
CFLAGS ?= -O1 -g1
endif
CFLAGS ?= -O2 -g

# Each kind of build has a folder of its own, so that none disturbs another.
O := $(B)
ifdef SANITIZE
O := $(B)/$(if $(findstring thread,$(SANITIZE)),tsan,asan)
kind_flags := -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif
ifdef COVERAGE
O := $(B)/coverage
# The harness calls __gcov_dump in its children, if it is there.
kind_flags := --coverage -O0 -Wl,-u,__gcov_dump
endif

# Each public call is held against the table of lifecycles: tests/lifecycle/lifecycle_check.c.
ifdef DEBUG
ifeq ($(O),$(B))
O := $(B)/debug
endif
kind_flags += -DHETMAP_LIFECYCLE=1
endif

ifdef V
Q =
say = @:
else
Q = @
say = @printf '  %-7s %s\n'
MAKEFLAGS += --no-print-directory
endif

# The version is written down in include/hetmap/base.h and nowhere else.
version_part = $(shell sed -n 's/^.define HM_VERSION_$(1) *//p' include/hetmap/base.h)
MAJOR := $(call version_part,MAJOR)
VERSION := $(MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SONAME := libhetmap.so.$(MAJOR)

lib_packages := libdrm numa OpenCL liburcu-bp
tool_packages := jansson libdw
test_packages := cunit

# Said once and plainly, instead of by whatever fails to compile first.
goals := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out abi check-arm64 clean deb full help html lifecycle lint module module-next uninstall,$(goals)),)
wanted := $(lib_packages) $(tool_packages) \
	$(if $(filter tests check coverage vm check-debug soak fuzz,$(goals)),$(test_packages))
ifneq ($(shell $(PKG_CONFIG) --exists $(wanted) && echo found),found)
$(error $(PKG_CONFIG) does not find "$(strip $(foreach package,$(wanted),$(if $(shell \
	$(PKG_CONFIG) --exists $(package) || echo no),$(package))))": tools/run and tools/check \
	install what is missing)
endif
endif
# For static probes (runtime/tell/probe.h).
have_sdt := $(wildcard /usr/include/sys/sdt.h /usr/include/*/sys/sdt.h)
# For readers that have many reads in flight (runtime/reader/uring.c), and for tests.
have_liburing := $(shell $(PKG_CONFIG) --exists liburing 2>/dev/null && echo liburing)
lib_packages += $(have_liburing)
# For recordings that perf has compressed (tools/perf/read/recording_unpack.c).
have_libzstd := $(shell $(PKG_CONFIG) --exists libzstd 2>/dev/null && echo libzstd)
tool_packages += $(have_libzstd)
# For a file system of the tests' own (tests/reader/serve).
have_fuse3 := $(shell $(PKG_CONFIG) --exists fuse3 2>/dev/null && echo fuse3)

packages := $(lib_packages) $(tool_packages) $(test_packages)
# In two goes: who only builds need not have what the tests need.
package_flags := $(shell $(PKG_CONFIG) --cflags $(lib_packages) $(tool_packages) 2>/dev/null; \
	$(PKG_CONFIG) --cflags $(test_packages) 2>/dev/null)
libs_of = $(shell $(PKG_CONFIG) --libs $(1))

cpp_flags := -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=300 -Iinclude
inner_flags := -Iruntime -Idrivers/sim -I$(O)
c_flags := -std=gnu11 -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes \
	-Wpointer-arith -Wvla $(if $(WERROR),-Werror) -fvisibility=hidden -fPIC \
	-fno-common -pthread $(package_flags)
compile = $(CC) $(cpp_flags) $(CPPFLAGS) $(c_flags) $(CFLAGS) $(kind_flags)
link = $(CC) $(CFLAGS) -pthread $(kind_flags) -Wl,--as-needed $(LDFLAGS)

# Rooms are folders: see runtime/ROOMS. The model is what soft/ has in common with the module.
lib_sources := $(wildcard runtime/*/*.c runtime/*/*/*.c drivers/sim/model/*.c)
# Rooms, too.
tool_sources := $(wildcard tools/*/*.c tools/*/*/*.c)
test_sources := $(wildcard tests/*/test_*.c)
fuzz_sources := $(wildcard tests/*/fuzz_*.c)
icd_sources := $(wildcard tests/accel/stub_icd*.c)
fake_sources := $(wildcard tests/fake_drm/*.c)
hammer_sources := $(wildcard tests/sim/hammer/*.c)
page_sources := $(wildcard tests/perf/page/*.c)
serve_sources := $(if $(have_fuse3),$(wildcard tests/reader/serve/*.c))
# What DEBUG=1 adds to the library: each call is held against the table of lifecycles.
debug_sources := tests/lifecycle/lifecycle.c tests/lifecycle/lifecycle_check.c
# The rest of tests/ROOM is for test programs to share.
support_sources := $(filter-out $(test_sources) $(fuzz_sources) $(icd_sources) $(fake_sources) \
	$(if $(DEBUG),$(debug_sources),tests/lifecycle/lifecycle_check.c),$(wildcard tests/*/*.c))
example_sources := $(wildcard examples/*.c)

lib_sources += $(if $(DEBUG),$(debug_sources))

lib_objects := $(lib_sources:%.c=$(O)/%.o)
tool_objects := $(tool_sources:%.c=$(O)/%.o)
support_objects := $(support_sources:%.c=$(O)/%.o)
test_objects := $(test_sources:%.c=$(O)/%.o)
icd_objects := $(icd_sources:%.c=$(O)/%.o)
fake_objects := $(fake_sources:%.c=$(O)/%.o)
example_objects := $(example_sources:%.c=$(O)/%.o)
fuzz_objects := $(fuzz_sources:%.c=$(O)/%.o)
hammer_objects := $(hammer_sources:%.c=$(O)/%.o)
page_objects := $(page_sources:%.c=$(O)/%.o)
serve_objects := $(serve_sources:%.c=$(O)/%.o)
objects := $(lib_objects) $(tool_objects) $(support_objects) $(test_objects) \
	$(icd_objects) $(fake_objects) $(hammer_objects) $(page_objects) \
	$(serve_objects) $(example_objects)

libs := $(O)/libhetmap.a $(O)/libhetmap.so
# Programs of tests have names of their own, whichever room they are of.
program_of = $(O)/tests/$(notdir $(1:.c=))
test_programs := $(foreach s,$(test_sources),$(call program_of,$(s)))
fuzz_programs := $(foreach s,$(fuzz_sources),$(call program_of,$(s)))
tests := $(test_programs) $(O)/tests/stub_icd.so \
	$(O)/tests/fake_drm.so $(O)/tests/hammer_hetsim \
	$(O)/tests/page_data $(if $(serve_sources),$(O)/tests/serve_faults) \
	$(O)/tests/process_32
examples := $(example_sources:%.c=$(O)/%)

# The benchmarks are a program of their own, which hetmap bench runs.
bench_program := $(O)/libexec/hetmap/hetmap-bench
# Inside of the library the command has what reads smaps files and threads' status.
inner_of_tool := $(addprefix $(O)/runtime/base/,smaps_mapping.o thread_status.o)

.DEFAULT_GOAL := all
# Libraries of their own, each with its part of the command: where what they need is there.
extensions :=
extension_objects :=
include extensions/video/video.mk
include extensions/table/table.mk
include extensions/plan/plan.mk
include extensions/tier/tier.mk
include extensions/cluster/cluster.mk

all: lib $(if $(tool_sources),$(O)/hetmap $(bench_program)) $(examples) $(extensions) ## library, command, examples

lib: $(libs) ## the library alone: libhetmap.so, libhetmap.a

objects: $(objects)

# The Python package goes with them where Python's headers are.
python_of_tests := $(if $(SANITIZE)$(COVERAGE),,$(if $(wildcard /usr/include/python3*/Python.h),python))
tests: all $(tests) $(python_of_tests) ## build the test programs, run nothing

# ---- compiling ----

# Changes only when the flags do, or what is installed: objects depend on it.
built_with = $(compile) | $(link) | $(have_liburing) | $(have_libzstd) | $(have_video) $(have_video_tests) | $(have_table) $(table_found) | $(have_cluster) $(have_verbs) | $(have_tier) | $(have_sdt)
$(O)/flags: force
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(built_with))' | \
		cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(built_with))' >$@

$(O)/config.h: tools/probe $(O)/flags
	$(say) PROBE $@
	$(Q)tools/probe $(filter-out -Werror,$(compile)) >$@.tmp && mv $@.tmp $@

$(lib_objects) $(support_objects) \
	$(test_objects) $(fuzz_objects) $(hammer_objects): flags_for = $(inner_flags)
# By frame pointers a trace finds who called the library: see hetmap-trace(1).
$(lib_objects): flags_for += -fno-omit-frame-pointer
$(test_objects) $(support_objects) $(icd_objects) $(fuzz_objects) $(hammer_objects) \
	$(debug_sources:%.c=$(O)/%.o): flags_for += -Itests
# Parts of the command are tested by themselves, too.
$(filter $(O)/tests/command/% $(O)/tests/perf/%,$(test_objects) $(fuzz_objects) $(support_objects)) \
	$(page_objects): flags_for += -Itools
$(video_test_objects): flags_for += $(video_test_flags)
$(table_test_objects): flags_for += $(table_test_flags)
$(plan_test_objects): flags_for += $(plan_test_flags)
$(tier_test_objects): flags_for += $(tier_test_flags)
$(cluster_test_objects): flags_for += $(cluster_test_flags)
$(tool_objects): flags_for = -I$(O) -Itools
# Where programs of the command are, if they are not beside each other.
$(O)/tools/common/extension.o: flags_for += -DHETMAP_LIBEXEC='"$(LIBEXECDIR)/hetmap"' \
	-DHETMAP_BINDIR='"$(BINDIR)"'
ifneq ($(have_libzstd),)
$(O)/tools/perf/read/recording_unpack.o $(O)/tests/perf/test_report_foreign.o: \
	flags_for += -DHAVE_LIBZSTD
endif

# The functions that are checked get other names, and lifecycle_check.c has theirs.
ifdef DEBUG
renamed_objects := $(filter-out %/lifecycle_check.o %/launch_list.o,$(lib_objects))
$(renamed_objects): flags_for += -include $(O)/lifecycle_names.h
$(renamed_objects): $(O)/lifecycle_names.h
$(O)/lifecycle_names.h: tests/lifecycle/lifecycle_check.c
	@mkdir -p $(@D)
	$(Q)sed -n 's/^CHECKED[A-Z_]*([A-Z_]*, \(hm_[a-z_]*\),.*/#define \1 unchecked_\1/p' \
		$< >$@
endif

# It comes before a sanitizer's own library, which is not ready then.
$(fake_objects) $(O)/tests/fake_drm.so: private kind_flags =
# A server is no part of what is tested, and answers as fast as it can.
$(serve_objects) $(O)/tests/serve_faults: private kind_flags =
$(serve_objects): flags_for = $(shell $(PKG_CONFIG) --cflags $(have_fuse3))

$(O)/%.o: %.c $(O)/config.h $(O)/flags
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(compile) $(flags_for) -MMD -MP -c -o $@ $<

-include $(objects:.o=.d) $(fuzz_objects:.o=.d) $(extension_objects:.o=.d)

# The texts that it takes in.
$(O)/tools/perf/report/page.o: $(wildcard $(addprefix tools/perf/report/page*.,html css js))

# ---- the library ----

# For the tests, which may reach into the library. No name asks for start.o: it is linked as it is.
start_object := $(O)/runtime/start/start.o
$(O)/runtime.a: $(lib_objects)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# For users: one object whose hidden symbols are local to it.
$(O)/libhetmap.a: $(lib_objects)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/libhetmap.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libhetmap.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libhetmap.o

# A sanitizer's own symbols come from the program: nothing to insist on there.
$(O)/$(SONAME): $(lib_objects) runtime/libhetmap.map
	$(say) LD $@
	$(Q)$(link) -shared -Wl,-soname,$(SONAME) $(if $(SANITIZE),,-Wl,-z,defs) \
		-Wl,--version-script=runtime/libhetmap.map -o $@ $(lib_objects) \
		$(call libs_of,$(lib_packages)) -lm

$(O)/libhetmap.so: $(O)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# ---- what uses it ----

# What programs of tools/ have in common with each other, and with those of extensions.
$(O)/tools.a: $(filter-out %/main.o,$(tool_objects)) $(inner_of_tool)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/hetmap: $(O)/tools/hetmap/main.o
$(bench_program): $(O)/tools/perf/bench/main.o
$(O)/hetmap $(bench_program): $(O)/tools.a $(O)/libhetmap.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -o $@ $(filter %.o,$^) $(filter %.a,$^) \
		$(call libs_of,$(lib_packages) $(tool_packages)) -lm

$(examples): $(O)/examples/%: $(O)/examples/%.o $(O)/libhetmap.a
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(lib_packages)) -lm

$(O)/tests/support.a: $(support_objects)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Archives behind what needs them. Names of tests come before those of the command: both have some.
$(foreach s,$(test_sources) $(fuzz_sources),$(eval $(call program_of,$(s)): $(O)/$(s:.c=.o)))
# Of the command they take in the parts that they name.
$(foreach s,$(filter tests/command/% tests/perf/%,$(test_sources)),$(call program_of,$(s))): \
	$(O)/tools.a
$(test_programs): $(start_object) $(O)/tests/support.a $(O)/runtime.a
	$(say) LD $@
	$(Q)$(link) -o $@ $(filter %.o,$^) $(filter %/support.a,$^) $(filter %/tools.a,$^) \
		$(filter-out %/support.a %/tools.a,$(filter %.a,$^)) \
		$(call libs_of,$(packages) $(more_packages)) $(more_libs) -lm -ldl

$(O)/tests/stub_icd.so: $(icd_objects)
	$(say) LD $@
	$(Q)$(link) -shared -o $@ $^

$(O)/tests/fake_drm.so: $(fake_objects)
	$(say) LD $@
	$(Q)$(link) -shared -o $@ $^ -ldl

$(O)/tests/hammer_hetsim: $(hammer_objects) $(start_object) $(O)/runtime.a
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(lib_packages)) -lm -ldl

$(O)/tests/page_data: $(page_objects) $(O)/tools.a
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(tool_packages))

$(O)/tests/serve_faults: $(serve_objects)
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(have_fuse3))

# Whole without a C library for 32 bits. Empty where the compiler has no such code: what runs
# it is left out there.
$(O)/tests/process_32: tests/sim/uapi32/process.c $(wildcard include/uapi/*.h)
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(CC) -m32 -O1 -fno-pic -no-pie -fomit-frame-pointer -nostdlib -static -ffreestanding \
		-fno-stack-protector -Iinclude -I/usr/include/$$($(CC) -dumpmachine) -o $@ $< \
		2>/dev/null || { rm -f $@; : >$@; }

# ---- running ----

run: all ## the main job: make run FILE=...
	$(Q)$(O)/hetmap run histogram $(if $(FILE),-- "$$FILE")

check: tests ## every test, with the sanitizers' builds
	$(Q)B=$(B) tests/run

bench: all ## the benchmarks: make bench ARGS='zero_copy --json'
	$(Q)$(O)/hetmap bench $(ARGS)

# $(call write_results,NAME): NAME.json.tmp is complete; the page is made of it.
results := tools/perf/bench/results
write_results = $(Q)cd $(results) && mv $(1).json.tmp $(1).json && \
	$(abspath $(O))/hetmap bench --with $(1).json --markdown >$(1).md.tmp && \
	mv $(1).md.tmp $(1).md

# The cases of hetmap-table, in the same run: one machine is told of.
measure_tables = $(if $(have_table),$(O)/hetmap bench --json formats arrow_open arrow_scan \
	parquet_columns parquet_skip table_window | grep -v '^{"machine"' \
	>>$(results)/performance.json.tmp)
# Those of hetmap-plan, likewise; HETMAP_PYTHON names a Python with the package onnx.
measure_plans = $(Q)$(O)/hetmap bench --json graph_transfer graph_overlap plan_compile \
	plan_launch | grep -v '^{"machine"' >>$(results)/performance.json.tmp

# Likewise those of hetmap-cluster.
measure_arrays = $(if $(have_cluster),$(O)/hetmap bench --json array_put array_get array_page \
	particles | grep -v '^{"machine"' >>$(results)/performance.json.tmp)

performance: all ## measures everything, into tools/perf/bench/results
	$(Q)$(O)/hetmap bench --json >$(results)/performance.json.tmp
	$(Q)$(measure_tables)
	$(measure_plans)
	$(Q)$(measure_arrays)
	$(call write_results,performance)

lifecycle: ## the states of each kind of object as a page, build/lifecycle.md
	@mkdir -p $(B)
	$(Q)tests/lifecycle/page >$(B)/lifecycle.md.tmp
	$(Q)mv $(B)/lifecycle.md.tmp $(B)/lifecycle.md

full: ## all that CI can run, for an hour or more; a green one writes tests/full-runs
	$(Q).ci/run --full

full-changed: ## the same for what has changed since, or failed; adds to tests/full-runs
	$(Q).ci/run --changed

coverage: ## a build that counts lines, in $(B)/coverage
	$(Q)$(MAKE) COVERAGE=1 tests

lint: ## style and static checks
	$(Q)tools/lint

include tests/vm/vm.mk
include python/python.mk
include packaging/packaging.mk

# Each tests/*/fuzz_*.c (clang), the simulated device's twin under ASan, and the module
# in a machine with the debug kernel, each for MINUTES; findings stay in $(B)/fuzz.
# HETMAP_SEED makes a run again; libFuzzer's are of 31 bits.
MINUTES ?= 30
FUZZ_SECONDS = $(shell expr $(MINUTES) '*' 60)
FUZZ_KIND = CC=clang SANITIZE=fuzzer-no-link,address,undefined B=$(B)/fuzz
fuzz: tests ## random input and calls: fuzz_*.c, soft:0 and the module, MINUTES=30 each
	$(Q)tests/record 'make fuzz MINUTES=$(MINUTES): fuzz_*.c' \
		$(MAKE) $(FUZZ_KIND) MINUTES=$(MINUTES) fuzz-all
	$(Q)$(MAKE) SANITIZE=address,undefined $(B)/asan/tests/hammer_hetsim
	$(Q)tests/record 'make fuzz MINUTES=$(MINUTES): soft:0' \
		$(B)/asan/tests/hammer_hetsim --device soft:0 --seconds $(FUZZ_SECONDS) --unplug
	$(Q)B=$(B) ROUNDS=0 UNBINDS=0 SECONDS_OF_FUZZING=$(FUZZ_SECONDS) \
		tests/record 'make fuzz MINUTES=$(MINUTES): the module' tests/vm/check-debug none

fuzz-all: $(fuzz_programs)
	$(Q)set -e; for f in $^; do \
		mkdir -p $$f.corpus; \
		$$f $${HETMAP_SEED:+-seed=$$((HETMAP_SEED & 0x7fffffff))} \
			-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
			-artifact_prefix=$$f. $$f.corpus \
			$$(find tests/corpus/$$(basename $$f) -maxdepth 0 2>/dev/null); \
	done

# What reads traces is the command's own.
$(O)/tests/fuzz_trace: $(filter $(O)/tools/common/% $(O)/tools/perf/read/%,$(tool_objects))

$(fuzz_programs): $(start_object) $(O)/runtime.a
	$(say) LD $@
	$(Q)$(link) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(filter %.a,$^) \
		$(more_libs) $(call libs_of,$(lib_packages) $(tool_packages)) -lm

# ---- installing ----

headers := $(wildcard include/hetmap/*.h)
# The calls of the simulated device, which hm_sim_call() makes.
uapi_headers := $(wildcard include/uapi/*.h)
pages := $(wildcard man/*.[1-8]) $(extension_pages)
place = $(DESTDIR)$(1)
page_place = $(DESTDIR)$(MANDIR)/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))
# Each function has a page of its name: a link to the page that has it in its NAME.
function_pages := $(filter %.3,$(pages))
links_to = $(filter-out $(notdir $(pages)),$(addsuffix .3,$(shell \
	sed -n '/^\.Sh NAME/,/^\.Sh SYNOPSIS/s/^\.Nm \(hm_[a-z0-9_]*\).*/\1/p' $(1))))

# The shell and make both take a blank for the end of a path.
ifneq ($(filter install uninstall,$(goals)),)
places := PREFIX BINDIR LIBDIR LIBEXECDIR INCLUDEDIR MANDIR
$(foreach v,$(places) DESTDIR,$(if $(word 2,$($(v))),$(error \
	$(v) is "$($(v))", which has white space in it: name a folder without)))
$(foreach v,$(places),$(if $(filter-out /%,$($(v))),$(error \
	$(v) is "$($(v))", which does not begin with "/": name all of the path)))
endif

install: all ## into DESTDIR and PREFIX
	install -d $(call place,$(BINDIR)) $(call place,$(LIBDIR)/pkgconfig) \
		$(call place,$(INCLUDEDIR)/hetmap/uapi)
	install -m 755 $(O)/hetmap $(call place,$(BINDIR)/hetmap)
	install -d $(call place,$(LIBEXECDIR)/hetmap)
	install -m 755 $(bench_program) $(call place,$(LIBEXECDIR)/hetmap/hetmap-bench)
	install -m 644 $(headers) $(call place,$(INCLUDEDIR)/hetmap)
	install -m 644 $(uapi_headers) $(call place,$(INCLUDEDIR)/hetmap/uapi)
	install -m 644 $(O)/libhetmap.a $(call place,$(LIBDIR)/libhetmap.a)
	install -m 755 $(O)/$(SONAME) $(call place,$(LIBDIR)/libhetmap.so.$(VERSION))
	ln -sf libhetmap.so.$(VERSION) $(call place,$(LIBDIR)/$(SONAME))
	ln -sf $(SONAME) $(call place,$(LIBDIR)/libhetmap.so)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@PACKAGES@|$(lib_packages)|' hetmap.pc.in \
		>$(call place,$(LIBDIR)/pkgconfig/hetmap.pc)
	$(Q)$(foreach p,$(pages),install -D -m 644 $(p) $(call page_place,$(p)) &&) :
	$(Q)$(foreach p,$(function_pages),for name in $(call links_to,$(p)); do \
		echo '.so man3/$(notdir $(p))' >$(call place,$(MANDIR)/man3/)$$name && \
		chmod 644 $(call place,$(MANDIR)/man3/)$$name || exit; done;)
	$(install_extensions)
	$(if $(have_table),$(install_table))
	$(install_plan)
	$(install_tier)
	$(if $(have_cluster),$(install_cluster))
	$(Q)[ -n '$(DESTDIR)' ] || PATH=$$PATH:/sbin ldconfig 2>/dev/null || \
		echo 'ldconfig failed: programs need LD_LIBRARY_PATH=$(LIBDIR)'

uninstall: ## takes away what install put there
	rm -f $(call place,$(BINDIR)/hetmap) $(call place,$(LIBEXECDIR)/hetmap/hetmap-bench) \
		$(foreach h,$(headers),$(call place,$(INCLUDEDIR)/hetmap/$(notdir $(h)))) \
		$(foreach h,$(uapi_headers),$(call place,$(INCLUDEDIR)/hetmap/uapi/$(notdir $(h)))) \
		$(call place,$(LIBDIR)/libhetmap.a) $(call place,$(LIBDIR)/libhetmap.so) \
		$(call place,$(LIBDIR)/$(SONAME)) \
		$(call place,$(LIBDIR)/libhetmap.so.$(VERSION)) \
		$(call place,$(LIBDIR)/pkgconfig/hetmap.pc) \
		$(foreach p,$(pages),$(call page_place,$(p))) \
		$(foreach p,$(function_pages),$(addprefix $(call place,$(MANDIR)/man3/), \
			$(call links_to,$(p))))
	$(uninstall_extensions)
	$(if $(have_table),$(uninstall_table))
	$(uninstall_plan)
	$(uninstall_tier)
	$(if $(have_cluster),$(uninstall_cluster))
	-rmdir $(call place,$(LIBEXECDIR)/hetmap) $(call place,$(INCLUDEDIR)/hetmap/uapi) $(call place,$(INCLUDEDIR)/hetmap) \
		2>/dev/null

clean: ## removes the build folder
	rm -rf $(B)

help: ## this text
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile tests/vm/vm.mk python/python.mk extensions/table/table.mk packaging/packaging.mk | expand -t 12
	@echo
	@echo 'V=1 shows commands; WERROR=1; B=folder; SANITIZE=address,undefined or thread;'
	@echo 'DEBUG=1: calls are held against tests/lifecycle/lifecycle_table.h'

.PHONY: all lib objects tests run check full bench performance coverage lint fuzz fuzz-all lifecycle install uninstall clean help force
.DELETE_ON_ERROR:
