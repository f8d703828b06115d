// SPDX-License-Identifier: GPL-2.0-only
/*
 * A preemption hook as a vendor's driver would have it, for gpus of the kind
 * "hooked". What a process runs by a grant here runs on the CPU, so stopping the
 * process takes it off the device, and continuing it is resuming.
 */
#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "kmod/preempt.h"

static bool refuse;
module_param(refuse, bool, 0644);
MODULE_PARM_DESC(refuse, "fail to evict anybody");

static int evictions;
module_param(evictions, int, 0444);
MODULE_PARM_DESC(evictions, "how often somebody was taken off the device");

static int resumptions;
module_param(resumptions, int, 0444);
MODULE_PARM_DESC(resumptions, "how often somebody was let go on");

static bool held;
module_param(held, bool, 0444);
MODULE_PARM_DESC(held, "a call lasts until it is let go by hold or hold_resume");

static int hold = -1;
static DECLARE_WAIT_QUEUE_HEAD(hold_wait);

static int hold_set(const char *value, const struct kernel_param *param)
{
	int err = param_set_int(value, param);

	wake_up_all(&hold_wait);
	return err;
}

static const struct kernel_param_ops hold_ops = {
	.set = hold_set,
	.get = param_get_int,
};
module_param_cb(hold, &hold_ops, &hold, 0644);
MODULE_PARM_DESC(hold, "lane whose eviction lasts until this is another one");

static int hold_resume;
module_param_cb(hold_resume, &hold_ops, &hold_resume, 0644);
MODULE_PARM_DESC(hold_resume, "if not 0, whoever is let go on waits until it is");

static int evict(const struct distmind_preempt *preempt)
{
	if (refuse)
		return -EIO;
	WRITE_ONCE(held, READ_ONCE(hold) == (int)preempt->lane);
	wait_event(hold_wait, READ_ONCE(hold) != (int)preempt->lane);
	WRITE_ONCE(held, false);
	if (preempt->pid)
		kill_pid(preempt->pid, SIGSTOP, 1);
	WRITE_ONCE(evictions, evictions + 1);
	return 0;
}

static void resume(const struct distmind_preempt *preempt)
{
	WRITE_ONCE(held, READ_ONCE(hold_resume));
	wait_event(hold_wait, !READ_ONCE(hold_resume));
	WRITE_ONCE(held, false);
	if (preempt->pid)
		kill_pid(preempt->pid, SIGCONT, 1);
	WRITE_ONCE(resumptions, resumptions + 1);
}

static struct distmind_preempt_hook hook = {
	.kind = "hooked",
	.evict = evict,
	.resume = resume,
};

static int __init hook_init(void)
{
	return distmind_preempt_register(&hook);
}

static void __exit hook_exit(void)
{
	distmind_preempt_unregister(&hook);
}

module_init(hook_init);
module_exit(hook_exit);

MODULE_DESCRIPTION("A preemption hook for the tests of distmind.ko");
MODULE_AUTHOR("The DistMind authors");
MODULE_LICENSE("GPL");
