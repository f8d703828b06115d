/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the picture share; trace_svg.c has the whole, trace_zoom.c one preemption. */
#ifndef DISTMINDCTL_TRACE_SVG_H
#define DISTMINDCTL_TRACE_SVG_H

#include "trace_write.h"

#define SVG_WIDTH  1200
#define SVG_LEFT   176
#define SVG_RIGHT  (SVG_WIDTH - 24)
#define SVG_LETTER 6.6 /* width of one, about */

struct svg {
	const struct trace_model *model;
	const struct trace_names *names;
	FILE *out;
};

size_t svg_colour(const struct trace_model *model, uint32_t gpu, uint32_t vgpu);
/* "vgpu 3 (train)" */
void svg_put_vgpu(struct svg *svg, uint32_t vgpu);

/* Of the part below; 0: no preemption was seen from its beginning to its end. */
double svg_zoom_height(const struct trace_model *model);
/* A usual preemption, large and in words, from y down. */
void svg_put_zoom(struct svg *svg, double y);

#endif /* DISTMINDCTL_TRACE_SVG_H */
