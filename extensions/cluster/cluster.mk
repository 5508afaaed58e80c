# SPDX-License-Identifier: MIT
# libhetmap-cluster. Built where MPI is: mpi of pkg-config, which Debian's MPICH and Open MPI have,
# or another name: make MPI=ompi-c.

cluster_folder := extensions/cluster
MPI ?= mpi
cluster_packages := $(MPI)
# TSan sees races in MPI, which is not built for it; counting lines and random input are for the
# core.
cluster_left_out := $(filter fuzzer% thread,$(subst $(comma), ,$(SANITIZE)))$(COVERAGE)
have_cluster := $(if $(cluster_left_out),,$(shell $(PKG_CONFIG) --exists $(cluster_packages) \
	2>/dev/null && echo cluster))
# RDMA of its own where libibverbs is; make VERBS= leaves it out.
VERBS ?= libibverbs
have_verbs := $(if $(VERBS),$(shell $(PKG_CONFIG) --exists $(VERBS) 2>/dev/null && \
	echo verbs))
cluster_packages += $(if $(have_verbs),$(VERBS))
cluster_soname := libhetmap-cluster.so.$(MAJOR)

cluster_lib_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(cluster_folder)/lib/*.c))
cluster_headers := $(wildcard $(cluster_folder)/include/hetmap/*.h)
cluster_pages := $(wildcard $(cluster_folder)/man/*.[1-8])
cluster_products := $(O)/libhetmap-cluster.so $(O)/libhetmap-cluster.a

ifneq ($(have_cluster),)
# Its headers are another's: no warnings of theirs.
cluster_flags := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(cluster_packages))) \
	-I$(cluster_folder)/include $(if $(have_verbs),-DHAVE_VERBS)
cluster_libs = $(call libs_of,$(cluster_packages))
extensions += $(cluster_products)
extension_objects += $(cluster_lib_objects)
extension_pages += $(cluster_pages)
endif

-include $(cluster_folder)/command/command.mk

$(cluster_lib_objects): flags_for = $(cluster_flags)

$(O)/libhetmap-cluster.a: $(cluster_lib_objects)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/libhetmap-cluster.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libhetmap-cluster.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libhetmap-cluster.o

$(O)/$(cluster_soname): $(cluster_lib_objects) $(cluster_folder)/lib/libhetmap-cluster.map \
		$(O)/libhetmap.so
	$(say) LD $@
	$(Q)$(link) -shared -Wl,-soname,$(cluster_soname) $(if $(SANITIZE),,-Wl,-z,defs) \
		-Wl,--version-script=$(cluster_folder)/lib/libhetmap-cluster.map -o $@ \
		$(cluster_lib_objects) -L$(O) -lhetmap $(cluster_libs)

$(O)/libhetmap-cluster.so: $(O)/$(cluster_soname)
	$(Q)ln -sf $(cluster_soname) $@

# Each command has a line of its own: the recipes of install and uninstall take them in.
define install_cluster
install -m 644 $(cluster_headers) $(call place,$(INCLUDEDIR)/hetmap)
install -m 644 $(O)/libhetmap-cluster.a $(call place,$(LIBDIR)/libhetmap-cluster.a)
install -m 755 $(O)/$(cluster_soname) $(call place,$(LIBDIR)/libhetmap-cluster.so.$(VERSION))
ln -sf libhetmap-cluster.so.$(VERSION) $(call place,$(LIBDIR)/$(cluster_soname))
ln -sf $(cluster_soname) $(call place,$(LIBDIR)/libhetmap-cluster.so)
sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	-e 's|@PACKAGES@|$(cluster_packages)|' $(cluster_folder)/hetmap-cluster.pc.in \
	>$(call place,$(LIBDIR)/pkgconfig/hetmap-cluster.pc)
$(install_cluster_command)
endef

define uninstall_cluster
rm -f \
	$(foreach h,$(cluster_headers),$(call place,$(INCLUDEDIR)/hetmap/$(notdir $(h)))) \
	$(call place,$(LIBDIR)/libhetmap-cluster.a) $(call place,$(LIBDIR)/libhetmap-cluster.so) \
	$(call place,$(LIBDIR)/$(cluster_soname)) \
	$(call place,$(LIBDIR)/libhetmap-cluster.so.$(VERSION)) \
	$(call place,$(LIBDIR)/pkgconfig/hetmap-cluster.pc)
$(uninstall_cluster_command)
endef

# Its tests are in tests/cluster, and say so where they can't be built.
cluster_test_objects := $(patsubst %.c,$(O)/%.o,$(wildcard tests/cluster/*.c))
cluster_tests := $(patsubst tests/cluster/%.c,$(O)/tests/%,$(wildcard tests/cluster/test_*.c))
cluster_test_flags := -I$(cluster_folder)/include
ifneq ($(have_cluster),)
cluster_test_flags += -DHAVE_CLUSTER $(cluster_flags)
$(cluster_tests): more_libs = $(cluster_libs)
$(cluster_tests): $(cluster_lib_objects)
endif
# Its RDMA device is one of its own.
ifneq ($(have_verbs),)
fake_verbs_object := $(O)/tests/cluster/fake/verbs.o
$(fake_verbs_object): flags_for = -Itests
$(O)/tests/test_array_verbs: $(fake_verbs_object)
extension_objects += $(fake_verbs_object)
endif
