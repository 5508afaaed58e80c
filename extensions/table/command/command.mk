# SPDX-License-Identifier: MIT
# libexec/hetmap/table, which `hetmap run table` runs, and `hetmap inspect` and `hetmap bench` for
# tables: where libarrow and libparquet are. Parts of it that need neither are tested in any case.

table_command := extensions/table/command
table_tool_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(table_command)/*.c))
table_tool_flags := -Iextensions/table/include -Itools

$(table_tool_objects): flags_for = $(table_tool_flags)
# Loops that compilers make wide.
$(addprefix $(O)/$(table_command)/,sum_cpu.o peer_tables.o bench_formats.o): flags_for += -O3

# Programs that show the library: bars of minutes, a file a day.
table_examples := $(patsubst %.c,$(O)/%,$(wildcard examples/table/*.c))
table_example_objects := $(table_examples:%=%.o)
$(table_example_objects): flags_for = -Iextensions/table/include

ifneq ($(have_table),)
extensions += $(O)/libexec/hetmap/table $(table_examples)
extension_objects += $(table_tool_objects) $(table_example_objects)
endif

$(O)/libexec/hetmap/table: $(table_tool_objects) $(O)/libhetmap-table.a $(O)/tools.a \
		$(O)/libhetmap.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(table_libs) \
		$(call libs_of,$(lib_packages) $(tool_packages)) -lm

$(table_examples): $(O)/examples/table/%: $(O)/examples/table/%.o $(O)/libhetmap-table.a \
		$(O)/libhetmap.a
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(table_libs) $(call libs_of,$(lib_packages)) -lm

# Each command has a line of its own: the recipes of install and uninstall take them in.
define install_table_command
install -d $(call place,$(LIBEXECDIR)/hetmap)
install -m 755 $(O)/libexec/hetmap/table $(call place,$(LIBEXECDIR)/hetmap/table)
endef
uninstall_table_command = rm -f $(call place,$(LIBEXECDIR)/hetmap/table)

$(O)/tests/test_table_sum: $(addprefix $(O)/$(table_command)/,arena.o keys.o sum.o sum_cpu.o \
	types.o) $(O)/tools.a
