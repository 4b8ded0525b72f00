// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss on a GPU (src/kernels/softmax/loss.cuh).
#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/softmax/offer.h"

namespace smelt::ops {

void offer_loss_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type, labels = b.inputs[1].type;
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
    return offer.refuse("cuda", Reason::wrong_type, "its type is {}", name(type));
  if (labels != DType::i32 && labels != DType::i64) return offer.refuse("cuda", Reason::wrong_type, "labels of {}", name(labels));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  const AxisView v = around_axis(b.inputs[0].shape, 1);
  const int64_t samples = v.outer * v.inner;
  if (samples >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} samples; it counts to 2^31", samples);
  const bool softmax = b.node->op == "SoftmaxCrossEntropyLoss";
  const bool weights = b.inputs.size() > 2 && b.inputs[2].type != DType::undefined;
  const bool logarithms = b.outputs.size() > 1 && b.outputs[1].type != DType::undefined;
  const std::string reduction = b.node->get_string("reduction", "mean");
  const bool ignores = b.node->has("ignore_index");
  const int64_t ignored = b.node->get_int("ignore_index", 0);
  const std::string of_samples = entry_of_text(
      "loss_of_samples", "loss_threads",
      fmt::format("const {0}* x, const {1}* labels, const {0}* weights, {0}* logarithms, {0}* each, float* loss, float* weight, "
                  "u32 samples, i64 classes, i64 inner, bool ignores, i64 ignored",
                  expr::cuda_type(type), expr::cuda_type(labels)),
      fmt::format("losses<{}>(x, labels, weights, logarithms, each, loss, weight, samples, classes, inner, ignores, ignored);",
                  softmax));
  const std::string of_all =
      entry_of_text("loss_of_all", "loss_threads",
                    fmt::format("const float* loss, const float* weight, {}* y, u32 samples, bool mean", expr::cuda_type(type)),
                    "add_losses(loss, weight, y, samples, mean);");
  const std::string source = "#include \"softmax/loss.cuh\"\n" + of_samples + of_all;
  const double moved = static_cast<double>(storage_bytes(b.inputs[0])) * (softmax ? 2 : 0.1);
  offer.candidates.push_back({"cuda", "", gpu_estimate_us(*machine.gpu, moved) + 2, [=, gpu = machine.gpu] {
                                constexpr unsigned block = 256;
                                LaunchPlan plan("loss", source);
                                const BufferRef loss = plan.reserve(samples * 4), weight = plan.reserve(samples * 4);
                                const auto count = static_cast<uint32_t>(samples);
                                const uint64_t null = 0;
                                if (samples > 0) {
                                  Launch& l = plan.launch("loss_of_samples", blocks_of(samples, block));
                                  l.input(0).input(1);
                                  weights ? l.input(2) : l.value(null);
                                  logarithms ? l.output(1) : l.value(null);
                                  reduction == "none" ? l.output(0) : l.value(null);
                                  l.at(loss).at(weight).value(count).value(v.extent).value(v.inner).value(ignores).value(ignored);
                                }
                                if (reduction != "none")
                                  plan.launch("loss_of_all", {.grid = {1, 1, 1}, .block = {block, 1, 1}})
                                      .at(loss)
                                      .at(weight)
                                      .output(0)
                                      .value(count)
                                      .value(reduction == "mean");
                                return launched(std::move(plan), *gpu);
                              }});
}

}  // namespace smelt::ops
