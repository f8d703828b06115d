/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The nouns: a command each, and what they know of each other. */
#ifndef DISTMINDCTL_NOUN_H
#define DISTMINDCTL_NOUN_H

#include "ctl.h"

int gpu_command(struct ctl *ctl, int argc, char **argv);
int vgpu_command(struct ctl *ctl, int argc, char **argv);
int buffer_command(struct ctl *ctl, int argc, char **argv);
int claim_command(struct ctl *ctl, int argc, char **argv);
int limit_command(struct ctl *ctl, int argc, char **argv);
int model_command(struct ctl *ctl, int argc, char **argv);
int host_command(struct ctl *ctl, int argc, char **argv);
int pool_command(struct ctl *ctl, int argc, char **argv);
int policy_command(struct ctl *ctl, int argc, char **argv);
int top_command(struct ctl *ctl, int argc, char **argv);
int trace_command(struct ctl *ctl, int argc, char **argv);
int monitor_command(struct ctl *ctl, int argc, char **argv);
int run_command(struct ctl *ctl, int argc, char **argv);
int doctor_command(struct ctl *ctl, int argc, char **argv);
int completion_command(struct ctl *ctl, int argc, char **argv);

extern const struct command gpu_verbs[];
extern const struct command vgpu_verbs[];
extern const struct command buffer_verbs[];
extern const struct command claim_verbs[];
extern const struct command limit_verbs[];
extern const struct command model_verbs[];
extern const struct command host_verbs[];
extern const struct command pool_verbs[];

/* The fields of a row. */
void gpu_print(struct print *print, const struct distmind_gpu_record *gpu);
void vgpu_print(struct print *print, const struct distmind_vgpu_record *vgpu);
void claim_print(struct print *print, const struct distmind_claim_record *claim);

enum print_colour gpu_colour(uint32_t state);

#define GPU_HINT "no gpus in the pool; start one with: distmind-engine-cpu --memory 1G"

/* The gpu that word names, by number or name. Returns the exit code. */
int gpu_find(struct ctl *ctl, const char *word, struct distmind_gpu_record *gpu);

/* The same for a vgpu: "3", "vgpu3", "/dev/distmind/vgpu3", or a name that only one has. */
int vgpu_find(struct ctl *ctl, const char *word, struct distmind_vgpu_record *vgpu);

/*
 * Would the kernel bind a vgpu to the gpu? An exit code, and the reason on
 * stderr after what, such as "cannot create the vgpu".
 */
int gpu_accepts(struct ctl *ctl, const struct distmind_gpu_record *gpu, const char *what);

/* May the gpu be changed? The same, after "cannot" and what, such as "drain". */
int gpu_may_set(struct ctl *ctl, const struct distmind_gpu_record *gpu, const char *what);

#endif /* DISTMINDCTL_NOUN_H */
