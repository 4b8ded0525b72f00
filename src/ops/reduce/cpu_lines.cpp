// Operators that look at one line of elements along an axis, on the processor: ArgMax, ArgMin, Hardmax, CumSum and CumProd, of every
// numeric type; TopK is in cpu_top_k.cpp. Lines whose elements lie side by side are taken many a call, others as columns.
#include "ops/reduce/cpu_lines.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {
namespace {

std::optional<LineElement> line_element(DType t) {
  switch (t) {
    case DType::f32: return LineElement::f32;
    case DType::f64: return LineElement::f64;
    case DType::f16: return LineElement::f16;
    case DType::bf16: return LineElement::bf16;
    case DType::i8: return LineElement::i8;
    case DType::i16: return LineElement::i16;
    case DType::i32: return LineElement::i32;
    case DType::i64: return LineElement::i64;
    case DType::u8:
    case DType::boolean: return LineElement::u8;
    case DType::u16: return LineElement::u16;
    case DType::u32: return LineElement::u32;
    case DType::u64: return LineElement::u64;
    default: return std::nullopt;
  }
}

constexpr int64_t band = scan_columns_most;  // columns that are walked together

/// A kernel over lines: Derived::rows(buffers, first, how many) of lines whose elements lie side by side, or else
/// Derived::columns(buffers, outer, first inner, how many), and with them the thread's `scratch` bytes. Of few columns, one band, it is
/// Derived::tensors(buffers, first outer, how many), which takes the columns of each.
template <class Derived> class LineKernel : public Kernel {
 public:
  LineKernel(const Lines& lines, int64_t cost, int64_t scratch, int threads)
      : lines_(lines), scratch_(aligned(scratch)), threads_(useful_threads(threads, lines.count() * cost)) {}
  int64_t workspace() const override { return threads_ * scratch_; }
  void run(const Buffers& b) override {
    const AxisView& v = lines_.view;
    const int64_t bands = (v.inner + band - 1) / band;
    parallel(threads_, v.outer * bands, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * scratch_;
      const auto& derived = static_cast<const Derived&>(*this);
      if (v.inner == 1) return derived.rows(b, begin, end - begin, own);
      if (bands == 1) return derived.tensors(b, begin, end - begin, own);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % bands * band;
        derived.columns(b, i / bands, first, std::min(band, v.inner - first), own);
      }
    });
  }

  void tensors(const Buffers& b, int64_t outer, int64_t n, char* own) const {
    for (const int64_t end = outer + n; outer < end; ++outer)
      static_cast<const Derived&>(*this).columns(b, outer, 0, lines_.view.inner, own);
  }

 protected:
  const Lines& lines() const { return lines_; }
  int64_t extent() const { return lines_.view.extent; }
  /// The offset in bytes of the first element of a column.
  int64_t column(int64_t outer, int64_t first) const { return (outer * extent() * lines_.view.inner + first) * lines_.bytes; }
  const char* x(const Buffers& b, int64_t bytes) const { return static_cast<const char*>(b.inputs[0]) + bytes; }
  char* y(const Buffers& b, int64_t bytes) const { return static_cast<char*>(b.outputs[0]) + bytes; }

 private:
  Lines lines_;
  int64_t scratch_;
  int threads_;
};

/// Of rows, or of a tensor's columns, that take so many bytes: those that fill no register of AVX-512 go by AVX2's.
const LineSimd& simd_of(int64_t bytes) {
  constexpr int64_t widest_bytes = 64;
  return simd::widest() == simd::Isa::avx512 && bytes < widest_bytes ? avx2::line_simd() : line_simd();
}
const LineSimd& row_simd(const Lines& l) { return simd_of(l.view.extent * l.bytes); }
const LineSimd& tensor_simd(const Lines& l) { return simd_of(l.view.inner * l.bytes); }

class ArgKernel final : public LineKernel<ArgKernel> {
 public:
  ArgKernel(const Lines& l, ArgRule rule, int threads) : LineKernel(l, 1, 0, threads), rule_(rule) {}

  void rows(const Buffers& b, int64_t first, int64_t n, char*) const {
    row_simd(lines()).arg_rows(lines().element, x(b, first * extent() * lines().bytes), n, extent(), rule_,
                               static_cast<int64_t*>(b.outputs[0]) + first);
  }
  void columns(const Buffers& b, int64_t outer, int64_t first, int64_t n, char*) const {
    line_simd().arg_columns(lines().element, x(b, column(outer, first)), lines().view.inner, n, extent(), rule_,
                            static_cast<int64_t*>(b.outputs[0]) + outer * lines().view.inner + first);
  }
  void tensors(const Buffers& b, int64_t outer, int64_t n, char*) const {
    tensor_simd(lines()).arg_tensors(lines().element, x(b, column(outer, 0)), lines().view.inner, extent(), n, rule_,
                                     static_cast<int64_t*>(b.outputs[0]) + outer * lines().view.inner);
  }

 private:
  ArgRule rule_;
};

/// 1 where ArgMax finds the largest, 0 elsewhere.
class HardmaxKernel final : public LineKernel<HardmaxKernel> {
 public:
  HardmaxKernel(const Lines& l, DType type, int threads)
      : LineKernel(l, 2, band * 8, threads), one_(Tensor::scalar<float>(1).cast(type)) {}

  void rows(const Buffers& b, int64_t first, int64_t n, char* scratch) const {
    auto* at = reinterpret_cast<int64_t*>(scratch);
    const int64_t bytes = lines().bytes;
    for (const int64_t end = first + n; first < end; first += n) {
      n = std::min(band, end - first);
      const int64_t from = first * extent() * bytes;
      row_simd(lines()).arg_rows(lines().element, x(b, from), n, extent(), {}, at);
      std::memset(y(b, from), 0, static_cast<size_t>(n * extent() * bytes));
      mark(y(b, from), at, n, extent(), 1);
    }
  }
  void columns(const Buffers& b, int64_t outer, int64_t first, int64_t n, char* scratch) const {
    auto* at = reinterpret_cast<int64_t*>(scratch);
    const int64_t bytes = lines().bytes, from = column(outer, first), step = lines().view.inner;
    line_simd().arg_columns(lines().element, x(b, from), step, n, extent(), {}, at);
    for (int64_t k = 0; k < extent(); ++k) std::memset(y(b, from) + k * step * bytes, 0, static_cast<size_t>(n * bytes));
    mark(y(b, from), at, n, 1, step);
  }
  void tensors(const Buffers& b, int64_t outer, int64_t n, char* scratch) const {
    auto* at = reinterpret_cast<int64_t*>(scratch);
    const int64_t inner = lines().view.inner, each = extent() * inner * lines().bytes, most = band / inner;
    for (const int64_t end = outer + n; outer < end; outer += n) {
      n = std::min(most, end - outer);
      const int64_t from = column(outer, 0);
      tensor_simd(lines()).arg_tensors(lines().element, x(b, from), inner, extent(), n, {}, at);
      std::memset(y(b, from), 0, static_cast<size_t>(n * each));
      for (int64_t o = 0; o < n; ++o) mark(y(b, from + o * each), at + o * inner, inner, 1, inner);
    }
  }

 private:
  /// Element at[i] of n lines, which begin `line` elements apart and whose elements lie `step` apart.
  void mark(char* y, const int64_t* at, int64_t n, int64_t line, int64_t step) const {
    with_bytes(lines().bytes, [&]<class T>(T) {
      const T one = *static_cast<const T*>(one_.raw());
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<T*>(y)[i * line + at[i] * step] = one;
    });
  }

  Tensor one_;
};

class ScanKernel final : public LineKernel<ScanKernel> {
 public:
  ScanKernel(const Lines& l, ScanRule rule, int threads) : LineKernel(l, 2, 0, threads), rule_(rule) {}

  void rows(const Buffers& b, int64_t first, int64_t n, char*) const {
    const int64_t from = first * extent() * lines().bytes;
    line_simd().scan_rows(lines().element, x(b, from), y(b, from), n, extent(), rule_);
  }
  void columns(const Buffers& b, int64_t outer, int64_t first, int64_t n, char*) const {
    const int64_t from = column(outer, first);
    line_simd().scan_columns(lines().element, x(b, from), y(b, from), lines().view.inner, n, extent(), rule_);
  }
  void tensors(const Buffers& b, int64_t outer, int64_t n, char*) const {
    const int64_t from = column(outer, 0);
    line_simd().scan_tensors(lines().element, x(b, from), y(b, from), lines().view.inner, extent(), n, rule_);
  }

 private:
  ScanRule rule_;
};

}  // namespace

namespace {

/// Whether the elements of y, which has x's axes or those without `axis`, lie densely in the order in which x's do.
bool lies_alike(const BoundTensor& y, size_t rank, size_t axis, const std::vector<size_t>& order) {
  const bool without_axis = y.shape.size() < rank;
  if (y.shape.size() + (without_axis ? 1 : 0) != rank) return false;
  const Shape steps = memory_strides(y);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (without_axis && order[i] == axis) continue;
    const size_t a = order[i] - (without_axis && order[i] > axis ? 1 : 0);
    if (y.shape[a] != 1 && steps[a] != step) return false;
    step *= y.shape[a];
  }
  return true;
}

}  // namespace

const LineSimd& line_simd() {
  if (simd::widest() == simd::Isa::avx512) return avx512::line_simd();
  return simd::best() == simd::Isa::avx2 ? avx2::line_simd() : base::line_simd();
}

Result<Lines> lines_of(const BoundNode& b, int64_t axis) {
  const BoundTensor& x = b.inputs[0];
  const auto element = line_element(x.type);
  if (!element) return refuse(Reason::wrong_type, "lines of {}", smelt::name(x.type));
  if (x.shape.empty()) return refuse(Reason::wrong_rank, "a scalar");
  if (elements(x.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  const int64_t at = normalize_axis(axis, static_cast<int64_t>(x.shape.size()));
  // An image's axes as they lie.
  std::vector<size_t> order(x.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (x.layout == Layout::nhwc) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  const auto alike = [&](const BoundTensor& t) {
    return t.type == DType::undefined || lies_alike(t, order.size(), static_cast<size_t>(at), order);
  };
  if (!alike(x) || !std::ranges::all_of(b.outputs, alike))
    return refuse(Reason::wrong_layout, "tensors that are not dense in the same order");
  Shape shape;
  for (size_t a : order) shape.push_back(x.shape[a]);
  const auto place = std::ranges::find(order, static_cast<size_t>(at)) - order.begin();
  Lines l{around_axis(shape, place), 1, *element, bits(x.type) / 8};
  if (l.view.extent >= int64_t{1} << 31)
    return refuse(Reason::too_large, "lines of {} elements; it counts to 2^31", l.view.extent);
  return l;
}

void offer_arg_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Lines> l = lines_of(b, b.node->get_int("axis", 0));
  if (!l) return offer.refuse("cpu", l.refusal());
  add_lines<ArgKernel>(offer, *l, machine, 1e3, ArgRule{b.node->op == "ArgMax", b.node->get_int("select_last_index", 0) != 0});
}

void offer_hardmax_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Lines> l = lines_of(b, b.node->get_int("axis", -1));
  if (!l) return offer.refuse("cpu", l.refusal());
  add_lines<HardmaxKernel>(offer, *l, machine, 500, b.inputs[0].type);
}

void offer_scan_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!b.constant(1)) return offer.refuse("cpu", Reason::not_constant, "its axis is computed");
  const std::vector<int64_t> axis = b.constant(1)->to_ints();
  if (axis.size() != 1) return offer.refuse("cpu", Reason::wrong_shape, "{} axes", axis.size());
  const Result<Lines> l = lines_of(b, axis[0]);
  if (!l) return offer.refuse("cpu", l.refusal());
  if (b.inputs[0].type == DType::boolean) return offer.refuse("cpu", Reason::wrong_type, "running totals of bool");
  add_lines<ScanKernel>(
      offer, *l, machine, 500,
      ScanRule{b.node->op == "CumProd", b.node->get_int("exclusive", 0) != 0, b.node->get_int("reverse", 0) != 0});
}

}  // namespace smelt::ops
