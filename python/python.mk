# SPDX-License-Identifier: MIT
# The Python package, built in place for its tests, and as a wheel. The Makefile includes this.
# Headers of Python are asked for here alone: nobody else needs them.

PYTHON ?= /usr/bin/python3
# Where the module looks for libhetmap, first of all; empty: where all programs do.
PYTHON_RPATH ?= $$ORIGIN/../..
python_out := $(O)/python/hetmap
python_sources := $(wildcard python/src/*.c)
python_objects := $(python_sources:%.c=$(O)/%.o)
python_files := $(wildcard python/hetmap/*)
python_include = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')

# Of libhetmap-table the headers alone: hetmap.table opens the library.
table_headers_of_python := $(wildcard extensions/table/include/hetmap/*.h)
$(python_objects): flags_for = -isystem $(python_include) \
	$(if $(table_headers_of_python),-DHAVE_TABLE -Iextensions/table/include)
$(python_objects): $(table_headers_of_python)
-include $(python_objects:.o=.d)

$(python_out)/_hetmap.abi3.so: $(python_objects) $(O)/libhetmap.so
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(link) -shared $(if $(PYTHON_RPATH),-Wl$(comma)-rpath$(comma)'$(PYTHON_RPATH)') -o $@ $(python_objects) -L$(O) -lhetmap -ldl

python: $(python_out)/_hetmap.abi3.so $(python_files) ## the Python package, in $(B)/python
	$(Q)cp -f $(python_files) $(python_out)/

# The tag manylinux_* is auditwheel's to grant; libOpenCL.so.1 stays the system's.
wheel: lib ## the Python package as a wheel, in $(B)/wheel
	$(Q)rm -rf $(O)/wheel && mkdir -p $(O)/wheel
	$(Q)HETMAP_BUILD=$(abspath $(O)) $(PYTHON) -m pip -q wheel --no-deps -w $(O)/wheel ./python
	$(Q)if command -v auditwheel >/dev/null; then \
		mkdir $(O)/wheel/here && mv $(O)/wheel/*.whl $(O)/wheel/here && \
		auditwheel repair --exclude libOpenCL.so.1 -w $(O)/wheel $(O)/wheel/here/*.whl && \
		rm -rf $(O)/wheel/here; \
	else echo 'auditwheel is not installed: the wheel has the tag of this machine'; fi

check-wheel: wheel ## the wheel and its tests in a bare Debian 12, which debootstrap makes; as root
	$(Q)tests/python/bare $(O)/wheel/*.whl

.PHONY: python wheel check-wheel
