// SPDX-License-Identifier: GPL-2.0-or-later
#include "trace_record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <tracefs.h>
#include <unistd.h>

#include "../common/clock.h"
#include "parse.h"
#include "screen.h"

#define SYSTEM	      "distmind"
#define INSTANCE      "distmindctl-"
#define BUFFER_KB     4096		   /* each CPU; read out every LOOK_NS */
#define LOOK_NS	      (50 * NSEC_PER_MSEC)
#define EVENTS_MAX    ((size_t)4 << 20)	   /* 300 MB, and more than a browser shows */

/* And what they call their times and ends, if they have any. */
static const struct {
	const char *name, *took, *status;
} tracepoints[TRACE_KINDS] = {
	[TRACE_READY] = { "distmind_job_ready", NULL, NULL },
	[TRACE_START] = { "distmind_job_start", "wait_ns", NULL },
	[TRACE_STOP] = { "distmind_job_stop", "ran_ns", "status" },
	[TRACE_SIGNAL] = { "distmind_timeline_signal", "since_ns", "error" },
	[TRACE_REQUEST] = { "distmind_request_end", "latency_ns", "error" },
	[TRACE_ASK] = { "distmind_preempt_ask", NULL, NULL },
	[TRACE_HOOK] = { "distmind_preempt_hook", NULL, "result" },
	[TRACE_HANG] = { "distmind_preempt_hang", NULL, NULL },
	[TRACE_KILL] = { "distmind_preempt_kill", NULL, NULL },
};

struct recorder {
	struct ctl *ctl;
	struct tracefs_instance *instance;
	struct tep_handle *tep;
	int ids[TRACE_KINDS];
	struct trace_recording *recording;
	size_t room;
	bool out_of_memory;
};

/* Fields that a tracepoint does not have stay 0. */
static uint64_t field(struct tep_event *event, struct tep_record *record, const char *name)
{
	struct tep_format_field *found = name ? tep_find_field(event, name) : NULL;
	unsigned long long value;

	return found && !tep_read_number_field(found, record->data, &value) ? value : 0;
}

/* What job and cookie are to others. */
static const char *job_field(enum trace_kind kind)
{
	return kind == TRACE_SIGNAL ? "timeline" : kind == TRACE_REQUEST ? "request" : "job";
}

static const char *cookie_field(enum trace_kind kind)
{
	return kind == TRACE_SIGNAL ? "value" : kind == TRACE_REQUEST ? "client" : "cookie";
}

/* Where the time of a request went. */
static void take_parts(struct tep_event *event, struct tep_record *record,
		       struct trace_event *request)
{
	char name[32];

	request->missed = field(event, record, "missed");
	for (uint32_t i = 0; i < TRACE_PHASES && request->took_ns; i++) {
		snprintf(name, sizeof(name), "%s_ns", distmind_request_phase_name(i));
		request->parts[i] = (uint16_t)(1000.0 * (double)field(event, record, name) /
					       (double)request->took_ns + 0.5);
	}
}

static int take(struct tep_event *event, struct tep_record *record, int cpu, void *arg)
{
	struct recorder *recorder = arg;
	struct trace_recording *recording = recorder->recording;
	struct trace_event *grown;
	enum trace_kind kind;

	(void)cpu;
	for (kind = 0; kind < TRACE_KINDS && recorder->ids[kind] != event->id; kind++)
		;
	if (kind == TRACE_KINDS)
		return 0;
	if (recording->count == EVENTS_MAX) {
		recording->full = true;
		return 0;
	}
	if (recording->count == recorder->room) {
		recorder->room = 2 * recorder->room + 1024;
		grown = reallocarray(recording->events, recorder->room, sizeof(*grown));
		if (!grown) {
			recorder->out_of_memory = true;
			return 1;
		}
		recording->events = grown;
	}
	recording->events[recording->count++] = (struct trace_event){
		.kind = kind,
		.time_ns = record->ts,
		.gpu = field(event, record, "gpu"),
		.lane = field(event, record, "lane"),
		.vgpu = field(event, record, "vgpu"),
		.type = field(event, record, "type"),
		.operation = field(event, record, "operation"),
		.blocks = field(event, record, "blocks"),
		.job = field(event, record, job_field(kind)),
		.cookie = field(event, record, cookie_field(kind)),
		.took_ns = field(event, record, tracepoints[kind].took),
		.status = field(event, record, tracepoints[kind].status),
	};
	if (kind == TRACE_REQUEST)
		take_parts(event, record, &recording->events[recording->count - 1]);
	return 0;
}

static bool is_stale(const char *name)
{
	uint32_t pid;

	if (strncmp(name, INSTANCE, strlen(INSTANCE)) ||
	    number_parse(name + strlen(INSTANCE), 1, INT32_MAX, &pid))
		return false;
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* What recordings that were killed have left. */
static int remove_stale(const char *name, void *arg)
{
	struct tracefs_instance *instance;

	(void)arg;
	if (!is_stale(name))
		return 0;
	instance = tracefs_instance_alloc(NULL, name);
	if (instance) {
		tracefs_instance_destroy(instance);
		tracefs_instance_free(instance);
	}
	return 0;
}

static int check_tracefs(struct ctl *ctl)
{
	const char *dir = tracefs_tracing_dir();
	enum trace_kind kind;

	if (!dir)
		return ctl_fail(ctl, "cannot trace: there is no tracefs; run: mount -t tracefs "
				     "nodev /sys/kernel/tracing");
	if (access(dir, R_OK | W_OK | X_OK))
		return ctl_fail(ctl, "cannot trace: %s: %s; run it as root", dir,
				strerror(errno));
	for (kind = 0; kind < TRACE_KINDS; kind++) {
		if (!tracefs_event_file_exists(NULL, SYSTEM, tracepoints[kind].name, "format"))
			return ctl_fail(ctl,
					"cannot trace: the loaded module has no tracepoint %s; "
					"load the one of this version: modprobe -r distmind && "
					"modprobe distmind",
					tracepoints[kind].name);
	}
	return CTL_OK;
}

static int set_event(struct recorder *recorder, enum trace_kind kind, uint32_t gpu)
{
	const char *name = tracepoints[kind].name;
	struct tep_event *event = tep_find_event_by_name(recorder->tep, SYSTEM, name);
	char filter[32];

	if (!event)
		return -1;
	recorder->ids[kind] = event->id;
	snprintf(filter, sizeof(filter), "gpu == %u", gpu);
	/* Timelines are of no gpu. */
	if (gpu != DISTMIND_GPU_NONE && kind != TRACE_SIGNAL &&
	    tracefs_event_file_write(recorder->instance, SYSTEM, name, "filter", filter) < 0)
		return -1;
	return tracefs_event_enable(recorder->instance, SYSTEM, name);
}

static int open_recorder(struct recorder *recorder, uint32_t gpu)
{
	static const char *const systems[] = { SYSTEM, NULL };
	enum trace_kind kind;
	char name[32];

	tracefs_instances_walk(remove_stale, NULL);
	snprintf(name, sizeof(name), INSTANCE "%d", getpid());
	recorder->instance = tracefs_instance_create(name);
	if (!recorder->instance)
		return ctl_fail(recorder->ctl, "cannot make a trace instance: %s; run it as root",
				strerror(errno));
	recorder->tep = tracefs_local_events_system(NULL, systems);
	if (!recorder->tep)
		return ctl_fail(recorder->ctl, "cannot read the formats of the tracepoints: %s; "
					       "look at /sys/kernel/tracing/events/" SYSTEM,
				strerror(errno));
	tracefs_trace_off(recorder->instance);
	if (tracefs_instance_file_write(recorder->instance, "trace_clock", "mono") < 0 ||
	    tracefs_instance_set_buffer_size(recorder->instance, BUFFER_KB, -1) < 0)
		return ctl_fail(recorder->ctl, "cannot set the trace instance up: %s; free memory "
					       "and try again",
				strerror(errno));
	for (kind = 0; kind < TRACE_KINDS; kind++) {
		if (set_event(recorder, kind, gpu))
			return ctl_fail(recorder->ctl,
					"cannot enable the tracepoint %s: %s; is the kernel "
					"locked down?",
					tracepoints[kind].name, strerror(errno));
	}
	return CTL_OK;
}

static void close_recorder(struct recorder *recorder)
{
	if (recorder->tep)
		tep_free(recorder->tep);
	if (recorder->instance) {
		tracefs_instance_destroy(recorder->instance);
		tracefs_instance_free(recorder->instance);
	}
}

/* What the kernel had to drop, of all CPUs. */
static uint64_t count_lost(struct recorder *recorder)
{
	static const char *const keys[] = { "\noverrun: ", "\ndropped events: " };
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint64_t lost = 0;
	char file[64];

	for (long cpu = 0; cpu < cpus; cpu++) {
		char *stats, *at;

		snprintf(file, sizeof(file), "per_cpu/cpu%ld/stats", cpu);
		stats = tracefs_instance_file_read(recorder->instance, file, NULL);
		for (size_t i = 0; stats && i < sizeof(keys) / sizeof(keys[0]); i++) {
			at = strstr(stats, keys[i]);
			lost += at ? strtoull(at + strlen(keys[i]), NULL, 10) : 0;
		}
		free(stats);
	}
	return lost;
}

static int drain(struct recorder *recorder)
{
	if (!tracefs_iterate_raw_events(recorder->tep, recorder->instance, NULL, 0, take,
					recorder) &&
	    !recorder->out_of_memory)
		return CTL_OK;
	return ctl_fail(recorder->ctl, "cannot read the trace: %s; try a shorter one",
			strerror(recorder->out_of_memory ? ENOMEM : errno));
}

/* Until the time is over, a signal comes or there are too many events. */
static int follow(struct recorder *recorder, uint64_t until, int signals)
{
	struct pollfd poll_signals = { .fd = signals, .events = POLLIN };
	int ret = CTL_OK;

	while (!ret && !recorder->recording->full) {
		uint64_t now = clock_ns(), left = until > now ? until - now : 0;
		struct timespec timeout = { .tv_nsec = left < LOOK_NS ? left : LOOK_NS };

		if (!left || ppoll(&poll_signals, 1, &timeout, NULL) > 0)
			break;
		ret = drain(recorder);
	}
	return ret;
}

static int record(struct recorder *recorder, uint64_t duration_ns, int signals)
{
	struct trace_recording *recording = recorder->recording;
	uint64_t until = UINT64_MAX;
	int ret;

	recording->begin_ns = clock_ns();
	if (duration_ns)
		until = recording->begin_ns + duration_ns;
	tracefs_trace_on(recorder->instance);
	if (!duration_ns)
		ctl_hint(recorder->ctl, "recording; Ctrl-C ends it");
	ret = follow(recorder, until, signals);
	recording->end_ns = clock_ns();
	tracefs_trace_off(recorder->instance);
	if (!ret)
		ret = drain(recorder);
	recording->lost = count_lost(recorder);
	return ret;
}

/* The instance must not outlive us, so that signals wait from before it is there. */
static int record_undisturbed(struct recorder *recorder, const struct trace_wish *wish)
{
	struct signalfd_siginfo info;
	sigset_t set, before;
	int signals, ret;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		return ctl_fail(recorder->ctl, "cannot watch for signals: %s; close some files",
				strerror(errno));
	sigprocmask(SIG_BLOCK, &set, &before);
	ret = open_recorder(recorder, wish->gpu);
	if (!ret)
		ret = record(recorder, wish->duration_ns, signals);
	close_recorder(recorder);
	/* The signal that ended it has done its work. */
	while (read(signals, &info, sizeof(info)) == sizeof(info))
		;
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(signals);
	return ret;
}

int trace_record(struct ctl *ctl, const struct trace_wish *wish,
		 struct trace_recording *recording)
{
	struct recorder recorder = { .ctl = ctl, .recording = recording };
	int ret;

	*recording = (struct trace_recording){ 0 };
	ret = check_tracefs(ctl);
	if (!ret)
		ret = record_undisturbed(&recorder, wish);
	if (ret)
		free(recording->events);
	return ret;
}
