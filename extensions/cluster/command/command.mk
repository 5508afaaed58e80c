# SPDX-License-Identifier: MIT
# libexec/hetmap/particles, which `hetmap run particles` runs, and programs that show the library:
# where MPI is.

cluster_command := extensions/cluster/command
cluster_tool_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(cluster_command)/*.c))

$(cluster_tool_objects): flags_for = $(cluster_flags) -Itools
# Loops that compilers make wide.
$(O)/$(cluster_command)/forces.o: flags_for += -O3 -fopenmp-simd -fno-math-errno

cluster_examples := $(patsubst %.c,$(O)/%,$(wildcard examples/cluster/*.c))
cluster_example_objects := $(cluster_examples:%=%.o)
$(cluster_example_objects): flags_for = $(cluster_flags)

ifneq ($(have_cluster),)
extensions += $(O)/libexec/hetmap/particles $(cluster_examples)
extension_objects += $(cluster_tool_objects) $(cluster_example_objects)
endif

$(O)/libexec/hetmap/particles: $(cluster_tool_objects) $(O)/libhetmap-cluster.a $(O)/tools.a \
		$(O)/libhetmap.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(cluster_libs) \
		$(call libs_of,$(lib_packages) $(tool_packages)) -lm

$(cluster_examples): $(O)/examples/cluster/%: $(O)/examples/cluster/%.o \
		$(O)/libhetmap-cluster.a $(O)/libhetmap.a
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(cluster_libs) $(call libs_of,$(lib_packages)) -lm

# Each command has a line of its own: the recipes of install and uninstall take them in.
define install_cluster_command
install -d $(call place,$(LIBEXECDIR)/hetmap)
install -m 755 $(O)/libexec/hetmap/particles $(call place,$(LIBEXECDIR)/hetmap/particles)
endef
uninstall_cluster_command = rm -f $(call place,$(LIBEXECDIR)/hetmap/particles)
