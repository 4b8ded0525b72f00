#include "run/eager_norm.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "ops/cpu/parallel.h"
#include "run/eager.h"

namespace smelt::run {
namespace {

/// All that a kernel is chosen for: kind, epsilon, and each tensor's type, extents and alignment, in the node's order.
using Problem = std::tuple<bool, float, std::vector<int64_t>>;

using Chosen = EagerKernel;

/// A device, and the kernels chosen for it.
struct Device {
  Platform platform;
  std::mutex mutex;  // one problem is tuned at a time
  std::map<Problem, std::shared_ptr<Chosen>> chosen;
};

Device& device_for(int gpu) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Device>> devices;
  std::lock_guard lock(mutex);
  auto& d = devices[gpu];
  if (!d) {
    auto made = std::make_unique<Device>();
    made->platform = eager_platform(gpu);
    d = std::move(made);
  }
  return *d;
}

void check(const Tensor& x, int gpu, const Tensor& t, bool as_x, const char* what) {
  if (!t.valid()) return;
  const Shape expected = as_x ? x.shape() : Shape{x.shape().back()};
  if (t.shape() != expected)
    fail_usage("{} has shape {}, expected {} beside x of {}", what, to_string(t.shape()), to_string(expected),
               to_string(x.shape()));
  if (as_x && t.type() != x.type()) fail_usage("{} is {}, x is {}: expected the same", what, name(t.type()), name(x.type()));
  if (gpu_of(t) != gpu) fail_usage("{} does not lie where x does: all in the host's memory, or all on one GPU", what);
}

std::shared_ptr<Chosen> choose(Device& d, const EagerNorm& how, const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
  auto made = std::make_shared<Chosen>();
  Node& node = made->node;
  node.name = how.centre ? "layer_norm" : "rms_norm";
  node.domain = smelt_domain;
  node.op = "Norm";
  node.attrs["kind"] = std::string(how.centre ? "layer" : "rms");
  node.attrs["epsilon"] = how.epsilon;
  ops::BoundNode b;
  int32_t value = 0;
  for (const Tensor& t : in) {
    node.inputs.push_back(t.valid() ? ValueId{value++} : ValueId::none);
    b.inputs.push_back(bound_eagerly(t));
  }
  for (const Tensor& t : out) {
    node.outputs.push_back(t.valid() ? ValueId{value++} : ValueId::none);
    b.outputs.push_back(bound_eagerly(t));
  }
  b.node = &node;
  tune::Tuner& tuner = d.platform.context->tuner;
  const ops::Offer offer = ops::offer(b, tuner.machine());
  made->kernel = offer.candidates[tuner.choose(b, offer).candidate].prepare();
  return made;
}

}  // namespace

void eager_norm(const EagerNorm& how, const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                Tensor& y, Tensor& sum, void* stream) {
  if (x.shape().empty()) fail_usage("x is a scalar, expected at least one axis");
  if (x.type() != DType::f32 && x.type() != DType::f16 && x.type() != DType::bf16)
    fail_usage("x is {}, expected f32, f16 or bf16", name(x.type()));
  const int gpu = gpu_of(x);
  check(x, gpu, residual, true, "the residual");
  check(x, gpu, weight, false, "weight");
  check(x, gpu, bias, false, "bias");
  check(x, gpu, y, true, "y");
  check(x, gpu, sum, true, "the sum");
  if (x.size() == 0) return;
  std::vector<Tensor> in{x, residual, weight, bias}, out{y};
  if (sum.valid()) out.push_back(sum);
  Problem problem{how.centre, how.epsilon, {}};
  for (const auto* tensors : {&in, &out}) {
    for (const Tensor& t : *tensors) {
      add_to_key(std::get<2>(problem), t);
    }
  }
  Device& d = device_for(gpu);
  Backend& backend = *d.platform.backend;
  const ops::Threads threads(d.platform.context->tuner.machine().threads);
  std::shared_ptr<Chosen> chosen;
  {
    std::lock_guard lock(d.mutex);
    if (const auto at = d.chosen.find(problem); at != d.chosen.end()) chosen = at->second;
    if (!chosen) {
      if (backend.is_capturing(stream))
        fail_usage("normalising {}: no kernel can be chosen while the stream is being captured; call it once before",
                   to_string(x.shape()));
      if (d.chosen.size() >= most_eager_kernels) d.chosen.clear();
      chosen = d.chosen[problem] = choose(d, how, in, out);
    }
  }
  run_eagerly(*chosen, in, out, backend, stream, "a normalisation's workspace");
}

}  // namespace smelt::run
