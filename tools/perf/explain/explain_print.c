// SPDX-License-Identifier: MIT
/*
 * The output of hetmap explain: the subject, its state, the causes that were found, and the
 * facts that were looked at.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/base.h>

#include "common/command.h"
#include "common/text.h"
#include "explain.h"

#define COLUMN 14
#define WIDTH 80

static const char *const kinds[] = {
	[MEMORY_PRIVATE] = "private memory",
	[MEMORY_SHARED] = "shared memory",
	[MEMORY_FILE] = "file",
	[MEMORY_HUGETLB] = "hugetlb pool",
	[MEMORY_DEVICE] = "device",
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

char *explain_name(const struct subject *subject)
{
	char *name, *device, *text;

	if (subject->map) {
		name = text_escape(subject->map->entry.name);
		device = text_escape(subject->map->entry.device);
		text = text_format("buffer %s on %s", name, device);
		free(device);
		free(name);
		return text;
	}
	if (!subject->first || !subject->first->path[0])
		return strdup("memory without a name");
	return text_escape(subject->first->path);
}

/* ---- text ---- */

static void line(const char *key, char *text)
{
	printf("  %-*s", COLUMN - 2, key);
	text_wrap(text, COLUMN, COLUMN, WIDTH);
	free(text);
}

static void print_what(const struct subject *subject)
{
	const struct hm_published_entry *entry = subject->map ? &subject->map->entry : NULL;
	char length[TEXT_MAX], *name = explain_name(subject), *path;
	const struct mapping *first = subject->first;

	if (subject->asked)
		printf("0x%" PRIx64 " is byte %" PRIu64 " of %s\n", subject->address,
		       subject->address - subject->start + (entry ? entry->offset : 0), name);
	else
		printf("%s\n", name);
	free(name);
	text_bytes(subject->end - subject->start, length);
	if (entry)
		line("map", text_format("%s at 0x%" PRIx64 ", generation %" PRIu32, length,
					subject->start, entry->generation));
	else
		line("mapping",
		     text_format("%s at 0x%" PRIx64 "; of no published table: this is "
				 "the kernel's account alone",
				 length, subject->start));
	if (!first)
		return;
	path = text_escape(first->path);
	line("memory",
	     text_format("%s%s%s%s%s%s%s, %s", kinds[subject->kind],
			 subject->kind == MEMORY_FILE && !subject->shared ? ", private" : "",
			 *path ? ": " : "", *path ? base_of(path) : "",
			 subject->file_system[0] ? " on " : "", subject->file_system,
			 subject->network ? ", a network's" : "", first->rights));
	free(path);
}

static const char *bytes_or(uint64_t bytes, char text[TEXT_MAX])
{
	return bytes == EXPLAIN_UNKNOWN ? strcpy(text, "not known") : text_bytes(bytes, text);
}

static void print_pages(const struct subject *subject)
{
	char text[6][TEXT_MAX], *why, *remedy = NULL;

	line("pages", text_format("of %s; %s of %s resident%s, %s locked, %s in swap",
				  text_bytes(subject->sum.page_size, text[0]),
				  text_bytes(subject->sum.resident, text[1]),
				  text_bytes(subject->sum.mapped, text[2]),
				  !subject->page_known  ? "" :
				  subject->page_present ? ", the address' page too" :
				  subject->page_swapped ? ", the address' page is in swap" :
							  ", the address' page not",
				  text_bytes(subject->sum.locked, text[3]),
				  bytes_or(subject->swap, text[4])));
	if (subject->kind == MEMORY_FILE)
		line("file", text_format("%s in memory, %s dirty, reads %s ahead",
					 bytes_or(subject->cached, text[0]),
					 bytes_or(subject->dirty, text[1]),
					 bytes_or(subject->read_ahead, text[2])));
	why = explain_no_huge(subject, &remedy);
	line("huge pages", text_format("%s%s%s", text_bytes(subject->sum.huge, text[0]),
				       why ? ": " : "", why ? why : ""));
	free(remedy);
	free(why);
}

static void print_nodes(const struct subject *subject)
{
	char *text = strdup(""), *more, bytes[TEXT_MAX];
	uint32_t i;

	for (i = 0; i < subject->n_node; i++) {
		if (!subject->node_bytes[i])
			continue;
		more = text_format("%s%s%s on node %" PRIu32, text, *text ? ", " : "",
				   text_bytes(subject->node_bytes[i], bytes), i);
		free(text);
		text = more;
	}
	if (subject->n_node)
		line("NUMA", text);
	else
		free(text);
}

static void print_users(const struct subject *subject)
{
	const struct live_map *map = subject->map;

	if (!map)
		return;
	if (map->counted)
		line("in use",
		     text_format("brackets: %" PRIu32 " open; launches, copies and fills: "
				 "%" PRIu32 " in flight",
				 map->brackets, map->in_flight));
	else
		line("in use", text_format("brackets and launches are not known: %s",
					   subject->of->live.refused ?
						   strerror(subject->of->live.refused) :
						   "the table has no counters"));
}

static const char checked[] =
	"lost or not accessible, behind the file's end, swap, the file's pages in memory, "
	"resident pages, huge pages, NUMA nodes, cache mode, evictions by a "
	"simulated device, dirty pages, userfaultfd, mappings, brackets and launches";

static void print_findings(const struct finding *findings, size_t n)
{
	char gain[TEXT_MAX], *text;
	size_t i;

	if (!n) {
		printf("  ");
		text = text_format("no cause of slow accesses was found. Looked at: %s",
				   checked);
		text_wrap(text, 2, 2, WIDTH);
		free(text);
	}
	for (i = 0; i < n; i++) {
		printf("%2zu. ", i + 1);
		text_wrap(findings[i].text, 4, 4, WIDTH);
		if (!findings[i].remedy)
			continue;
		printf("    -> ");
		text = findings[i].gain_ns > 0 ?
			       text_format("%s (saves about %s)", findings[i].remedy,
					   text_seconds(findings[i].gain_ns / 1e9, gain)) :
			       strdup(findings[i].remedy);
		text_wrap(text, 7, 7, WIDTH);
		free(text);
	}
}

static void end_findings(struct finding *findings, size_t n)
{
	while (n--) {
		free(findings[n].text);
		free(findings[n].remedy);
	}
}

void explain_print(const struct subject *subject)
{
	struct finding findings[FINDINGS_MOST];
	size_t n = explain_find(subject, findings);

	print_what(subject);
	if (subject->first) {
		print_pages(subject);
		print_nodes(subject);
	}
	print_users(subject);
	putchar('\n');
	print_findings(findings, n);
	end_findings(findings, n);
}

/* ---- JSON ---- */

static void set_bytes(json_t *object, const char *key, uint64_t bytes)
{
	json_object_set_new(object, key,
			    bytes == EXPLAIN_UNKNOWN ? json_null() :
						       json_integer((json_int_t)bytes));
}

static void set_text(json_t *object, const char *key, const char *text)
{
	char *shown = text_escape_json(text);

	json_object_set_new(object, key, *text ? json_string(shown) : json_null());
	free(shown);
}

static json_t *json_findings(const struct subject *subject)
{
	struct finding findings[FINDINGS_MOST];
	size_t n = explain_find(subject, findings), i;
	json_t *array = json_array(), *one;

	for (i = 0; i < n; i++) {
		one = json_object();
		set_text(one, "kind", findings[i].kind);
		set_text(one, "text", findings[i].text);
		set_text(one, "remedy", findings[i].remedy ? findings[i].remedy : "");
		json_object_set_new(one, "gain_ns",
				    findings[i].class == FINDING_MEASURED ?
					    json_real(findings[i].gain_ns) :
					    json_null());
		json_array_append_new(array, one);
	}
	end_findings(findings, n);
	return array;
}

static void set_map(json_t *object, const struct live_map *map)
{
	static const char *const caches[] = { [HM_CACHE_WRITE_BACK] = "write-back",
					      [HM_CACHE_WRITE_COMBINING] = "write-combining",
					      [HM_CACHE_UNCACHED] = "uncached",
					      [HM_CACHE_UNKNOWN] = "unknown" };

	set_text(object, "buffer", map->entry.name);
	set_text(object, "device", map->entry.device);
	set_bytes(object, "serial", map->entry.buffer);
	set_bytes(object, "buffer_offset", map->entry.offset);
	set_bytes(object, "generation", map->entry.generation);
	set_text(object, "cache",
		 map->entry.cache <= HM_CACHE_UNKNOWN ? caches[map->entry.cache] : "");
	json_object_set_new(object, "lost", json_boolean(map->entry.flags & HM_PUBLISHED_LOST));
	set_bytes(object, "open_brackets", map->counted ? map->brackets : EXPLAIN_UNKNOWN);
	set_bytes(object, "pending_fences", map->counted ? map->in_flight : EXPLAIN_UNKNOWN);
}

json_t *explain_json(const struct subject *subject)
{
	json_t *object = json_object(), *nodes = json_array();
	uint32_t i;

	if (subject->asked)
		set_bytes(object, "offset", subject->address - subject->start);
	if (subject->map)
		set_map(object, subject->map);
	set_bytes(object, "address", subject->start);
	set_bytes(object, "length", subject->end - subject->start);
	if (subject->first) {
		set_text(object, "memory", kinds[subject->kind]);
		set_text(object, "path", subject->first->path);
		set_text(object, "rights", subject->first->rights);
		set_text(object, "file_system", subject->file_system);
		set_bytes(object, "page_size", subject->sum.page_size);
		set_bytes(object, "resident", subject->sum.resident);
		set_bytes(object, "locked", subject->sum.locked);
		set_bytes(object, "huge", subject->sum.huge);
		set_bytes(object, "swap", subject->swap);
		set_bytes(object, "dirty", subject->dirty);
		set_bytes(object, "cached", subject->cached);
		set_bytes(object, "behind_end", subject->behind_end);
		set_bytes(object, "read_ahead", subject->read_ahead);
		set_bytes(object, "mappings", subject->n_mapping);
	}
	for (i = 0; i < subject->n_node; i++)
		json_array_append_new(nodes, json_integer((json_int_t)subject->node_bytes[i]));
	json_object_set_new(object, "nodes", nodes);
	json_object_set_new(object, "findings", json_findings(subject));
	set_text(object, "looked_at", checked);
	return object;
}
