// SPDX-License-Identifier: MIT
/*
 * The output of perf script, of any machine: lines of a sample or a record, a sample's call
 * chain below it. Only those lines that have times and process numbers are told.
 *
 *	perf script --ns -F comm,pid,tid,time,period,event,addr,ip,sym,dso
 *		--show-mmap-events --show-task-events --show-switch-events
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "recording_private.h"

/* A line of the file, taken apart; its pointers point into the line. */
struct text_line {
	uint32_t pid, tid, cpu;
	uint64_t time;
	char *rest; /* behind the time */
};

/* "[003]" and blanks; CPUs are not always there. */
static const char *skip_cpu(const char *at, uint32_t *ret_cpu)
{
	char *end;

	if (*at != '[')
		return at;
	*ret_cpu = (uint32_t)strtoul(at + 1, &end, 10);
	if (*end != ']')
		return at;
	for (end++; *end == ' '; end++)
		;
	return end;
}

/* "52037.161946000:"; NULL: there is no time. */
static char *take_time(const char *at, uint64_t *ret_ns)
{
	uint64_t seconds, fraction = 0, unit = 1000000000;
	char *end;

	if (!isdigit((unsigned char)*at))
		return NULL;
	seconds = strtoull(at, &end, 10);
	if (*end != '.')
		return NULL;
	for (end++; isdigit((unsigned char)*end); end++) {
		unit /= 10;
		fraction += (uint64_t)(*end - '0') * unit;
	}
	if (*end != ':')
		return NULL;
	*ret_ns = seconds * 1000000000u + fraction;
	return end + 1;
}

/*
 * "COMM PID/TID [CPU] TIME: ...": a name may have blanks and anything in it, so the reader
 * looks for a number, a slash, a number, and a time behind them.
 */
static bool parse_head(char *line, struct text_line *ret_line)
{
	char *slash, *begin, *end;
	const char *at;

	for (slash = strchr(line, '/'); slash; slash = strchr(slash + 1, '/')) {
		for (begin = slash; begin > line && isdigit((unsigned char)begin[-1]); begin--)
			;
		if (begin == slash || !isdigit((unsigned char)slash[1]))
			continue;
		*ret_line = (struct text_line){ .pid = (uint32_t)strtoul(begin, NULL, 10) };
		ret_line->tid = (uint32_t)strtoul(slash + 1, &end, 10);
		for (at = end; *at == ' '; at++)
			;
		ret_line->rest = take_time(skip_cpu(at, &ret_line->cpu), &ret_line->time);
		if (!ret_line->rest)
			continue;
		while (*ret_line->rest == ' ')
			ret_line->rest++;
		return true;
	}
	return false;
}

static bool parse_kind(const char *name, enum recorded *ret_kind)
{
	static const struct {
		const char *name;
		enum recorded kind;
	} names[] = {
		{ "page-faults", RECORDED_FAULT },
		{ "faults", RECORDED_FAULT },
		{ "minor-faults", RECORDED_MINOR },
		{ "major-faults", RECORDED_MAJOR },
	};
	size_t length = strcspn(name, ": "), i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == length && !strncmp(name, names[i].name, length)) {
			*ret_kind = names[i].kind;
			return true;
		}
	return false;
}

/* Of "100 page-faults:", behind the blanks behind it; *ret_period 0: it is not told. */
static const char *skip_period(const char *at, uint64_t *ret_period)
{
	char *end;

	*ret_period = 0;
	if (!isdigit((unsigned char)*at))
		return at;
	*ret_period = strtoull(at, &end, 10);
	if (*end != ' ')
		*ret_period = 0;
	for (; *end == ' '; end++)
		;
	return end;
}

/*
 * "1 page-faults:ku:  7f352e11a110 symbol (file)": the period may not be there, and the
 * event's name has its modifiers.
 */
static bool parse_sample(const struct text_line *line, struct recorded_event *event)
{
	const char *at = skip_period(line->rest, &event->period);
	char *end;

	if (!parse_kind(at, &event->kind))
		return false;
	if (!event->period || event->period > UINT32_MAX)
		event->period = event->period ? UINT32_MAX : 1;
	at += strcspn(at, " ");
	event->address = strtoull(at, &end, 16);
	return end != at;
}

/* "PERF_RECORD_MMAP2 1/1: [0x7f00(0x1000) @ 0x2000 fe:00 12 34]: r-xp /a/file" */
static bool parse_map(char *rest, struct recorded_event *event)
{
	char *at = strstr(rest, ": ["), *end;
	char rights[5] = "";
	int name = 0;

	event->kind = RECORDED_MAP;
	if (!at || sscanf(at, ": [0x%" SCNx64 "(0x%" SCNx64 ") @ %" SCNi64, &event->address,
			  &event->length, (int64_t *)&event->offset) != 3)
		return false;
	at = strchr(at, '@');
	sscanf(at, "@ %*s %" SCNx32 ":%" SCNx32 " %" SCNu64, &event->device_major,
	       &event->device_minor, &event->inode);
	end = strstr(at, "]: ");
	if (!end || sscanf(end, "]: %4s %n", rights, &name) != 1 || !name)
		return false;
	event->name = end + name;
	event->executable = strchr(rights, 'x') != NULL;
	event->writable = strchr(rights, 'w') != NULL;
	return event->length && event->address + event->length > event->address;
}

/* "PERF_RECORD_COMM exec: name:1/1", where "exec" says that it is a new program's. */
static bool parse_name(char *rest, struct recorded_event *event)
{
	char *name = strstr(rest, ": "), *end = strrchr(rest, ':');

	event->kind = RECORDED_NAME;
	if (!name || end <= name + 1 ||
	    sscanf(end, ":%" SCNu32 "/%" SCNu32, &event->pid, &event->tid) != 2)
		return false;
	event->new_program = !strncmp(rest, "PERF_RECORD_COMM exec", 21);
	*end = '\0';
	event->name = name + 2;
	return true;
}

/* "PERF_RECORD_FORK(2:2):(1:1)" */
static bool parse_fork(const char *rest, struct recorded_event *event)
{
	event->kind = RECORDED_FORK;
	return sscanf(rest, "PERF_RECORD_FORK(%" SCNu32 ":%" SCNu32 "):(%" SCNu32 ":%" SCNu32,
		      &event->pid, &event->tid, &event->parent_pid, &event->parent_tid) == 4;
}

/* "PERF_RECORD_SWITCH OUT preempt", "PERF_RECORD_SWITCH IN": of the thread in the head. */
static bool parse_switch(const char *rest, struct recorded_event *event)
{
	event->kind = RECORDED_SWITCH;
	event->off_cpu = strstr(rest, " OUT");
	event->preempted = event->off_cpu && strstr(rest, "preempt");
	return event->off_cpu || strstr(rest, " IN");
}

static bool parse_event(struct text_line *line, struct recorded_event *event)
{
	*event = (struct recorded_event){
		.time = line->time,
		.pid = line->pid,
		.tid = line->tid,
		.cpu = line->cpu,
	};
	if (!strncmp(line->rest, "PERF_RECORD_MMAP", 16))
		return parse_map(line->rest, event);
	if (!strncmp(line->rest, "PERF_RECORD_COMM", 16))
		return parse_name(line->rest, event);
	if (!strncmp(line->rest, "PERF_RECORD_FORK", 16))
		return parse_fork(line->rest, event);
	if (!strncmp(line->rest, "PERF_RECORD_SWITCH", 18))
		return parse_switch(line->rest, event);
	return parse_sample(line, event);
}

/* "\t 1ab70 _start (/lib/ld.so)": the first frame that is not the kernel's. */
static void parse_frame(char *line, struct recorded_event *event)
{
	char *at, *file, *end;

	if (event->function)
		return;
	strtoull(line, &at, 16);
	if (at == line || *at != ' ')
		return;
	file = strrchr(at, '(');
	end = file ? strrchr(file, ')') : NULL;
	if (!end)
		return;
	if (!strncmp(file, "([kernel", 8)) {
		event->in_kernel = true;
		return;
	}
	*end = '\0';
	file[-1] = '\0';
	event->function = at + 1;
	event->module = file + 1;
}

/* ---- the file ---- */

/* Of all in it: the first ones of a recording by frequency stand for one fault each. */
bool recorded_text_look(FILE *text, bool *ret_latency, enum recorded_share *ret_share)
{
	bool begins = false, ends = false, samples = false, untold = false;
	uint64_t period;
	struct text_line head;
	enum recorded kind;
	char *line = NULL;
	size_t room = 0;

	rewind(text);
	while (getline(&line, &room, text) > 0)
		if (*line != '\t' && parse_head(line, &head) &&
		    parse_kind(skip_period(head.rest, &period), &kind)) {
			begins |= kind == RECORDED_FAULT;
			ends |= kind != RECORDED_FAULT;
			samples |= period > 1;
			untold |= !period;
		}
	free(line);
	*ret_share = samples ? RECORDED_SAMPLES : untold ? RECORDED_UNTOLD : RECORDED_EACH;
	*ret_latency = begins && ends;
	return begins || ends;
}

/* The lines of one event, as long as it is told: its parts are in them. */
struct told {
	char *head, *frame;
	size_t head_room, frame_room;
	struct recorded_event event;
	bool any;
};

static int tell(struct told *told, recorded_each *each, void *user,
		struct recording_totals *totals)
{
	if (!told->any)
		return 0;
	told->any = false;
	totals->records++;
	return each(user, &told->event);
}

int recorded_text_each(FILE *text, recorded_each *each, void *user,
		       struct recording_totals *totals)
{
	struct told told = { 0 };
	struct text_line head;
	char *line = NULL, *keep;
	size_t room = 0, keep_room;
	int r = 0;

	rewind(text);
	while (!r && getline(&line, &room, text) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (*line == '\t') {
			if (!told.any || told.event.function)
				continue;
			/* The event keeps this line, and the next is read into the other. */
			keep = told.frame, keep_room = told.frame_room;
			told.frame = line, told.frame_room = room;
			line = keep, room = keep_room;
			parse_frame(told.frame + 1, &told.event);
			continue;
		}
		r = tell(&told, each, user, totals);
		if (!*line || r)
			continue;
		keep = told.head, keep_room = told.head_room;
		told.head = line, told.head_room = room;
		line = keep, room = keep_room;
		told.any = parse_head(told.head, &head) && parse_event(&head, &told.event);
		totals->skipped += !told.any;
	}
	if (!r)
		r = tell(&told, each, user, totals);
	if (!r && ferror(text))
		r = -EIO;
	free(line);
	free(told.head);
	free(told.frame);
	return r;
}
