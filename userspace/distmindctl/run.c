// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * "distmindctl run": a command that gets vgpus. The child inherits the
 * descriptors; they are the lease, so the vgpus live exactly as long as the
 * command and what it leaves behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noun.h"
#include "parse.h"
#include "terms.h"

#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND	    127
#define EXIT_SIGNAL	    128

/* False: the command ends with ctl->status. argv is moved to the words of the other one. */
static bool parse(struct ctl *ctl, int argc, char ***argv, struct distmind_claim *claim)
{
	struct terms terms = { 0 };
	uint64_t timeout_ns = 0;
	const struct ctl_option known[] = {
		TERMS_OPTIONS(&terms),
		{ "kind", option_label, .to = &claim->kind },
		{ "count", option_number, .to = &claim->count,
		  .min = 1, .max = DISTMIND_ACQUIRE_MAX },
		{ "same-box", option_flag, .to = &claim->same_box },
		{ "timeout", option_duration, .to = &timeout_ns,
		  .min = NSEC_PER_MSEC, .max = DISTMIND_TIMEOUT_MAX_MS * NSEC_PER_MSEC },
		{ "name", option_label, .to = &claim->name },
		{ 0 },
	};

	argc = ctl_options_first(ctl, argc, argv, known);
	if (argc < 0)
		return false;
	ctl->status = terms_complete(ctl, &terms);
	if (!ctl->status && !argc)
		ctl->status = ctl_usage(ctl, "run needs a command, after its options and --");
	claim->memory = terms.memory;
	claim->share = terms.share;
	claim->sched_class = terms.sched_class;
	claim->objective_ns = terms.objective_ns;
	claim->capped = terms.capped;
	claim->timeout_ms = timeout_ns / NSEC_PER_MSEC;
	return ctl->status == CTL_OK;
}

struct search {
	const struct distmind_claim *claim;
	struct distmind_gpu_record gpu;
	bool found;
};

static int match_gpu(const struct distmind_gpu_record *gpu, void *arg)
{
	struct search *search = arg;

	if (gpu->state != DISTMIND_GPU_STATE_READY || gpu->memory < search->claim->memory ||
	    (search->claim->kind && strcmp(gpu->kind, search->claim->kind)))
		return 0;
	search->gpu = *gpu;
	search->found = true;
	return 0;
}

/* The daemon decides; what can be known here is whether any gpu could ever do. */
static int dry_run(struct ctl *ctl, const struct distmind_claim *claim, const char *command)
{
	struct terms terms = { .memory = claim->memory,
			       .share = claim->share,
			       .capped = claim->capped,
			       .sched_class = claim->sched_class,
			       .objective_ns = claim->objective_ns };
	struct search search = { .claim = claim };
	char text[128];
	int ret;

	terms_format(&terms, text, sizeof(text));
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ret = distmind_pool_gpus(ctl->pool, match_gpu, &search);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the gpus");
	if (!search.found)
		return ctl_fail(ctl,
				"cannot run %s: no ready gpu%s%s could hold a vgpu of %s; "
				"see: distmindctl gpu list",
				command, claim->kind ? " of kind " : "",
				claim->kind ? claim->kind : "", text);
	return ctl_would(ctl, "run", "claim", -1,
			 "ask for %u vgpu%s (%s) and run %s; gpu %u (%s) "
			 "could do",
			 claim->count, claim->count == 1 ? "" : "s", text, command,
			 search.gpu.id, search.gpu.name);
}

static int acquire(struct ctl *ctl, const struct distmind_claim *claim,
		   struct distmind_vgpu **vgpus)
{
	char reason[DISTMIND_REASON_LEN] = "";
	int ret;

	ret = distmind_acquire(claim, vgpus, reason);
	switch (ret < 0 ? ret : 0) {
	case 0:
		return CTL_OK;
	case -ENOENT:
		return ctl_fail(ctl, "cannot get a vgpu: the module distmind is not loaded; "
				     "run: modprobe distmind");
	case -ETIMEDOUT:
		return ctl_fail(ctl, "cannot get a vgpu: %s; see: systemctl status distmindd",
				*reason ? reason : "no answer in time");
	case -ENOSPC:
		return ctl_fail(ctl, "cannot get a vgpu: %s; see who has what: distmindctl",
				*reason ? reason : "the pool has no room");
	default:
		return ctl_fail(ctl, "cannot get a vgpu: %s; check the set-up: distmindctl doctor",
				*reason ? reason : strerror(-ret));
	}
}

/* Tell the command what it has got. */
static int announce(struct distmind_vgpu **vgpus, unsigned int count)
{
	char fds[DISTMIND_ACQUIRE_MAX * 12] = "";
	struct distmind_vgpu_info info;
	char path[64];
	size_t len = 0;
	unsigned int i;
	int ret;

	ret = distmind_vgpu_info(vgpus[0], &info);
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", info.id);
	for (i = 0; i < count; i++)
		len += snprintf(fds + len, sizeof(fds) - len, "%s%d", i ? "," : "",
				distmind_vgpu_fd(vgpus[i]));
	if (setenv(DISTMIND_ENV_FDS, fds, 1) || setenv("DISTMIND_VGPU", path, 1))
		return -errno;
	return 0;
}

static void exec_command(struct ctl *ctl, struct distmind_vgpu **vgpus, unsigned int count,
			 char **argv)
{
	unsigned int i;
	int error;

	for (i = 0; i < count; i++)
		fcntl(distmind_vgpu_fd(vgpus[i]), F_SETFD, 0);
	execvp(argv[0], argv);
	error = errno;
	ctl_fail(ctl, "cannot run %s: %s; check the command's name and permissions", argv[0],
		 strerror(error));
	fflush(ctl->err);
	_exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/*
 * Signals that somebody sent to this process are meant for the command. Those
 * of a terminal (SI_KERNEL) have reached it already, as one of the same group.
 */
static int wait_command(pid_t pid, const sigset_t *signals)
{
	siginfo_t info;
	int status;
	int number;

	for (;;) {
		number = sigwaitinfo(signals, &info);
		if (number > 0 && number != SIGCHLD) {
			if (info.si_code <= 0 && info.si_pid != pid)
				kill(pid, number);
			continue;
		}
		if (waitpid(pid, &status, WNOHANG) != pid)
			continue;
		if (WIFSIGNALED(status))
			return EXIT_SIGNAL + WTERMSIG(status);
		return WEXITSTATUS(status);
	}
}

static int run(struct ctl *ctl, struct distmind_vgpu **vgpus, unsigned int count, char **argv)
{
	static const int forwarded[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
					 SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD };
	sigset_t signals, before;
	unsigned int i;
	pid_t pid;
	int ret;

	ret = announce(vgpus, count);
	if (ret)
		ret = ctl_fail(ctl, "cannot use the vgpu: %s; check the set-up: distmindctl doctor",
			       strerror(-ret));
	sigemptyset(&signals);
	for (i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&signals, forwarded[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	fflush(ctl->out);
	pid = ret ? -1 : fork();
	if (!pid) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		exec_command(ctl, vgpus, count, argv);
	}
	if (pid < 0 && !ret)
		ret = ctl_fail(ctl, "cannot run %s: %s; free memory or processes and try again",
			       argv[0], strerror(errno));
	/* From here on the vgpus are the command's alone. */
	for (i = 0; i < count; i++)
		distmind_vgpu_close(vgpus[i]);
	if (pid > 0)
		ret = wait_command(pid, &signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret;
}

int run_command(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_vgpu *vgpus[DISTMIND_ACQUIRE_MAX];
	struct distmind_claim claim = { .count = 1 };
	int ret;

	if (!parse(ctl, argc, &argv, &claim))
		return ctl->status;
	if (ctl->dry_run)
		return dry_run(ctl, &claim, argv[0]);
	ret = acquire(ctl, &claim, vgpus);
	if (ret)
		return ret;
	return run(ctl, vgpus, claim.count, argv);
}
