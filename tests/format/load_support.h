/* SPDX-License-Identifier: MIT */
/* Models that tests load, and checks of their bytes in a device's memory. */
#ifndef HETMAP_TESTS_LOAD_SUPPORT_H
#define HETMAP_TESTS_LOAD_SUPPORT_H

#include <hetmap/load.h>

#include "format/safetensors_support.h"
#include "lib/sim_devices.h"

#define UNTOUCHED ((void *)0x10)

/* Bytes of a load_file()'s tensors: more than a few steps of load_small_steps(). */
#define LOAD_FOUR 4
extern const uint64_t load_four[LOAD_FOUR];

/* By @threads; 0: chosen. */
struct hm_load_desc load_small_steps(uint32_t threads);

/* Arguments that a caller's functions got. */
struct load_told {
	uint64_t n;       /* tensors */
	uint64_t bytes;   /* by load_note_bytes() */
	uint64_t at_most; /* load_note() returns r after so many tensors */
	int r;
	const char *names[32];
};

int load_note(const struct hm_piece_info *piece, void *address, void *user);
int load_note_bytes(uint64_t bytes, uint64_t total, void *user);

struct hm_load *rig_load(struct hm_device *device, struct hm_pieces *pieces,
			 const struct hm_load_desc *desc);
struct hm_load_info load_info(struct hm_load *load);

/* FOLDER/a: tensors "t0", "t1" and so on of U8, with these bytes, one behind another. */
const char *load_file(const char *folder, const uint64_t *bytes, unsigned int n);

/*
 * Compares a tensor in the device's memory with its file, from the byte at @data of the data
 * section on. In brackets of as little as a window may have.
 */
void load_check_tensor(struct hm_load *load, const char *name, uint64_t data);

/* All of a load_file(). */
void load_check_file(struct hm_load *load, const uint64_t *bytes, unsigned int n);

#endif
