// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accounts: what each user has, how much that may be, and the work that it causes.
 *
 * Everything that somebody without privileges can create is counted for its user, and
 * refused beyond a limit that the operator sets (the module's parameters max_*). Root
 * of the initial user namespace is counted and not limited, but for claims: it is who
 * sets the limits, and the daemon.
 *
 * Memory is counted as well: what is charged to the vgpus of a user (see vgpu.c). A vgpu
 * that has ended leaves what somebody still maps, or has a descriptor of. That counts for
 * its user as before, who gets no more than is left then of what the vgpus are promised
 * that it has now. So nobody has more than its vgpus were promised at one time, however
 * often it acquires others.
 *
 * Work that one user's objects cause in another's context, or under a lock that others
 * need, is done here instead: it is cut into chores, each of which is bounded, and a
 * worker of the user's own runs one after the other. So a user who causes more than it
 * can pay for waits for its own work. Who submits jobs runs some of its chores itself.
 *
 * An account lives as long as something refers to it. The tables of accounts, by user and
 * by number, are guarded by accounts_lock, under which the last reference goes.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "account.h"

/* Chores that are run before another user's worker has its turn. */
#define CHORES_AT_ONCE 16

/**
 * struct limit - of one kind of object
 * @name: for those who read it
 * @max: how many a user may have
 * @error: what it is told then: the same call succeeds later by itself, or it does not
 */
struct limit {
	const char *name;
	unsigned int max;
	int error;
};

static struct limit limits[DISTMIND_LIMIT__COUNT] = {
	[DISTMIND_LIMIT_FILE] = { "files", 8192, -EDQUOT },
	[DISTMIND_LIMIT_CLAIM] = { "claims", 64, -EAGAIN },
	[DISTMIND_LIMIT_VGPU] = { "vgpus", 1024, -EDQUOT },
	[DISTMIND_LIMIT_HANDLE] = { "handles", 65536, -EDQUOT },
	[DISTMIND_LIMIT_BUFFER] = { "buffers", 32768, -EDQUOT },
	[DISTMIND_LIMIT_EXPORT] = { "exports", 16384, -EDQUOT },
	[DISTMIND_LIMIT_ATTACHMENT] = { "attachments", 16384, -EDQUOT },
	[DISTMIND_LIMIT_TIMELINE] = { "timelines", 16384, -EDQUOT },
	[DISTMIND_LIMIT_WATCH] = { "watches", 4096, -EDQUOT },
	[DISTMIND_LIMIT_QUEUE] = { "queues", 4096, -EDQUOT },
	[DISTMIND_LIMIT_REQUEST] = { "requests", 65536, -EDQUOT },
	[DISTMIND_LIMIT_JOB] = { "jobs", 131072, -EAGAIN },
	[DISTMIND_LIMIT_WAIT] = { "waits", 1048576, -EAGAIN },
};

#define LIMIT(what, index) \
	module_param_named(max_ ## what, limits[index].max, uint, 0644); \
	MODULE_PARM_DESC(max_ ## what, "how many " #what " a user may have")

LIMIT(files, DISTMIND_LIMIT_FILE);
LIMIT(claims, DISTMIND_LIMIT_CLAIM);
LIMIT(vgpus, DISTMIND_LIMIT_VGPU);
LIMIT(handles, DISTMIND_LIMIT_HANDLE);
LIMIT(buffers, DISTMIND_LIMIT_BUFFER);
LIMIT(exports, DISTMIND_LIMIT_EXPORT);
LIMIT(attachments, DISTMIND_LIMIT_ATTACHMENT);
LIMIT(timelines, DISTMIND_LIMIT_TIMELINE);
LIMIT(watches, DISTMIND_LIMIT_WATCH);
LIMIT(queues, DISTMIND_LIMIT_QUEUE);
LIMIT(requests, DISTMIND_LIMIT_REQUEST);
LIMIT(jobs, DISTMIND_LIMIT_JOB);
LIMIT(waits, DISTMIND_LIMIT_WAIT);

static DEFINE_SPINLOCK(accounts_lock);
static DEFINE_HASHTABLE(accounts, 8);
struct distmind_table distmind_accounts = DISTMIND_TABLE_INIT(distmind_accounts);
static struct workqueue_struct *workers;

/*
 * Who has made a user namespace can be as many users there as were mapped for it, so all
 * that are in it are one: its maker. Root makes them for others, as containers: each of
 * these is somebody.
 */
static kuid_t find_payer(struct user_namespace **container)
{
	kuid_t uid = current_euid();
	struct user_namespace *ns;

	*container = NULL;
	for (ns = current_user_ns(); ns->parent; ns = ns->parent) {
		uid = ns->owner;
		*container = ns;
	}
	if (!uid_eq(uid, GLOBAL_ROOT_UID))
		*container = NULL;
	return uid;
}

/* With a reference; under accounts_lock. */
static struct distmind_account *lookup(kuid_t uid, const struct user_namespace *ns)
{
	struct distmind_account *account;

	hash_for_each_possible(accounts, account, node, __kuid_val(uid)) {
		if (uid_eq(account->uid, uid) && account->ns == ns) {
			refcount_inc(&account->ref);
			return account;
		}
	}
	return NULL;
}

static struct distmind_chore *take_chore(struct distmind_account *account)
{
	struct distmind_chore *chore;

	spin_lock(&account->lock);
	chore = list_first_entry_or_null(&account->chores, struct distmind_chore, link);
	if (chore)
		list_del_init(&chore->link);
	spin_unlock(&account->lock);
	return chore;
}

/* Returns false if there was none. */
static bool run_chore(struct distmind_account *account)
{
	struct distmind_chore *chore = take_chore(account);

	if (chore)
		chore->run(chore);
	cond_resched();
	return chore;
}

/* The reference of the queued work is the account's own while it runs. */
static void queue_chores(struct distmind_account *account)
{
	refcount_inc(&account->ref);
	if (!queue_work(workers, &account->work))
		distmind_account_put(account);
}

static void run_chores(struct work_struct *work)
{
	struct distmind_account *account = container_of(work, struct distmind_account, work);
	u32 i;

	for (i = 0; i < CHORES_AT_ONCE && run_chore(account); i++)
		;
	/* Behind the work of other users. */
	if (i == CHORES_AT_ONCE)
		queue_chores(account);
	distmind_account_put(account);
}

static void account_free(struct distmind_account *account)
{
	if (account->ns)
		put_user_ns(account->ns);
	kfree(account);
}

/* That of the calling process, with a reference. */
struct distmind_account *distmind_account_find(void)
{
	struct distmind_account *account, *made;
	struct user_namespace *ns;
	kuid_t uid = find_payer(&ns);
	int err;

	spin_lock(&accounts_lock);
	account = lookup(uid, ns);
	spin_unlock(&accounts_lock);
	if (account)
		return account;
	made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT);
	if (!made)
		return ERR_PTR(-ENOMEM);
	refcount_set(&made->ref, 1);
	made->uid = uid;
	made->ns = ns ? get_user_ns(ns) : NULL;
	spin_lock_init(&made->lock);
	INIT_LIST_HEAD(&made->chores);
	INIT_WORK(&made->work, run_chores);
	INIT_HLIST_NODE(&made->node);
	err = distmind_table_add(&distmind_accounts, made, U32_MAX, &made->id);
	if (err) {
		account_free(made);
		return ERR_PTR(err);
	}
	spin_lock(&accounts_lock);
	account = lookup(uid, ns);
	if (!account)
		hash_add(accounts, &made->node, __kuid_val(uid));
	spin_unlock(&accounts_lock);
	if (!account)
		return made;
	distmind_account_put(made);
	return account;
}

/* The first account with a number of at least *id, with a reference. */
struct distmind_account *distmind_account_from(unsigned long *id)
{
	struct distmind_account *account;

	spin_lock(&accounts_lock);
	account = distmind_table_from(&distmind_accounts, id);
	if (account)
		refcount_inc(&account->ref);
	spin_unlock(&accounts_lock);
	return account;
}

void distmind_account_get(struct distmind_account *account)
{
	refcount_inc(&account->ref);
}

void distmind_account_put(struct distmind_account *account)
{
	bool last;
	int i;

	if (refcount_dec_not_one(&account->ref))
		return;
	spin_lock(&accounts_lock);
	last = refcount_dec_and_test(&account->ref);
	if (last) {
		hash_del(&account->node);
		distmind_table_del(&distmind_accounts, account->id);
	}
	spin_unlock(&accounts_lock);
	if (!last)
		return;
	for (i = 0; i < DISTMIND_LIMIT__COUNT; i++)
		WARN_ON(atomic_read(&account->used[i]));
	WARN_ON(atomic64_read(&account->promised) || atomic64_read(&account->held));
	account_free(account);
}

/* Of the initial user namespace. */
bool distmind_account_is_root(const struct distmind_account *account)
{
	return !account->ns && uid_eq(account->uid, GLOBAL_ROOT_UID);
}

static bool account_is_limited(const struct distmind_account *account, enum distmind_limit limit)
{
	return limit == DISTMIND_LIMIT_CLAIM || !distmind_account_is_root(account);
}

/* All of @count, or the error that says why not. */
int distmind_account_charge(struct distmind_account *account, enum distmind_limit limit,
			    u32 count)
{
	bool limited = account_is_limited(account, limit);
	unsigned int max = limited ? READ_ONCE(limits[limit].max) : INT_MAX;
	int used = atomic_read(&account->used[limit]);

	max = min_t(unsigned int, max, INT_MAX);
	do {
		/* A limit that was lowered may be below what there is. */
		if (used > max || count > max - used) {
			atomic_inc(&account->refused[limit]);
			return limits[limit].error;
		}
	} while (!atomic_try_cmpxchg(&account->used[limit], &used, used + count));
	return 0;
}

/* It has them already, whether they are too many or not. */
void distmind_account_add(struct distmind_account *account, enum distmind_limit limit, u32 count)
{
	atomic_add(count, &account->used[limit]);
}

void distmind_account_uncharge(struct distmind_account *account, enum distmind_limit limit,
			       u32 count)
{
	WARN_ON(atomic_sub_return(count, &account->used[limit]) < 0);
}

/* Its vgpus may have so much more, or less. */
void distmind_account_promise(struct distmind_account *account, s64 bytes)
{
	WARN_ON(atomic64_add_return(bytes, &account->promised) < 0);
}

/* Memory of one of its vgpus. */
int distmind_account_take(struct distmind_account *account, u64 bytes)
{
	s64 promised = atomic64_read(&account->promised), held = atomic64_read(&account->held);

	if (!account_is_limited(account, DISTMIND_LIMIT_VGPU))
		promised = S64_MAX;
	do {
		if (held > promised || bytes > promised - held)
			return -EDQUOT;
	} while (!atomic64_try_cmpxchg(&account->held, &held, held + bytes));
	return 0;
}

void distmind_account_give_back(struct distmind_account *account, u64 bytes)
{
	WARN_ON(atomic64_sub_return(bytes, &account->held) < 0);
}

/* What its user has, and may have. */
void distmind_account_get_row(struct distmind_account *account, enum distmind_limit limit,
			      struct distmind_account_row *row)
{
	row->what = limits[limit].name;
	row->used = atomic_read(&account->used[limit]);
	row->limited = account_is_limited(account, limit);
	row->max = READ_ONCE(limits[limit].max);
	row->refused = atomic_read(&account->refused[limit]);
}

void distmind_account_show(struct distmind_account *account, struct seq_file *m)
{
	struct distmind_account_row row;
	int i;

	for (i = 0; i < DISTMIND_LIMIT__COUNT; i++) {
		distmind_account_get_row(account, i, &row);
		seq_printf(m, "distmind-%s:\t%u", row.what, row.used);
		if (row.limited)
			seq_printf(m, " of %u", row.max);
		seq_putc(m, '\n');
	}
	seq_printf(m, "distmind-memory:\t%lld KiB", atomic64_read(&account->held) >> 10);
	if (account_is_limited(account, DISTMIND_LIMIT_VGPU))
		seq_printf(m, " of %lld KiB", atomic64_read(&account->promised) >> 10);
	seq_putc(m, '\n');
}

void distmind_chore_init(struct distmind_chore *chore, void (*run)(struct distmind_chore *chore))
{
	INIT_LIST_HEAD(&chore->link);
	chore->run = run;
}

/*
 * Have it run at the user's expense. Returns false if it is posted already and has not
 * begun; else it has whatever reference the caller has taken for it. Any lock but the
 * account's own may be held.
 */
bool distmind_account_post(struct distmind_account *account, struct distmind_chore *chore)
{
	bool posted;

	spin_lock(&account->lock);
	posted = list_empty(&chore->link);
	if (posted)
		list_add_tail(&chore->link, &account->chores);
	spin_unlock(&account->lock);
	if (posted)
		queue_chores(account);
	return posted;
}

/* Who causes work does some of what is left of it: without a lock, by the user itself. */
void distmind_account_help(struct distmind_account *account)
{
	u32 i;

	for (i = 0; i < CHORES_AT_ONCE && !fatal_signal_pending(current); i++) {
		if (!run_chore(account))
			break;
	}
}

int __init distmind_account_init(void)
{
	workers = alloc_workqueue("distmind", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return workers ? 0 : -ENOMEM;
}

/* Nothing is open any more: what has been posted ends. */
void distmind_account_drain(void)
{
	drain_workqueue(workers);
}

void distmind_account_exit(void)
{
	destroy_workqueue(workers);
	xa_destroy(&distmind_accounts.objects);
}
