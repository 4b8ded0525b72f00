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

namespace {

/// y: the columns' elements added up in T, of bool its sum being whether any of them is true.
template <class T> void add_columns(const Blocks& b, int64_t planes, const T* column, T* y) {
  const int64_t image = elements(b.image), places = elements(b.places), stride = b.window.stride.back();
  std::fill(y, y + planes * image, T{});
  for (int64_t plane = 0; plane < planes; ++plane) {
    Shape tap(b.window.rank(), 0);
    do {
      for_runs(b.window, b.places, b.image, tap, [&](int64_t place, int64_t point, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          T& to = y[plane * image + point + i * stride];
          to = static_cast<T>(to + column[place + i]);
        }
      });
      column += places;
    } while (advance(tap, b.window.kernel));
  }
}

}  // namespace

void run_col2im(ComputeContext& ctx) {
  const Shape& x = ctx.in(0).shape();
  const Blocks blocks = blocks_of(ctx.node, x, ctx.in(1).to_ints(), ctx.in(2).to_ints());
  allocated(ctx, 0, ctx.in(0).type(), with_spatial(x[0], blocks.channels, blocks.image));
  const auto add = [&blocks, planes = x[0] * blocks.channels]<class T>(ComputeContext& c, T) {
    add_columns(blocks, planes, static_cast<const T*>(c.in(0).raw()), static_cast<T*>(c.outputs[0].raw()));
  };
  switch (ctx.in(0).type()) {  // sums of integers wrap, as unsigned ones do
    case DType::boolean: return add(ctx, bool{});
    case DType::i8:
    case DType::u8: return add(ctx, uint8_t{});
    case DType::i16:
    case DType::u16: return add(ctx, uint16_t{});
    case DType::i32:
    case DType::u32: return add(ctx, uint32_t{});
    case DType::i64:
    case DType::u64: return add(ctx, uint64_t{});
    default: in_float(ctx, add);
  }
}

}  // namespace smelt::ops
