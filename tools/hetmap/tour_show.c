// SPDX-License-Identifier: MIT
/*
 * The tour as a picture: a line for each step, with the map drawn from the library's answers
 * for each of its blocks. Or as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "tour.h"

#define INDENT 40 /* column of the text beside the drawing */

enum cell { CELL_NONE, CELL_RESERVED, CELL_READ_ONLY, CELL_LOCKED, CELL_WRITABLE, N_CELL };

static const struct {
	const char *block;
	const char *letter;
	const char *meaning;
	unsigned char colour; /* one of 256 */
} cells[N_CELL] = {
	[CELL_NONE] = { " ", " ", "", 0 },
	[CELL_RESERVED] = { "\u2591", ".", "reserved", 24 },
	[CELL_READ_ONLY] = { "\u2592", "-", "read only", 173 },
	[CELL_LOCKED] = { "\u2593", "L", "locked", 221 },
	[CELL_WRITABLE] = { "\u2588", "#", "read and write", 74 },
};

enum mark {
	MARK_DONE,
	MARK_ABSENT,
	MARK_WRONG,
	MARK_STOPPED, /* by a signal */
};

static const struct {
	const char *sign;
	const char *letter;
	const char *name; /* in JSON */
	unsigned char colour;
} marks[] = {
	[MARK_DONE] = { "\u2713", "+", "done", 71 },
	[MARK_ABSENT] = { "\u2013", "-", "absent", 244 },
	[MARK_WRONG] = { "\u2717", "!", "failed", 167 },
	[MARK_STOPPED] = { "\u2013", "-", "stopped", 244 },
};

/* Has the step a text? A failure is told after the picture. */
static bool tells(enum mark mark)
{
	return mark == MARK_DONE || mark == MARK_ABSENT;
}

static void print_coloured(const char *text, unsigned char colour)
{
	if (output.colour && colour)
		printf("\033[38;5;%um%s\033[0m", colour, text);
	else
		fputs(text, stdout);
}

static void print_cell(enum cell cell)
{
	print_coloured(output.utf8 ? cells[cell].block : cells[cell].letter,
		       cells[cell].colour);
}

/* State of byte @offset of the map now. */
static enum cell cell_at(const struct tour *tour, uint64_t offset)
{
	struct hm_pointer_detail detail = { .struct_size = sizeof(detail),
					    .fields = HM_POINTER_LOCKED };
	const char *at = (const char *)tour->words + offset;

	if (!tour->map)
		return CELL_NONE;
	if (hm_pointer_query(at, &detail)) {
		/* Without /proc, locked bytes can't be drawn. */
		detail.locked = 0;
		if (hm_pointer_find(at, &detail.info) || detail.info.map != tour->map)
			return CELL_RESERVED;
	}
	if (!(detail.info.access & HM_WRITE))
		return CELL_READ_ONLY;
	return detail.locked ? CELL_LOCKED : CELL_WRITABLE;
}

static uint64_t offset_of(const struct tour *tour, unsigned int cell)
{
	const uint64_t page = tour->device_info.page_size;

	return cell * tour->max_size / TOUR_CELLS / page * page;
}

/* ---- as text ---- */

static void line(const char *label, const char *name, const char *description)
{
	char *text = text_format("%s, %s", name, description);

	printf("  %-13s", label);
	text_wrap(text, 15, 15, 79);
	free(text);
}

void tour_show_head(const struct tour *tour)
{
	enum cell cell;
	char size[TEXT_MAX];

	if (output.json)
		return;
	printf("One buffer of %s through its life\n\n", text_bytes(tour->first_size, size));
	line("device", tour->device_info.name, tour->device_info.description);
	line("accelerator", tour->accel_info.name, tour->accel_info.description);
	printf("  %-13s%s each: ", "blocks", text_bytes(tour->max_size / TOUR_CELLS, size));
	for (cell = N_CELL - 1; cell > CELL_NONE; cell--) {
		print_cell(cell);
		printf(" %s%s", cells[cell].meaning, cell > CELL_RESERVED ? ", " : "\n\n");
	}
	output_flush();
}

static void print_step(const struct tour *tour, enum mark mark)
{
	unsigned int i;

	fputs("  ", stdout);
	print_coloured(output.utf8 ? marks[mark].sign : marks[mark].letter, marks[mark].colour);
	printf(" %-9s ", tour->step);
	for (i = 0; i < TOUR_CELLS; i++)
		print_cell(cell_at(tour, offset_of(tour, i)));
	fputs("  ", stdout);
	text_wrap(tells(mark) ? tour->text : marks[mark].name, INDENT, INDENT, 79);
	output_flush();
}

/* ---- as JSON ---- */

/* Neighbouring blocks that are alike are one range. */
static json_t *ranges_json(const struct tour *tour)
{
	json_t *array = json_array();
	unsigned int i, next;

	for (i = 0; i < TOUR_CELLS; i = next) {
		enum cell cell = cell_at(tour, offset_of(tour, i));
		uint64_t end;

		for (next = i + 1; next < TOUR_CELLS; next++)
			if (cell_at(tour, offset_of(tour, next)) != cell)
				break;
		end = next < TOUR_CELLS ? offset_of(tour, next) : tour->max_size;
		if (cell == CELL_NONE)
			continue;
		json_array_append_new(array, json_pack("{s:I, s:I, s:s}", "offset",
						       (json_int_t)offset_of(tour, i), "length",
						       (json_int_t)(end - offset_of(tour, i)),
						       "state", cells[cell].meaning));
	}
	return array;
}

static json_t *address_json(const struct tour *tour)
{
	char *text;
	json_t *json;

	if (!tour->map)
		return json_null();
	text = text_format("0x%" PRIxPTR, (uintptr_t)tour->words);
	json = json_string(text);
	free(text);
	return json;
}

static void add_step(struct tour *tour, enum mark mark)
{
	json_t *object = json_object();

	json_object_set_new(object, "step", json_string(tour->step));
	json_object_set_new(object, "state", json_string(marks[mark].name));
	json_object_set_new(object, "text", json_string(tour->text));
	json_object_set_new(object, "checks", json_integer((json_int_t)tour->n_expected));
	json_object_set_new(object, "seconds", json_real(tour->seconds));
	json_object_set_new(object, "address", address_json(tour));
	json_object_set_new(object, "bytes",
			    json_integer(tour->buffer ? (json_int_t)tour->size : 0));
	json_object_set_new(object, "map", ranges_json(tour));
	json_array_append_new(tour->steps, object);
}

/* ---- both ---- */

void tour_show_step(struct tour *tour, int status)
{
	enum mark mark = status == STATUS_DONE ? MARK_DONE :
			 status == TOUR_ABSENT ? MARK_ABSENT :
			 status > 128          ? MARK_STOPPED :
						 MARK_WRONG;

	tour->n_done += mark == MARK_DONE;
	tour->n_absent += mark == MARK_ABSENT;
	tour->n_checks += tour->n_expected;
	if (!output.json)
		print_step(tour, mark);
	else if (tells(mark))
		add_step(tour, mark);
	free(tour->text);
	tour->text = NULL;
}

void tour_show_end(struct tour *tour)
{
	json_t *object;

	if (!output.json) {
		printf("\n  verified     %" PRIu64 " steps by %" PRIu64 " checks", tour->n_done,
		       tour->n_checks);
		if (tour->n_absent)
			printf("; %" PRIu64 " not on this device", tour->n_absent);
		putchar('\n');
		return;
	}
	object = json_object();
	json_object_set_new(object, "device", json_string(tour->device_info.name));
	json_object_set_new(object, "accel", json_string(tour->accel_info.name));
	json_object_set_new(object, "bytes", json_integer((json_int_t)tour->first_size));
	json_object_set_new(object, "steps", json_incref(tour->steps));
	json_object_set_new(object, "done", json_integer((json_int_t)tour->n_done));
	json_object_set_new(object, "absent", json_integer((json_int_t)tour->n_absent));
	json_object_set_new(object, "checks", json_integer((json_int_t)tour->n_checks));
	json_object_set_new(object, "verified", json_true());
	output_object(object);
}
