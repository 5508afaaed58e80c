# SPDX-License-Identifier: MIT
# A machine under test by hand. CMD is taken as it is written: a dollar sign in it is
# the shell's, not make's. make itself fails with 2 whatever CMD's status was, and
# names it; tools/vm has it for its own. PARAMETERS are the module's.

KERNEL ?= 6.1

# Tests are built where they are run: a newcomer does not wait for all of them.
vm: $(if $(findstring /tests/,$(value CMD)),tests,all) ## a shell in a machine with hetsim; or make vm KERNEL=6.12 CMD='...'
	$(Q)export HETMAP_VM_TELL=1; module=$$(B=$(B) tests/vm/module $(KERNEL)) && \
		$(if $(value CMD),,echo 'A shell in a machine with hetsim: /dev/hetsim0.' \
			'Try $(B)/hetmap tour; exit ends it.' >&2 &&) \
		tests/vm/boot -k $(KERNEL) -m "$$module" \
			$(patsubst %,-p %,test=1 $(PARAMETERS)) \
			$(if $(value CMD),sh -c '$(subst ','\'',$(value CMD))')

# What a host lacks: the module, dma-heaps, DRM nodes, and memory that may be brought to
# pieces, which comes last. Memory for 1 GiB twice over.
PERFORMANCE_VM = sim_fault sim_submit sim_copy transfer_1g dmabuf_bracket dmabuf_share \
	drm_map_cycle drm_reuse frag_effect
performance-vm: all ## measures that in a machine with them, into tools/perf/bench/results
	$(Q)module=$$(B=$(B) tests/vm/module 6.12) && \
		HETMAP_VM_MEMORY=4G tests/vm/boot -k 6.12 -m "$$module" -p test=1 -p vram_mb=2048 \
			-t 1200 $(O)/hetmap bench --json $(PERFORMANCE_VM) \
			>$(results)/performance-vm.json.tmp
	$(call write_results,performance-vm)

KDIR ?= /lib/modules/$(shell uname -r)/build
module: ## hetsim.ko for the running kernel, or KDIR=its-headers; in $(B)/module
	$(Q)[ -e '$(KDIR)/Makefile' ] || { \
		echo 'no headers of the kernel at $(KDIR): apt-get install' \
			"linux-headers-$$(uname -r), or KDIR=FOLDER" >&2; exit 3; }
	$(Q)mkdir -p $(B)/module && cp -Rup Kbuild drivers include $(B)/module
	$(Q)$(MAKE) -C '$(KDIR)' M='$(abspath $(B)/module)' modules
	$(say) MODULE $(B)/module/drivers/sim/hetsim.ko

module-next: ## hetsim built for the newest kernel that Debian has
	$(Q)tests/vm/next

check-debug: tests ## the module under a kernel that watches its memory and locks
	$(Q)B=$(B) tests/vm/check-debug
	$(Q)tests/plan seen debug

# A decoder (vicodec), a converter (vim2m) and a display (vkms) that stock kernels lack are built once, from Debian's
# source; a check has them from then on, and without them it leaves their tests out.
VIDEO_MACHINE = test_video_camera test_video_codec test_video_display test_video_m2m
vm-video: tests ## cameras, a codec, a converter and displays in the 6.12 machine, with modules built for it
	$(Q)HETMAP_VM_TELL=1 tests/vm/media 6.12 >/dev/null
	$(Q)B=$(B) tests/vm/check -k 6.12 $(VIDEO_MACHINE)

# Programs that are told how many rounds to go, and what is too long for every check. In the
# machines each public call is held against the table of lifecycles.
SOAK_HOST = test_lost_threads test_share_kill test_races test_pool_model test_pool_threads
SOAK_ASAN = test_command_terminal test_command_trace test_bench_cases test_bench_cluster test_trace_attach \
	test_drm_lifecycle test_retire_conformance
SOAK_TSAN = test_undo test_errno test_soft_undo test_lifecycle test_reader_budget test_tokens_budget \
	test_drm_mutation
SOAK_MACHINES = test_lifecycle test_lost_threads test_lost_opencl test_share_kill test_threads test_accel \
	test_retire_stress test_launch test_zero_copy test_repair test_repair_threads test_races test_reader_cgroup \
	test_undo test_recover_undo test_limits test_hetsim_scarce test_hetsim_command test_seal test_seal_one_way \
	test_retire test_guard test_guard_threads test_guard_callbacks test_guard_opencl test_handler
soak: tests ## losses, kills and races 1000 times; the module unloaded ROUNDS=100 times under load
	$(Q)HETMAP_ROUNDS=1000 HETMAP_RACE_SECONDS=120 HETMAP_TIME_SCALE=20 \
		B=$(B) HETMAP_STAGES=built SECONDS_A_PROGRAM=3600 \
		tests/record 'make soak: the host' tests/run $(SOAK_HOST)
	$(Q)$(if $(have_cluster),HETMAP_ROUNDS=100 HETMAP_TIME_SCALE=20 B=$(B) HETMAP_STAGES=built \
		SECONDS_A_PROGRAM=3600 tests/record 'make soak: 1000 moves of rows under reads' \
		tests/run test_array_move,:)
	$(Q)$(if $(have_cluster),HETMAP_ROUNDS=200 HETMAP_TIME_SCALE=20 B=$(B) HETMAP_STAGES=built \
		SECONDS_A_PROGRAM=3600 tests/record 'make soak: 400 ranks killed' \
		tests/run test_array_kill,:)
	$(Q)$(if $(have_cluster),HETMAP_PAGED_MIB=8192 HETMAP_TIME_SCALE=20 B=$(B) HETMAP_STAGES=built \
		SECONDS_A_PROGRAM=3600 tests/record 'make soak: 8 GiB by pages through 64 MiB' \
		tests/run test_array_pages,:)
	$(Q)B=$(B) HETMAP_STAGES=asan SECONDS_A_PROGRAM=3600 \
		tests/record 'make soak: ASan, what is long' tests/run $(SOAK_ASAN)
	$(Q)B=$(B) HETMAP_STAGES=tsan SECONDS_A_PROGRAM=3600 \
		tests/record 'make soak: TSan, what is long' tests/run $(SOAK_TSAN)
	$(Q)BYTES=8589934592 FOLDER=$(B) PYTHONPATH=$(B)/python tests/record \
		'make soak: 32,768 rows of 8 GiB' /usr/bin/python3 tests/python/figures.py rows
	$(Q)tests/record 'make soak: the wheel in a bare Debian 12' $(MAKE) check-wheel
	$(Q)TIDY_NODES=225000 tests/record 'make soak: the analyzer' tools/lint tidy
	$(Q)$(if $(have_table),HETMAP_BENCH_TABLE=8G tests/record 'make soak: a table of 8 GiB' \
		$(B)/hetmap bench table_window,:)
	$(Q)B=$(B) PLANTED=all tests/record 'make soak: bugs planted on purpose' \
		sh tests/build/test_planted.sh
	$(Q)$(MAKE) DEBUG=1 tests
	$(Q)HETMAP_ROUNDS=1000 HETMAP_EVERY=1 HETMAP_RACE_SECONDS=60 HETMAP_READ_GIB=16 SLOWNESS=200 \
		B=$(B)/debug SECONDS_A_MACHINE=7200 SECONDS_A_PROGRAM=3600 \
		tests/record 'make soak: the machines, DEBUG=1' tests/vm/check $(SOAK_MACHINES)
	$(Q)tests/vm/media 6.12 >/dev/null
	$(Q)B=$(B) tests/record 'make soak: cameras, a codec and displays' \
		tests/vm/check -k 6.12 $(VIDEO_MACHINE)
	$(Q)B=$(B) ROUNDS=$(or $(ROUNDS),100) SECONDS_OF_FUZZING=0 UNDER_LOAD=1 \
		tests/record 'make soak ROUNDS=$(or $(ROUNDS),100): the debug kernel' \
		tests/vm/check-debug
	$(Q)B=$(B) DEBUG_KERNEL=debug-6.12 tests/record 'make soak: debug-6.12, blocks of 2 MiB' \
		tests/vm/check-debug

.PHONY: vm vm-video performance-vm module module-next check-debug soak
