// NonMaxSuppression on the processor: the classes of every batch side by side, each by a picker of boxes (pick_boxes.h).
#include "base/error.h"
#include "ops/core/data_dependent.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/detect/offer.h"
#include "ops/detect/pick_boxes.h"

namespace smelt::ops {
namespace {

class NmsKernel final : public Kernel {
 public:
  NmsKernel(const BoundNode& b, int threads)
      : batches_(b.inputs[1].shape[0]),
        classes_(b.inputs[1].shape[1]),
        count_(b.inputs[1].shape[2]),
        centered_(b.node->get_int("center_point_box", 0) != 0),
        threads_(useful_threads(threads, 20 * batches_ * classes_ * count_)),
        taken_(static_cast<size_t>(batches_ * classes_)),
        pickers_(static_cast<size_t>(threads_)) {
    for (size_t i = 2; i < 5; ++i) given_[i - 2] = b.has(i);
  }

  void run(const Buffers& b) override {
    const auto* numbers = static_cast<const float*>(b.inputs[0]);
    const auto* scores = static_cast<const float*>(b.inputs[1]);
    BoxRule rule{0, 0, -std::numeric_limits<double>::infinity()};
    if (given_[0]) rule.limit = static_cast<double>(*static_cast<const int64_t*>(b.inputs[2]));
    if (given_[1]) rule.threshold = *static_cast<const float*>(b.inputs[3]);
    if (given_[2]) rule.lowest = *static_cast<const float*>(b.inputs[4]);
    parallel_dynamic(threads_, batches_ * classes_, [&](int64_t pair, int thread) {
      std::vector<int64_t>& taken = taken_[static_cast<size_t>(pair)];
      taken.clear();
      const float* of_batch = numbers + pair / classes_ * count_ * 4;
      pickers_[static_cast<size_t>(thread)].pick([&](int64_t i) { return box_of(of_batch + 4 * i, centered_); },
                                                 scores + pair * count_, static_cast<uint32_t>(count_), rule, taken);
    });
    auto* y = static_cast<int64_t*>(b.outputs[0]);
    int64_t found = 0;
    for (int64_t pair = 0; pair < batches_ * classes_; ++pair) {
      for (const int64_t box : taken_[static_cast<size_t>(pair)]) {
        const int64_t row[] = {pair / classes_, pair % classes_, box};
        std::copy_n(row, 3, y + 3 * found++);
      }
    }
    *static_cast<int64_t*>(b.outputs.back()) = found;
  }

 private:
  int64_t batches_, classes_, count_;
  bool centered_;
  bool given_[3];  // limit, threshold, lowest score
  int threads_;
  std::vector<std::vector<int64_t>> taken_;  // by batch and class
  std::vector<BoxPicker> pickers_;           // by thread
};

}  // namespace

void offer_nms_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!is_bound_at_most(b))
    return offer.refuse("cpu", Reason::not_constant, "its outputs' shapes are known, its count is not asked for");
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (b.inputs[1].shape[2] > std::numeric_limits<uint32_t>::max())
    return offer.refuse("cpu", Reason::wrong_shape, "{} boxes of an image", b.inputs[1].shape[2]);
  constexpr double us_a_box = 0.012;  // finding the best, and comparing them: a guess
  const double us = 1 + us_a_box * static_cast<double>(elements(b.inputs[1].shape)) / machine.threads;
  offer.candidates.push_back({"cpu", "", us, [b, threads = machine.threads] { return std::make_unique<NmsKernel>(b, threads); }});
}

}  // namespace smelt::ops
