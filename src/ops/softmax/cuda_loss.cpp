// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss on a GPU (src/kernels/softmax/loss.cuh).
#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/softmax/loss.h"
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
  const KernelEntry of_samples{"loss_of_samples", "loss_threads",
                               fmt::format("LossArgs<{}, {}>", expr::cuda_type(type), expr::cuda_type(labels)),
                               fmt::format("losses<{}>", softmax)};
  const KernelEntry of_all{"loss_of_all", "loss_threads", fmt::format("LossSumArgs<{}>", expr::cuda_type(type)), "add_losses"};
  const double moved = static_cast<double>(storage_bytes(b.inputs[0])) * (softmax ? 2 : 0.1);
  offer.candidates.push_back(
      {"cuda", "", gpu_estimate_us(*machine.gpu, moved) + 2, [=, gpu = machine.gpu] {
         constexpr unsigned block = 256;
         LaunchPlan plan("loss", "#include \"softmax/loss.cuh\"\n");
         const BufferRef loss = plan.reserve(samples * 4), weight = plan.reserve(samples * 4);
         const auto count = static_cast<uint32_t>(samples);
         const auto where = [](bool is_there, const BufferRef& buffer) {
           return is_there ? std::optional(buffer) : std::nullopt;
         };
         if (samples > 0) {
           const kernels::LossArgs<void, void> a{
               .classes = v.extent, .inner = v.inner, .ignored = ignored, .samples = count, .ignores = ignores};
           plan.launch(of_samples, blocks_of(samples, block))
               .args(a, {{a.x, {BufferRef::input, 0}},
                         {a.labels, {BufferRef::input, 1}},
                         {a.weights, where(weights, {BufferRef::input, 2})},
                         {a.logarithms, where(logarithms, {BufferRef::output, 1})},
                         {a.each, where(reduction == "none", {BufferRef::output, 0})},
                         {a.loss, loss},
                         {a.weight, weight}});
         }
         if (reduction != "none") {
           const kernels::LossSumArgs<void> a{.samples = count, .mean = reduction == "mean"};
           plan.launch(of_all, {.grid = {1, 1, 1}, .block = {block, 1, 1}})
               .args(a, {{a.loss, loss}, {a.weight, weight}, {a.y, {BufferRef::output, 0}}});
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops
