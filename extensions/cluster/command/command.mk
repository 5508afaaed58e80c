# SPDX-License-Identifier: MIT
# Programs that show the library: where MPI is.

cluster_examples := $(patsubst %.c,$(O)/%,$(wildcard examples/cluster/*.c))
cluster_example_objects := $(cluster_examples:%=%.o)
$(cluster_example_objects): flags_for = $(cluster_flags)

ifneq ($(have_cluster),)
extensions += $(cluster_examples)
extension_objects += $(cluster_example_objects)
endif

$(cluster_examples): $(O)/examples/cluster/%: $(O)/examples/cluster/%.o \
		$(O)/libhetmap-cluster.a $(O)/libhetmap.a
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(cluster_libs) $(call libs_of,$(lib_packages)) -lm
