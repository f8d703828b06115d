// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The event loop: the kernel's events, signals, and clocks: for lost
 * gpus, for a pool that could not be listed, for the status that is shown, for the end.
 */
#include "daemon.h"

#include "gpus/decide.h"
#include "common/log.h"
#include "common/turns.h"
#include "pool/models.h"
#include "gpus/inventory.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#define RETRY_US 100000
#define STATUS_US 1000000
#define LEAVE_US 1000000 /* at most, to say goodbye to the pool */
#define ACCURACY_US 10000
/* Turns for the kernel's events in a row, while others wait. */
#define KERNEL_ROW 8

struct daemon {
	const struct daemon_options *options;
	struct config config;
	struct distmind_pool *kernel;
	struct inventory inventory;
	struct models *models; /* NULL: none on this host */
	sd_event *loop;
	sd_event_source *events; /* of the kernel */
	unsigned int row;	 /* turns that these have had without another */
	sd_event_source *again;	 /* there was more than fits one turn */
	sd_event_source *retry;	 /* the pool is stale */
	sd_event_source *expiry; /* a gpu has been lost for too long */
	sd_event_source *status;
	sd_event_source *leave; /* the pool does not answer */
	bool leaving;
};

int daemon_configure(const struct daemon_options *options, struct config *config)
{
	char error[CONFIG_ERROR_LEN];
	int err;

	err = config_read(options->config_path, config, error);
	if (err == -ENOENT && options->config_optional) {
		config_default(config);
		return 0;
	}
	if (err)
		log_error("config-refused", LOG_S("reason", error));
	return err;
}

static void arm(sd_event_source *timer, uint64_t at)
{
	if (at == UINT64_MAX) {
		sd_event_source_set_enabled(timer, SD_EVENT_OFF);
		return;
	}
	sd_event_source_set_time(timer, at);
	sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

/* Not with every event: it is a message to another process. */
static void arm_status(struct daemon *daemon)
{
	int enabled;

	if (sd_event_source_get_enabled(daemon->status, &enabled) >= 0 && enabled == SD_EVENT_OFF)
		arm(daemon->status, daemon->inventory.clock_us() + STATUS_US);
}

/* Everything that happens leads here. Errors other than a stale pool are fatal. */
static int work(struct daemon *daemon)
{
	int ret;

	turns_name("claims and gpus");
	ret = inventory_update(&daemon->inventory);
	/* What the loaded weights give up is there to be decided on at once. */
	if (!ret && daemon->models && weights_follow(&daemon->models->weights, &daemon->inventory))
		ret = inventory_update(&daemon->inventory);
	if (!ret)
		ret = decide(&daemon->inventory, &daemon->config);
	if (ret < 0 && ret != -EAGAIN) {
		log_error("pool-lost", LOG_S("reason", strerror(-ret)));
		sd_event_exit(daemon->loop, ret);
		return ret;
	}
	arm(daemon->retry, ret < 0 ? daemon->inventory.clock_us() + RETRY_US : UINT64_MAX);
	sd_event_source_set_enabled(daemon->again, ret > 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	arm(daemon->expiry, decide_expiry(&daemon->inventory, &daemon->config));
	arm_status(daemon);
	return 0;
}

static int on_events(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	(void)source;
	(void)fd;
	(void)revents;
	((struct daemon *)arg)->row++;
	return work(arg);
}

static int on_again(sd_event_source *source, void *arg)
{
	(void)source;
	return work(arg);
}

static int on_time(sd_event_source *source, uint64_t us, void *arg)
{
	(void)source;
	(void)us;
	return work(arg);
}

static int on_status(sd_event_source *source, uint64_t us, void *arg)
{
	struct daemon *daemon = arg;

	(void)source;
	(void)us;
	sd_notifyf(0, "STATUS=%zu gpus, %zu vgpus, %zu claims wait", daemon->inventory.gpus.count,
		   daemon->inventory.vgpus.count, daemon->inventory.claims.count);
	return 0;
}

static void on_left(const struct catalog_result *result, void *arg)
{
	struct daemon *daemon = arg;

	if (result->err != -ECANCELED)
		sd_event_exit(daemon->loop, 0);
}

static int on_leave_time(sd_event_source *source, uint64_t us, void *arg)
{
	struct daemon *daemon = arg;

	(void)source;
	(void)us;
	return sd_event_exit(daemon->loop, 0);
}

static int on_end(sd_event_source *source, const struct signalfd_siginfo *info, void *arg)
{
	struct daemon *daemon = arg;

	(void)source;
	log_info("stopping", LOG_S("signal", sigabbrev_np((int)info->ssi_signo)));
	sd_notify(0, "STOPPING=1");
	/* A second signal does not wait. */
	if (daemon->leaving || !daemon->models || models_leave(daemon->models, on_left, daemon))
		return sd_event_exit(daemon->loop, 0);
	daemon->leaving = true;
	arm(daemon->leave, daemon->inventory.clock_us() + LEAVE_US);
	return 0;
}

/* A configuration that is wrong changes nothing. */
static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *arg)
{
	struct daemon *daemon = arg;
	struct config config;
	int ret = 0;

	(void)source;
	(void)info;
	sd_notify(0, "RELOADING=1");
	if (!daemon_configure(daemon->options, &config)) {
		daemon->config = config;
		log_set_level(config.log_level);
		log_info("config-reloaded", LOG_S("file", daemon->options->config_path));
		ret = work(daemon);
	}
	sd_notify(0, "READY=1");
	return ret;
}

static int add_signals(struct daemon *daemon)
{
	sigset_t set;
	int err;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	err = sd_event_add_signal(daemon->loop, NULL, SIGTERM, on_end, daemon);
	if (err >= 0)
		err = sd_event_add_signal(daemon->loop, NULL, SIGINT, on_end, daemon);
	if (err >= 0)
		err = sd_event_add_signal(daemon->loop, NULL, SIGHUP, on_reload, daemon);
	return err < 0 ? err : 0;
}

static int add_timer(struct daemon *daemon, sd_event_source **timer,
		     sd_event_time_handler_t handler)
{
	int err = sd_event_add_time(daemon->loop, timer, CLOCK_MONOTONIC, UINT64_MAX, ACCURACY_US,
				    handler, daemon);

	return err < 0 ? err : sd_event_source_set_enabled(*timer, SD_EVENT_OFF);
}

static int open_loop(struct daemon *daemon)
{
	int err = sd_event_new(&daemon->loop);

	if (err >= 0)
		err = add_signals(daemon);
	if (err >= 0)
		err = sd_event_add_io(daemon->loop, &daemon->events,
				      distmind_pool_event_fd(daemon->kernel), EPOLLIN, on_events,
				      daemon);
	if (err >= 0)
		err = sd_event_source_set_priority(daemon->events, SD_EVENT_PRIORITY_IMPORTANT);
	if (err >= 0)
		err = sd_event_add_defer(daemon->loop, &daemon->again, on_again, daemon);
	if (err >= 0)
		err = sd_event_source_set_enabled(daemon->again, SD_EVENT_OFF);
	if (err >= 0)
		err = add_timer(daemon, &daemon->retry, on_time);
	if (err >= 0)
		err = add_timer(daemon, &daemon->expiry, on_time);
	if (err >= 0)
		err = add_timer(daemon, &daemon->status, on_status);
	if (err >= 0)
		err = add_timer(daemon, &daemon->leave, on_leave_time);
	if (err >= 0)
		err = sd_event_set_watchdog(daemon->loop, 1);
	if (err < 0)
		log_error("no-event-loop", LOG_S("reason", strerror(-err)));
	return err < 0 ? err : 0;
}

static void close_loop(struct daemon *daemon)
{
	sd_event_source_unref(daemon->events);
	sd_event_source_unref(daemon->again);
	sd_event_source_unref(daemon->retry);
	sd_event_source_unref(daemon->expiry);
	sd_event_source_unref(daemon->status);
	sd_event_source_unref(daemon->leave);
	sd_event_unref(daemon->loop);
}

/* Events first, so that nothing that happens during the first listing is missed. */
static int open_pool(struct daemon *daemon)
{
	int err = distmind_pool_open(&daemon->kernel);

	if (err == -ENOENT)
		log_error("no-module",
			  LOG_S("reason", "the distmind module is not loaded: modprobe distmind"));
	else if (err)
		log_error("no-netlink", LOG_S("reason", strerror(-err)));
	if (err)
		return err;
	err = distmind_pool_subscribe(daemon->kernel);
	if (err) {
		log_error("no-events", LOG_S("reason", distmind_pool_error(daemon->kernel)));
		distmind_pool_close(daemon->kernel);
		return err;
	}
	inventory_init(&daemon->inventory, daemon->kernel);
	return 0;
}

/*
 * Who waits for a vgpu comes before who asks about models. But a tenant that claims and gives
 * back without end would keep all others waiting: after a few turns somebody else has one, if
 * there is anybody.
 */
static int run(struct daemon *daemon)
{
	int ret = 0, code = 0;

	while (ret >= 0 && sd_event_get_state(daemon->loop) != SD_EVENT_FINISHED) {
		unsigned int row = daemon->row;

		ret = turns_run(daemon->loop, UINT64_MAX);
		if (ret > 0 && daemon->row == row) {
			daemon->row = 0;
			sd_event_source_set_priority(daemon->events, SD_EVENT_PRIORITY_IMPORTANT);
		} else if (daemon->row == KERNEL_ROW) {
			sd_event_source_set_priority(daemon->events, SD_EVENT_PRIORITY_IDLE);
		}
	}
	if (ret < 0)
		return ret;
	sd_event_get_exit_code(daemon->loop, &code);
	return code;
}

static int serve(struct daemon *daemon)
{
	int err;

	daemon->models = models_open(daemon->loop, daemon->kernel, &daemon->config.models);
	err = work(daemon);
	if (err < 0)
		return err;
	log_info("ready", LOG_S("version", DISTMIND_VERSION),
		 LOG_S("policy", daemon->config.policy->name));
	daemon->options->ready(daemon->options->arg);
	sd_notify(0, "READY=1");
	return run(daemon);
}

int daemon_run(const struct daemon_options *options, const struct config *config)
{
	struct daemon daemon = { .options = options, .config = *config };
	int err;

	err = open_pool(&daemon);
	if (err)
		return err;
	err = open_loop(&daemon);
	if (!err)
		err = serve(&daemon);
	models_close(daemon.models);
	close_loop(&daemon);
	inventory_free(&daemon.inventory);
	distmind_pool_close(daemon.kernel);
	return err;
}
