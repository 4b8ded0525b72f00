// QuantizeLinear and DequantizeLinear on the processor: pointwise programs, for which scales and zero points are views of the result
// that repeat along every axis but their own.
#include "base/minifloat.h"
#include "expr/simd/isa.h"
#include "ops/core/loops.h"
#include "ops/core/quantized_program.h"
#include "ops/core/strides.h"
#include "ops/cpu/igemm/row_map.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/parallel.h"
#include "ops/pointwise/offer.h"
#include "ops/pointwise/onnx_program.h"
#include "ops/quantize/offer.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {
namespace {

/// The result's shape and its views. Blocks cut their axis in two: the blocks, and the places in one.
struct BlockedViews {
  Shape shape, dense, scale;  // dense: strides of x and y
};

BlockedViews views_of(const BoundNode& b) {
  const Shape& x = b.inputs[0].shape;
  BlockedViews v{x, memory_strides(b.inputs[0]), Shape(x.size(), 0)};
  const int64_t block = b.node->get_int("block_size", 0);
  if (block == 0 && elements(b.inputs[1].shape) == 1) return v;
  const auto axis =
      static_cast<size_t>(normalize_axis(x.size() == 1 ? 0 : b.node->get_int("axis", 1), static_cast<int64_t>(x.size())));
  if (block == 0) {
    v.scale[axis] = 1;
    return v;
  }
  v.scale = memory_strides(b.inputs[1]);
  const auto place = static_cast<Shape::difference_type>(axis) + 1;
  v.shape[axis] = x[axis] / block;
  v.shape.insert(v.shape.begin() + place, block);
  v.dense.insert(v.dense.begin() + place, v.dense[axis]);
  v.dense[axis] *= block;
  v.scale.insert(v.scale.begin() + place, 0);
  return v;
}

bool is_quantize(const BoundNode& b) { return b.node->op == "QuantizeLinear"; }

/// Elements in a row that has one scale and one zero point; 0 where they lie otherwise, are not f32, or are fewer than `least`.
int64_t row_of_one_scale(const BoundNode& b, const BlockedViews& v, int64_t least) {
  const DType floats = is_quantize(b) ? b.inputs[0].type : b.outputs[0].type;
  if (b.inputs[1].type != DType::f32 || floats != DType::f32 || v.dense != strides(v.shape) ||
      memory_strides(b.outputs[0]) != memory_strides(b.inputs[0]) || v.shape.size() > 8)
    return 0;
  int64_t row = 1;
  for (size_t a = v.shape.size(); a > 0 && (v.scale[a - 1] == 0 || v.shape[a - 1] == 1); --a) row *= v.shape[a - 1];
  return row < least && row < elements(v.shape) ? 0 : row;
}

/// Where the scale of each row lies.
igemm::RowMap scales_of(const BlockedViews& v, int64_t row) {
  Shape extents, steps;
  for (size_t a = 0; a < v.shape.size() && elements(extents) < elements(v.shape) / row; ++a)
    extents.push_back(v.shape[a]), steps.push_back(v.scale[a]);
  return igemm::RowMap(extents, steps);
}

/// QuantizeLinear of f32 to floats of 8 bits.
class SmallFloatRowsKernel final : public Kernel {
 public:
  SmallFloatRowsKernel(const BoundNode& b, const BlockedViews& v, int64_t row, int threads)
      : count_(elements(v.shape)),
        row_(row),
        format_(mini_float(b.outputs[0].type)),
        saturates_(b.node->get_int("saturate", 1) != 0),
        has_zero_(b.has(2)),
        threads_(useful_threads(threads, 4 * count_)),
        scales_(scales_of(v, row)) {}

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    const auto* scales = static_cast<const float*>(b.inputs[1]);
    const auto* zeros = has_zero_ ? static_cast<const uint8_t*>(b.inputs[2]) : nullptr;
    auto* y = static_cast<uint8_t*>(b.outputs[0]);
    parallel(threads_, count_, row_ <= 4096 ? row_ : 64, [&](int64_t begin, int64_t end, int) {
      constexpr int64_t most = 512;
      float quotients[most];
      while (begin < end) {
        const int64_t at = scales_.offset(begin / row_), n = std::min({row_ - begin % row_, end - begin, most});
        const float scale = scales[at], zero = zeros ? static_cast<float>(decode(format_, zeros[at])) : 0.0f;
        for (int64_t i = 0; i < n; ++i) quotients[i] = x[begin + i] / scale + zero;
        encode(format_, quotients, n, saturates_, y + begin);
        begin += n;
      }
    });
  }

 private:
  int64_t count_, row_;
  MiniFloat format_;
  bool saturates_, has_zero_;
  int threads_;
  igemm::RowMap scales_;
};

/// QuantizeLinear of f32 to bytes, or DequantizeLinear of bytes to f32, whose scale and zero point are those of a whole row: those of
/// the tensor, of a channel or of a block.
class LinearRowsKernel final : public Kernel {
 public:
  /// Elements in a row; 0 where the kernel does not take it.
  static int64_t row_of(const BoundNode& b, const BlockedViews& v) {
    return simd::best() == simd::Isa::avx2 && is_byte(bytes_of(b)) ? row_of_one_scale(b, v, 16) : 0;
  }

  LinearRowsKernel(const BoundNode& b, const BlockedViews& v, int64_t row, int threads)
      : count_(elements(v.shape)),
        row_(row),
        range_(int_range(bytes_of(b))),
        quantizes_(is_quantize(b)),
        is_signed_(bytes_of(b) == DType::i8),
        has_zero_(b.has(2)),
        threads_(useful_threads(threads, count_ / 2)),
        parameters_(scales_of(v, row)) {}

  void run(const Buffers& b) override {
    const auto* scales = static_cast<const float*>(b.inputs[1]);
    const auto* zeros = has_zero_ ? static_cast<const uint8_t*>(b.inputs[2]) : nullptr;
    const integer::RowFunctions& rows = avx2::integer_rows();
    const auto dequantize = is_signed_ ? rows.dequantize_i8 : rows.dequantize_u8;
    parallel(threads_, count_, row_ <= 4096 ? row_ : 64, [&](int64_t begin, int64_t end, int) {
      while (begin < end) {
        const int64_t at = parameters_.offset(begin / row_), n = std::min(row_ - begin % row_, end - begin);
        const int32_t zero = !zeros ? 0 : is_signed_ ? static_cast<int8_t>(zeros[at]) : zeros[at];
        if (quantizes_)
          quantize(static_cast<const float*>(b.inputs[0]) + begin, n, scales[at], zero,
                   static_cast<uint8_t*>(b.outputs[0]) + begin);
        else
          dequantize(static_cast<float*>(b.outputs[0]) + begin, static_cast<const uint8_t*>(b.inputs[0]) + begin, n, zero,
                     scales[at]);
        begin += n;
      }
    });
  }

 private:
  static DType bytes_of(const BoundNode& b) { return is_quantize(b) ? b.outputs[0].type : b.inputs[0].type; }

  void quantize(const float* x, int64_t n, float scale, int32_t zero, uint8_t* y) const {
    if (!(scale > 1e-30f && scale < 1e30f)) {  // a quotient of other scales may be no number
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(saturate(x[i] / scale, zero, range_));
      return;
    }
    integer::Requantization q;
    q.divisor = scale;
    q.inverse = 1 / scale;
    q.zero = zero;
    q.low = static_cast<float>(range_.low - zero);
    q.high = static_cast<float>(range_.high - zero);
    avx2::integer_rows().quantize(q, x, n, y);
  }

  int64_t count_, row_;
  IntRange range_;
  bool quantizes_, is_signed_, has_zero_;
  int threads_;
  igemm::RowMap parameters_;  // of the rows
};

std::optional<Refusal> rejects_blocks(const BoundNode& b) {
  const int64_t block = b.node->get_int("block_size", 0);
  if (block == 0) return std::nullopt;
  const auto rank = static_cast<int64_t>(b.inputs[0].shape.size());
  const int64_t extent = b.inputs[0].shape[static_cast<size_t>(normalize_axis(b.node->get_int("axis", 1), rank))];
  if (extent % block != 0) return refuse(Reason::wrong_shape, "an axis of {} in blocks of {}", extent, block);
  return std::nullopt;
}

std::optional<Refusal> rejects(const BoundNode& b) {
  if (auto why = rejects_layouts(b)) return why;
  if (elements(b.inputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (b.node->op == "QuantizeLinear") {
    const auto asked = static_cast<DType>(b.node->get_int("precision", 0));
    const DType precision = asked == DType::undefined ? b.inputs[1].type : asked;
    if (precision != DType::f32) return refuse(Reason::not_exact, "quotients of {}; the program's are f32", name(precision));
    if (is_float(b.outputs[0].type)) return refuse(Reason::wrong_type, "y is {}", name(b.outputs[0].type));
    if (bits(b.outputs[0].type) > 16)
      return refuse(Reason::not_exact, "y is {}: f32 does not hold its limits", name(b.outputs[0].type));
  }
  return rejects_blocks(b);
}

/// Nothing where the kernel does not take it.
bool offer_small_floats(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType y = b.outputs[0].type, precision = static_cast<DType>(b.node->get_int("precision", 0));
  const bool small = y == DType::f8e4m3fn || y == DType::f8e4m3fnuz || y == DType::f8e5m2 || y == DType::f8e5m2fnuz;
  if (!is_quantize(b) || !small || (precision != DType::undefined && precision != DType::f32) || rejects_layouts(b)) return false;
  if (elements(b.inputs[0].shape) == 0 || rejects_blocks(b)) return false;
  const BlockedViews v = views_of(b);
  const int64_t row = row_of_one_scale(b, v, 1);
  if (row == 0) return false;
  offer.candidates.push_back(
      {"cpu", "", 1 + static_cast<double>(elements(v.shape)) / 1e3 / machine.threads,
       [b, v, row, threads = machine.threads] { return std::make_unique<SmallFloatRowsKernel>(b, v, row, threads); }});
  return true;
}

}  // namespace

void offer_linear_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (offer_small_floats(b, machine, offer)) return;
  if (auto why = rejects(b)) return offer.refuse("cpu", std::move(*why));
  Node node = *b.node;
  node.domain = onnx_domain;  // of ONNX Runtime's twins, too
  BoundNode plain = b;
  plain.node = &node;
  const auto program = program_of(plain);
  if (!program) return offer.refuse("cpu", Reason::wrong_type, "the expression language has no program for its types");
  const BlockedViews v = views_of(b);
  if (const int64_t row = LinearRowsKernel::row_of(b, v); row > 0) {
    offer.candidates.push_back(
        {"cpu", "", 1 + static_cast<double>(elements(v.shape)) / 2e3 / machine.threads,
         [b, v, row, threads = machine.threads] { return std::make_unique<LinearRowsKernel>(b, v, row, threads); }});
    return;
  }
  PointwiseProblem p{*program, v.shape};
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    if (!b.has(i)) continue;
    p.present.push_back(i);
    p.strides.push_back(i == 0 ? v.dense : v.scale);
    p.alignments.push_back(b.inputs[i].alignment);
  }
  p.strides.push_back(v.dense);
  p.alignments.push_back(b.outputs[0].alignment);
  offer_pointwise_cpu(p, machine, offer);
}

}  // namespace smelt::ops
