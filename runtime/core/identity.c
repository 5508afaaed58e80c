// SPDX-License-Identifier: MIT
/* Identities of bytes: the inodes that stand for them, and the buffers that share them. */
#include "core/identity.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/sys.h"

/* Inodes of an identity: bounds repeated exports, each of which is another file. */
#define NAMES_MAX 16

#define BUCKETS 256

struct inode_name {
	struct inode_name *next; /* in its bucket */
	uint64_t dev, ino;
	struct identity *identity;
};

struct identity {
	uint32_t refs; /* buffers */
	uint32_t n;    /* names so far; past NAMES_MAX, tells the next to be replaced */
	struct inode_name *name[NAMES_MAX];
};

/* A leaf. Protects the table, and everything reachable from it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct inode_name *buckets[BUCKETS];

void identity_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void identity_fork_after(void)
{
	pthread_mutex_unlock(&mutex);
}

/* A device may have several nodes with the same number. */
static struct inode_name name_of(const struct stat *st)
{
	if (S_ISCHR(st->st_mode))
		return (struct inode_name){ .dev = st->st_rdev };
	return (struct inode_name){ .dev = st->st_dev, .ino = st->st_ino };
}

static struct inode_name **bucket_of(const struct inode_name *name)
{
	return &buckets[(name->ino ^ name->dev) % BUCKETS];
}

static struct inode_name *find(const struct inode_name *wanted)
{
	struct inode_name *name = *bucket_of(wanted);

	while (name && (name->ino != wanted->ino || name->dev != wanted->dev))
		name = name->next;
	return name;
}

static void unlink_name(struct inode_name *name)
{
	struct inode_name **at = bucket_of(name);

	while (*at != name)
		at = &(*at)->next;
	*at = name->next;
}

static void add(struct identity *identity, struct inode_name *name)
{
	struct inode_name **slot = &identity->name[identity->n++ % NAMES_MAX];
	struct inode_name **bucket = bucket_of(name);

	if (*slot) {
		unlink_name(*slot);
		free(*slot);
	}
	*slot = name;
	name->identity = identity;
	name->next = *bucket;
	*bucket = name;
}

/*
 * Finds the identity of a name; adds the name to @identity, or to a new one where that is NULL,
 * if the name is not there.
 */
static int find_or_add_locked(const struct inode_name *wanted, struct identity *identity,
			      struct identity **ret_identity)
{
	struct inode_name *name = find(wanted);

	if (name) {
		*ret_identity = name->identity;
		return 0;
	}
	name = sys_calloc(1, sizeof(*name));
	if (!name)
		return err_set(-ENOMEM, "no memory to note which file a buffer is of");
	if (!identity)
		identity = sys_calloc(1, sizeof(*identity));
	if (!identity) {
		free(name);
		return err_set(-ENOMEM, "no memory to note which file a buffer is of");
	}
	*name = *wanted;
	add(identity, name);
	*ret_identity = identity;
	return 0;
}

static int look(int fd, struct inode_name *ret_name)
{
	struct stat st;
	int r = sys_fstat(fd, &st);

	if (r)
		return err_set(r, "descriptor %d: fstat: %s", fd, err_name(r));
	*ret_name = name_of(&st);
	return 0;
}

int identity_get(int fd, struct identity **ret_identity)
{
	struct inode_name wanted;
	int r;

	r = look(fd, &wanted);
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	r = find_or_add_locked(&wanted, NULL, ret_identity);
	if (!r)
		(*ret_identity)->refs++;
	pthread_mutex_unlock(&mutex);
	return r;
}

int identity_add_locked(struct hm_buffer *buffer, int fd)
{
	struct identity *own = atomic_load(&buffer->identity), *identity;
	struct inode_name wanted;
	int r;

	r = look(fd, &wanted);
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	r = find_or_add_locked(&wanted, own, &identity);
	if (!r && !own) {
		identity->refs++;
		atomic_store_explicit(&buffer->identity, identity, memory_order_release);
	}
	pthread_mutex_unlock(&mutex);
	return r;
}

void identity_put(struct identity *identity)
{
	uint32_t i;

	if (!identity)
		return;
	pthread_mutex_lock(&mutex);
	if (!--identity->refs) {
		for (i = 0; i < NAMES_MAX && identity->name[i]; i++) {
			unlink_name(identity->name[i]);
			free(identity->name[i]);
		}
		free(identity);
	}
	pthread_mutex_unlock(&mutex);
}
