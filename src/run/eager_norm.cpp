#include "run/eager_norm.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "device/cuda/device.h"
#include "ops/cpu/parallel.h"
#include "run/platform.h"

namespace smelt::run {
namespace {

constexpr size_t max_kept = 1024;  // kernels of a device; beyond these, all are chosen anew (their timings are in the cache)

struct Chosen {
  Node node;
  std::unique_ptr<ops::Kernel> kernel;
  std::mutex mutex;              // a kernel is run by one thread at a time
  std::vector<Tensor> captured;  // workspaces of launches that were captured: whoever did so may launch them at any time
};

/// All that a kernel is chosen for: kind, epsilon, and each tensor's type, extents and alignment, in the node's order.
using Problem = std::tuple<bool, float, std::vector<int64_t>>;

/// The processor or a GPU, and the kernels chosen for it.
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
    Options options;
    if (gpu >= 0) {
      options.device = std::to_string(gpu);
      options.memory_limit = device::cuda::Device::open(gpu)->limit();  // stays as a session set it
    }
    made->platform = platform_for(options, false);
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

int64_t alignment_of(const Tensor& t) {
  const auto address = reinterpret_cast<uintptr_t>(t.raw());
  return address % 16 == 0 ? 16 : static_cast<int64_t>(address & (~address + 1));
}

ops::BoundTensor bound(const Tensor& t) {
  ops::BoundTensor b;
  if (!t.valid()) return b;
  b.type = t.type();
  b.shape = t.shape();
  b.alignment = alignment_of(t);
  return b;
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
    b.inputs.push_back(bound(t));
  }
  for (const Tensor& t : out) {
    node.outputs.push_back(t.valid() ? ValueId{value++} : ValueId::none);
    b.outputs.push_back(bound(t));
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
      auto& key = std::get<2>(problem);
      key.push_back(static_cast<int64_t>(t.type()));
      key.insert(key.end(), t.shape().begin(), t.shape().end());
      key.push_back(t.valid() ? -alignment_of(t) : 0);
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
      if (d.chosen.size() >= max_kept) d.chosen.clear();
      chosen = d.chosen[problem] = choose(d, how, in, out);
    }
  }
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Tensor& t : in) inputs.push_back(t.valid() ? t.raw() : nullptr);
  for (Tensor& t : out) outputs.push_back(t.raw());
  Tensor workspace;
  if (const int64_t bytes = chosen->kernel->workspace(); bytes > 0)
    workspace = backend.allocate_on(DType::u8, {bytes}, "a normalisation's workspace", stream);
  std::lock_guard lock(chosen->mutex);
  if (workspace.valid() && backend.is_capturing(stream)) chosen->captured.push_back(workspace);
  chosen->kernel->run({inputs, outputs, workspace.raw(), stream});
}

}  // namespace smelt::run
