/* SPDX-License-Identifier: MIT */
/* The subcommands of `hetmap`, each in the file of its name. */
#ifndef HETMAP_SUBCOMMANDS_H
#define HETMAP_SUBCOMMANDS_H

#include <stdint.h>

/* Each gets its own name in argv[0] and returns an exit status. */
int run_main(int argc, char **argv);
int tour_main(int argc, char **argv);
int devices_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int inspect_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int report_main(int argc, char **argv);
int stat_main(int argc, char **argv);
int top_main(int argc, char **argv);
int explain_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int fragment_main(int argc, char **argv);
int plan_main(int argc, char **argv);

/* All of hm_drm_list(): free() it. 0 or a negative errno. (devices.c) */
struct hm_drm_node;
int devices_nodes(struct hm_drm_node **ret_nodes, uint32_t *ret_n);

#endif
