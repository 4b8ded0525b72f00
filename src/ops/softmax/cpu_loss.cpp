// SoftmaxCrossEntropyLoss on the processor. Of f32: logarithms of probabilities sample by sample, each loss picked out of the cache. Of
// f64: as its definition has it, LogSoftmax and the loss of that.
#include <algorithm>

#include "base/error.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/softmax/offer.h"
#include "ops/softmax/simd/softmax.h"

namespace smelt::ops {
namespace {

class LossKernel final : public Kernel {
 public:
  LossKernel(const BoundNode& b, int threads)
      : view_(around_axis(b.inputs[0].shape, 1)),
        labels_(b.inputs[1].type),
        reduction_(b.node->get_string("reduction", "mean")),
        ignores_(b.node->has("ignore_index")),
        ignored_(b.node->get_int("ignore_index", 0)),
        threads_(useful_threads(threads, samples() * view_.extent * 8)) {}

  int64_t workspace() const override { return 2 * sample_bytes() + threads_ * 2 * tile_bytes(); }

  void run(const Buffers& b) override {
    auto* losses = static_cast<double*>(b.workspace);
    double* weights = losses + sample_bytes() / 8;
    for (int64_t i = 0; i < samples(); ++i) weights[i] = weight_of(b, label(b, i));
    const int64_t tiles = (view_.inner + softmax_columns - 1) / softmax_columns;
    parallel(threads_, view_.outer * tiles, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* scratch = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + 2 * sample_bytes() + thread * 2 * tile_bytes());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % tiles * softmax_columns;
        add(b, i / tiles, first, std::min(softmax_columns, view_.inner - first), scratch, losses, weights);
      }
    });
    total(static_cast<float*>(b.outputs[0]), losses, weights);
  }

 private:
  int64_t samples() const { return view_.outer * view_.inner; }
  int64_t sample_bytes() const { return aligned(samples() * 8); }
  int64_t tile_bytes() const { return aligned(std::max(column_floats(view_.extent), view_.extent + 16) * 4); }

  int64_t label(const Buffers& b, int64_t sample) const {
    return labels_ == DType::i32 ? static_cast<const int32_t*>(b.inputs[1])[sample]
                                 : static_cast<const int64_t*>(b.inputs[1])[sample];
  }
  /// 0 for an ignored label.
  double weight_of(const Buffers& b, int64_t label) const {
    if (ignores_ && label == ignored_) return 0;
    if (label < 0 || label >= view_.extent) fail("label {} is outside [0, {})", label, view_.extent);
    const auto* weights = b.inputs.size() > 2 ? static_cast<const float*>(b.inputs[2]) : nullptr;
    return weights ? static_cast<double>(weights[label]) : 1;
  }

  /// The samples from `first` on of one outer index: a row, or columns.
  void add(const Buffers& b, int64_t outer, int64_t first, int64_t n, float* scratch, double* losses,
           const double* weights) const {
    const SoftmaxSimd& simd = simd::best() == simd::Isa::avx2 ? avx2::softmax_simd() : base::softmax_simd();
    const int64_t at = outer * view_.extent * view_.inner + first;
    const float* x = static_cast<const float*>(b.inputs[0]) + at;
    const bool wanted = b.outputs.size() > 1 && b.outputs[1];
    float* y = wanted ? static_cast<float*>(b.outputs[1]) + at : scratch + tile_bytes() / 4;
    const int64_t step = wanted ? view_.inner : n;
    if (view_.inner == 1)
      simd.rows(simd::FloatKind::f32, x, 0, y, 0, 1, view_.extent, scratch, true);
    else
      simd.columns(simd::FloatKind::f32, x, view_.inner, y, step, n, view_.extent, scratch, true);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t sample = outer * view_.inner + first + i, l = label(b, sample);
      const bool counts = l >= 0 && l < view_.extent && !(ignores_ && l == ignored_);
      losses[sample] = counts ? -weights[sample] * static_cast<double>(y[l * step + i]) : 0;
    }
  }

  void total(float* y, const double* losses, const double* weights) const {
    double loss = 0, weight = 0;
    for (int64_t i = 0; i < samples(); ++i) {
      loss += losses[i], weight += weights[i];
      if (reduction_ == "none") y[i] = static_cast<float>(losses[i]);
    }
    if (reduction_ == "sum") y[0] = static_cast<float>(loss);
    if (reduction_ == "mean") y[0] = static_cast<float>(loss / weight);
  }

  AxisView view_;
  DType labels_;
  std::string reduction_;
  bool ignores_;
  int64_t ignored_;
  int threads_;
};

/// The two nodes that the loss is defined by.
struct Parts {
  Node log_softmax, nll_loss;
  BoundNode log, loss;
  explicit Parts(const BoundNode& b) : nll_loss(*b.node) {
    log_softmax.op = "LogSoftmax";
    log_softmax.attrs["axis"] = int64_t{1};
    nll_loss.op = "NegativeLogLikelihoodLoss";
    const BoundTensor logs{.type = b.inputs[0].type, .shape = b.inputs[0].shape};
    log = {.node = &log_softmax, .inputs = {b.inputs[0]}, .outputs = {logs}};
    loss = {.node = &nll_loss, .inputs = b.inputs, .outputs = {b.outputs[0]}};
    loss.inputs[0] = logs;
  }
};

class ComposedLoss final : public Kernel {
 public:
  ComposedLoss(std::shared_ptr<const Parts> parts, std::unique_ptr<Kernel> log, std::unique_ptr<Kernel> loss)
      : parts_(std::move(parts)), log_(std::move(log)), loss_(std::move(loss)), inputs_(parts_->loss.inputs.size()) {}

  int64_t workspace() const override { return logs_bytes() + std::max(log_->workspace(), loss_->workspace()); }
  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    void* logs = b.outputs.size() > 1 && b.outputs[1] ? b.outputs[1] : memory;
    log_->run({.inputs = b.inputs.first(1), .outputs = std::span(&logs, 1), .workspace = memory + logs_bytes()});
    std::ranges::copy(b.inputs, inputs_.begin());
    inputs_[0] = logs;
    loss_->run({.inputs = inputs_, .outputs = b.outputs.first(1), .workspace = memory + logs_bytes()});
  }

 private:
  int64_t logs_bytes() const { return aligned(storage_bytes(parts_->log.outputs[0])); }

  std::shared_ptr<const Parts> parts_;
  std::unique_ptr<Kernel> log_, loss_;
  std::vector<const void*> inputs_;
};

void offer_composed_loss(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto parts = std::make_shared<const Parts>(b);
  Offer log, loss;
  offer_softmax_rows(parts->log, machine, log);
  offer_nll_loss_cpu(parts->loss, machine, loss);
  for (const Offer* o : {&log, &loss}) {
    if (!o->candidates.empty()) continue;
    for (const RefusedTactic& r : o->refused) offer.refuse(r.tactic, r.why);
    return;
  }
  const Candidate &first = log.candidates[0], &then = loss.candidates[0];
  offer.candidates.push_back({"cpu", "composed", first.estimate_us + then.estimate_us, [parts, first, then] {
                                return std::make_unique<ComposedLoss>(parts, first.prepare(), then.prepare());
                              }});
}

}  // namespace

void offer_loss_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type, labels = b.inputs[1].type;
  if (type == DType::f64) return offer_composed_loss(b, machine, offer);
  if (type != DType::f32) return offer.refuse("cpu", Reason::wrong_type, "its type is {}; expected f32 or f64", name(type));
  if (labels != DType::i32 && labels != DType::i64) return offer.refuse("cpu", Reason::wrong_type, "labels of {}", name(labels));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const double estimate = 3 + static_cast<double>(elements(b.inputs[0].shape)) / 900 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<LossKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
