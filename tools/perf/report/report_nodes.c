// SPDX-License-Identifier: MIT
/* Whose memory an object's pages are, of those whose faults told, and who touched them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text.h"
#include "report.h"

#define NAME_WIDTH 28
/* Of more there is no room; JSON has them all. */
#define NODES_SHOWN 4

static uint64_t of_pair(const struct analysis *analysis, const struct counted *counted,
			uint32_t cpu_node, uint32_t memory_node)
{
	return counted->by_nodes ?
		       counted->by_nodes[cpu_node * analysis->nodes.n + memory_node] :
		       0;
}

void report_node_use(const struct analysis *analysis, const struct counted *counted,
		     struct node_use *ret_use)
{
	struct node_use use = { 0 };
	uint32_t cpu_node, node;
	uint64_t n;

	for (cpu_node = 0; cpu_node < analysis->nodes.n; cpu_node++) {
		for (node = 0; node < analysis->nodes.n; node++) {
			n = of_pair(analysis, counted, cpu_node, node);
			if (cpu_node == node) {
				use.local += n;
				continue;
			}
			use.remote += n;
			if (n <= use.most)
				continue;
			use.most = n;
			use.cpu_node = cpu_node;
			use.memory_node = node;
		}
	}
	*ret_use = use;
}

uint64_t report_on_node(const struct analysis *analysis, const struct counted *counted,
			uint32_t node)
{
	uint32_t cpu_node;
	uint64_t n = 0;

	for (cpu_node = 0; cpu_node < analysis->nodes.n; cpu_node++)
		n += of_pair(analysis, counted, cpu_node, node);
	return n;
}

static void heading(const struct analysis *analysis)
{
	uint32_t node, shown = 0;

	printf("\n%-*s", NAME_WIDTH, "Pages of, by NUMA node");
	for (node = 0; node < analysis->nodes.n && shown < NODES_SHOWN; node++) {
		if (!nodes_has_memory(&analysis->nodes, node))
			continue;
		printf(" %5s%5" PRIu32, "node", node);
		shown++;
	}
	printf(" %10s\n", "remote");
}

static void line(const struct analysis *analysis, const struct counted *counted,
		 const struct node_use *use)
{
	char *name = report_name(counted->object->name, NAME_WIDTH);
	char count[TEXT_MAX];
	uint32_t node, shown = 0;

	printf("%-*s", NAME_WIDTH, name);
	free(name);
	for (node = 0; node < analysis->nodes.n && shown < NODES_SHOWN; node++) {
		if (!nodes_has_memory(&analysis->nodes, node))
			continue;
		printf(" %10s", text_count(report_on_node(analysis, counted, node), count));
		shown++;
	}
	printf(" %10s\n", text_count(use->remote, count));
}

void report_nodes_text(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	struct node_use use;
	uint32_t i, n = 0;

	for (i = 0; i < analysis->n_counted && n < report->rows; i++) {
		if (!analysis->counted[i]->by_nodes)
			continue;
		report_node_use(analysis, analysis->counted[i], &use);
		if (!n++)
			heading(analysis);
		line(analysis, analysis->counted[i], &use);
	}
}

json_t *report_nodes_json(const struct analysis *analysis, const struct counted *counted)
{
	json_t *pages = json_object();
	struct node_use use;
	char number[12];
	uint32_t node;

	for (node = 0; node < analysis->nodes.n; node++) {
		if (!nodes_has_memory(&analysis->nodes, node))
			continue;
		snprintf(number, sizeof(number), "%" PRIu32, node);
		json_object_set_new(
			pages, number,
			json_integer((json_int_t)report_on_node(analysis, counted, node)));
	}
	report_node_use(analysis, counted, &use);
	return json_pack("{s:o, s:I, s:I}", "pages", pages, "local", (json_int_t)use.local,
			 "remote", (json_int_t)use.remote);
}
