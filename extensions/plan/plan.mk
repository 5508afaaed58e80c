# SPDX-License-Identifier: MIT
# libhetmap-plan: mappings, transfers and memory by the graph of operations. It needs libhetmap only.

plan_folder := extensions/plan
plan_soname := libhetmap-plan.so.$(MAJOR)
plan_lib_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(plan_folder)/lib/*.c))
plan_headers := $(plan_folder)/include/hetmap/plan.h
plan_flags := -I$(plan_folder)/include
plan_tool_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(plan_folder)/command/*.c))

extensions += $(O)/libhetmap-plan.so $(O)/libhetmap-plan.a $(O)/libexec/hetmap/graph \
	$(O)/libexec/hetmap/onnx-graph
extension_objects += $(plan_lib_objects) $(plan_tool_objects)
extension_pages += $(wildcard $(plan_folder)/man/*.[1-8])

$(plan_lib_objects): flags_for = $(plan_flags)
$(plan_tool_objects): flags_for = $(plan_flags) -Itools

$(O)/libhetmap-plan.a: $(plan_lib_objects)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/libhetmap-plan.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libhetmap-plan.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libhetmap-plan.o

$(O)/$(plan_soname): $(plan_lib_objects) $(plan_folder)/lib/libhetmap-plan.map $(O)/libhetmap.so
	$(say) LD $@
	$(Q)$(link) -shared -Wl,-soname,$(plan_soname) $(if $(SANITIZE),,-Wl,-z,defs) \
		-Wl,--version-script=$(plan_folder)/lib/libhetmap-plan.map -o $@ \
		$(plan_lib_objects) -L$(O) -lhetmap

$(O)/libhetmap-plan.so: $(O)/$(plan_soname)
	$(Q)ln -sf $(plan_soname) $@

$(O)/libexec/hetmap/graph: $(plan_tool_objects) $(O)/libhetmap-plan.a $(O)/tools.a \
		$(O)/libhetmap.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(lib_packages) $(tool_packages)) -lm

# What reads models of ONNX.
$(O)/libexec/hetmap/onnx-graph: tools/graph
	@mkdir -p $(@D)
	$(Q)cp $< $@

define install_plan
install -d $(call place,$(LIBEXECDIR)/hetmap)
install -m 755 $(O)/libexec/hetmap/graph $(call place,$(LIBEXECDIR)/hetmap/graph)
install -m 755 tools/graph $(call place,$(LIBEXECDIR)/hetmap/onnx-graph)
install -m 644 $(plan_headers) $(call place,$(INCLUDEDIR)/hetmap)
install -m 644 $(O)/libhetmap-plan.a $(call place,$(LIBDIR)/libhetmap-plan.a)
install -m 755 $(O)/$(plan_soname) $(call place,$(LIBDIR)/libhetmap-plan.so.$(VERSION))
ln -sf libhetmap-plan.so.$(VERSION) $(call place,$(LIBDIR)/$(plan_soname))
ln -sf $(plan_soname) $(call place,$(LIBDIR)/libhetmap-plan.so)
sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	$(plan_folder)/hetmap-plan.pc.in >$(call place,$(LIBDIR)/pkgconfig/hetmap-plan.pc)
endef

uninstall_plan = rm -f $(call place,$(LIBEXECDIR)/hetmap/graph) \
	$(call place,$(LIBEXECDIR)/hetmap/onnx-graph) \
	$(foreach h,$(plan_headers),$(call place,$(INCLUDEDIR)/hetmap/$(notdir $(h)))) \
	$(call place,$(LIBDIR)/libhetmap-plan.a) $(call place,$(LIBDIR)/libhetmap-plan.so) \
	$(call place,$(LIBDIR)/$(plan_soname)) \
	$(call place,$(LIBDIR)/libhetmap-plan.so.$(VERSION)) \
	$(call place,$(LIBDIR)/pkgconfig/hetmap-plan.pc)

# Its tests are in tests/graph.
plan_test_objects := $(patsubst %.c,$(O)/%.o,$(wildcard tests/graph/*.c))
plan_tests := $(patsubst tests/graph/%.c,$(O)/tests/%,$(wildcard tests/graph/test_*.c))
plan_test_flags := $(plan_flags)
$(plan_tests): $(plan_lib_objects)
