/* SPDX-License-Identifier: MIT */
/* Public functions without the first step of their door, for callers inside the library. */
#ifndef HETMAP_API_H
#define HETMAP_API_H

#include "core/core.h"

int device_open(const char *name, struct hm_device **ret_device);
int device_query(struct hm_device *device, struct hm_device_info *ret_info);

int buffer_create(struct hm_device *device, const struct hm_buffer_desc *from,
		  struct hm_buffer **ret_buffer);
int buffer_from_file(struct hm_device *device, const char *path, int fd,
		     const struct hm_buffer_desc *from, struct hm_buffer **ret_buffer);
int buffer_query(struct hm_buffer *buffer, struct hm_buffer_info *ret_info);
int buffer_import(struct hm_device *device, int fd, const struct hm_buffer_desc *from,
		  struct hm_buffer **ret_buffer);
int buffer_export(struct hm_buffer *buffer, uint32_t flags, int *ret_fd);
int buffer_send(struct hm_buffer *buffer, int socket, uint32_t flags);
int buffer_receive(struct hm_device *device, int socket, const struct hm_buffer_desc *from,
		   struct hm_buffer **ret_buffer);
int buffer_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags);

int map_create(struct hm_buffer *buffer, const struct hm_map_desc *from,
	       struct hm_map **ret_map);
int map_begin_cpu(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);
int map_end_cpu(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);
int map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags);
int map_prefetch(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);

#endif
