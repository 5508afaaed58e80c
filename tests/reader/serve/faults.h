/* SPDX-License-Identifier: MIT */
/* Settings that tests make for the server of a failing file system, in shared memory. */
#ifndef HETMAP_TESTS_SERVE_FAULTS_H
#define HETMAP_TESTS_SERVE_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

struct serve_faults {
	char name[32];             /* the failing file */
	_Atomic uint64_t bad_from; /* reads that touch a byte from there ... */
	_Atomic uint64_t bad_to;   /* ... to before this one fail */
	_Atomic int read_error;    /* with this errno; 0: they don't */
	_Atomic int write_error;   /* and all writes with this one */
	_Atomic int hold_writes;   /* no write is answered as long as this is not 0 */
	_Atomic uint64_t cut;      /* the file has no more bytes than that */
	_Atomic uint32_t short_to; /* a read gives so many bytes at most; 0: all */
	_Atomic uint32_t slow_ms;  /* and takes so long */
	_Atomic uint32_t await;    /* or waits, for seconds, for so many at once */
	_Atomic int direct_io;     /* for later opens: without the page cache */
	_Atomic uint32_t at_once;  /* reads of it that it answers now */
	_Atomic uint32_t at_most;  /* and the most that there were */
	_Atomic uint64_t n_reads;  /* counts of the file, since the start */
	_Atomic uint64_t n_failed;
	_Atomic uint64_t n_writes;
};

#endif
