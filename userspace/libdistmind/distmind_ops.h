/* SPDX-License-Identifier: MIT */
/*
 * What an engine of kind cpu understands: its operations, their arguments,
 * and how many blocks a call of each has. Shared by applications and engines;
 * the sizes of blocks are part of the protocol, so the numbers here change
 * only together with the number of an operation.
 *
 * Rules that hold for every operation:
 *
 *  - The buffers come first, what is written before what is read; then the
 *    scalars. The index of each is in an enum below.
 *  - Elements are fp32, or int32 where it is said. A buffer begins at a
 *    multiple of 4 bytes and may be longer than what is used of it. Matrices
 *    are row-major and dense, but for gemm, which has leading dimensions.
 *    Images are N x H x W x C.
 *  - A size is 1 to 2147483647. A flag that is not listed is refused.
 *    A float travels as its bits in the low half of the scalar,
 *    see distmind_op_float(); the high half is zero.
 *  - A call has as many blocks as distmind_op_blocks() says. Each element of
 *    the output is written by one block, which needs no other block of the
 *    same call, in an order of additions that depends on nothing but the
 *    sizes: a call that was interrupted between blocks and resumed gives the
 *    same bits as one that was not.
 *  - A block cannot be interrupted. So a call is refused with EFBIG if one of
 *    its blocks would be longer than DISTMIND_OP_BLOCK_FLOPS_MAX and the other
 *    limits there allow: rows of more than about 100 million elements, windows
 *    that each overlap with very many others.
 *  - An output may be the same range as an input where "in place" is said.
 *    Otherwise the ranges must not overlap: the values are unspecified if
 *    they do.
 */
#ifndef DISTMIND_OPS_H
#define DISTMIND_OPS_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(number, NAME, name, buffers, arguments): buffers are counted in arguments. */
#define DISTMIND_OPS(X)                                                        \
	X(0, NOP, nop, 0, 1)                                                   \
	X(1, SPIN, spin, 0, 2)                                                 \
	X(2, FILL, fill, 1, 3)                                                 \
	X(3, COPY, copy, 2, 3)                                                 \
	X(4, GEMM, gemm, 3, 16)                                                \
	X(5, BIAS_ACTIVATION, bias_activation, 3, 6)                           \
	X(6, BIAS_ACTIVATION_GRAD, bias_activation_grad, 4, 7)                 \
	X(7, ELEMENTWISE, elementwise, 3, 6)                                   \
	X(8, LAYER_NORM, layer_norm, 5, 8)                                     \
	X(9, LAYER_NORM_GRAD, layer_norm_grad, 7, 9)                           \
	X(10, SOFTMAX, softmax, 2, 5)                                          \
	X(11, SOFTMAX_GRAD, softmax_grad, 3, 5)                                \
	X(12, SOFTMAX_XENT, softmax_xent, 4, 7)                                \
	X(13, EMBEDDING, embedding, 3, 6)                                      \
	X(14, EMBEDDING_GRAD, embedding_grad, 3, 6)                            \
	X(15, IM2COL, im2col, 2, 9)                                            \
	X(16, COL2IM, col2im, 2, 9)                                            \
	X(17, POOL, pool, 2, 10)                                               \
	X(18, POOL_GRAD, pool_grad, 3, 11)                                     \
	X(19, REDUCE, reduce, 2, 4)                                            \
	X(20, SGD, sgd, 2, 4)

enum distmind_op {
#define DISTMIND_OP_(number, NAME, name, buffers, arguments) DISTMIND_OP_##NAME = number,
	DISTMIND_OPS(DISTMIND_OP_)
#undef DISTMIND_OP_
	DISTMIND_OP__COUNT
};

#define DISTMIND_OP_ARGS_MAX 16
#define DISTMIND_OP_SIZE_MAX INT32_MAX

/* nop: nothing, in as many blocks as asked for, which may be none. */
enum distmind_nop_arg {
	DISTMIND_NOP_BLOCKS,
};

/* spin: blocks that each keep a core busy for so long. */
enum distmind_spin_arg {
	DISTMIND_SPIN_BLOCKS, /* 1 to 2^32 - 1 */
	DISTMIND_SPIN_US,     /* each, at most a second */
};

/* fill: out[count] = value. */
enum distmind_fill_arg {
	DISTMIND_FILL_OUT,
	DISTMIND_FILL_COUNT,
	DISTMIND_FILL_VALUE, /* 32 bits: a float, or an int32 */
};

/* copy: out[count] = in[count]. */
enum distmind_copy_arg {
	DISTMIND_COPY_OUT,
	DISTMIND_COPY_IN,
	DISTMIND_COPY_COUNT,
};

/*
 * gemm: for each item of the batch
 *
 *   c[m][n] = alpha * op(a)[m][k] * op(b)[k][n] + beta * c[m][n]
 *
 * op(a) is a[m][k], or the transpose of a[k][m] with DISTMIND_GEMM_TRANSPOSE_A;
 * likewise b. A leading dimension is the distance of two rows as stored, and a
 * stride that of two items of the batch, both in elements. Strides are not
 * looked at when the batch is 1; the stride of an input may be 0. The items of
 * c must not overlap. With beta 0, c is not read.
 */
enum distmind_gemm_arg {
	DISTMIND_GEMM_C,
	DISTMIND_GEMM_A,
	DISTMIND_GEMM_B,
	DISTMIND_GEMM_M,
	DISTMIND_GEMM_N,
	DISTMIND_GEMM_K,
	DISTMIND_GEMM_TRANSPOSE, /* DISTMIND_GEMM_TRANSPOSE_* */
	DISTMIND_GEMM_ALPHA,	 /* float */
	DISTMIND_GEMM_BETA,	 /* float */
	DISTMIND_GEMM_LDA,
	DISTMIND_GEMM_LDB,
	DISTMIND_GEMM_LDC,
	DISTMIND_GEMM_BATCH,
	DISTMIND_GEMM_STRIDE_A,
	DISTMIND_GEMM_STRIDE_B,
	DISTMIND_GEMM_STRIDE_C,
};

#define DISTMIND_GEMM_TRANSPOSE_A    1U
#define DISTMIND_GEMM_TRANSPOSE_B    2U
#define DISTMIND_GEMM_TRANSPOSE__ALL 3U

enum distmind_activation {
	DISTMIND_ACTIVATION_NONE,
	DISTMIND_ACTIVATION_RELU,
	DISTMIND_ACTIVATION_GELU, /* x / 2 * (1 + erf(x / sqrt(2))) */
	DISTMIND_ACTIVATION_TANH,
	DISTMIND_ACTIVATION__COUNT
};

/* bias_activation: y[rows][cols] = activation(x[rows][cols] + bias[cols]). In place. */
enum distmind_bias_activation_arg {
	DISTMIND_BIAS_ACTIVATION_Y,
	DISTMIND_BIAS_ACTIVATION_X,
	DISTMIND_BIAS_ACTIVATION_BIAS,
	DISTMIND_BIAS_ACTIVATION_ROWS,
	DISTMIND_BIAS_ACTIVATION_COLS,
	DISTMIND_BIAS_ACTIVATION_KIND, /* enum distmind_activation */
};

/*
 * bias_activation_grad: dx[rows][cols] = dy * activation'(x + bias). In place.
 * The gradient of the bias is the reduction of dx.
 */
enum distmind_bias_activation_grad_arg {
	DISTMIND_BIAS_ACTIVATION_GRAD_DX,
	DISTMIND_BIAS_ACTIVATION_GRAD_DY,
	DISTMIND_BIAS_ACTIVATION_GRAD_X,
	DISTMIND_BIAS_ACTIVATION_GRAD_BIAS,
	DISTMIND_BIAS_ACTIVATION_GRAD_ROWS,
	DISTMIND_BIAS_ACTIVATION_GRAD_COLS,
	DISTMIND_BIAS_ACTIVATION_GRAD_KIND, /* enum distmind_activation */
};

enum distmind_elementwise_kind {
	DISTMIND_ELEMENTWISE_ADD,   /* a + b */
	DISTMIND_ELEMENTWISE_SUB,   /* a - b */
	DISTMIND_ELEMENTWISE_MUL,   /* a * b */
	DISTMIND_ELEMENTWISE_AXPY,  /* alpha * a + b */
	DISTMIND_ELEMENTWISE_SCALE, /* alpha * a; b is not read, give a again */
	DISTMIND_ELEMENTWISE__COUNT
};

/* elementwise: out[count] of a[count] and b[count]. In place. */
enum distmind_elementwise_arg {
	DISTMIND_ELEMENTWISE_OUT,
	DISTMIND_ELEMENTWISE_A,
	DISTMIND_ELEMENTWISE_B,
	DISTMIND_ELEMENTWISE_COUNT,
	DISTMIND_ELEMENTWISE_KIND,  /* enum distmind_elementwise_kind */
	DISTMIND_ELEMENTWISE_ALPHA, /* float */
};

/*
 * layer_norm: y[rows][cols] = (x - mean) * rstd * gamma[cols] + beta[cols], with
 * the mean and the reciprocal of the standard deviation, sqrt(variance +
 * epsilon), of each row of x, which are left in stats[rows][2]. In place.
 */
enum distmind_layer_norm_arg {
	DISTMIND_LAYER_NORM_Y,
	DISTMIND_LAYER_NORM_STATS,
	DISTMIND_LAYER_NORM_X,
	DISTMIND_LAYER_NORM_GAMMA,
	DISTMIND_LAYER_NORM_BETA,
	DISTMIND_LAYER_NORM_ROWS,
	DISTMIND_LAYER_NORM_COLS,
	DISTMIND_LAYER_NORM_EPSILON, /* float */
};

/*
 * layer_norm_grad: dx[rows][cols], dgamma[cols] and dbeta[cols] from dy, and
 * from x and gamma as they were given to layer_norm and the stats that it left.
 * dx may be dy.
 */
enum distmind_layer_norm_grad_arg {
	DISTMIND_LAYER_NORM_GRAD_DX,
	DISTMIND_LAYER_NORM_GRAD_DGAMMA,
	DISTMIND_LAYER_NORM_GRAD_DBETA,
	DISTMIND_LAYER_NORM_GRAD_DY,
	DISTMIND_LAYER_NORM_GRAD_X,
	DISTMIND_LAYER_NORM_GRAD_GAMMA,
	DISTMIND_LAYER_NORM_GRAD_STATS,
	DISTMIND_LAYER_NORM_GRAD_ROWS,
	DISTMIND_LAYER_NORM_GRAD_COLS,
};

/*
 * softmax: each row of y[rows][cols] is the softmax of that of x. In place.
 * With DISTMIND_SOFTMAX_CAUSAL row i looks at the columns 0 to i modulo cols
 * and the others become 0: the rows are those of one or more square matrices.
 */
enum distmind_softmax_arg {
	DISTMIND_SOFTMAX_Y,
	DISTMIND_SOFTMAX_X,
	DISTMIND_SOFTMAX_ROWS,
	DISTMIND_SOFTMAX_COLS,
	DISTMIND_SOFTMAX_FLAGS, /* DISTMIND_SOFTMAX_CAUSAL */
};

#define DISTMIND_SOFTMAX_CAUSAL	    1U
#define DISTMIND_SOFTMAX_FLAGS__ALL 1U

/* softmax_grad: dx = y * (dy - sum over the row of dy * y). In place. */
enum distmind_softmax_grad_arg {
	DISTMIND_SOFTMAX_GRAD_DX,
	DISTMIND_SOFTMAX_GRAD_DY,
	DISTMIND_SOFTMAX_GRAD_Y, /* what softmax gave */
	DISTMIND_SOFTMAX_GRAD_ROWS,
	DISTMIND_SOFTMAX_GRAD_COLS,
};

/*
 * softmax_xent: loss[rows], the cross-entropy of the softmax of each row of
 * x[rows][cols] with the class labels[rows], and dx[rows][cols], its gradient
 * times scale (1 / rows for the gradient of the mean). dx may be x. A label that
 * is not 0 to cols - 1 fails the call.
 */
enum distmind_softmax_xent_arg {
	DISTMIND_SOFTMAX_XENT_LOSS,
	DISTMIND_SOFTMAX_XENT_DX,
	DISTMIND_SOFTMAX_XENT_X,
	DISTMIND_SOFTMAX_XENT_LABELS, /* int32 */
	DISTMIND_SOFTMAX_XENT_ROWS,
	DISTMIND_SOFTMAX_XENT_COLS,
	DISTMIND_SOFTMAX_XENT_SCALE, /* float */
};

/*
 * embedding: y[count][width] = table[index[count]][width]. An index that is not
 * 0 to vocabulary - 1 fails the call.
 */
enum distmind_embedding_arg {
	DISTMIND_EMBEDDING_Y,
	DISTMIND_EMBEDDING_TABLE, /* [vocabulary][width] */
	DISTMIND_EMBEDDING_INDEX, /* int32 */
	DISTMIND_EMBEDDING_COUNT,
	DISTMIND_EMBEDDING_WIDTH,
	DISTMIND_EMBEDDING_VOCABULARY,
};

/*
 * embedding_grad: dtable[vocabulary][width], each row the sum of those rows of
 * dy[count][width] that have its index, 0 where none has. Fails as embedding.
 */
enum distmind_embedding_grad_arg {
	DISTMIND_EMBEDDING_GRAD_DTABLE,
	DISTMIND_EMBEDDING_GRAD_DY,
	DISTMIND_EMBEDDING_GRAD_INDEX, /* int32 */
	DISTMIND_EMBEDDING_GRAD_COUNT,
	DISTMIND_EMBEDDING_GRAD_WIDTH,
	DISTMIND_EMBEDDING_GRAD_VOCABULARY,
};

/*
 * Convolution is im2col and gemm. With windows of oh x ow, see
 * distmind_op_windows(), and weights w[window * window * c][filters]:
 *
 *   im2col   col[n * oh * ow][window * window * c] of x[n][h][w][c]
 *   forward  y[n * oh * ow][filters] = col * w
 *   weights  dw = transposed col * dy
 *   data     dcol = dy * transposed w, then col2im: dx of dcol
 *
 * A column holds its window by row, column and channel, 0 where the window
 * hangs over the edge. Padding is less than the window.
 */
enum distmind_im2col_arg {
	DISTMIND_IM2COL_COL,
	DISTMIND_IM2COL_X,
	DISTMIND_IM2COL_N,
	DISTMIND_IM2COL_H,
	DISTMIND_IM2COL_W,
	DISTMIND_IM2COL_C,
	DISTMIND_IM2COL_WINDOW,
	DISTMIND_IM2COL_STRIDE,
	DISTMIND_IM2COL_PAD,
};

/* col2im: dx[n][h][w][c], each the sum of where im2col copies it to in dcol. */
enum distmind_col2im_arg {
	DISTMIND_COL2IM_DX,
	DISTMIND_COL2IM_DCOL,
	DISTMIND_COL2IM_N,
	DISTMIND_COL2IM_H,
	DISTMIND_COL2IM_W,
	DISTMIND_COL2IM_C,
	DISTMIND_COL2IM_WINDOW,
	DISTMIND_COL2IM_STRIDE,
	DISTMIND_COL2IM_PAD,
};

enum distmind_pool_kind {
	DISTMIND_POOL_MAX,
	DISTMIND_POOL_AVERAGE, /* of what the window has inside of the image */
	DISTMIND_POOL__COUNT
};

/* pool: y[n][oh][ow][c] of the windows of x[n][h][w][c]. */
enum distmind_pool_arg {
	DISTMIND_POOL_Y,
	DISTMIND_POOL_X,
	DISTMIND_POOL_N,
	DISTMIND_POOL_H,
	DISTMIND_POOL_W,
	DISTMIND_POOL_C,
	DISTMIND_POOL_WINDOW,
	DISTMIND_POOL_STRIDE,
	DISTMIND_POOL_PAD,
	DISTMIND_POOL_KIND, /* enum distmind_pool_kind */
};

/*
 * pool_grad: dx[n][h][w][c] from dy[n][oh][ow][c]. Of several that are the
 * largest of a window, the first by row and column has the gradient.
 */
enum distmind_pool_grad_arg {
	DISTMIND_POOL_GRAD_DX,
	DISTMIND_POOL_GRAD_DY,
	DISTMIND_POOL_GRAD_X, /* as given to pool; not read for the average */
	DISTMIND_POOL_GRAD_N,
	DISTMIND_POOL_GRAD_H,
	DISTMIND_POOL_GRAD_W,
	DISTMIND_POOL_GRAD_C,
	DISTMIND_POOL_GRAD_WINDOW,
	DISTMIND_POOL_GRAD_STRIDE,
	DISTMIND_POOL_GRAD_PAD,
	DISTMIND_POOL_GRAD_KIND, /* enum distmind_pool_kind */
};

/* reduce: out[cols] = the sums of the columns of x[rows][cols]. */
enum distmind_reduce_arg {
	DISTMIND_REDUCE_OUT,
	DISTMIND_REDUCE_X,
	DISTMIND_REDUCE_ROWS,
	DISTMIND_REDUCE_COLS,
};

/* sgd: w[count] -= rate * g[count]. */
enum distmind_sgd_arg {
	DISTMIND_SGD_W,
	DISTMIND_SGD_G,
	DISTMIND_SGD_COUNT,
	DISTMIND_SGD_RATE, /* float */
};

static inline uint64_t distmind_op_float(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* "gemm"; "?" if unknown. */
static inline const char *distmind_op_name(uint32_t op)
{
	switch (op) {
#define DISTMIND_OP_(number, NAME, name, buffers, arguments) \
	case number:                                         \
		return #name;
		DISTMIND_OPS(DISTMIND_OP_)
#undef DISTMIND_OP_
	default:
		return "?";
	}
}

/* How many arguments it has, 0 if unknown. */
static inline uint32_t distmind_op_args(uint32_t op)
{
	switch (op) {
#define DISTMIND_OP_(number, NAME, name, buffers, arguments) \
	case number:                                         \
		return arguments;
		DISTMIND_OPS(DISTMIND_OP_)
#undef DISTMIND_OP_
	default:
		return 0;
	}
}

/* How many of them are buffers. */
static inline uint32_t distmind_op_buffers(uint32_t op)
{
	switch (op) {
#define DISTMIND_OP_(number, NAME, name, buffers, arguments) \
	case number:                                         \
		return buffers;
		DISTMIND_OPS(DISTMIND_OP_)
#undef DISTMIND_OP_
	default:
		return 0;
	}
}

/*
 * Blocks. Each is meant to take well below a millisecond on one core.
 */

/* What a block may be at most, which is about a second: a whole call with more is refused. */
#define DISTMIND_OP_BLOCK_FLOPS_MAX (1ULL << 31)
#define DISTMIND_OP_BLOCK_BYTES_MAX (1ULL << 30)
#define DISTMIND_OP_BLOCK_NS_MAX    1000000000ULL

#define DISTMIND_OP_TILE      16384U  /* elements of a block that computes */
#define DISTMIND_OP_TILE_COPY 262144U /* elements of a block that moves */
#define DISTMIND_OP_TILE_COLS 16U     /* columns of a reduction, at least */
#define DISTMIND_GEMM_TILE    128U    /* rows and columns of c, at most if it has so many */
#define DISTMIND_GEMM_TILE_MIN	 16U	    /* the same, at least */
#define DISTMIND_GEMM_TILE_STEPS (1U << 23) /* multiplications, if the minimum allows */
#define DISTMIND_GEMM_TILE_READ	 (1U << 20) /* elements of a or b, for one that is wider */

/* Products of sizes: one that does not fit is UINT64_MAX, which no buffer has. */
static inline uint64_t distmind_op_mul(uint64_t a, uint64_t b)
{
	return a && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static inline uint64_t distmind_op_divide(uint64_t size, uint64_t tile)
{
	return size / tile + !!(size % tile);
}

/* Rows of a block, of operations that go row by row. */
static inline uint64_t distmind_op_tile_rows(uint64_t cols)
{
	return cols < DISTMIND_OP_TILE ? DISTMIND_OP_TILE / cols : 1;
}

/* Columns of a block, of operations that go down the columns. */
static inline uint64_t distmind_op_tile_cols(uint64_t rows)
{
	uint64_t cols = distmind_op_tile_rows(rows);

	return cols < DISTMIND_OP_TILE_COLS ? DISTMIND_OP_TILE_COLS : cols;
}

/* A side of a tile, made longer as far as the other, which c does not fill, allows. */
static inline uint64_t distmind_op_tile_widen(uint64_t side, uint64_t size, uint64_t other,
					      uint64_t k)
{
	while (side < size && 2 * side * other * k <= DISTMIND_GEMM_TILE_STEPS &&
	       2 * side * k <= DISTMIND_GEMM_TILE_READ)
		side *= 2;
	return side;
}

/* Rows and columns of the part of c that is a block. */
static inline void distmind_op_tile_gemm(uint64_t m, uint64_t n, uint64_t k, uint64_t *rows,
					 uint64_t *cols)
{
	*rows = DISTMIND_GEMM_TILE;
	*cols = DISTMIND_GEMM_TILE;
	while (*rows * *cols * k > DISTMIND_GEMM_TILE_STEPS && *rows > DISTMIND_GEMM_TILE_MIN) {
		if (*rows == *cols)
			*cols /= 2;
		else
			*rows /= 2;
	}
	if (m < *rows)
		*cols = distmind_op_tile_widen(*cols, n, m, k);
	else if (n < *cols)
		*rows = distmind_op_tile_widen(*rows, m, n, k);
}

/* How many windows fit side by side; 0 if none does, or the padding is too large. */
static inline uint64_t distmind_op_windows(uint64_t size, uint64_t window, uint64_t stride,
					   uint64_t pad)
{
	if (!stride || pad >= window || size + 2 * pad < window)
		return 0;
	return (size + 2 * pad - window) / stride + 1;
}

/* Blocks of operations that go by window, or by pixel: what each costs is about the same. */
static inline uint64_t distmind_op_blocks_image(const uint64_t *image, int by_window)
{
	/* As in every operation on images: n, h, w, c, window, stride, pad. */
	uint64_t high = distmind_op_windows(image[1], image[4], image[5], image[6]);
	uint64_t wide = distmind_op_windows(image[2], image[4], image[5], image[6]);
	uint64_t each = distmind_op_mul(image[3], image[4] * image[4]);

	if (!high || !wide)
		return 0;
	if (!by_window) {
		high = image[1];
		wide = image[2];
	}
	return distmind_op_divide(distmind_op_mul(image[0], high * wide),
				  distmind_op_tile_rows(each));
}

static inline int distmind_op_sizes(const uint64_t *sizes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!sizes[i] || sizes[i] > DISTMIND_OP_SIZE_MAX)
			return 0;
	return 1;
}

static inline uint64_t distmind_op_blocks_rows(const uint64_t *sizes)
{
	return distmind_op_divide(sizes[0], distmind_op_tile_rows(sizes[1]));
}

static inline uint64_t distmind_op_blocks_cols(const uint64_t *sizes)
{
	return distmind_op_divide(sizes[1], distmind_op_tile_cols(sizes[0]));
}

/*
 * The number of blocks of a call with these arguments, of which only the
 * scalars are looked at. 0: there is no such call, because the operation, the
 * number of arguments or a size is not possible, or it has more than 2^32 - 1
 * blocks; but a nop of no blocks is possible.
 */
static inline uint32_t distmind_op_blocks(uint32_t op, const uint64_t *args, uint32_t n)
{
	const uint64_t *sizes = args + distmind_op_buffers(op);
	uint64_t blocks = 0, rows, cols;

	if (op >= DISTMIND_OP__COUNT || n != distmind_op_args(op))
		return 0;
	switch (op) {
	case DISTMIND_OP_NOP:
	case DISTMIND_OP_SPIN:
		blocks = sizes[0];
		break;
	case DISTMIND_OP_FILL:
	case DISTMIND_OP_COPY:
		if (distmind_op_sizes(sizes, 1))
			blocks = distmind_op_divide(sizes[0], DISTMIND_OP_TILE_COPY);
		break;
	case DISTMIND_OP_ELEMENTWISE:
	case DISTMIND_OP_SGD:
		if (distmind_op_sizes(sizes, 1))
			blocks = distmind_op_divide(sizes[0], DISTMIND_OP_TILE);
		break;
	case DISTMIND_OP_GEMM:
		if (!distmind_op_sizes(sizes, 3) ||
		    !distmind_op_sizes(&args[DISTMIND_GEMM_BATCH], 1))
			break;
		distmind_op_tile_gemm(sizes[0], sizes[1], sizes[2], &rows, &cols);
		blocks = distmind_op_mul(distmind_op_divide(sizes[0], rows) *
						 distmind_op_divide(sizes[1], cols),
					 args[DISTMIND_GEMM_BATCH]);
		break;
	case DISTMIND_OP_LAYER_NORM_GRAD:
		if (distmind_op_sizes(sizes, 2))
			blocks = distmind_op_blocks_cols(sizes) + distmind_op_blocks_rows(sizes);
		break;
	case DISTMIND_OP_REDUCE:
		if (distmind_op_sizes(sizes, 2))
			blocks = distmind_op_blocks_cols(sizes);
		break;
	case DISTMIND_OP_EMBEDDING_GRAD:
		if (distmind_op_sizes(sizes, 3))
			blocks = distmind_op_divide(sizes[2], distmind_op_tile_rows(sizes[1]));
		break;
	case DISTMIND_OP_IM2COL:
	case DISTMIND_OP_POOL:
	case DISTMIND_OP_COL2IM:
	case DISTMIND_OP_POOL_GRAD:
		if (distmind_op_sizes(sizes, 6) && sizes[6] <= DISTMIND_OP_SIZE_MAX)
			blocks = distmind_op_blocks_image(
				sizes, op == DISTMIND_OP_IM2COL || op == DISTMIND_OP_POOL);
		break;
	default: /* what goes row by row */
		if (distmind_op_sizes(sizes, 2))
			blocks = distmind_op_blocks_rows(sizes);
		break;
	}
	return blocks > UINT32_MAX ? 0 : (uint32_t)blocks;
}

#ifdef __cplusplus
}
#endif

#endif /* DISTMIND_OPS_H */
