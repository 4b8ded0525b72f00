// RandomNormal, RandomUniform and their Like forms on a GPU: without a seed other numbers at each run (src/kernels/generate/random.cuh).
// With one they are the same at each run, and those of the processor: made beforehand, and copied.
#include <random>

#include "expr/cuda.h"
#include "kernels/generate/random.h"
#include "ops/core/operator.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/generate/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;  // random_threads

/// The numbers that the node's seed gives.
Tensor seeded_numbers(const BoundNode& b) {
  std::vector<Tensor> inputs;
  for (const BoundTensor& t : b.inputs) inputs.push_back(Tensor::zeros(t.type, t.shape));  // of which the shape is read
  Node node = *b.node;
  node.inputs.assign(inputs.size(), static_cast<ValueId>(0));
  node.outputs.assign(1, static_cast<ValueId>(1));
  return evaluate(node, inputs)[0];
}

std::unique_ptr<Kernel> copied_numbers(const BoundNode& b, const Gpu& gpu) {
  LaunchPlan plan("random", "");
  const Tensor numbers = seeded_numbers(b);
  const auto* from = static_cast<const std::byte*>(numbers.raw());
  const BufferRef table = plan.table(std::vector<std::byte>(from, from + numbers.nbytes()));
  plan.copy(table, {BufferRef::output, 0}, numbers.nbytes());
  return launched(std::move(plan), gpu);
}

std::unique_ptr<Kernel> drawn_numbers(const BoundNode& b, const Gpu& gpu) {
  const Node& n = *b.node;
  const BoundTensor& y = b.outputs[0];
  const bool normal = n.op.starts_with("RandomNormal"), wide = y.type == DType::f64;
  LaunchPlan plan("random", "#include \"generate/random.cuh\"\n");
  static std::random_device seed;
  const uint64_t high = seed(), low = seed();
  const BufferRef state = plan.table(std::vector<uint64_t>{0, high << 32 | low});
  const int64_t count = elements(y.shape), each = wide ? 2 : 4;
  const kernels::RandomArgs<void> a{.y = nullptr,
                                    .state = nullptr,
                                    .first = n.get_float(normal ? "mean" : "low", 0),
                                    .second = n.get_float(normal ? "scale" : "high", 1),
                                    .count = static_cast<uint32_t>(count),
                                    .padding = 0};
  const std::string arguments = fmt::format("RandomArgs<{}>", expr::cuda_type(y.type));
  const std::vector<TensorMember> tensors{{a.y, {BufferRef::output, 0}}, {a.state, state}};
  if (count > 0) {
    plan.launch({"draw", std::to_string(threads), arguments, fmt::format("draw<{}, {}>", normal, wide ? "double" : "float")},
                blocks_of((count + each - 1) / each, threads))
        .args(a, tensors);
    plan.launch({"count", "1", arguments, "count_run"}, blocks_of(1, 1)).args(a, tensors);
  }
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_random_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  if (!n.op.starts_with("RandomNormal") && !n.op.starts_with("RandomUniform"))
    return offer.refuse("cuda", Reason::unsupported, "{}, whose numbers decide what is chosen", n.op);
  const BoundTensor& y = b.outputs[0];
  if (y.type != DType::f32 && y.type != DType::f64 && y.type != DType::f16 && y.type != DType::bf16)
    return offer.refuse("cuda", Reason::wrong_type, "results of {}", name(y.type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  const bool seeded = n.has("seed");
  const int64_t most = seeded ? int64_t{1} << 26 : int64_t{1} << 31;  // kept on the device; counted
  if (elements(y.shape) >= most)
    return offer.refuse("cuda", Reason::too_large, "{} numbers, expected less than {}", elements(y.shape), most);
  const double estimate = gpu_estimate_us(*machine.gpu, 2.0 * static_cast<double>(storage_bytes(y)));
  offer.candidates.push_back({"cuda", seeded ? "seeded" : "philox", estimate, [b, node = n, seeded, gpu = machine.gpu] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return seeded ? copied_numbers(bound, *gpu) : drawn_numbers(bound, *gpu);
                              }});
}

}  // namespace smelt::ops
