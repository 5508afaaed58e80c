// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The driver, and the platform devices that it drives: hetsim.0 and following. The module makes
 * these, as it is their hardware, too. Plugging and unplugging adds and removes such a device;
 * sysfs's bind and unbind give it the driver, or take it away. Open files see the same of both.
 */
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/mod_devicetable.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#include "sim.h"
#include "sim_driver.h"

static const struct sim_platform_data *sim_devices_data;

static DEFINE_MUTEX(sim_devices_lock); /* protects the next array */
static struct platform_device *sim_devices[SIM_MAX_DEVICES]; /* NULL: unplugged */

#define SIM_NOT_PROBED 1

/* Last answers of probe(), which the driver core calls with the lock of the device. */
static int sim_probed[SIM_MAX_DEVICES];

static void sim_device_free(struct kref *ref)
{
	struct sim_device *dev = container_of(ref, struct sim_device, ref);

	WARN_ON(!xa_empty(&dev->buffers));
	sim_debugfs_remove(dev);
	xa_destroy(&dev->buffers);
	sim_dmem_exit(dev);
	WARN_ON(!RB_EMPTY_ROOT(&dev->users));
	iput(dev->inode);
	put_device(dev->parent);
	mutex_destroy(&dev->brackets_lock);
	mutex_destroy(&dev->lock);
	kfree(dev);
}

void sim_device_put(struct sim_device *dev)
{
	kref_put(&dev->ref, sim_device_free);
}

/*
 * No memory of the driver core's (devm_kzalloc()): that goes with the driver, but open files, maps
 * and dma-bufs reach the device for as long as they exist.
 */
static struct sim_device *sim_device_new(struct platform_device *pdev)
{
	const struct sim_platform_data *data = dev_get_platdata(&pdev->dev);
	struct sim_device *dev;
	int r;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return ERR_PTR(-ENOMEM);

	kref_init(&dev->ref);
	dev->index = pdev->id;
	dev->kind = data->kind;
	dev->store = sim_store_of(dev->index);
	snprintf(dev->name, sizeof(dev->name), "hetsim%u", dev->index);
	mutex_init(&dev->lock);
	INIT_LIST_HEAD(&dev->openers);
	dev->users = RB_ROOT;
	spin_lock_init(&dev->imports_lock);
	INIT_LIST_HEAD(&dev->imports);
	init_waitqueue_head(&dev->detached);
	init_waitqueue_head(&dev->lost);
	sim_dump_init(dev);
	mutex_init(&dev->brackets_lock);
	INIT_LIST_HEAD(&dev->brackets);
	xa_init_flags(&dev->buffers, XA_FLAGS_ALLOC1);
	spin_lock_init(&dev->memory_lock);

	sim_memory_set(&dev->memory, data->vram_mb, data->system_mb, data->bar_mb,
		       data->opener_mb);
	dev->window_pages = roundup_pow_of_two(sim_memory_most(&dev->memory));

	r = sim_dmem_init(dev);
	if (r)
		goto err_free;
	dev->inode = sim_fs_inode();
	if (IS_ERR(dev->inode)) {
		r = PTR_ERR(dev->inode);
		goto err_dmem;
	}
	dev->parent = get_device(&pdev->dev);
	dev->misc.minor = MISC_DYNAMIC_MINOR;
	dev->misc.name = dev->name;
	dev->misc.fops = &sim_fops;
	dev->misc.mode = 0666;
	dev->misc.parent = dev->parent;
	return dev;

err_dmem:
	sim_dmem_exit(dev);
err_free:
	mutex_destroy(&dev->brackets_lock);
	mutex_destroy(&dev->lock);
	kfree(dev);
	return ERR_PTR(r);
}

static const struct platform_device_id sim_ids[] = {
	{ .name = KBUILD_MODNAME },
	{ }
};
MODULE_DEVICE_TABLE(platform, sim_ids);

/* The device reaches all memory, in pieces of any length. */
static int sim_probe_device(struct platform_device *pdev)
{
	struct sim_device *dev;
	int r;

	r = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (r)
		return r;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);

	dev = sim_device_new(pdev);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	platform_set_drvdata(pdev, dev);
	r = misc_register(&dev->misc);
	if (r) {
		sim_device_put(dev);
		return r;
	}
	sim_debugfs_add(dev);
	return 0;
}

static int sim_probe(struct platform_device *pdev)
{
	int r;

	/* By driver_override, any device of the bus may come here. */
	if (platform_get_device_id(pdev) != sim_ids)
		return -ENODEV;
	r = sim_probe_device(pdev);
	WRITE_ONCE(sim_probed[pdev->id], r);
	return r;
}

/*
 * The driver is taken away, or the device is, under all open files. Once this returns, the driver
 * core may give the device to a fresh struct sim_device.
 */
void sim_remove(struct platform_device *pdev)
{
	struct sim_device *dev = platform_get_drvdata(pdev);

	sim_debugfs_lose(dev);
	misc_deregister(&dev->misc);
	sim_device_lose(dev);
	sim_dump_stop(dev);
	sim_device_put(dev);
}

static struct platform_driver sim_driver = {
	.probe		= sim_probe,
	.remove		= sim_platform_remove,
	.id_table	= sim_ids,
	.driver = {
		.name	= KBUILD_MODNAME,
		.probe_type = PROBE_FORCE_SYNCHRONOUS, /* nodes are there once insmod is done */
	},
};

/*
 * Whether the device has its driver: 0, or why not. The bus keeps a device whose probe() fails.
 * Where the driver core had no memory before it came to probe(), it is asked again.
 */
static int sim_device_bound(struct platform_device *pdev)
{
	int r;

	if (READ_ONCE(sim_probed[pdev->id]) == SIM_NOT_PROBED && device_attach(&pdev->dev) < 0)
		return -ENOMEM;
	r = READ_ONCE(sim_probed[pdev->id]);
	return r == SIM_NOT_PROBED ? -ENOMEM : r;
}

int sim_device_plug(unsigned int index)
{
	struct platform_device *pdev;
	int r = 0;

	if (index >= sim_devices_data->n_devices)
		return -EINVAL;
	mutex_lock(&sim_devices_lock);
	if (sim_devices[index]) {
		r = -EEXIST;
		goto out;
	}
	WRITE_ONCE(sim_probed[index], SIM_NOT_PROBED);
	pdev = platform_device_register_data(NULL, KBUILD_MODNAME, index, sim_devices_data,
					     sizeof(*sim_devices_data));
	if (IS_ERR(pdev)) {
		/* The platform bus does not see that there is no memory for the device's name. */
		r = PTR_ERR(pdev) == -EINVAL ? -ENOMEM : PTR_ERR(pdev);
		goto out;
	}
	r = sim_device_bound(pdev);
	if (r)
		platform_device_unregister(pdev);
	else
		sim_devices[index] = pdev;
out:
	mutex_unlock(&sim_devices_lock);
	return r;
}

/* Affects the caller's open file, and all others. */
int sim_device_unplug(struct sim_device *dev)
{
	struct platform_device *pdev = to_platform_device(dev->parent);
	int r = 0;

	mutex_lock(&sim_devices_lock);
	if (sim_devices[dev->index] != pdev || READ_ONCE(dev->gone)) {
		r = -ENODEV;
	} else {
		sim_devices[dev->index] = NULL;
		platform_device_unregister(pdev);
	}
	mutex_unlock(&sim_devices_lock);
	return r;
}

int sim_driver_init(const struct sim_platform_data *data)
{
	sim_devices_data = data;
	return platform_driver_register(&sim_driver);
}

void sim_driver_exit(void)
{
	unsigned int i;

	mutex_lock(&sim_devices_lock);
	for (i = 0; i < SIM_MAX_DEVICES; i++) {
		if (sim_devices[i])
			platform_device_unregister(sim_devices[i]);
		sim_devices[i] = NULL;
	}
	mutex_unlock(&sim_devices_lock);
	platform_driver_unregister(&sim_driver);
}
