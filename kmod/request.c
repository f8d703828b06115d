// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests for vgpus, and their answers.
 *
 * A request belongs to the system call that waits for it. It is in the table
 * from the beginning of the wait until it is answered or given up, whichever
 * takes it out first under distmind_request_lock; only what is in the table may
 * be touched by others, and only under that lock. vgpus are created by the one
 * who grants, so that it learns what is wrong with its answer, and become the
 * waiter's when it wakes: if the waiter cannot take them, it kills them.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/netlink.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "client.h"
#include "ioctl.h"
#include "ledger.h"
#include "netlink.h"
#include "request.h"
#include "trace.h"

/* So that no user can fill the table for the others. */
#define REQUESTS_PER_USER	64
#define REQUESTS_MAX		4096

/* See above. */
DEFINE_MUTEX(distmind_request_lock);
struct distmind_table distmind_requests = DISTMIND_TABLE_INIT(distmind_requests);

/*
 * Who has made a user namespace can be as many users there as were mapped for it, so all
 * that are in it are one: its maker. Root makes them for others, as containers: each of
 * these is somebody.
 */
static struct distmind_request_payer find_payer(void)
{
	struct distmind_request_payer payer = { .uid = current_euid() };
	const struct user_namespace *ns;

	for (ns = current_user_ns(); ns->parent; ns = ns->parent) {
		payer.uid = ns->owner;
		payer.ns = ns;
	}
	if (!uid_eq(payer.uid, GLOBAL_ROOT_UID))
		payer.ns = NULL;
	return payer;
}

static bool pays_for(const struct distmind_request_payer *payer,
		     const struct distmind_request *request)
{
	return uid_eq(payer->uid, request->payer.uid) && payer->ns == request->payer.ns;
}

static struct distmind_request *request_create(const struct distmind_acquire *arg)
{
	struct distmind_request *request;

	request = kzalloc(struct_size(request, vgpus, arg->count), GFP_KERNEL_ACCOUNT);
	if (!request)
		return NULL;
	distmind_ledger_created(DISTMIND_OBJECT_REQUEST);
	request->payer = find_payer();
	strscpy(request->owner.name, arg->name, sizeof(request->owner.name));
	request->owner.lease = DISTMIND_VGPU_LEASE_FILE;
	current_euid_egid(&request->owner.uid, &request->owner.gid);
	request->owner.pid = task_tgid_nr(current);
	request->settings.memory = arg->memory;
	request->settings.objective_ns = arg->objective_ns;
	request->settings.share = arg->share;
	request->settings.class = arg->sched_class;
	request->settings.capped = arg->flags & DISTMIND_ACQUIRE_CAPPED;
	request->count = arg->count;
	request->flags = arg->flags;
	strscpy(request->kind, arg->kind, sizeof(request->kind));
	request->deadline = ktime_add_ms(ktime_get(), arg->timeout_ms);
	init_completion(&request->done);
	return request;
}

static void request_destroy(struct distmind_request *request)
{
	kfree(request);
	distmind_ledger_destroyed(DISTMIND_OBJECT_REQUEST);
}

static int enqueue(struct distmind_request *request)
{
	struct distmind_request *other;
	unsigned long id;
	u32 mine = 0;
	int err;

	if (mutex_lock_killable(&distmind_request_lock))
		return -EINTR;
	distmind_table_for_each(&distmind_requests, id, other)
		mine += pays_for(&request->payer, other);
	err = -EAGAIN;
	if (mine < REQUESTS_PER_USER)
		err = distmind_table_add(&distmind_requests, request, REQUESTS_MAX, &request->id);
	if (err) {
		strscpy(request->reason,
			"too many requests are waiting already: wait for their answers first",
			sizeof(request->reason));
		if (err == -EBUSY)
			err = -EAGAIN;
	} else {
		trace_distmind_request_add(request);
		distmind_netlink_notify_request(DISTMIND_CMD_REQUEST_ADD_NTF, request);
	}
	mutex_unlock(&distmind_request_lock);
	return err;
}

/* Under distmind_request_lock: from here on it is the waiter's alone. */
static void dequeue(struct distmind_request *request, int error)
{
	request->answered = true;
	request->error = error;
	distmind_table_del(&distmind_requests, request->id);
	trace_distmind_request_del(request);
	distmind_netlink_notify_request(DISTMIND_CMD_REQUEST_DEL_NTF, request);
}

/* Returns the error of the answer, or why there is none. */
static int wait_for_answer(struct distmind_request *request, u32 timeout_ms)
{
	long left;

	left = wait_for_completion_killable_timeout(&request->done, msecs_to_jiffies(timeout_ms));
	mutex_lock(&distmind_request_lock);
	if (!request->answered) {
		dequeue(request, left ? -EINTR : -ETIMEDOUT);
		if (distmind_netlink_has_daemon())
			snprintf(request->reason, sizeof(request->reason),
				 "no answer within %u ms: see the log of distmindd", timeout_ms);
		else
			snprintf(request->reason, sizeof(request->reason),
				 "nobody answers requests: start distmindd");
	}
	mutex_unlock(&distmind_request_lock);
	return request->error;
}

static void kill_vgpus(struct distmind_vgpu **vgpus, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		distmind_vgpu_kill(vgpus[i]);
		distmind_vgpu_put(vgpus[i]);
	}
}

/* Consumes the request's vgpus: each becomes the caller's or is killed. */
static int install(struct distmind_request *request, s32 __user *user)
{
	s32 fds[DISTMIND_ACQUIRE_MAX];
	struct file **files;
	u32 i, opened = 0, reserved = 0;
	int err = -ENOMEM;

	files = kcalloc(request->count, sizeof(*files), GFP_KERNEL);
	if (!files)
		goto err_kill;
	for (; opened < request->count; opened++) {
		files[opened] = distmind_client_open_lease(request->vgpus[opened]);
		if (IS_ERR(files[opened])) {
			err = PTR_ERR(files[opened]);
			goto err_kill;
		}
		/* The file holds it now. */
		distmind_vgpu_put(request->vgpus[opened]);
	}
	for (; reserved < request->count; reserved++) {
		fds[reserved] = get_unused_fd_flags(O_CLOEXEC);
		if (fds[reserved] < 0) {
			err = fds[reserved];
			goto err_fds;
		}
	}
	err = -EFAULT;
	if (copy_to_user(user, fds, request->count * sizeof(*fds)))
		goto err_fds;
	for (i = 0; i < request->count; i++)
		fd_install(fds[i], files[i]);
	kfree(files);
	return 0;

err_fds:
	while (reserved--)
		put_unused_fd(fds[reserved]);
err_kill:
	for (i = 0; i < opened; i++)
		fput(files[i]);
	kill_vgpus(request->vgpus + opened, request->count - opened);
	kfree(files);
	return err;
}

int distmind_request_acquire(struct distmind_acquire *arg)
{
	const struct distmind_vgpu_settings settings = {
		.memory = arg->memory,
		.objective_ns = arg->objective_ns,
		.share = arg->share,
		.class = arg->sched_class,
	};
	struct distmind_request *request;
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

	request = request_create(arg);
	if (!request)
		return -ENOMEM;
	err = enqueue(request);
	if (!err)
		err = wait_for_answer(request, arg->timeout_ms);
	if (!err)
		err = install(request, u64_to_user_ptr(arg->fds));
	arg->request = request->id;
	strscpy(arg->reason, request->reason, sizeof(arg->reason));
	request_destroy(request);
	return err;
}

static struct distmind_request *find_locked(u32 id, struct netlink_ext_ack *extack)
{
	struct distmind_request *request = distmind_table_find(&distmind_requests, id);

	lockdep_assert_held(&distmind_request_lock);
	if (!request)
		NL_SET_ERR_MSG(extack, "no such request: it was answered, timed out or given up");
	return request;
}

int distmind_request_grant(u32 id, const u32 *gpus, u32 count, struct netlink_ext_ack *extack)
{
	struct distmind_request *request;
	struct distmind_vgpu *vgpu;
	int err = 0;
	u32 i;

	mutex_lock(&distmind_request_lock);
	request = find_locked(id, extack);
	if (!request) {
		err = -ENOENT;
		goto out;
	}
	if (count != request->count) {
		NL_SET_ERR_MSG(extack, "gpu must be there once for each vgpu of the request");
		err = -EINVAL;
		goto out;
	}
	for (i = 0; i < count; i++) {
		vgpu = distmind_vgpu_create(&request->owner, &request->settings, gpus[i], extack);
		if (IS_ERR(vgpu)) {
			err = PTR_ERR(vgpu);
			kill_vgpus(request->vgpus, i);
			goto out;
		}
		request->vgpus[i] = vgpu;
	}
	dequeue(request, 0);
	complete(&request->done);
out:
	mutex_unlock(&distmind_request_lock);
	return err;
}

int distmind_request_refuse(u32 id, int error, const char *reason, struct netlink_ext_ack *extack)
{
	struct distmind_request *request;
	int err = 0;

	mutex_lock(&distmind_request_lock);
	request = find_locked(id, extack);
	if (request) {
		strscpy(request->reason, reason, sizeof(request->reason));
		dequeue(request, -error);
		complete(&request->done);
	} else {
		err = -ENOENT;
	}
	mutex_unlock(&distmind_request_lock);
	return err;
}

void distmind_request_exit(void)
{
	xa_destroy(&distmind_requests.objects);
}
