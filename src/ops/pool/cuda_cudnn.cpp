// Poolings by cuDNN. Its engines compile for 0.15 to 0.23 s each and took 7 to 10 us for resnet50's two poolings on an H200,
// little hope beside smelt's kernels: tuning measures them at level 3 only.
#include <fmt/format.h>

#include <algorithm>

#include "ops/cuda/cudnn.h"
#include "ops/cuda/planned.h"
#include "ops/pool/cuda_pool.h"

namespace smelt::ops::pool {
namespace {

namespace cuda = device::cuda;
namespace abi = device::cuda::abi;

std::optional<Refusal> rejects(const Pooling& p, const Gpu& gpu) {
  if (auto why = dnn_missing(gpu)) return why;
  // Of bf16, engine 3 of cuDNN 9.14 writes four bytes an element, beyond the result.
  if (p.type != DType::f16 && p.type != DType::f32) return refuse(Reason::wrong_type, "elements of {}", name(p.type));
  if (p.x.shape.size() != 4)
    return refuse(Reason::wrong_rank, "{} spatial axes, it is asked for 2", static_cast<int64_t>(p.x.shape.size()) - 2);
  if (p.indexed) return refuse(Reason::unsupported, "indices");
  if (!p.channels_last) return refuse(Reason::wrong_layout, "an image that is not channels-last");
  if (elements(p.x.shape) == 0 || elements(p.y.shape) == 0) return refuse(Reason::wrong_shape, "an empty image");
  for (const BoundTensor* t : {&p.x, &p.y})
    if (t->alignment < 16) return refuse(Reason::wrong_layout, "a tensor aligned to {} bytes, expected 16", t->alignment);
  const Window& w = p.window;
  for (size_t a = 1; a < 3; ++a) {
    if (w.dilation[a] != 1) return refuse(Reason::wrong_shape, "windows dilated by {}", w.dilation[a]);
    if (p.y.shape[a + 1] != (p.x.shape[a + 1] + w.pad_begin[a] + w.pad_end[a] - w.kernel[a]) / w.stride[a] + 1)
      return refuse(Reason::wrong_shape, "a window beyond the padding");
  }
  return std::nullopt;
}

void describe(const Pooling& p, cuda::DnnGraph& g) {
  const auto [x_shape, x_strides] = dnn_image(p.x, 4);
  const auto [y_shape, y_strides] = dnn_image(p.y, 4);
  const size_t x = g.tensor(p.type, x_shape, x_strides, 16), y = g.tensor(p.type, y_shape, y_strides, 16);
  const auto two = [](const Shape& axes) { return Shape(axes.begin() + 1, axes.end()); };
  const Window& w = p.window;
  g.pool(x, y,
         p.kind == "max"    ? abi::dnn_largest
         : p.kind == "mean" ? abi::dnn_mean_with_padding
                            : abi::dnn_mean_inside,
         two(w.kernel), two(w.stride), two(w.pad_begin), two(w.pad_end));
}

class DnnPooling final : public Kernel {
 public:
  DnnPooling(DnnProblem& problem, size_t engine) : plan_(problem.plan(engine)) {}
  int64_t workspace() const override { return plan_->workspace(); }
  void run(const Buffers& b) override {
    if (auto* planned = PlannedLaunches::current()) return planned->add_other("cuDNN");
    const void* const pointers[] = {b.inputs[0], b.outputs[0]};
    plan_->run(pointers, b.workspace, static_cast<abi::Stream>(b.stream));
  }

 private:
  std::shared_ptr<cuda::DnnPlan> plan_;
};

}  // namespace

void offer_cudnn(const Pooling& p, const Gpu& gpu, double estimate, Offer& offer) {
  if (const auto why = rejects(p, gpu)) return offer.refuse("cudnn", *why);
  const Key key = Key("pool ").option("", offer.problem).aligned(p.x).aligned(p.y);
  const auto problem = DnnProblem::find(gpu, key, "pooling", offer, [&](cuda::DnnGraph& g) { describe(p, g); });
  if (!problem) return;
  constexpr size_t most_candidates = 2;
  for (size_t i = 0; i < std::min(most_candidates, problem->engines().size()); ++i)
    offer.candidates.push_back({"cudnn", problem->engines()[i].name, estimate * (2 + 0.05 * static_cast<double>(i)),
                                [problem, i] { return std::make_unique<DnnPooling>(*problem, i); }, true});
}

}  // namespace smelt::ops::pool
