// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon_fake.h"
#include "log_memory.h"

#include "../../userspace/distmindd/gpus/decide.h"
#include "../../userspace/distmindd/common/log.h"

#define G (1ULL << 30)
#define S 1000000ULL
#define LOST 300 /* vgpus: more than are bound in a turn */

static struct distmind_pool handle;
static struct config config;
static struct inventory inventory;
static uint64_t now;

static uint64_t fake_clock(void)
{
	return now;
}

static void start_daemon(void)
{
	inventory_init(&inventory, &handle);
	inventory.clock_us = fake_clock;
}

static int setup(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	config_default(&config);
	log_set_target(LOG_TO_NOTHING);
	now = 1000 * S;
	start_daemon();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	inventory_free(&inventory);
	return 0;
}

/* One turn of the daemon's event loop. */
static int turn(void)
{
	int ret = inventory_update(&inventory);

	return ret ? ret : decide(&inventory, &config);
}

/* The daemon's view and the kernel's must be the same, and nothing promised twice. */
static void check_view(void)
{
	struct inventory_vgpu *vgpu;
	struct inventory_gpu *gpu;
	uint64_t memory;
	uint32_t share;

	assert_int_equal(inventory.gpus.count, kernel.gpu_count);
	assert_int_equal(inventory.vgpus.count, kernel.vgpu_count);
	assert_int_equal(inventory.claims.count, kernel.claim_count);
	table_each(&inventory.vgpus, vgpu)
		assert_int_equal(vgpu->record.gpu, fake_vgpu_gpu(vgpu->record.id));
	table_each(&inventory.gpus, gpu) {
		memory = 0;
		share = 0;
		for (unsigned int i = 0; i < kernel.vgpu_count; i++)
			if (kernel.vgpus[i].gpu == gpu->record.id) {
				memory += kernel.vgpus[i].memory;
				share += kernel.vgpus[i].share;
			}
		assert_true(memory <= gpu->record.memory);
		assert_true(share <= 1000);
	}
}

static void a_claim_is_granted_on_the_best_gpu(void **state)
{
	(void)state;
	fake_gpu(8 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	fake_claim(2 * G, 500, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.granted_gpus[0], 1);
	check_view();
}

static void several_gpus_are_granted_in_one_answer(void **state)
{
	(void)state;
	fake_gpu(8 * G, "cpu", 0);
	fake_gpu(8 * G, "cpu", 1);
	fake_gpu(8 * G, "cpu", 1);
	fake_claim(2 * G, 500, 2);
	kernel.claims[0].flags = DISTMIND_CLAIM_FLAGS_SAME_BOX;
	kernel.events[kernel.event_count - 1].claim.flags = DISTMIND_CLAIM_FLAGS_SAME_BOX;
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.granted_gpus[0], 1);
	assert_int_equal(kernel.granted_gpus[1], 2);
	check_view();
}

static void claims_of_one_moment_do_not_share_a_promise(void **state)
{
	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	for (int i = 0; i < 10; i++)
		fake_claim(1 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 4);
	assert_int_equal(kernel.refusals, 6);
	assert_int_equal(kernel.refused_error, ENOSPC);
	assert_contains(kernel.refused_reason,
			"no gpu has 1G of unpromised memory; the largest has 0 (gpu 0)");
	check_view();
}

static void claims_are_answered_in_their_order(void **state)
{
	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_claim(3 * G, 100, 1);
	fake_claim(2 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.vgpus[0].memory, 3 * G);
	assert_int_equal(kernel.refusals, 1);
}

static void an_empty_pool_is_told_to_start_an_engine(void **state)
{
	(void)state;
	fake_claim(1 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.refusals, 1);
	assert_string_equal(kernel.refused_reason, "the pool has no gpus: start an engine");
}

static void what_is_given_back_can_be_promised_again(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(4 * G, 1000, 0);
	fake_claim(4 * G, 1000, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.refusals, 1);
	fake_vgpu_delete(vgpu);
	fake_claim(4 * G, 1000, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	check_view();
}

static void overcommit_is_the_configurations(void **state)
{
	(void)state;
	config.share_overcommit = 200;
	fake_gpu(4 * G, "cpu", 0);
	for (int i = 0; i < 3; i++)
		fake_claim(1 * G, 1000, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 2);
	assert_int_equal(kernel.refusals, 1);
}

static void a_spare_is_kept_for_what_a_lost_gpu_leaves(void **state)
{
	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	snprintf(config.spares, sizeof(config.spares), "other,%s", kernel.gpus[1].name);
	for (int i = 0; i < 2; i++)
		fake_claim(1 * G, 1000, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.vgpus[0].gpu, 0);
	assert_int_equal(kernel.refusals, 1);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.vgpus[0].gpu, 1);
	config.spares[0] = '\0';
	check_view();
}

static void lose_gpu_0(void)
{
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
}

static void remove_gpu_0(void)
{
	fake_gpu_remove(0);
}

static void give_up_claim_0(void)
{
	fake_claim_end(0);
}

static void a_grant_that_comes_too_late_is_decided_again(void **state)
{
	(void)state;
	fake_gpu(2 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	fake_claim(1 * G, 100, 1);
	kernel.before_grant = lose_gpu_0;
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.granted_gpus[0], 1);
	check_view();
}

static void a_gpu_that_is_gone_is_not_taken_for_a_claim_that_is(void **state)
{
	(void)state;
	fake_gpu(2 * G, "cpu", 0);
	fake_claim(1 * G, 100, 1);
	kernel.before_grant = remove_gpu_0;
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 0);
	assert_int_equal(kernel.refusals, 1);
	assert_string_equal(kernel.refused_reason, "the pool has no gpus: start an engine");
}

static void a_claim_that_is_given_up_is_forgotten(void **state)
{
	(void)state;
	fake_gpu(2 * G, "cpu", 0);
	fake_claim(1 * G, 100, 1);
	kernel.before_grant = give_up_claim_0;
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 0);
	assert_int_equal(kernel.refusals, 0);
	check_view();
}

static void a_restarted_daemon_adopts_everything(void **state)
{
	(void)state;
	kernel.deaf = true;
	fake_gpu(4 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	fake_vgpu(3 * G, 900, 0);
	fake_vgpu(4 * G, 100, 1);
	fake_claim(1 * G, 100, 1);
	fake_claim(1 * G, 100, 1);
	kernel.deaf = false;
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.granted_gpus[0], 0);
	assert_int_equal(kernel.refusals, 1);
	assert_int_equal(kernel.sets, 0);
	check_view();

	inventory_free(&inventory);
	start_daemon();
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.sets, 0);
	check_view();
}

static void events_from_before_the_listing_do_no_harm(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 100, 0);
	fake_vgpu_bind(vgpu, 1);
	fake_vgpu_delete(fake_vgpu(4 * G, 1000, 0));
	fake_claim_end(fake_claim(1 * G, 100, 1));
	fake_claim(4 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.granted_gpus[0], 0);
	check_view();
}

static void lost_events_are_made_up_for_by_listing(void **state)
{
	uint32_t gone;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	gone = fake_vgpu(4 * G, 500, 0);
	assert_int_equal(turn(), 0);
	kernel.deaf = true;
	fake_vgpu_delete(gone);
	fake_vgpu(1 * G, 100, 0);
	fake_gpu(2 * G, "cpu", 0);
	fake_claim(3 * G, 100, 1);
	fake_overrun();
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.granted_gpus[0], 0);
	check_view();
}

static void nothing_is_decided_while_the_pool_cannot_be_listed(void **state)
{
	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_claim(1 * G, 100, 1);
	kernel.list_errors = 1;
	assert_int_equal(turn(), -EAGAIN);
	assert_int_equal(decide(&inventory, &config), -EAGAIN);
	assert_int_equal(kernel.grants + kernel.refusals, 0);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	check_view();
}

static void vgpus_of_a_lost_gpu_move(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 500, 0);
	fake_gpu(4 * G, "cpu", 0);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 1);
	assert_int_equal(kernel.sets, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 1);
	check_view();
}

static void name_vgpu(uint32_t id, const char *name, uint32_t uid)
{
	for (unsigned int i = 0; i < kernel.vgpu_count; i++)
		if (kernel.vgpus[i].id == id) {
			snprintf(kernel.vgpus[i].name, sizeof(kernel.vgpus[i].name), "%s", name);
			kernel.vgpus[i].uid = uid;
			kernel.events[kernel.event_count - 1].vgpu = kernel.vgpus[i];
		}
}

/* What it holds goes when it is needed, and is on its gpu or nowhere. */
static void the_cache_of_weights_is_no_tenant(void **state)
{
	uint32_t cache, namesake;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	cache = fake_vgpu(3 * G, 1, 0);
	name_vgpu(cache, DISTMIND_WEIGHTS_PREFIX "gpu0", 0);
	fake_claim(4 * G, 500, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	/* A user cannot hide by a name. */
	fake_gpu(4 * G, "cpu", 0);
	namesake = fake_vgpu(3 * G, 1, 1);
	name_vgpu(namesake, DISTMIND_WEIGHTS_PREFIX "mine", 1000);
	fake_claim(4 * G, 500, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, 1);
	assert_int_equal(kernel.refusals, 1);
	/* When gpus are lost tenants move. */
	fake_gpu(16 * G, "cpu", 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	fake_gpu_state(1, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(namesake), 2);
	assert_int_equal(fake_vgpu_gpu(cache), 0);
	assert_int_equal(kernel.sets, 2);
}

/* One by one in their order, the first two would leave no room for the third. */
static void vgpus_of_a_lost_gpu_are_placed_at_once(void **state)
{
	uint32_t small, middle, large;

	(void)state;
	fake_gpu(8 * G, "cpu", 0);
	fake_gpu(8 * G, "cpu", 0);
	fake_gpu(8 * G, "cpu", 1);
	small = fake_vgpu(1 * G, 200, 0);
	middle = fake_vgpu(1 * G, 300, 0);
	large = fake_vgpu(1 * G, 400, 0);
	fake_vgpu(1 * G, 600, 1);
	fake_vgpu(1 * G, 500, 2);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 3);
	assert_int_equal(fake_vgpu_gpu(large), 1);
	assert_int_equal(fake_vgpu_gpu(middle), 2);
	assert_int_equal(fake_vgpu_gpu(small), 2);
	check_view();
}

/* In two turns: the plan is made again in the second, with those that are left. */
static void each_move_of_a_recovery_is_logged_once(void **state)
{
	int before, log, ret, turns = 0;

	(void)state;
	fake_gpu(64 * G, "cpu", 0);
	fake_gpu(64 * G, "cpu", 0);
	for (int i = 0; i < LOST; i++)
		fake_vgpu(G / 8, 3, 0);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	log = log_to_memory(&before);
	do {
		ret = turn();
		turns++;
	} while (ret > 0);
	assert_int_equal(count_logged(log, before, "event=recovery-move"), LOST);
	assert_int_equal(ret, 0);
	assert_true(turns > 1);
	assert_int_equal(kernel.sets, LOST);
	check_view();
}

static void a_box_is_lost_as_a_whole(void **state)
{
	uint32_t vgpus[6];

	(void)state;
	for (uint32_t i = 0; i < 6; i++)
		fake_gpu(8 * G, "cpu", i / 2);
	for (uint32_t i = 0; i < 6; i++)
		vgpus[i] = fake_vgpu(1 * G, 300 + 10 * i, i % 2);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	fake_gpu_state(1, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_in_range(fake_vgpu_gpu(vgpus[i]), 2, 5);
	check_view();
}

static void a_move_that_is_refused_does_not_stop_the_others(void **state)
{
	uint32_t first, second, third;

	(void)state;
	fake_gpu(8 * G, "cpu", 0);
	fake_gpu(8 * G, "cpu", 0);
	first = fake_vgpu(1 * G, 200, 0);
	second = fake_vgpu(1 * G, 300, 0);
	third = fake_vgpu(1 * G, 100, 0);
	assert_int_equal(turn(), 0);
	/* Its end is not known yet when the plan is made. */
	kernel.deaf = true;
	fake_vgpu_delete(second);
	kernel.deaf = false;
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 3);
	assert_int_equal(fake_vgpu_gpu(first), 1);
	assert_int_equal(fake_vgpu_gpu(third), 1);
	/* Nor is it tried again and again. */
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 3);
	fake_overrun();
	assert_int_equal(turn(), 0);
	check_view();
}

static void a_plan_whose_gpu_goes_too_is_made_good(void **state)
{
	uint32_t vgpus[4];

	(void)state;
	fake_gpu(8 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	fake_gpu(8 * G, "cpu", 1);
	for (int i = 0; i < 4; i++)
		vgpus[i] = fake_vgpu(1 * G, 100, 0);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(inventory_update(&inventory), 0);
	/* The one that all of them would go to. */
	fake_gpu_state(1, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(decide(&inventory, &config), 0);
	assert_int_equal(kernel.sets, 5);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fake_vgpu_gpu(vgpus[i]), 2);
	check_view();
}

static void a_vgpu_too_large_for_its_gpu_is_not_taken_for_a_smaller_one(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(6 * G, 100, 0);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 0);
	fake_gpu(8 * G, "cpu", 0);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 2);
}

static void a_lost_gpu_with_many_vgpus_takes_several_turns(void **state)
{
	int turns = 1;

	(void)state;
	fake_gpu(8 * G, "cpu", 0);
	for (int i = 0; i < 900; i++)
		fake_vgpu(4096, 1, 0);
	fake_gpu(8 * G, "cpu", 0);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	while (turn() == 1)
		turns++;
	assert_in_range(turns, 2, 10);
	assert_int_equal(kernel.sets, 900);
	check_view();
}

static void vgpus_wait_for_room_and_get_it_before_claims(void **state)
{
	uint32_t vgpu, other;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(3 * G, 500, 0);
	other = fake_vgpu(3 * G, 500, 1);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 0);
	fake_vgpu_delete(other);
	fake_claim(3 * G, 500, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 1);
	assert_int_equal(kernel.grants, 0);
	assert_int_equal(kernel.refusals, 1);
	check_view();
}

static void vgpus_are_not_moved_to_another_kind(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "A100", 0);
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 500, 0);
	assert_int_equal(turn(), 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 0);
	fake_gpu_remove(0);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), DISTMIND_GPU_NONE);
	fake_gpu(4 * G, "A100", 0);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 2);
	check_view();
}

static void a_new_parked_vgpu_is_bound(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 500, DISTMIND_GPU_NONE);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 0);
	check_view();
}

static void what_an_operator_parks_stays_parked(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 500, 0);
	assert_int_equal(turn(), 0);
	fake_vgpu_bind(vgpu, DISTMIND_GPU_NONE);
	assert_int_equal(turn(), 0);
	fake_gpu(4 * G, "cpu", 0);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), DISTMIND_GPU_NONE);
	/* Also when the daemon missed something and lists again. */
	fake_overrun();
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), DISTMIND_GPU_NONE);
	fake_vgpu_bind(vgpu, 1);
	assert_int_equal(turn(), 0);
	fake_gpu_state(1, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 0);
}

static void a_gpu_lost_and_removed_unseen_is_no_purpose(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 500, 0);
	assert_int_equal(turn(), 0);
	kernel.deaf = true;
	fake_gpu_remove(0);
	fake_gpu(4 * G, "cpu", 0);
	fake_overrun();
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 1);
	check_view();
}

static void a_vgpu_that_cannot_be_bound_is_not_tried_for_ever(void **state)
{
	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	fake_vgpu(1 * G, 500, DISTMIND_GPU_NONE);
	kernel.set_error = -EBUSY;
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 1);
	fake_claim(1 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 1);
	kernel.set_error = 0;
	fake_gpu(4 * G, "cpu", 0);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 2);
	check_view();
}

static void draining_gpus_keep_their_vgpus_and_get_no_more(void **state)
{
	uint32_t vgpu;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 500, 0);
	fake_gpu_state(0, DISTMIND_GPU_STATE_DRAINING);
	fake_claim(1 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 0);
	assert_int_equal(kernel.sets, 0);
	assert_int_equal(kernel.refusals, 1);
	assert_contains(kernel.refused_reason, "undrain one");
}

static void many_vgpus_without_room_do_not_keep_claims_waiting(void **state)
{
	(void)state;
	fake_gpu(1 * G, "cpu", 0);
	for (int i = 0; i < 600; i++)
		fake_vgpu(2 * G, 1, DISTMIND_GPU_NONE);
	fake_claim(1 * G, 100, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.sets, 0);
	assert_int_equal(kernel.grants, 1);
}

static void a_long_queue_takes_several_turns(void **state)
{
	int turns = 1;

	(void)state;
	fake_gpu(4 * G, "cpu", 0);
	for (int i = 0; i < 1000; i++)
		fake_claim(4096, 1, 1);
	while (turn() == 1)
		turns++;
	assert_in_range(turns, 2, 10);
	assert_int_equal(kernel.grants, 1000);
	check_view();
}

static void lost_gpus_are_removed_when_their_time_is_over(void **state)
{
	uint32_t vgpu;

	(void)state;
	config.lost_gpu_keep_us = 60 * S;
	fake_gpu(4 * G, "cpu", 0);
	vgpu = fake_vgpu(1 * G, 100, 0);
	assert_int_equal(turn(), 0);
	assert_true(decide_expiry(&inventory, &config) == UINT64_MAX);
	fake_gpu_state(0, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	assert_int_equal(decide_expiry(&inventory, &config), now + 60 * S);
	now += 59 * S;
	assert_int_equal(decide_expiry(&inventory, &config), now + 1 * S);
	assert_int_equal(kernel.removals, 0);
	now += 1 * S;
	decide_expiry(&inventory, &config);
	assert_int_equal(kernel.removals, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), DISTMIND_GPU_NONE);
	assert_true(decide_expiry(&inventory, &config) == UINT64_MAX);
	check_view();

	fake_gpu(4 * G, "cpu", 0);
	assert_int_equal(turn(), 0);
	assert_int_equal(fake_vgpu_gpu(vgpu), 1);
	config.lost_gpu_keep_us = CONFIG_FOREVER;
	fake_gpu_state(1, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(turn(), 0);
	now += 1000000 * S;
	assert_true(decide_expiry(&inventory, &config) == UINT64_MAX);
	assert_int_equal(kernel.removals, 1);
}

/* Anything may happen in any order; what is promised always exists. */
static void random_histories_keep_the_promise(void **state)
{
	(void)state;
	srandom(1);
	for (int step = 0; step < 20000; step++) {
		switch (random() % 12) {
		case 0:
			if (kernel.gpu_count < 6)
				fake_gpu((uint64_t)(random() % 8 + 1) * G,
					 random() % 2 ? "cpu" : "A100", (uint32_t)(random() % 2));
			break;
		case 1:
			if (kernel.gpu_count && random() % 4 == 0)
				fake_gpu_state(kernel.gpus[random() % kernel.gpu_count].id,
					       (uint32_t)(random() % 3));
			break;
		case 2:
			for (unsigned int i = 0; i < kernel.gpu_count; i++)
				if (kernel.gpus[i].state == DISTMIND_GPU_STATE_LOST) {
					fake_gpu_remove(kernel.gpus[i].id);
					break;
				}
			break;
		case 3:
		case 4:
			if (kernel.vgpu_count)
				fake_vgpu_delete(kernel.vgpus[random() % kernel.vgpu_count].id);
			break;
		case 5:
			kernel.deaf = true;
			break;
		case 6:
			if (kernel.claim_count)
				fake_claim_end(
					kernel.claims[random() % kernel.claim_count].id);
			break;
		case 7:
			if (kernel.vgpu_count < 40)
				fake_vgpu((uint64_t)(random() % 4 + 1) * G, 100, DISTMIND_GPU_NONE);
			break;
		default:
			if (kernel.claim_count < 10)
				fake_claim((uint64_t)(random() % 6 + 1) * G,
					     (uint32_t)(random() % 1000 + 1),
					     (uint32_t)(random() % 2 + 1));
			break;
		}
		if (random() % 2)
			continue;
		if (kernel.deaf)
			fake_overrun();
		assert_int_equal(turn(), 0);
		assert_int_equal(kernel.claim_count, 0);
		check_view();
	}
	assert_in_range(kernel.grants, 100, 20000);
	assert_in_range(kernel.sets, 100, 20000);
}

static void a_kind_that_was_never_there_is_named(void **state)
{
	(void)state;
	fake_gpu(4 * G, "A100", 0);
	fake_claim(1 * G, 100, 1);
	strcpy(kernel.claims[0].kind, "H100");
	strcpy(kernel.events[kernel.event_count - 1].claim.kind, "H100");
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.refusals, 1);
	assert_string_equal(kernel.refused_reason, "no gpu of kind H100; the pool has: A100");
}

static void more_kinds_than_can_be_told_apart_do_no_harm(void **state)
{
	char kind[16];

	(void)state;
	for (int i = 0; i < PLACEMENT_KINDS_MAX + 2; i++) {
		snprintf(kind, sizeof(kind), "kind%d", i);
		fake_gpu(4 * G, kind, 0);
		fake_claim(4 * G, 1000, 1);
		assert_int_equal(turn(), 0);
	}
	assert_int_equal(kernel.grants, PLACEMENT_KINDS_MAX);
	assert_int_equal(kernel.refusals, 2);
	check_view();
	/* A kind that is gone makes room. */
	fake_gpu_remove(5);
	fake_claim(4 * G, 1000, 1);
	assert_int_equal(turn(), 0);
	assert_int_equal(kernel.grants, PLACEMENT_KINDS_MAX + 1);
}

#define decide_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		decide_test(a_claim_is_granted_on_the_best_gpu),
		decide_test(several_gpus_are_granted_in_one_answer),
		decide_test(claims_of_one_moment_do_not_share_a_promise),
		decide_test(claims_are_answered_in_their_order),
		decide_test(an_empty_pool_is_told_to_start_an_engine),
		decide_test(what_is_given_back_can_be_promised_again),
		decide_test(overcommit_is_the_configurations),
		decide_test(a_spare_is_kept_for_what_a_lost_gpu_leaves),
		decide_test(a_grant_that_comes_too_late_is_decided_again),
		decide_test(a_gpu_that_is_gone_is_not_taken_for_a_claim_that_is),
		decide_test(a_claim_that_is_given_up_is_forgotten),
		decide_test(a_restarted_daemon_adopts_everything),
		decide_test(events_from_before_the_listing_do_no_harm),
		decide_test(lost_events_are_made_up_for_by_listing),
		decide_test(nothing_is_decided_while_the_pool_cannot_be_listed),
		decide_test(the_cache_of_weights_is_no_tenant),
		decide_test(vgpus_of_a_lost_gpu_move),
		decide_test(vgpus_of_a_lost_gpu_are_placed_at_once),
		decide_test(each_move_of_a_recovery_is_logged_once),
		decide_test(a_box_is_lost_as_a_whole),
		decide_test(a_move_that_is_refused_does_not_stop_the_others),
		decide_test(a_plan_whose_gpu_goes_too_is_made_good),
		decide_test(a_vgpu_too_large_for_its_gpu_is_not_taken_for_a_smaller_one),
		decide_test(a_lost_gpu_with_many_vgpus_takes_several_turns),
		decide_test(vgpus_wait_for_room_and_get_it_before_claims),
		decide_test(vgpus_are_not_moved_to_another_kind),
		decide_test(a_new_parked_vgpu_is_bound),
		decide_test(what_an_operator_parks_stays_parked),
		decide_test(a_gpu_lost_and_removed_unseen_is_no_purpose),
		decide_test(a_vgpu_that_cannot_be_bound_is_not_tried_for_ever),
		decide_test(draining_gpus_keep_their_vgpus_and_get_no_more),
		decide_test(many_vgpus_without_room_do_not_keep_claims_waiting),
		decide_test(a_long_queue_takes_several_turns),
		decide_test(lost_gpus_are_removed_when_their_time_is_over),
		decide_test(a_kind_that_was_never_there_is_named),
		decide_test(more_kinds_than_can_be_told_apart_do_no_harm),
		decide_test(random_histories_keep_the_promise),
	};

	return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
