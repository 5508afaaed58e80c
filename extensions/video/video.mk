# SPDX-License-Identifier: MIT
# libhetmap-video and libexec/hetmap/video, which `hetmap run video` runs. Built where the
# libraries of FFmpeg and libpng are; all the rest does without them.

video_folder := extensions/video
video_packages := libavformat libavcodec libavutil
video_tool_packages := libpng
have_video := $(shell $(PKG_CONFIG) --exists $(video_packages) $(video_tool_packages) \
	2>/dev/null && echo video)
video_soname := libhetmap-video.so.$(MAJOR)

video_lib_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(video_folder)/lib/*.c))
video_tool_objects := $(patsubst %.c,$(O)/%.o,$(wildcard $(video_folder)/command/*.c))
video_products := $(O)/libhetmap-video.so $(O)/libhetmap-video.a $(O)/libexec/hetmap/video
video_headers := $(video_folder)/include/hetmap/video.h
video_pages := $(wildcard $(video_folder)/man/*.[1-8])

# Pixels in rows are compiled once for each instruction set: loops that a compiler makes wide.
video_avx2_object := $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)), \
	$(O)/$(video_folder)/command/rows_avx2.o)
video_tool_objects += $(video_avx2_object)

ifneq ($(have_video),)
video_flags := $(shell $(PKG_CONFIG) --cflags $(video_packages) $(video_tool_packages)) \
	-I$(video_folder)/include
extensions += $(video_products)
extension_objects += $(video_lib_objects) $(video_tool_objects)
extension_pages += $(video_pages)
endif

$(video_lib_objects): flags_for = $(video_flags)
$(video_tool_objects): flags_for = $(video_flags) -Itools
$(O)/$(video_folder)/command/timeline.o: $(addprefix $(video_folder)/command/timeline., \
	html css js)
$(O)/$(video_folder)/command/rows.o: flags_for += -O3
$(O)/$(video_folder)/command/rows_avx2.o: $(video_folder)/command/rows.c $(O)/config.h $(O)/flags
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(compile) -O3 -mavx2 -DROW_CONVERT=row_convert_avx2 -MMD -MP -c -o $@ $<

$(O)/libhetmap-video.a: $(video_lib_objects)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/libhetmap-video.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libhetmap-video.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libhetmap-video.o

$(O)/$(video_soname): $(video_lib_objects) $(video_folder)/lib/libhetmap-video.map \
		$(O)/libhetmap.so
	$(say) LD $@
	$(Q)$(link) -shared -Wl,-soname,$(video_soname) $(if $(SANITIZE),,-Wl,-z,defs) \
		-Wl,--version-script=$(video_folder)/lib/libhetmap-video.map -o $@ \
		$(video_lib_objects) -L$(O) -lhetmap $(call libs_of,$(video_packages))

$(O)/libhetmap-video.so: $(O)/$(video_soname)
	$(Q)ln -sf $(video_soname) $@

$(O)/libexec/hetmap/video: $(video_tool_objects) $(O)/libhetmap-video.a $(O)/tools.a \
		$(O)/libhetmap.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -o $@ $^ $(call libs_of,$(video_packages) $(video_tool_packages) \
		$(lib_packages) $(tool_packages)) -lm

# Each command has a line of its own: the recipes of install and uninstall take them in.
define install_video
install -d $(call place,$(LIBEXECDIR)/hetmap)
install -m 755 $(O)/libexec/hetmap/video $(call place,$(LIBEXECDIR)/hetmap/video)
install -m 644 $(video_headers) $(call place,$(INCLUDEDIR)/hetmap)
install -m 644 $(O)/libhetmap-video.a $(call place,$(LIBDIR)/libhetmap-video.a)
install -m 755 $(O)/$(video_soname) $(call place,$(LIBDIR)/libhetmap-video.so.$(VERSION))
ln -sf libhetmap-video.so.$(VERSION) $(call place,$(LIBDIR)/$(video_soname))
ln -sf $(video_soname) $(call place,$(LIBDIR)/libhetmap-video.so)
sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	-e 's|@PACKAGES@|$(video_packages)|' $(video_folder)/hetmap-video.pc.in \
	>$(call place,$(LIBDIR)/pkgconfig/hetmap-video.pc)
endef

uninstall_video = rm -f $(call place,$(LIBEXECDIR)/hetmap/video) \
	$(foreach h,$(video_headers),$(call place,$(INCLUDEDIR)/hetmap/$(notdir $(h)))) \
	$(call place,$(LIBDIR)/libhetmap-video.a) $(call place,$(LIBDIR)/libhetmap-video.so) \
	$(call place,$(LIBDIR)/$(video_soname)) \
	$(call place,$(LIBDIR)/libhetmap-video.so.$(VERSION)) \
	$(call place,$(LIBDIR)/pkgconfig/hetmap-video.pc)

ifneq ($(have_video),)
install_extensions = $(install_video)
uninstall_extensions = $(uninstall_video)
endif

# Its tests are in tests/video, and say so where they can't be built.
video_test_packages := $(video_packages) libswscale
have_video_tests := $(if $(have_video),$(shell $(PKG_CONFIG) --exists $(video_test_packages) \
	2>/dev/null && echo video))
video_test_objects := $(patsubst %.c,$(O)/%.o,$(wildcard tests/video/*.c))
video_tests := $(patsubst tests/video/%.c,$(O)/tests/%,$(wildcard tests/video/test_*.c))
ifneq ($(have_video_tests),)
video_test_flags := -DHAVE_VIDEO $(video_flags) -I$(video_folder)/command \
	$(shell $(PKG_CONFIG) --cflags libswscale)
$(video_tests): more_packages = $(video_test_packages)
$(video_tests): $(video_lib_objects)
video_show_objects := $(addprefix $(O)/$(video_folder)/command/,convert.o kernel.o rows.o \
	rows_pairs.o display.o display_frames.o display_import.o display_pick.o display_writeback.o) \
	$(video_avx2_object)
$(O)/tests/test_video_display $(O)/tests/test_video_codec: $(video_show_objects)
$(O)/tests/test_video_convert $(O)/tests/test_video_m2m: $(addprefix \
	$(O)/$(video_folder)/command/,convert.o kernel.o rows.o rows_pairs.o) $(video_avx2_object)
endif
