// Gather on the processor: whole rows, copied by index.
#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/gather/offer.h"

namespace smelt::ops {
namespace {

/// y[o, i, :] = x[o, index[i], :], with x [outer, extent, inner] around the axis.
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const BoundNode& b, int threads) : wide_(b.inputs[1].type == DType::i64) {
    const Shape& x = b.inputs[0].shape;
    const auto axis = static_cast<size_t>(normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(x.size())));
    outer_ = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)));
    extent_ = x[axis];
    row_bytes_ = elements(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end())) * element_bytes(b.inputs[0].type);
    count_ = elements(b.inputs[1].shape);
    threads_ = useful_threads(threads, 2 * outer_ * count_ * row_bytes_);
  }

  void run(const Buffers& b) override {
    std::atomic<int64_t> wrong = in_range;
    const auto rows = wide_ ? rows_of<int64_t>() : rows_of<int32_t>();
    parallel(threads_, outer_ * count_, 1, [&](int64_t begin, int64_t end, int) { (this->*rows)(b, begin, end, wrong); });
    if (wrong != in_range) fail("index {} is outside [{}, {})", wrong.load(), -extent_, extent_);
  }

 private:
  using Rows = void (GatherKernel::*)(const Buffers&, int64_t, int64_t, std::atomic<int64_t>&) const;

  /// Rows of one element, as along the last axis, are copied without a call for each.
  template <class Index> Rows rows_of() const {
    switch (row_bytes_) {
      case 1: return &GatherKernel::copy_rows<Index, 1>;
      case 2: return &GatherKernel::copy_rows<Index, 2>;
      case 4: return &GatherKernel::copy_rows<Index, 4>;
      case 8: return &GatherKernel::copy_rows<Index, 8>;
      default: return &GatherKernel::copy_rows<Index, 0>;
    }
  }

  /// Rows begin to end of y, of `fixed` bytes each, 0: of row_bytes_.
  template <class Index, size_t fixed>
  void copy_rows(const Buffers& b, int64_t begin, int64_t end, std::atomic<int64_t>& wrong) const {
    const auto bytes = fixed ? fixed : static_cast<size_t>(row_bytes_);
    const auto step = static_cast<int64_t>(bytes);
    const auto* indices = static_cast<const Index*>(b.inputs[1]);
    int64_t i = begin % count_;
    const char* from = static_cast<const char*>(b.inputs[0]) + begin / count_ * extent_ * step;
    char* to = static_cast<char*>(b.outputs[0]) + begin * step;
    if (count_ == 1 && -extent_ <= *indices && *indices < extent_) {  // one place of each row
      from += (*indices < 0 ? *indices + extent_ : *indices) * step;
      for (int64_t r = begin; r < end; ++r, to += step, from += extent_ * step) std::memcpy(to, from, bytes);
      return;
    }
    for (int64_t r = begin; r < end; ++r, to += step) {
      const int64_t given = indices[i];
      if (given < -extent_ || given >= extent_)
        wrong.store(given);
      else
        std::memcpy(to, from + (given < 0 ? given + extent_ : given) * step, bytes);
      if (++i < count_) continue;
      i = 0;
      from += extent_ * step;
    }
  }

  static constexpr int64_t in_range = 0;  // an index of 0 is wrong only when there is nothing to gather from
  bool wide_;
  int threads_ = 1;
  int64_t outer_ = 1, extent_ = 0, row_bytes_ = 0, count_ = 0;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  if (!all_plain(b)) return refuse(Reason::wrong_layout, "tensors that are not dense and row-major");
  if (!StridedCopy::can_move(element_bytes(b.inputs[0].type)))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(b.inputs[0].type));
  const DType index = b.inputs[1].type;
  if (index != DType::i64 && index != DType::i32) return refuse(Reason::wrong_type, "indices of {}", smelt::name(index));
  if (elements(b.inputs[0].shape) == 0) return refuse(Reason::wrong_shape, "nothing to gather from");
  return std::nullopt;
}

}  // namespace

void offer_gather_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine),
                              [b, threads = machine.threads] { return std::make_unique<GatherKernel>(b, threads); }});
}

}  // namespace smelt::ops
