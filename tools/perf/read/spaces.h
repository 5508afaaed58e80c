/* SPDX-License-Identifier: MIT */
/*
 * Address spaces of traced processes, as they were at each moment: which object an address
 * was of. By the kernel's records of mappings, and before these by published tables.
 */
#ifndef HETMAP_SPACES_H
#define HETMAP_SPACES_H

#include <stdbool.h>
#include <stdint.h>

#include "published.h"
#include "recording.h"

enum object_kind {
	OBJECT_HETMAP, /* a buffer of the library */
	OBJECT_FILE,
	OBJECT_DEVICE, /* a file of /dev */
	OBJECT_ANON,
	OBJECT_HEAP,
	OBJECT_STACK,
	OBJECT_OTHER,   /* vdso and the like */
	OBJECT_UNKNOWN, /* nothing tells the memory there */
	N_OBJECT_KIND,
};

/* System calls on a range, where they were recorded. */
enum object_call {
	OBJECT_MADVISE,
	OBJECT_MPROTECT,
	OBJECT_MREMAP,
	OBJECT_MUNMAP,
	N_OBJECT_CALL,
};

/* Faults are counted by this: a buffer, a file, one piece of memory, of one process. */
struct object {
	enum object_kind kind;
	char *name;
	char *device;     /* hetmap: the buffer's device; else NULL */
	uint32_t pid;     /* that had it first */
	uint64_t address; /* of its byte 0, which may not be mapped; where it was first */
	uint64_t length;  /* the most that was seen of it */
	uint64_t page_size;
	/* The file of its pages, if storage has those that memory has not; NULL: none. */
	const char *backed_by;
	uint64_t inode;
	bool writable; /* it was mapped so, or that is not told */
	uint64_t calls[N_OBJECT_CALL];
	uint32_t index; /* from 0, in the order in which they were seen */
	void *user;     /* who counts, sets it */
	struct object *next;
};

const char *object_kind_name(enum object_kind kind);

struct spaces;

struct spaces *spaces_create(void); /* NULL: no memory */
void spaces_free(struct spaces *spaces);

/* Takes an event on mappings and processes, and ignores faults. 0 or -ENOMEM. */
int spaces_event(struct spaces *spaces, const struct recorded_event *event);

/* Is a mapping that is told one of memory without a file? */
bool spaces_is_memory(const struct recorded_event *event);

/* A mapping of which only the unknown part is new. 0 or -ENOMEM. */
int spaces_known(struct spaces *spaces, const struct recorded_event *event);

/* The memory of a range is gone, or has moved. 0 or -ENOMEM. */
int spaces_unmap(struct spaces *spaces, uint32_t pid, uint64_t address, uint64_t length);
int spaces_move(struct spaces *spaces, uint32_t pid, uint64_t from, uint64_t length,
		uint64_t to, uint64_t new_length);

/* A call on the memory at @address. 0 or -ENOMEM. */
int spaces_count(struct spaces *spaces, uint32_t pid, uint64_t address, enum object_call call);

/* A map of the library's begins, or ends, in @pid. 0 or -ENOMEM. */
int spaces_begin(struct spaces *spaces, uint32_t pid, const struct hm_published_entry *entry);
int spaces_end(struct spaces *spaces, uint32_t pid, const struct hm_published_entry *entry);

/* The object at @address; NULL: no memory. *ret_offset is in the object. */
struct object *spaces_find(struct spaces *spaces, uint32_t pid, uint64_t address,
			   uint64_t *ret_offset);

/* The same for a page fault, which itself tells something of the memory there. */
struct object *spaces_fault(struct spaces *spaces, uint32_t pid, uint64_t address,
			    uint64_t *ret_offset);

/* The same by the kernel's records alone, and NULL where these know nothing. */
struct object *spaces_mapped(struct spaces *spaces, uint32_t pid, uint64_t address,
			     uint64_t *ret_offset);

/* Is @pid one of those that were traced? */
bool spaces_knows(const struct spaces *spaces, uint32_t pid);

/* A buffer of a device that is known by its number alone. NULL: no memory. */
struct object *spaces_nameless(struct spaces *spaces, const char *device, uint64_t opener,
			       uint32_t number);

/*
 * The name of the file that code at @address came from, and where in it; NULL: none. Borrowed: it
 * lasts as long as @spaces, and is of one file (code_file_of()): another at the same path has
 * another one.
 */
const char *spaces_code(struct spaces *spaces, uint32_t pid, uint64_t address,
			uint64_t *ret_offset);

/* Another number whenever spaces_code() may answer otherwise for @pid. 0: no memory. */
uint64_t spaces_code_state(struct spaces *spaces, uint32_t pid);

/* A copy of @text that lasts as long, the same for the same text; NULL: no memory. */
const char *spaces_string(struct spaces *spaces, const char *text);

/* All objects, in the order of their index; the last one's next is NULL. */
struct object *spaces_objects(const struct spaces *spaces, uint32_t *ret_n);

/* The last name of a thread, or "". Borrowed. */
const char *spaces_thread_name(const struct spaces *spaces, uint32_t tid);

#endif
