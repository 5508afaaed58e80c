// SPDX-License-Identifier: MIT
#include "base/counters.h"

struct stats_counters stats;
