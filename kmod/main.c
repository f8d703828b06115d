// SPDX-License-Identifier: GPL-2.0-only
/*
 * distmind.ko: virtual GPUs under /dev/distmind/.
 *
 *   node       the device nodes          ioctl    the border to user space
 *   control    asks for vgpus            claim    who waits, and the answers
 *   engine     serves a gpu              gpu      a physical GPU and its heap
 *   client     uses a vgpu               vgpu     what a tenant is promised
 *   handle     how a client names what is its own
 *   submit     how jobs come to be       queue    a stream of them
 *   timeline   what they wait for and signal
 *   sched      who runs next             lane     where it runs
 *   grant      lanes lent to processes   ladder   those who do not yield
 *   preempt    vendors' hooks            policy/  whom to pick and whom to ask
 *   buffer     memory of a vgpu          dmabuf   the same, for other devices
 *   payment    what others pay for it    pin      how much of it cannot be put out
 *   heap       a gpu's address space     residency  who is in it
 *   tenant     a vgpu, on its gpu        debt     what one that has gone has had too much
 *   extent     what fills weights        netlink  the operator's and the daemon's side
 *   table      objects by number         ledger   whether all of them went
 *   account    what each user has, may have, and causes
 */
#include <linux/init.h>
#include <linux/module.h>

#include "account.h"
#include "gpu.h"
#include "ladder.h"
#include "ledger.h"
#include "netlink.h"
#include "node.h"
#include "room.h"
#include "claim.h"
#include "vgpu.h"

static int __init distmind_init(void)
{
	int err;

	distmind_ledger_init();
	err = distmind_account_init();
	if (err)
		goto err_ledger;
	err = distmind_ladder_init();
	if (err)
		goto err_account;
	err = distmind_node_init();
	if (err)
		goto err_ladder;
	err = distmind_netlink_init();
	if (err)
		goto err_node;
	err = distmind_node_publish();
	if (err)
		goto err_netlink;
	return 0;

err_netlink:
	distmind_netlink_exit();
err_node:
	distmind_node_exit();
err_ladder:
	distmind_ladder_exit();
err_account:
	distmind_account_exit();
err_ledger:
	distmind_ledger_exit();
	return err;
}

static void __exit distmind_exit(void)
{
	/* Nobody may create anything any more before what is left is released. */
	distmind_node_withdraw();
	distmind_netlink_exit();
	distmind_vgpu_exit();
	distmind_account_drain();
	distmind_gpu_exit();
	distmind_room_exit();
	distmind_ladder_exit();
	distmind_claim_exit();
	distmind_account_exit();
	distmind_node_exit();
	distmind_ledger_exit();
}

module_init(distmind_init);
module_exit(distmind_exit);

MODULE_DESCRIPTION("Virtual GPUs: a pool of GPUs and memory for deep learning");
MODULE_AUTHOR("The DistMind authors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
