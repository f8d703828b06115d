// SPDX-License-Identifier: GPL-2.0-or-later
/* vgpus: their settings, their nodes, their end. */
#include <sys/stat.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

FIXTURE(vgpu)
{
	struct distmind_pool *pool;
	int engine;
	uint32_t gpu;
};

FIXTURE_SETUP(vgpu)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = engine_start("vgpu", 32 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
}

FIXTURE_TEARDOWN(vgpu)
{
	close(self->engine);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

TEST_F(vgpu, has_what_it_was_created_with)
{
	struct distmind_vgpu_record made = {
		.gpu = self->gpu, .name = "net-1.0_a", .memory = 3 * MiB, .share = 125,
		.sched_class = DISTMIND_CLASS_LATENCY, .objective_ns = 7000000, .uid = 65534, .gid = 65534,
	}, seen;
	struct distmind_vgpu_info info;
	int fd;

	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &made));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, made.id, &seen));
	EXPECT_STREQ("net-1.0_a", seen.name);
	EXPECT_EQ(self->gpu, seen.gpu);
	EXPECT_EQ(3 * MiB, seen.memory);
	EXPECT_EQ(125, seen.share);
	EXPECT_EQ(DISTMIND_CLASS_LATENCY, seen.sched_class);
	EXPECT_EQ(7000000, seen.objective_ns);
	EXPECT_EQ(65534, seen.uid);
	EXPECT_EQ(DISTMIND_VGPU_LEASE_ADMIN, seen.lease);
	fd = open_vgpu(made.id);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, call(fd, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(made.id, info.id);
	EXPECT_EQ(self->gpu, info.gpu);
	EXPECT_EQ(DISTMIND_VGPU_STATE_BOUND, info.state);
	EXPECT_EQ(3 * MiB, info.memory);
	EXPECT_EQ(7000000, info.objective_ns);
	EXPECT_STREQ("net-1.0_a", info.name);
	close(fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, made.id));
}

TEST_F(vgpu, node_belongs_to_its_owner)
{
	struct distmind_vgpu_record mine = { .gpu = self->gpu, .memory = MiB, .share = 1 };
	struct distmind_vgpu_record theirs = {
		.gpu = self->gpu, .memory = MiB, .share = 1, .uid = 65534, .gid = 65534,
	};
	char path[64];
	struct stat st;

	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &mine));
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &theirs));
	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", theirs.id);
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(65534, st.st_uid);
	EXPECT_EQ(65534, st.st_gid);
	EXPECT_EQ(0600, st.st_mode & 07777);
	EXPECT_EQ(EACCES, AS_NOBODY(-open_vgpu(mine.id)));
	EXPECT_EQ(0, AS_NOBODY(open_vgpu(theirs.id) < 0));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, mine.id));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, theirs.id));
	EXPECT_EQ(-1, stat(path, &st));
	EXPECT_EQ(ENOENT, errno);
}

TEST_F(vgpu, bad_settings_are_refused_in_words)
{
	const struct distmind_vgpu_record good = { .gpu = self->gpu, .memory = MiB, .share = 1000 };
	struct distmind_vgpu_record bad;

	bad = good, bad.memory = 0;
	EXPECT_EQ(-EINVAL, distmind_pool_vgpu_create(self->pool, &bad));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "memory"));
	bad = good, bad.memory = MiB + 1;
	EXPECT_EQ(-EINVAL, distmind_pool_vgpu_create(self->pool, &bad));
	bad = good, bad.share = 1001;
	EXPECT_GT(0, distmind_pool_vgpu_create(self->pool, &bad));
	bad = good, bad.sched_class = 3;
	EXPECT_GT(0, distmind_pool_vgpu_create(self->pool, &bad));
	bad = good, bad.sched_class = DISTMIND_CLASS_LATENCY;
	EXPECT_EQ(-EINVAL, distmind_pool_vgpu_create(self->pool, &bad));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "objective"));
	bad = good, bad.objective_ns = 5;
	EXPECT_EQ(-EINVAL, distmind_pool_vgpu_create(self->pool, &bad));
	bad = good, strcpy(bad.name, "a b");
	EXPECT_EQ(-EINVAL, distmind_pool_vgpu_create(self->pool, &bad));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "name"));
	bad = good, bad.gpu = self->gpu + 1000;
	EXPECT_EQ(-ENOENT, distmind_pool_vgpu_create(self->pool, &bad));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "gpu"));
}

TEST_F(vgpu, settings_change_while_it_is_open)
{
	struct distmind_vgpu_record change;
	struct distmind_buffer_create create;
	struct distmind_vgpu_info info;
	uint32_t id;
	int fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &id);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, buffer_create(fd, 2 * MiB, &create));
	change = (struct distmind_vgpu_record){ .id = id, .memory = MiB, .share = 42 };
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &change, DISTMIND_SET_MEMORY | DISTMIND_SET_SHARE));
	ASSERT_EQ(0, call(fd, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(MiB, info.memory);
	EXPECT_EQ(2 * MiB, info.memory_used);
	EXPECT_EQ(42, info.share);
	/* Below what is used: nothing is taken away, nothing more is given. */
	EXPECT_EQ(-EDQUOT, buffer_create(fd, PAGE, &create));
	close(fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

TEST_F(vgpu, a_parked_one_has_no_memory_to_give)
{
	struct distmind_vgpu_record change = { .gpu = DISTMIND_GPU_NONE };
	struct distmind_buffer_create create;
	struct distmind_vgpu_info info;
	int fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &change.id);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &change, DISTMIND_SET_GPU));
	ASSERT_EQ(0, call(fd, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(DISTMIND_GPU_NONE, info.gpu);
	EXPECT_EQ(DISTMIND_VGPU_STATE_PARKED, info.state);
	EXPECT_EQ(-ENXIO, buffer_create(fd, PAGE, &create));
	change.gpu = self->gpu;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &change, DISTMIND_SET_GPU));
	EXPECT_EQ(0, buffer_create(fd, PAGE, &create));
	close(fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, change.id));
}

TEST_F(vgpu, deletion_ends_open_files_and_frees_their_memory)
{
	struct distmind_buffer_create create;
	struct distmind_vgpu_info info;
	uint32_t id;
	int fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &id);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, buffer_create(fd, 2 * MiB, &create));
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	EXPECT_EQ(-ENODEV, call(fd, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(-ENODEV, buffer_create(fd, PAGE, &create));
	EXPECT_EQ(-ENODEV, buffer_destroy(fd, create.handle));
	EXPECT_EQ(MAP_FAILED, buffer_map(fd, create.map_offset, PAGE));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_GT(0, open_vgpu(id));
	EXPECT_EQ(0, memory_left(self->pool, self->gpu));
	EXPECT_EQ(-ENOENT, distmind_pool_vgpu_delete(self->pool, id));
	close(fd);
}

/* Whatever is asked of it: not that the handles of before never were. */
TEST_F(vgpu, deletion_is_what_all_calls_tell)
{
	struct distmind_timeline_create timeline = { 0 };
	struct distmind_queue_create create = { .kind = DISTMIND_LANE_COMPUTE, .depth = 1 };
	uint32_t id;
	int fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &id);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, call(fd, DISTMIND_IOC_QUEUE_CREATE, &create));
	ASSERT_EQ(0, call(fd, DISTMIND_IOC_TIMELINE_CREATE, &timeline));
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	EXPECT_EQ(-ENODEV, call(fd, DISTMIND_IOC_SUBMIT, &(struct distmind_submit){
		.queue = create.handle, .job_count = 1 }));
	EXPECT_EQ(-ENODEV, call(fd, DISTMIND_IOC_QUEUE_WATCH, &(struct distmind_queue_watch){
		.queue = create.handle, .eventfd = -1 }));
	EXPECT_EQ(-ENODEV, call(fd, DISTMIND_IOC_GRANT_END, &(struct distmind_grant_end){
		.queue = create.handle, .grant = 1 }));
	EXPECT_EQ(-ENODEV, call(fd, DISTMIND_IOC_QUEUE_DESTROY, &(struct distmind_handle_destroy){
		.handle = create.handle }));
	EXPECT_EQ(-ENODEV,
		  call(fd, DISTMIND_IOC_TIMELINE_EXPORT, &(struct distmind_timeline_export){
			  .handle = timeline.handle }));
	EXPECT_EQ(-ENODEV,
		  call(fd, DISTMIND_IOC_TIMELINE_DESTROY, &(struct distmind_handle_destroy){
			  .handle = timeline.handle }));
	close(fd);
}

TEST_F(vgpu, of_a_lost_gpu_says_so_and_works_again_elsewhere)
{
	struct distmind_vgpu_record change;
	struct distmind_buffer_create create;
	struct distmind_vgpu_info info;
	uint32_t second;
	int other, fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &change.id);

	ASSERT_LE(0, fd);
	close(self->engine);
	ASSERT_EQ(0, call(fd, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(DISTMIND_VGPU_STATE_LOST, info.state);
	EXPECT_EQ(-EOWNERDEAD, buffer_create(fd, PAGE, &create));
	other = engine_start("elsewhere", MiB, &second);
	ASSERT_LE(0, other);
	change.gpu = second;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &change, DISTMIND_SET_GPU));
	EXPECT_EQ(0, buffer_create(fd, PAGE, &create));
	close(fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, change.id));
	close(other);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, second));
	self->engine = open("/dev/null", O_RDONLY);
}

TEST_F(vgpu, outlives_the_process_that_created_it)
{
	struct distmind_vgpu_record record;
	int ready[2];
	uint32_t id;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		int fd = vgpu_start(self->pool, self->gpu, MiB, &id);

		_exit(fd < 0 || write(ready[1], &id, sizeof(id)) < 0);
	}
	ASSERT_EQ(0, child_status(pid));
	ASSERT_EQ(sizeof(id), read(ready[0], &id, sizeof(id)));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, id, &record));
	EXPECT_EQ(0, record.clients);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

TEST_F(vgpu, fdinfo_has_the_usage_keys)
{
	struct distmind_buffer_create create;
	char path[64], text[2048] = "";
	uint32_t id;
	FILE *file;
	int fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &id);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, buffer_create(fd, 2 * MiB, &create));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	ASSERT_NE(NULL, file);
	ASSERT_LT(0, fread(text, 1, sizeof(text) - 1, file));
	fclose(file);
	EXPECT_NE(NULL, strstr(text, "drm-driver:\tdistmind\n"));
	EXPECT_NE(NULL, strstr(text, "drm-client-id:\t"));
	EXPECT_NE(NULL, strstr(text, "drm-total-heap:\t2048 KiB\n"));
	EXPECT_NE(NULL, strstr(text, "drm-shared-heap:\t0 KiB\n"));
	close(fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

TEST_HARNESS_MAIN
