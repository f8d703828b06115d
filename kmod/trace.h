/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM distmind

#if !defined(_DISTMIND_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _DISTMIND_TRACE_H

#include <linux/tracepoint.h>

#include "buffer.h"
#include "claim.h"
#include "gpu.h"
#include "job.h"
#include "preempt.h"
#include "queue.h"
#include "request.h"
#include "tenant.h"
#include "timeline.h"
#include "vgpu.h"

DECLARE_EVENT_CLASS(distmind_gpu,
		    TP_PROTO(const struct distmind_gpu *gpu),
		    TP_ARGS(gpu),
		    TP_STRUCT__entry(__field(u32, gpu)
				     __array(char, name, DISTMIND_NAME_LEN)
				     __field(u64, memory)
				     __field(u32, vgpus)),
		    TP_fast_assign(__entry->gpu = gpu->id;
				   memcpy(__entry->name, gpu->name, DISTMIND_NAME_LEN);
				   __entry->memory = (u64)gpu->heap.pages << PAGE_SHIFT;
				   __entry->vgpus = gpu->vgpu_count;),
		    TP_printk("gpu=%u name=%s memory=%llu vgpus=%u", __entry->gpu, __entry->name,
			      __entry->memory, __entry->vgpus));

DEFINE_EVENT(distmind_gpu, distmind_gpu_register,
	     TP_PROTO(const struct distmind_gpu *gpu), TP_ARGS(gpu));
DEFINE_EVENT(distmind_gpu, distmind_gpu_lose,
	     TP_PROTO(const struct distmind_gpu *gpu), TP_ARGS(gpu));
DEFINE_EVENT(distmind_gpu, distmind_gpu_remove,
	     TP_PROTO(const struct distmind_gpu *gpu), TP_ARGS(gpu));

DECLARE_EVENT_CLASS(distmind_vgpu,
		    TP_PROTO(const struct distmind_vgpu *vgpu),
		    TP_ARGS(vgpu),
		    TP_STRUCT__entry(__field(u32, vgpu)
				     __field(s32, gpu)
				     __field(u64, memory)
				     __field(u32, share)
				     __field(u32, class)),
		    TP_fast_assign(__entry->vgpu = vgpu->id;
				   __entry->gpu = vgpu->gpu ? (s32)vgpu->gpu->id : -1;
				   __entry->memory = vgpu->settings.memory;
				   __entry->share = vgpu->settings.share;
				   __entry->class = vgpu->settings.class;),
		    TP_printk("vgpu=%u gpu=%d memory=%llu share=%u class=%u", __entry->vgpu,
			      __entry->gpu, __entry->memory, __entry->share, __entry->class));

DEFINE_EVENT(distmind_vgpu, distmind_vgpu_create,
	     TP_PROTO(const struct distmind_vgpu *vgpu), TP_ARGS(vgpu));
DEFINE_EVENT(distmind_vgpu, distmind_vgpu_bind,
	     TP_PROTO(const struct distmind_vgpu *vgpu), TP_ARGS(vgpu));
DEFINE_EVENT(distmind_vgpu, distmind_vgpu_kill,
	     TP_PROTO(const struct distmind_vgpu *vgpu), TP_ARGS(vgpu));

DECLARE_EVENT_CLASS(distmind_buffer,
		    TP_PROTO(const struct distmind_buffer *buffer),
		    TP_ARGS(buffer),
		    TP_STRUCT__entry(__field(u32, buffer)
				     __field(u32, vgpu)
				     __field(u32, gpu)
				     __field(u64, size)
				     __field(u64, offset)),
		    TP_fast_assign(__entry->buffer = buffer->id;
				   __entry->vgpu = buffer->vgpu->id;
				   __entry->gpu = buffer->gpu_id;
				   __entry->size = distmind_buffer_size(buffer);
				   __entry->offset = distmind_buffer_offset(buffer);),
		    TP_printk("buffer=%u vgpu=%u gpu=%u size=%llu offset=%llu", __entry->buffer,
			      __entry->vgpu, __entry->gpu, __entry->size, __entry->offset));

DEFINE_EVENT(distmind_buffer, distmind_buffer_create,
	     TP_PROTO(const struct distmind_buffer *buffer), TP_ARGS(buffer));
DEFINE_EVENT(distmind_buffer, distmind_buffer_destroy,
	     TP_PROTO(const struct distmind_buffer *buffer), TP_ARGS(buffer));

DECLARE_EVENT_CLASS(distmind_claim,
		    TP_PROTO(const struct distmind_claim *claim),
		    TP_ARGS(claim),
		    TP_STRUCT__entry(__field(u32, claim)
				     __field(pid_t, pid)
				     __field(u64, memory)
				     __field(u32, count)
				     __field(int, error)),
		    TP_fast_assign(__entry->claim = claim->id;
				   __entry->pid = claim->owner.pid;
				   __entry->memory = claim->settings.memory;
				   __entry->count = claim->count;
				   __entry->error = claim->error;),
		    TP_printk("claim=%u pid=%d memory=%llu count=%u error=%d", __entry->claim,
			      __entry->pid, __entry->memory, __entry->count, __entry->error));

DEFINE_EVENT(distmind_claim, distmind_claim_add,
	     TP_PROTO(const struct distmind_claim *claim), TP_ARGS(claim));
DEFINE_EVENT(distmind_claim, distmind_claim_del,
	     TP_PROTO(const struct distmind_claim *claim), TP_ARGS(claim));

TRACE_EVENT(distmind_job_ready,
	    TP_PROTO(const struct distmind_job *job),
	    TP_ARGS(job),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, vgpu)
			     __field(u64, job)
			     __field(u32, type)
			     __field(u32, operation)
			     __field(u32, blocks)
			     __field(u64, cookie)),
	    TP_fast_assign(__entry->gpu = job->queue->tenant->gpu->id;
			   __entry->vgpu = job->queue->tenant->vgpu->id;
			   __entry->job = job->id;
			   __entry->type = job->type;
			   __entry->operation = job->operation;
			   __entry->blocks = job->blocks;
			   __entry->cookie = job->cookie;),
	    TP_printk("gpu=%u vgpu=%u job=%llu type=%u operation=%u blocks=%u cookie=%llu",
		      __entry->gpu, __entry->vgpu, __entry->job, __entry->type,
		      __entry->operation, __entry->blocks, __entry->cookie));

TRACE_EVENT(distmind_job_no_room,
	    TP_PROTO(const struct distmind_job *job, const struct distmind_queue_room *room),
	    TP_ARGS(job, room),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, vgpu)
			     __field(u64, job)
			     __field(u32, cause)
			     __field(u32, buffer)
			     __field(u32, of)
			     __field(u32, at)
			     __field(int, pid)
			     __field(u64, waited)),
	    TP_fast_assign(__entry->gpu = job->queue->tenant->gpu->id;
			   __entry->vgpu = job->queue->tenant->vgpu->id;
			   __entry->job = job->id;
			   __entry->cause = room->cause;
			   __entry->buffer = room->buffer;
			   __entry->of = room->vgpu;
			   __entry->at = room->gpu;
			   __entry->pid = room->pid;
			   __entry->waited = room->waited_ns;),
	    TP_printk("gpu=%u vgpu=%u job=%llu cause=%u buffer=%u of=%u at=%u pid=%d waited=%llu",
		      __entry->gpu, __entry->vgpu, __entry->job, __entry->cause,
		      __entry->buffer, __entry->of, __entry->at, __entry->pid,
		      __entry->waited));

TRACE_EVENT(distmind_job_start,
	    TP_PROTO(const struct distmind_job *job, u32 lane, u64 wait_ns),
	    TP_ARGS(job, lane, wait_ns),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, lane)
			     __field(u32, vgpu)
			     __field(u64, job)
			     __field(u32, type)
			     __field(u32, operation)
			     __field(u64, cookie)
			     __field(u64, wait_ns)),
	    TP_fast_assign(__entry->gpu = job->queue->tenant->gpu->id;
			   __entry->lane = lane;
			   __entry->vgpu = job->queue->tenant->vgpu->id;
			   __entry->job = job->id;
			   __entry->type = job->type;
			   __entry->operation = job->operation;
			   __entry->cookie = job->cookie;
			   __entry->wait_ns = wait_ns;),
	    TP_printk("gpu=%u lane=%u vgpu=%u job=%llu type=%u operation=%u cookie=%llu wait_ns=%llu",
		      __entry->gpu, __entry->lane, __entry->vgpu, __entry->job, __entry->type,
		      __entry->operation, __entry->cookie, __entry->wait_ns));

TRACE_EVENT(distmind_job_stop,
	    TP_PROTO(const struct distmind_job *job, u32 lane, int status, u64 cookie, u64 ran_ns),
	    TP_ARGS(job, lane, status, cookie, ran_ns),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, lane)
			     __field(u32, vgpu)
			     __field(u64, job)
			     __field(int, status)
			     __field(u64, cookie)
			     __field(u64, ran_ns)),
	    TP_fast_assign(__entry->gpu = job->queue->tenant->gpu->id;
			   __entry->lane = lane;
			   __entry->vgpu = job->queue->tenant->vgpu->id;
			   __entry->job = job->id;
			   __entry->status = status;
			   __entry->cookie = cookie;
			   __entry->ran_ns = ran_ns;),
	    TP_printk("gpu=%u lane=%u vgpu=%u job=%llu status=%d cookie=%llu ran_ns=%llu",
		      __entry->gpu, __entry->lane, __entry->vgpu, __entry->job, __entry->status,
		      __entry->cookie, __entry->ran_ns));

TRACE_EVENT(distmind_request_begin,
	    TP_PROTO(const struct distmind_request *request),
	    TP_ARGS(request),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, vgpu)
			     __field(u64, client)
			     __field(u64, request)),
	    TP_fast_assign(__entry->gpu = request->gpu;
			   __entry->vgpu = request->vgpu->id;
			   __entry->client = request->client;
			   __entry->request = request->id;),
	    TP_printk("gpu=%u vgpu=%u client=%llu request=%llu", __entry->gpu, __entry->vgpu,
		      __entry->client, __entry->request));

TRACE_EVENT(distmind_request_end,
	    TP_PROTO(const struct distmind_request *request, u64 latency_ns, bool missed),
	    TP_ARGS(request, latency_ns, missed),
	    TP_STRUCT__entry(__field(u32, gpu)
			     __field(u32, vgpu)
			     __field(u64, client)
			     __field(u64, request)
			     __field(u64, latency_ns)
			     __field(u64, idle_ns)
			     __field(u64, order_ns)
			     __field(u64, weights_ns)
			     __field(u64, lane_ns)
			     __field(u64, room_ns)
			     __field(u64, run_ns)
			     __field(int, missed)
			     __field(int, error)),
	    TP_fast_assign(__entry->gpu = request->gpu;
			   __entry->vgpu = request->vgpu->id;
			   __entry->client = request->client;
			   __entry->request = request->id;
			   __entry->latency_ns = latency_ns;
			   __entry->idle_ns = request->spent_ns[DISTMIND_REQUEST_PHASE_IDLE];
			   __entry->order_ns = request->spent_ns[DISTMIND_REQUEST_PHASE_ORDER];
			   __entry->weights_ns =
				request->spent_ns[DISTMIND_REQUEST_PHASE_WEIGHTS];
			   __entry->lane_ns = request->spent_ns[DISTMIND_REQUEST_PHASE_LANE];
			   __entry->room_ns = request->spent_ns[DISTMIND_REQUEST_PHASE_ROOM];
			   __entry->run_ns = request->spent_ns[DISTMIND_REQUEST_PHASE_RUN];
			   __entry->missed = missed;
			   __entry->error = request->error;),
	    TP_printk("gpu=%u vgpu=%u client=%llu request=%llu latency_ns=%llu idle_ns=%llu order_ns=%llu weights_ns=%llu lane_ns=%llu room_ns=%llu run_ns=%llu missed=%d error=%d",
		      __entry->gpu, __entry->vgpu, __entry->client, __entry->request,
		      __entry->latency_ns, __entry->idle_ns, __entry->order_ns,
		      __entry->weights_ns, __entry->lane_ns, __entry->room_ns, __entry->run_ns,
		      __entry->missed, __entry->error));

TRACE_EVENT(distmind_timeline_signal,
	    TP_PROTO(const struct distmind_timeline *timeline, u64 value, int error, u64 since_ns),
	    TP_ARGS(timeline, value, error, since_ns),
	    TP_STRUCT__entry(__field(u32, vgpu)
			     __field(u64, timeline)
			     __field(u64, value)
			     __field(int, error)
			     __field(u64, since_ns)),
	    TP_fast_assign(__entry->vgpu = timeline->vgpu;
			   __entry->timeline = timeline->id;
			   __entry->value = value;
			   __entry->error = error;
			   __entry->since_ns = since_ns;),
	    TP_printk("vgpu=%u timeline=%llu value=%llu error=%d since_ns=%llu", __entry->vgpu,
		      __entry->timeline, __entry->value, __entry->error, __entry->since_ns));

DECLARE_EVENT_CLASS(distmind_preempt,
		    TP_PROTO(const struct distmind_preempt *preempt),
		    TP_ARGS(preempt),
		    TP_STRUCT__entry(__field(u32, gpu)
				     __field(u32, lane)
				     __field(u32, vgpu)
				     __field(u64, job)
				     __field(int, result)),
		    TP_fast_assign(__entry->gpu = preempt->gpu;
				   __entry->lane = preempt->lane;
				   __entry->vgpu = preempt->vgpu;
				   __entry->job = preempt->job;
				   __entry->result = preempt->result;),
		    TP_printk("gpu=%u lane=%u vgpu=%u job=%llu result=%d", __entry->gpu,
			      __entry->lane, __entry->vgpu, __entry->job, __entry->result));

DEFINE_EVENT(distmind_preempt, distmind_preempt_ask,
	     TP_PROTO(const struct distmind_preempt *preempt), TP_ARGS(preempt));
DEFINE_EVENT(distmind_preempt, distmind_preempt_hook,
	     TP_PROTO(const struct distmind_preempt *preempt), TP_ARGS(preempt));
DEFINE_EVENT(distmind_preempt, distmind_preempt_hang,
	     TP_PROTO(const struct distmind_preempt *preempt), TP_ARGS(preempt));
DEFINE_EVENT(distmind_preempt, distmind_preempt_kill,
	     TP_PROTO(const struct distmind_preempt *preempt), TP_ARGS(preempt));

#endif /* _DISTMIND_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
