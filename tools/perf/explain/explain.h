/* SPDX-License-Identifier: MIT */
/* hetmap explain: the state of a map or mapping of a process, and the causes if it is slow. */
#ifndef HETMAP_EXPLAIN_H
#define HETMAP_EXPLAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf/read/live.h"
#include "perf/read/mappings.h"
#include "perf/read/openers.h"

/* Not known, or not there: never shown as 0. */
#define EXPLAIN_UNKNOWN UINT64_MAX
#define EXPLAIN_NODES 64

/* The process to explain. */
struct explained {
	pid_t pid;
	char command[32];
	bool has_table;
	struct live live;
	struct mappings mappings;
	json_t *costs; /* calibrate() */
	/* Simulated devices it has open: before the costs were measured, and so long after. */
	struct openers openers_before, openers;
	double seconds;
};

enum memory_kind {
	MEMORY_PRIVATE, /* without a file */
	MEMORY_SHARED,  /* memfd, tmpfs, System V: pages that are in no storage but swap */
	MEMORY_FILE,
	MEMORY_HUGETLB,
	MEMORY_DEVICE,
};

/* A map of the library's, or a mapping of the kernel's. */
struct subject {
	const struct explained *of;
	const struct live_map *map; /* NULL: of none that is published */
	uint64_t start, end;        /* range that may be touched */
	bool asked;                 /* for an address: */
	uint64_t address;

	/* explain_look() finds out: */
	const struct mapping *first; /* NULL: nothing is mapped there */
	enum memory_kind kind;
	struct smaps_sum sum;
	uint64_t n_mapping;
	uint64_t swap, dirty, eligible; /* bytes; EXPLAIN_UNKNOWN */
	bool no_access;                 /* of nothing in it */
	bool shared;
	bool huge_wanted, huge_refused; /* MADV_HUGEPAGE, MADV_NOHUGEPAGE */
	bool random;                    /* MADV_RANDOM */
	bool userfault;                 /* userfaultfd(2) */
	char thp[16], shmem_thp[16];    /* the system's settings; "": not known */
	bool thp_disabled;              /* for the process: prctl(2) */
	char file_system[32];           /* "": none, or not known */
	bool network;
	uint64_t behind_end; /* bytes that are mapped of no file: a touch is a SIGBUS */
	uint64_t cached;     /* of the file's part, in memory; EXPLAIN_UNKNOWN */
	uint64_t read_ahead; /* bytes; EXPLAIN_UNKNOWN */
	bool swapping;       /* the machine has swap */
	bool page_known, page_present, page_swapped; /* of the address */
	uint64_t node_bytes[EXPLAIN_NODES];
	uint32_t n_node;     /* of the machine that are in node_bytes; 0: not known */
	uint64_t near_nodes; /* bit n: a thread of the process ran on node n last */
};

void explain_look(struct subject *subject);

/* ---- findings ---- */

enum finding_class {
	FINDING_LOST,     /* wrong bytes, or none */
	FINDING_STORAGE,  /* storage or a network is waited for */
	FINDING_MEASURED, /* gain_ns is known */
	FINDING_OTHER,
};

struct finding {
	enum finding_class class;
	const char *kind; /* one word, for JSON */
	double gain_ns;   /* of FINDING_MEASURED, once */
	char *text;       /* one sentence, with the evidence */
	char *remedy;
};

#define FINDINGS_MOST 24

/* In the order of their effect; free() the texts. Returns how many. */
size_t explain_find(const struct subject *subject, struct finding findings[FINDINGS_MOST]);
/* Why it has no huge pages although it could; NULL: that is no question. free() both. */
char *explain_no_huge(const struct subject *subject, char **ret_remedy);

/* ---- output (explain_print.c) ---- */

void explain_print(const struct subject *subject);
json_t *explain_json(const struct subject *subject);
/* "buffer weights on host", "/usr/lib/libc.so.6": free() it. */
char *explain_name(const struct subject *subject);

#endif
