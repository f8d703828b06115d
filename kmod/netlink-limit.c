// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits over netlink: what each user has of everything that is counted, see account.c.
 *
 * A dump goes from account to account by number. It holds one at a time, for a message.
 */
#include <linux/err.h>
#include <net/genetlink.h>

#include "account.h"
#include "netlink-gen.h"
#include "netlink.h"

/* Returns false if it does not fit. */
static bool fill_row(struct sk_buff *skb, const struct distmind_account *account,
		     const struct distmind_account_row *row)
{
	return !(nla_put_u32(skb, DISTMIND_A_LIMIT_UID,
			     from_kuid_munged(&init_user_ns, account->uid)) ||
		 (account->ns && nla_put_flag(skb, DISTMIND_A_LIMIT_CONTAINER)) ||
		 nla_put_string(skb, DISTMIND_A_LIMIT_WHAT, row->what) ||
		 nla_put_u32(skb, DISTMIND_A_LIMIT_USED, row->used) ||
		 (row->limited && nla_put_u32(skb, DISTMIND_A_LIMIT_ALLOWED, row->max)) ||
		 nla_put_u32(skb, DISTMIND_A_LIMIT_REFUSED, row->refused));
}

static bool dump_row(struct sk_buff *skb, struct netlink_callback *cb,
		     struct distmind_account *account, enum distmind_limit limit)
{
	struct distmind_account_row row;
	void *header;

	header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			     &distmind_netlink_family, NLM_F_MULTI, DISTMIND_CMD_LIMIT_GET);
	if (!header)
		return false;
	distmind_account_get_row(account, limit, &row);
	if (!fill_row(skb, account, &row)) {
		genlmsg_cancel(skb, header);
		return false;
	}
	genl_dump_check_consistent(cb, header);
	genlmsg_end(skb, header);
	return true;
}

static int reply_row(struct genl_info *info, const struct distmind_account *account,
		     const struct distmind_account_row *row)
{
	struct sk_buff *msg = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL_ACCOUNT);
	void *header;

	if (!msg)
		return -ENOMEM;
	header = genlmsg_put_reply(msg, info, &distmind_netlink_family, 0,
				   DISTMIND_CMD_LIMIT_GET);
	if (!header || !fill_row(msg, account, row)) {
		nlmsg_free(msg);
		return -EMSGSIZE;
	}
	genlmsg_end(msg, header);
	return genlmsg_reply(msg, info);
}

/* Of the caller itself. */
int distmind_nl_limit_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct distmind_account_row row;
	struct distmind_account *account;
	int i, err = -ENOENT;

	if (GENL_REQ_ATTR_CHECK(info, DISTMIND_A_LIMIT_WHAT)) {
		NL_SET_ERR_MSG(info->extack, "what is missing");
		return -EINVAL;
	}
	account = distmind_account_find();
	if (IS_ERR(account))
		return PTR_ERR(account);
	for (i = 0; i < DISTMIND_LIMIT__COUNT; i++) {
		distmind_account_get_row(account, i, &row);
		if (nla_strcmp(info->attrs[DISTMIND_A_LIMIT_WHAT], row.what))
			continue;
		err = reply_row(info, account, &row);
		break;
	}
	if (i == DISTMIND_LIMIT__COUNT)
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[DISTMIND_A_LIMIT_WHAT],
				    "nothing of that name is limited");
	distmind_account_put(account);
	return err;
}

/*
 * From where the last message ended: an account, and a limit of it. Without CAP_NET_ADMIN that
 * of who asks, which the user's number alone does not tell, see account.c.
 */
int distmind_nl_limit_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	unsigned long id = cb->args[0], from = id;
	bool all = netlink_capable(cb->skb, CAP_NET_ADMIN);
	struct distmind_account *account, *own;
	int limit = cb->args[1];

	own = distmind_account_find();
	if (IS_ERR(own))
		return PTR_ERR(own);
	cb->seq = distmind_table_generation(&distmind_accounts);
	while ((account = distmind_account_from(&id))) {
		/* The one that it was at is gone. */
		if (id != from)
			limit = 0;
		if (all || account == own) {
			while (limit < DISTMIND_LIMIT__COUNT && dump_row(skb, cb, account, limit))
				limit++;
		} else {
			limit = DISTMIND_LIMIT__COUNT;
		}
		distmind_account_put(account);
		if (limit < DISTMIND_LIMIT__COUNT)
			break;
		from = ++id;
		limit = 0;
	}
	distmind_account_put(own);
	cb->args[0] = id;
	cb->args[1] = limit;
	return skb->len;
}
