/* SPDX-License-Identifier: MIT */
/* For the tests of hetmap stat: commands that do a known amount of something. */
#ifndef HETMAP_TESTS_STAT_SUPPORT_H
#define HETMAP_TESTS_STAT_SUPPORT_H

#include "lib/command.h"

/*
 * For main(): "PROGRAM --act ACT [ARG]..." does one of these, and exits.
 *   touch N          writes to each of N pages of new memory
 *   step FILE N      adds a byte to FILE, and touches N pages for each that was there
 *   fork N PAGES     N children one after the other, each touches PAGES pages
 *   major FILE       reads the pages of FILE that are not in memory, prints how many
 *   close            closes all descriptors that there are, exits with 7
 *   kill SIGNAL      ends itself
 *   ignored          prints the dispositions, the mask and the descriptors that it has
 * Returns only without "--act".
 */
void stat_act(int argc, char **argv);

/* The file of this program. */
const char *stat_self(void);
/* A copy of it in a folder that each user may enter, with this mode; free() it. */
char *stat_copy(const char *folder, unsigned int mode);

/* "hetmap stat --json ARG...", which exits with @status: its report. */
json_t *stat_json(const struct command *command, int status);
double stat_mean(const json_t *report, const char *metric);
/* A text of a metric ("source", "not_counted"); "": it has none. */
const char *stat_text(const json_t *report, const char *metric, const char *key);
/* Is @metric told: either a figure, or the reason why there is none? */
void stat_check_told(const json_t *report, const char *metric);
/*
 * perf stat's counts of minor and of major faults of "--act ACT..."; else the test is skipped:
 * it is not installed, or may not count here.
 */
bool stat_ask_perf(const char *const act[], double ret_counts[2]);

#endif
