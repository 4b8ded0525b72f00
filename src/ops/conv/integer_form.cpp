#include "ops/conv/integer_form.h"

#include "ops/conv/conv.h"
#include "ops/core/quantized_program.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {

Result<IntegerForm> integer_form(const BoundNode& b) {
  const BoundTensor &x = b.inputs[0], &w = b.inputs[1], &y = b.outputs[0];
  if (!is_byte(x.type) || !is_byte(w.type)) return refuse(Reason::wrong_type, "operands that are no bytes");
  if (b.has(2) && elements(b.inputs[2].shape) != 1) return refuse(Reason::wrong_shape, "several zero points of the image");
  if (x.shape.size() < 3 || x.shape.size() > 5) return refuse(Reason::wrong_rank, "{} axes", x.shape.size());
  if (y.layout != Layout::plain || !is_dense(y)) return refuse(Reason::wrong_layout, "a result that is not dense and row-major");
  if (w.layout != Layout::plain || !is_dense(w)) return refuse(Reason::wrong_layout, "weights that are not dense and row-major");
  if (elements(x.shape) == 0 || elements(y.shape) == 0 || elements(w.shape) == 0)
    return refuse(Reason::wrong_shape, "an empty tensor");
  const ConvProblem p = conv_problem(*b.node, x.shape, w.shape);
  IntegerForm f;
  f.batch = p.n, f.channels = p.c, f.outputs = p.m, f.group = p.group;
  const Shape steps = memory_strides(x);
  const size_t lead = 3 - p.in.size();
  f.from = {steps[0], steps[1]};
  for (size_t k = 0; k < 3; ++k) {
    const bool there = k >= lead;
    const size_t a = there ? k - lead : 0;
    const auto get = [&](const Shape& s, int64_t otherwise) { return there ? s[a] : otherwise; };
    f.in[k] = get(p.in, 1), f.out[k] = get(p.out, 1), f.kernel[k] = get(p.window.kernel, 1);
    f.stride[k] = get(p.window.stride, 1), f.dilation[k] = get(p.window.dilation, 1), f.begin[k] = get(p.window.pad_begin, 0);
    f.padded[k] = f.in[k] + f.begin[k] + get(p.window.pad_end, 0);
    f.from.push_back(there ? steps[a + 2] : 0);
  }
  return f;
}

}  // namespace smelt::ops::conv
