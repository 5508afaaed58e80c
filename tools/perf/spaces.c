// SPDX-License-Identifier: MIT
/*
 * Address spaces as they were at each moment.
 *
 * A process has two trees of ranges that do not overlap: what the kernel said it mapped,
 * and what the library said of its own maps, which is asked first. A range that is put
 * in ends what it covers of others: the kernel tells nobody of munmap(2). The trees are
 * those of tsearch(3), for which two ranges are equal that overlap.
 */
#include "spaces.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../hetmap/text.h"
#include "spaces_range.h"
#include "table.h"

/* Anonymous memory below that is counted together: allocators map a lot of it. */
#define ANON_LEAST (UINT64_C(1) << 20)
/* How far a stack grows below where it was seen, at most. */
#define STACK_MOST (UINT64_C(1) << 30)

struct process {
	uint32_t pid;
	void *maps, *published; /* trees of struct range */
	struct range *last;     /* found last; NULL after any change */
	uint64_t stack;         /* lowest byte that is known to be of the stack; 0: none */
	struct object *stack_object;
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
	struct table objects;    /* by key */
	struct object *first, *last;
	uint32_t n_object;
};

static const char *const kinds[N_OBJECT_KIND] = {
	[OBJECT_HETMAP] = "hetmap", [OBJECT_FILE] = "file",       [OBJECT_DEVICE] = "device",
	[OBJECT_ANON] = "anon",     [OBJECT_HEAP] = "heap",       [OBJECT_STACK] = "stack",
	[OBJECT_OTHER] = "other",   [OBJECT_UNKNOWN] = "unknown",
};

const char *object_kind_name(enum object_kind kind)
{
	return kinds[kind];
}

/* ---- objects ---- */

/* The object that @key stands for; made on first sight. NULL: no memory. */
static struct object *object_of(struct spaces *spaces, const char *key, enum object_kind kind,
				const char *name, uint32_t pid)
{
	void **place = table_place(&spaces->objects, key);
	struct object *object;

	if (!place)
		return NULL;
	if (*place)
		return *place;
	object = calloc(1, sizeof(*object));
	if (!object)
		return NULL;
	object->kind = kind;
	object->pid = pid;
	object->page_size = 4096;
	object->name = strdup(name);
	if (!object->name) {
		free(object);
		return NULL;
	}
	object->index = spaces->n_object++;
	if (spaces->last)
		spaces->last->next = object;
	else
		spaces->first = object;
	spaces->last = object;
	return *place = object;
}

static void object_reaches(struct object *object, uint64_t address, uint64_t offset,
			   uint64_t end)
{
	if (!object->length)
		object->address = address - offset;
	if (end > object->length)
		object->length = end;
}

const char *spaces_string(struct spaces *spaces, const char *text)
{
	void **place = table_place(&spaces->strings, text);

	if (place && !*place)
		*place = strdup(text);
	return place ? *place : NULL;
}

/* ---- ranges of a process ---- */

static int put(struct process *process, void **tree, const struct range *range)
{
	int r = range_cut(tree, range->start, range->end);

	process->last = NULL;
	return r ? r : range_insert(tree, range);
}

struct copying {
	struct process *to;
	void **tree;
	bool all;
	int r;
};

/* Of the tree's walk: twalk_r(3) of glibc 2.30. */
static void copy_range(const void *node, VISIT visit, void *user)
{
	const struct range *range = *(struct range *const *)node;
	struct copying *copying = user;

	if ((visit == postorder || visit == leaf) && !copying->r &&
	    (copying->all || range->inherited))
		copying->r = range_insert(copying->tree, range);
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
	if (tsearch(process, &spaces->processes, compare_processes))
		return spaces->process = process;
	free(process);
	return NULL;
}

static void forget(struct process *process)
{
	tdestroy(process->maps, free);
	tdestroy(process->published, free);
	process->maps = process->published = NULL;
	process->last = NULL;
	process->stack = 0;
	process->stack_object = NULL;
}

static int fork_of(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *parent, *child;
	struct copying copying;

	if (event->pid == event->parent_pid)
		return 0; /* a thread */
	parent = process_of(spaces, event->parent_pid);
	child = process_of(spaces, event->pid);
	if (!parent || !child)
		return -ENOMEM;
	forget(child);
	child->stack = parent->stack;
	child->stack_object = parent->stack_object;
	copying = (struct copying){ .to = child, .tree = &child->maps, .all = true };
	twalk_r(parent->maps, copy_range, &copying);
	copying.tree = &child->published;
	copying.all = false;
	if (!copying.r)
		twalk_r(parent->published, copy_range, &copying);
	return copying.r;
}

static int name_of(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *process;
	void **place;
	char key[16];

	snprintf(key, sizeof(key), "%" PRIu32, event->tid);
	place = table_place(&spaces->threads, key);
	if (!place)
		return -ENOMEM;
	free(*place);
	*place = strdup(event->name);
	if (!event->new_program)
		return 0;
	process = process_of(spaces, event->pid);
	if (!process)
		return -ENOMEM;
	forget(process);
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

/* ---- what the kernel said is mapped ---- */

/* A memfd of the library's: "/memfd:hetmap:NAME (deleted)". */
static bool hetmap_name(const char *file, char *name, size_t size)
{
	static const char prefix[] = "/memfd:hetmap:", suffix[] = " (deleted)";
	size_t length = strlen(file);

	if (strncmp(file, prefix, strlen(prefix)) != 0)
		return false;
	if (length > strlen(suffix) && !strcmp(file + length - strlen(suffix), suffix))
		length -= strlen(suffix);
	snprintf(name, size, "%.*s", (int)(length - strlen(prefix)), file + strlen(prefix));
	return true;
}

static enum object_kind kind_of(const char *name)
{
	/* Memory that processes share has a file, by name only. */
	if (!*name || !strcmp(name, "//anon") || !strncmp(name, "/dev/zero", 9) ||
	    !strncmp(name, "/anon_hugepage", 14))
		return OBJECT_ANON;
	if (!strcmp(name, "[heap]"))
		return OBJECT_HEAP;
	if (!strncmp(name, "[stack", 6))
		return OBJECT_STACK;
	if (!strncmp(name, "[anon", 5))
		return OBJECT_ANON;
	if (*name == '[')
		return OBJECT_OTHER;
	if (!strncmp(name, "/dev/", 5) && strncmp(name, "/dev/shm/", 9) != 0)
		return OBJECT_DEVICE;
	return OBJECT_FILE;
}

/* Files of memory have nothing to read. */
static bool is_stored(const char *name)
{
	return kind_of(name) == OBJECT_FILE && *name == '/' &&
	       strncmp(name, "/memfd:", 7) != 0 && strncmp(name, "/dev/shm/", 9) != 0 &&
	       strncmp(name, "/SYSV", 5) != 0;
}

static struct object *object_of_map(struct spaces *spaces, const struct recorded_event *event,
				    uint64_t *ret_offset)
{
	char name[256], size[TEXT_MAX], *key = NULL;
	enum object_kind kind = kind_of(event->name);
	struct object *object;

	*ret_offset = 0;
	if (hetmap_name(event->name, name, sizeof(name))) {
		kind = OBJECT_HETMAP;
		*ret_offset = event->offset;
		key = text_format("h%" PRIu32 ":%" PRIu64 ":%s", event->pid, event->inode,
				  name);
	} else if (kind == OBJECT_FILE || kind == OBJECT_DEVICE) {
		snprintf(name, sizeof(name), "%s", event->name);
		*ret_offset = event->offset;
		key = text_format("f%" PRIu32 ":%" PRIu64 ":%s", event->pid, event->inode,
				  event->name);
	} else if (kind == OBJECT_ANON && event->length >= ANON_LEAST) {
		snprintf(name, sizeof(name), "%s of memory", text_bytes(event->length, size));
		key = text_format("a%" PRIu32 ":%" PRIx64 ":%" PRIu64, event->pid,
				  event->address, event->time);
	} else {
		snprintf(name, sizeof(name), "%s",
			 kind == OBJECT_ANON ? "small pieces of memory" : event->name);
		key = text_format("%d%" PRIu32 ":%s", (int)kind, event->pid, name);
	}
	object = key ? object_of(spaces, key, kind, name, event->pid) : NULL;
	free(key);
	if (object && !object->backed_by && is_stored(event->name)) {
		object->backed_by = spaces_string(spaces, event->name);
		object->inode = event->inode;
	}
	return object;
}

/* Memory that is there already, and at most half of what is told with it. */
static bool is_beside(const struct range *range, uint64_t start, uint64_t end)
{
	return range && range->object->kind == OBJECT_ANON && range->start >= start &&
	       range->end <= end && range->end - range->start <= (end - start) / 2;
}

/*
 * New memory beside old is one mapping with it, and the kernel tells of it as a whole: what
 * is known already at its ends is none of it, if it is the smaller part.
 */
static void trim(const struct process *process, struct recorded_event *event)
{
	uint64_t start = event->address, end = start + event->length;
	const struct range *range;

	if (event->length < ANON_LEAST || kind_of(event->name) != OBJECT_ANON)
		return;
	while (is_beside(range = range_find(&process->maps, start, start + 1), start, end))
		start = range->end;
	while (is_beside(range = range_find(&process->maps, end - 1, end), start, end))
		end = range->start;
	event->address = start;
	event->length = end - start;
}

/*
 * Memory that is told of from where it began to a little behind its end has grown, as
 * allocators let it. NULL: it is something else.
 */
static struct range *grown(const struct process *process, const struct recorded_event *event)
{
	uint64_t start = event->address, end = start + event->length;
	struct range *range;

	if (event->length < ANON_LEAST || kind_of(event->name) != OBJECT_ANON)
		return NULL;
	range = range_find(&process->maps, start, start + 1);
	if (!range || range->object->kind != OBJECT_ANON || range->start != start ||
	    range->end >= end || range->end - start < ANON_LEAST ||
	    end - range->end >= ANON_LEAST)
		return NULL;
	return range;
}

static int map_of(struct spaces *spaces, const struct recorded_event *told)
{
	struct process *process = process_of(spaces, told->pid);
	struct recorded_event known = *told;
	const struct recorded_event *event = &known;
	struct range range, *old;

	if (!process)
		return -ENOMEM;
	old = grown(process, event);
	if (old) {
		range = *old;
		range.end = event->address + event->length;
		object_reaches(range.object, range.start, range.offset,
			       range.offset + event->length);
		return put(process, &process->maps, &range);
	}
	trim(process, &known);
	range = (struct range){
		.start = event->address,
		.end = event->address + event->length,
		.file_offset = event->offset,
		.inherited = true,
	};
	range.object = object_of_map(spaces, event, &range.offset);
	if (!range.object)
		return -ENOMEM;
	/* Pieces of one object that have no offset of their own are where they are. */
	if (range.object->kind != OBJECT_FILE && range.object->kind != OBJECT_DEVICE &&
	    range.object->kind != OBJECT_HETMAP && range.object->length &&
	    range.start >= range.object->address)
		range.offset = range.start - range.object->address;
	if (event->executable && range.object->kind == OBJECT_FILE)
		range.file = spaces_string(spaces, event->name);
	object_reaches(range.object, range.start, range.offset, range.offset + event->length);
	if (range.object->kind == OBJECT_STACK) {
		process->stack = range.start;
		process->stack_object = range.object;
	}
	return put(process, &process->maps, &range);
}

bool spaces_is_memory(const struct recorded_event *event)
{
	return kind_of(event->name) == OBJECT_ANON;
}

int spaces_known(struct spaces *spaces, const struct recorded_event *event)
{
	struct process *process = process_of(spaces, event->pid);
	struct recorded_event rest = *event;
	uint64_t start = event->address, end = start + event->length;
	const struct range *range;

	if (!process)
		return -ENOMEM;
	while (start < end && (range = range_find(&process->maps, start, start + 1)))
		start = range->end;
	while (start < end && (range = range_find(&process->maps, end - 1, end)))
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
	process->last = NULL;
	return range_cut(&process->maps, address, address + length);
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
	range = from < UINT64_MAX ? range_find(&process->maps, from, from + 1) : NULL;
	if (!range)
		return 0;
	moved = *range;
	moved.offset += from - range->start;
	moved.file_offset += from - range->start;
	moved.start = to;
	moved.end = to + new_length;
	process->last = NULL;
	/* Of nothing it is one more of what is shared. */
	r = length ? range_cut(&process->maps, from, from + length) : 0;
	if (r || moved.offset + new_length < moved.offset)
		return r;
	object_reaches(moved.object, moved.start, moved.offset, moved.offset + new_length);
	return put(process, &process->maps, &moved);
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
	default:
		return 0;
	}
}

/* ---- what the library said ---- */

static struct object *object_of_entry(struct spaces *spaces, uint32_t pid,
				      const struct hm_published_entry *entry)
{
	char *key = text_format("b%" PRIu32 ":%" PRIu64 ":%s:%s", pid, entry->buffer,
				entry->device, entry->name);
	struct object *object;

	if (!key)
		return NULL;
	object = object_of(spaces, key, OBJECT_HETMAP, entry->name, pid);
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

	/* A table may say anything. */
	if (range.end <= range.start || range.offset + entry->span < range.offset)
		return 0;
	range.object = process ? object_of_entry(spaces, pid, entry) : NULL;
	if (!range.object)
		return -ENOMEM;
	mapped = range_find(&process->maps, range.start, range.start + 1);
	if (mapped && !range.object->backed_by) {
		range.object->backed_by = mapped->object->backed_by;
		range.object->inode = mapped->object->inode;
	}
	object_reaches(range.object, range.start, range.offset,
		       range.offset +
			       (entry->length < entry->span ? entry->length : entry->span));
	return put(process, &process->published, &range);
}

int spaces_end(struct spaces *spaces, uint32_t pid, const struct hm_published_entry *entry)
{
	struct process *process = process_of(spaces, pid);
	struct range *range;

	if (!process)
		return -ENOMEM;
	range = entry->span ?
			range_find(&process->published, entry->address, entry->address + 1) :
			NULL;
	/* Another one may be there already. */
	if (!range || range->serial != entry->serial)
		return 0;
	process->last = NULL;
	return range_cut(&process->published, range->start, range->end);
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
	return object_of(spaces, key, OBJECT_UNKNOWN, "memory that nothing is known of",
			 process->pid);
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
		range = range_find(&process->published, address, address + 1);
	if (!range)
		range = range_find(&process->maps, address, address + 1);
	if (!range)
		return unknown(spaces, process, address, ret_offset);
	process->last = range;
	*ret_offset = range->offset + (address - range->start);
	return range->object;
}

struct object *spaces_mapped(struct spaces *spaces, uint32_t pid, uint64_t address,
			     uint64_t *ret_offset)
{
	struct process *process = process_of(spaces, pid);
	struct range *range = process && address < UINT64_MAX ?
				      range_find(&process->maps, address, address + 1) :
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

	return node && (*(struct process **)node)->maps;
}

struct object *spaces_nameless(struct spaces *spaces, const char *device, uint64_t opener,
			       uint32_t number)
{
	char *key = text_format("d%s:%" PRIu64 ":%" PRIu32, device, opener, number);
	char *name = text_format("buffer %" PRIu32 " of %s", number, device);
	struct object *object = NULL;

	if (key && name)
		object = object_of(spaces, key, OBJECT_DEVICE, name, 0);
	free(name);
	free(key);
	return object;
}

const char *spaces_code(struct spaces *spaces, uint32_t pid, uint64_t address,
			uint64_t *ret_offset)
{
	struct process *process = process_of(spaces, pid);
	struct range *range = process && address < UINT64_MAX ?
				      range_find(&process->maps, address, address + 1) :
				      NULL;

	if (!range || !range->file)
		return NULL;
	*ret_offset = range->file_offset + (address - range->start);
	return range->file;
}

struct object *spaces_objects(const struct spaces *spaces, uint32_t *ret_n)
{
	*ret_n = spaces->n_object;
	return spaces->first;
}

/* ---- the whole ---- */

struct spaces *spaces_create(void)
{
	return calloc(1, sizeof(struct spaces));
}

static void free_process(void *value)
{
	forget(value);
	free(value);
}

void spaces_free(struct spaces *spaces)
{
	struct object *object;

	if (!spaces)
		return;
	tdestroy(spaces->processes, free_process);
	table_clear(&spaces->threads, free);
	table_clear(&spaces->strings, free);
	table_clear(&spaces->objects, NULL);
	while ((object = spaces->first)) {
		spaces->first = object->next;
		free(object->name);
		free(object->device);
		free(object);
	}
	free(spaces);
}
