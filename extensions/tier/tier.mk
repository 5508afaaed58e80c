# SPDX-License-Identifier: MIT
# libhetmap-tier: logs that outlive a power failure. Built where libpmem2 is; all the rest does
# without it.

tier_folder := extensions/tier
tier_soname := libhetmap-tier.so.$(MAJOR)
tier_lib_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(tier_folder)/lib/*.c))
tier_headers := $(tier_folder)/include/hetmap/log.h
tier_packages := libpmem2
have_tier := $(shell $(PKG_CONFIG) --exists $(tier_packages) 2>/dev/null && echo tier)
tier_flags := -I$(tier_folder)/include $(shell $(PKG_CONFIG) --cflags $(tier_packages) 2>/dev/null)

tier_tool_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(tier_folder)/command/*.c))

ifneq ($(have_tier),)
extensions += $(O)/libhetmap-tier.so $(O)/libhetmap-tier.a $(O)/libexec/hetmap/tier
extension_objects += $(tier_lib_objects) $(tier_tool_objects)
extension_pages += $(wildcard $(tier_folder)/man/*.[1-8])
else ifneq ($(filter all,$(goals)),)
$(info libhetmap-tier is left out: pkg-config does not find libpmem2 (libpmem2-dev))
endif

$(tier_lib_objects): flags_for = $(tier_flags)
$(tier_tool_objects): flags_for = $(tier_flags) -Itools

$(O)/libexec/hetmap/tier: $(tier_tool_objects) $(O)/libhetmap-tier.a $(O)/tools.a $(O)/libhetmap.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(tier_packages)) \
		$(call libs_of,$(lib_packages) $(tool_packages)) -lm

$(O)/libhetmap-tier.a: $(tier_lib_objects)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/libhetmap-tier.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libhetmap-tier.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libhetmap-tier.o

$(O)/$(tier_soname): $(tier_lib_objects) $(tier_folder)/lib/libhetmap-tier.map $(O)/libhetmap.so
	$(say) LD $@
	$(Q)$(link) -shared -Wl,-soname,$(tier_soname) $(if $(SANITIZE),,-Wl,-z,defs) \
		-Wl,--version-script=$(tier_folder)/lib/libhetmap-tier.map -o $@ \
		$(tier_lib_objects) -L$(O) -lhetmap $(call libs_of,$(tier_packages))

$(O)/libhetmap-tier.so: $(O)/$(tier_soname)
	$(Q)ln -sf $(tier_soname) $@

ifneq ($(have_tier),)
define install_tier
install -d $(call place,$(LIBEXECDIR)/hetmap)
install -m 755 $(O)/libexec/hetmap/tier $(call place,$(LIBEXECDIR)/hetmap/tier)
install -m 644 $(tier_headers) $(call place,$(INCLUDEDIR)/hetmap)
install -m 644 $(O)/libhetmap-tier.a $(call place,$(LIBDIR)/libhetmap-tier.a)
install -m 755 $(O)/$(tier_soname) $(call place,$(LIBDIR)/libhetmap-tier.so.$(VERSION))
ln -sf libhetmap-tier.so.$(VERSION) $(call place,$(LIBDIR)/$(tier_soname))
ln -sf $(tier_soname) $(call place,$(LIBDIR)/libhetmap-tier.so)
sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	$(tier_folder)/hetmap-tier.pc.in >$(call place,$(LIBDIR)/pkgconfig/hetmap-tier.pc)
endef
endif

uninstall_tier = rm -f $(call place,$(LIBEXECDIR)/hetmap/tier) \
	$(foreach h,$(tier_headers),$(call place,$(INCLUDEDIR)/hetmap/$(notdir $(h)))) \
	$(call place,$(LIBDIR)/libhetmap-tier.a) $(call place,$(LIBDIR)/libhetmap-tier.so) \
	$(call place,$(LIBDIR)/$(tier_soname)) \
	$(call place,$(LIBDIR)/libhetmap-tier.so.$(VERSION)) \
	$(call place,$(LIBDIR)/pkgconfig/hetmap-tier.pc)

# Its tests are in tests/log, and say so where they can't be built. The replay needs no libpmem2.
tier_test_objects := $(patsubst %.c,$(O)/%.o,$(wildcard tests/log/*.c))
tier_test_flags := $(tier_flags) -I$(tier_folder)/lib
$(O)/tests/test_log_replay: $(O)/$(tier_folder)/lib/log_core.o
ifneq ($(have_tier),)
tier_test_flags += -DHAVE_TIER
$(O)/tests/test_log: more_libs = $(call libs_of,$(tier_packages))
$(O)/tests/test_log: $(tier_lib_objects)
endif
