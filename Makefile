# SPDX-License-Identifier: MIT
# Seed of the build; see CONTRIBUTING.md.
B ?= build
CC ?= gcc
CFLAGS ?= -O2 -g
PKGS = libdrm numa OpenCL jansson liburcu-bp
override CPPFLAGS += -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=300 -Iinclude -Iruntime
override CFLAGS += -std=gnu11 -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -fvisibility=hidden -fPIC -pthread $(shell pkg-config --cflags libdrm)
LIB_SRC = $(wildcard runtime/*.c runtime/*/*.c)
LIB_OBJ = $(LIB_SRC:%.c=$(B)/%.o)
LIBS = -lnuma -lOpenCL -ljansson -ldrm -lm -pthread

all: $(B)/libhetmap.a
lib: $(B)/libhetmap.a
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/libhetmap.a: $(LIB_OBJ)
	rm -f $@; $(AR) rcs $@ $^
-include $(LIB_OBJ:.o=.d)
