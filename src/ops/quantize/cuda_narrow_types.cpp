// Cast, CastLike, QuantizeLinear and DequantizeLinear on a GPU, where they are no program of the expression language: from and to
// numbers of 8 bits and fewer (src/kernels/quant/convert.cuh), with a scale for all, for an axis or for blocks along it. A thread
// writes one element, or the elements of one byte.
#include <algorithm>

#include "base/error.h"
#include "base/minifloat.h"
#include "expr/cuda.h"
#include "kernels/quant/convert.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/quantize/offer.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

bool is_small(DType t) { return bits(t) < 8 || (is_float(t) && bits(t) == 8); }

/// The kernel's name of a format that C++ has no type for.
std::string format_of(DType t, std::string_view rounding) {
  if (t == DType::f8e8m0) return fmt::format("Exponents<round_{}>", rounding);
  if (is_integer(t)) return fmt::format("SmallInteger<{}, {}>", bits(t), is_signed(t));
  constexpr std::string_view specials[] = {"ieee", "nan_all_ones", "nan_negative_zero", "no_specials"};
  const MiniFloat& f = mini_float(t);
  return fmt::format("MiniFloat<{}, {}, {}, {}>", f.exponent, f.mantissa, f.bias, specials[f.specials]);
}

/// The type of a tensor's elements in memory, and how src/kernels/quant/convert.cuh calls it.
std::string memory_type(DType t) { return is_small(t) ? "u8" : std::string(expr::cuda_type(t)); }
std::string stored_type(DType t, std::string_view rounding = "up") {
  return is_small(t) ? fmt::format("Packed<{}, {}>", format_of(t, rounding), bits(t)) : fmt::format("Plain<{}>", memory_type(t));
}

struct Conversion {
  DType from = DType::f32, to = DType::f32;
  std::string arguments, body;                        // "CastArgs<float, u8>", "cast<Plain<float>, Packed<…>, true, false>"
  std::function<void(Launch&, uint32_t count)> give;  // the arguments
};

void offer_conversion(const BoundNode& b, Conversion c, const Gpu& gpu, Offer& offer) {
  const int64_t count = elements(b.outputs[0].shape);
  if (count >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", count);
  const double moved = static_cast<double>(storage_bytes(b.inputs[0]) + storage_bytes(b.outputs[0]));
  offer.candidates.push_back(
      {"cuda", "small", gpu_estimate_us(gpu, moved), [c = std::move(c), count, &gpu] {
         LaunchPlan plan("convert", "#include \"quant/convert.cuh\"\n");
         const int64_t per_thread = bits(c.to) < 8 ? 8 / bits(c.to) : 1;
         const int64_t threads = (count + per_thread - 1) / per_thread;
         if (count > 0)
           c.give(plan.launch({"convert", std::to_string(block), c.arguments, c.body}, blocks_of(threads, block)),
                  static_cast<uint32_t>(count));
         return launched(std::move(plan), gpu);
       }});
}

/// Types that the kernel reads and writes.
bool known(DType t) {
  return is_small(t) || t == DType::boolean || t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16 ||
         is_integer(t);
}

void offer_cast(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  Conversion c{.from = b.inputs[0].type, .to = b.outputs[0].type};
  const bool whole = is_integer(c.from) && !is_small(c.from) && is_integer(c.to);
  c.arguments = fmt::format("CastArgs<{}, {}>", memory_type(c.from), memory_type(c.to));
  c.give = [](Launch& l, uint32_t count) {
    const kernels::CastArgs<void, void> a{.count = count};
    l.args(a, {{a.x, {BufferRef::input, 0}}, {a.y, {BufferRef::output, 0}}});
  };
  c.body = fmt::format("cast<{}, {}, {}, {}>", stored_type(c.from), stored_type(c.to, b.node->get_string("round_mode", "up")),
                       b.node->get_int("saturate", 1) != 0, whole);
  offer_conversion(b, std::move(c), gpu, offer);
}

kernels::ScaleOf scales(const BoundNode& b) {
  const Shape& x = b.inputs[0].shape;
  kernels::ScaleOf s{.inner = 0, .extent = 1, .block = 0, .blocks = 1};
  s.block = static_cast<uint32_t>(b.node->get_int("block_size", 0));
  if (s.block == 0 && elements(b.inputs[1].shape) == 1) return s;
  const auto rank = static_cast<int64_t>(x.size());
  const AxisView v = around_axis(x, normalize_axis(rank == 1 ? 0 : b.node->get_int("axis", 1), rank));
  s.inner = static_cast<uint32_t>(v.inner), s.extent = static_cast<uint32_t>(v.extent);
  if (s.block > 0) s.blocks = s.extent / s.block + (s.extent % s.block != 0);
  return s;
}

/// The arguments of quantize and dequantize. Returns the zero points' type for the kernel.
std::string add_scales(Conversion& c, const BoundNode& b) {
  const bool zero = b.inputs.size() > 2 && b.inputs[2].type != DType::undefined;
  c.arguments = fmt::format("QuantizeArgs<{}, {}, {}, {}>", memory_type(c.from), memory_type(c.to), memory_type(b.inputs[1].type),
                            zero ? memory_type(b.inputs[2].type) : "u8");
  c.give = [zero, s = scales(b)](Launch& l, uint32_t count) {
    const kernels::QuantizeArgs<void, void, void, void> a{.count = count, .scale_of = s};
    const TensorMember x{a.x, {BufferRef::input, 0}}, y{a.y, {BufferRef::output, 0}}, scale{a.scale, {BufferRef::input, 1}};
    if (zero)
      l.args(a, {x, y, scale, {a.zero, {BufferRef::input, 2}}});
    else
      l.args(a, {x, y, scale});
  };
  return zero ? stored_type(b.inputs[2].type) : "NoZero";
}

void offer_quantize(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  Conversion c{.from = b.inputs[0].type, .to = b.outputs[0].type};
  const std::string zero = add_scales(c, b);
  auto precision = static_cast<DType>(b.node->get_int("precision", 0));
  if (precision == DType::undefined) precision = b.inputs[1].type;
  const bool narrow = precision == DType::f16 || precision == DType::bf16 || precision == DType::f64;
  const bool whole = is_integer(c.to);
  const IntRange range = whole ? int_range(c.to) : IntRange{};
  c.body = fmt::format("quantize<{}, {}, {}, {}, {}, {}, {}, {}>", stored_type(c.from), stored_type(c.to), zero,
                       expr::cuda_type(narrow ? precision : DType::f32), b.node->get_int("saturate", 1) != 0, whole, range.low,
                       range.high);
  offer_conversion(b, std::move(c), gpu, offer);
}

void offer_dequantize(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  Conversion c{.from = b.inputs[0].type, .to = b.outputs[0].type};
  const std::string zero = add_scales(c, b);
  c.body = fmt::format("dequantize<{}, {}, {}, true>", stored_type(c.from), stored_type(c.to), zero);
  offer_conversion(b, std::move(c), gpu, offer);
}

}  // namespace

void offer_narrow_types_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const std::string& op = b.node->op;
  for (const BoundTensor* t : {&b.inputs[0], &b.outputs[0]}) {
    if (t->layout != Layout::plain || !is_dense(*t))
      return offer.refuse("cuda", Reason::wrong_layout, "tensors that are not dense and row-major");
    if (!known(t->type)) return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(t->type));
  }
  if (op == "Cast" || op == "CastLike") return offer_cast(b, *machine.gpu, offer);
  for (size_t i = 0; i < b.inputs.size(); ++i)
    if (bits(b.inputs[i].type) == 32 && is_integer(b.inputs[i].type))
      return offer.refuse("cuda", Reason::not_exact, "32-bit integers are not exact in float");
  if (op == "QuantizeLinear")
    offer_quantize(b, *machine.gpu, offer);
  else
    offer_dequantize(b, *machine.gpu, offer);
}

}  // namespace smelt::ops
