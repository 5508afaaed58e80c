// SPDX-License-Identifier: MIT
/* Peers of pools: UMF's disjoint pool over anonymous memory, or malloc(). */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_pool_source);

/* ---- pool_cycle ---- */

/* Of UMF 1.x: umf/memory_pool.h, umf/providers/provider_os_memory.h, umf/pools/pool_disjoint.h */
#define UMF_LIBRARY "libumf.so.1"
#define UMF_POOL_CREATE_FLAG_OWN_PROVIDER 1u

struct umf {
	int (*os_params)(void **ret_params);
	const void *(*os_ops)(void);
	int (*provider)(const void *ops, const void *params, void **ret_provider);
	int (*params)(void **ret_params);
	int (*set_slab_min)(void *params, size_t bytes);
	int (*set_poolable)(void *params, size_t bytes);
	int (*set_capacity)(void *params, size_t slabs);
	const void *(*ops)(void);
	int (*create)(const void *ops, void *provider, const void *params, uint32_t flags,
		      void **ret_pool);
};

static const char *const umf_names[] = {
	"umfOsMemoryProviderParamsCreate",
	"umfOsMemoryProviderOps",
	"umfMemoryProviderCreate",
	"umfDisjointPoolParamsCreate",
	"umfDisjointPoolParamsSetSlabMinSize",
	"umfDisjointPoolParamsSetMaxPoolableSize",
	"umfDisjointPoolParamsSetCapacity",
	"umfDisjointPoolOps",
	"umfPoolCreate",
};

_Static_assert(sizeof(struct umf) == sizeof(umf_names), "a name for each function");

/* Slabs of 64 KiB, and 64 of each size are kept: every allocation of the case comes from one. */
static int umf_create(const struct umf *umf, void **ret_pool)
{
	void *os_params, *provider, *params;

	if (umf->os_params(&os_params) || umf->provider(umf->os_ops(), os_params, &provider) ||
	    umf->params(&params) || umf->set_slab_min(params, KIB(64)) ||
	    umf->set_poolable(params, MIB(4)) || umf->set_capacity(params, 64) ||
	    umf->create(umf->ops(), provider, params, UMF_POOL_CREATE_FLAG_OWN_PROVIDER,
			ret_pool))
		return -EIO;
	return 0;
}

int peer_pool_open(struct peer_pool *pool)
{
	void *library = dlopen(UMF_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	struct umf umf;
	void **function = (void **)&umf;
	size_t i;

	*pool = (struct peer_pool){ .name = "malloc, free" };
	if (!library)
		return 0;
	for (i = 0; i < sizeof(umf_names) / sizeof(umf_names[0]); i++) {
		function[i] = dlsym(library, umf_names[i]);
		if (!function[i])
			return 0;
	}
	*(void **)&pool->allocate = dlsym(library, "umfPoolMalloc");
	*(void **)&pool->release = dlsym(library, "umfPoolFree");
	pool->name = "UMF's disjoint pool";
	return pool->allocate && pool->release ? umf_create(&umf, &pool->pool) : -ENOSYS;
}

/* @n times: memory, a byte written, and given back. */
int peer_pool_cycle(struct peer_pool *pool, size_t size, size_t n)
{
	volatile char *bytes;

	while (n--) {
		bytes = pool->pool ? pool->allocate(pool->pool, size) : malloc(size);
		if (!bytes)
			return -ENOMEM;
		*bytes = 1;
		if (!pool->pool)
			free((char *)bytes);
		else if (pool->release(pool->pool, (char *)bytes))
			return -EIO;
	}
	return 0;
}
