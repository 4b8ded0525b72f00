// LabelEncoder and OneHotEncoder of numbers on the processor: their tables are made once, elements are looked up by threads.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/ml/label_table.h"
#include "ops/ml/offer.h"

namespace smelt::ops {
namespace {

/// f(pointer) to the elements, of a type that these kernels read.
template <class F> void with_elements(DType type, const void* x, const F& f) {
  switch (type) {
    case DType::f32: return f(static_cast<const float*>(x));
    case DType::f64: return f(static_cast<const double*>(x));
    case DType::i32: return f(static_cast<const int32_t*>(x));
    default: return f(static_cast<const int64_t*>(x));
  }
}

bool is_read(DType type) { return type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64; }

/// What a table is asked by.
template <class X> using Number = std::conditional_t<std::is_floating_point_v<X>, double, int64_t>;

class LabelEncoderKernel final : public Kernel {
 public:
  LabelEncoderKernel(const BoundNode& b, int threads)
      : type_(b.inputs[0].type),
        count_(elements(b.inputs[0].shape)),
        table_(label_column(*b.node, "keys", type_)),
        values_(label_column(*b.node, "values", type_)),
        missing_(label_otherwise(*b.node, values_.type()).cast(values_.type())),
        threads_(useful_threads(threads, 4 * count_)) {}

  void run(const Buffers& b) override {
    with_bytes(bytes(values_.type(), 1), [&]<class T>(T missing) {
      std::memcpy(&missing, missing_.raw(), sizeof missing);
      const auto* values = static_cast<const T*>(values_.raw());
      const std::vector<int64_t>& rows = table_.small_rows();
      std::vector<T> small(rows.size(), missing);
      for (size_t i = 0; i < rows.size(); ++i)
        if (rows[i] >= 0) small[i] = values[rows[i]];
      auto* y = static_cast<T*>(b.outputs[0]);
      with_elements(type_, b.inputs[0], [&](const auto* x) {
        parallel(threads_, count_, 64, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) y[i] = find(x[i], small, values, missing);
        });
      });
    });
  }

 private:
  template <class X, class T> T find(X x, const std::vector<T>& small, const T* values, T missing) const {
    if (x >= X{} && x < static_cast<X>(small.size()))
      if (const auto at = static_cast<size_t>(x); static_cast<X>(at) == x) return small[at];
    const int64_t row = table_.row(static_cast<Number<X>>(x));
    return row < 0 ? missing : values[row];
  }

  DType type_;
  int64_t count_;
  LabelTable table_;
  Tensor values_, missing_;
  int threads_;
};

class OneHotEncoderKernel final : public Kernel {
 public:
  OneHotEncoderKernel(const BoundNode& b, const Tensor& categories, int threads)
      : type_(b.inputs[0].type),
        count_(elements(b.inputs[0].shape)),
        width_(categories.size()),
        zeros_(b.node->get_int("zeros", 1) != 0),
        table_(categories),
        threads_(useful_threads(threads, count_ * (8 + 4 * width_))) {}

  void run(const Buffers& b) override {
    auto* y = static_cast<float*>(b.outputs[0]);
    std::atomic<int64_t> unknown = -1;
    with_elements(type_, b.inputs[0], [&](const auto* x) {
      parallel(threads_, count_, 16, [&](int64_t begin, int64_t end, int) {
        std::fill(y + begin * width_, y + end * width_, 0.0f);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t row = row_of(x[i]);
          if (row >= 0)
            y[i * width_ + row] = 1;
          else
            unknown = i;
        }
      });
    });
    if (unknown >= 0 && !zeros_) fail("element {} is in no category (attribute zeros is 0)", unknown.load());
  }

 private:
  template <class X> int64_t row_of(X x) const {
    if constexpr (std::is_floating_point_v<X>)
      return table_.row(std::isnan(x) ? 0.0 : static_cast<double>(truncated(static_cast<double>(x))));
    else
      return table_.row(int64_t{x});
  }

  DType type_;
  int64_t count_, width_;
  bool zeros_;
  LabelTable table_;
  int threads_;
};

/// Whole numbers that doubles tell apart, each of them once.
bool are_plain(std::vector<int64_t> v) {
  constexpr int64_t most = int64_t{1} << 53;
  std::ranges::sort(v);
  return std::ranges::adjacent_find(v) == v.end() && (v.empty() || (v.front() > -most && v.back() < most));
}

}  // namespace

void offer_label_encoder_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type, result = b.outputs[0].type;
  if (!is_read(type)) return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (!StridedCopy::can_move(element_bytes(result)))
    return offer.refuse("cpu", Reason::wrong_type, "results of {}", name(result));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const double estimate = 2 + static_cast<double>(elements(b.inputs[0].shape)) / 500 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<LabelEncoderKernel>(bound, threads);
                              }});
}

void offer_one_hot_encoder_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!is_read(b.inputs[0].type)) return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(b.inputs[0].type));
  const std::vector<int64_t> categories = b.node->get_ints("cats_int64s");
  if (categories.empty() || !are_plain(categories))
    return offer.refuse("cpu", Reason::wrong_attribute, "categories that are not whole numbers, each once");
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const double estimate = 2 + static_cast<double>(elements(b.outputs[0].shape)) / 2000 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, categories, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                const Tensor of = Tensor::of<int64_t>({static_cast<int64_t>(categories.size())}, categories);
                                return std::make_unique<OneHotEncoderKernel>(bound, of, threads);
                              }});
}

}  // namespace smelt::ops
