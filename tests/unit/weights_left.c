// SPDX-License-Identifier: GPL-2.0-or-later
/* Loads that are asked for and left: what they take, and what that is to others. */
#include "../../userspace/distmindd/pool/weights_state.h"
#include "service_bed.h"

#define ALICE 1000
#define BOB 1001
#define CAROL 1002
#define TIMES 40

/* A connection of the tenant's with a load that has been heard of. */
static int begin_load(json_t *body)
{
	int fd = connect_client();

	be_somebody(fake.tenant_uid);
	say(fd, body, NULL, 0);
	wait_until(bed.models->service.clients->use);
	return fd;
}

static uint64_t whole_size(const struct sample *sample)
{
	return resident_quota(&sample->image.manifest, false, false);
}

static void expect_load(uint32_t uid, struct sample *sample)
{
	int fd;

	fake.tenant_uid = uid;
	fd = begin_load(load_op(sample->image.manifest.name));
	receive_weights(fd, sample);
	hang_up(fd);
	let_memory_go();
}

static void loads_that_are_left_before_they_are_prepared_take_no_memory(void **state)
{
	struct sample net, other;
	int first;

	(void)state;
	push_sample(&net, "net", 1);
	push_sample(&other, "other", 2);
	fake.tenant_uid = ALICE;
	pthread_mutex_lock(&fake_making);
	first = begin_load(load_op("net"));
	wait_until(fake_makers);
	hang_up(first);
	for (int i = 0; i < TIMES; i++)
		hang_up(begin_load(load_op("net")));
	/* Only the one that was being prepared is left; of the others there is nothing any more. */
	wait_until(TAILQ_FIRST(&bed.models->weights.loads) ==
		   TAILQ_LAST(&bed.models->weights.loads, resident_loads));
	assert_int_equal(errands_of(bed.models->weights.errands, ERRANDS_GPU(FAKE_GPU)), 1);
	pthread_mutex_unlock(&fake_making);
	let_memory_go();
	assert_true(fake.peak <= whole_size(&net));
	assert_int_equal(fake.used, 0);
	expect_load(BOB, &other);
	expect_load(ALICE, &net);
	free_sample(&net);
	free_sample(&other);
}

static void a_load_waits_for_the_memory_of_those_that_its_user_left(void **state)
{
	const struct resident *left;
	struct sample net, other;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	push_sample(&other, "other", 2);
	fake.tenant_uid = ALICE;
	hold_workers();
	fd = begin_load(load_op("net"));
	/* A worker that copies into its memory has to end before that can be given back. */
	left = TAILQ_FIRST(&bed.models->weights.loads);
	wait_until(left->fill && fill_is_busy(left->fill));
	hang_up(fd);
	fd = begin_load(load_op("net"));
	for (int i = 0; i < TIMES; i++)
		hang_up(begin_load(load_op("other")));
	wait_until(!errands_of(bed.models->weights.errands, ERRANDS_GPU(FAKE_GPU)));
	assert_true(fake.peak <= whole_size(&net));
	let_workers_go();
	receive_weights(fd, &net);
	assert_true(fake.peak <= whole_size(&net));
	hang_up(fd);
	free_sample(&net);
	free_sample(&other);
}

/* Those of one user come one after the other, so that others need not wait for all of them. */
static void loads_of_one_user_do_not_wait_before_those_of_another(void **state)
{
	struct sample samples[3];
	const char *const names[] = { "first", "second", "third" };
	struct resident *load;
	int fds[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		push_sample(&samples[i], names[i], i + 1);
	pthread_mutex_lock(&fake_making);
	fake.tenant_uid = ALICE;
	fds[0] = begin_load(load_op("first"));
	fds[1] = begin_load(load_op("second"));
	fake.tenant_uid = BOB;
	fds[2] = begin_load(load_op("third"));
	TAILQ_FOREACH(load, &bed.models->weights.loads, load)
		assert_int_equal(load->begun, strcmp(load->manifest->model.name, "second") != 0);
	for (int i = 0; i < 3; i++) {
		hang_up(fds[i]);
		free_sample(&samples[i]);
	}
	pthread_mutex_unlock(&fake_making);
	let_memory_go();
}

static bool has_begun(const char *model)
{
	const struct resident *load;

	TAILQ_FOREACH(load, &bed.models->weights.loads, load)
		if (!strcmp(load->manifest->model.name, model))
			return load->begun;
	fail_msg("%s is not being loaded", model);
	return false;
}

static int begin_load_as(uint32_t uid, const char *model)
{
	fake.tenant_uid = uid;
	return begin_load(load_op(model));
}

/* What several want begins when it may for one of them. */
static void who_joins_a_load_does_not_wait_for_the_other_loads_of_its_user(void **state)
{
	struct sample samples[3];
	const char *const names[] = { "first", "second", "third" };
	int fds[5];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		push_sample(&samples[i], names[i], i + 1);
	pthread_mutex_lock(&fake_making);
	fds[0] = begin_load_as(ALICE, "first");
	fds[1] = begin_load_as(ALICE, "second");
	fds[2] = begin_load_as(BOB, "third");
	/* Another one of each is being prepared. */
	fds[3] = begin_load_as(BOB, "second");
	assert_false(has_begun("second"));
	fds[4] = begin_load_as(CAROL, "second");
	assert_true(has_begun("second"));
	for (int i = 0; i < 5; i++)
		hang_up(fds[i]);
	pthread_mutex_unlock(&fake_making);
	let_memory_go();
	for (int i = 0; i < 3; i++)
		free_sample(&samples[i]);
}

static void a_load_that_waits_ends_with_the_gpu(void **state)
{
	struct inventory inventory = {
		.gpus.size = sizeof(struct inventory_gpu), .vgpus.size = sizeof(struct inventory_vgpu),
		.claims.size = sizeof(struct inventory_claim),
	};
	struct sample first, second;
	int fds[2];

	(void)state;
	push_sample(&first, "first", 1);
	push_sample(&second, "second", 2);
	fake.tenant_uid = ALICE;
	pthread_mutex_lock(&fake_making);
	fds[0] = begin_load(load_op("first"));
	fds[1] = begin_load(load_op("second"));
	/* It is not there any more. */
	assert_true(weights_follow(&bed.models->weights, &inventory));
	expect_refused(fds[1], "ECANCELED", "second");
	pthread_mutex_unlock(&fake_making);
	expect_refused(fds[0], "ECANCELED", "first");
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	for (int i = 0; i < 2; i++)
		hang_up(fds[i]);
	free_sample(&first);
	free_sample(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(loads_that_are_left_before_they_are_prepared_take_no_memory),
		SERVICE_TEST(a_load_waits_for_the_memory_of_those_that_its_user_left),
		SERVICE_TEST(loads_of_one_user_do_not_wait_before_those_of_another),
		SERVICE_TEST(who_joins_a_load_does_not_wait_for_the_other_loads_of_its_user),
		SERVICE_TEST(a_load_that_waits_ends_with_the_gpu),
	};

	return cmocka_run_group_tests_name("weights_left", tests, NULL, NULL);
}
