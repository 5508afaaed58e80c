// SPDX-License-Identifier: MIT
/* hetmap inspect: shows the contents of a file, for people or as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "inspect.h"

#define BAR 50
/* Pages that mincore(2) is asked for at once. */
#define PAGES_AT_ONCE 65536

/* ---- resident ---- */

/*
 * For files of another owner without write access, mincore() reports all pages as present: the
 * page cache would reveal the reads of other users [mincore(2), since Linux 5.2].
 */
static bool can_be_told(const struct hm_pieces_file_info *file)
{
	struct stat st;

	return file->map && !stat(file->path, &st) &&
	       (!geteuid() || st.st_uid == geteuid() || !access(file->path, W_OK));
}

/* Pages of bytes [@from, @to) that are in RAM; *@ret_pages: of how many. */
static uint64_t resident(const struct hm_pieces_file_info *file, uint64_t from, uint64_t to,
			 uint64_t *ret_pages)
{
	static unsigned char there[PAGES_AT_ONCE];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at = from / page, end = (to + page - 1) / page, n, i, sum = 0;

	*ret_pages = from < to ? end - at : 0;
	for (; from < to && at < end; at += n) {
		n = end - at < PAGES_AT_ONCE ? end - at : PAGES_AT_ONCE;
		if (mincore((char *)hm_map_address(file->map) + at * page, n * page, there))
			continue;
		for (i = 0; i < n; i++)
			sum += there[i] & 1;
	}
	return sum;
}

/* "50%", or "-" for a part without pages. */
static const char *percent(uint64_t part, uint64_t whole, char text[TEXT_MAX])
{
	if (whole)
		snprintf(text, TEXT_MAX, "%.0f%%", 100.0 * (double)part / (double)whole);
	else
		snprintf(text, TEXT_MAX, "-");
	return text;
}

static unsigned int shade(uint64_t there, uint64_t pages)
{
	/* The ends are for none and for all. */
	if (!there)
		return 0;
	if (there == pages)
		return 3;
	return there * 2 < pages ? 1 : 2;
}

static void print_bar(const struct hm_pieces_file_info *file)
{
	static const char *const blocks[] = { "\u2591", "\u2592", "\u2593", "\u2588" };
	static const char *const letters[] = { ".", "-", "+", "#" };
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t total = (file->size + page - 1) / page, width = total < BAR ? total : BAR;
	uint64_t i, from, to, there, pages;

	putchar('[');
	for (i = 0; i < width; i++) {
		from = total * i / width * page;
		to = total * (i + 1) / width * page;
		there = resident(file, from, to < file->size ? to : file->size, &pages);
		fputs((output.utf8 ? blocks : letters)[shade(there, pages)], stdout);
	}
	putchar(']');
}

/* ---- alignment ---- */

/* Largest first; a device may ask for one of these alignments of a part. */
static const uint64_t alignments[] = { 4096, 128, 64 };

#define N_ALIGNMENT (sizeof(alignments) / sizeof(alignments[0]))

struct classes {
	uint64_t at_least[N_ALIGNMENT]; /* not those that are in the one before */
	uint64_t type;                  /* the rest: at a multiple of an element */
	uint64_t less;
};

static uint64_t alignment_of(const struct hm_piece_info *part)
{
	uint64_t lowest = part->offset & -part->offset;

	return lowest && lowest < 4096 ? lowest : 4096;
}

/* Bytes of an element, rounded down: an element of a block has no place of its own. */
static uint64_t element_bytes(const struct hm_piece_info *part)
{
	return part->block_elements ? part->block_bytes / part->block_elements : 0;
}

static struct classes classify(const struct contents *contents)
{
	struct classes classes = { 0 };
	uint64_t i, alignment;
	size_t c;

	for (i = 0; i < contents->info.pieces; i++) {
		alignment = alignment_of(&contents->part[i]);
		for (c = 0; c < N_ALIGNMENT && alignment < alignments[c]; c++)
			;
		if (c < N_ALIGNMENT)
			classes.at_least[c]++;
		else if (alignment >= element_bytes(&contents->part[i]))
			classes.type++;
		else
			classes.less++;
	}
	return classes;
}

/* ---- for people ---- */

static void print_file(const struct hm_pieces_file_info *file)
{
	char size[TEXT_MAX], header[TEXT_MAX], there_text[TEXT_MAX], share[TEXT_MAX];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), there, pages, bytes;
	char *shown = text_escape(file->path);

	printf("\n%s\n  %s, of which the header takes %s\n", shown,
	       text_bytes(file->size, size), text_bytes(file->data_offset, header));
	free(shown);
	if (!file->size)
		return;
	if (!file->map) {
		puts("  in RAM: not known, as it is read, and not mapped");
		return;
	}
	if (!can_be_told(file)) {
		puts("  in RAM: not known, as the kernel tells it only to the file's owner, and "
		     "to\n"
		     "  users who may write it");
		return;
	}
	there = resident(file, 0, file->size, &pages);
	bytes = there * page < file->size ? there * page : file->size;
	fputs("  ", stdout);
	print_bar(file);
	printf("\n  in RAM: %s, %s\n", text_bytes(bytes, there_text),
	       percent(there, pages, share));
}

static char *shape_text(const struct hm_piece_info *part)
{
	char *text = strdup(part->rank ? "" : "scalar"), *longer;
	uint32_t i;

	for (i = 0; i < part->rank; i++) {
		longer = text_format("%s%s%" PRIu64, text, i ? "x" : "", part->shape[i]);
		free(text);
		text = longer;
	}
	return text;
}

static void print_parts(const struct contents *contents, uint64_t rows)
{
	uint64_t n = rows && rows < contents->info.pieces ? rows : contents->info.pieces, i,
		 there, pages;
	char bytes[TEXT_MAX], share[TEXT_MAX], count[TEXT_MAX];
	const struct hm_pieces_file_info *file;

	if (n)
		printf("\n%14s %9s %5s %6s  %-8s %-14s %s\n", "offset", "size", "align",
		       "in RAM", "type", "shape", "name");
	for (i = 0; i < n; i++) {
		const struct hm_piece_info *part = &contents->part[i];
		char *shape = shape_text(part), *shown = text_escape(part->name);
		char *type = text_escape(part->type);

		file = &contents->file[part->file];
		there = resident(file, part->offset, part->offset + part->bytes, &pages);
		printf("%14" PRIu64 " %9s %5" PRIu64 " %6s  %-8s %-14s %s\n", part->offset,
		       text_bytes(part->bytes, bytes), alignment_of(part),
		       can_be_told(file) ? percent(there, pages, share) : "?", type, shape,
		       *shown ? shown : "''");
		free(shown);
		free(shape);
		free(type);
	}
	if (n < contents->info.pieces)
		printf("%14s and %s more (-n 0 shows all)\n", "...",
		       text_count(contents->info.pieces - n, count));
}

static void print_alignment(const struct contents *contents)
{
	struct classes classes = classify(contents);
	char count[TEXT_MAX];
	size_t c;

	if (!contents->info.pieces)
		return;
	putchar(10);
	puts("In place");
	printf("  %8s at a multiple of 4096: any accelerator takes them as they are\n",
	       text_count(classes.at_least[0], count));
	for (c = 1; c < N_ALIGNMENT; c++)
		printf("  %8s of %" PRIu64
		       ": by a window of whole pages around them and an offset\n",
		       text_count(classes.at_least[c], count), alignments[c]);
	printf("  %8s aligned for their type only: by such a window, where a device takes\n"
	       "           any offset\n",
	       text_count(classes.type, count));
	printf("  %8s not aligned for their type: copy them before typed access\n",
	       text_count(classes.less, count));
}

/* As much of @text as @columns have room for; JSON has all of it. */
static void print_cut(const char *text, int columns)
{
	char *shown = text_escape(text);
	size_t n = 0;
	int used = 0;

	for (; shown[n] && used < columns; used++)
		for (n++; ((unsigned char)shown[n] & 0xc0) == 0x80; n++)
			;
	printf("%.*s%s", (int)n, shown, shown[n] ? "..." : "");
	free(shown);
}

static void print_notes(const struct contents *contents)
{
	uint64_t i;

	for (i = 0; i < contents->info.metadata; i++) {
		fputs("  ", stdout);
		print_cut(contents->note[i].key, 25);
		fputs(": ", stdout);
		print_cut(contents->note[i].value, 40);
		putchar('\n');
	}
}

static void print(const char *const *paths, uint32_t n_path, const struct contents *contents,
		  uint64_t rows)
{
	char count[TEXT_MAX], files[TEXT_MAX], bytes[TEXT_MAX];
	char *shown = text_files(paths, n_path);
	uint64_t i;

	printf("%s\n  %s: %s %s%s of %s in %s file%s\n", shown, contents->info.format,
	       text_count(contents->info.pieces, count), contents->info.word,
	       contents->info.pieces == 1 ? "" : "s", text_bytes(contents->info.bytes, bytes),
	       text_count(contents->info.files, files), contents->info.files == 1 ? "" : "s");
	free(shown);
	print_notes(contents);
	for (i = 0; i < contents->info.files; i++)
		print_file(&contents->file[i]);
	print_parts(contents, rows);
	print_alignment(contents);
}

/* ---- as JSON ---- */

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *resident_json(const struct hm_pieces_file_info *file, uint64_t from, uint64_t to)
{
	uint64_t pages;

	return can_be_told(file) ? number(resident(file, from, to, &pages)) : json_null();
}

static json_t *string(const char *text)
{
	char *shown = text_escape_json(text);
	json_t *json = json_string(shown);

	free(shown);
	return json;
}

static json_t *file_json(const struct hm_pieces_file_info *file)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	json_t *object = json_object();

	json_object_set_new(object, "path", string(file->path));
	json_object_set_new(object, "size", number(file->size));
	json_object_set_new(object, "data_offset", number(file->data_offset));
	json_object_set_new(object, "pages", number((file->size + page - 1) / page));
	json_object_set_new(object, "pages_resident", resident_json(file, 0, file->size));
	return object;
}

static json_t *part_json(const struct contents *contents, const struct hm_piece_info *part)
{
	json_t *object = json_object(), *shape = json_array();
	uint32_t i;

	for (i = 0; i < part->rank; i++)
		json_array_append_new(shape, number(part->shape[i]));
	/* Names are UTF-8, and programs look for them: print them as they are. */
	json_object_set_new(object, "name", json_string(part->name));
	json_object_set_new(object, "dtype", json_string(part->type));
	json_object_set_new(object, "shape", shape);
	json_object_set_new(object, "file", number(part->file));
	json_object_set_new(object, "offset", number(part->offset));
	json_object_set_new(object, "bytes", number(part->bytes));
	json_object_set_new(object, "alignment", number(alignment_of(part)));
	json_object_set_new(object, "pages_resident",
			    resident_json(&contents->file[part->file], part->offset,
					  part->offset + part->bytes));
	return object;
}

static json_t *alignment_json(const struct contents *contents)
{
	struct classes classes = classify(contents);
	json_t *object = json_object();
	char name[TEXT_MAX];
	size_t c;

	for (c = 0; c < N_ALIGNMENT; c++) {
		snprintf(name, sizeof(name), "%" PRIu64, alignments[c]);
		json_object_set_new(object, name, number(classes.at_least[c]));
	}
	json_object_set_new(object, "type", number(classes.type));
	json_object_set_new(object, "less", number(classes.less));
	return object;
}

static void print_json(const struct contents *contents)
{
	json_t *object = json_object(), *files = json_array(), *parts = json_array();
	json_t *notes = json_array();
	uint64_t i;

	for (i = 0; i < contents->info.files; i++)
		json_array_append_new(files, file_json(&contents->file[i]));
	for (i = 0; i < contents->info.pieces; i++)
		json_array_append_new(parts, part_json(contents, &contents->part[i]));
	for (i = 0; i < contents->info.metadata; i++)
		json_array_append_new(notes,
				      json_pack("{s:s, s:s}", "key", contents->note[i].key,
						"value", contents->note[i].value));
	json_object_set_new(object, "kind", json_string(contents->info.format));
	json_object_set_new(object, "bytes", number(contents->info.bytes));
	json_object_set_new(object, "page_size", number((uint64_t)sysconf(_SC_PAGESIZE)));
	json_object_set_new(object, "metadata", notes);
	json_object_set_new(object, "files", files);
	json_object_set_new(object, "alignment", alignment_json(contents));
	json_object_set_new(object, "parts", parts);
	output_object(object);
}

void inspect_show(const char *const *paths, uint32_t n_path, const struct contents *contents,
		  uint64_t rows)
{
	if (output.json)
		print_json(contents);
	else
		print(paths, n_path, contents, rows);
}
