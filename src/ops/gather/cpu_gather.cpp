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
    parallel(threads_, outer_ * count_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t o = r / count_, i = r % count_;
        const int64_t given = wide_ ? static_cast<const int64_t*>(b.inputs[1])[i] : static_cast<const int32_t*>(b.inputs[1])[i];
        if (given < -extent_ || given >= extent_) {
          wrong.store(given);
          continue;
        }
        const int64_t index = given < 0 ? given + extent_ : given;
        std::memcpy(static_cast<char*>(b.outputs[0]) + r * row_bytes_,
                    static_cast<const char*>(b.inputs[0]) + (o * extent_ + index) * row_bytes_, static_cast<size_t>(row_bytes_));
      }
    });
    if (wrong != in_range) fail("index {} is outside [{}, {})", wrong.load(), -extent_, extent_);
  }

 private:
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
