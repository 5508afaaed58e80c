// SPDX-License-Identifier: MIT
/* Nodes: opened once for all devices of the same name; calls on them; errors as sentences. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <xf86drm.h>

#include "base/err.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/* The major number of all DRM nodes [DRM_MAJOR, include/drm/drm_file.h]. */
#define MAJOR 226

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects nodes, their refs */
static struct drm_node *nodes;

/* ---- calls ---- */

/* Reads the driver's name; the kernel cuts a longer one, and does not terminate it. */
static int ask_name(int fd, char *name, size_t size)
{
	struct drm_version version = { .name = name, .name_len = size - 1 };

	memset(name, 0, size);
	return sys_ioctl_again(fd, DRM_IOCTL_VERSION, &version);
}

static bool answers(const struct drm_node *node)
{
	char name[sizeof(node->name)];

	return ask_name(node->fd, name, sizeof(name)) != -ENODEV;
}

int drm_call(struct drm_node *node, unsigned long cmd, void *argument)
{
	int r = sys_ioctl_again(node->fd, cmd, argument);

	if (r == -ENODEV && !answers(node))
		node->gone = true;
	return r;
}

int drm_node_identify(struct drm_node *node)
{
	struct stat st;
	int r;

	r = sys_fstat(node->fd, &st);
	if (r)
		return err_set(r, "%s: fstat: %s", node->path, err_name(r));
	node->rdev = st.st_rdev;
	node->inode = st.st_ino;
	return 0;
}

bool drm_node_is_lost(const struct drm_node *node)
{
	struct stat st;
	int r = sys_fstat(node->fd, &st);

	if (r)
		return r == -EBADF;
	return st.st_rdev != node->rdev || st.st_ino != node->inode;
}

int drm_explain(struct drm_node *node, int r, const char *what)
{
	static const struct {
		int r;
		const char *text;
	} reasons[] = {
		{ -ENODEV,
		  "the device was taken away: when it is back, hm_device_recover() brings "
		  "back buffers that have a loss policy; unref the others, and open the "
		  "device again" },
		{ -ENOMEM, "there is no memory left, or none for this control group: release "
			   "some, or raise its memory.max" },
		{ -ENOSPC, "the device has no memory left: release some" },
		{ -EACCES, "this node or this descriptor does not allow it" },
		{ -EPERM, "not permitted to this process" },
		{ -ENOENT, "the buffer is gone" },
		{ -ENOTTY, "the driver does not know this call: the kernel is too old" },
		{ -EINVAL, "the driver does not take these values: the kernel may be too old" },
		{ -EINTR, "signals came all the time" },
	};
	size_t i;

	/* Another file may have answered anything. */
	if (drm_node_is_lost(node))
		return err_set(
			-EBADF,
			"drm:%s (%s): %s: %s: code outside the library closed the library's "
			"descriptor %d: unref all objects of the device, and open it again",
			node->path, node->name, what, err_name(-EBADF), node->fd);
	if (r == -EMFILE || r == -ENFILE) {
		rlimits_explain_fd(r, what);
		return err_prefix(r, "drm:%s (%s): %s", node->path, node->name, err_name(r));
	}
	for (i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].r == r)
			return err_set(r, "drm:%s (%s): %s: %s: %s", node->path, node->name,
				       what, err_name(r), reasons[i].text);
	return err_set(r, "drm:%s (%s): %s: %s", node->path, node->name, what, err_name(r));
}

int drm_explain_row(struct drm_node *node, uint32_t said, int r, const char *what)
{
	/* The driver's row may know better. */
	return err_said_since(said) ? err_with_name(r) : drm_explain(node, r, what);
}

int drm_node_check(struct drm_node *node, const char *what)
{
	return drm_node_is_lost(node) ? drm_explain(node, -EBADF, what) : 0;
}

/* ---- opening ---- */

/* The node can't be asked for its driver: sysfs tells. */
static int explain_open(int r, const char *path)
{
	struct drm_found found = { .driver = "" };
	int told = drm_explain_open(r, path, found.remedy, sizeof(found.remedy));

	snprintf(found.path, sizeof(found.path), "%s", path);
	drm_find_driver(&found);
	return err_set(told, "drm:%s (%s) can't be opened: %s: %s", path,
		       *found.driver ? found.driver : "no driver", err_name(r), found.remedy);
}

static int check_is_node(const char *path)
{
	struct stat st;
	int fd, r;

	/* O_PATH opens nothing yet: opening a FIFO would wait, a tape would rewind. */
	fd = sys_open(path, O_PATH, 0);
	if (fd < 0)
		return explain_open(fd, path);
	r = sys_fstat(fd, &st);
	sys_close(fd);
	if (r)
		return explain_open(r, path);
	if (S_ISCHR(st.st_mode) && major(st.st_rdev) == MAJOR)
		return 0;
	return err_set(-EOPNOTSUPP, "%s is no DRM node: %s: DRM nodes are in /dev/dri", path,
		       err_name(-EOPNOTSUPP));
}

static int open_path(const char *path)
{
	int fd, r;

	r = check_is_node(path);
	if (r)
		return r;
	fd = sys_open(path, O_RDWR, 0);
	return fd < 0 ? explain_open(fd, path) : fd;
}

static int find_driver(struct drm_node *node)
{
	struct drm_get_cap dumb = { .capability = DRM_CAP_DUMB_BUFFER };
	int r;

	r = ask_name(node->fd, node->name, sizeof(node->name));
	if (r == -ENOTTY)
		return err_set(-EOPNOTSUPP, "%s does not answer as a DRM node: %s", node->path,
			       err_name(r));
	/* The device may go right after the open(2). */
	if (r)
		return explain_open(r, node->path);
	r = sys_ioctl_again(node->fd, DRM_IOCTL_GET_CAP, &dumb);
	node->driver = drm_driver_of(node->name, !r && dumb.value);
	if (!node->driver)
		return err_set(
			-EOPNOTSUPP,
			"drm:%s: this library does not know the driver \"%s\", which has "
			"no dumb buffers either",
			node->path, node->name);
	return 0;
}

/* Capabilities missing without PRIME, as with bochs before Linux 6.6. */
static uint64_t without_prime(const struct drm_node *node)
{
	struct drm_get_cap prime = { .capability = DRM_CAP_PRIME };

	if (sys_ioctl_again(node->fd, DRM_IOCTL_GET_CAP, &prime))
		return 0; /* a later call will tell */
	return (prime.value & DRM_PRIME_CAP_EXPORT ? 0 : HM_CAP_EXPORT) |
	       (prime.value & DRM_PRIME_CAP_IMPORT ? 0 : HM_CAP_IMPORT);
}

static int open_node(const char *path, struct drm_node **ret_node)
{
	uint32_t said;
	struct drm_node *node;
	int r;

	node = sys_calloc(1, sizeof(*node));
	if (!node)
		return err_set(-ENOMEM, "no memory to open %s", path);
	node->refs = 1;
	CDS_INIT_LIST_HEAD(&node->objects);
	memcpy(node->path, path, strlen(path) + 1); /* get_path() has checked that it fits */
	r = drm_idle_limit(&node->idle_max);
	if (r)
		goto err_free;
	node->fd = open_path(path);
	if (node->fd < 0) {
		r = node->fd;
		goto err_free;
	}
	r = drm_node_identify(node);
	if (!r)
		r = find_driver(node);
	if (r)
		goto err_close;
	node->primary = drmGetNodeTypeFromFd(node->fd) == DRM_NODE_PRIMARY;
	if (node->primary)
		/*
		 * The first opener of a card node becomes its master, which must be free for a
		 * display server.
		 */
		sys_ioctl(node->fd, DRM_IOCTL_DROP_MASTER, NULL);
	node->numa_node = drm_numa_node(path);
	node->caps = node->driver->caps & ~without_prime(node);
	said = err_count();
	r = node->driver->open ? node->driver->open(node) : 0;
	if (r) {
		r = drm_explain_row(node, said, r, "its identity");
		goto err_close;
	}
	*ret_node = node;
	return 0;

err_close:
	sys_close(node->fd);
err_free:
	free(node);
	return r;
}

/* Finds a live node: one may have been unplugged without any call having noticed yet. */
static struct drm_node *find_locked(const char *path)
{
	struct drm_node *node;

	for (node = nodes; node; node = node->next)
		if (!strcmp(node->path, path) && !node->gone && !drm_node_is_lost(node) &&
		    answers(node))
			return node;
	return NULL;
}

static int get_path(const char *path, struct drm_node **ret_node)
{
	char real[PATH_MAX];
	struct drm_node *node;
	int r = 0;

	/* /dev/dri/by-path has other names of the same nodes. */
	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	if (strlen(real) >= sizeof(node->path))
		return err_set(-EOPNOTSUPP, "%s is no DRM node: DRM nodes are in /dev/dri",
			       path);
	pthread_mutex_lock(&lock);
	node = find_locked(real);
	if (node) {
		node->refs++;
	} else {
		r = open_node(real, &node);
		if (r)
			goto out;
		node->next = nodes;
		nodes = node;
	}
	*ret_node = node;
out:
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- names ---- */

/* "virtio_gpu#1": a driver's name and a number; "": any driver. */
struct wanted {
	char name[32]; /* a driver's, or an address */
	uint32_t number;
	bool address; /* the name begins with "pci-" */
};

static int parse(const char *rest, struct wanted *wanted)
{
	size_t length = strcspn(rest, "#");
	unsigned long number = 0;
	char *end;

	memset(wanted, 0, sizeof(*wanted));
	if (rest[length]) {
		number = strtoul(rest + length + 1, &end, 10);
		/* One name for one device: no signs, blanks, leading zeros. */
		if (rest[length + 1] < '0' || rest[length + 1] > '9' || *end ||
		    number > UINT16_MAX || (rest[length + 1] == '0' && rest[length + 2]))
			length = sizeof(wanted->name);
	}
	if (length >= sizeof(wanted->name))
		return err_set(
			-ENODEV,
			"there is no device \"drm:%s\": drm: takes a path as "
			"/dev/dri/renderD128, a driver as virtio_gpu or virtio_gpu#1, or an "
			"address as pci-0000:00:02.0",
			rest);
	memcpy(wanted->name, rest, length);
	wanted->number = (uint32_t)number;
	wanted->address = !strncmp(rest, "pci-", 4);
	return 0;
}

/*
 * The name of a driver that makes dumb buffers only means its card node: no other node makes dumb
 * buffers. A driver without a row is such a driver. Card nodes of all other drivers open by their
 * path only.
 */
static bool makes_on_card(const struct drm_found *found)
{
	return *found->driver && drm_driver_of(found->driver, true) == &drm_dumb;
}

static bool fits(const struct wanted *wanted, const struct drm_found *found)
{
	return !strcmp(wanted->name, wanted->address ? found->address : found->driver);
}

static int explain_none(const char *rest, const struct wanted *wanted,
			const struct drm_found *found, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (found[i].primary && !makes_on_card(&found[i]) && fits(wanted, &found[i]))
			return err_set(-ENODEV,
				       "\"drm:%s\" has no render node of that number; its card "
				       "node must be named: \"drm:%s\"",
				       rest, found[i].path);
	return err_set(
		-ENODEV,
		"there is no device \"drm:%s\": this kernel shows %s; see hetmap devices", rest,
		n ? "DRM nodes, and none fits" : "no DRM node");
}

/* "drm:" means a render node: a card node opens only if it, or its driver, is named. */
static bool is_candidate(const struct wanted *wanted, const struct drm_found *found)
{
	if (!*wanted->name)
		return !found->primary;
	return fits(wanted, found) && !found->primary == !makes_on_card(found);
}

/* Opens the first candidate that opens; with a name, only the one of that number. */
static int get_by_name(const char *rest, struct drm_node **ret_node)
{
	struct drm_found *found;
	struct wanted wanted;
	uint32_t i, n, at = 0;
	bool tried = false;
	int r;

	r = parse(rest, &wanted);
	if (!r)
		r = drm_discover(&found, &n);
	if (r)
		return r;
	r = -ENODEV;
	for (i = 0; i < n && r; i++) {
		if (!is_candidate(&wanted, &found[i]))
			continue;
		if (*wanted.name && at++ != wanted.number)
			continue;
		tried = true;
		r = get_path(found[i].path, ret_node);
		if (*wanted.name)
			break;
	}
	if (!tried)
		r = explain_none(rest, &wanted, found, n);
	free(found);
	return r;
}

int drm_node_get(const char *rest, struct drm_node **ret_node)
{
	return *rest == '/' ? get_path(rest, ret_node) : get_by_name(rest, ret_node);
}

void drm_node_ref(struct drm_node *node)
{
	pthread_mutex_lock(&lock);
	node->refs++;
	pthread_mutex_unlock(&lock);
}

void drm_node_put(struct drm_node *node)
{
	struct drm_node **at;
	bool last;

	pthread_mutex_lock(&lock);
	last = !--node->refs;
	for (at = &nodes; last && *at; at = &(*at)->next)
		if (*at == node) {
			*at = node->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	drm_idle_close(node);
	if (!drm_node_is_lost(node))
		sys_close(node->fd);
	free(node);
}

/* ---- fork ---- */

void drm_fork_prepare(void)
{
	drm_objects_lock();
	pthread_mutex_lock(&lock);
	drm_idle_fork_prepare();
}

static void unlock(void)
{
	pthread_mutex_unlock(&lock);
	drm_objects_unlock();
}

void drm_fork_parent(void)
{
	drm_idle_fork_parent();
	unlock();
}

/* The parent keeps its nodes: the child opens new ones. */
void drm_fork_child(void)
{
	drm_idle_fork_child();
	nodes = NULL;
	unlock();
}
