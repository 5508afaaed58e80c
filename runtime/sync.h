/* SPDX-License-Identifier: MIT */
/* What a bracket comes down to; chosen by view.c when views come and go. */
#ifndef HETMAP_SYNC_H
#define HETMAP_SYNC_H

#include "core.h"

/* CPU and all users see the same bytes at once. */
bracket_function bracket_nothing;
/* Some view wants to be told. */
bracket_function bracket_views_begin;
bracket_function bracket_views_end;

#endif
