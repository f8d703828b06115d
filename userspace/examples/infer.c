// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A request to a model that the gpu does not have yet. With --model the weights come
 * from the memory pool: the call that asks for them returns at once, all jobs are
 * submitted, and the kernel starts each when the weights that it needs are there, so
 * that the first layers compute while the last ones are still on their way. With
 * --file the same model is read from its file into a buffer of this process, as
 * programs do without a pool. The answer must have the same bits.
 *
 * Two kinds of models, told apart by the names of their tensors:
 *
 *   layers.N.{weight,bias}                         a perceptron of any depth
 *   embed, blocks.N.{ln1,attn.{q,k,v,o},ln2,mlp.{up,down}}, final, head
 *                                                  a transformer of any depth
 *
 * The work is described first, as a list of jobs on operands, because the memory
 * for activations can only be made when all of their sizes are known.
 */
#include "../model/image.h"
#include "net/net.h"
#include "net/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADS	    4
#define EPSILON	    1e-5f
#define BATCH_JOBS  32 /* of one call */
#define ACTIVATIONS (16U << 20)
#define TIMEOUT_MS  60000
#define OBJECTIVE   100000000 /* ns */

static const char usage[] =
	"usage: infer --model NAME [options]\n"
	"       infer --file FILE [--order FILE] [options]\n"
	"\n"
	"Answers one request on a vgpu: that of \"distmindctl run\", or one of the latency\n"
	"class. The weights come from the memory pool or from a safetensors file.\n"
	"\n"
	"  --rows N        rows of the input, or tokens (default 16)\n"
	"  --form FORM     direct, staged or auto: how weights come to the gpu\n"
	"  --unpipelined   wait for all of the model, then compute\n"
	"  --verify        have the digests of the model's chunks compared\n"
	"  --deadline MS   for the model to be there (default 30000)\n"
	"  --json          one line of JSON\n"
	"\n"
	"Prints the time from the question for the weights to the answer, and a checksum of\n"
	"the answer's bits.\n";

struct options {
	const char *model, *file, *order;
	struct distmind_model_options load;
	uint32_t rows;
	bool unpipelined, json;
};

/* A matrix of weights, or, without a buffer, of activations. */
struct operand {
	struct distmind_buffer *buffer;
	uint64_t offset, rows, cols;
};

struct value {
	const struct operand *operand;
	uint64_t number;
};

struct job {
	enum distmind_op op;
	struct {
		struct operand operand; /* rows 0: a number */
		uint64_t number;
	} args[DISTMIND_OP_ARGS_MAX];
};

struct infer {
	const struct options *options;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *timeline;
	struct distmind_buffer *activations;

	/* One of the two: weights of the pool, or of the file. */
	struct distmind_model *model;
	struct model_checkpoint checkpoint;
	struct model_image image;
	struct distmind_buffer *weights;

	struct job *jobs; /* owned */
	uint32_t job_count;
	uint64_t size; /* of the activations so far */
	struct operand input, answer;
	uint64_t vocabulary; /* of tokens; 0: the input is numbers */
};

#define W(w) { .operand = &(w) }
#define N(n) { .number = (n) }
#define F(r) { .number = distmind_op_float(r) }
#define JOB(infer, OP, ...) \
	add_job(infer, DISTMIND_OP_##OP, (const struct value[]){ __VA_ARGS__ })

static void die_reason(const char *reason, const char *what, int err)
{
	if (reason[0])
		net_die(reason, 0);
	net_die(what, err);
}

/* The daemon knows more than the kernel about weights that did not come. */
static void die_of_model(const struct infer *infer, const char *what, int err)
{
	char reason[DISTMIND_REASON_LEN] = "";

	if (infer->model)
		distmind_model_state(infer->model, reason);
	die_reason(reason, what, err);
}

static enum distmind_model_form parse_form(const char *word)
{
	static const char *const forms[] = { "auto", "direct", "staged" };

	for (int form = 0; form < 3; form++)
		if (!strcmp(forms[form], word))
			return (enum distmind_model_form)form;
	fprintf(stderr, "infer: --form %s: write auto, direct or staged\n", word);
	exit(64);
}

static void parse(int argc, char **argv, struct options *options)
{
	const char *form = "auto";
	const struct net_option known[] = {
		{ "model", .text = &options->model },
		{ "file", .text = &options->file },
		{ "order", .text = &options->order },
		{ "rows", .count = &options->rows, .min = 1 },
		{ "form", .text = &form },
		{ "unpipelined", .flag = &options->unpipelined },
		{ "verify", .flag = &options->load.verify },
		{ "deadline", .count = &options->load.deadline_ms, .min = 1 },
		{ "json", .flag = &options->json },
		{ 0 },
	};

	net_options(argc, argv, known, usage);
	options->load.form = parse_form(form);
	if (!options->model == !options->file || (options->order && options->model)) {
		fputs(usage, stderr);
		exit(64);
	}
}

/* The weights */

static void open_file(struct infer *infer)
{
	const struct options *options = infer->options;
	char error[MODEL_ERROR_LEN];

	if (model_checkpoint_open(&infer->checkpoint, &options->file, 1, error) ||
	    model_image_create(&infer->image, "file", &infer->checkpoint, options->order, error))
		net_die(error, 0);
}

static void read_file(struct infer *infer)
{
	const struct model_manifest *manifest = &infer->image.manifest;
	void *memory;
	int err;

	err = distmind_buffer_create(infer->vgpu, manifest->size, DISTMIND_BUFFER_DATA,
				     &infer->weights);
	if (!err)
		err = distmind_buffer_map(infer->weights, &memory);
	if (err)
		net_die("no buffer for the weights", err);
	for (uint32_t i = 0; i < manifest->tensor_count; i++)
		memcpy((char *)memory + manifest->tensors[i].offset, infer->image.tensors[i]->data,
		       manifest->tensors[i].size);
}

static void load_model(struct infer *infer)
{
	char reason[DISTMIND_REASON_LEN];
	int err = distmind_model_load(infer->vgpu, infer->options->model, &infer->options->load,
				      &infer->model, reason);

	if (err)
		die_reason(reason, "no model", err);
	infer->weights = distmind_model_buffer(infer->model);
	if (!infer->options->unpipelined)
		return;
	err = distmind_model_wait(infer->model, 0, TIMEOUT_MS);
	if (err)
		die_of_model(infer, "the load failed", err);
}

/* A matrix of the model's, or a vector as a matrix of one row. */
static bool find(const struct infer *infer, const char *name, struct operand *operand)
{
	const struct model_manifest *manifest = &infer->image.manifest;
	struct distmind_tensor tensor;
	const char *dtype = NULL;
	const uint64_t *shape = NULL;
	uint32_t rank = 0;

	*operand = (struct operand){ .buffer = infer->weights };
	if (infer->model) {
		if (distmind_model_tensor(infer->model, name, &tensor))
			return false;
		operand->offset = tensor.offset;
		dtype = tensor.dtype;
		rank = tensor.rank;
		shape = tensor.shape;
	}
	for (uint32_t i = 0; i < manifest->tensor_count && !shape; i++) {
		const struct model_manifest_tensor *at = &manifest->tensors[i];

		if (strcmp(at->name, name))
			continue;
		operand->offset = at->offset;
		dtype = model_dtype_name(at->shape.dtype);
		rank = at->shape.rank;
		shape = at->shape.extent;
	}
	if (!shape)
		return false;
	operand->rows = rank == 2 ? shape[0] : 1;
	operand->cols = rank ? shape[rank - 1] : 0;
	if (strcmp(dtype, "F32") || rank > 2 || !operand->rows || !operand->cols) {
		fprintf(stderr, "infer: %s: not a matrix or a vector of F32\n", name);
		exit(1);
	}
	return true;
}

static struct operand need(const struct infer *infer, uint64_t rows, uint64_t cols,
			   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same; 0 for rows or cols: whatever there is. */
static struct operand need(const struct infer *infer, uint64_t rows, uint64_t cols,
			   const char *format, ...)
{
	struct operand operand;
	char name[128];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	if (!find(infer, name, &operand)) {
		fprintf(stderr, "infer: the model has no tensor %s\n", name);
		exit(1);
	}
	if ((rows && operand.rows != rows) || (cols && operand.cols != cols)) {
		fprintf(stderr, "infer: %s: %" PRIu64 " x %" PRIu64 " does not fit the layers "
			"around it\n", name, operand.rows, operand.cols);
		exit(1);
	}
	return operand;
}

/* The work */

static struct operand activation(struct infer *infer, uint64_t rows, uint64_t cols)
{
	struct operand operand = { .offset = infer->size, .rows = rows, .cols = cols };

	infer->size += (rows * cols * sizeof(float) + 63) & ~UINT64_C(63);
	return operand;
}

static void add_job(struct infer *infer, enum distmind_op op, const struct value *values)
{
	struct job *job;

	infer->jobs = reallocarray(infer->jobs, infer->job_count + 1, sizeof(*job));
	if (!infer->jobs)
		net_die("out of memory", 0);
	job = &infer->jobs[infer->job_count++];
	*job = (struct job){ .op = op };
	for (uint32_t i = 0; i < distmind_op_args(op); i++) {
		if (values[i].operand)
			job->args[i].operand = *values[i].operand;
		job->args[i].number = values[i].number;
	}
}

static struct operand multiply(struct infer *infer, const struct operand *a,
			       const struct operand *b)
{
	struct operand c = activation(infer, a->rows, b->cols);

	JOB(infer, GEMM, W(c), W(*a), W(*b), N(c.rows), N(c.cols), N(a->cols), N(0), F(1), F(0),
	    N(a->cols), N(b->cols), N(c.cols), N(1), N(0), N(0), N(0));
	return c;
}

static struct operand add(struct infer *infer, const struct operand *a, const struct operand *b)
{
	struct operand sum = activation(infer, a->rows, a->cols);

	JOB(infer, ELEMENTWISE, W(sum), W(*a), W(*b), N(a->rows * a->cols),
	    N(DISTMIND_ELEMENTWISE_ADD), F(0));
	return sum;
}

static struct operand dense(struct infer *infer, const struct operand *x, const struct operand *w,
			    const struct operand *bias, enum distmind_activation kind)
{
	struct operand y = multiply(infer, x, w);

	JOB(infer, BIAS_ACTIVATION, W(y), W(y), W(*bias), N(y.rows), N(y.cols), N(kind));
	return y;
}

static struct operand norm(struct infer *infer, const struct operand *x, const char *name)
{
	struct operand gamma = need(infer, 1, x->cols, "%s.weight", name);
	struct operand beta = need(infer, 1, x->cols, "%s.bias", name);
	struct operand y = activation(infer, x->rows, x->cols);
	struct operand stats = activation(infer, x->rows, 2);

	JOB(infer, LAYER_NORM, W(y), W(stats), W(*x), W(gamma), W(beta), N(x->rows), N(x->cols),
	    F(EPSILON));
	return y;
}

static void describe_mlp(struct infer *infer)
{
	struct operand w = need(infer, 0, 0, "layers.0.weight"), bias, next;
	struct operand x = activation(infer, infer->options->rows, w.rows);
	bool last = false;
	char name[64];

	infer->input = x;
	for (uint32_t i = 0; !last; i++) {
		snprintf(name, sizeof(name), "layers.%u.weight", i + 1);
		last = !find(infer, name, &next);
		w = need(infer, x.cols, 0, "layers.%u.weight", i);
		bias = need(infer, 1, w.cols, "layers.%u.bias", i);
		x = dense(infer, &x, &w, &bias,
			  last ? DISTMIND_ACTIVATION_NONE : DISTMIND_ACTIVATION_RELU);
	}
	infer->answer = x;
}

/* Several heads side by side in the columns of q, k and v; tokens see those before them. */
static struct operand attend(struct infer *infer, const struct operand *q, const struct operand *k,
			     const struct operand *v)
{
	uint64_t tokens = q->rows, width = q->cols, head = width / HEADS;
	struct operand scores = activation(infer, HEADS * tokens, tokens);
	struct operand mixed = activation(infer, tokens, width);

	JOB(infer, GEMM, W(scores), W(*q), W(*k), N(tokens), N(tokens), N(head),
	    N(DISTMIND_GEMM_TRANSPOSE_B), F(1 / sqrtf((float)head)), F(0), N(width), N(width),
	    N(tokens), N(HEADS), N(head), N(head), N(tokens * tokens));
	JOB(infer, SOFTMAX, W(scores), W(scores), N(HEADS * tokens), N(tokens),
	    N(DISTMIND_SOFTMAX_CAUSAL));
	JOB(infer, GEMM, W(mixed), W(scores), W(*v), N(tokens), N(head), N(tokens), N(0), F(1),
	    F(0), N(tokens), N(width), N(width), N(HEADS), N(tokens * tokens), N(head), N(head));
	return mixed;
}

static struct operand project(struct infer *infer, const struct operand *x, uint32_t block,
			      char which)
{
	struct operand w = need(infer, x->cols, x->cols, "blocks.%u.attn.%c.weight", block, which);

	return multiply(infer, x, &w);
}

static struct operand describe_block(struct infer *infer, const struct operand *x, uint32_t block)
{
	struct operand y, q, k, v, w, bias;
	char name[64];

	snprintf(name, sizeof(name), "blocks.%u.ln1", block);
	y = norm(infer, x, name);
	q = project(infer, &y, block, 'q');
	k = project(infer, &y, block, 'k');
	v = project(infer, &y, block, 'v');
	y = attend(infer, &q, &k, &v);
	y = project(infer, &y, block, 'o');
	v = add(infer, x, &y);

	snprintf(name, sizeof(name), "blocks.%u.ln2", block);
	y = norm(infer, &v, name);
	w = need(infer, y.cols, 0, "blocks.%u.mlp.up.weight", block);
	bias = need(infer, 1, w.cols, "blocks.%u.mlp.up.bias", block);
	y = dense(infer, &y, &w, &bias, DISTMIND_ACTIVATION_GELU);
	w = need(infer, y.cols, x->cols, "blocks.%u.mlp.down.weight", block);
	bias = need(infer, 1, w.cols, "blocks.%u.mlp.down.bias", block);
	y = dense(infer, &y, &w, &bias, DISTMIND_ACTIVATION_NONE);
	return add(infer, &v, &y);
}

static void describe_transformer(struct infer *infer, const struct operand *table)
{
	struct operand x, head, probe;
	char name[64];

	if (table->cols % HEADS)
		net_die("embed.weight: its width cannot be divided among the heads", 0);
	infer->vocabulary = table->rows;
	infer->input = activation(infer, infer->options->rows, 1);
	x = activation(infer, infer->options->rows, table->cols);
	JOB(infer, EMBEDDING, W(x), W(*table), W(infer->input), N(x.rows), N(x.cols),
	    N(table->rows));
	for (uint32_t i = 0;; i++) {
		snprintf(name, sizeof(name), "blocks.%u.ln1.weight", i);
		if (!find(infer, name, &probe))
			break;
		x = describe_block(infer, &x, i);
	}
	x = norm(infer, &x, "final");
	head = need(infer, x.cols, 0, "head.weight");
	infer->answer = multiply(infer, &x, &head);
}

static void describe(struct infer *infer)
{
	struct operand table;

	if (find(infer, "embed.weight", &table))
		describe_transformer(infer, &table);
	else
		describe_mlp(infer);
}

/* The device */

static void acquire(struct infer *infer)
{
	uint64_t weights = infer->image.manifest.size;
	struct distmind_claim claim = {
		.share = DISTMIND_SHARE_WHOLE / 2,
		.sched_class = DISTMIND_CLASS_LATENCY,
		.objective_ns = OBJECTIVE,
		.name = "infer",
	};
	char reason[DISTMIND_REASON_LEN] = "";
	int err = distmind_vgpu_inherited(0, &infer->vgpu);

	/* Whoever uses weights of the pool pays for them, as for weights of its own. */
	if (err == -ENOENT && infer->options->model &&
	    distmind_model_size(infer->options->model, &weights, reason))
		net_die(reason, 0);
	claim.memory = ACTIVATIONS + weights;
	if (err == -ENOENT)
		err = distmind_acquire(&claim, &infer->vgpu, reason);
	if (err)
		die_reason(reason, "no vgpu", err);
}

static void *prepare(struct infer *infer)
{
	void *memory;
	int err = distmind_buffer_create(infer->vgpu, infer->size, DISTMIND_BUFFER_DATA,
					 &infer->activations);

	if (!err)
		err = distmind_buffer_map(infer->activations, &memory);
	if (err)
		net_die("no buffer for the activations", err);
	err = distmind_queue_create(infer->vgpu, DISTMIND_LANE_COMPUTE, infer->job_count,
				    &infer->queue);
	if (!err)
		err = distmind_timeline_create(infer->vgpu, 0, &infer->timeline);
	if (err)
		net_die("no queue", err);
	for (uint64_t i = 0; i < infer->input.rows * infer->input.cols; i++) {
		char *at = (char *)memory + infer->input.offset + i * sizeof(float);

		if (infer->vocabulary)
			*(int32_t *)at = (int32_t)(net_uniform() * (double)infer->vocabulary);
		else
			*(float *)at = (float)net_normal();
	}
	return memory;
}

static void put_job(struct infer *infer, struct distmind_batch *batch, const struct job *job)
{
	uint32_t count = distmind_op_args(job->op);
	uint64_t numbers[DISTMIND_OP_ARGS_MAX];

	for (uint32_t i = 0; i < count; i++)
		numbers[i] = job->args[i].number;
	distmind_batch_launch(batch, job->op, distmind_op_blocks(job->op, numbers, count));
	for (uint32_t i = 0; i < count; i++) {
		const struct operand *operand = &job->args[i].operand;

		if (operand->rows)
			distmind_batch_range(batch,
					     operand->buffer ? operand->buffer : infer->activations,
					     operand->offset,
					     operand->rows * operand->cols * sizeof(float));
		else
			distmind_batch_number(batch, numbers[i]);
	}
}

/* No job waits for anything by name: what is not there yet is the kernel's to wait for. */
static void compute(struct infer *infer)
{
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	for (uint32_t i = 0; i < infer->job_count && !err; i++) {
		put_job(infer, batch, &infer->jobs[i]);
		distmind_batch_signal(batch, infer->timeline, i + 1);
		if ((i + 1) % BATCH_JOBS && i + 1 < infer->job_count)
			continue;
		err = distmind_queue_submit(infer->queue, batch, NULL);
		distmind_batch_clear(batch);
	}
	if (err)
		net_die("submit", err);
	err = distmind_timeline_wait(infer->timeline, infer->job_count, TIMEOUT_MS);
	if (err)
		die_of_model(infer, "the work failed", err);
	distmind_batch_destroy(batch);
}

/* FNV-1a of the bits: the smallest difference shows. */
static uint64_t checksum(const void *data, size_t size)
{
	const uint8_t *byte = data;
	uint64_t sum = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ byte[i]) * 0x100000001b3;
	return sum;
}

static void report(const struct infer *infer, const void *memory, double asked, double ready,
		   double done)
{
	const char *answer = (const char *)memory + infer->answer.offset;
	size_t size = infer->answer.rows * infer->answer.cols * sizeof(float);
	struct distmind_model_info info = { .size = infer->image.manifest.size,
					    .read_bytes = infer->image.manifest.size };
	const char *form = !infer->model ? "file" : NULL;
	const float *numbers = (const void *)answer;
	uint64_t sum = checksum(answer, size);

	for (size_t i = 0; i < size / sizeof(float); i++)
		if (!isfinite(numbers[i]))
			net_die("the answer has values that are no numbers", 0);
	if (infer->model)
		distmind_model_info(infer->model, &info);
	if (!form)
		form = info.staged ? "staged" : "direct";
	if (infer->options->json)
		printf("{\"total_ms\": %.3f, \"load_ms\": %.3f, \"checksum\": \"%016" PRIx64 "\", "
		       "\"jobs\": %u, \"bytes\": %" PRIu64 ", \"read_bytes\": %" PRIu64 ", "
		       "\"groups\": %" PRIu64 ", \"predicted_ms\": %.3f, \"cached\": %s, "
		       "\"form\": \"%s\"}\n",
		       (done - asked) * 1e3, (ready - asked) * 1e3, sum, infer->job_count,
		       info.size, info.read_bytes, info.groups, (double)info.predicted_ns * 1e-6,
		       info.cached ? "true" : "false", form);
	else
		printf("%.2f ms (%s, %s), checksum %016" PRIx64 "\n", (done - asked) * 1e3, form,
		       info.cached ? "cached" : "not cached", sum);
}

static void release(struct infer *infer)
{
	distmind_queue_destroy(infer->queue);
	distmind_timeline_destroy(infer->timeline);
	distmind_buffer_destroy(infer->activations);
	if (infer->model)
		distmind_model_release(infer->model);
	else
		distmind_buffer_destroy(infer->weights);
	distmind_vgpu_close(infer->vgpu);
	model_image_destroy(&infer->image);
	model_checkpoint_close(&infer->checkpoint);
	free(infer->jobs);
}

int main(int argc, char **argv)
{
	struct options options = { .rows = 16 };
	struct infer infer = { .options = &options };
	double asked, ready;
	void *memory;

	parse(argc, argv, &options);
	if (options.file)
		open_file(&infer);
	acquire(&infer);
	asked = net_now();
	if (options.file)
		read_file(&infer);
	else
		load_model(&infer);
	ready = net_now();
	describe(&infer);
	memory = prepare(&infer);
	compute(&infer);
	report(&infer, memory, asked, ready, net_now());
	release(&infer);
	return 0;
}
