// Cast, CastLike, QuantizeLinear and DequantizeLinear on a GPU, where they are no program of the expression language: from and to
// numbers of 8 bits and fewer (src/kernels/quant/small.cuh), with a scale for all, for an axis or for blocks along it. A thread
// writes one element, or the elements of one byte.
#include <algorithm>

#include "base/error.h"
#include "base/minifloat.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
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

/// A type in memory.
std::string memory_type(DType t) { return is_small(t) ? "u8" : std::string(expr::cuda_type(t)); }

/// Element `index` of `tensor` as a float.
std::string read(DType t, const std::string& tensor, const std::string& index) {
  if (!is_small(t)) return fmt::format("as_float({}[{}])", tensor, index);
  return fmt::format("{}::decode(code_at<{}>({}, {}))", format_of(t, "up"), bits(t), tensor, index);
}

struct Conversion {
  DType from = DType::f32, to = DType::f32;
  std::string rounding = "up";
  bool saturate = true;
  std::string code;  // sets v, the element in float, or i32 n where `whole`
  bool whole = false;
  std::string parameters;  // further ones: ", const float* scale"
  std::function<void(Launch&)> give;
};

std::string source_of(const Conversion& c) {
  const int64_t per_thread = bits(c.to) < 8 ? 8 / bits(c.to) : 1;
  std::string code = fmt::format(
      "#include \"quant/small.cuh\"\n\nextern \"C\" __global__ void __launch_bounds__({}) convert(const {}* x, {}* y, u32 "
      "count{}) {{\n"
      "  const u32 thread = blockIdx.x * {}u + threadIdx.x, first = thread * {};\n  if (first >= count) return;\n",
      block, memory_type(c.from), memory_type(c.to), c.parameters, block, per_thread);
  code += fmt::format(
      "  u32 byte = 0;\n#pragma unroll\n  for (u32 e = 0; e < {}; ++e) {{\n    const u32 i = first + e;\n"
      "    if (i >= count) break;\n    {}\n",
      per_thread, c.code);
  const std::string to(is_small(c.to) ? "" : expr::cuda_type(c.to));
  if (!is_small(c.to))
    code += fmt::format("    y[i] = {};\n  }}\n}}\n", c.whole ? fmt::format("({})n", to) : fmt::format("from_float<{}>(v)", to));
  else
    code +=
        fmt::format("    byte |= ({} & {}u) << (e * {});\n  }}\n  y[thread] = byte;\n}}\n",
                    c.whole ? "static_cast<u32>(n)" : fmt::format("{}::encode(v, {})", format_of(c.to, c.rounding), c.saturate),
                    (1u << bits(c.to)) - 1, bits(c.to));
  return code;
}

void offer_conversion(const BoundNode& b, Conversion c, const Gpu& gpu, Offer& offer) {
  const int64_t count = elements(b.outputs[0].shape);
  if (count >= int64_t{1} << 31) return offer.rejected.push_back({"cuda", fmt::format("{} elements", count)});
  const double moved = static_cast<double>(storage_bytes(b.inputs[0]) + storage_bytes(b.outputs[0]));
  offer.candidates.push_back({"cuda", "small", gpu_estimate_us(gpu, moved), [c = std::move(c), count, &gpu] {
                                LaunchPlan plan("convert", source_of(c));
                                const int64_t per_thread = bits(c.to) < 8 ? 8 / bits(c.to) : 1;
                                if (count > 0) {
                                  Launch& l = plan.launch("convert", blocks_of((count + per_thread - 1) / per_thread, block));
                                  l.input(0).output(0).value(static_cast<uint32_t>(count));
                                  if (c.give) c.give(l);
                                }
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
  c.saturate = b.node->get_int("saturate", 1) != 0;
  c.rounding = b.node->get_string("round_mode", "up");
  // Integers keep their lowest bits.
  c.whole = is_integer(c.from) && !is_small(c.from) && is_integer(c.to);
  c.code = c.whole ? "const i64 n = static_cast<i64>(x[i]);" : fmt::format("const float v = {};", read(c.from, "x", "i"));
  offer_conversion(b, std::move(c), gpu, offer);
}

struct ScaleOf {  // src/kernels/quant/small.cuh
  uint32_t inner = 0, extent = 1, block = 0, blocks = 1;
};

ScaleOf scales(const BoundNode& b) {
  const Shape& x = b.inputs[0].shape;
  ScaleOf s;
  s.block = static_cast<uint32_t>(b.node->get_int("block_size", 0));
  if (s.block == 0 && elements(b.inputs[1].shape) == 1) return s;
  const auto rank = static_cast<int64_t>(x.size());
  const AxisView v = around_axis(x, normalize_axis(rank == 1 ? 0 : b.node->get_int("axis", 1), rank));
  s.inner = static_cast<uint32_t>(v.inner), s.extent = static_cast<uint32_t>(v.extent);
  if (s.block > 0) s.blocks = (s.extent + s.block - 1) / s.block;
  return s;
}

/// "scale" and, where there is one, "zero", with which scale is whose.
void add_scales(Conversion& c, const BoundNode& b) {
  const bool zero = b.inputs.size() > 2 && b.inputs[2].type != DType::undefined;
  c.parameters = fmt::format(", const {}* scale", memory_type(b.inputs[1].type));
  if (zero) c.parameters += fmt::format(", const {}* zero", memory_type(b.inputs[2].type));
  c.parameters += ", const ScaleOf scale_of";
  c.give = [zero, s = scales(b)](Launch& l) {
    l.input(1);
    if (zero) l.input(2);
    l.value(s);
  };
  c.code = fmt::format("const u32 s = scale_of(i);\n    const float by = as_float(scale[s]), offset = {};\n    ",
                       zero ? read(b.inputs[2].type, "zero", "s") : "0");
}

void offer_quantize(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  Conversion c{.from = b.inputs[0].type, .to = b.outputs[0].type};
  c.saturate = b.node->get_int("saturate", 1) != 0;
  add_scales(c, b);
  auto precision = static_cast<DType>(b.node->get_int("precision", 0));
  if (precision == DType::undefined) precision = b.inputs[1].type;
  const std::string x = read(c.from, "x", "i");
  c.code += precision == DType::f64 ? fmt::format("const float q = static_cast<float>(static_cast<double>({}) / by);\n    ", x)
            : precision == DType::f16 || precision == DType::bf16
                ? fmt::format("const float q = f32({}_of({} / by));\n    ", name(precision), x)
                : fmt::format("const float q = {} / by;\n    ", x);
  c.whole = is_integer(c.to);
  if (c.whole) {
    const IntRange range = int_range(c.to);
    c.code += fmt::format("const i64 n = saturated(q, static_cast<int>(offset), {}.0, {}.0);", range.low, range.high);
  } else {
    c.code += "const float v = q + offset;";
  }
  offer_conversion(b, std::move(c), gpu, offer);
}

void offer_dequantize(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  Conversion c{.from = b.inputs[0].type, .to = b.outputs[0].type};
  add_scales(c, b);
  c.code += fmt::format("const float v = ({} - offset) * by;", read(c.from, "x", "i"));
  offer_conversion(b, std::move(c), gpu, offer);
}

}  // namespace

void offer_narrow_types_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const std::string& op = b.node->op;
  for (const BoundTensor* t : {&b.inputs[0], &b.outputs[0]}) {
    if (t->layout != Layout::plain || !is_dense(*t))
      return offer.rejected.push_back({"cuda", "tensors that are not dense and row-major"});
    if (!known(t->type)) return offer.rejected.push_back({"cuda", fmt::format("elements of {}", name(t->type))});
  }
  if (op == "Cast" || op == "CastLike") return offer_cast(b, *machine.gpu, offer);
  for (size_t i = 0; i < b.inputs.size(); ++i)
    if (bits(b.inputs[i].type) == 32 && is_integer(b.inputs[i].type))
      return offer.rejected.push_back({"cuda", "32-bit integers are not exact in float"});
  if (op == "QuantizeLinear")
    offer_quantize(b, *machine.gpu, offer);
  else
    offer_dequantize(b, *machine.gpu, offer);
}

}  // namespace smelt::ops
