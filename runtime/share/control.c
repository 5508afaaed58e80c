// SPDX-License-Identifier: MIT
/*
 * The pages by which receivers of buffers follow the owner's changes: one file has room for a
 * thousand buffers of a process, and a receiver maps it once.
 *
 * Each side keeps one unused file for the next buffer.
 */
#include "share/control.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <urcu/arch.h>

#include "base/compat.h"
#include "base/memfd.h"
#include "share/owner.h"
#include "base/rlimits.h"
#include "base/sys.h"

/*
 * FUTURE_WRITE: the owner's map, made before the seal, is the only one that may write; no
 * process can make a second one [mm/memfd.c, shmem_mmap()]. SHRINK: no peer's map can fault.
 */
#define CONTROL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

#define USED_WORDS (CONTROL_SLOTS / 64 + 1)

struct control_file {
	struct cds_list_head link;
	struct control_page *page; /* receivers: read-only */
	int fd;                    /* of the page, for further peers */
	_Atomic int owner_fd;      /* a pidfd; or -1, until one comes */
	bool own;                  /* made by this process */
	bool owner_seen;           /* without owner_fd: its pid means the same process here */
	_Atomic bool ended;        /* the owner has ended, for good */
	uint32_t n_share;
	dev_t dev;
	ino_t ino;
	uint64_t cookie;           /* of the socket over which it last came, or 0 */
	uint64_t used[USED_WORDS]; /* own: slots that are taken */
	uint32_t next;             /* own: where the search for a free slot begins */
};

/* A leaf of the lock order. Protects the list and the files' n_share and used. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CDS_LIST_HEAD(files);

/*
 * Descriptors that came with a buffer, of a file that is known already, are closed when the
 * buffer ends, because the receiver of a buffer waits for its bytes. Their number is limited,
 * as a process may have few descriptors.
 */
#define SPARES_MOST 64
static _Atomic uint32_t n_spare;

/* Not populated: most files are used at their beginning only; other pages come when touched. */
static int map_page(int fd, int prot, struct control_page **ret_page)
{
	void *mapped;
	int r;

	r = sys_mmap(NULL, CONTROL_BYTES, prot, MAP_SHARED, fd, 0, &mapped);
	if (r)
		return rlimits_explain_map(r, CONTROL_BYTES, TAKES_SPACE,
					   "mapping a control page");
	*ret_page = mapped;
	return 0;
}

static void file_free(struct control_file *file)
{
	sys_munmap(file->page, CONTROL_BYTES);
	sys_close(file->fd);
	if (file->owner_fd >= 0)
		sys_close(file->owner_fd);
	fork_free(file);
}

static int look(int fd, struct stat *ret_st)
{
	int r = sys_fstat(fd, ret_st);

	return r ? err_set(r, "a control page: fstat: %s", err_name(r)) : 0;
}

static int get_identity(struct control_file *file)
{
	struct stat st;
	int r = look(file->fd, &st);

	if (r)
		return r;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	return 0;
}

static struct control_file *find(const struct stat *st)
{
	struct control_file *file;

	cds_list_for_each_entry(file, &files, link)
		if (file->ino == st->st_ino && file->dev == st->st_dev)
			return file;
	return NULL;
}

/*
 * Finds the file that came last over this socket, by the name that the message gives it. The
 * other end of the socket is one party here, which had the file and could send it: the
 * descriptor need not be looked at.
 */
static struct control_file *find_told(uint64_t cookie, uint64_t ino)
{
	struct control_file *file;

	cds_list_for_each_entry(file, &files, link)
		if (cookie && file->cookie == cookie && file->ino == ino)
			return file;
	return NULL;
}

static int share_create(struct share **ret_share)
{
	struct share *share = sys_calloc(1, sizeof(*share));

	if (!share)
		return err_set(-ENOMEM, "no memory to share a buffer");
	share->object_fd = -1;
	share->spare_fds[0] = share->spare_fds[1] = -1;
	*ret_share = share;
	return 0;
}

/* Caller holds mutex. */
static void join(struct share *share, struct control_file *file, uint32_t index,
		 uint64_t serial)
{
	file->n_share++;
	share->file = file;
	share->slot = &file->page->slot[index];
	share->index = index;
	share->serial = serial;
}

/* ---- the owner's side ---- */

static int file_create(struct control_file **ret_file)
{
	struct control_file *file = sys_calloc(1, sizeof(*file));
	struct control_head *head;
	int r, owner_fd;

	if (!file)
		return err_set(-ENOMEM, "no memory for a control page");
	file->own = true;
	r = owner_open(&owner_fd);
	if (r)
		goto err_free;
	file->owner_fd = owner_fd;
	file->fd = memfd_open("control", 0);
	if (file->fd < 0) {
		r = file->fd;
		goto err_owner;
	}
	r = rlimits_check_file_size(CONTROL_BYTES);
	if (r)
		goto err_close;
	r = sys_ftruncate(file->fd, CONTROL_BYTES);
	if (r) {
		r = err_set(r, "a control page: ftruncate: %s", err_name(r));
		goto err_close;
	}
	r = get_identity(file);
	if (r)
		goto err_close;
	r = map_page(file->fd, PROT_READ | PROT_WRITE, &file->page);
	if (r)
		goto err_close;
	r = sys_fcntl(file->fd, F_ADD_SEALS, CONTROL_SEALS);
	if (r) {
		r = err_set(r, "sealing a control page: %s", err_name(r));
		goto err_unmap;
	}
	head = &file->page->head;
	head->magic = CONTROL_MAGIC;
	head->version = CONTROL_VERSION;
	head->owner_pid = (uint64_t)getpid();
	head->owner_start = owner_own_start();
	*ret_file = file;
	return 0;

err_unmap:
	sys_munmap(file->page, CONTROL_BYTES);
err_close:
	sys_close(file->fd);
err_owner:
	if (file->owner_fd >= 0)
		sys_close(file->owner_fd);
err_free:
	free(file);
	return r;
}

/*
 * Takes a free slot; false: there is none. Slots are taken in turn, so that the last size of a
 * buffer that has ended stays readable as long as possible.
 */
static bool take_slot(struct control_file *file, uint32_t *ret_index)
{
	uint32_t i, n;

	for (n = 0; n < CONTROL_SLOTS; n++) {
		i = (file->next + n) % CONTROL_SLOTS;
		if (file->used[i / 64] >> i % 64 & 1)
			continue;
		file->used[i / 64] |= UINT64_C(1) << i % 64;
		file->next = i + 1;
		*ret_index = i;
		return true;
	}
	return false;
}

static int get_slot(struct control_file **ret_file, uint32_t *ret_index)
{
	struct control_file *file;
	int r;

	cds_list_for_each_entry(file, &files, link) {
		if (!file->own || file->n_share == CONTROL_SLOTS || !take_slot(file, ret_index))
			continue;
		*ret_file = file;
		return 0;
	}
	r = file_create(&file);
	if (r)
		return r;
	cds_list_add(&file->link, &files);
	take_slot(file, ret_index);
	*ret_file = file;
	return 0;
}

int control_create(uint64_t serial, uint64_t size, struct share **ret_share)
{
	struct control_file *file = NULL;
	struct share *share = NULL;
	uint32_t index = 0;
	int r;

	r = share_create(&share);
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	r = get_slot(&file, &index);
	if (!r)
		join(share, file, index, serial);
	pthread_mutex_unlock(&mutex);
	if (r)
		goto err_free;
	/*
	 * Clear the serial first: receivers of the slot's last buffer stop trusting its size.
	 * The store of the new serial comes last, and publishes the slot.
	 */
	atomic_store(&share->slot->serial, 0);
	atomic_store_explicit(&share->slot->resizes, 0, memory_order_release);
	atomic_store_explicit(&share->slot->resized, 0, memory_order_release);
	atomic_store_explicit(&share->slot->size, size, memory_order_release);
	atomic_store_explicit(&share->slot->serial, serial, memory_order_release);
	*ret_share = share;
	return 0;

err_free:
	free(share);
	return r;
}

void control_publish(struct share *share, uint64_t size)
{
	uint64_t resizes = atomic_load_explicit(&share->slot->resizes, memory_order_relaxed);

	atomic_store_explicit(&share->slot->size, size, memory_order_release);
	atomic_store_explicit(&share->slot->resized, resizes, memory_order_release);
}

void control_resizing(struct share *share)
{
	atomic_fetch_add(&share->slot->resizes, 1);
}

/* ---- the receiver's side ---- */

/*
 * Checks that a touch of the page can't fault, and that only the owner can write it. The seals
 * are checked first, since the size is fixed from the seals on.
 */
static int check_page_fd(int fd, struct stat *ret_st)
{
	int seals, r;

	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals < 0)
		return err_set(-EPROTO, "the control page that was sent is no memfd (%s)",
			       err_name(seals));
	if ((seals & (F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE)) !=
	    (F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE))
		return err_set(-EPERM,
			       "the control page that was sent is not sealed (seals 0x%x): "
			       "its sender could cut it off under us",
			       seals);
	r = look(fd, ret_st);
	if (r)
		return r;
	/* Also keeps out huge pages, which a fault may fail to get. */
	if (ret_st->st_size != CONTROL_BYTES)
		return err_set(-EPROTO,
			       "the control page that was sent has %" PRIu64
			       " bytes: it must be %d",
			       (uint64_t)ret_st->st_size, CONTROL_BYTES);
	return 0;
}

/* A failure leaves the descriptors to the caller. */
static int file_open(int fd, int owner_fd, struct control_file **ret_file)
{
	const struct control_head *head;
	struct control_file *file;
	struct stat st;
	int r;

	r = check_page_fd(fd, &st);
	if (r)
		return r;
	file = sys_calloc(1, sizeof(*file));
	if (!file)
		return err_set(-ENOMEM, "no memory for a control page");
	r = map_page(fd, PROT_READ, &file->page);
	if (r)
		goto err_free;
	head = &file->page->head;
	if (head->magic != CONTROL_MAGIC || head->version != CONTROL_VERSION) {
		r = err_set(-EPROTO,
			    "the control page that was sent begins with 0x%" PRIx32
			    ", version %" PRIu32 ": 0x%x, version %d are known",
			    head->magic, head->version, CONTROL_MAGIC, CONTROL_VERSION);
		goto err_unmap;
	}
	if (owner_fd >= 0) {
		r = owner_check(owner_fd, head->owner_pid, head->owner_start);
		if (r)
			goto err_unmap;
	}
	file->fd = fd;
	file->owner_fd = owner_fd;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	/* In another pid namespace the number means another process, or none. */
	file->owner_seen = owner_fd < 0 && owner_is_seen(head->owner_pid, head->owner_start);
	*ret_file = file;
	return 0;

err_unmap:
	sys_munmap(file->page, CONTROL_BYTES);
err_free:
	free(file);
	return r;
}

/*
 * Takes an owner's descriptor for a file without one: the process that passed the buffer on may
 * have left it out of the first message. True: the descriptor is the file's from now on.
 */
static bool take_owner(struct control_file *file, int owner_fd)
{
	const struct control_head *head = &file->page->head;

	if (file->own || file->owner_fd >= 0 || owner_fd < 0)
		return false;
	if (owner_check(owner_fd, head->owner_pid, head->owner_start)) {
		err_clear(); /* as if none had come */
		return false;
	}
	file->owner_fd = owner_fd;
	return true;
}

/* Caller holds mutex. Gives the descriptors of a known file to @share. */
static void know_again(struct share *share, struct control_file *file, int fd, int owner_fd)
{
	if (take_owner(file, owner_fd))
		owner_fd = -1;
	share->spare_fds[0] = fd;
	share->spare_fds[1] = owner_fd;
	atomic_fetch_add(&n_spare, 1);
}

/*
 * Caller holds mutex. The descriptors become the file's, or the share's where the file has
 * some. @st is an earlier fstat() of @fd, which is made again for an unknown file.
 */
static int get_file(struct share *share, const struct stat *st, int fd, int owner_fd,
		    struct control_file **ret_file)
{
	struct control_file *file;
	int r;

	/*
	 * A mapped file keeps its inode, so this is the same file, and need not be checked
	 * again.
	 */
	file = find(st);
	if (file) {
		know_again(share, file, fd, owner_fd);
	} else {
		r = file_open(fd, owner_fd, &file);
		if (r)
			return r;
		cds_list_add(&file->link, &files);
	}
	*ret_file = file;
	return 0;
}

static void drop_spares(struct share *share)
{
	if (share->spare_fds[0] < 0)
		return;
	share_message_close(share->spare_fds, ARRAY_SIZE(share->spare_fds));
	share->spare_fds[0] = share->spare_fds[1] = -1;
	atomic_fetch_sub(&n_spare, 1);
}

/* True: the message names a known file, and the descriptors were not looked at. */
static bool open_told(struct share *share, const int fds[SHARE_FDS],
		      const struct share_message *message, uint64_t cookie)
{
	struct control_file *file;

	pthread_mutex_lock(&mutex);
	file = find_told(cookie, message->page);
	if (file) {
		know_again(share, file, fds[SHARE_FD_CONTROL], fds[SHARE_FD_OWNER]);
		join(share, file, message->slot, message->serial);
	}
	pthread_mutex_unlock(&mutex);
	return file;
}

static int open_looking(struct share *share, const int fds[SHARE_FDS],
			const struct share_message *message, uint64_t cookie)
{
	struct control_file *file;
	struct stat st;
	int r;

	/*
	 * Called without the mutex: the file that was sent may be on a server that does not
	 * answer.
	 */
	r = look(fds[SHARE_FD_CONTROL], &st);
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	r = get_file(share, &st, fds[SHARE_FD_CONTROL], fds[SHARE_FD_OWNER], &file);
	if (!r) {
		join(share, file, message->slot, message->serial);
		file->cookie = cookie;
	}
	pthread_mutex_unlock(&mutex);
	return r;
}

int control_open(const int fds[SHARE_FDS], const struct share_message *message, uint64_t cookie,
		 struct share **ret_share)
{
	struct share *share = NULL;
	int r;

	r = share_create(&share);
	if (r)
		return r;
	share->received = true;
	if (!open_told(share, fds, message, cookie)) {
		r = open_looking(share, fds, message, cookie);
		if (r)
			goto err_free;
	}
	if (atomic_load(&n_spare) > SPARES_MOST)
		drop_spares(share);
	share->resizes_seen = control_resizes(share, 0);
	*ret_share = share;
	return 0;

err_free:
	free(share);
	return r;
}

/* Reads a word of the share's slot. @otherwise: the slot is another buffer's by now. */
static uint64_t told(const struct share *share, const _Atomic uint64_t *word,
		     uint64_t otherwise)
{
	uint64_t value = atomic_load_explicit(word, memory_order_acquire);
	uint64_t serial = atomic_load_explicit(&share->slot->serial, memory_order_acquire);

	/*
	 * The serial must be read last: the slot's next user clears it before any other store.
	 */
	return (serial & ~CONTROL_LET_GO) == share->serial ? value : otherwise;
}

uint64_t control_size(const struct share *share, uint64_t otherwise)
{
	return told(share, &share->slot->size, otherwise);
}

uint64_t control_resizes(const struct share *share, uint64_t otherwise)
{
	return told(share, &share->slot->resizes, otherwise);
}

bool control_is_resized(const struct share *share, uint64_t *ret_resizes)
{
	/*
	 * The order matters: a resize that begins after the first load is found by the second.
	 */
	uint64_t resized = told(share, &share->slot->resized, UINT64_MAX);

	/* A slot that is another buffer's gives UINT64_MAX, which no count reaches. */
	*ret_resizes = told(share, &share->slot->resizes, UINT64_MAX);
	return *ret_resizes == resized;
}

bool control_is_let_go(struct share *share)
{
	if (share->let_go)
		return true;
	if (atomic_load_explicit(&share->slot->serial, memory_order_acquire) == share->serial)
		return false;
	share->let_go = true;
	return true;
}

bool control_owner_gone(struct share *share)
{
	struct control_file *file = share->file;
	const struct control_head *head = &file->page->head;
	int owner_fd = file->owner_fd;

	if (control_is_let_go(share) || file->ended)
		return true;
	if (file->own || (owner_fd < 0 && !file->owner_seen))
		return false;
	if (!owner_has_ended(owner_fd, head->owner_pid, head->owner_start))
		return false;
	file->ended = true;
	return true;
}

int control_fd(const struct share *share)
{
	return share->file->fd;
}

uint64_t control_inode(const struct share *share)
{
	return share->file->ino;
}

int control_owner_fd(const struct share *share)
{
	return share->file->owner_fd;
}

uint64_t control_owner_pid(const struct share *share)
{
	return share->file->page->head.owner_pid;
}

/* ---- the end ---- */

/* Frees unused files, except the first one of each side. Caller holds mutex. */
static void drop_idle(void)
{
	struct control_file *file, *next;
	bool kept[2] = { false, false };

	cds_list_for_each_entry_safe(file, next, &files, link) {
		if (file->n_share)
			continue;
		if (!kept[file->own] && !file->ended) {
			kept[file->own] = true;
			continue;
		}
		cds_list_del(&file->link);
		file_free(file);
	}
}

static void leave(struct share *share, bool keep)
{
	struct control_file *file = share->file;

	pthread_mutex_lock(&mutex);
	if (!share->received) {
		/* The size stays for receivers that have not read it since it was written. */
		atomic_store_explicit(&share->slot->serial, share->serial | CONTROL_LET_GO,
				      memory_order_release);
		file->used[share->index / 64] &= ~(UINT64_C(1) << share->index % 64);
	}
	if (!--file->n_share) {
		/* The file used last is the one to keep, except after a failed receive. */
		cds_list_del(&file->link);
		if (keep || file->own) {
			cds_list_add(&file->link, &files);
			drop_idle();
		} else {
			file_free(file);
		}
	}
	pthread_mutex_unlock(&mutex);
	drop_spares(share);
	share_message_close(&share->object_fd, 1);
	free(share);
}

void control_end(struct share *share)
{
	if (share)
		leave(share, true);
}

void control_abandon(struct share *share)
{
	leave(share, false);
}

/* ---- fork ---- */

void control_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void control_fork_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

/*
 * A fork child is another process, from which no process has received a buffer: it makes files
 * of its own, and can't write its parent's. The parent's objects in the child answer
 * -EOWNERDEAD before they would touch a file.
 */
void control_fork_child(void)
{
	struct control_file *file, *next;

	cds_list_for_each_entry_safe(file, next, &files, link)
		file_free(file);
	CDS_INIT_LIST_HEAD(&files);
	atomic_store(&n_spare, 0);
	pthread_mutex_unlock(&mutex);
}
