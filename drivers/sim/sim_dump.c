// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A reset of an engine leaves a device coredump: the work that did not end. The kernel keeps the
 * text for five minutes, or until a reader writes to its file.
 *
 * A reset is on the way to a dma_fence's signal, where nothing may wait for memory. It takes a
 * snapshot if memory is free at once, and a worker gives it out. The text is the kernel's own:
 * functions of this module to read it, by dev_coredumpm(), would hold the module as long.
 */
#include <linux/devcoredump.h>
#include <linux/seq_buf.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "sim_queue.h"

#define SIM_DUMP_COMMANDS 16u /* around the one that ran */
#define SIM_DUMP_BYTES SZ_8K

struct sim_dump {
	u64 boot_ns;
	u64 opener;
	pid_t pid;
	char comm[TASK_COMM_LEN];
	u32 queue;
	u32 type;
	unsigned int timeout_ms;
	u64 seqno;
	u64 submitted;
	u64 done;
	unsigned int n_commands; /* of the submission */
	unsigned int at;	 /* the one that ran */
	unsigned int first;	 /* that is below */
	unsigned int n;
	struct hetsim_command commands[SIM_DUMP_COMMANDS];
};

static void sim_dump_fill(struct sim_dump *dump, struct sim_queue *queue,
			  const struct sim_job *job, unsigned int at)
{
	const struct sim_account *account = queue->opener->account;

	dump->boot_ns = ktime_get_boottime_ns();
	dump->opener = account->id;
	dump->pid = account->pid;
	strscpy(dump->comm, account->comm, sizeof(dump->comm));
	dump->queue = queue->id;
	dump->type = queue->type;
	dump->timeout_ms = jiffies_to_msecs(queue->timeout);
	dump->seqno = job->seqno;
	spin_lock(&queue->lock);
	dump->submitted = queue->submitted;
	dump->done = queue->done;
	spin_unlock(&queue->lock);
	dump->n_commands = job->n_commands;
	dump->at = at;
	dump->first = round_down(at, SIM_DUMP_COMMANDS);
	dump->n = min(job->n_commands - dump->first, SIM_DUMP_COMMANDS);
	memcpy(dump->commands, job->commands + dump->first,
	       dump->n * sizeof(dump->commands[0]));
}

/*
 * The engine of the queue is reset, at that command of the submission. The dump is of the first of
 * several resets, since later ones may come of it.
 */
void sim_dump_take(struct sim_queue *queue, const struct sim_job *job, unsigned int at)
{
	struct sim_device *dev = queue->opener->dev;
	struct sim_dump *dump;

	if (READ_ONCE(dev->dump))
		return;
	dump = kzalloc(sizeof(*dump), GFP_NOWAIT | __GFP_NOWARN);
	if (!dump)
		return;
	sim_dump_fill(dump, queue, job, at);
	spin_lock(&dev->dump_lock);
	if (!READ_ONCE(dev->gone) && !dev->dump) {
		WRITE_ONCE(dev->dump, dump);
		dump = NULL;
		schedule_work(&dev->dump_work);
	}
	spin_unlock(&dev->dump_lock);
	kfree(dump);
}

static struct sim_dump *sim_dump_untake(struct sim_device *dev)
{
	struct sim_dump *dump;

	spin_lock(&dev->dump_lock);
	dump = dev->dump;
	WRITE_ONCE(dev->dump, NULL);
	spin_unlock(&dev->dump_lock);
	return dump;
}

static size_t sim_dump_print(const struct sim_device *dev, const struct sim_dump *dump, char *text)
{
	struct seq_buf s;
	unsigned int i;

	seq_buf_init(&s, text, SIM_DUMP_BYTES);
	seq_buf_printf(&s, "driver: %s\ndevice: %s\nreason: time-out\n", KBUILD_MODNAME,
		       dev->name);
	seq_buf_printf(&s, "boot_ns: %llu\nopener: %llu\npid: %d\ncommand: %s\n", dump->boot_ns,
		       dump->opener, dump->pid, dump->comm);
	seq_buf_printf(&s, "queue: %u\ntype: %s\ntimeout_ms: %u\n", dump->queue,
		       dump->type == HETSIM_QUEUE_DMA_FENCE ? "dma_fence" : "counter",
		       dump->timeout_ms);
	seq_buf_printf(&s, "seqno: %llu\nsubmitted: %llu\ndone: %llu\nn_commands: %u\nat: %u\n",
		       dump->seqno, dump->submitted, dump->done, dump->n_commands, dump->at);
	for (i = 0; i < dump->n; i++) {
		const struct hetsim_command *command = &dump->commands[i];

		seq_buf_printf(&s, "%u: op %u destination 0x%llx source 0x%llx source2 0x%llx ",
			       dump->first + i, command->op, command->destination,
			       command->source, command->source2);
		seq_buf_printf(&s, "length %llu value %llu\n", command->length, command->value);
	}
	return seq_buf_used(&s);
}

static void sim_dump_work(struct work_struct *work)
{
	struct sim_device *dev = container_of(work, struct sim_device, dump_work);
	struct sim_dump *dump = sim_dump_untake(dev);
	char *text;

	if (!dump)
		return;
	text = vmalloc(SIM_DUMP_BYTES);
	if (text)
		dev_coredumpv(dev->parent, text, sim_dump_print(dev, dump, text), GFP_KERNEL);
	kfree(dump);
}

void sim_dump_init(struct sim_device *dev)
{
	spin_lock_init(&dev->dump_lock);
	INIT_WORK(&dev->dump_work, sim_dump_work);
}

/*
 * The device is marked as gone, and a thread that takes the lock afterwards sees that. A dump that
 * was given out outlives the device and this module.
 */
void sim_dump_stop(struct sim_device *dev)
{
	kfree(sim_dump_untake(dev));
	cancel_work_sync(&dev->dump_work);
}
