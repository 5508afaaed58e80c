/* SPDX-License-Identifier: MIT */
/* Forms of hm_plan_explain(). */
#ifndef HETMAP_PLAN_EXPLAIN_H
#define HETMAP_PLAN_EXPLAIN_H

#include <stdio.h>

#include "plan.h"

/* ---- tell.c ---- */

/* The sums, a line each. */
void tell_sums(FILE *out, const struct hm_schedule *schedule);
/* "second needs it"; nothing for a node. */
void tell_reason(FILE *out, const struct hm_schedule *schedule, const struct step *step);

/* ---- explain.c; not 0: no memory ---- */

int plan_explain_json(FILE *out, const struct hm_schedule *schedule);
int plan_explain_html(FILE *out, const struct hm_schedule *schedule);

#endif
