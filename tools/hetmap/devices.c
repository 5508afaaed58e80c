// SPDX-License-Identifier: MIT
/* hetmap devices: the devices and accelerators of this machine. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/drm.h>
#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/text.h"
#include "common/tiers.h"
#include "subcommands.h"

enum { OPTION_JSON, OPTION_HELP };

static const struct option_row rows[] = {
	[OPTION_JSON] = OPTION_ROW_JSON("print the lists as JSON"),
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct bit {
	uint64_t bit;
	const char *name;
	const char *text; /* for people; NULL: the name says it */
};

static const struct bit caps[] = {
	{ HM_CAP_CREATE, "create", "new buffers" },
	{ HM_CAP_FROM_FILE, "from_file", "files as buffers" },
	{ HM_CAP_IMPORT, "import", NULL },
	{ HM_CAP_EXPORT, "export", NULL },
	{ HM_CAP_WRITE, "write", NULL },
	{ HM_CAP_RESIZE, "resize", NULL },
	{ HM_CAP_APPEND, "append", "grow by a further object" },
	{ HM_CAP_REPLACE, "replace", "grow by a larger object" },
	{ HM_CAP_PRIVATE, "private", "private memory" },
	{ HM_CAP_HUGETLB, "hugetlb", "huge pages" },
	{ HM_CAP_NUMA, "numa", "NUMA placement" },
	{ HM_CAP_LOCK, "lock", NULL },
	{ HM_CAP_PROTECT, "protect", NULL },
	{ HM_CAP_POPULATE, "populate", "prefetch" },
	{ HM_CAP_SYNC, "sync", "sync to storage" },
	{ HM_CAP_FORK, "fork", "inherited by fork" },
	{ HM_CAP_MULTI_MAP, "multi_map", "several maps of a buffer" },
	{ HM_CAP_CONTIGUOUS, "contiguous", NULL },
	{ HM_CAP_BRACKET, "bracket", "brackets" },
	{ HM_CAP_RESIZE_REPLACES, "resize_replaces", "resize by new objects" },
	{ HM_CAP_DMABUF, "dmabuf", "export as dma-buf" },
	{ HM_CAP_READ_ONLY, "read_only", "export read-only" },
	{ HM_CAP_PLACE, "place", "choice of place" },
	{ HM_CAP_PERSIST, "persist", "outlive a power failure" },
	{ 0 },
};

static const struct bit accel_caps[] = {
	{ HM_ACCEL_ANY_POINTER, "any_pointer", "any pointer of the process" },
	{ HM_ACCEL_MIRROR, "mirror", "entries of its own for it" },
	{ HM_ACCEL_MIGRATE, "migrate", "pages move to its memory" },
	{ HM_ACCEL_TOLD, "told", "entries go with the CPU's pages" },
	{ HM_ACCEL_FENCES, "fences", "fences of dma-bufs" },
	{ 0 },
};

static const struct bit ways[] = {
	{ 1u << HM_WAY_DIRECT, "direct", NULL },
	{ 1u << HM_WAY_SVM, "svm", NULL },
	{ 1u << HM_WAY_IMPORT, "import", NULL },
	{ 1u << HM_WAY_HOST_PTR, "host_ptr", "host pointer" },
	{ 1u << HM_WAY_COPY, "copy", NULL },
	{ 0 },
};

static const struct bit features[] = {
	{ HM_DRM_WAIT, "wait", "waits for work on buffers" },
	{ HM_DRM_USERPTR, "userptr", "takes in mapped memory" },
	{ HM_DRM_SYNCOBJ, "syncobj", "syncobjs" },
	{ HM_DRM_TIMELINE, "timeline", "timelines" },
	{ HM_DRM_EXPERIMENTAL, "experimental", "experimental: never run on hardware" },
	{ 0 },
};

static const char *const kinds[] = {
	[HM_ACCEL_CPU] = "cpu",
	[HM_ACCEL_GPU] = "gpu",
	[HM_ACCEL_OTHER] = "other",
	[HM_ACCEL_ENGINE] = "engine",
};

static void usage(void)
{
	puts("Usage: hetmap devices [OPTION]...\n"
	     "\n"
	     "Lists the devices that bytes can live in, the ladder of memory, the accelerators\n"
	     "that can compute on them, and the capabilities of each.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap devices\n"
	     "  hetmap devices --json | jq -r '.accelerators[].name'\n"
	     "\n"
	     "See also hetmap-devices(1).");
}

/* The text of every bit that is set, with ", " between them. free() it. */
static char *bits_text(const struct bit *bits, uint64_t set)
{
	char *text = strdup("");

	for (; bits->name; bits++) {
		char *longer;

		if (!(set & bits->bit))
			continue;
		longer = text_format("%s%s%s", text, *text ? ", " : "",
				     bits->text ? bits->text : bits->name);
		free(text);
		text = longer;
	}
	return text;
}

static json_t *bits_json(const struct bit *bits, uint64_t set)
{
	json_t *array = json_array();

	for (; bits->name; bits++)
		if (set & bits->bit)
			json_array_append_new(array, json_string(bits->name));
	return array;
}

static json_t *positive_or_null(uint64_t number)
{
	return number ? json_integer((json_int_t)number) : json_null();
}

/* ---- devices ---- */

static json_t *device_json(const struct hm_device_info *info)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", json_string(info->name));
	json_object_set_new(object, "backend", json_string(info->backend));
	json_object_set_new(object, "description", json_string(info->description));
	json_object_set_new(object, "page_size", json_integer((json_int_t)info->page_size));
	json_object_set_new(object, "granule", json_integer((json_int_t)info->granule));
	json_object_set_new(object, "memory_total", positive_or_null(info->memory_total));
	json_object_set_new(object, "memory_free", positive_or_null(info->memory_free));
	json_object_set_new(object, "numa_node",
			    info->numa_node < 0 ? json_null() : json_integer(info->numa_node));
	json_object_set_new(object, "capabilities", bits_json(caps, info->caps));
	return object;
}

static void line(const char *label, const char *text)
{
	printf("    %-11s", label);
	text_wrap(text, 15, 15, 79);
}

/* Name and description; a long name has the description on the next line. */
static void head(const char *name, const char *description)
{
	if (strlen(name) <= 11)
		printf("  %-11s  ", name);
	else
		printf("  %s\n%15s", name, "");
	text_wrap(description, 15, 15, 79);
}

static void print_device(const struct hm_device_info *info)
{
	char page[TEXT_MAX], granule[TEXT_MAX], total[TEXT_MAX], available[TEXT_MAX];
	char *text;

	head(info->name, info->description);
	if (info->memory_total) {
		text = text_format(
			"%s%s%s%s", text_bytes(info->memory_total, total),
			info->memory_free ? ", " : "",
			info->memory_free ? text_bytes(info->memory_free, available) : "",
			info->memory_free ? " free" : "");
		line("memory", text);
		free(text);
	}
	text = text_format(info->granule > info->page_size ? "%s, likes %s" : "%s",
			   text_bytes(info->page_size, page),
			   text_bytes(info->granule, granule));
	line("page", text);
	free(text);
	text = bits_text(caps, info->caps);
	line("can", text);
	free(text);
}

/* ---- tiers ---- */

static void print_tier(const struct hm_tier *tier)
{
	char *words = tiers_words(tier), *figures = tiers_figures(tier), *text;
	char total[TEXT_MAX], available[TEXT_MAX];

	text = text_format("%s%s%s", tier->made_of, *words ? ": " : "", words);
	head(tier->device, text);
	free(text);
	line("loads", figures);
	text = text_format("%s%s%s%s", text_bytes(tier->capacity, total),
			   tier->available ? ", " : "",
			   tier->available ? text_bytes(tier->available, available) : "",
			   tier->available ? " free" : "");
	line("memory", text);
	free(text);
	if (tiers_persistence(tier))
		line("lasts", tiers_persistence(tier));
	free(figures);
	free(words);
}

/* ---- accelerators ---- */

/* The longest range of one argument; 0: there is no limit, which is UINT64_MAX or so. */
static uint64_t window_of(const struct hm_accel_info *info)
{
	return info->window < 1ull << 56 ? info->window : 0;
}

static json_t *accel_json(const struct hm_accel_info *info)
{
	bool known = info->kind < sizeof(kinds) / sizeof(kinds[0]);
	json_t *object = json_object();

	json_object_set_new(object, "name", json_string(info->name));
	json_object_set_new(object, "kind", json_string(known ? kinds[info->kind] : "other"));
	json_object_set_new(object, "description", json_string(info->description));
	json_object_set_new(object, "driver", json_string(info->driver));
	json_object_set_new(object, "driver_version", json_string(info->driver_version));
	json_object_set_new(object, "kernels", json_string(info->forms));
	json_object_set_new(object, "quirks", json_string(info->quirks));
	json_object_set_new(object, "units", json_integer(info->units));
	json_object_set_new(object, "window", positive_or_null(window_of(info)));
	json_object_set_new(object, "memory", positive_or_null(info->memory));
	json_object_set_new(object, "alignment", json_integer((json_int_t)info->alignment));
	json_object_set_new(object, "ways_in", bits_json(ways, info->ways));
	json_object_set_new(object, "capabilities", bits_json(accel_caps, info->caps));
	return object;
}

static void print_accel(const struct hm_accel_info *info)
{
	char window[TEXT_MAX], alignment[TEXT_MAX], memory[TEXT_MAX];
	char *text;

	head(info->name, info->description);
	text = text_format("%u unit%s%s%s, runs kernels in: %s", info->units,
			   info->units == 1 ? "" : "s", info->memory ? ", memory " : "",
			   info->memory ? text_bytes(info->memory, memory) : "", info->forms);
	line("has", text);
	free(text);
	text = bits_text(ways, info->ways);
	line("ways in", text);
	free(text);
	if (info->caps) {
		text = bits_text(accel_caps, info->caps);
		line("can", text);
		free(text);
	}
	if (window_of(info))
		line("window", text_bytes(info->window, window));
	if (info->alignment > 1)
		line("alignment", text_bytes(info->alignment, alignment));
	if (*info->quirks)
		line("quirks", info->quirks);
}

/* ---- DRM nodes ---- */

static json_t *string_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *node_json(const struct hm_drm_node *node)
{
	json_t *object = json_object();
	char id[16] = "";

	if (node->vendor)
		snprintf(id, sizeof(id), "%04x:%04x", node->vendor, node->device);
	json_object_set_new(object, "path", json_string(node->path));
	json_object_set_new(object, "kind", json_string(node->primary ? "card" : "render"));
	json_object_set_new(object, "driver", string_or_null(node->driver));
	json_object_set_new(object, "driver_version", string_or_null(node->version));
	json_object_set_new(object, "bus", string_or_null(node->bus));
	json_object_set_new(object, "address", string_or_null(node->address));
	json_object_set_new(object, "pci_id", string_or_null(id));
	json_object_set_new(object, "numa_node",
			    node->numa_node < 0 ? json_null() : json_integer(node->numa_node));
	json_object_set_new(object, "capabilities", bits_json(caps, node->caps));
	json_object_set_new(object, "features", bits_json(features, node->features));
	json_object_set_new(object, "memory", positive_or_null(node->memory));
	json_object_set_new(object, "memory_visible", positive_or_null(node->memory_visible));
	json_object_set_new(object, "memory_system", positive_or_null(node->memory_system));
	json_object_set_new(object, "errno", json_integer(-node->error));
	json_object_set_new(object, "remedy", string_or_null(node->remedy));
	return object;
}

/* "8 GiB, 256 MiB of it visible to CPUs, 16 GiB of the host's"; NULL: nothing is told. */
static char *node_memory_text(const struct hm_drm_node *node)
{
	char own[TEXT_MAX], visible[TEXT_MAX], system[TEXT_MAX];
	bool partly = node->memory_visible && node->memory_visible < node->memory;

	if (!node->memory && !node->memory_system)
		return NULL;
	return text_format("%s%s%s%s%s%s%s", node->memory ? text_bytes(node->memory, own) : "",
			   partly ? ", " : "",
			   partly ? text_bytes(node->memory_visible, visible) : "",
			   partly ? " of it visible to CPUs" : "",
			   node->memory && node->memory_system ? ", " : "",
			   node->memory_system ? text_bytes(node->memory_system, system) : "",
			   node->memory_system ? " of the host's" : "");
}

static void print_node(const struct hm_drm_node *node)
{
	char *text;

	text = text_format("%s%s%s, %s%s%s", *node->driver ? node->driver : "unknown driver",
			   *node->version ? " " : "", node->version,
			   *node->address ? node->address : node->bus,
			   node->primary ? ", card node" : "",
			   node->error ? ", can't be opened" : "");
	printf("  %s\n", node->path);
	line("is", text);
	free(text);
	/* The device of a render node is in the list above, and was asked. */
	if (node->primary && node->caps) {
		text = bits_text(caps, node->caps);
		line("can", text);
		free(text);
	}
	text = node_memory_text(node);
	if (text)
		line("memory", text);
	free(text);
	if (node->features) {
		text = bits_text(features, node->features);
		line("driver", text);
		free(text);
	}
	if (node->error)
		line("remedy", node->remedy);
}

/* A render node that opens, and yet makes no device, by a driver that can't there. */
static void explain_node(struct hm_drm_node *node)
{
	struct hm_device *device;
	char name[80];
	int r;

	if (node->primary || node->error)
		return;
	snprintf(name, sizeof(name), "drm:%s", node->path);
	r = hm_device_open(name, &device);
	if (!r) {
		hm_device_unref(device);
		return;
	}
	node->error = r;
	snprintf(node->remedy, sizeof(node->remedy), "%s", hm_errmsg());
}

/* ---- all ---- */

/* The lists to print. */
struct lists {
	struct hm_device_info *devices;
	struct hm_accel_info *accels;
	struct hm_drm_node *nodes;
	struct hm_tier *tiers;
	uint32_t n_device, n_accel, n_node, n_tier;
};

/* As hm_device_list() and its like. The first member of an info is its struct_size. */
typedef int (*list_function)(void *infos, uint32_t capacity, uint32_t *ret_n);

static int devices_of(void *infos, uint32_t capacity, uint32_t *ret_n)
{
	return hm_device_list(infos, capacity, ret_n);
}

static int accels_of(void *infos, uint32_t capacity, uint32_t *ret_n)
{
	return hm_accel_list(infos, capacity, ret_n);
}

static int nodes_of(void *infos, uint32_t capacity, uint32_t *ret_n)
{
	return hm_drm_list(infos, capacity, ret_n);
}

/* All infos that the function lists, each of @size bytes; free() them. NULL: it has failed. */
static void *list_all(list_function list, size_t size, uint32_t *ret_n, int *ret_error)
{
	uint32_t n = 0, capacity;
	void *infos;

	*ret_error = list(NULL, 0, &n);
	if (*ret_error)
		return NULL;
	infos = calloc(n + 1, size);
	if (!infos) {
		*ret_error = -ENOMEM;
		return NULL;
	}
	*(uint32_t *)infos = (uint32_t)size;
	capacity = n;
	*ret_error = list(infos, capacity, &n);
	if (*ret_error) {
		free(infos);
		return NULL;
	}
	*ret_n = n < capacity ? n : capacity;
	return infos;
}

int devices_nodes(struct hm_drm_node **ret_nodes, uint32_t *ret_n)
{
	int r;
	struct hm_drm_node *nodes = list_all(nodes_of, sizeof(*nodes), ret_n, &r);

	if (nodes)
		*ret_nodes = nodes;
	return r;
}

/* soft is always there, unless its settings are wrong. */
static void remark_soft(const struct lists *lists)
{
	struct hm_device *device;
	uint32_t i;

	for (i = 0; i < lists->n_device; i++)
		if (!strcmp(lists->devices[i].backend, "soft"))
			return;
	if (hm_device_open("soft", &device))
		remark("there is no soft:0: %s", hm_errmsg());
	else
		hm_device_unref(device);
}

static void print_json(const struct lists *lists)
{
	json_t *object = json_object(), *array = json_array();
	uint32_t i;

	for (i = 0; i < lists->n_device; i++)
		json_array_append_new(array, device_json(&lists->devices[i]));
	json_object_set_new(object, "devices", array);
	json_object_set_new(object, "tiers", tiers_json(lists->tiers, lists->n_tier));
	array = json_array();
	for (i = 0; i < lists->n_accel; i++)
		json_array_append_new(array, accel_json(&lists->accels[i]));
	json_object_set_new(object, "accelerators", array);
	array = json_array();
	for (i = 0; i < lists->n_node; i++)
		json_array_append_new(array, node_json(&lists->nodes[i]));
	json_object_set_new(object, "drm_nodes", array);
	json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(object);
}

static void print(const struct lists *lists)
{
	uint32_t i;

	puts("Devices: where bytes live\n");
	for (i = 0; i < lists->n_device; i++)
		print_device(&lists->devices[i]);
	if (lists->n_tier)
		puts("\nTiers: the ladder of memory, the fastest first\n");
	for (i = 0; i < lists->n_tier; i++)
		print_tier(&lists->tiers[i]);
	puts("\nAccelerators: kernels run here; the first is the default\n");
	for (i = 0; i < lists->n_accel; i++)
		print_accel(&lists->accels[i]);
	if (lists->n_accel == 1 && !strcmp(lists->accels[0].name, "cpu"))
		puts("\nThere is no OpenCL device: hetmap doctor says what to install.");
	if (lists->n_node)
		puts("\nDRM nodes: graphics cards that the kernel drives\n");
	for (i = 0; i < lists->n_node; i++)
		print_node(&lists->nodes[i]);
}

int devices_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "devices", .rows = rows, .usage = usage, .remedy = "hetmap devices"
	};
	struct lists lists = { 0 };
	uint32_t i;
	int r;

	if (!option_walk(&table, argc, argv, NULL, &r))
		return r;
	lists.devices = list_all(devices_of, sizeof(*lists.devices), &lists.n_device, &r);
	if (!r)
		lists.accels = list_all(accels_of, sizeof(*lists.accels), &lists.n_accel, &r);
	if (!r)
		r = devices_nodes(&lists.nodes, &lists.n_node);
	if (!r)
		r = tiers_list(&lists.tiers, &lists.n_tier);
	for (i = 0; i < lists.n_node; i++)
		explain_node(&lists.nodes[i]);
	if (r)
		fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list the devices");
	else
		remark_soft(&lists);
	if (!r && output.json)
		print_json(&lists);
	else if (!r)
		print(&lists);
	free(lists.tiers);
	free(lists.nodes);
	free(lists.accels);
	free(lists.devices);
	return r ? STATUS_ENVIRONMENT : STATUS_DONE;
}
