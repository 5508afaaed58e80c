// SPDX-License-Identifier: MIT
/* The output of hetmap top: rows in order, columns, and JSON. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/command.h"
#include "common/text.h"
#include "top.h"

const char *const top_key_names[N_TOP_KEY + 1] = {
	[TOP_BY_MAPPED] = "mapped",     [TOP_BY_RESIDENT] = "resident",
	[TOP_BY_LOCKED] = "locked",     [TOP_BY_HUGE] = "huge",
	[TOP_BY_FAULTS] = "faults",     [TOP_BY_EVICTIONS] = "evictions",
	[TOP_BY_BRACKETS] = "brackets", [TOP_BY_FENCES] = "fences",
	[TOP_BY_NAME] = "name",
};

/* ---- rows ---- */

static bool contains(const char *text, const char *wanted)
{
	return strcasestr(text, wanted) != NULL;
}

static bool process_passes(const struct top *top, const struct top_process *process)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)process->pid);
	return !top->filter || !*top->filter || !strcmp(number, top->filter) ||
	       contains(process->command, top->filter);
}

static bool buffer_passes(const struct top *top, const struct top_buffer *buffer)
{
	return contains(buffer->name, top->filter) || contains(buffer->device, top->filter);
}

static bool range_passes(const struct top *top, const struct top_range *range)
{
	return contains(range->name, top->filter) || contains(range->accel, top->filter);
}

static double counted(uint64_t value)
{
	return value == FIGURE_UNKNOWN ? -1 : (double)value;
}

/* Unknown figures are below all others. */
static double value_by(const struct top_figures *figures, enum top_key key)
{
	switch (key) {
	case TOP_BY_MAPPED:
		return (double)figures->mapped;
	case TOP_BY_RESIDENT:
		return (double)figures->resident;
	case TOP_BY_LOCKED:
		return (double)figures->locked;
	case TOP_BY_HUGE:
		return (double)figures->huge;
	case TOP_BY_FAULTS:
		return figures->faults != TOP_NO_RATE ? figures->faults : figures->gained;
	case TOP_BY_EVICTIONS:
		return figures->evictions;
	case TOP_BY_BRACKETS:
		return counted(figures->brackets);
	case TOP_BY_FENCES:
		return counted(figures->in_flight);
	default:
		return 0;
	}
}

static int compare_values(double x, double y)
{
	return x > y ? -1 : x < y;
}

static const struct top_figures *figures_of(const struct top_row *row)
{
	return row->buffer ? &row->buffer->figures :
	       row->range  ? &row->range->figures :
			     &row->process->sum;
}

static const char *plain_name(const struct top_row *row)
{
	return row->buffer ? row->buffer->name : row->range->name;
}

static uint64_t place_of(const struct top_row *row)
{
	return row->buffer ? row->buffer->serial : row->range->start;
}

static bool is_process(const struct top_row *row)
{
	return !row->buffer && !row->range;
}

static int compare_rows(const void *a, const void *b, void *user)
{
	const struct top_row *x = a, *y = b;
	const struct top *top = user;
	int order = 0;

	if (x->process != y->process) {
		if (top->key == TOP_BY_NAME)
			order = strcmp(x->process->command, y->process->command);
		else
			order = compare_values(value_by(&x->process->sum, top->key),
					       value_by(&y->process->sum, top->key));
		order = top->reverse ? -order : order;
		return order ? order : (int)x->process->pid - (int)y->process->pid;
	}
	/* Its own row is above those of its buffers and ranges. */
	if (is_process(x) || is_process(y))
		return is_process(y) - is_process(x);
	if (top->key == TOP_BY_NAME)
		order = strcmp(plain_name(x), plain_name(y));
	else
		order = compare_values(value_by(figures_of(x), top->key),
				       value_by(figures_of(y), top->key));
	order = top->reverse ? -order : order;
	order = order ? order : (x->range != NULL) - (y->range != NULL);
	return order ? order : (place_of(x) > place_of(y)) - (place_of(x) < place_of(y));
}

struct top_row *top_rows(const struct top *top, size_t *ret_n)
{
	struct top_row *rows;
	size_t room = 1, n = 0, i, k;

	for (i = 0; i < top->n; i++)
		room += top->processes[i].n_buffer + top->processes[i].n_range + 1;
	rows = calloc(room, sizeof(*rows));
	if (!rows)
		abort();
	for (i = 0; i < top->n; i++) {
		const struct top_process *process = &top->processes[i];
		bool all = process_passes(top, process);
		size_t at = n++;

		for (k = 0; k < process->n_buffer; k++)
			if (all || buffer_passes(top, &process->buffers[k]))
				rows[n++] =
					(struct top_row){ process, &process->buffers[k], NULL };
		for (k = 0; k < process->n_range; k++)
			if (all || range_passes(top, &process->ranges[k]))
				rows[n++] =
					(struct top_row){ process, NULL, &process->ranges[k] };
		if (all || n > at + 1)
			rows[at] = (struct top_row){ process, NULL, NULL };
		else
			n = at;
	}
	qsort_r(rows, n, sizeof(*rows), compare_rows, (void *)(uintptr_t)top);
	*ret_n = n;
	return rows;
}

/* ---- columns ---- */

/* In five characters: "512M", "1.5G", "0". */
static const char *short_bytes(uint64_t bytes, char text[TEXT_MAX])
{
	static const char units[] = " KMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 999.5 && unit < 6) {
		value /= 1024;
		unit++;
	}
	if (!unit)
		snprintf(text, TEXT_MAX, "%" PRIu64, bytes);
	else
		snprintf(text, TEXT_MAX,
			 value >= 9.95 || value == (double)(int)value ? "%.0f%c" : "%.1f%c",
			 value, units[unit]);
	return text;
}

/* In six: "0", "0.5", "12", "12.3k"; "-": not known. */
static const char *short_rate(double rate, const char *format_small, char text[TEXT_MAX])
{
	double size = fabs(rate);

	if (size < 9.95)
		snprintf(text, TEXT_MAX, format_small, rate != 0 && size < 0.05 ? 0.1 : rate);
	else if (size < 9999.5)
		snprintf(text, TEXT_MAX, *format_small == '+' ? "%+.0f" : "%.0f", rate);
	else if (size < 999500)
		snprintf(text, TEXT_MAX, "%.0fk", rate / 1e3);
	else
		snprintf(text, TEXT_MAX, "%.1fM", rate / 1e6);
	return text;
}

static const char *known_rate(double rate, char text[TEXT_MAX])
{
	if (rate == TOP_NO_RATE)
		return strcpy(text, "-");
	return rate == 0 ? strcpy(text, "0") : short_rate(rate, "%.1f", text);
}

/* By the resident pages, where faults are not known: with a sign, so that it shows. */
static const char *fault_rate(const struct top_row *row, char text[TEXT_MAX])
{
	const struct top_figures *figures;

	if (is_process(row))
		return known_rate(row->process->all_faults, text);
	figures = figures_of(row);
	if (figures->faults != TOP_NO_RATE || figures->gained == TOP_NO_RATE)
		return known_rate(figures->faults, text);
	snprintf(text, TEXT_MAX, "%+.0f", figures->gained);
	return text;
}

static const char *known_count(uint64_t n, char text[TEXT_MAX])
{
	if (n == FIGURE_UNKNOWN)
		return strcpy(text, "-");
	snprintf(text, TEXT_MAX, "%" PRIu64, n);
	return text;
}

/* Where devices reach memory, their figures take the place of two columns. */
void top_print_columns(const struct top *top, FILE *out)
{
	fprintf(out, "MAPPED  RESID %s FAULT/S EVICT/S BRACK FENCE  NAME",
		top->reached ? "DFLT/S  INV/S MOVE/S" : "LOCKED   HUGE");
}

/* One for each character. */
static size_t columns_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static char *range_name(const struct top_range *range, size_t room)
{
	char *name = text_escape(range->name), *accel = text_escape(range->accel), *text;
	char addresses[64];

	snprintf(addresses, sizeof(addresses), " 0x%" PRIx64 "-0x%" PRIx64, range->start,
		 range->end);
	if (2 + columns_of(name) + strlen(addresses) > room)
		*addresses = '\0';
	text = text_format("  %s%s (reached by %s)", name, addresses, accel);
	free(accel);
	free(name);
	return text;
}

/* In @room columns; a part of an address would be another one. */
static char *name_of(const struct top_row *row, size_t room)
{
	char *name, *device, *text, maps[TEXT_MAX] = "", address[32];

	if (row->range)
		return range_name(row->range, room);
	if (!row->buffer) {
		name = text_escape(row->process->command);
		text = text_format("%d %s", (int)row->process->pid, name);
		free(name);
		return text;
	}
	name = text_escape(row->buffer->name);
	device = text_escape(row->buffer->device);
	if (row->buffer->figures.maps > 1)
		snprintf(maps, sizeof(maps), ", %" PRIu64 " maps", row->buffer->figures.maps);
	snprintf(address, sizeof(address), " 0x%" PRIx64, row->buffer->address);
	if (2 + columns_of(name) + strlen(address) > room)
		*address = '\0';
	text = text_format("  %s%s (%s%s%s)", name, address, device, maps,
			   row->buffer->lost ? ", lost" : "");
	free(device);
	free(name);
	return text;
}

/* @columns of it, and whole characters. */
static int cut(const char *text, size_t columns)
{
	const char *at = text;

	while (*at && columns) {
		at++;
		while (((unsigned char)*at & 0xc0) == 0x80)
			at++;
		columns--;
	}
	return (int)(at - text);
}

/* Two or three columns: free() it. */
static char *middle_of(const struct top *top, const struct top_row *row)
{
	const struct top_figures *figures = figures_of(row);
	bool reached = !is_process(row) || top_reaches(row->process);
	char text[3][TEXT_MAX];

	if (!top->reached)
		return text_format("%6s %6s", short_bytes(figures->locked, text[0]),
				   short_bytes(figures->huge, text[1]));
	return text_format("%6s %6s %6s",
			   known_rate(reached ? figures->device_faults : TOP_NO_RATE, text[0]),
			   known_rate(reached ? figures->invalidated : TOP_NO_RATE, text[1]),
			   known_rate(reached ? figures->moved : TOP_NO_RATE, text[2]));
}

void top_print_row(const struct top *top, const struct top_row *row, size_t width, FILE *out)
{
	const struct top_figures *figures = figures_of(row);
	char text[6][TEXT_MAX], *name, *middle = middle_of(top, row);
	int n = fprintf(out, "%6s %6s %s %7s %7s %5s %5s  ",
			short_bytes(figures->mapped, text[0]),
			short_bytes(figures->resident, text[1]), middle,
			fault_rate(row, text[2]), known_rate(figures->evictions, text[3]),
			known_count(figures->brackets, text[4]),
			known_count(figures->in_flight, text[5]));

	size_t room = !width ? SIZE_MAX : n > 0 && (size_t)n < width ? width - (size_t)n : 0;

	free(middle);
	name = name_of(row, room);
	fprintf(out, "%.*s", cut(name, room), name);
	free(name);
}

void top_print_head(const struct top *top, FILE *out)
{
	time_t now = time(NULL);
	struct tm tm;
	char clock[16];
	size_t i, buffers = 0;

	for (i = 0; i < top->n; i++)
		buffers += top->processes[i].n_buffer;
	localtime_r(&now, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	fprintf(out, "hetmap top - %s, %zu process%s, %zu buffer%s, by %s%s", clock, top->n,
		top->n == 1 ? "" : "es", buffers, buffers == 1 ? "" : "s",
		top_key_names[top->key], top->reverse ? ", upside down" : "");
	if (top->filter && *top->filter) {
		char *shown = text_escape(top->filter);

		fprintf(out, ", of '%s'", shown);
		free(shown);
	}
}

/* ---- notes ---- */

static char *note_on_counters(const struct top_process *process)
{
	return text_format("brackets and fences of process %d are not known: %s; run hetmap "
			   "with sudo, or set kernel.yama.ptrace_scope to 0",
			   (int)process->pid, strerror(process->live.refused));
}

static char *note_on_faults(const struct top_process *process)
{
	if (process->faults_refused == E2BIG)
		return text_format("process %d has too many threads to sample their faults: "
				   "FAULT/S with a sign are the resident pages gained a second",
				   (int)process->pid);
	return text_format(
		"faults of process %d can't be sampled: %s; run hetmap with sudo, or "
		"set kernel.perf_event_paranoid to 2. FAULT/S with a sign are the "
		"resident pages gained a second",
		(int)process->pid, strerror(process->faults_refused));
}

/* One of each kind, for the first process that it is true of. */
void top_notes(const struct top *top, char *notes[TOP_NOTES_MOST + 1])
{
	uint64_t left_out = 0, nonsense = 0, reached = 0;
	bool counters = false, faults = false, tiering = false;
	size_t i, n = 0;

	for (i = 0; i < top->n; i++) {
		const struct top_process *process = &top->processes[i];

		left_out += process->live.left_out;
		nonsense += process->live.nonsense;
		reached += process->reached_left_out;
		if (process->live.refused && !counters)
			notes[n++] = note_on_counters(process);
		if (process->faults_refused && !faults)
			notes[n++] = note_on_faults(process);
		if (process->has_tiering && !tiering)
			notes[n++] = tiering_note(process);
		tiering |= process->has_tiering;
		counters |= process->live.refused != 0;
		faults |= process->faults_refused != 0;
	}
	if (top->unreadable)
		notes[n++] = text_format("%" PRIu64 " process%s could not be read: run hetmap "
					 "with sudo",
					 top->unreadable, top->unreadable == 1 ? "" : "es");
	if (top->broken)
		notes[n++] = text_format("%" PRIu64 " process%s a table that makes no sense",
					 top->broken,
					 top->broken == 1 ? " publishes" : "es publish");
	if (left_out)
		notes[n++] = text_format("%" PRIu64 " map%s in no table", left_out,
					 left_out == 1 ? " is" : "s are");
	if (nonsense)
		notes[n++] = text_format("%" PRIu64 " entr%s of tables can't be of maps",
					 nonsense, nonsense == 1 ? "y" : "ies");
	if (reached)
		notes[n++] = text_format("%" PRIu64 " event%s of devices in no range", reached,
					 reached == 1 ? " is" : "s are");
	notes[n] = NULL;
}

/* ---- JSON ---- */

static json_t *json_count(uint64_t n)
{
	return n == FIGURE_UNKNOWN ? json_null() : json_integer((json_int_t)n);
}

static json_t *json_rate(double rate)
{
	return rate == TOP_NO_RATE ? json_null() : json_real(rate);
}

static json_t *json_text(const char *text)
{
	char *shown = text_escape_json(text);
	json_t *json = json_string(shown);

	free(shown);
	return json;
}

static void set_figures(json_t *object, const struct top_figures *figures)
{
	json_object_set_new(object, "maps", json_count(figures->maps));
	json_object_set_new(object, "mapped", json_count(figures->mapped));
	json_object_set_new(object, "resident", json_count(figures->resident));
	json_object_set_new(object, "locked", json_count(figures->locked));
	json_object_set_new(object, "huge", json_count(figures->huge));
	json_object_set_new(object, "evictions_per_second", json_rate(figures->evictions));
	json_object_set_new(object, "open_brackets", json_count(figures->brackets));
	json_object_set_new(object, "pending_fences", json_count(figures->in_flight));
}

/* Of entries that devices have of their own. */
static void set_reached(json_t *object, const struct top_figures *figures)
{
	json_object_set_new(object, "device_faults_per_second",
			    json_rate(figures->device_faults));
	json_object_set_new(object, "invalidations_per_second",
			    json_rate(figures->invalidated));
	json_object_set_new(object, "pages_moved_per_second", json_rate(figures->moved));
}

static json_t *json_range(const struct top_range *range)
{
	json_t *object = json_object();
	char address[32];

	snprintf(address, sizeof(address), "0x%" PRIx64, range->start);
	json_object_set_new(object, "name", json_text(range->name));
	json_object_set_new(object, "accel", json_text(range->accel));
	json_object_set_new(object, "address", json_string(address));
	json_object_set_new(object, "length", json_count(range->end - range->start));
	json_object_set_new(object, "mapped", json_count(range->figures.mapped));
	json_object_set_new(object, "resident", json_count(range->figures.resident));
	json_object_set_new(object, "faults_per_second", json_rate(range->figures.faults));
	json_object_set_new(object, "evictions_per_second",
			    json_rate(range->figures.evictions));
	set_reached(object, &range->figures);
	return object;
}

static json_t *json_buffer(const struct top_buffer *buffer)
{
	json_t *object = json_object();
	char address[32];

	json_object_set_new(object, "buffer", json_integer((json_int_t)buffer->serial));
	json_object_set_new(object, "name", json_text(buffer->name));
	json_object_set_new(object, "device", json_text(buffer->device));
	snprintf(address, sizeof(address), "0x%" PRIx64, buffer->address);
	json_object_set_new(object, "address", json_string(address));
	json_object_set_new(object, "lost", json_boolean(buffer->lost));
	set_figures(object, &buffer->figures);
	json_object_set_new(object, "faults_per_second", json_rate(buffer->figures.faults));
	set_reached(object, &buffer->figures);
	json_object_set_new(object, "resident_pages_gained_per_second",
			    json_rate(buffer->figures.gained));
	return object;
}

static json_t *json_process(const struct top_process *process)
{
	json_t *object = json_object();

	json_object_set_new(object, "pid", json_integer(process->pid));
	json_object_set_new(object, "command", json_text(process->command));
	set_figures(object, &process->sum);
	json_object_set_new(object, "faults_per_second", json_rate(process->all_faults));
	json_object_set_new(object, "faults_in_buffers_per_second",
			    json_rate(process->sum.faults));
	json_object_set_new(object, "device_faults_per_second",
			    json_rate(process->mirrored[MIRRORED_FAULTS]));
	json_object_set_new(object, "invalidations_per_second",
			    json_rate(process->mirrored[MIRRORED_INVALIDATED]));
	json_object_set_new(object, "pages_to_device_per_second",
			    json_rate(process->mirrored[MIRRORED_THERE]));
	json_object_set_new(object, "pages_back_per_second",
			    json_rate(process->mirrored[MIRRORED_BACK]));
	json_object_set_new(object, "tiering", tiering_json(process));
	json_object_set_new(object, "faults_from",
			    process->faults ? json_string("samples") : json_null());
	json_object_set_new(object, "left_out",
			    json_integer((json_int_t)process->live.left_out));
	json_object_set_new(object, "nonsense",
			    json_integer((json_int_t)process->live.nonsense));
	json_object_set_new(object, "buffers", json_array());
	json_object_set_new(object, "ranges", json_array());
	return object;
}

json_t *top_json(const struct top *top)
{
	json_t *object = json_object(), *processes = json_array(), *process = NULL;
	json_t *notes = json_array();
	char *texts[TOP_NOTES_MOST + 1];
	struct top_row *rows;
	struct timespec now;
	size_t n, i;

	clock_gettime(CLOCK_REALTIME, &now);
	rows = top_rows(top, &n);
	for (i = 0; i < n; i++) {
		if (rows[i].range) {
			json_array_append_new(json_object_get(process, "ranges"),
					      json_range(rows[i].range));
		} else if (!rows[i].buffer) {
			process = json_process(rows[i].process);
			json_array_append_new(processes, process);
		} else {
			json_array_append_new(json_object_get(process, "buffers"),
					      json_buffer(rows[i].buffer));
		}
	}
	free(rows);
	top_notes(top, texts);
	for (i = 0; texts[i]; i++) {
		json_array_append_new(notes, json_text(texts[i]));
		free(texts[i]);
	}
	json_object_set_new(object, "time",
			    json_real((double)now.tv_sec + (double)now.tv_nsec / 1e9));
	json_object_set_new(object, "seconds",
			    top->seconds > 0 ? json_real(top->seconds) : json_null());
	json_object_set_new(object, "unreadable", json_integer((json_int_t)top->unreadable));
	json_object_set_new(object, "broken", json_integer((json_int_t)top->broken));
	json_object_set_new(object, "notes", notes);
	json_object_set_new(object, "processes", processes);
	return object;
}

/* ---- failures ---- */

int top_refuse(const struct top *top, int r)
{
	switch (r) {
	case -ENOENT:
		if (kill(top->pid, 0) && errno == ESRCH)
			return fail(STATUS_ENVIRONMENT, ESRCH, NULL, "there is no process %d",
				    (int)top->pid);
		return fail(STATUS_ENVIRONMENT, ENOENT,
			    "see it by its mappings: hetmap explain ADDRESS -p PID",
			    "process %d publishes no table of maps: it does not use the hetmap "
			    "library, has made no map yet, or HETMAP_PUBLISH forbids it",
			    (int)top->pid);
	case -ESRCH:
		return fail(STATUS_ENVIRONMENT, r, NULL, "there is no process %d",
			    (int)top->pid);
	case -EACCES:
	case -EPERM:
		return fail(STATUS_ENVIRONMENT, r,
			    "run hetmap as the process's user, or with sudo",
			    "cannot look into process %d: %s", (int)top->pid, strerror(-r));
	case -EPROTO:
		return fail(STATUS_ENVIRONMENT, r, NULL,
			    "process %d publishes a table that makes no sense", (int)top->pid);
	default:
		return fail(STATUS_ENVIRONMENT, r, NULL, "looking at processes: %s",
			    strerror(-r));
	}
}
