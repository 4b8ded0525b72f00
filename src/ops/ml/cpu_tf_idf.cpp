// TfIdfVectorizer of numbers on the processor: its n-grams become a tree once, rows go by threads.
#include <algorithm>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/ml/ngrams.h"

namespace smelt::ops {
namespace {

class TfIdfKernel final : public Kernel {
 public:
  TfIdfKernel(const BoundNode& b, int threads)
      : wide_(b.inputs[0].type == DType::i64),
        rows_(b.inputs[0].shape.size() == 2 ? b.inputs[0].shape[0] : 1),
        length_(elements(b.inputs[0].shape) / std::max<int64_t>(rows_, 1)),
        width_(b.outputs[0].shape.back()),
        numbers_(b.node->get_ints("pool_int64s")),
        ngrams_(*b.node, numbers_.of_pool()),
        threads_(useful_threads(threads, rows_ * (width_ + 4 * length_ * (1 + b.node->get_int("max_skip_count", 0))))) {}

  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    parallel(threads_, rows_, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* tokens = reinterpret_cast<int32_t*>(static_cast<char*>(b.workspace) + thread * thread_bytes());
      auto* counts = tokens + aligned(length_ * 4) / 4;
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t i = r * length_; i < (r + 1) * length_; ++i)
          tokens[i - r * length_] = numbers_.of(wide_ ? static_cast<const int64_t*>(b.inputs[0])[i]
                                                      : int64_t{static_cast<const int32_t*>(b.inputs[0])[i]});
        float* y = static_cast<float*>(b.outputs[0]) + r * width_;
        std::fill_n(y, width_, 0.0f);
        std::fill_n(counts, ngrams_.size(), 0);
        ngrams_.count({tokens, static_cast<size_t>(length_)}, counts);
        ngrams_.weigh(counts, y);
      }
    });
  }

 private:
  int64_t thread_bytes() const { return aligned(length_ * 4) + aligned(static_cast<int64_t>(ngrams_.size()) * 4); }

  bool wide_;
  int64_t rows_, length_, width_;
  TokenNumbers<int64_t> numbers_;
  Ngrams ngrams_;
  int threads_;
};

}  // namespace

void offer_tf_idf_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type;
  if (type != DType::i32 && type != DType::i64) return offer.refuse("cpu", Reason::wrong_type, "tokens of {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.outputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty result");
  const double estimate =
      1 + static_cast<double>(elements(b.inputs[0].shape) * 4 + elements(b.outputs[0].shape)) / 1e3 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<TfIdfKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
