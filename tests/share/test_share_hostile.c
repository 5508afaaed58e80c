// SPDX-License-Identifier: MIT
/* hm_buffer_receive() and hostile senders. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/compat.h"
#include "share/control.h"
#include "dmabuf/dmabuf.h"
#include "share/owner.h"
#include "share/share_scene.h"
#include "lib/support.h"
#include "base/sys.h"

/* The message as it is arrives; then @expected for the one that @change has spoilt. */
static void refuses(int expected, void (*change)(struct scene *scene))
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	size_t i;

	for (i = 0; i < 2; i++) {
		AUTO(scene) scene = scene_begin(types[i]);
		CHECK_EQUAL(scene_deliver(&scene, NULL), 0);
		change(&scene);
		CHECK_EQUAL(scene_deliver(&scene, NULL), expected);
	}
}

/* ---- the message ---- */

static void be_short(struct scene *scene)
{
	scene->length = 7;
}

static void be_long(struct scene *scene)
{
	scene->length = 200;
}

static void have_no_fd(struct scene *scene)
{
	scene->n_fd = 0;
}

static void have_one_fd(struct scene *scene)
{
	scene->n_fd = 1;
}

static void have_four_fds(struct scene *scene)
{
	scene->fds[scene->n_fd++] = scene->own[0];
}

static void have_many_fds(struct scene *scene)
{
	while (scene->n_fd < FDS_MAX)
		scene->fds[scene->n_fd++] = scene->own[0];
}

static void framing(void)
{
	refuses(-EPROTO, be_short);
	refuses(-EPROTO, have_no_fd);
	refuses(-EPROTO, have_one_fd);
	refuses(-EPROTO, have_four_fds);
	refuses(-EPROTO, have_many_fds);
	AUTO(scene) scene = scene_begin(SOCK_SEQPACKET);
	be_long(&scene);
	CHECK_EQUAL(scene_deliver(&scene, NULL), -EPROTO);
}

#define FIELD(name, value)                                                        \
	static void set_##name##value(struct scene *scene)                        \
	{                                                                         \
		scene->message.name = (typeof(scene->message.name))field_##value; \
	}

static const uint64_t field_zero, field_three = 3, field_four = 4, field_huge = UINT64_MAX,
				  field_odd = PAGE + 1, field_wraps = 1ull << 63,
				  field_more = MAX_SIZE + PAGE;

FIELD(magic, zero)
FIELD(version, three)
FIELD(length, zero)
FIELD(access, zero)
FIELD(access, huge)
FIELD(cache, four)
FIELD(memory, huge)
FIELD(max_size, zero)
FIELD(max_size, huge)
FIELD(max_size, odd)
FIELD(max_size, wraps)
FIELD(max_size, more)
FIELD(page_size, zero)
FIELD(page_size, three)
FIELD(page_size, wraps)
FIELD(offset, odd)
FIELD(offset, huge)
FIELD(serial, zero)
FIELD(size, zero)
FIELD(size, more)
FIELD(slot, huge)
FIELD(map_flags, huge)

/* Memory of this machine has no map flags. */
static void map_as_devices_do(struct scene *scene)
{
	scene->message.map_flags = DMABUF_MAP_FLAGS;
}

static void be_write_only(struct scene *scene)
{
	scene->message.access = HM_WRITE;
}

static void be_of_huge_pages(struct scene *scene)
{
	scene->message.memory |= MEMORY_HUGE;
}

static void be_uncached(struct scene *scene)
{
	scene->message.cache = HM_CACHE_UNCACHED;
}

static void name_without_end(struct scene *scene)
{
	memset(scene->message.backend, 'x', sizeof(scene->message.backend));
}

static void name_of_escapes(struct scene *scene)
{
	memcpy(scene->message.backend, "\033[2J", 5);
}

static void fields(void)
{
	void (*const changes[])(struct scene * scene) = {
		set_magiczero,     set_versionthree,   set_lengthzero,     set_accesszero,
		set_accesshuge,    set_cachefour,      set_memoryhuge,     set_max_sizezero,
		set_max_sizehuge,  set_max_sizeodd,    set_max_sizewraps,  set_max_sizemore,
		set_page_sizezero, set_page_sizethree, set_page_sizewraps, set_offsetodd,
		set_offsethuge,    set_serialzero,     set_sizezero,       set_sizemore,
		set_slothuge,      set_map_flagshuge,  map_as_devices_do,  be_write_only,
		be_of_huge_pages,  be_uncached,        name_without_end,   name_of_escapes,
	};
	struct scene scene;
	size_t i;

	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		refuses(-EPROTO, changes[i]);
	for (i = 0; i < ARRAY_SIZE(scene.message.reserved); i++) {
		scene = scene_begin(SOCK_STREAM);
		scene.message.reserved[i] = 1;
		CHECK_EQUAL(scene_deliver(&scene, NULL), -EPROTO);
		scene_end(&scene);
	}
}

/* Every bit of it, one at a time: refused, or a buffer that can be mapped and read. */
static void bits(void)
{
	struct hm_buffer *buffer;
	size_t bit, taken = 0;
	AUTO(scene) scene = scene_begin(SOCK_SEQPACKET);
	unsigned char *bytes = (unsigned char *)&scene.message;

	for (bit = 0; bit < 8 * sizeof(scene.message); bit++) {
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		buffer = NULL;
		if (!scene_deliver(&scene, &buffer)) {
			taken++;
			AUTO(hm_map) *map =
				rig_map(buffer, DESC(hm_map_desc, .access = HM_READ));
			CHECK(is_zero(hm_map_address(map), 0, hm_map_length(map)));
			hm_buffer_unref(buffer);
		}
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	/* The serial, the page's and the backend's name, a smaller max_size: not much else. */
	CHECK(taken >= 2 * 64 && taken < 8 * sizeof(scene.message) / 2);
}

/* ---- the descriptors ---- */

static int memfd(uint64_t size, int seals)
{
	int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, (off_t)size));
	if (seals)
		CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void with_fd(uint32_t index, int fd, int expected)
{
	CHECK_FATAL(fd >= 0);
	AUTO(scene) scene = scene_begin(SOCK_STREAM);
	scene.fds[index] = fd;
	CHECK_EQUAL(scene_deliver(&scene, NULL), expected);
	close(fd);
}

static void objects(void)
{
	char path[64];
	struct scene scene;
	int pipes[2], fd;

	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	with_fd(SHARE_FD_OBJECT, pipes[0], -EINVAL);
	with_fd(SHARE_FD_OBJECT, pipes[1], -EINVAL);
	with_fd(SHARE_FD_OBJECT, open("/", O_RDONLY | O_CLOEXEC), -EINVAL);
	with_fd(SHARE_FD_OBJECT, open("/dev/zero", O_RDWR | O_CLOEXEC), -EINVAL);
	with_fd(SHARE_FD_OBJECT, eventfd(0, EFD_CLOEXEC), -EINVAL);
	with_fd(SHARE_FD_OBJECT, memfd(MAX_SIZE, 0), -EPERM);
	with_fd(SHARE_FD_OBJECT, memfd(MAX_SIZE, F_SEAL_GROW), -EPERM);
	with_fd(SHARE_FD_OBJECT, memfd(PAGE, F_SEAL_SHRINK), -EINVAL);
	with_fd(SHARE_FD_OBJECT, memfd(MAX_SIZE - PAGE, F_SEAL_SHRINK), -EPROTO);
	with_fd(SHARE_FD_OBJECT, memfd(MAX_SIZE, F_SEAL_SHRINK | F_SEAL_WRITE), -EPROTO);

	/* Said to be for writing, and the descriptor is not. */
	scene = scene_begin(SOCK_STREAM);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", scene.own[0]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	scene_end(&scene);
	with_fd(SHARE_FD_OBJECT, fd, -EPROTO);
}

static int page_fd(uint64_t size, int seals, uint32_t magic, uint32_t version)
{
	const struct control_head head = {
		.magic = magic,
		.version = version,
		.owner_pid = (uint64_t)getpid(),
		.owner_start = owner_own_start(),
	};
	int fd = memfd(size, 0);

	CHECK_EQUAL(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	if (seals)
		CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

static void controls(void)
{
	int pipes[2];

	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	with_fd(SHARE_FD_CONTROL, pipes[0], -EPROTO);
	with_fd(SHARE_FD_CONTROL, pipes[1], -EPROTO);
	with_fd(SHARE_FD_CONTROL, open("/", O_RDONLY | O_CLOEXEC), -EPROTO);
	with_fd(SHARE_FD_CONTROL, open("/dev/zero", O_RDWR | O_CLOEXEC), -EPROTO);
	with_fd(SHARE_FD_CONTROL, eventfd(0, EFD_CLOEXEC), -EPROTO);
	/* A page that could be cut off would kill a reader; or other processes could write it. */
	with_fd(SHARE_FD_CONTROL, page_fd(CONTROL_BYTES, 0, CONTROL_MAGIC, CONTROL_VERSION),
		-EPERM);
	with_fd(SHARE_FD_CONTROL,
		page_fd(CONTROL_BYTES, F_SEAL_GROW | F_SEAL_FUTURE_WRITE, CONTROL_MAGIC,
			CONTROL_VERSION),
		-EPERM);
	with_fd(SHARE_FD_CONTROL,
		page_fd(CONTROL_BYTES, F_SEAL_SHRINK, CONTROL_MAGIC, CONTROL_VERSION), -EPERM);
	with_fd(SHARE_FD_CONTROL, page_fd(PAGE, SEALS, CONTROL_MAGIC, CONTROL_VERSION),
		-EPROTO);
	with_fd(SHARE_FD_CONTROL,
		page_fd(2 * CONTROL_BYTES, SEALS, CONTROL_MAGIC, CONTROL_VERSION), -EPROTO);
	with_fd(SHARE_FD_CONTROL, page_fd(CONTROL_BYTES, SEALS, 1, CONTROL_VERSION), -EPROTO);
	with_fd(SHARE_FD_CONTROL, page_fd(CONTROL_BYTES, SEALS, CONTROL_MAGIC, 1), -EPROTO);
}

/* Counts calls to the kernel about received descriptors. */
static struct {
	struct sys_table table; /* as it was */
	dev_t dev;
	ino_t ino;
	unsigned int n_stat; /* for the one file */
} asked;

static int stat_counted(int fd, struct stat *st)
{
	int r = asked.table.fstat(fd, st);

	asked.n_stat += !r && st->st_ino == asked.ino && st->st_dev == asked.dev;
	return r;
}

/* The sender cuts the page off just before sealing it: a size that was read before is wrong. */
static int seals_late(int fd, int command, long argument)
{
	struct stat st;

	if (command == F_GET_SEALS && !fstat(fd, &st) && st.st_ino == asked.ino &&
	    st.st_dev == asked.dev && !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK)) {
		CHECK(!ftruncate(fd, 0));
		CHECK(!fcntl(fd, F_ADD_SEALS, SEALS));
	}
	return asked.table.fcntl(fd, command, argument);
}

static void watch(int fd)
{
	struct stat st;

	CHECK_FATAL(!fstat(fd, &st));
	asked.table = sys_table;
	asked.dev = st.st_dev;
	asked.ino = st.st_ino;
	asked.n_stat = 0;
	sys_table.fstat = stat_counted;
}

static void sealed_late(void)
{
	int fd = page_fd(CONTROL_BYTES, 0, CONTROL_MAGIC, CONTROL_VERSION);
	AUTO(scene) scene = scene_begin(SOCK_STREAM);

	scene.fds[SHARE_FD_CONTROL] = fd;
	watch(fd);
	sys_table.fcntl = seals_late;
	CHECK_EQUAL(scene_deliver(&scene, NULL), -EPROTO);
	sys_table = asked.table;
	CHECK_EQUAL(asked.n_stat, 2); /* once to know it, and once with its seals */
	close(fd);
}

/* ---- a file whose server does not answer ---- */

static sem_t is_asked, may_answer;

static int stat_waits(int fd, struct stat *st)
{
	int r = asked.table.fstat(fd, st);

	if (!r && st->st_ino == asked.ino && st->st_dev == asked.dev) {
		sem_post(&is_asked);
		while (sem_wait(&may_answer))
			;
	}
	return r;
}

static void *deliver_unanswered(void *user)
{
	CHECK_EQUAL(scene_deliver(user, NULL), -EPROTO);
	return NULL;
}

/* The file holds up its receiver, and no other process. */
static void unanswered(void)
{
	struct hm_buffer *other;
	struct scene scene;
	pthread_t thread;
	int fd = scratch_file(CONTROL_BYTES);
	AUTO(scene) theirs = scene_begin(SOCK_STREAM);

	scene = scene_begin(SOCK_STREAM);
	sem_init(&is_asked, 0, 0);
	sem_init(&may_answer, 0, 0);
	scene.fds[SHARE_FD_CONTROL] = fd;
	watch(fd);
	sys_table.fstat = stat_waits;
	CHECK_FATAL(!pthread_create(&thread, NULL, deliver_unanswered, &scene));
	while (sem_wait(&is_asked))
		;
	CHECK_EQUAL(scene_deliver(&theirs, &other), 0);
	hm_buffer_unref(other);
	sem_post(&may_answer);
	pthread_join(thread, NULL);
	sys_table = asked.table;
	scene_end(&scene);
	close(fd);
}

/* ---- afterwards ---- */

/* The first slot of the control page behind @fd, which the scene's message is then about. */
static struct control_slot *slot_of(struct scene *scene, int fd)
{
	struct control_page *page =
		mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK_FATAL(page != MAP_FAILED);
	scene->message.slot = 0;
	page->slot[0].serial = scene->message.serial;
	page->slot[0].size = SIZE;
	return page->slot;
}

static void slot_end(struct control_slot *slot)
{
	munmap((char *)slot - offsetof(struct control_page, slot), CONTROL_BYTES);
}

/* An owner that writes nonsense into its page causes errors, and no signal. */
static void page_of_nonsense(void)
{
	static const uint64_t sizes[] = { 0, MAX_SIZE + 1, UINT64_MAX, 1ull << 63 };
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *buffer;
	struct hm_map *map;
	size_t i;
	AUTO(scene) scene = scene_begin(SOCK_STREAM);
	int fd = page_fd(CONTROL_BYTES, 0, CONTROL_MAGIC, CONTROL_VERSION);
	struct control_slot *page = slot_of(&scene, fd);

	CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, SEALS));
	scene.fds[SHARE_FD_CONTROL] = fd;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		page->size = sizes[i];
		CHECK_EQUAL(scene_deliver(&scene, NULL), -EPROTO);
	}
	page->size = SIZE;
	CHECK_EQUAL(scene_deliver(&scene, &buffer), 0);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		page->size = SIZE;
		CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
		page->size = sizes[i];
		CHECK_OK(hm_map_end_cpu(map, 0, PAGE, HM_READ));
		CHECK_ERROR(-EPROTO, hm_buffer_query(buffer, &info));
		CHECK_ERROR(-EPROTO, hm_map_protect(map, 0, PAGE, HM_READ));
		CHECK_EQUAL(hm_map_length(map), SIZE);
		CHECK_EQUAL(test_write_signal(hm_map_address(map)), 0);
	}
	/* Nothing cuts his bytes off under us. */
	CHECK(ftruncate(scene.own[SHARE_FD_OBJECT], 0) < 0 && errno == EPERM);
	CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
	page->size = SIZE + PAGE;
	CHECK_OK(hm_buffer_query(buffer, &info));
	CHECK_EQUAL(info.size, SIZE + PAGE);
	CHECK_EQUAL(hm_map_length(map), SIZE + PAGE);
	CHECK_EQUAL(info.sharing, HM_SHARING_RECEIVED);
	/* The slot is another buffer's: this buffer ignores it. */
	page->serial++;
	page->size = SIZE;
	CHECK_OK(hm_buffer_query(buffer, &info));
	CHECK_EQUAL(info.size, SIZE + PAGE);
	CHECK_EQUAL(info.sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	page->serial--;
	CHECK_OK(hm_buffer_query(buffer, &info));
	CHECK_EQUAL(info.sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	slot_end(page);
	close(fd);
}

/* A file that is shorter than its owner says is not made accessible. */
static void short_file(void)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *buffer;
	struct control_slot *page;
	int fd, file;
	struct scene scene = scene_begin(SOCK_STREAM);
	struct hm_device *device = scene.device;

	CHECK_OK_FATAL(hm_device_open("file", &scene.device));
	fd = page_fd(CONTROL_BYTES, 0, CONTROL_MAGIC, CONTROL_VERSION);
	page = slot_of(&scene, fd);
	CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, SEALS));
	file = scratch_file(SIZE);
	scene.fds[SHARE_FD_CONTROL] = fd;
	scene.fds[SHARE_FD_OBJECT] = file;
	scene.message.memory = HM_MEMORY_STORAGE;
	scene.message.offset = SIZE;
	CHECK_EQUAL(scene_deliver(&scene, NULL), -EINVAL);
	scene.message.offset = 0;
	page->size = SIZE + PAGE;
	CHECK_EQUAL(scene_deliver(&scene, NULL), -EINVAL);
	page->size = SIZE;
	CHECK_EQUAL(scene_deliver(&scene, &buffer), 0);
	page->size = SIZE + 1;
	CHECK_ERROR(-EPROTO, hm_buffer_query(buffer, &info));
	CHECK_FATAL(!ftruncate(file, SIZE + 1));
	CHECK_OK(hm_buffer_query(buffer, &info));
	CHECK_EQUAL(info.size, SIZE + 1);
	hm_buffer_unref(buffer);
	close(file);
	slot_end(page);
	close(fd);
	hm_device_unref(scene.device);
	scene.device = device;
	scene_end(&scene);
}

/* ---- sockets ---- */

/* Credentials beside the descriptors, where the receiver has asked for them. */
static void credentials(void)
{
	int pair[2], on = 1;
	AUTO(scene) scene = scene_begin(SOCK_STREAM);
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CHECK_FATAL(!setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
#ifdef SO_PASSPIDFD
	setsockopt(pair[1], SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on));
#endif
	scene_send(&scene, pair[0]);
	CHECK_OK_FATAL(hm_buffer_receive(scene.device, pair[1], NULL, &buffer));
	close(pair[0]);
	close(pair[1]);
}

/* Later bytes of the stream stay there. */
static void stream_goes_on(void)
{
	struct hm_buffer *buffer[2];
	char byte = 0;
	int pair[2];
	AUTO(scene) scene = scene_begin(SOCK_STREAM);

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CHECK_OK(hm_buffer_send(scene.owned, pair[0], 0));
	CHECK_OK(hm_buffer_send(scene.owned, pair[0], 0));
	CHECK_EQUAL(send(pair[0], "z", 1, 0), 1);
	CHECK_OK_FATAL(hm_buffer_receive(scene.device, pair[1], NULL, &buffer[0]));
	CHECK_OK_FATAL(hm_buffer_receive(scene.device, pair[1], NULL, &buffer[1]));
	CHECK_EQUAL(recv(pair[1], &byte, 1, 0), 1);
	CHECK_EQUAL(byte, 'z');
	hm_buffer_unref(buffer[0]);
	hm_buffer_unref(buffer[1]);
	close(pair[0]);
	close(pair[1]);
}

/* No room for descriptors here: the message is lost, and none of them is left. */
static void no_room(void)
{
	struct hm_buffer *buffer = UNTOUCHED;
	struct rlimit limit, low;
	unsigned int room;
	int pair[2], fd;
	AUTO(scene) scene = scene_begin(SOCK_STREAM);

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	getrlimit(RLIMIT_NOFILE, &limit);
	for (room = 0; room < SHARE_FDS; room++) {
		scene_send(&scene, pair[0]);
		fd = dup(pair[0]); /* the lowest number that is free */
		close(fd);
		low = limit;
		low.rlim_cur = (rlim_t)fd + room;
		CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &low));
		CHECK_ERROR(-EMFILE, hm_buffer_receive(scene.device, pair[1], NULL, &buffer));
		CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &limit));
		CHECK_EQUAL(dup(pair[0]), fd);
		close(fd);
	}
	CHECK(buffer == UNTOUCHED);
	close(pair[0]);
	close(pair[1]);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Some signals are no reason to give up; signals for ever are. */
static void interrupted(void)
{
	struct sigaction action = { .sa_handler = on_alarm }, old;
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct hm_buffer *buffer = UNTOUCHED;
	int pair[2];
	AUTO(scene) scene = scene_begin(SOCK_STREAM);

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	CHECK_ERROR(-EINTR, hm_buffer_receive(scene.device, pair[1], NULL, &buffer));
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	CHECK(buffer == UNTOUCHED);
	scene_send(&scene, pair[0]);
	CHECK_OK_FATAL(hm_buffer_receive(scene.device, pair[1], NULL, &buffer));
	hm_buffer_unref(buffer);
	close(pair[0]);
	close(pair[1]);
}

static const struct test tests[] = {
	{ .name = "framing", .run = framing },
	{ .name = "fields", .run = fields, .seconds = 60 },
	{ .name = "bits", .run = bits, .seconds = 60 },
	{ .name = "objects", .run = objects },
	{ .name = "controls", .run = controls },
	{ .name = "sealed_late", .run = sealed_late },
	{ .name = "unanswered", .run = unanswered },
	{ .name = "page_of_nonsense", .run = page_of_nonsense },
	{ .name = "short_file", .run = short_file },
	{ .name = "credentials", .run = credentials },
	{ .name = "stream_goes_on", .run = stream_goes_on },
	{ .name = "no_room", .run = no_room },
	{ .name = "interrupted", .run = interrupted },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "share_hostile", tests)
