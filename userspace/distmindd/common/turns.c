// SPDX-License-Identifier: GPL-2.0-or-later
#include "turns.h"

#include "../../common/clock.h"
#include "log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What a turn that can be continued takes: well below the limit, on a slow host too. */
#define SHARE_US 5000
/* A loop that is late all the time says so, but not all the time. */
#define WARN_US 10000000

#define UNNAMED "catalog or transfers"

static struct {
	struct turns account;
	const char *what;
	uint64_t begun_us; /* 0: none is under way */
	uint64_t waited_us; /* for a processor, until it begun */
	uint64_t warned_us;
	int schedstat; /* of the thread; 0: not opened yet, negative: there is none */
} current;

/* How long this thread has been ready to run and did not: the second number there, in ns. */
static uint64_t waited_us(void)
{
	char text[96];
	char *end;
	ssize_t len;

	if (!current.schedstat)
		current.schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (current.schedstat < 0)
		return 0;
	len = pread(current.schedstat, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return 0;
	text[len] = '\0';
	strtoull(text, &end, 10);
	return strtoull(end, NULL, 10) / 1000;
}

static void begin(void)
{
	current.what = UNNAMED;
	current.waited_us = waited_us();
	current.begun_us = clock_us();
}

static void warn(uint64_t us, uint64_t waited)
{
	uint64_t now = clock_us();

	if (current.warned_us && now - current.warned_us < WARN_US)
		return;
	current.warned_us = now;
	log_warning("loop-held-up", LOG_S("by", current.what), LOG_U("us", us),
		    LOG_U("waited-for-processor-us", waited));
}

static void end(void)
{
	struct turns *account = &current.account;
	uint64_t took = clock_us() - current.begun_us;
	uint64_t waited = waited_us() - current.waited_us, us;
	unsigned int bucket = 0;

	if (waited > took)
		waited = took;
	us = took - waited;
	while (bucket < TURNS_BUCKETS - 1 && us >> bucket)
		bucket++;
	account->count++;
	account->buckets[bucket]++;
	if (us >= account->longest.us) {
		account->longest.us = us;
		account->longest.waited_us = waited;
		account->longest.at = (uint64_t)time(NULL);
		account->longest.what = current.what;
	}
	if (us > TURNS_LIMIT_US) {
		account->late++;
		warn(us, waited);
	}
	current.begun_us = 0;
}

int turns_run(sd_event *loop, uint64_t us)
{
	int ret = sd_event_prepare(loop);

	if (!ret)
		ret = sd_event_wait(loop, us);
	if (ret <= 0)
		return ret;
	begin();
	ret = sd_event_dispatch(loop);
	end();
	return ret < 0 ? ret : 1;
}

void turns_name(const char *what)
{
	current.what = what;
}

bool turns_over(void)
{
	return current.begun_us && clock_us() - current.begun_us >= SHARE_US;
}

const struct turns *turns_account(void)
{
	return &current.account;
}

void turns_reset(void)
{
	current.account = (struct turns){ 0 };
}

json_t *turns_describe(void)
{
	const struct turns *account = &current.account;
	json_t *buckets = json_array();

	for (unsigned int i = 0; i < TURNS_BUCKETS; i++)
		json_array_append_new(buckets, json_integer((json_int_t)account->buckets[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "count",
			 (json_int_t)account->count, "late", (json_int_t)account->late, "limit_us",
			 (json_int_t)TURNS_LIMIT_US, "longest_us", (json_int_t)account->longest.us,
			 "longest_waited_us", (json_int_t)account->longest.waited_us, "longest_at",
			 (json_int_t)account->longest.at, "longest_what",
			 account->longest.what ? account->longest.what : "", "buckets", buckets);
}
