// SPDX-License-Identifier: GPL-2.0-or-later
/* An etcd that wants certificates, and what is told when one is not right. */
#include "../catalog/certificates.h"
#include "../catalog/host.h"

#include "../../userspace/catalog/tls.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Two authorities; of the first are the server and host, the stranger is of the other. */
static struct {
	struct pair ca, other_ca;
	struct pair server, misplaced; /* the second is for another address */
	struct pair host, stranger;
} pairs;

static int setup_tls(void **state)
{
	setup_directory(state);
	make_pair(&pairs.ca, bed.directory, "ca", NULL, NULL);
	make_pair(&pairs.other_ca, bed.directory, "other-ca", NULL, NULL);
	make_pair(&pairs.server, bed.directory, "server", &pairs.ca, "IP:127.0.0.1");
	make_pair(&pairs.misplaced, bed.directory, "misplaced", &pairs.ca, "IP:127.0.0.2");
	make_pair(&pairs.host, bed.directory, "host", &pairs.ca, "DNS:host");
	make_pair(&pairs.stranger, bed.directory, "stranger", &pairs.other_ca, "DNS:host");
	if (!etcd_server_program())
		return 0;
	bed.server.ca = pairs.ca.certificate;
	bed.server.certificate = pairs.server.certificate;
	bed.server.key = pairs.server.key;
	etcd_server_create(&bed.server, 1, bed.directory);
	return 0;
}

static struct catalog_tls tls_of(const struct pair *ca, const struct pair *pair)
{
	return (struct catalog_tls){
		.ca = ca ? ca->certificate : NULL,
		.certificate = pair ? pair->certificate : NULL,
		.key = pair ? pair->key : NULL,
	};
}

static struct catalog_store *open_at(const char *endpoints, const struct pair *ca,
				     const struct pair *pair)
{
	const struct catalog_tls tls = tls_of(ca, pair);
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_store *store;

	store = catalog_etcd_open(bed.loop, endpoints, &tls, TIMEOUT_MS, error);
	if (!store)
		fail_msg("%s", error);
	return store;
}

static void a_host_with_a_certificate_joins(void **state)
{
	struct host host, witness;

	(void)state;
	SKIP_WITHOUT_ETCD();
	assert_contains(bed.server.client, "https://");
	host_open_store(&host, "tls", open_at(bed.server.client, &pairs.ca, &pairs.host), LIST_MS);
	host_open_store(&witness, "tls", open_at(bed.server.client, &pairs.ca, &pairs.host),
			1000000);
	/* Once it has listed, the witness hears of it by its watch alone. */
	assert_int_equal(host_sync(&witness), 0);
	host_join(&host, "a", 60, true);
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_flush(&host), 0);
	wait_until(catalog_host_find(witness.catalog, "a") && holders(&witness, "x", true) == 1);
	assert_string_equal(catalog_trouble(host.catalog), "");
	catalog_close(host.catalog);
	catalog_close(witness.catalog);
}

/* Neither a read nor a write; the error names what is to be done. */
static void expect_refusal(const struct pair *ca, const struct pair *pair, const char *words)
{
	struct catalog_store *store = open_at(bed.server.client, ca, pair);
	struct catalog_write write = { "refused", "value", 5, 0 };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_store_range(store, "x", CATALOG_ONE, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -EHOSTUNREACH);
	assert_contains(outcome.error, bed.server.client);
	assert_contains(outcome.error, words);
	forget(&outcome);
	assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_contains(outcome.error, words);
	assert_true(outcome.err == -EHOSTUNREACH || outcome.err == -ETIMEDOUT);
	catalog_store_close(store);
}

static void expect_nothing_written(void)
{
	struct catalog_store *store = open_at(bed.server.client, &pairs.ca, &pairs.host);
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_store_range(store, "refused", CATALOG_ONE, keep_outcome, &outcome),
			 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	assert_int_equal(outcome.entries.count, 0);
	catalog_store_close(store);
}

static void a_certificate_of_another_authority_is_refused(void **state)
{
	(void)state;
	SKIP_WITHOUT_ETCD();
	expect_refusal(&pairs.ca, &pairs.stranger,
		       "it does not accept: give one of its authority as certificate");
	expect_nothing_written();
}

static void a_host_without_a_certificate_is_refused(void **state)
{
	(void)state;
	SKIP_WITHOUT_ETCD();
	expect_refusal(&pairs.ca, NULL,
		       "it does not accept: give one of its authority as certificate");
	expect_nothing_written();
}

static void a_server_of_another_authority_is_not_believed(void **state)
{
	static const char words[] = "the server's certificate has to be for its address, and of "
				    "the authority that is given as ca";

	(void)state;
	SKIP_WITHOUT_ETCD();
	expect_refusal(&pairs.other_ca, &pairs.host, words);
	/* The system knows neither. */
	expect_refusal(NULL, &pairs.host, words);
}

static void a_server_at_another_address_is_not_believed(void **state)
{
	struct etcd_server good = bed.server;
	char directory[128];

	(void)state;
	SKIP_WITHOUT_ETCD();
	bed.server = (struct etcd_server){
		.ca = pairs.ca.certificate,
		.certificate = pairs.misplaced.certificate,
		.key = pairs.misplaced.key,
	};
	snprintf(directory, sizeof(directory), "%s/misplaced", bed.directory);
	assert_int_equal(mkdir(directory, 0700), 0);
	etcd_server_create(&bed.server, 1, directory);
	expect_refusal(&pairs.ca, &pairs.host, "127.0.0.1");
	expect_refusal(&pairs.ca, &pairs.host, "has to be for its address");
	etcd_server_end(&bed.server);
	bed.server = good;
}

/* As a tool that renews certificates does it. */
static void a_certificate_is_renewed_without_a_restart(void **state)
{
	struct catalog_write write = { "renewed", "value", 5, 0 };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	struct pair pair;

	(void)state;
	SKIP_WITHOUT_ETCD();
	make_pair(&pair, bed.directory, "renewed", &pairs.other_ca, "DNS:host");
	store = open_at(bed.server.client, &pairs.ca, &pair);
	assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_not_equal(outcome.err, 0);
	make_pair(&pair, bed.directory, "renewed", &pairs.ca, "DNS:host");
	forget(&outcome);
	assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_string_equal(outcome.error, "");
	catalog_store_close(store);
}

static void expect_complaint(struct catalog_tls tls, int err, const char *words)
{
	char error[CATALOG_ERROR_LEN] = "";

	assert_null(catalog_etcd_open(bed.loop, "https://127.0.0.1:1", &tls, 100, error));
	assert_int_equal(errno, err);
	assert_contains(error, words);
	assert_int_equal(catalog_tls_check(&tls, error), -err);
}

static void files_that_are_not_right_are_told_at_the_start(void **state)
{
	struct catalog_tls tls = tls_of(&pairs.ca, &pairs.host);
	char large[128];
	struct pair bad;

	(void)state;
	tls.ca = "/nonexistent/ca.pem";
	expect_complaint(tls, ENOENT, "ca: cannot read /nonexistent/ca.pem: No such file or "
				      "directory: name a file that distmindd may read");
	tls.ca = bed.directory;
	expect_complaint(tls, EINVAL, "is not a file: name one in PEM");
	snprintf(large, sizeof(large), "%s/large.pem", bed.directory);
	close(open(large, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(truncate(large, 1LL << 40), 0);
	tls.ca = large;
	expect_complaint(tls, EFBIG, "which no file in PEM is: name the right one");
	unlink(large);
	tls.ca = pairs.ca.key;
	expect_complaint(tls, EINVAL, "ca: there is no certificate in");
	tls = tls_of(NULL, &pairs.host);
	tls.certificate = "/nonexistent/host.pem";
	expect_complaint(tls, ENOENT, "certificate: cannot read /nonexistent/host.pem");
	tls.certificate = pairs.host.key;
	expect_complaint(tls, EINVAL, "certificate: there is no certificate in");
	tls = tls_of(NULL, &pairs.host);
	tls.key = "/nonexistent/host.key";
	expect_complaint(tls, ENOENT, "key: cannot read /nonexistent/host.key");
	tls.key = pairs.server.key;
	expect_complaint(tls, EINVAL, "name the two that were made together");
	make_pair(&bad, bed.directory, "bad", &pairs.ca, "DNS:host");
	run_quietly("openssl ec -aes256 -passout pass:secret -in %s -out %s", pairs.host.key,
		    bad.key);
	tls.key = bad.key;
	expect_complaint(tls, EINVAL, "in PEM, without a passphrase");
}

static void a_key_that_others_can_read_is_refused(void **state)
{
	static const mode_t modes[] = { 0640, 0604, 0620 };
	char error[CATALOG_ERROR_LEN], words[64];
	struct catalog_tls tls;
	struct pair open;

	(void)state;
	make_pair(&open, bed.directory, "open", &pairs.ca, "DNS:host");
	tls = tls_of(&pairs.ca, &open);
	for (size_t i = 0; i < COUNT(modes); i++) {
		assert_int_equal(chmod(open.key, modes[i]), 0);
		snprintf(words, sizeof(words), "(mode %04o): run chmod 600", modes[i]);
		expect_complaint(tls, EACCES, words);
	}
	assert_int_equal(chmod(open.key, 0400), 0);
	assert_int_equal(catalog_tls_check(&tls, error), 0);
	/* A certificate is no secret. */
	assert_int_equal(chmod(open.certificate, 0644), 0);
	assert_int_equal(catalog_tls_check(&tls, error), 0);
}

#define ETCD(test) { #test " (etcd)", test, setup_no_store, NULL, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		ETCD(a_host_with_a_certificate_joins),
		ETCD(a_certificate_of_another_authority_is_refused),
		ETCD(a_host_without_a_certificate_is_refused),
		ETCD(a_server_of_another_authority_is_not_believed),
		ETCD(a_server_at_another_address_is_not_believed),
		ETCD(a_certificate_is_renewed_without_a_restart),
		cmocka_unit_test(files_that_are_not_right_are_told_at_the_start),
		cmocka_unit_test(a_key_that_others_can_read_is_refused),
	};

	return cmocka_run_group_tests_name("catalog_tls", tests, setup_tls, teardown_bed);
}
