// Col2Im: columns of blocks added back into the image they were cut from.
#include "ops/conv/col2im.h"

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"

namespace smelt::ops {

Blocks blocks_of(const Node& node, const Shape& x, const Shape& image, const Shape& block) {
  if (x.size() != 3) fail("input has shape {}, expected [N, C * block, L]", to_string(x));
  if (image.size() != block.size()) fail("image_shape has {} entries, block_shape {}", image.size(), block.size());
  Blocks b{image, {}, window_of(node, block, image), 0};
  b.places = window_places(b.window, image);
  const int64_t taps = elements(block);
  if (x[1] % taps) fail("input has {} rows, expected a multiple of the block's {} elements", x[1], taps);
  if (x[2] != elements(b.places)) fail("input has {} blocks, expected {}", x[2], elements(b.places));
  b.channels = x[1] / taps;
  return b;
}

void infer_col2im(InferContext& c) {
  const auto image = c.ints(1), block = c.ints(2);
  if (!image || !block) return c.set_type(0, c.in(0).type);
  const Blocks b = blocks_of(c.node, c.shape(0), *image, *block);
  c.set(0, c.in(0).type, with_spatial(c.shape(0)[0], b.channels, b.image));
}

void run_col2im(ComputeContext& ctx) {
  const Shape& x = ctx.in(0).shape();
  const Blocks blocks = blocks_of(ctx.node, x, ctx.in(1).to_ints(), ctx.in(2).to_ints());
  allocated(ctx, 0, ctx.in(0).type(), with_spatial(x[0], blocks.channels, blocks.image));
  in_float(ctx, [&b = blocks, &x](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const int64_t image = elements(b.image), places = x[2], stride = b.window.stride.back();
    const T* column = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    std::fill(y, y + c.outputs[0].size(), T{});
    for (int64_t plane = 0; plane < x[0] * b.channels; ++plane) {
      Shape tap(b.window.rank(), 0);
      do {
        for_runs(b.window, b.places, b.image, tap, [&](int64_t place, int64_t point, int64_t count) {
          for (int64_t i = 0; i < count; ++i) y[plane * image + point + i * stride] += column[place + i];
        });
        column += places;
      } while (advance(tap, b.window.kernel));
    }
  });
}

}  // namespace smelt::ops
