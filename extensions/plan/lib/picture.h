/* SPDX-License-Identifier: MIT */
/* Formats of hm_plan_explain() besides the text. */
#ifndef HETMAP_PLAN_PICTURE_H
#define HETMAP_PLAN_PICTURE_H

#include <stdio.h>

#include "plan.h"

/* 0 or -ENOMEM. */
int picture_draw(FILE *out, const struct hm_schedule *schedule);

#endif
