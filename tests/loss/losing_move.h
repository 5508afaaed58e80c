/* SPDX-License-Identifier: MIT */
/*
 * A move of pages that fails as the kernel may fail it, its target gone already, and that
 * can't be undone: objects can't be mapped from then on.
 */
#ifndef HETMAP_TESTS_LOSING_MOVE_H
#define HETMAP_TESTS_LOSING_MOVE_H

/* Each move fails, until the end. One at a time, and no other change of the table. */
void losing_move_begin(void);
void losing_move_end(void);

#endif
