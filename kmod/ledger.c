// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ledger counts every object that was created and every one that was
 * destroyed. The two columns are compared when the module goes; tests read
 * them from the kernel log, and developers from debugfs at any time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/printk.h>
#include <linux/seq_file.h>

#include "ledger.h"

static const char *const names[DISTMIND_OBJECT__COUNT] = {
	[DISTMIND_OBJECT_GPU] = "gpu",
	[DISTMIND_OBJECT_VGPU] = "vgpu",
	[DISTMIND_OBJECT_BUFFER] = "buffer",
	[DISTMIND_OBJECT_CLAIM] = "claim",
	[DISTMIND_OBJECT_TIMELINE] = "timeline",
	[DISTMIND_OBJECT_QUEUE] = "queue",
	[DISTMIND_OBJECT_JOB] = "job",
	[DISTMIND_OBJECT_REQUEST] = "request",
	[DISTMIND_OBJECT_PAYMENT] = "payment",
};

static atomic64_t created[DISTMIND_OBJECT__COUNT];
static atomic64_t destroyed[DISTMIND_OBJECT__COUNT];
static struct dentry *debugfs;

void distmind_ledger_created(enum distmind_object object)
{
	atomic64_inc(&created[object]);
}

void distmind_ledger_destroyed(enum distmind_object object)
{
	atomic64_inc(&destroyed[object]);
}

static int ledger_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < DISTMIND_OBJECT__COUNT; i++)
		seq_printf(m, "%s %lld %lld\n", names[i], atomic64_read(&created[i]),
			   atomic64_read(&destroyed[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ledger);

void __init distmind_ledger_init(void)
{
	debugfs = debugfs_create_dir("distmind", NULL);
	debugfs_create_file("ledger", 0400, debugfs, NULL, &ledger_fops);
}

void distmind_ledger_exit(void)
{
	char line[320];
	bool balanced = true;
	int i, len = 0;

	debugfs_remove(debugfs);
	for (i = 0; i < DISTMIND_OBJECT__COUNT; i++) {
		long long c = atomic64_read(&created[i]), d = atomic64_read(&destroyed[i]);

		balanced &= c == d;
		len += scnprintf(line + len, sizeof(line) - len, " %s %lld/%lld", names[i], c, d);
	}
	pr_info("ledger%s\n", line);
	WARN(!balanced, "objects were not destroyed\n");
}
