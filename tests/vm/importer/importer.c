// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A driver that takes in dma-bufs for QEMU's device "edu", as /dev/importer is told: the device
 * itself reads and writes them, by the addresses that the exporter gave. For
 * tests/sim/test_hetsim_importers.c.
 *
 * The device copies between memory and a buffer of its own [QEMU, docs/specs/edu.txt]; it copies
 * the bytes read on to a page of the driver.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iopoll.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "importer.h"

#define EDU_BUFFER 0x40000 /* its address for the device */

#define EDU_SOURCE	0x80
#define EDU_DESTINATION 0x88
#define EDU_LENGTH	0x90
#define EDU_COMMAND	0x98

#define EDU_RUN	      1 /* until it is done */
#define EDU_TO_MEMORY 2

#define EDU_PATIENCE_US (30 * USEC_PER_SEC) /* it takes 100 ms of a machine's time */

/* There is one device, which stays while /dev/importer is open. */
static struct pci_dev *importer_pci;
static void __iomem *importer_registers;
static void *importer_page;
static dma_addr_t importer_page_at; /* for the device */
static DEFINE_MUTEX(importer_lock); /* one call at a time */

/* An open file; under importer_lock. */
struct importer {
	struct dma_buf *dmabuf; /* attached; or NULL */
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	bool pinned; /* the attachment is a dynamic one */
	u32 n_notices; /* under the dma-buf's lock */
	struct dma_buf *vmapped; /* or NULL */
	struct iosys_map map;
};

static int importer_dma(dma_addr_t memory, u32 length, u64 direction)
{
	bool out = direction == EDU_TO_MEMORY;
	u64 command;

	writeq(out ? EDU_BUFFER : memory, importer_registers + EDU_SOURCE);
	writeq(out ? memory : EDU_BUFFER, importer_registers + EDU_DESTINATION);
	writeq(length, importer_registers + EDU_LENGTH);
	writeq(EDU_RUN | direction, importer_registers + EDU_COMMAND);
	return readq_poll_timeout(importer_registers + EDU_COMMAND, command,
				  !(command & EDU_RUN), USEC_PER_MSEC, EDU_PATIENCE_US);
}

/* Where the device finds the byte; DMA_MAPPING_ERROR where there is none. */
static dma_addr_t importer_find(struct importer *importer, u64 offset)
{
	struct scatterlist *segment;
	unsigned int i;

	for_each_sgtable_dma_sg(importer->table, segment, i) {
		if (offset < sg_dma_len(segment))
			return sg_dma_address(segment) + offset;
		offset -= sg_dma_len(segment);
	}
	return DMA_MAPPING_ERROR;
}

static int importer_copy(struct importer *importer, const void __user *argument, bool write)
{
	struct importer_copy copy;
	dma_addr_t memory;
	int r;

	if (copy_from_user(&copy, argument, sizeof(copy)))
		return -EFAULT;
	if (!importer->dmabuf || !copy.length || copy.length > IMPORTER_MOST ||
	    offset_in_page(copy.offset) + copy.length > PAGE_SIZE)
		return -EINVAL;
	if (READ_ONCE(importer->n_notices))
		return -ENODEV;
	memory = importer_find(importer, copy.offset);
	if (memory == DMA_MAPPING_ERROR)
		return -ERANGE;
	if (write && copy_from_user(importer_page, u64_to_user_ptr(copy.bytes), copy.length))
		return -EFAULT;
	r = importer_dma(write ? importer_page_at : memory, copy.length, 0) ?:
	    importer_dma(write ? memory : importer_page_at, copy.length, EDU_TO_MEMORY);
	if (!r && !write && copy_to_user(u64_to_user_ptr(copy.bytes), importer_page, copy.length))
		r = -EFAULT;
	return r;
}

static struct dma_buf *importer_get(const void __user *argument)
{
	s32 fd;

	if (get_user(fd, (const s32 __user *)argument))
		return ERR_PTR(-EFAULT);
	return dma_buf_get(fd);
}

static void importer_notice(struct dma_buf_attachment *attachment)
{
	struct importer *importer = attachment->importer_priv;

	dma_resv_assert_held(attachment->dmabuf->resv);
	WRITE_ONCE(importer->n_notices, importer->n_notices + 1);
}

static const struct dma_buf_attach_ops importer_ops = {
	.move_notify = importer_notice,
};

/* Pinned, so that the exporter tells of its end only. */
static int importer_pin(struct importer *importer)
{
	int r;

	dma_resv_lock(importer->attachment->dmabuf->resv, NULL);
	r = dma_buf_pin(importer->attachment);
	dma_resv_unlock(importer->attachment->dmabuf->resv);
	importer->pinned = !r;
	return r;
}

static void importer_unpin(struct importer *importer)
{
	if (!importer->pinned)
		return;
	dma_resv_lock(importer->attachment->dmabuf->resv, NULL);
	dma_buf_unpin(importer->attachment);
	dma_resv_unlock(importer->attachment->dmabuf->resv);
	importer->pinned = false;
}

static int importer_attach(struct importer *importer, const void __user *argument, bool dynamic)
{
	struct dma_buf *dmabuf;
	int r;

	if (importer->dmabuf)
		return -EBUSY;
	dmabuf = importer_get(argument);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	importer->n_notices = 0;
	importer->attachment = dma_buf_dynamic_attach(dmabuf, &importer_pci->dev,
						      dynamic ? &importer_ops : NULL, importer);
	if (IS_ERR(importer->attachment)) {
		r = PTR_ERR(importer->attachment);
		goto err_put;
	}
	r = dynamic ? importer_pin(importer) : 0;
	if (r)
		goto err_detach;
	importer->table = dma_buf_map_attachment_unlocked(importer->attachment,
							  DMA_BIDIRECTIONAL);
	if (IS_ERR(importer->table)) {
		r = PTR_ERR(importer->table);
		goto err_unpin;
	}
	importer->dmabuf = dmabuf;
	return 0;

err_unpin:
	importer_unpin(importer);
err_detach:
	dma_buf_detach(dmabuf, importer->attachment);
err_put:
	dma_buf_put(dmabuf);
	return r;
}

static int importer_detach(struct importer *importer)
{
	if (!importer->dmabuf)
		return -EINVAL;
	dma_buf_unmap_attachment_unlocked(importer->attachment, importer->table,
					  DMA_BIDIRECTIONAL);
	importer_unpin(importer);
	dma_buf_detach(importer->dmabuf, importer->attachment);
	dma_buf_put(importer->dmabuf);
	importer->dmabuf = NULL;
	return 0;
}

/* From 6.2 on the caller holds the lock; before, it may. */
static int importer_vmap(struct importer *importer, const void __user *argument)
{
	struct dma_buf *dmabuf;
	int r;

	if (importer->vmapped)
		return -EBUSY;
	dmabuf = importer_get(argument);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	dma_resv_lock(dmabuf->resv, NULL);
	r = dma_buf_vmap(dmabuf, &importer->map);
	dma_resv_unlock(dmabuf->resv);
	if (r)
		dma_buf_put(dmabuf);
	else
		importer->vmapped = dmabuf;
	return r;
}

static int importer_vunmap(struct importer *importer)
{
	struct dma_buf *dmabuf = importer->vmapped;

	if (!dmabuf)
		return -EINVAL;
	dma_resv_lock(dmabuf->resv, NULL);
	dma_buf_vunmap(dmabuf, &importer->map);
	dma_resv_unlock(dmabuf->resv);
	dma_buf_put(dmabuf);
	importer->vmapped = NULL;
	return 0;
}

static int importer_bounce(void)
{
	void *bytes = kzalloc(64, GFP_KERNEL);
	dma_addr_t address;
	int r = 0;

	if (!bytes)
		return -ENOMEM;
	/* An IOMMU maps whole pages: the rest of this one is not for such a device. */
	importer_pci->untrusted = true;
	address = dma_map_single(&importer_pci->dev, bytes, 64, DMA_TO_DEVICE);
	if (dma_mapping_error(&importer_pci->dev, address))
		r = -EIO;
	else
		dma_unmap_single(&importer_pci->dev, address, 64, DMA_TO_DEVICE);
	importer_pci->untrusted = false;
	kfree(bytes);
	return r;
}

static long importer_ioctl(struct file *file, unsigned int cmd, unsigned long argument)
{
	const void __user *user = (const void __user *)argument;
	struct importer *importer = file->private_data;
	int r;

	mutex_lock(&importer_lock);
	switch (cmd) {
	case IMPORTER_ATTACH:
	case IMPORTER_ATTACH_DYNAMIC:
		r = importer_attach(importer, user, cmd == IMPORTER_ATTACH_DYNAMIC);
		break;
	case IMPORTER_DETACH:
		r = importer_detach(importer);
		break;
	case IMPORTER_READ:
	case IMPORTER_WRITE:
		r = importer_copy(importer, user, cmd == IMPORTER_WRITE);
		break;
	case IMPORTER_VMAP:
		r = importer_vmap(importer, user);
		break;
	case IMPORTER_VUNMAP:
		r = importer_vunmap(importer);
		break;
	case IMPORTER_BOUNCE:
		r = importer_bounce();
		break;
	case IMPORTER_NOTICES:
		r = put_user(READ_ONCE(importer->n_notices), (u32 __user *)argument);
		break;
	default:
		r = -ENOTTY;
	}
	mutex_unlock(&importer_lock);
	return r;
}

static int importer_open(struct inode *inode, struct file *file)
{
	struct importer *importer = kzalloc(sizeof(*importer), GFP_KERNEL);

	file->private_data = importer;
	return importer ? 0 : -ENOMEM;
}

static int importer_release(struct inode *inode, struct file *file)
{
	struct importer *importer = file->private_data;

	importer_detach(importer);
	importer_vunmap(importer);
	kfree(importer);
	return 0;
}

static const struct file_operations importer_fops = {
	.owner		= THIS_MODULE,
	.open		= importer_open,
	.release	= importer_release,
	.unlocked_ioctl	= importer_ioctl,
};

static struct miscdevice importer_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "importer",
	.fops	= &importer_fops,
};

static int importer_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	int r;

	r = pcim_enable_device(pci) ?: pcim_iomap_regions(pci, BIT(0), "importer") ?:
	    dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(32));
	if (r)
		return r;
	pci_set_master(pci);
	importer_registers = pcim_iomap_table(pci)[0];
	importer_page = dmam_alloc_coherent(&pci->dev, PAGE_SIZE, &importer_page_at, GFP_KERNEL);
	if (!importer_page)
		return -ENOMEM;
	importer_pci = pci;
	return misc_register(&importer_misc);
}

static void importer_remove(struct pci_dev *pci)
{
	misc_deregister(&importer_misc);
}

static const struct pci_device_id importer_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) },
	{}
};

static struct pci_driver importer_driver = {
	.name		= "importer",
	.id_table	= importer_ids,
	.probe		= importer_probe,
	.remove		= importer_remove,
};
module_pci_driver(importer_driver);

MODULE_DESCRIPTION("Takes dma-bufs in for QEMU's device edu");
MODULE_AUTHOR("The hetmap authors");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_IMPORT_NS(DMA_BUF);
