// SPDX-License-Identifier: GPL-2.0-or-later
/* A name server that does not answer stops nobody but those who asked for the name. */
#include "../catalog/bed.h"

#include <netdb.h>
#include <pthread.h>

#define NAME "http://etcd.example:2379"
#define ONE_TRY_MS 200

/* getaddrinfo() below waits until it is told to go on, and not for ever. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int asked, answered; /* how often */
	bool answers;
} resolver = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false };

/* Takes the place of the C library's, for libcurl's thread too. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **result)
{
	struct timespec end;

	(void)node;
	(void)service;
	(void)hints;
	(void)result;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WAIT_S / 4;
	pthread_mutex_lock(&resolver.lock);
	resolver.asked++;
	while (!resolver.answers &&
	       !pthread_cond_timedwait(&resolver.changed, &resolver.lock, &end))
		;
	resolver.answered++;
	pthread_cond_broadcast(&resolver.changed);
	pthread_mutex_unlock(&resolver.lock);
	return EAI_AGAIN;
}

static unsigned int asked(void)
{
	unsigned int count;

	pthread_mutex_lock(&resolver.lock);
	count = resolver.asked;
	pthread_mutex_unlock(&resolver.lock);
	return count;
}

static unsigned int answered(void)
{
	unsigned int count;

	pthread_mutex_lock(&resolver.lock);
	count = resolver.answered;
	pthread_mutex_unlock(&resolver.lock);
	return count;
}

static int fall_silent(void **state)
{
	(void)state;
	resolver.answers = false;
	resolver.asked = resolver.answered = 0;
	return 0;
}

/* No thread of libcurl is in there when the next test begins. */
static int answer_all(void **state)
{
	(void)state;
	pthread_mutex_lock(&resolver.lock);
	resolver.answers = true;
	pthread_cond_broadcast(&resolver.changed);
	while (resolver.answered < resolver.asked)
		pthread_cond_wait(&resolver.changed, &resolver.lock);
	pthread_mutex_unlock(&resolver.lock);
	return 0;
}

static struct catalog_store *open_by_name(void)
{
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_store *store;

	store = catalog_etcd_open(bed.loop, NAME, &no_tls, ONE_TRY_MS, error);
	if (!store)
		fail_msg("%s", error);
	return store;
}

static void the_loop_goes_on_when_a_request_gives_up(void **state)
{
	struct catalog_store *store = open_by_name();
	struct outcome outcome = { 0 };

	(void)state;
	assert_int_equal(catalog_store_range(store, "x", CATALOG_ONE, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -EHOSTUNREACH);
	assert_contains(outcome.error, NAME);
	assert_true(asked() > 0);
	assert_int_equal(answered(), 0);
	forget(&outcome);
	catalog_store_close(store);
	assert_int_equal(answered(), 0);
}

static void a_store_is_closed_while_a_name_is_being_asked_for(void **state)
{
	struct catalog_store *store = open_by_name();
	struct outcome outcome = { 0 };

	(void)state;
	assert_int_equal(catalog_store_range(store, "x", CATALOG_ONE, keep_outcome, &outcome), 0);
	wait_until(asked());
	catalog_store_close(store);
	assert_int_equal(outcome.err, -ECANCELED);
	assert_int_equal(answered(), 0);
	forget(&outcome);
}

#define SILENT(test) cmocka_unit_test_setup_teardown(test, fall_silent, answer_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SILENT(the_loop_goes_on_when_a_request_gives_up),
		SILENT(a_store_is_closed_while_a_name_is_being_asked_for),
	};

	return cmocka_run_group_tests_name("catalog_resolver", tests, setup_directory,
					   teardown_bed);
}
