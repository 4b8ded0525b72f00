// NegativeLogLikelihoodLoss on the processor: one element of each sample, blocks of samples by threads. Sums are those of the blocks,
// whatever the number of threads.
#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/softmax/offer.h"

namespace smelt::ops {
namespace {

class NllLossKernel final : public Kernel {
 public:
  NllLossKernel(const BoundNode& b, int threads)
      : view_(around_axis(b.inputs[0].shape, 1)),
        type_(b.inputs[0].type),
        wide_labels_(b.inputs[1].type == DType::i64),
        reduction_(b.node->get_string("reduction", "mean")),
        ignores_(b.node->has("ignore_index")),
        ignored_(b.node->get_int("ignore_index", 0)),
        blocks_((samples() + block - 1) / block),
        threads_(useful_threads(threads, 16 * samples())) {}

  int64_t workspace() const override { return blocks_ * static_cast<int64_t>(sizeof(Sums)); }

  void run(const Buffers& b) override {
    if (type_ == DType::f64) return add_all<double>(b);
    add_all<float>(b);
  }

 private:
  static constexpr int64_t block = 512;  // samples
  struct Sums {
    double losses = 0, weights = 0;
  };
  int64_t samples() const { return view_.outer * view_.inner; }

  int64_t label(const Buffers& b, int64_t i) const {
    return wide_labels_ ? static_cast<const int64_t*>(b.inputs[1])[i] : static_cast<const int32_t*>(b.inputs[1])[i];
  }

  template <class T> void add_all(const Buffers& b) const {
    auto* sums = static_cast<Sums*>(b.workspace);
    std::atomic<int64_t> wrong = -1;  // a sample whose label is none
    parallel(threads_, blocks_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sums[i] = add<T>(b, i * block, std::min(samples(), (i + 1) * block), wrong);
    });
    if (wrong >= 0) fail("label {} is outside [0, {})", label(b, wrong), view_.extent);
    Sums all;
    for (int64_t i = 0; i < blocks_; ++i) all.losses += sums[i].losses, all.weights += sums[i].weights;
    T* y = static_cast<T*>(b.outputs[0]);
    if (reduction_ == "sum") *y = static_cast<T>(all.losses);
    if (reduction_ == "mean") *y = static_cast<T>(all.losses / all.weights);
  }

  template <class T> Sums add(const Buffers& b, int64_t begin, int64_t end, std::atomic<int64_t>& wrong) const {
    const auto* x = static_cast<const T*>(b.inputs[0]);
    const auto* weights = b.inputs.size() > 2 ? static_cast<const T*>(b.inputs[2]) : nullptr;
    T* each = reduction_ == "none" ? static_cast<T*>(b.outputs[0]) : nullptr;
    Sums sums;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t l = label(b, i);
      double loss = 0;
      if (!ignores_ || l != ignored_) {
        if (l < 0 || l >= view_.extent) {
          wrong = i;
          return sums;
        }
        const double weight = weights ? static_cast<double>(weights[l]) : 1;
        loss = -weight * static_cast<double>(x[(i / view_.inner * view_.extent + l) * view_.inner + i % view_.inner]);
        sums.weights += weight;
      }
      sums.losses += loss;
      if (each) each[i] = static_cast<T>(loss);
    }
    return sums;
  }

  AxisView view_;
  DType type_;
  bool wide_labels_;
  std::string reduction_;
  bool ignores_;
  int64_t ignored_, blocks_;
  int threads_;
};

}  // namespace

void offer_nll_loss_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type, labels = b.inputs[1].type;
  if (type != DType::f32 && type != DType::f64)
    return offer.refuse("cpu", Reason::wrong_type, "its type is {}; expected f32 or f64", name(type));
  if (b.has(2) && b.inputs[2].type != type)
    return offer.refuse("cpu", Reason::wrong_type, "weights of {}", name(b.inputs[2].type));
  if (labels != DType::i32 && labels != DType::i64) return offer.refuse("cpu", Reason::wrong_type, "labels of {}", name(labels));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const double estimate = 2 + static_cast<double>(elements(b.inputs[1].shape)) / 200 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<NllLossKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
