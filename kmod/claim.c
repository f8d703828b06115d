// SPDX-License-Identifier: GPL-2.0-only
/*
 * Claims for vgpus, and their answers.
 *
 * A claim belongs to the system call that waits for it. It is in the table
 * from the beginning of the wait until it is answered or given up, whichever
 * takes it out first under distmind_claim_lock; only what is in the table may
 * be touched by others, and only under that lock. vgpus are created by the one
 * who grants, so that it learns what is wrong with its answer, and become the
 * waiter's when it wakes: if the waiter cannot take them, it kills them.
 *
 * To create them takes as long as devtmpfs does, so that is done without the lock: who
 * grants looks afterwards whether the claim is still there, and kills them if it is not.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/netlink.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "account.h"
#include "client.h"
#include "ioctl.h"
#include "ledger.h"
#include "netlink.h"
#include "claim.h"
#include "trace.h"

/* Of all users together. */
#define CLAIMS_MAX 4096

/* See above. */
DEFINE_MUTEX(distmind_claim_lock);
struct distmind_table distmind_claims = DISTMIND_TABLE_INIT(distmind_claims);

static atomic64_t last_serial;

#define TOO_MANY_CLAIMS "too many claims are waiting already: wait for their answers first"

static int refuse(char *reason, int error, const char *why)
{
	strscpy(reason, why, DISTMIND_REASON_LEN);
	return error;
}

static struct distmind_claim *claim_create(struct distmind_account *account,
					   const struct distmind_acquire *arg)
{
	struct distmind_claim *claim;

	claim = kzalloc(struct_size(claim, vgpus, arg->count), GFP_KERNEL_ACCOUNT);
	if (!claim)
		return NULL;
	distmind_ledger_created(DISTMIND_OBJECT_CLAIM);
	claim->serial = atomic64_inc_return(&last_serial);
	claim->account = account;
	strscpy(claim->owner.name, arg->name, sizeof(claim->owner.name));
	claim->owner.lease = DISTMIND_VGPU_LEASE_FILE;
	current_euid_egid(&claim->owner.uid, &claim->owner.gid);
	claim->owner.pid = task_tgid_nr(current);
	claim->settings.memory = arg->memory;
	claim->settings.objective_ns = arg->objective_ns;
	claim->settings.share = arg->share;
	claim->settings.class = arg->sched_class;
	claim->settings.capped = arg->flags & DISTMIND_ACQUIRE_CAPPED;
	claim->count = arg->count;
	claim->flags = arg->flags;
	strscpy(claim->kind, arg->kind, sizeof(claim->kind));
	claim->deadline = ktime_add_ms(ktime_get(), arg->timeout_ms);
	init_completion(&claim->done);
	return claim;
}

static void claim_destroy(struct distmind_claim *claim)
{
	kfree(claim);
	distmind_ledger_destroyed(DISTMIND_OBJECT_CLAIM);
}

static int enqueue(struct distmind_claim *claim)
{
	int err;

	/* Before the lock, as it may have to wait for memory of the caller's cgroup. */
	err = distmind_table_reserve(&distmind_claims, CLAIMS_MAX, &claim->id);
	if (err == -EBUSY)
		return refuse(claim->reason, -EAGAIN, TOO_MANY_CLAIMS);
	if (err)
		return err;
	if (mutex_lock_killable(&distmind_claim_lock)) {
		distmind_table_release(&distmind_claims, claim->id);
		return -EINTR;
	}
	distmind_table_publish(&distmind_claims, claim->id, claim);
	trace_distmind_claim_add(claim);
	distmind_netlink_notify_claim(DISTMIND_CMD_CLAIM_ADD_NTF, claim);
	mutex_unlock(&distmind_claim_lock);
	return 0;
}

/* Under distmind_claim_lock: from here on it is the waiter's alone. */
static void dequeue(struct distmind_claim *claim, int error)
{
	claim->answered = true;
	claim->error = error;
	distmind_table_del(&distmind_claims, claim->id);
	trace_distmind_claim_del(claim);
	distmind_netlink_notify_claim(DISTMIND_CMD_CLAIM_DEL_NTF, claim);
}

/* Returns the error of the answer, or why there is none. */
static int wait_for_answer(struct distmind_claim *claim, u32 timeout_ms)
{
	long left;

	left = wait_for_completion_killable_timeout(&claim->done, msecs_to_jiffies(timeout_ms));
	mutex_lock(&distmind_claim_lock);
	if (!claim->answered) {
		dequeue(claim, left ? -EINTR : -ETIMEDOUT);
		if (distmind_netlink_has_daemon())
			snprintf(claim->reason, sizeof(claim->reason),
				 "no answer within %u ms: see the log of distmindd", timeout_ms);
		else
			snprintf(claim->reason, sizeof(claim->reason),
				 "nobody answers claims: start distmindd");
	}
	mutex_unlock(&distmind_claim_lock);
	return claim->error;
}

static void kill_vgpus(struct distmind_vgpu **vgpus, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		distmind_vgpu_kill(vgpus[i]);
		distmind_vgpu_put(vgpus[i]);
	}
}

/* Consumes the claim's vgpus: each becomes the caller's or is killed. */
static int install(struct distmind_claim *claim, s32 __user *user)
{
	s32 fds[DISTMIND_ACQUIRE_MAX];
	struct file **files;
	u32 i, opened = 0, reserved = 0;
	int err = -ENOMEM;

	files = kcalloc(claim->count, sizeof(*files), GFP_KERNEL_ACCOUNT);
	if (!files)
		goto err_kill;
	for (; opened < claim->count; opened++) {
		files[opened] = distmind_client_open_lease(claim->vgpus[opened]);
		if (IS_ERR(files[opened])) {
			err = PTR_ERR(files[opened]);
			goto err_kill;
		}
		/* The file holds it now. */
		distmind_vgpu_put(claim->vgpus[opened]);
	}
	for (; reserved < claim->count; reserved++) {
		fds[reserved] = get_unused_fd_flags(O_CLOEXEC);
		if (fds[reserved] < 0) {
			err = fds[reserved];
			goto err_fds;
		}
	}
	err = -EFAULT;
	if (copy_to_user(user, fds, claim->count * sizeof(*fds)))
		goto err_fds;
	for (i = 0; i < claim->count; i++)
		fd_install(fds[i], files[i]);
	kfree(files);
	return 0;

err_fds:
	while (reserved--)
		put_unused_fd(fds[reserved]);
err_kill:
	for (i = 0; i < opened; i++)
		fput(files[i]);
	kill_vgpus(claim->vgpus + opened, claim->count - opened);
	kfree(files);
	return err;
}

/* Its user has the claim while it waits, and the vgpus for as long as they are there. */
static int acquire_for(struct distmind_account *account, struct distmind_acquire *arg)
{
	struct distmind_claim *claim;
	bool granted;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_CLAIM, 1);
	if (err)
		return refuse(arg->reason, err, TOO_MANY_CLAIMS);
	err = distmind_account_charge(account, DISTMIND_LIMIT_VGPU, arg->count);
	if (err) {
		refuse(arg->reason, err, "you have as many vgpus as a user may: close some first");
		goto out_claim;
	}
	claim = claim_create(account, arg);
	if (!claim) {
		err = -ENOMEM;
		goto out_vgpus;
	}
	err = enqueue(claim);
	if (!err)
		err = wait_for_answer(claim, arg->timeout_ms);
	if (!err)
		err = install(claim, u64_to_user_ptr(arg->fds));
	arg->claim = claim->id;
	strscpy(arg->reason, claim->reason, sizeof(arg->reason));
	granted = claim->granted;
	claim_destroy(claim);
	if (granted)
		goto out_claim;
out_vgpus:
	distmind_account_uncharge(account, DISTMIND_LIMIT_VGPU, arg->count);
out_claim:
	distmind_account_uncharge(account, DISTMIND_LIMIT_CLAIM, 1);
	return err;
}

int distmind_claim_acquire(struct distmind_acquire *arg)
{
	const struct distmind_vgpu_settings settings = {
		.memory = arg->memory,
		.objective_ns = arg->objective_ns,
		.share = arg->share,
		.class = arg->sched_class,
	};
	struct distmind_account *account;
	const char *problem = NULL;
	int err;

	if (!arg->count || arg->count > DISTMIND_ACQUIRE_MAX)
		problem = "count must be 1 to 64";
	else if (arg->flags & ~DISTMIND_ACQUIRE__ALL)
		problem = "flags has bits that this module does not know";
	else if (!arg->timeout_ms || arg->timeout_ms > DISTMIND_TIMEOUT_MAX_MS)
		problem = "timeout must be 1 ms to 1 hour";
	else if (!distmind_ioctl_name_valid(arg->name))
		problem = "name must be up to 31 of A-Z a-z 0-9 . _ -";
	else if (!distmind_ioctl_name_valid(arg->kind))
		problem = "kind must be up to 31 of A-Z a-z 0-9 . _ -";
	else
		distmind_vgpu_check_settings(&settings, &problem);
	memset(arg->reason, 0, sizeof(arg->reason));
	if (problem) {
		strscpy(arg->reason, problem, sizeof(arg->reason));
		return -EINVAL;
	}

	account = distmind_account_find();
	if (IS_ERR(account))
		return PTR_ERR(account);
	err = acquire_for(account, arg);
	distmind_account_put(account);
	return err;
}

#define GONE "no such claim: it was answered, timed out or given up"

static struct distmind_claim *find_locked(u32 id, struct netlink_ext_ack *extack)
{
	struct distmind_claim *claim = distmind_table_find(&distmind_claims, id);

	lockdep_assert_held(&distmind_claim_lock);
	if (!claim)
		NL_SET_ERR_MSG(extack, GONE);
	return claim;
}

/**
 * struct answer - a claim that is being granted
 * @id: its number
 * @serial: which claim that is
 * @account: of the claim; held
 * @owner: of the claim
 * @settings: of the claim
 * @count: how many vgpus
 * @vgpus: those that there are, each with a reference
 */
struct answer {
	u32 id;
	u64 serial;
	struct distmind_account *account;
	struct distmind_vgpu_owner owner;
	struct distmind_vgpu_settings settings;
	u32 count;
	struct distmind_vgpu *vgpus[];
};

/* What the claim wants, which may be given up from now on. */
static int answer_begin(struct answer *answer, struct netlink_ext_ack *extack)
{
	struct distmind_claim *claim;
	int err = 0;

	mutex_lock(&distmind_claim_lock);
	claim = find_locked(answer->id, extack);
	if (!claim) {
		err = -ENOENT;
	} else if (answer->count != claim->count) {
		NL_SET_ERR_MSG(extack, "gpu must be there once for each vgpu of the claim");
		err = -EINVAL;
	} else {
		answer->serial = claim->serial;
		distmind_account_get(claim->account);
		answer->account = claim->account;
		answer->owner = claim->owner;
		answer->settings = claim->settings;
	}
	mutex_unlock(&distmind_claim_lock);
	return err;
}

/* The vgpus are there: they become the claim's, unless it was given up. */
static int answer_end(struct answer *answer, struct netlink_ext_ack *extack)
{
	struct distmind_claim *claim;
	u32 i;

	mutex_lock(&distmind_claim_lock);
	claim = find_locked(answer->id, extack);
	if (!claim || claim->serial != answer->serial) {
		mutex_unlock(&distmind_claim_lock);
		NL_SET_ERR_MSG(extack, GONE);
		return -ENOENT;
	}
	/* What the claim was charged for is theirs. */
	for (i = 0; i < answer->count; i++) {
		answer->vgpus[i]->counted = true;
		claim->vgpus[i] = answer->vgpus[i];
	}
	claim->granted = true;
	dequeue(claim, 0);
	complete(&claim->done);
	mutex_unlock(&distmind_claim_lock);
	return 0;
}

/* Who was to have them may have had them open, and something of them: then they count. */
static void answer_end_vain(struct answer *answer, u32 made)
{
	u32 i;

	distmind_account_add(answer->account, DISTMIND_LIMIT_VGPU, made);
	for (i = 0; i < made; i++)
		answer->vgpus[i]->counted = true;
	kill_vgpus(answer->vgpus, made);
}

int distmind_claim_grant(u32 id, const u32 *gpus, u32 count, struct netlink_ext_ack *extack)
{
	struct distmind_vgpu *vgpu;
	struct answer *answer;
	u32 made;
	int err;

	answer = kzalloc(struct_size(answer, vgpus, count), GFP_KERNEL_ACCOUNT);
	if (!answer)
		return -ENOMEM;
	answer->id = id;
	answer->count = count;
	err = answer_begin(answer, extack);
	if (err)
		goto out_free;
	for (made = 0; made < count; made++) {
		vgpu = distmind_vgpu_create(&answer->owner, &answer->settings, gpus[made],
					    answer->account, extack);
		if (IS_ERR(vgpu)) {
			err = PTR_ERR(vgpu);
			break;
		}
		answer->vgpus[made] = vgpu;
	}
	if (!err)
		err = answer_end(answer, extack);
	if (err)
		answer_end_vain(answer, made);
	distmind_account_put(answer->account);
out_free:
	kfree(answer);
	return err;
}

int distmind_claim_refuse(u32 id, int error, const char *reason, struct netlink_ext_ack *extack)
{
	struct distmind_claim *claim;
	int err = 0;

	mutex_lock(&distmind_claim_lock);
	claim = find_locked(id, extack);
	if (claim) {
		strscpy(claim->reason, reason, sizeof(claim->reason));
		dequeue(claim, -error);
		complete(&claim->done);
	} else {
		err = -ENOENT;
	}
	mutex_unlock(&distmind_claim_lock);
	return err;
}

void distmind_claim_exit(void)
{
	xa_destroy(&distmind_claims.objects);
}
