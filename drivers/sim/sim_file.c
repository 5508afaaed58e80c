// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Open files of the device: the objects of an opener, its identity; and the file system that the
 * device's inode is in.
 */
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/ctype.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/slab.h>

#include "sim.h"

#define SIM_FS_MAGIC 0x6865746d

static struct vfsmount *sim_fs_mount;
static atomic64_t sim_n_openers; /* ever, of all devices: the last one's number */

static int sim_fs_init_context(struct fs_context *context)
{
	return init_pseudo(context, SIM_FS_MAGIC) ? 0 : -ENOMEM;
}

/*
 * Mounted as long as the module is loaded, and only by it: without .owner, or
 * the module would hold itself.
 */
static struct file_system_type sim_fs = {
	.name = "hetsim",
	.init_fs_context = sim_fs_init_context,
	.kill_sb = kill_anon_super,
};

int sim_fs_init(void)
{
	sim_fs_mount = kern_mount(&sim_fs);
	return PTR_ERR_OR_ZERO(sim_fs_mount);
}

void sim_fs_exit(void)
{
	kern_unmount(sim_fs_mount);
}

/*
 * Each device has one inode of its own, whatever nodes lead to the device, so
 * that one address space knows all maps of its buffers.
 */
struct inode *sim_fs_inode(void)
{
	return alloc_anon_inode(sim_fs_mount->mnt_sb);
}

static void sim_account_free(struct kref *ref)
{
	struct sim_account *account = container_of(ref, struct sim_account, ref);
	unsigned int i;

	for (i = 0; i < SIM_N_PLACES; i++)
		WARN_ON(account->pages_used[i]);
	kfree(account);
}

void sim_account_put(struct sim_account *account)
{
	kref_put(&account->ref, sim_account_free);
}

static int sim_user_compare(struct rb_node *one, const struct rb_node *other)
{
	uid_t a = rb_entry(one, struct sim_user, node)->uid;
	uid_t b = rb_entry(other, struct sim_user, node)->uid;

	return a < b ? -1 : a > b;
}

/* An entry of the calling user that is in no tree yet; NULL without memory. */
static struct sim_user *sim_user_new(void)
{
	struct sim_user *user = kzalloc(sizeof(*user), SIM_GFP);

	if (user)
		user->uid = __kuid_val(current_euid());
	return user;
}

/* The user's entry in the tree, which is @fresh or replaces it. Counts an opener in it. */
static struct sim_user *sim_user_get(struct sim_device *dev, struct sim_user *fresh)
{
	struct sim_user *user = fresh;
	struct rb_node *node;

	lockdep_assert_held(&dev->lock);
	node = rb_find_add(&fresh->node, &dev->users, sim_user_compare);
	if (node) {
		kfree(fresh);
		user = rb_entry(node, struct sim_user, node);
	}
	user->n_openers++;
	return user;
}

static void sim_user_put(struct sim_device *dev, struct sim_user *user)
{
	lockdep_assert_held(&dev->lock);
	if (--user->n_openers)
		return;
	rb_erase(&user->node, &dev->users);
	kfree(user);
}

static int sim_open(struct inode *inode, struct file *file)
{
	struct sim_device *dev = container_of(file->private_data, struct sim_device, misc);
	struct sim_opener *opener;
	struct sim_account *account;
	struct sim_user *user;
	unsigned int i;

	opener = kzalloc(sizeof(*opener), SIM_GFP);
	if (!opener)
		return -ENOMEM;
	account = kzalloc(sizeof(*account), SIM_GFP);
	if (!account)
		goto err_opener;
	user = sim_user_new();
	if (!user)
		goto err_account;
	if (sim_va_init(&opener->va))
		goto err_user;

	kref_init(&account->ref);
	spin_lock_init(&account->mirror_lock);
	account->id = atomic64_inc_return(&sim_n_openers);
	account->pid = task_tgid_nr(current);
	get_task_comm(account->comm, current);
	/* A process chooses its own name: it must not forge further lines and columns. */
	for (i = 0; account->comm[i]; i++) {
		if (!isprint(account->comm[i]))
			account->comm[i] = '?';
	}
	opener->account = account;
	xa_init(&opener->handles);
	mutex_init(&opener->importing);
	xa_init_flags(&opener->queues, XA_FLAGS_ALLOC1);

	/* The caller, misc_open(), keeps the device from going away. */
	mutex_lock(&dev->lock);
	opener->user = sim_user_get(dev, user);
	kref_get(&dev->ref);
	opener->dev = dev;
	list_add_tail(&opener->link, &dev->openers);
	mutex_unlock(&dev->lock);

	file->f_mapping = dev->inode->i_mapping;
	file->private_data = opener;
	return 0;

err_user:
	kfree(user);
err_account:
	kfree(account);
err_opener:
	kfree(opener);
	return -ENOMEM;
}

static int sim_release(struct inode *inode, struct file *file)
{
	struct sim_opener *opener = file->private_data;
	struct sim_device *dev = opener->dev;

	WRITE_ONCE(opener->account->closed, true);
	mutex_lock(&dev->lock);
	list_del(&opener->link);
	mutex_unlock(&dev->lock);

	sim_queues_destroy(opener);
	mutex_lock(&dev->lock);
	sim_user_put(dev, opener->user);
	mutex_unlock(&dev->lock);
	sim_mirror_destroy(opener);
	sim_va_destroy(&opener->va);
	sim_buffers_close(opener);
	sim_account_put(opener->account);
	kfree(opener);
	sim_device_put(dev);
	return 0;
}

const struct file_operations sim_fops = {
	.owner		= THIS_MODULE,
	.open		= sim_open,
	.release	= sim_release,
	.unlocked_ioctl	= sim_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.mmap		= sim_mmap,
	.get_unmapped_area = thp_get_unmapped_area, /* for entries of 2 MiB */
	.read_iter	= sim_read_iter,
	.write_iter	= sim_write_iter,
	.llseek		= noop_llseek,
	.show_fdinfo	= sim_show_fdinfo,
};
