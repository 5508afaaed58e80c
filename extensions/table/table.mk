# SPDX-License-Identifier: MIT
# libhetmap-table. Built where Arrow C++ is: libarrow and libparquet, which pkg-config finds, or a
# wheel of pyarrow has (find-arrow). `make table` fetches such a wheel into the build folder.

table_folder := extensions/table
table_packages := arrow parquet
table_soname := libhetmap-table.so.$(MAJOR)

comma := ,

ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),clang++,g++)
endif

# Its C++ is C++20, as Arrow's headers are. The other sanitizers see races in libarrow, which is
# not built for them; counting lines is for the core.
have_table :=
table_left_out := $(filter thread,$(subst $(comma), ,$(SANITIZE)))$(COVERAGE)
ifneq ($(and $(if $(table_left_out),,built),$(shell command -v $(firstword $(CXX)))),)
have_table := $(shell $(PKG_CONFIG) --exists $(table_packages) 2>/dev/null && echo pkg-config)
ifeq ($(have_table),)
table_found := $(shell $(table_folder)/find-arrow $(B))
have_table := $(if $(table_found),pyarrow)
endif
endif

ifeq ($(have_table),pkg-config)
table_arrow_flags := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(table_packages)))
table_libs := $(shell $(PKG_CONFIG) --libs parquet arrow) -lstdc++
endif
ifeq ($(have_table),pyarrow)
table_place := $(word 2,$(table_found))
table_version := $(word 3,$(table_found))
table_arrow_flags := -isystem $(word 1,$(table_found))
table_libs := -L$(table_place) -l:libparquet.so.$(table_version) -l:libarrow.so.$(table_version) \
	-Wl,-rpath,$(table_place) -lstdc++
endif

table_flags := -I$(table_folder)/include
table_lib_objects := $(patsubst %.cc,$(O)/%.o,$(wildcard $(table_folder)/lib/*.cc))
table_headers := $(wildcard $(table_folder)/include/hetmap/*.h)
table_pages := $(wildcard $(table_folder)/man/*.[1-8])
table_products := $(O)/libhetmap-table.so $(O)/libhetmap-table.a
# vptr needs the types of libarrow's inner classes, and clang's function a runtime for C++.
table_compile = $(CXX) $(cpp_flags) $(CPPFLAGS) -std=c++20 -Wall -Wextra -Wpointer-arith \
	$(if $(WERROR),-Werror) -fvisibility=hidden -fvisibility-inlines-hidden -fPIC -pthread \
	$(table_flags) $(table_arrow_flags) $(CFLAGS) $(kind_flags) \
	$(if $(SANITIZE),-fno-sanitize=vptr$(if $(findstring clang,$(CXX)),$(comma)function))

ifneq ($(have_table),)
extensions += $(table_products)
extension_objects += $(table_lib_objects)
extension_pages += $(table_pages)
endif
-include $(table_folder)/command/command.mk

$(table_lib_objects): $(O)/%.o: %.cc $(O)/config.h $(O)/flags
	@mkdir -p $(@D)
	$(say) CXX $@
	$(Q)$(table_compile) -MMD -MP -c -o $@ $<

$(O)/libhetmap-table.a: $(table_lib_objects)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/libhetmap-table.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libhetmap-table.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libhetmap-table.o

$(O)/$(table_soname): $(table_lib_objects) $(table_folder)/lib/libhetmap-table.map \
		$(O)/libhetmap.so
	$(say) LD $@
	$(Q)$(link) -shared -Wl,-soname,$(table_soname) $(if $(SANITIZE),,-Wl,-z,defs) \
		-Wl,--version-script=$(table_folder)/lib/libhetmap-table.map -o $@ \
		$(table_lib_objects) -L$(O) -lhetmap $(table_libs)

$(O)/libhetmap-table.so: $(O)/$(table_soname)
	$(Q)ln -sf $(table_soname) $@

# 170 MB from PyPI. What is built with it, and installed, needs it where it is.
pyarrow := pyarrow==26.0.1
table: ## fetches Arrow C++ into $(B)/table-env, if there is none, and builds hetmap-table
	$(Q)$(CXX) --version >/dev/null 2>&1 || { \
		echo 'make table needs a C++ compiler, $(CXX): on Debian apt-get install g++' >&2; \
		exit 1; \
	}
	$(Q)if [ -n '$(have_table)' ]; then \
		echo 'Arrow C++ is there: $(or $(table_place),$(have_table))'; \
	else \
		echo 'Arrow C++ comes from PyPI ($(pyarrow)), into $(abspath $(B))/table-env'; \
		rm -rf $(B)/table-env && python3 -m venv $(B)/table-env && \
		$(B)/table-env/bin/python -m pip -q --disable-pip-version-check install \
			'$(pyarrow)' numpy || { rm -rf $(B)/table-env; exit 1; }; \
	fi
	$(Q)$(MAKE) all

define install_table
install -m 644 $(table_headers) $(call place,$(INCLUDEDIR)/hetmap)
install -m 644 $(O)/libhetmap-table.a $(call place,$(LIBDIR)/libhetmap-table.a)
install -m 755 $(O)/$(table_soname) $(call place,$(LIBDIR)/libhetmap-table.so.$(VERSION))
ln -sf libhetmap-table.so.$(VERSION) $(call place,$(LIBDIR)/$(table_soname))
ln -sf $(table_soname) $(call place,$(LIBDIR)/libhetmap-table.so)
sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	-e 's|@PACKAGES@|$(if $(table_place),,$(table_packages))|' \
	-e 's|@LIBS@|$(if $(table_place),$(table_libs))|' $(table_folder)/hetmap-table.pc.in \
	>$(call place,$(LIBDIR)/pkgconfig/hetmap-table.pc)
$(install_table_command)
endef

define uninstall_table
rm -f $(foreach h,$(table_headers),$(call place,$(INCLUDEDIR)/hetmap/$(notdir $(h)))) \
	$(call place,$(LIBDIR)/libhetmap-table.a) $(call place,$(LIBDIR)/libhetmap-table.so) \
	$(call place,$(LIBDIR)/$(table_soname)) \
	$(call place,$(LIBDIR)/libhetmap-table.so.$(VERSION)) \
	$(call place,$(LIBDIR)/pkgconfig/hetmap-table.pc)
$(uninstall_table_command)
endef

# Its tests are in tests/table, and say so where they can't be built.
table_test_objects := $(patsubst %.c,$(O)/%.o,$(wildcard tests/table/*.c))
table_tests := $(patsubst tests/table/%.c,$(O)/tests/%,$(wildcard tests/table/test_*.c))
table_test_flags := $(table_flags) -Itools
ifneq ($(have_table),)
table_test_flags += -DHAVE_TABLE
table_fuzz := $(patsubst tests/table/%.c,$(O)/tests/%,$(wildcard tests/table/fuzz_*.c))
$(table_tests) $(table_fuzz): more_libs = $(table_libs)
$(table_tests) $(table_fuzz): $(table_lib_objects)
endif

.PHONY: table
