// SPDX-License-Identifier: MIT
/* A file system of the tests' own, whose files fail on request. */
#include "reader/fuse_support.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reader/reader_support.h"

/*
 * FOLDER/tests/test_x is this program, FOLDER/tests/serve_faults the server. Found before a
 * test has namespaces of its own: in a chroot, the link says something else then.
 */
static char server[4096];

static __attribute__((constructor)) void find_server(void)
{
	ssize_t n = readlink("/proc/self/exe", server, sizeof(server) - 16);
	char *slash;

	server[n > 0 ? n : 0] = '\0';
	slash = strrchr(server, '/');
	strcpy(slash ? slash : server, "/serve_faults");
}

/* Its descriptor of /dev/fuse, or a skip and -1. */
static int mount_at(const char *path)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		test_skip("fuse", "/dev/fuse: %s", strerror(errno));
		return -1;
	}
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other,default_permissions",
		 fd, getuid(), getgid());
	/* In a chroot "/" is no mount: then it shows outside, too, until it is taken off. */
	if (unshare(CLONE_NEWNS) ||
	    (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) && errno != EINVAL) ||
	    mount("faults", path, "fuse", MS_NOSUID | MS_NODEV, options)) {
		test_skip("fuse", "mounting it: %s", strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

/* Runs the server: the descriptors that this fork opens are for it alone. */
static void serve(const struct fuse_scene *scene, int fd, int memory)
{
	char numbers[2][16];

	snprintf(numbers[0], sizeof(numbers[0]), "%d", fd);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", memory);
	fcntl(fd, F_SETFD, 0);
	fcntl(memory, F_SETFD, 0);
	execl(server, "serve_faults", scene->source, numbers[0], numbers[1], NULL);
	_exit(1);
}

static void remove_folders(struct fuse_scene *scene)
{
	free(scene->source);
	free(scene->mount);
	folder_remove(scene->folder);
}

bool fuse_begin(struct fuse_scene *scene, const char *name)
{
	int memory = memfd_create("faults", MFD_CLOEXEC), fd;
	struct statfs statfs_of;

	CHECK_FATAL(memory >= 0 && !ftruncate(memory, sizeof(*scene->faults)));
	scene->folder = folder_make();
	scene->source = folder_path(scene->folder, "source");
	scene->mount = folder_path(scene->folder, "mount");
	CHECK_FATAL(!mkdir(scene->source, 0755) && !mkdir(scene->mount, 0755));
	if (access(server, X_OK)) {
		test_skip("fuse", "no %s: built without fuse3 (libfuse3-dev)", server);
		fd = -1;
	} else {
		fd = mount_at(scene->mount);
	}
	if (fd < 0) {
		close(memory);
		remove_folders(scene);
		return false;
	}
	scene->faults = mmap(NULL, sizeof(*scene->faults), PROT_READ | PROT_WRITE, MAP_SHARED,
			     memory, 0);
	CHECK_FATAL(scene->faults != MAP_FAILED);
	snprintf(scene->faults->name, sizeof(scene->faults->name), "%s", name);
	scene->faults->cut = UINT64_MAX;
	scene->server = fork();
	CHECK_FATAL(scene->server >= 0);
	if (!scene->server)
		serve(scene, fd, memory);
	close(memory);
	/* Only the server has it now: when the server ends, waiting readers get an error. */
	close(fd);
	CHECK_FATAL(!statfs(scene->mount, &statfs_of));
	CHECK_EQUAL(statfs_of.f_type, 0x65735546);
	return true;
}

void fuse_kill(struct fuse_scene *scene)
{
	kill(scene->server, SIGKILL);
	CHECK_EQUAL(waitpid(scene->server, NULL, 0), scene->server);
	scene->server = 0;
}

void fuse_end(struct fuse_scene *scene)
{
	int status = 0;

	/* Nothing of it is in use any more: that would be -EBUSY. */
	CHECK_EQUAL(umount2(scene->mount, 0), 0);
	if (scene->server) {
		CHECK_EQUAL(waitpid(scene->server, &status, 0), scene->server);
		CHECK_EQUAL(status, 0);
	}
	munmap(scene->faults, sizeof(*scene->faults));
	remove_folders(scene);
}

void fuse_fail_reads(struct fuse_scene *scene, int error, uint64_t from, uint64_t to)
{
	scene->faults->bad_from = from;
	scene->faults->bad_to = to;
	scene->faults->read_error = error;
}

void fuse_forget(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
}

/* ---- a bystander ---- */

#define OTHER_SIZE (4 * PAGE + 9)

static void *keep_reading(void *user)
{
	struct fuse_bystander *bystander = user;
	struct hm_piece pieces[2] = { { 0, 100 }, { 2 * PAGE, 2 * PAGE + 9 } };
	char out[2 * PAGE + 109];
	AUTO(hm_reader) *reader =
		reader_open(bystander->path, HM_PATTERN_RANDOM, HM_POLICY_FAULT);

	CHECK(reader_info(reader).flags & HM_READER_GUARDED);
	while (!bystander->over) {
		CHECK_OK(hm_reader_gather(reader, pieces, 2, out));
		reader_check_pieces(pieces, 2, out);
		bystander->rounds++;
		/* Leaves the processor of an emulated machine to the test. */
		usleep(2000);
	}
	return NULL;
}

void fuse_bystander_begin(const struct fuse_scene *scene, struct fuse_bystander *bystander)
{
	free(reader_file(scene->source, "other", OTHER_SIZE));
	bystander->path = folder_path(scene->mount, "other");
	bystander->over = false;
	bystander->rounds = 0;
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_FATAL(!pthread_create(&bystander->thread, NULL, keep_reading, bystander));
}

void fuse_bystander_end(struct fuse_bystander *bystander)
{
	uint64_t rounds = bystander->rounds;

	while (bystander->rounds < rounds + 3)
		usleep(100);
	bystander->over = true;
	pthread_join(bystander->thread, NULL);
	CHECK_OK(hm_handler_remove());
	free(bystander->path);
}
