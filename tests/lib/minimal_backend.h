/* SPDX-License-Identifier: MIT */
/* Small backends: for the answers of those that lack things. */
#ifndef HETMAP_TESTS_MINIMAL_BACKEND_H
#define HETMAP_TESTS_MINIMAL_BACKEND_H

#include <hetmap/backend.h>

/* "minimal": creates buffers that can be mapped once and written; nothing else. */
extern const struct hm_backend_ops minimal_backend;

/* "growing": those grow in every way, but fork children do not inherit them. */
extern const struct hm_backend_ops growing_backend;

/* "fixed": objects of a length for life, mapped by their first byte, as DRM's are. */
extern const struct hm_backend_ops fixed_backend;

/* "fleeting": the growing one, whose device goes, and another one comes, when it is told. */
extern const struct hm_backend_ops fleeting_backend;
void fleeting_go(void);
void fleeting_come(void);

/*
 * "unheard": the growing one, whose device goes when it is told, and comes: its maps are zeros
 * then, without a fault, and the next call to it is the first to hear.
 */
extern const struct hm_backend_ops unheard_backend;
void unheard_go(void);
void unheard_come(void);
/* How often it was asked, ever. */
extern unsigned int unheard_asked;

#endif
