// SPDX-License-Identifier: MIT
/*
 * Address spaces as they were at each moment.
 *
 * A process has two trees of ranges that do not overlap: mappings as the kernel told them, and
 * the library's own maps, which are asked first. A new range ends the parts of others that it
 * covers: the kernel tells nobody of munmap(2). Both go with the process's last thread.
 */
#include "spaces.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "spaces_code.h"
#include "spaces_merged.h"
#include "spaces_name.h"
#include "spaces_objects.h"

/* How far a stack grows below where it was seen, at most. */
#define STACK_MOST (UINT64_C(1) << 30)

struct process {
	uint32_t pid;
	struct range_tree *maps, *published;
	struct range *last; /* found last; NULL after any change */
	uint64_t code;      /* another one after any change of mapped code */
	uint64_t stack;     /* lowest byte that is known to be of the stack; 0: none */
	struct object *stack_object;
	uint32_t n_thread; /* that began and did not end, but for the first one */
	bool first_ended;
	bool traced; /* some mapping of it was told */
};

struct thread {
	uint32_t tid;
	char *name;
};

struct spaces {
	void *processes;         /* tree of struct process, by pid */
	struct process *process; /* the one that was asked for last */
	struct table threads;    /* names, by tid */
	struct table strings;    /* names of files, by themselves */
	struct table code;       /* files of code: struct code_file */
	struct objects objects;
	uint64_t n_code; /* values of process.code so far */
};

const char *spaces_string(struct spaces *spaces, const char *text)
{
	void **place = table_place(&spaces->strings, text);

	if (place && !*place)
		*place = strdup(text);
	return place ? *place : NULL;
}

/* ---- ranges of a process ---- */

/* Takes a range out of the kernel's tree. */
static int cut(struct spaces *spaces, struct process *process, uint64_t start, uint64_t end)
{
	bool code = false;
	int r = range_cut(&process->maps, start, end, &code);

	process->last = NULL;
	if (code)
		process->code = ++spaces->n_code;
	return r;
}

static int put(struct spaces *spaces, struct process *process, const struct range *range)
{
	int r = cut(spaces, process, range->start, range->end);

	if (range->file)
		process->code = ++spaces->n_code;
	process->traced = true;
	return r ? r : range_insert(&process->maps, range);
}

/* ---- processes ---- */

static int compare_processes(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* NULL: no memory. */
static struct process *process_of(struct spaces *spaces, uint32_t pid)
{
	const struct process key = { .pid = pid };
	struct process *process = spaces->process;
	void *node;

	if (process && process->pid == pid)
		return process;
	node = tfind(&key, &spaces->processes, compare_processes);
	if (node)
		return spaces->process = *(struct process **)node;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->pid = pid;
	process->code = ++spaces->n_code;
	if (tsearch(process, &spaces->processes, compare_processes))
		return spaces->process = process;
	free(process);
	return NULL;
}

static void forget(struct spaces *spaces, struct process *process)
{
	range_drop(&process->maps);
	range_drop(&process->published);
	process->last = NULL;
	process->code = ++spaces->n_code;
	process->stack = 0;
	process->stack_object = NULL;
	process->n_thread = 0;
	process->first_ended = false;
}

static int set_name(struct spaces *spaces, uint32_t tid, const char *name)
{
	char key[16], *copy = strdup(name);
	void **place;

	snprintf(key, sizeof(key), "%" PRIu32, tid);
	place = copy ? table_place(&spaces->threads, key) : NULL;
	if (!place) {
		free(copy);
		return -ENOMEM;
	}
	/* It may be the one that was copied. */
	free(*place);
	*place = copy;
	return 0;
}

static int fork_of(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *parent = process_of(spaces, event->parent_pid), *child;
	const char *name = spaces_thread_name(spaces, event->parent_tid);

	/* It has its maker's name until it takes another one. */
	if (!parent || (*name && set_name(spaces, event->tid, name)))
		return -ENOMEM;
	if (event->pid == event->parent_pid) {
		parent->n_thread++;
		return 0;
	}
	child = process_of(spaces, event->pid);
	if (!child)
		return -ENOMEM;
	forget(spaces, child);
	child->stack = parent->stack;
	child->stack_object = parent->stack_object;
	child->maps = range_share(parent->maps);
	child->traced |= parent->traced;
	return parent->published ? range_copy_inherited(parent->published, &child->published) :
				   0;
}

/*
 * With its last thread a process's memory goes. Threads that were there before nobody told
 * of: where the first one ends before them, their faults are of memory that nothing is
 * known of from then on.
 */
static int exit_of(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *process = process_of(spaces, event->pid);

	if (!process)
		return -ENOMEM;
	if (event->tid == event->pid)
		process->first_ended = true;
	else if (process->n_thread)
		process->n_thread--;
	if (process->first_ended && !process->n_thread)
		forget(spaces, process);
	return 0;
}

static int name_of(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *process;
	int r = set_name(spaces, event->tid, event->name);

	if (r || !event->new_program)
		return r;
	process = process_of(spaces, event->pid);
	if (!process)
		return -ENOMEM;
	forget(spaces, process);
	return 0;
}

const char *spaces_thread_name(const struct spaces *spaces, uint32_t tid)
{
	const char *name;
	char key[16];

	snprintf(key, sizeof(key), "%" PRIu32, tid);
	name = table_get(&spaces->threads, key);
	return name ? name : "";
}

/* ---- the kernel's mappings ---- */

static struct object *object_of_map(struct spaces *spaces, const struct recorded_event *event,
				    uint64_t *ret_offset)
{
	char own[256], size[TEXT_MAX], of_memory[TEXT_MAX + 16], *key = NULL;
	/* Of a path, as long as it is: its end says which file it is. */
	const char *name = event->name;
	enum object_kind kind = name_kind(event->name);
	struct object *object;

	*ret_offset = 0;
	if (name_of_hetmap(event->name, own, sizeof(own))) {
		kind = OBJECT_HETMAP;
		name = own;
		*ret_offset = event->offset;
		key = text_format("h%" PRIu32 ":%" PRIu64 ":%s", event->pid, event->inode,
				  name);
	} else if (kind == OBJECT_FILE || kind == OBJECT_DEVICE) {
		*ret_offset = event->offset;
		key = text_format("f%" PRIu32 ":%" PRIu64 ":%s", event->pid, event->inode,
				  event->name);
	} else if (kind == OBJECT_ANON && event->length >= ANON_LEAST) {
		snprintf(of_memory, sizeof(of_memory), "%s of memory",
			 text_bytes(event->length, size));
		name = of_memory;
		key = text_format("a%" PRIu32 ":%" PRIx64 ":%" PRIu64, event->pid,
				  event->address, event->time);
	} else {
		if (kind == OBJECT_ANON)
			name = "small pieces of memory";
		key = text_format("%d%" PRIu32 ":%s", (int)kind, event->pid, name);
	}
	object = key ? objects_of(&spaces->objects, key, kind, name, event->pid) : NULL;
	free(key);
	if (object && !object->backed_by && name_is_stored(event->name)) {
		object->backed_by = spaces_string(spaces, event->name);
		object->inode = event->inode;
	}
	return object;
}

/* They are also those of the library's map that it is told of anew, as mprotect(2) does. */
static void note_rights(const struct process *process, const struct range *range,
			const struct recorded_event *event)
{
	const struct range *published =
		range_find(process->published, range->start, range->end);

	range->object->writable |= event->writable;
	if (published)
		published->object->writable |= event->writable;
}

/* No part of it is known to be new, and the byte at @address is not, either. */
static int doubt_all(struct spaces *spaces, struct process *process,
		     const struct recorded_event *told, uint64_t address)
{
	/* A copy, as others may have the same ranges: it is put in to have them alone. */
	struct range range = *range_find(process->maps, address, address + 1);
	int r = put(spaces, process, &range);

	if (!r)
		merged_doubt(process->maps, told, NULL);
	return r;
}

static int map_of(struct spaces *spaces, const struct recorded_event *told)
{
	struct process *process = process_of(spaces, told->pid);
	struct recorded_event known = *told;
	const struct recorded_event *event = &known;
	struct range range, *old;
	int r;

	if (!process)
		return -ENOMEM;
	old = told->all_new ? NULL : merged_grown(process->maps, event);
	if (old) {
		range = *old;
		range.end = event->address + event->length;
		object_reaches(range.object, range.start, range.offset,
			       range.offset + event->length);
		return put(spaces, process, &range);
	}
	if (!told->all_new)
		merged_trim(process->maps, &known);
	if (!known.length)
		return doubt_all(spaces, process, told, known.address);
	range = (struct range){
		.start = event->address,
		.end = event->address + event->length,
		.file_offset = event->offset,
		.inherited = true,
		.writable = event->writable,
	};
	range.object = object_of_map(spaces, event, &range.offset);
	if (!range.object)
		return -ENOMEM;
	note_rights(process, &range, event);
	/* Pieces of one object that have no offset of their own are where they are. */
	if (range.object->kind != OBJECT_FILE && range.object->kind != OBJECT_DEVICE &&
	    range.object->kind != OBJECT_HETMAP && range.object->length &&
	    range.start >= range.object->address)
		range.offset = range.start - range.object->address;
	if (event->executable && range.object->kind == OBJECT_FILE)
		range.file = code_file_name(&spaces->code, event);
	object_reaches(range.object, range.start, range.offset, range.offset + event->length);
	if (range.object->kind == OBJECT_STACK) {
		process->stack = range.start;
		process->stack_object = range.object;
	}
	r = put(spaces, process, &range);
	if (!r && !told->all_new)
		merged_doubt(process->maps, told, &range);
	return r;
}

bool spaces_is_memory(const struct recorded_event *event)
{
	return name_kind(event->name) == OBJECT_ANON;
}

int spaces_known(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *process = process_of(spaces, event->pid);
	struct recorded_event rest = *event;
	uint64_t start = event->address, end = start + event->length;
	const struct range *range;

	if (!process)
		return -ENOMEM;
	while (start < end && (range = range_find(process->maps, start, start + 1)))
		start = range->end;
	while (start < end && (range = range_find(process->maps, end - 1, end)))
		end = range->start;
	if (start >= end)
		return 0;
	rest.address = start;
	rest.length = end - start;
	return map_of(spaces, &rest);
}

int spaces_unmap(struct spaces *spaces, uint32_t pid, uint64_t address, uint64_t length)
{
	struct process *process = process_of(spaces, pid);

	if (!process)
		return -ENOMEM;
	if (!length || address + length < address)
		return 0;
	return cut(spaces, process, address, address + length);
}

int spaces_move(struct spaces *spaces, uint32_t pid, uint64_t from, uint64_t length,
		uint64_t to, uint64_t new_length)
{
	struct process *process = process_of(spaces, pid);
	struct range *range, moved;
	int r;

	if (!process)
		return -ENOMEM;
	if (from + length < from || !new_length || to + new_length < to)
		return 0;
	range = from < UINT64_MAX ? range_find(process->maps, from, from + 1) : NULL;
	if (!range)
		return 0;
	moved = *range;
	moved.offset += from - range->start;
	moved.file_offset += from - range->start;
	moved.start = to;
	moved.end = to + new_length;
	/* A length of 0 makes one more mapping of shared memory. */
	r = length ? cut(spaces, process, from, from + length) : 0;
	if (r || moved.offset + new_length < moved.offset)
		return r;
	object_reaches(moved.object, moved.start, moved.offset, moved.offset + new_length);
	return put(spaces, process, &moved);
}

int spaces_count(struct spaces *spaces, uint32_t pid, uint64_t address, enum object_call call)
{
	uint64_t offset;
	struct object *object = spaces_find(spaces, pid, address, &offset);

	if (!object)
		return -ENOMEM;
	object->calls[call]++;
	return 0;
}

int spaces_event(struct spaces *spaces, const struct recorded_event *event)
{
	switch (event->kind) {
	case RECORDED_MAP:
		return map_of(spaces, event);
	case RECORDED_NAME:
		return name_of(spaces, event);
	case RECORDED_FORK:
		return fork_of(spaces, event);
	case RECORDED_EXIT:
		return exit_of(spaces, event);
	default:
		return 0;
	}
}

/* ---- the library's maps ---- */

static struct object *object_of_entry(struct spaces *spaces, uint32_t pid,
				      const struct hm_published_entry *entry)
{
	char *key = text_format("b%" PRIu32 ":%" PRIu64 ":%s:%s", pid, entry->buffer,
				entry->device, entry->name);
	struct object *object;

	if (!key)
		return NULL;
	object = objects_of(&spaces->objects, key, OBJECT_HETMAP, entry->name, pid);
	free(key);
	if (object && !object->device)
		object->device = strdup(entry->device);
	if (object && entry->page_size)
		object->page_size = entry->page_size;
	return object;
}

int spaces_begin(struct spaces *spaces, uint32_t pid, const struct hm_published_entry *entry)
{
	struct process *process = process_of(spaces, pid);
	const struct range *mapped;
	struct range range = {
		.start = entry->address,
		.end = entry->address + entry->span,
		.offset = entry->offset,
		.serial = entry->serial,
		.inherited = entry->flags & HM_PUBLISHED_INHERITED,
	};
	bool code = false;
	int r;

	/* A table may say anything. */
	if (range.end <= range.start || range.offset + entry->span < range.offset)
		return 0;
	range.object = process ? object_of_entry(spaces, pid, entry) : NULL;
	if (!range.object)
		return -ENOMEM;
	mapped = range_find(process->maps, range.start, range.start + 1);
	if (mapped)
		range.object->writable |= mapped->object->writable;
	if (mapped && !range.object->backed_by) {
		range.object->backed_by = mapped->object->backed_by;
		range.object->inode = mapped->object->inode;
	}
	object_reaches(range.object, range.start, range.offset,
		       range.offset +
			       (entry->length < entry->span ? entry->length : entry->span));
	process->last = NULL;
	r = range_cut(&process->published, range.start, range.end, &code);
	return r ? r : range_insert(&process->published, &range);
}

int spaces_end(struct spaces *spaces, uint32_t pid, const struct hm_published_entry *entry)
{
	struct process *process = process_of(spaces, pid);
	struct range *range;
	bool code = false;

	if (!process)
		return -ENOMEM;
	range = entry->span ?
			range_find(process->published, entry->address, entry->address + 1) :
			NULL;
	/* Another one may be there already. */
	if (!range || range->serial != entry->serial)
		return 0;
	process->last = NULL;
	return range_cut(&process->published, range->start, range->end, &code);
}

/* ---- asking ---- */

static struct object *unknown(struct spaces *spaces, struct process *process, uint64_t address,
			      uint64_t *ret_offset)
{
	char key[32];

	*ret_offset = address;
	if (process->stack_object && address < process->stack &&
	    process->stack - address < STACK_MOST)
		return process->stack_object;
	snprintf(key, sizeof(key), "u%" PRIu32, process->pid);
	return objects_of(&spaces->objects, key, OBJECT_UNKNOWN,
			  "memory that nothing is known of", process->pid);
}

struct object *spaces_find(struct spaces *spaces, uint32_t pid, uint64_t address,
			   uint64_t *ret_offset)
{
	struct process *process = process_of(spaces, pid);
	struct range *range;

	if (!process)
		return NULL;
	if (address == UINT64_MAX)
		return unknown(spaces, process, address, ret_offset);
	range = process->last;
	if (!range || address < range->start || address >= range->end)
		range = range_find(process->published, address, address + 1);
	if (!range)
		range = range_find(process->maps, address, address + 1);
	if (!range)
		return unknown(spaces, process, address, ret_offset);
	process->last = range;
	*ret_offset = range->offset + (address - range->start);
	return range->object;
}

static struct object *renewed(struct spaces *spaces, const struct process *process,
			      const struct range *range)
{
	char name[TEXT_MAX + 16], size[TEXT_MAX], *key;
	struct object *object = range->heir;
	uint64_t length = range->end - range->start;
	bool behind = object && object->address + object->length == range->start;

	/* Heap and holder of the name are one. */
	if (behind)
		length += object->length;
	snprintf(name, sizeof(name), "%s of memory", text_bytes(length, size));
	if (!behind) {
		key = text_format("n%" PRIu32 ":%" PRIx64 ":%" PRIu32, process->pid,
				  range->start, spaces->objects.n);
		object = key ? objects_of(&spaces->objects, key, OBJECT_ANON, name,
					  process->pid) :
			       NULL;
		free(key);
		return object;
	}
	return object_rename(object, name) ? NULL : object;
}

/* The memory of @range is not that which was there before: it is its heir's. */
static int renew(struct spaces *spaces, struct process *process, const struct range *range)
{
	struct range anew = {
		.start = range->start,
		.end = range->end,
		.object = renewed(spaces, process, range),
		.inherited = true,
		.writable = range->writable,
	};

	if (!anew.object)
		return -ENOMEM;
	anew.offset = anew.object->length;
	anew.object->writable |= anew.writable;
	object_reaches(anew.object, anew.start, anew.offset,
		       anew.offset + (anew.end - anew.start));
	return put(spaces, process, &anew);
}

struct object *spaces_fault(struct spaces *spaces, uint32_t pid, uint64_t address,
			    uint64_t *ret_offset)
{
	struct object *object = spaces_find(spaces, pid, address, ret_offset);
	struct process *process;

	if (!object || object->kind != OBJECT_ANON)
		return object;
	/* Of that kind it was found in a range. */
	process = process_of(spaces, pid);
	if (!merged_touch(process->last, address))
		return object;
	return renew(spaces, process, process->last) ?
		       NULL :
		       spaces_find(spaces, pid, address, ret_offset);
}

struct object *spaces_mapped(struct spaces *spaces, uint32_t pid, uint64_t address,
			     uint64_t *ret_offset)
{
	struct process *process = process_of(spaces, pid);
	struct range *range = process && address < UINT64_MAX ?
				      range_find(process->maps, address, address + 1) :
				      NULL;

	if (!range)
		return NULL;
	*ret_offset = range->offset + (address - range->start);
	return range->object;
}

bool spaces_knows(const struct spaces *spaces, uint32_t pid)
{
	const struct process key = { .pid = pid };
	void *node = tfind(&key, &spaces->processes, compare_processes);

	return node && (*(struct process **)node)->traced;
}

struct object *spaces_nameless(struct spaces *spaces, const char *device, uint64_t opener,
			       uint32_t number)
{
	char *key = text_format("d%s:%" PRIu64 ":%" PRIu32, device, opener, number);
	char *name = text_format("buffer %" PRIu32 " of %s", number, device);
	struct object *object = NULL;

	if (key && name)
		object = objects_of(&spaces->objects, key, OBJECT_DEVICE, name, 0);
	free(name);
	free(key);
	return object;
}

const char *spaces_code(struct spaces *spaces, uint32_t pid, uint64_t address,
			uint64_t *ret_offset)
{
	struct process *process = process_of(spaces, pid);
	struct range *range = process && address < UINT64_MAX ?
				      range_find(process->maps, address, address + 1) :
				      NULL;

	if (!range || !range->file)
		return NULL;
	*ret_offset = range->file_offset + (address - range->start);
	return range->file;
}

uint64_t spaces_code_state(struct spaces *spaces, uint32_t pid)
{
	struct process *process = process_of(spaces, pid);

	return process ? process->code : 0;
}

struct object *spaces_objects(const struct spaces *spaces, uint32_t *ret_n)
{
	*ret_n = spaces->objects.n;
	return spaces->objects.first;
}

/* ---- the whole ---- */

struct spaces *spaces_create(void)
{
	return calloc(1, sizeof(struct spaces));
}

static void free_process(void *value)
{
	struct process *process = value;

	range_drop(&process->maps);
	range_drop(&process->published);
	free(process);
}

void spaces_free(struct spaces *spaces)
{
	if (!spaces)
		return;
	tdestroy(spaces->processes, free_process);
	table_clear(&spaces->threads, free);
	table_clear(&spaces->strings, free);
	table_clear(&spaces->code, free);
	objects_free(&spaces->objects);
	free(spaces);
}
