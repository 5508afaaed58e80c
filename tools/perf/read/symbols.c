// SPDX-License-Identifier: MIT
/*
 * Functions and lines, through libdw: by the files that the code was mapped from, which
 * are looked up as they are now, on this machine, if they are the same.
 */
#include "symbols.h"

#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/text.h"
#include "device_sites.h"
#include "spaces_name.h"
#include "stacks.h"
#include "symbols_file.h"
#include "symbols_frame.h"
#include "symbols_map.h"
#include "table.h"

struct module {
	Dwfl_Module *dwfl; /* NULL: it can't be read, or is not the one that was recorded */
	const char *name;
	bool changed;
};

/* Code that a process made while it ran. */
struct made {
	struct symbols_map *map; /* NULL: it has none */
	char name[32];           /* name of the map, as of a module */
};

struct symbols {
	struct spaces *spaces;
	Dwfl *dwfl;
	struct table modules; /* struct module, by the address of the file's name */
	struct table made;    /* struct made, by pid */
	struct symbols_span recorded;
	const struct made *refused; /* first whose map is too large; NULL: none */
};

static char *debuginfo_path;
static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debuginfo_path,
};

/* The file, if it is the one; else the process's own, if it is still there. */
static void open_module(struct symbols *symbols, struct module *module)
{
	const struct code_file *file = code_file_of(module->name);
	char *inside = text_format("/proc/%" PRIu32 "/root%s", file->pid, module->name);
	const char *path = module->name;
	enum symbols_file found = symbols_file_look(path, file, symbols->recorded.to_ns);

	module->changed = found == SYMBOLS_FILE_OTHER;
	/* Its number may be another process's by now. */
	if (found != SYMBOLS_FILE_SAME && (file->n_build_id || file->inode)) {
		path = inside;
		found = symbols_file_look(path, file, symbols->recorded.to_ns);
	}
	if (found == SYMBOLS_FILE_SAME) {
		module->changed = false;
		dwfl_report_begin_add(symbols->dwfl);
		module->dwfl = dwfl_report_offline(symbols->dwfl, path, path, -1);
		dwfl_report_end(symbols->dwfl, NULL, NULL);
	}
	free(inside);
}

/* NULL: no memory. */
static const struct module *module_of(struct symbols *symbols, const char *name)
{
	char key[24];
	void **place;

	snprintf(key, sizeof(key), "%" PRIxPTR, (uintptr_t)name);
	place = table_place(&symbols->modules, key);
	if (place && !*place) {
		struct module *module = calloc(1, sizeof(*module));

		*place = module;
		if (module) {
			module->name = name;
			open_module(symbols, module);
		}
	}
	return place ? *place : NULL;
}

/* The address that byte @offset of the file has in the module. */
static bool address_of(Dwfl_Module *module, uint64_t offset, GElf_Addr *ret_address)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(module, &bias);
	size_t n, i;

	if (!elf || elf_getphdrnum(elf, &n))
		return false;
	for (i = 0; i < n; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    offset < header.p_offset || offset - header.p_offset >= header.p_filesz)
			continue;
		*ret_address = offset - header.p_offset + header.p_vaddr + bias;
		return true;
	}
	return false;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Its module, or NULL: then no more is known of it. */
static Dwfl_Module *look_up(struct symbols *symbols, const struct place *place,
			    GElf_Addr *ret_address, const char **ret_function,
			    bool *ret_changed)
{
	const struct module *module = module_of(symbols, place->file);

	*ret_changed = module && module->changed;
	if (!module || !module->dwfl || !address_of(module->dwfl, place->offset, ret_address))
		return NULL;
	*ret_function = dwfl_module_addrname(module->dwfl, *ret_address);
	return module->dwfl;
}

/* Its name among those of code that @pid made; NULL: it is none of it. */
static const char *made_name(struct symbols *symbols, uint32_t pid, const struct place *place,
			     const char **ret_module)
{
	struct made *made;
	const char *name;
	char key[16];
	void **at;

	/* Files of memory are where some compilers have it. */
	if (place->file && name_is_stored(place->file))
		return NULL;
	snprintf(key, sizeof(key), "%" PRIu32, pid);
	at = table_place(&symbols->made, key);
	if (at && !*at) {
		*at = made = calloc(1, sizeof(*made));
		if (made) {
			made->map = symbols_map_open(symbols->spaces, pid, &symbols->recorded);
			snprintf(made->name, sizeof(made->name), "perf-%" PRIu32 ".map", pid);
			if (!symbols->refused && symbols_map_is_too_large(made->map))
				symbols->refused = made;
		}
	}
	made = at ? *at : NULL;
	name = made ? symbols_map_name(made->map, place->address) : NULL;
	if (name)
		*ret_module = made->name;
	return name;
}

static void free_made(void *value)
{
	struct made *made = value;

	symbols_map_close(made->map);
	free(made);
}

void symbols_name(struct symbols *symbols, uint32_t pid, const struct place *place,
		  const char **ret_module, const char **ret_function)
{
	GElf_Addr address;
	bool changed;

	*ret_module = NULL;
	*ret_function = made_name(symbols, pid, place, ret_module);
	if (*ret_function || !place->file)
		return;
	*ret_module = last_part(place->file);
	look_up(symbols, place, &address, ret_function, &changed);
}

static bool find(struct symbols *symbols, struct site *site, const struct place *place)
{
	Dwfl_Module *module;
	GElf_Addr address;
	Dwfl_Line *line;

	site->named = place;
	site->function = made_name(symbols, site->pid, place, &site->module);
	if (site->function || !place->file)
		return site->function;
	site->module = last_part(place->file);
	module = look_up(symbols, place, &address, &site->function, &site->changed);
	if (!module)
		return true;
	line = dwfl_module_getsrc(module, address);
	if (line)
		site->file = dwfl_lineinfo(line, NULL, &site->line, NULL, NULL, NULL);
	if (site->file)
		site->file = last_part(site->file);
	return true;
}

/* memcpy() and the like: who called them is of more use. */
static bool is_c_library(const char *module)
{
	return module && name_is_c_library(module);
}

static enum symbols_frame frame_at(struct symbols *symbols, const struct place *place)
{
	const struct module *module = place->file ? module_of(symbols, place->file) : NULL;
	GElf_Addr address;

	if (!module || !module->dwfl || !address_of(module->dwfl, place->offset, &address))
		return SYMBOLS_FRAME_UNKNOWN;
	return symbols_frame(module->dwfl, address);
}

bool symbols_top_is_caller(struct symbols *symbols, const struct place *place,
			   const struct place *top)
{
	return top->file && frame_at(symbols, place) == SYMBOLS_FRAME_TOP;
}

/* The caller of the C library at that site; NULL: it is not known. */
static const struct place *caller_of(struct symbols *symbols, const struct site *site)
{
	switch (frame_at(symbols, &site->place)) {
	case SYMBOLS_FRAME_TOP:
		return site->top.file ? &site->top : NULL;
	case SYMBOLS_FRAME_DEEP:
		return NULL;
	default:
		return &site->caller;
	}
}

static void name_site(struct symbols *symbols, struct site *site)
{
	const struct place *caller;
	struct site instruction;

	find(symbols, site, &site->place);
	if (!is_c_library(site->module))
		return;
	caller = caller_of(symbols, site);
	instruction = *site;
	site->function = site->file = NULL;
	site->changed = false;
	if (!caller || !find(symbols, site, caller))
		*site = instruction;
}

/*
 * Who asked a device through the library is told by the frame behind the library's. Linked into
 * the program it is known by its public calls, and frames inside of one are its own.
 */
static void find_asker(struct symbols *symbols, struct device_site *asked)
{
	const struct stack *stack = asked->stack;
	bool own = false, shared = false;
	struct site found;
	uint32_t i;

	for (i = 0; i < stack->n; i++) {
		bool of_library, of_program, call;

		found = (struct site){ .pid = stack->pid,
				       .ip = stack->frame[i].ip,
				       .place = stack->frame[i].place };
		/* No code is there: the chain is cut off, or leads astray from here on. */
		if (!find(symbols, &found, &stack->frame[i].place))
			break;
		of_library = !strncmp(found.module, "libhetmap.so", 12);
		call = found.function && !strncmp(found.function, "hm_", 3);
		of_program = !of_library && !call && !is_c_library(found.module);
		shared |= of_library;
		if (call || !own) {
			asked->site = found;
			own = of_program;
		}
		/* The program's own code did it, or it called the library that is apart. */
		if (own && (!i || shared))
			break;
	}
}

static int compare_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

/* One line of one function, for one object. */
static int compare_places(const void *a, const void *b)
{
	const struct site *x = *(struct site *const *)a, *y = *(struct site *const *)b;
	int r;

	if (x->of != y->of)
		return x->of->object->index < y->of->object->index ? -1 : 1;
	r = compare_texts(x->module, y->module);
	r = r ? r : compare_texts(x->function, y->function);
	r = r ? r : compare_texts(x->file, y->file);
	if (r)
		return r;
	/* Where nothing is known of them, instructions are as far as it goes. */
	if (!x->module && x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	if (x->changed && x->named->offset != y->named->offset)
		return x->named->offset < y->named->offset ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static int compare_times(const void *a, const void *b)
{
	const struct site *x = *(struct site *const *)a, *y = *(struct site *const *)b;
	int r = site_compare_time(x, y);

	return r ? r : compare_places(a, b);
}

/* Instructions of one line are one site. */
static void merge(struct analysis *analysis)
{
	struct site **sites = analysis->sites;
	uint32_t i, n = 0;

	if (!analysis->n_site)
		return;
	qsort(sites, analysis->n_site, sizeof(*sites), compare_places);
	for (i = 1; i < analysis->n_site; i++) {
		if (compare_places(&sites[n], &sites[i])) {
			sites[++n] = sites[i];
			continue;
		}
		sites[n]->faults += sites[i]->faults;
		sites[n]->time_ns += sites[i]->time_ns;
		free(sites[i]);
	}
	analysis->n_site = n + 1;
	qsort(sites, analysis->n_site, sizeof(*sites), compare_times);
}

/* ---- of devices ---- */

static int compare_numbers(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int compare_askers(const void *a, const void *b)
{
	const struct device_site *x = *(struct device_site *const *)a;
	const struct device_site *y = *(struct device_site *const *)b;
	int r = compare_numbers(x->object->index, y->object->index);

	r = r ? r : compare_numbers(x->device, y->device);
	r = r ? r : compare_numbers(x->work, y->work);
	r = r ? r : compare_numbers(x->place, y->place);
	r = r ? r : compare_numbers(x->asker, y->asker);
	r = r ? r : compare_texts(x->site.module, y->site.module);
	r = r ? r : compare_texts(x->site.function, y->site.function);
	r = r ? r : compare_texts(x->site.file, y->site.file);
	if (r)
		return r;
	if (!x->site.module && x->site.ip != y->site.ip)
		return x->site.ip < y->site.ip ? -1 : 1;
	if (x->site.changed && x->site.place.offset != y->site.place.offset)
		return x->site.place.offset < y->site.place.offset ? -1 : 1;
	return (x->site.line > y->site.line) - (x->site.line < y->site.line);
}

static int compare_bytes(const void *a, const void *b)
{
	const struct device_site *x = *(struct device_site *const *)a;
	const struct device_site *y = *(struct device_site *const *)b;
	int r = compare_numbers(y->bytes, x->bytes);

	r = r ? r : compare_numbers(y->n, x->n);
	return r ? r : compare_askers(a, b);
}

/* A site that is no row any more stays: a device's lanes know it. */
static void merge_askers(struct analysis *analysis)
{
	struct device_site **sites = analysis->device_sites;
	uint32_t i, n = 0;

	if (!analysis->n_device_site)
		return;
	qsort(sites, analysis->n_device_site, sizeof(struct device_site *), compare_askers);
	for (i = 1; i < analysis->n_device_site; i++) {
		struct device_site *to = sites[n], *from = sites[i];

		if (compare_askers(&to, &from)) {
			sites[++n] = from;
			continue;
		}
		to->n += from->n;
		to->bytes += from->bytes;
		if (from->first_ns < to->first_ns)
			to->first_ns = from->first_ns;
		if (from->last_ns > to->last_ns)
			to->last_ns = from->last_ns;
	}
	analysis->n_device_site = n + 1;
	qsort(sites, n + 1, sizeof(struct device_site *), compare_bytes);
}

static void find_askers(struct symbols *symbols, struct analysis *analysis, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && i < analysis->n_device_site; i++)
		if (analysis->device_sites[i]->asker == ASKER_CODE)
			find_asker(symbols, analysis->device_sites[i]);
	merge_askers(analysis);
}

/* ---- all of them ---- */

struct symbols *symbols_find(struct analysis *analysis, uint32_t n,
			     const struct symbols_span *recorded)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));
	uint32_t i;

	if (!symbols)
		return NULL;
	symbols->spaces = analysis->spaces;
	symbols->recorded = *recorded;
	symbols->dwfl = dwfl_begin(&callbacks);
	if (!symbols->dwfl) {
		free(symbols);
		return NULL;
	}
	/* A text had names. */
	for (i = 0; i < n && i < analysis->n_site; i++)
		if (!analysis->sites[i]->function)
			name_site(symbols, analysis->sites[i]);
	merge(analysis);
	find_askers(symbols, analysis, n);
	return symbols;
}

const char *symbols_refused(const struct symbols *symbols)
{
	return symbols->refused ? symbols->refused->name : NULL;
}

uint64_t symbols_recorded(const char *trace)
{
	char *file = text_format("%s/perf.data", trace);
	struct stat st;
	bool known = !stat(file, &st) || (!stat(trace, &st) && S_ISREG(st.st_mode));

	free(file);
	return known ? (uint64_t)st.st_mtim.tv_sec * 1000000000u +
			       (uint64_t)st.st_mtim.tv_nsec :
		       0;
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	dwfl_end(symbols->dwfl);
	table_clear(&symbols->modules, free);
	table_clear(&symbols->made, free_made);
	free(symbols);
}
