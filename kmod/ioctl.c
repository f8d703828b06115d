// SPDX-License-Identifier: GPL-2.0-only
/*
 * The border: structures cross it here, once, in both directions. A call works
 * on a copy, so nothing is read twice from memory that the caller can change.
 */
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "buffer.h"
#include "ioctl.h"

/* Room for the largest structure of uapi/linux/distmind.h. */
union argument {
	struct distmind_query query;
	struct distmind_acquire acquire;
	struct distmind_engine_register engine_register;
	struct distmind_vgpu_info vgpu_info;
	struct distmind_buffer_create buffer_create;
	struct distmind_handle_destroy handle_destroy;
	struct distmind_buffer_info buffer_info;
	struct distmind_buffer_export buffer_export;
	struct distmind_engine_exchange engine_exchange;
	struct distmind_timeline_create timeline_create;
	struct distmind_timeline_export timeline_export;
	struct distmind_timeline_import timeline_import;
	struct distmind_timeline_wait timeline_wait;
	struct distmind_timeline_signal timeline_signal;
	struct distmind_timeline_watch timeline_watch;
	struct distmind_queue_create queue_create;
	struct distmind_submit submit;
	struct distmind_buffer_import buffer_import;
	struct distmind_queue_watch queue_watch;
	struct distmind_queue_room queue_room;
	struct distmind_grant_end grant_end;
	struct distmind_timeline_fail timeline_fail;
};

long distmind_ioctl_dispatch(struct file *file, unsigned int cmd, unsigned long arg,
			     const struct distmind_ioctl *table, size_t count)
{
	const struct distmind_ioctl *entry = NULL;
	void __user *user = (void __user *)arg;
	size_t size = _IOC_SIZE(cmd);
	union argument copy;
	size_t i;
	int err;

	for (i = 0; i < count; i++) {
		/* Everything but the size: that may be another version's. */
		if (!((table[i].cmd ^ cmd) & ~IOCSIZE_MASK)) {
			entry = &table[i];
			break;
		}
	}
	if (!entry)
		return -ENOTTY;
	if (size < _IOC_SIZE(entry->cmd))
		return -EINVAL;

	err = copy_struct_from_user(&copy, entry->size, user, size);
	if (err)
		return err;
	/*
	 * Can the answer be written? Found out now, while there is nothing to undo,
	 * and with the caller's own bytes: a call that fails leaves them as they are,
	 * which fault_in_writeable() would not.
	 */
	size = min(size, entry->size);
	if (copy_to_user(user, &copy, size))
		return -EFAULT;
	err = entry->call(file, &copy, user);
	if (err)
		return err;
	return copy_to_user(user, &copy, size) ? -EFAULT : 0;
}

int distmind_ioctl_query(struct file *file, void *arg, void __user *user)
{
	struct distmind_query *query = arg;

	query->version = DISTMIND_ABI_VERSION;
	query->page_size = PAGE_SIZE;
	query->features = DISTMIND_FEATURE_DMABUF;
	if (IS_ENABLED(CONFIG_MEMCG))
		query->features |= DISTMIND_FEATURE_MEMCG;
	query->buffer_max = DISTMIND_BUFFER_MAX;
	return 0;
}

/* Terminated, zero behind the end, and of characters that need no quoting. */
bool distmind_ioctl_name_valid(const char name[DISTMIND_NAME_LEN])
{
	size_t len = strnlen(name, DISTMIND_NAME_LEN);
	size_t i;

	if (len == DISTMIND_NAME_LEN || memchr_inv(name + len, 0, DISTMIND_NAME_LEN - len))
		return false;
	for (i = 0; i < len; i++) {
		if (!isascii(name[i]) || (!isalnum(name[i]) && !strchr("._-", name[i])))
			return false;
	}
	return true;
}
