/* SPDX-License-Identifier: MIT */
/* Doctor: checks that explain this machine, and their findings. */
#ifndef HETMAP_DOCTOR_H
#define HETMAP_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_status {
	DOCTOR_OK,    /* nothing to do */
	DOCTOR_NOTE,  /* works; good to know */
	DOCTOR_LIMIT, /* something does not work, or is slow, because of it */
};

struct doctor {
	const char *root; /* before /sys, /proc, /dev: "" but in tests */
	json_t *findings; /* array; NULL: print instead */
	const char *area; /* area of the running check */
	const char *check;
	unsigned int n[3]; /* by enum doctor_status */
};

/* A check reports as many findings as it has. */
typedef void doctor_check(struct doctor *doctor);

/*
 * Reports a finding, with its numbers, by the format. @limits: its effect on hetmap; @change:
 * the remedy; NULL: none.
 */
void doctor_report(struct doctor *doctor, enum doctor_status status, const char *limits,
		   const char *change, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * doctor_path.c: reports whether maps of files in a folder show the stores of other machines.
 * @peer, or NULL, is another client of the file system, "HOST:DIR" or a second mount. Returns
 * STATUS_DONE with the exit status in *ret_status, or the status of a failure that the user was
 * told.
 */
int doctor_look_at_path(struct doctor *doctor, const char *path, const char *peer,
			int *ret_status);

/*
 * doctor_tiers.c: clears all bad ranges of a device with persistent memory, and prints them. An
 * exit status.
 */
int doctor_clear_bad(const char *device);

/* doctor_devices.c */
doctor_check check_render_nodes;
/* doctor_sim.c */
doctor_check check_simulated_devices;
doctor_check check_soft_devices;
/* doctor_dmabuf.c */
doctor_check check_dma_heaps;
doctor_check check_udmabuf;
/* doctor_opencl.c; handlers and masks come after the platforms were loaded */
doctor_check check_opencl;
doctor_check check_signal_handlers;
doctor_check check_signal_masks;
/* doctor_limits.c */
doctor_check check_memlock;
doctor_check check_nofile;
doctor_check check_address_space;
doctor_check check_file_size;
doctor_check check_max_map_count;
doctor_check check_cgroup_memory;
/* doctor_memory.c */
doctor_check check_overcommit;
doctor_check check_thp_anonymous;
doctor_check check_thp_shared;
doctor_check check_huge_pages;
doctor_check check_numa;
/* doctor_tiers.c */
doctor_check check_tiers;
/* doctor_kernel.c */
doctor_check check_kernel;
doctor_check check_populate;
doctor_check check_memfd;
doctor_check check_anon_name;
doctor_check check_userfaultfd;
doctor_check check_perf_events;
doctor_check check_probes;
doctor_check check_temporary_files;

#endif
