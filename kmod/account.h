/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_ACCOUNT_H
#define _DISTMIND_ACCOUNT_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "table.h"

struct seq_file;
struct user_namespace;

/* What a user can have; each has a row in account.c. */
enum distmind_limit {
	DISTMIND_LIMIT_FILE,
	DISTMIND_LIMIT_CLAIM,
	DISTMIND_LIMIT_VGPU,
	DISTMIND_LIMIT_HANDLE,
	DISTMIND_LIMIT_BUFFER,
	DISTMIND_LIMIT_EXPORT,
	DISTMIND_LIMIT_ATTACHMENT,
	DISTMIND_LIMIT_TIMELINE,
	DISTMIND_LIMIT_WATCH,
	DISTMIND_LIMIT_QUEUE,
	DISTMIND_LIMIT_REQUEST,
	DISTMIND_LIMIT_JOB,
	DISTMIND_LIMIT_WAIT,
	DISTMIND_LIMIT__COUNT
};

/**
 * struct distmind_chore - a bounded piece of work that a user has caused
 * @link: in the account's list, or empty
 * @run: does it, in process context, without a lock; what keeps the chore alive was
 *	taken by who posted it and is released by this
 */
struct distmind_chore {
	struct list_head link;
	void (*run)(struct distmind_chore *chore);
};

/**
 * struct distmind_account - a user, and what it has
 * @ref: held by everything that is counted here, by open files, by queued @work
 * @id: number of the account, for listings
 * @node: in the table of accounts by user; empty if another was there before it
 * @uid: a user of the initial user namespace
 * @ns: if that is root, a user namespace that it has made, held, or NULL
 * @used: how much there is of each
 * @refused: how often there would have been too many
 * @promised: bytes, the quotas of its vgpus together
 * @held: bytes that are charged to its vgpus, those that have ended included
 * @lock: guards @chores; nothing else is taken inside it but a workqueue's
 * @chores: that have been posted, in order
 * @work: runs them
 */
struct distmind_account {
	refcount_t ref;
	u32 id;
	struct hlist_node node;
	kuid_t uid;
	struct user_namespace *ns;
	atomic_t used[DISTMIND_LIMIT__COUNT];
	atomic_t refused[DISTMIND_LIMIT__COUNT];
	atomic64_t promised;
	atomic64_t held;
	spinlock_t lock; /* see above */
	struct list_head chores;
	struct work_struct work;
};

/**
 * struct distmind_account_row - what a user has of one kind of object
 * @what: its name
 * @used: how many
 * @limited: whether there is a limit
 * @max: which
 * @refused: how often it was reached
 */
struct distmind_account_row {
	const char *what;
	u32 used;
	bool limited;
	u32 max;
	u32 refused;
};

extern struct distmind_table distmind_accounts;

struct distmind_account *distmind_account_find(void);
struct distmind_account *distmind_account_from(unsigned long *id);
void distmind_account_get(struct distmind_account *account);
void distmind_account_put(struct distmind_account *account);

bool distmind_account_is_root(const struct distmind_account *account);
int distmind_account_charge(struct distmind_account *account, enum distmind_limit limit,
			    u32 count);
void distmind_account_add(struct distmind_account *account, enum distmind_limit limit, u32 count);
void distmind_account_uncharge(struct distmind_account *account, enum distmind_limit limit,
			       u32 count);
void distmind_account_promise(struct distmind_account *account, s64 bytes);
int distmind_account_take(struct distmind_account *account, u64 bytes);
void distmind_account_give_back(struct distmind_account *account, u64 bytes);
void distmind_account_get_row(struct distmind_account *account, enum distmind_limit limit,
			      struct distmind_account_row *row);
void distmind_account_show(struct distmind_account *account, struct seq_file *m);

void distmind_chore_init(struct distmind_chore *chore, void (*run)(struct distmind_chore *chore));
bool distmind_account_post(struct distmind_account *account, struct distmind_chore *chore);
void distmind_account_help(struct distmind_account *account);

int distmind_account_init(void);
void distmind_account_drain(void);
void distmind_account_exit(void);

#endif /* _DISTMIND_ACCOUNT_H */
