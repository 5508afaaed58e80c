/* SPDX-License-Identifier: MIT */
/* One lock over all that the fake knows. */
#ifndef HETMAP_TESTS_FAKE_DRM_LOCK_H
#define HETMAP_TESTS_FAKE_DRM_LOCK_H

void fake_lock(void);
void fake_unlock(void);

/* Handles that are open on any file. Takes the lock. */
unsigned int fake_handles(void);

#endif
