// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Networks made of nothing but operations: their gradients agree with what a
 * small change of a weight does to the loss, and training brings the loss down.
 *
 * Tolerance of gradients: 1e-3 + 2 %. The loss is a float of about 1, so that a
 * difference of it over a step of 4e-3 is good to about 1e-4.
 */
#include "ops_heap.h"

#define STEP 2e-3f
#define PARAMS_MAX 24

static struct heap heap;

struct param {
	struct buffer w, g;
};

struct net {
	struct param params[PARAMS_MAX];
	size_t count;
	uint64_t rows, classes;
	struct buffer logits, dlogits, loss, labels;
	void (*forward)(struct net *net);  /* up to the logits */
	void (*backward)(struct net *net); /* from dlogits, leaves all g */
};

static int open_heap(void **state)
{
	(void)state;
	return heap_open(&heap);
}

static int close_heap(void **state)
{
	(void)state;
	return heap_close(&heap);
}

#define RUN(op, ...)                                                       \
	do {                                                               \
		struct op_call call_ = CALL(&heap, DISTMIND_OP_##op, __VA_ARGS__); \
		call_finish(&call_);                                       \
	} while (0)

static uint64_t size(struct buffer buffer)
{
	return buffer.length / 4;
}

static struct buffer floats(uint64_t count)
{
	return heap_buffer(&heap, count);
}

/* Weights of a random matrix with so many inputs, or a constant. */
static struct param param(struct net *net, uint64_t count, uint64_t inputs, float constant)
{
	struct param param = { floats(count), floats(count) };

	for (uint64_t i = 0; i < count; i++) {
		float *w = heap_floats(&heap, param.w) + i;

		*w = inputs ? *w * sqrtf(2.0f / (float)inputs) : constant;
	}
	assert_true(net->count < PARAMS_MAX);
	net->params[net->count++] = param;
	return param;
}

/* Dense matrices as they are stored: c = op(a) op(b) + beta c. */
static void gemm(struct buffer c, struct buffer a, struct buffer b, uint64_t m, uint64_t n,
		 uint64_t k, uint32_t transpose, float beta)
{
	RUN(GEMM, BUF(c), BUF(a), BUF(b), NUM(m), NUM(n), NUM(k), NUM(transpose), REAL(1),
	    REAL(beta), NUM(transpose & DISTMIND_GEMM_TRANSPOSE_A ? m : k),
	    NUM(transpose & DISTMIND_GEMM_TRANSPOSE_B ? k : n), NUM(n), NUM(1), NUM(0), NUM(0),
	    NUM(0));
}

/* y[rows][out] = x[rows][in] w, and backwards; dx gets beta times itself added. */
static void linear(struct buffer y, struct buffer x, struct param w, uint64_t rows, uint64_t in,
		   uint64_t out)
{
	gemm(y, x, w.w, rows, out, in, 0, 0);
}

static void linear_grad(struct buffer dx, struct buffer dy, struct buffer x, struct param w,
			uint64_t rows, uint64_t in, uint64_t out, float beta)
{
	gemm(w.g, x, dy, in, out, rows, DISTMIND_GEMM_TRANSPOSE_A, 0);
	gemm(dx, dy, w.w, rows, in, out, DISTMIND_GEMM_TRANSPOSE_B, beta);
}

static void activate(struct buffer y, struct buffer x, struct param bias, uint32_t kind)
{
	RUN(BIAS_ACTIVATION, BUF(y), BUF(x), BUF(bias.w), NUM(size(x) / size(bias.w)),
	    NUM(size(bias.w)), NUM(kind));
}

/* dx may be dy. */
static void activate_grad(struct buffer dx, struct buffer dy, struct buffer x, struct param bias,
			  uint32_t kind)
{
	uint64_t cols = size(bias.w), rows = size(x) / cols;

	RUN(BIAS_ACTIVATION_GRAD, BUF(dx), BUF(dy), BUF(x), BUF(bias.w), NUM(rows), NUM(cols),
	    NUM(kind));
	RUN(REDUCE, BUF(bias.g), BUF(dx), NUM(rows), NUM(cols));
}

static void add(struct buffer out, struct buffer a, struct buffer b)
{
	RUN(ELEMENTWISE, BUF(out), BUF(a), BUF(b), NUM(size(out)), NUM(DISTMIND_ELEMENTWISE_ADD),
	    REAL(0));
}

static void make_output(struct net *net, uint64_t rows, uint64_t classes)
{
	net->rows = rows;
	net->classes = classes;
	net->logits = floats(rows * classes);
	net->dlogits = floats(rows * classes);
	net->loss = floats(rows);
	net->labels = heap_indices(&heap, rows, (uint32_t)classes);
}

/* The mean loss; leaves dlogits. */
static double evaluate(struct net *net)
{
	double sum = 0;

	net->forward(net);
	RUN(SOFTMAX_XENT, BUF(net->loss), BUF(net->dlogits), BUF(net->logits), BUF(net->labels),
	    NUM(net->rows), NUM(net->classes), REAL(1 / (float)net->rows));
	for (uint64_t i = 0; i < net->rows; i++)
		sum += (double)heap_floats(&heap, net->loss)[i];
	return sum / (double)net->rows;
}

/* A few weights of each parameter, by central differences. */
static void check_gradients(struct net *net)
{
	evaluate(net);
	net->backward(net);
	for (size_t i = 0; i < net->count; i++) {
		const struct param *p = &net->params[i];

		for (int sample = 0; sample < 6; sample++) {
			uint64_t at = heap_random(&heap) % size(p->w);
			float *w = heap_floats(&heap, p->w) + at, kept = *w;
			double gradient = (double)heap_floats(&heap, p->g)[at], up, down, slope;

			*w = kept + STEP;
			up = evaluate(net);
			*w = kept - STEP;
			down = evaluate(net);
			*w = kept;
			slope = (up - down) / (2 * (double)STEP);
			if (!(fabs(slope - gradient) <= 1e-3 + 0.02 * fabs(slope)))
				fail_msg("parameter %zu[%lu]: gradient %.6f, slope %.6f",
					 i, (unsigned long)at, gradient, slope);
		}
	}
}

static void check_training(struct net *net, int steps, float rate, double wanted)
{
	double first = evaluate(net), last;

	for (int step = 0; step < steps; step++) {
		evaluate(net);
		net->backward(net);
		for (size_t i = 0; i < net->count; i++)
			RUN(SGD, BUF(net->params[i].w), BUF(net->params[i].g),
			    NUM(size(net->params[i].w)), REAL(rate));
	}
	last = evaluate(net);
	print_message("# loss %.4f, after %d steps %.4f\n", first, steps, last);
	if (!(last < wanted * first))
		fail_msg("the loss was %.4f and is %.4f after %d steps", first, last, steps);
}

/* A network of dense layers: points on three arms of a spiral. */

enum { POINTS = 96, HIDDEN = 32, ARMS = 3 };

static struct mlp {
	struct net net;
	struct param w1, b1, w2, b2, w3, b3;
	struct buffer x, z1, h1, z2, h2, z3, d1, d2, dx;
} mlp;

static void mlp_forward(struct net *net)
{
	linear(mlp.z1, mlp.x, mlp.w1, POINTS, 2, HIDDEN);
	activate(mlp.h1, mlp.z1, mlp.b1, DISTMIND_ACTIVATION_TANH);
	linear(mlp.z2, mlp.h1, mlp.w2, POINTS, HIDDEN, HIDDEN);
	activate(mlp.h2, mlp.z2, mlp.b2, DISTMIND_ACTIVATION_GELU);
	linear(mlp.z3, mlp.h2, mlp.w3, POINTS, HIDDEN, ARMS);
	activate(net->logits, mlp.z3, mlp.b3, DISTMIND_ACTIVATION_NONE);
}

static void mlp_backward(struct net *net)
{
	activate_grad(net->dlogits, net->dlogits, mlp.z3, mlp.b3, DISTMIND_ACTIVATION_NONE);
	linear_grad(mlp.d2, net->dlogits, mlp.h2, mlp.w3, POINTS, HIDDEN, ARMS, 0);
	activate_grad(mlp.d2, mlp.d2, mlp.z2, mlp.b2, DISTMIND_ACTIVATION_GELU);
	linear_grad(mlp.d1, mlp.d2, mlp.h1, mlp.w2, POINTS, HIDDEN, HIDDEN, 0);
	activate_grad(mlp.d1, mlp.d1, mlp.z1, mlp.b1, DISTMIND_ACTIVATION_TANH);
	linear_grad(mlp.dx, mlp.d1, mlp.x, mlp.w1, POINTS, 2, HIDDEN, 0);
}

static void a_multilayer_perceptron_learns(void **state)
{
	struct net *net = &mlp.net;

	(void)state;
	heap_clear(&heap);
	mlp.w1 = param(net, 2 * HIDDEN, 2, 0);
	mlp.b1 = param(net, HIDDEN, 0, 0);
	mlp.w2 = param(net, HIDDEN * HIDDEN, HIDDEN, 0);
	mlp.b2 = param(net, HIDDEN, 0, 0);
	mlp.w3 = param(net, HIDDEN * ARMS, HIDDEN, 0);
	mlp.b3 = param(net, ARMS, 0, 0);
	mlp.x = floats(POINTS * 2);
	mlp.dx = floats(POINTS * 2);
	mlp.z1 = floats(POINTS * HIDDEN);
	mlp.h1 = floats(POINTS * HIDDEN);
	mlp.d1 = floats(POINTS * HIDDEN);
	mlp.z2 = floats(POINTS * HIDDEN);
	mlp.h2 = floats(POINTS * HIDDEN);
	mlp.d2 = floats(POINTS * HIDDEN);
	mlp.z3 = floats(POINTS * ARMS);
	make_output(net, POINTS, ARMS);
	net->forward = mlp_forward;
	net->backward = mlp_backward;
	for (int i = 0; i < POINTS; i++) {
		float radius = (float)(i / ARMS + 1) / (float)(POINTS / ARMS);
		float angle = radius * 4 + (float)(i % ARMS) * 2.0944f;

		heap_floats(&heap, mlp.x)[i * 2] = radius * cosf(angle);
		heap_floats(&heap, mlp.x)[i * 2 + 1] = radius * sinf(angle);
		heap_ints(&heap, net->labels)[i] = i % ARMS;
	}
	check_gradients(net);
	check_training(net, 300, 0.5f, 0.5);
}

/* A convolutional network: bars that lie, stand or lean, with noise. */

enum { IMAGES = 24, SIDE = 8, HALF = SIDE / 2, C1 = 4, C2 = 8, KINDS = 3 };

static struct conv {
	struct net net;
	struct param w1, b1, w2, b2, w3, b3;
	struct buffer x, col1, z1, h1, p1, col2, z2, h2, p2, z3;
	struct buffer dp2, d2, dcol2, dp1, d1, dcol1, dx;
} conv;

/* 3 x 3 windows, one pixel of padding: as many windows as pixels. */
#define IMAGE(side, channels) NUM(IMAGES), NUM(side), NUM(side), NUM(channels)
#define CONV NUM(3), NUM(1), NUM(1)

static void conv_forward(struct net *net)
{
	RUN(IM2COL, BUF(conv.col1), BUF(conv.x), IMAGE(SIDE, 1), CONV);
	linear(conv.z1, conv.col1, conv.w1, IMAGES * SIDE * SIDE, 9, C1);
	activate(conv.h1, conv.z1, conv.b1, DISTMIND_ACTIVATION_RELU);
	RUN(POOL, BUF(conv.p1), BUF(conv.h1), IMAGE(SIDE, C1), NUM(2), NUM(2), NUM(0),
	    NUM(DISTMIND_POOL_MAX));
	RUN(IM2COL, BUF(conv.col2), BUF(conv.p1), IMAGE(HALF, C1), CONV);
	linear(conv.z2, conv.col2, conv.w2, IMAGES * HALF * HALF, 9 * C1, C2);
	activate(conv.h2, conv.z2, conv.b2, DISTMIND_ACTIVATION_GELU);
	RUN(POOL, BUF(conv.p2), BUF(conv.h2), IMAGE(HALF, C2), NUM(HALF), NUM(HALF), NUM(0),
	    NUM(DISTMIND_POOL_AVERAGE));
	linear(conv.z3, conv.p2, conv.w3, IMAGES, C2, KINDS);
	activate(net->logits, conv.z3, conv.b3, DISTMIND_ACTIVATION_NONE);
}

static void conv_backward(struct net *net)
{
	activate_grad(net->dlogits, net->dlogits, conv.z3, conv.b3, DISTMIND_ACTIVATION_NONE);
	linear_grad(conv.dp2, net->dlogits, conv.p2, conv.w3, IMAGES, C2, KINDS, 0);
	RUN(POOL_GRAD, BUF(conv.d2), BUF(conv.dp2), BUF(conv.h2), IMAGE(HALF, C2), NUM(HALF),
	    NUM(HALF), NUM(0), NUM(DISTMIND_POOL_AVERAGE));
	activate_grad(conv.d2, conv.d2, conv.z2, conv.b2, DISTMIND_ACTIVATION_GELU);
	linear_grad(conv.dcol2, conv.d2, conv.col2, conv.w2, IMAGES * HALF * HALF, 9 * C1, C2, 0);
	RUN(COL2IM, BUF(conv.dp1), BUF(conv.dcol2), IMAGE(HALF, C1), CONV);
	RUN(POOL_GRAD, BUF(conv.d1), BUF(conv.dp1), BUF(conv.h1), IMAGE(SIDE, C1), NUM(2), NUM(2),
	    NUM(0), NUM(DISTMIND_POOL_MAX));
	activate_grad(conv.d1, conv.d1, conv.z1, conv.b1, DISTMIND_ACTIVATION_RELU);
	linear_grad(conv.dcol1, conv.d1, conv.col1, conv.w1, IMAGES * SIDE * SIDE, 9, C1, 0);
	RUN(COL2IM, BUF(conv.dx), BUF(conv.dcol1), IMAGE(SIDE, 1), CONV);
}

static void draw_bars(float *pixels, int kind, int at)
{
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			int line = kind == 0 ? y : kind == 1 ? x : (x + y) % SIDE;

			pixels[y * SIDE + x] *= 0.2f;
			if (line == at % SIDE)
				pixels[y * SIDE + x] += 1;
		}
}

static void a_convolutional_network_learns(void **state)
{
	struct net *net = &conv.net;

	(void)state;
	heap_clear(&heap);
	conv.w1 = param(net, 9 * C1, 9, 0);
	conv.b1 = param(net, C1, 0, 0.05f);
	conv.w2 = param(net, 9 * C1 * C2, 9 * C1, 0);
	conv.b2 = param(net, C2, 0, 0);
	conv.w3 = param(net, C2 * KINDS, C2, 0);
	conv.b3 = param(net, KINDS, 0, 0);
	conv.x = floats(IMAGES * SIDE * SIDE);
	conv.dx = floats(IMAGES * SIDE * SIDE);
	conv.col1 = floats(IMAGES * SIDE * SIDE * 9);
	conv.dcol1 = floats(IMAGES * SIDE * SIDE * 9);
	conv.z1 = floats(IMAGES * SIDE * SIDE * C1);
	conv.h1 = floats(IMAGES * SIDE * SIDE * C1);
	conv.d1 = floats(IMAGES * SIDE * SIDE * C1);
	conv.p1 = floats(IMAGES * HALF * HALF * C1);
	conv.dp1 = floats(IMAGES * HALF * HALF * C1);
	conv.col2 = floats(IMAGES * HALF * HALF * 9 * C1);
	conv.dcol2 = floats(IMAGES * HALF * HALF * 9 * C1);
	conv.z2 = floats(IMAGES * HALF * HALF * C2);
	conv.h2 = floats(IMAGES * HALF * HALF * C2);
	conv.d2 = floats(IMAGES * HALF * HALF * C2);
	conv.p2 = floats(IMAGES * C2);
	conv.dp2 = floats(IMAGES * C2);
	conv.z3 = floats(IMAGES * KINDS);
	make_output(net, IMAGES, KINDS);
	net->forward = conv_forward;
	net->backward = conv_backward;
	for (int i = 0; i < IMAGES; i++) {
		draw_bars(heap_floats(&heap, conv.x) + i * SIDE * SIDE, i % KINDS, i / KINDS);
		heap_ints(&heap, net->labels)[i] = i % KINDS;
	}
	check_gradients(net);
	check_training(net, 200, 0.2f, 0.5);
}

/*
 * A block of a transformer, causal, with two heads: at each place of a
 * sequence it tells the first token, which only attention can bring there.
 */

enum { BATCH = 8, SEQ = 8, TOKENS = BATCH * SEQ, WORDS = 11, D = 16, HEADS = 2, HEAD = D / HEADS };
enum { WIDE = 32 };

static struct transformer {
	struct net net;
	struct param words, places, gamma1, beta1, wq, wk, wv, wo;
	struct param gamma2, beta2, w1, b1, w2, b2, wu;
	struct buffer token, place;
	struct buffer e1, e2, x, n1, stats1, q, k, v, scores, p, o, a, r;
	struct buffer n2, stats2, z, h, m, mb, y;
	struct buffer dy, dm, dh, dn, dr, dx, do_, dp, dq, dk, dv;
} tf;

static void norm(struct buffer y, struct buffer stats, struct buffer x, struct param gamma,
		 struct param beta)
{
	RUN(LAYER_NORM, BUF(y), BUF(stats), BUF(x), BUF(gamma.w), BUF(beta.w), NUM(TOKENS), NUM(D),
	    REAL(1e-5f));
}

static void norm_grad(struct buffer dx, struct buffer dy, struct buffer x, struct buffer stats,
		      struct param gamma, struct param beta)
{
	RUN(LAYER_NORM_GRAD, BUF(dx), BUF(gamma.g), BUF(beta.g), BUF(dy), BUF(x), BUF(gamma.w),
	    BUF(stats), NUM(TOKENS), NUM(D));
}

/* The part of a buffer that belongs to one of the sequences. */
static struct buffer part(struct buffer buffer, uint64_t sequence)
{
	buffer.length /= BATCH;
	buffer.offset += sequence * buffer.length;
	return buffer;
}

/* For all heads of a sequence; a head's matrix is SEQ x SEQ, or columns of one of SEQ x D. */
static void attend(struct buffer c, struct buffer a, struct buffer b, bool square_c, bool square_a,
		   uint32_t transpose, float alpha)
{
	uint64_t n = square_c ? SEQ : HEAD, k = square_c ? HEAD : SEQ;

	for (uint64_t i = 0; i < BATCH; i++)
		RUN(GEMM, BUF(part(c, i)), BUF(part(a, i)), BUF(part(b, i)), NUM(SEQ), NUM(n),
		    NUM(k), NUM(transpose), REAL(alpha), REAL(0), NUM(square_a ? SEQ : D), NUM(D),
		    NUM(square_c ? SEQ : D), NUM(HEADS), NUM(square_a ? SEQ * SEQ : HEAD),
		    NUM(HEAD), NUM(square_c ? SEQ * SEQ : HEAD));
}

static void transformer_forward(struct net *net)
{
	float scale = 1 / sqrtf(HEAD);

	RUN(EMBEDDING, BUF(tf.e1), BUF(tf.words.w), BUF(tf.token), NUM(TOKENS), NUM(D), NUM(WORDS));
	RUN(EMBEDDING, BUF(tf.e2), BUF(tf.places.w), BUF(tf.place), NUM(TOKENS), NUM(D), NUM(SEQ));
	add(tf.x, tf.e1, tf.e2);

	norm(tf.n1, tf.stats1, tf.x, tf.gamma1, tf.beta1);
	linear(tf.q, tf.n1, tf.wq, TOKENS, D, D);
	linear(tf.k, tf.n1, tf.wk, TOKENS, D, D);
	linear(tf.v, tf.n1, tf.wv, TOKENS, D, D);
	attend(tf.scores, tf.q, tf.k, true, false, DISTMIND_GEMM_TRANSPOSE_B, scale);
	RUN(SOFTMAX, BUF(tf.p), BUF(tf.scores), NUM(TOKENS * HEADS), NUM(SEQ),
	    NUM(DISTMIND_SOFTMAX_CAUSAL));
	attend(tf.o, tf.p, tf.v, false, true, 0, 1);
	linear(tf.a, tf.o, tf.wo, TOKENS, D, D);
	add(tf.r, tf.x, tf.a);

	norm(tf.n2, tf.stats2, tf.r, tf.gamma2, tf.beta2);
	linear(tf.z, tf.n2, tf.w1, TOKENS, D, WIDE);
	activate(tf.h, tf.z, tf.b1, DISTMIND_ACTIVATION_GELU);
	linear(tf.m, tf.h, tf.w2, TOKENS, WIDE, D);
	activate(tf.mb, tf.m, tf.b2, DISTMIND_ACTIVATION_NONE);
	add(tf.y, tf.r, tf.mb);
	linear(net->logits, tf.y, tf.wu, TOKENS, D, WORDS);
}

static void attention_backward(void)
{
	float scale = 1 / sqrtf(HEAD);

	linear_grad(tf.do_, tf.dr, tf.o, tf.wo, TOKENS, D, D, 0);
	attend(tf.dp, tf.do_, tf.v, true, false, DISTMIND_GEMM_TRANSPOSE_B, 1);
	attend(tf.dv, tf.p, tf.do_, false, true, DISTMIND_GEMM_TRANSPOSE_A, 1);
	RUN(SOFTMAX_GRAD, BUF(tf.dp), BUF(tf.dp), BUF(tf.p), NUM(TOKENS * HEADS), NUM(SEQ));
	attend(tf.dq, tf.dp, tf.k, false, true, 0, scale);
	attend(tf.dk, tf.dp, tf.q, false, true, DISTMIND_GEMM_TRANSPOSE_A, scale);
	linear_grad(tf.dn, tf.dq, tf.n1, tf.wq, TOKENS, D, D, 0);
	linear_grad(tf.dn, tf.dk, tf.n1, tf.wk, TOKENS, D, D, 1);
	linear_grad(tf.dn, tf.dv, tf.n1, tf.wv, TOKENS, D, D, 1);
}

static void transformer_backward(struct net *net)
{
	linear_grad(tf.dy, net->dlogits, tf.y, tf.wu, TOKENS, D, WORDS, 0);
	activate_grad(tf.dm, tf.dy, tf.m, tf.b2, DISTMIND_ACTIVATION_NONE);
	linear_grad(tf.dh, tf.dm, tf.h, tf.w2, TOKENS, WIDE, D, 0);
	activate_grad(tf.dh, tf.dh, tf.z, tf.b1, DISTMIND_ACTIVATION_GELU);
	linear_grad(tf.dn, tf.dh, tf.n2, tf.w1, TOKENS, D, WIDE, 0);
	norm_grad(tf.dr, tf.dn, tf.r, tf.stats2, tf.gamma2, tf.beta2);
	add(tf.dr, tf.dr, tf.dy);

	attention_backward();
	norm_grad(tf.dx, tf.dn, tf.x, tf.stats1, tf.gamma1, tf.beta1);
	add(tf.dx, tf.dx, tf.dr);
	RUN(EMBEDDING_GRAD, BUF(tf.words.g), BUF(tf.dx), BUF(tf.token), NUM(TOKENS), NUM(D),
	    NUM(WORDS));
	RUN(EMBEDDING_GRAD, BUF(tf.places.g), BUF(tf.dx), BUF(tf.place), NUM(TOKENS), NUM(D),
	    NUM(SEQ));
}

static void make_transformer(struct net *net)
{
	struct buffer *const wide[] = { &tf.z, &tf.h, &tf.dh };
	struct buffer *const square[] = { &tf.scores, &tf.p, &tf.dp };
	struct buffer *const plain[] = {
		&tf.e1, &tf.e2, &tf.x,	&tf.n1, &tf.q,	&tf.k,	&tf.v,	&tf.o,	&tf.a,	&tf.r,
		&tf.n2, &tf.m,	&tf.mb, &tf.y,	&tf.dy, &tf.dm, &tf.dn, &tf.dr, &tf.dx,
		&tf.do_, &tf.dq, &tf.dk, &tf.dv,
	};

	tf.words = param(net, WORDS * D, 4, 0);
	tf.places = param(net, SEQ * D, 4, 0);
	tf.gamma1 = param(net, D, 0, 1);
	tf.beta1 = param(net, D, 0, 0);
	tf.wq = param(net, D * D, D, 0);
	tf.wk = param(net, D * D, D, 0);
	tf.wv = param(net, D * D, D, 0);
	tf.wo = param(net, D * D, D, 0);
	tf.gamma2 = param(net, D, 0, 1);
	tf.beta2 = param(net, D, 0, 0);
	tf.w1 = param(net, D * WIDE, D, 0);
	tf.b1 = param(net, WIDE, 0, 0);
	tf.w2 = param(net, WIDE * D, WIDE, 0);
	tf.b2 = param(net, D, 0, 0);
	tf.wu = param(net, D * WORDS, D, 0);
	tf.stats1 = floats(TOKENS * 2);
	tf.stats2 = floats(TOKENS * 2);
	for (size_t i = 0; i < COUNT(plain); i++)
		*plain[i] = floats(TOKENS * D);
	for (size_t i = 0; i < COUNT(wide); i++)
		*wide[i] = floats(TOKENS * WIDE);
	for (size_t i = 0; i < COUNT(square); i++)
		*square[i] = floats(TOKENS * HEADS * SEQ);
	tf.token = heap_indices(&heap, TOKENS, WORDS);
	tf.place = heap_indices(&heap, TOKENS, SEQ);
	make_output(net, TOKENS, WORDS);
	net->forward = transformer_forward;
	net->backward = transformer_backward;
}

static void a_transformer_block_learns(void **state)
{
	struct net *net = &tf.net;

	(void)state;
	heap_clear(&heap);
	make_transformer(net);
	for (int i = 0; i < TOKENS; i++) {
		heap_ints(&heap, tf.place)[i] = i % SEQ;
		heap_ints(&heap, net->labels)[i] = heap_ints(&heap, tf.token)[i / SEQ * SEQ];
	}
	check_gradients(net);
	check_training(net, 150, 0.2f, 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_multilayer_perceptron_learns),
		cmocka_unit_test(a_convolutional_network_learns),
		cmocka_unit_test(a_transformer_block_learns),
	};

	return cmocka_run_group_tests(tests, open_heap, close_heap);
}
