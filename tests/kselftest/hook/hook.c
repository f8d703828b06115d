// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preemption hooks as vendors' drivers would have them, for gpus of the kinds
 * "hooked" and "prompt". What a process runs by a grant here runs on the CPU, so
 * stopping the process takes it off the device, and continuing it is resuming.
 * The first takes as long as its parameters say, the second does not.
 */
#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

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
	/* Other lanes are evicted at the same time, and say nothing about this. */
	if (READ_ONCE(hold) == (int)preempt->lane) {
		WRITE_ONCE(held, true);
		wait_event(hold_wait, READ_ONCE(hold) != (int)preempt->lane);
		WRITE_ONCE(held, false);
	}
	if (preempt->pid)
		kill_pid(preempt->pid, SIGSTOP, 1);
	WRITE_ONCE(evictions, evictions + 1);
	return 0;
}

static void resume(const struct distmind_preempt *preempt)
{
	if (READ_ONCE(hold_resume)) {
		WRITE_ONCE(held, true);
		wait_event(hold_wait, !READ_ONCE(hold_resume));
		WRITE_ONCE(held, false);
	}
	if (preempt->pid)
		kill_pid(preempt->pid, SIGCONT, 1);
	WRITE_ONCE(resumptions, resumptions + 1);
}

static struct distmind_preempt_hook hook = {
	.kind = "hooked",
	.evict = evict,
	.resume = resume,
};

static int prompt_evict(const struct distmind_preempt *preempt)
{
	if (preempt->pid)
		kill_pid(preempt->pid, SIGSTOP, 1);
	return 0;
}

static void prompt_resume(const struct distmind_preempt *preempt)
{
	if (preempt->pid)
		kill_pid(preempt->pid, SIGCONT, 1);
}

static struct distmind_preempt_hook prompt = {
	.kind = "prompt",
	.evict = prompt_evict,
	.resume = prompt_resume,
};

/* As if its module was unloaded, or loaded again. */
static bool registered;

static int registered_set(const char *value, const struct kernel_param *param)
{
	bool wanted;
	int err = kstrtobool(value, &wanted);

	if (err || wanted == registered)
		return err;
	if (wanted)
		err = distmind_preempt_register(&hook);
	else
		distmind_preempt_unregister(&hook);
	if (!err)
		registered = wanted;
	return err;
}

static const struct kernel_param_ops registered_ops = {
	.set = registered_set,
	.get = param_get_bool,
};
module_param_cb(registered, &registered_ops, &registered, 0644);
MODULE_PARM_DESC(registered, "whether there is a hook for the kind that is hooked");

/* A third vendor's, which comes and goes whatever the others do. */
static struct distmind_preempt_hook passer = {
	.kind = "passer",
	.evict = prompt_evict,
	.resume = prompt_resume,
};

static int passed;
module_param(passed, int, 0444);
MODULE_PARM_DESC(passed, "how often a third hook has come and gone");

static void pass(struct work_struct *work)
{
	if (distmind_preempt_register(&passer))
		return;
	distmind_preempt_unregister(&passer);
	WRITE_ONCE(passed, passed + 1);
}

static DECLARE_WORK(pass_work, pass);

static int pass_set(const char *value, const struct kernel_param *param)
{
	schedule_work(&pass_work);
	return 0;
}

static const struct kernel_param_ops pass_ops = {
	.set = pass_set,
};
module_param_cb(pass, &pass_ops, NULL, 0200);
MODULE_PARM_DESC(pass, "have a third hook come and go");

static int __init hook_init(void)
{
	int err = distmind_preempt_register(&prompt);

	if (err)
		return err;
	err = distmind_preempt_register(&hook);
	if (err)
		distmind_preempt_unregister(&prompt);
	registered = !err;
	return err;
}

static void __exit hook_exit(void)
{
	flush_work(&pass_work);
	if (registered)
		distmind_preempt_unregister(&hook);
	distmind_preempt_unregister(&prompt);
}

module_init(hook_init);
module_exit(hook_exit);

MODULE_DESCRIPTION("A preemption hook for the tests of distmind.ko");
MODULE_AUTHOR("The DistMind authors");
MODULE_LICENSE("GPL");
