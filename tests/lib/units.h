/* SPDX-License-Identifier: MIT */
/* The sizes that tests count in: PAGE, and KIB(n), MIB(n), GIB(n) of the library. */
#ifndef HETMAP_TESTS_UNITS_H
#define HETMAP_TESTS_UNITS_H

#include "base/util.h"

#define PAGE KIB(4)

#endif
