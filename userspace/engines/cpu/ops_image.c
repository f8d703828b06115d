// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows that slide over images of N x H x W x C: im2col and pooling go by
 * window, their gradients by pixel, which gathers from the windows it is in.
 */
#include "ops_type.h"

#include <errno.h>

struct image {
	float *out;
	const float *in;
	const float *x; /* pool_grad: the image */
	uint64_t n, h, w, c;
	uint64_t window, stride, pad;
	uint64_t oh, ow; /* windows */
	uint64_t windows, pixels, column;
	uint64_t tile;
	enum distmind_pool_kind kind;
};
OP_STATE_CHECK(struct image);

/* A window, or a pixel. */
struct place {
	uint64_t n, y, x;
};

static struct place find_place(uint64_t index, uint64_t high, uint64_t wide)
{
	return (struct place){
		.n = index / (high * wide),
		.y = index / wide % high,
		.x = index % wide,
	};
}

/* The part of the window at this position that is inside: rows, or columns. */
static struct op_range inside(const struct image *m, uint64_t at, uint64_t size)
{
	uint64_t begin = at * m->stride, end = begin + m->window;

	return (struct op_range){
		.begin = begin > m->pad ? begin - m->pad : 0,
		.end = end - m->pad < size ? end - m->pad : size,
	};
}

/* The windows that this row or column is in. */
static struct op_range covering(const struct image *m, uint64_t at, uint64_t windows)
{
	uint64_t padded = at + m->pad;
	struct op_range range = { .begin = 0, .end = padded / m->stride + 1 };

	if (padded >= m->window)
		range.begin = (padded - m->window) / m->stride + 1;
	if (range.end > windows)
		range.end = windows;
	return range;
}

static const float *pixel(const struct image *m, const float *image, uint64_t n, uint64_t y,
			  uint64_t x)
{
	return image + ((n * m->h + y) * m->w + x) * m->c;
}

static uint64_t window_index(const struct image *m, uint64_t n, uint64_t y, uint64_t x)
{
	return (n * m->oh + y) * m->ow + x;
}

/* The seven scalars that all have, in one order, from the first on. */
static void load_geometry(struct op_load *load, struct image *m, uint32_t first)
{
	m->n = op_load_size(load, first, "n");
	m->h = op_load_size(load, first + 1, "h");
	m->w = op_load_size(load, first + 2, "w");
	m->c = op_load_size(load, first + 3, "c");
	m->window = op_load_size(load, first + 4, "window");
	m->stride = op_load_size(load, first + 5, "stride");
	m->pad = op_load_number(load, first + 6, "pad", 0, DISTMIND_OP_SIZE_MAX);
	if (load->err)
		return;
	m->oh = distmind_op_windows(m->h, m->window, m->stride, m->pad);
	m->ow = distmind_op_windows(m->w, m->window, m->stride, m->pad);
	if (m->pad >= m->window)
		op_load_fail(load, -EINVAL, "pad is not less than the window");
	else if (!m->oh || !m->ow)
		op_load_fail(load, -EINVAL, "the window is larger than the image and its padding");
	m->windows = distmind_op_mul(m->n, m->oh * m->ow);
	m->pixels = distmind_op_mul(m->n, m->h * m->w);
	m->column = distmind_op_mul(m->window * m->window, m->c);
	m->tile = distmind_op_tile_rows(m->column);
	m->kind = DISTMIND_POOL_MAX;
	m->x = NULL;
}

static struct op_range window_range(const struct image *m, uint64_t block)
{
	return op_range(m->windows, m->tile, block);
}

static struct op_range pixel_range(const struct image *m, uint64_t block)
{
	return op_range(m->pixels, m->tile, block);
}

static void im2col_load(struct op_load *load, void *state)
{
	struct image *m = state;

	load_geometry(load, m, DISTMIND_IM2COL_N);
	if (load->err)
		return;
	m->out = op_load_output(load, DISTMIND_IM2COL_COL, "col",
				distmind_op_mul(m->windows, m->column));
	m->in = op_load_input(load, DISTMIND_IM2COL_X, "x", distmind_op_mul(m->pixels, m->c));
}

static void im2col_window(const struct image *m, uint64_t index)
{
	struct place at = find_place(index, m->oh, m->ow);
	struct op_range rows = inside(m, at.y, m->h), cols = inside(m, at.x, m->w);
	uint64_t top = rows.begin + m->pad - at.y * m->stride;
	uint64_t left = cols.begin + m->pad - at.x * m->stride;
	float *col = m->out + index * m->column;

	if (op_range_size(rows) < m->window || op_range_size(cols) < m->window)
		memset(col, 0, m->column * sizeof(*col));
	for (uint64_t y = rows.begin; y < rows.end; y++, top++)
		memmove(col + (top * m->window + left) * m->c,
			pixel(m, m->in, at.n, y, cols.begin),
			op_range_size(cols) * m->c * sizeof(*col));
}

static int im2col_block(const void *state, uint64_t block)
{
	const struct image *m = state;
	struct op_range range = window_range(m, block);

	for (uint64_t i = range.begin; i < range.end; i++)
		im2col_window(m, i);
	return 0;
}

static void im2col_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct image *m = state;

	work->bytes += 2 * op_range_size(window_range(m, block)) * m->column * sizeof(float);
}

const struct op_type op_im2col = { im2col_load, im2col_block, im2col_work, NULL };

static void col2im_load(struct op_load *load, void *state)
{
	struct image *m = state;

	load_geometry(load, m, DISTMIND_COL2IM_N);
	if (load->err)
		return;
	m->out = op_load_output(load, DISTMIND_COL2IM_DX, "dx", distmind_op_mul(m->pixels, m->c));
	m->in = op_load_input(load, DISTMIND_COL2IM_DCOL, "dcol",
			       distmind_op_mul(m->windows, m->column));
}

static void col2im_pixel(const struct image *m, uint64_t index)
{
	struct place at = find_place(index, m->h, m->w);
	struct op_range rows = covering(m, at.y, m->oh), cols = covering(m, at.x, m->ow);
	float *dx = m->out + index * m->c;

	memset(dx, 0, m->c * sizeof(*dx));
	for (uint64_t y = rows.begin; y < rows.end; y++) {
		for (uint64_t x = cols.begin; x < cols.end; x++) {
			uint64_t top = at.y + m->pad - y * m->stride;
			uint64_t left = at.x + m->pad - x * m->stride;
			const float *dcol = m->in + window_index(m, at.n, y, x) * m->column +
					    (top * m->window + left) * m->c;

			for (uint64_t c = 0; c < m->c; c++)
				dx[c] += dcol[c];
		}
	}
}

static int col2im_block(const void *state, uint64_t block)
{
	const struct image *m = state;
	struct op_range range = pixel_range(m, block);

	for (uint64_t i = range.begin; i < range.end; i++)
		col2im_pixel(m, i);
	return 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Windows that a pixel is in, away from the edges; there may not be so many. */
static uint64_t covers(const struct image *m)
{
	uint64_t side = distmind_op_divide(m->window, m->stride);

	return smaller(side, m->oh) * smaller(side, m->ow);
}

/* Pixels of a window; what hangs over the edges on both sides is not looked at. */
static uint64_t seen(const struct image *m)
{
	return smaller(m->window, m->h) * smaller(m->window, m->w);
}

static void col2im_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct image *m = state;
	uint64_t count = op_range_size(pixel_range(m, block)) * m->c;

	work->flops += distmind_op_mul(count, covers(m));
	work->bytes += distmind_op_mul(count * sizeof(float), covers(m) + 1);
}

const struct op_type op_col2im = { col2im_load, col2im_block, col2im_work, NULL };

static void pool_load(struct op_load *load, void *state)
{
	struct image *m = state;

	load_geometry(load, m, DISTMIND_POOL_N);
	m->kind = (enum distmind_pool_kind)op_load_number(load, DISTMIND_POOL_KIND, "kind", 0,
							  DISTMIND_POOL__COUNT - 1);
	if (load->err)
		return;
	m->out = op_load_output(load, DISTMIND_POOL_Y, "y", distmind_op_mul(m->windows, m->c));
	m->in = op_load_input(load, DISTMIND_POOL_X, "x", distmind_op_mul(m->pixels, m->c));
}

static void pool_window(const struct image *m, uint64_t index)
{
	struct place at = find_place(index, m->oh, m->ow);
	struct op_range rows = inside(m, at.y, m->h), cols = inside(m, at.x, m->w);
	float share = 1 / (float)(op_range_size(rows) * op_range_size(cols));
	float *out = m->out + index * m->c;

	memmove(out, pixel(m, m->in, at.n, rows.begin, cols.begin), m->c * sizeof(*out));
	for (uint64_t y = rows.begin; y < rows.end; y++) {
		for (uint64_t x = cols.begin; x < cols.end; x++) {
			const float *in = pixel(m, m->in, at.n, y, x);

			if (y == rows.begin && x == cols.begin)
				continue;
			if (m->kind == DISTMIND_POOL_MAX)
				for (uint64_t c = 0; c < m->c; c++)
					out[c] = in[c] > out[c] ? in[c] : out[c];
			else
				for (uint64_t c = 0; c < m->c; c++)
					out[c] += in[c];
		}
	}
	if (m->kind == DISTMIND_POOL_AVERAGE)
		for (uint64_t c = 0; c < m->c; c++)
			out[c] *= share;
}

static int pool_block(const void *state, uint64_t block)
{
	const struct image *m = state;
	struct op_range range = window_range(m, block);

	for (uint64_t i = range.begin; i < range.end; i++)
		pool_window(m, i);
	return 0;
}

static void pool_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct image *m = state;
	uint64_t count = op_range_size(window_range(m, block));

	work->flops += distmind_op_mul(count * m->c, seen(m));
	work->bytes += distmind_op_mul(count * m->c * sizeof(float), seen(m) + 1);
}

const struct op_type op_pool = { pool_load, pool_block, pool_work, NULL };

static void pool_grad_load(struct op_load *load, void *state)
{
	struct image *m = state;

	load_geometry(load, m, DISTMIND_POOL_GRAD_N);
	m->kind = (enum distmind_pool_kind)op_load_number(load, DISTMIND_POOL_GRAD_KIND, "kind", 0,
							  DISTMIND_POOL__COUNT - 1);
	if (load->err)
		return;
	m->out = op_load_output(load, DISTMIND_POOL_GRAD_DX, "dx",
				distmind_op_mul(m->pixels, m->c));
	m->in = op_load_input(load, DISTMIND_POOL_GRAD_DY, "dy",
			       distmind_op_mul(m->windows, m->c));
	m->x = op_load_input(load, DISTMIND_POOL_GRAD_X, "x", distmind_op_mul(m->pixels, m->c));
}

/* Is this pixel of this channel what the maximum of the window was taken from? */
static bool is_first_max(const struct image *m, struct place at, struct op_range rows,
			 struct op_range cols, uint64_t channel)
{
	float value = pixel(m, m->x, at.n, at.y, at.x)[channel];

	for (uint64_t y = rows.begin; y < rows.end; y++) {
		for (uint64_t x = cols.begin; x < cols.end; x++) {
			float other = pixel(m, m->x, at.n, y, x)[channel];
			bool before = y < at.y || (y == at.y && x < at.x);

			if (other > value || (before && other == value))
				return false;
		}
	}
	return true;
}

static void pool_grad_pixel(const struct image *m, uint64_t index)
{
	struct place at = find_place(index, m->h, m->w);
	struct op_range down = covering(m, at.y, m->oh), along = covering(m, at.x, m->ow);
	float *dx = m->out + index * m->c;

	memset(dx, 0, m->c * sizeof(*dx));
	for (uint64_t y = down.begin; y < down.end; y++) {
		for (uint64_t x = along.begin; x < along.end; x++) {
			const float *dy = m->in + window_index(m, at.n, y, x) * m->c;
			struct op_range rows = inside(m, y, m->h), cols = inside(m, x, m->w);
			float share = 1 / (float)(op_range_size(rows) * op_range_size(cols));

			if (m->kind == DISTMIND_POOL_AVERAGE)
				for (uint64_t c = 0; c < m->c; c++)
					dx[c] += dy[c] * share;
			else
				for (uint64_t c = 0; c < m->c; c++)
					dx[c] += is_first_max(m, at, rows, cols, c) ? dy[c] : 0;
		}
	}
}

static int pool_grad_block(const void *state, uint64_t block)
{
	const struct image *m = state;
	struct op_range range = pixel_range(m, block);

	for (uint64_t i = range.begin; i < range.end; i++)
		pool_grad_pixel(m, i);
	return 0;
}

static void pool_grad_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct image *m = state;
	uint64_t count = op_range_size(pixel_range(m, block)) * m->c;

	work->flops += distmind_op_mul(distmind_op_mul(count, covers(m)),
				       m->kind == DISTMIND_POOL_MAX ? seen(m) : 2);
	work->bytes += distmind_op_mul(count * sizeof(float), covers(m) + 2);
}

/* Each look at a pixel is one at memory: a window is gone through channel by channel. */
static void pool_grad_most(const void *state, struct op_work *work)
{
	pool_grad_work(state, 0, work);
	work->bytes = distmind_op_mul(work->flops, sizeof(float));
}

const struct op_type op_pool_grad = { pool_grad_load, pool_grad_block, pool_grad_work,
				      pool_grad_most };
