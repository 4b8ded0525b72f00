// MaxUnpool on the processor: zeros, then every element to its index. Parts of the input whose indices lie apart, in the parts'
// order, are written by threads; indices that mix parts by one, so that the last of equal ones stands.
#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/pool/offer.h"
#include "ops/pool/unpool.h"

namespace smelt::ops::pool {
namespace {

class UnpoolKernel final : public Kernel {
 public:
  UnpoolKernel(const BoundNode& b, int threads)
      : from_(unpooled_shape(*b.node, b.inputs[0].shape)),
        to_(b.outputs[0].shape),
        step_(strides(to_)),
        size_(element_bytes(b.outputs[0].type)),
        count_(elements(b.inputs[0].shape)),
        indices_(elements(from_)),
        written_(elements(to_)),
        threads_(useful_threads(threads, size_ * written_ + 8 * count_)),
        parts_(std::clamp<int64_t>(count_ >> 12, 1, most_parts)) {}

  void run(const Buffers& b) override {
    with_bytes(size_, [&]<class T>(T) {
      const T* x = static_cast<const T*>(b.inputs[0]);
      const auto* index = static_cast<const int64_t*>(b.inputs[1]);
      T* y = static_cast<T*>(b.outputs[0]);
      std::array<Range, most_parts> of;
      if (are_apart(index, of) && from_ == to_) return fill_apart(x, index, of, y);
      parallel(threads_, written_, 64, [&](int64_t begin, int64_t end, int) { std::fill(y + begin, y + end, T{}); });
      for (int64_t i = 0; i < count_; ++i) {
        if (from_ == to_)
          y[index[i]] = x[i];
        else
          put(index[i], x[i], y);
      }
    });
  }

 private:
  static constexpr int64_t most_parts = 64;
  int64_t first(int64_t part) const { return count_ * part / parts_; }

  struct Range {
    int64_t least, most;
  };

  /// Each part writes from its least index up to the next part's.
  template <class T> void fill_apart(const T* x, const int64_t* index, const std::array<Range, most_parts>& of, T* y) const {
    parallel_dynamic(threads_, parts_, [&](int64_t p, int) {
      const auto at = static_cast<size_t>(p);
      std::fill(y + (p == 0 ? 0 : of[at].least), y + (p + 1 < parts_ ? of[at + 1].least : written_), T{});
      for (int64_t i = first(p), end = first(p + 1); i < end; ++i) y[index[i]] = x[i];
    });
  }

  /// Whether each part's indices come after those of the part before it. Throws Error for an index that is none.
  bool are_apart(const int64_t* index, std::array<Range, most_parts>& of) const {
    parallel_dynamic(threads_, parts_, [&](int64_t p, int) {
      Range r{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
      for (int64_t i = first(p), end = first(p + 1); i < end; ++i) {
        r.least = std::min(r.least, index[i]);
        r.most = std::max(r.most, index[i]);
      }
      of[static_cast<size_t>(p)] = r;
    });
    bool apart = true;
    int64_t before = -1;
    for (size_t p = 0; p < static_cast<size_t>(parts_); ++p) {
      for (const int64_t i : {of[p].least, of[p].most})
        if (i < 0 || i >= indices_) fail("index {} is outside the unpooled {} elements", i, indices_);
      apart = apart && of[p].least > before;
      before = of[p].most;
    }
    return apart;
  }

  /// An output_shape that is larger keeps the unpooled part in its first corner, a smaller one what is inside.
  template <class T> void put(int64_t index, T x, T* y) const {
    int64_t offset = 0;
    for (size_t d = from_.size(); d-- > 0;) {
      const int64_t at = index % from_[d];
      if (at >= to_[d]) return;
      offset += at * step_[d];
      index /= from_[d];
    }
    y[offset] = x;
  }

  Shape from_, to_, step_;
  int64_t size_, count_, indices_, written_;
  int threads_;
  int64_t parts_;
};

}  // namespace

void offer_unpool(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!StridedCopy::can_move(element_bytes(b.outputs[0].type)))
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(b.outputs[0].type));
  if (b.inputs[1].type != DType::i64) return offer.refuse("cpu", Reason::wrong_type, "indices of {}", name(b.inputs[1].type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.inputs[1].shape) != elements(b.inputs[0].shape))
    return offer.refuse("cpu", Reason::wrong_shape, "{} indices of {} elements", elements(b.inputs[1].shape),
                        elements(b.inputs[0].shape));
  const double values = static_cast<double>(elements(b.inputs[0].shape)) + static_cast<double>(elements(b.outputs[0].shape)) / 8;
  offer.candidates.push_back({"cpu", "", 1 + values / 500 / machine.threads, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<UnpoolKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops::pool
