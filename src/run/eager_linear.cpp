#include "run/eager_linear.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "ops/cpu/parallel.h"
#include "run/eager.h"
#include "tune/product_text.h"

namespace smelt::run {
namespace {

/// All that a kernel is chosen for: epilogue, the weights' order, and each tensor's type, extents and alignment.
using Problem = std::tuple<std::string, bool, std::vector<int64_t>>;
using Kernels = std::map<Problem, std::shared_ptr<EagerKernel>>;

struct Device {
  Platform platform;
  std::mutex mutex;  // one problem is tuned at a time
  Kernels chosen;
};

Device& device_for(int gpu, bool measures) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, std::unique_ptr<Device>> devices;
  std::lock_guard lock(mutex);
  auto& d = devices[{gpu, measures}];
  if (!d) {
    auto made = std::make_unique<Device>();
    made->platform = eager_platform(gpu, measures ? Options().tuning_level : 0);
    d = std::move(made);
  }
  return *d;
}

void check(const Tensor& x, int gpu, const Tensor& t, const Shape& expected, const char* what) {
  if (!t.valid()) return;
  if (t.shape() != expected)
    fail_usage("{} has shape {}, expected {} beside x of {}", what, to_string(t.shape()), to_string(expected),
               to_string(x.shape()));
  if (t.type() != x.type()) fail_usage("{} is {}, x is {}: expected the same", what, name(t.type()), name(x.type()));
  if (gpu_of(t) != gpu) fail_usage("{} does not lie where x does: all in the host's memory, or all on one GPU", what);
}

expr::Program program_of(const EagerLinear& how, DType type, bool bias, bool gate, bool residual) {
  expr::Program p;
  expr::Ref value = p.input(DType::f32);
  std::vector<expr::Ref> operands;
  for (bool there : {bias, gate, residual}) operands.push_back(there ? p.input(type) : -1);
  const auto operand = [&](size_t i) { return p.cast(operands[i], DType::f32); };
  if (bias) value = p.call(expr::Fn::add, value, operand(0));
  if (!how.epilogue.empty()) value = p.call(tune::epilogue_function(how.epilogue), value);
  if (gate) value = p.call(expr::Fn::mul, value, operand(1));
  if (residual) value = p.call(expr::Fn::add, value, operand(2));
  p.output(p.cast(value, type));
  return p;
}

std::shared_ptr<EagerKernel> choose(Device& d, const EagerLinear& how, const std::vector<Tensor>& in, const Tensor& y,
                                    const Tensor& constant, ops::WeightStore* store) {
  auto made = std::make_shared<EagerKernel>();
  Node& node = made->node;
  node.name = "linear";
  node.domain = smelt_domain;
  node.op = "MatMul";
  if (how.by_columns) node.attrs["transB"] = int64_t{1};
  node.program = program_of(how, y.type(), in[2].valid(), in[3].valid(), in[4].valid());
  ops::BoundNode b;
  for (const Tensor& t : in) {
    if (!t.valid()) continue;
    node.inputs.push_back(ValueId{static_cast<int32_t>(node.inputs.size())});
    b.inputs.push_back(bound_eagerly(t));
  }
  if (constant.valid()) b.inputs[1].constant = constant;
  node.outputs = {ValueId{static_cast<int32_t>(node.inputs.size())}};
  b.outputs = {bound_eagerly(y)};
  b.node = &node;
  b.weights = store;
  tune::Tuner& tuner = d.platform.context->tuner;
  const ops::Offer offer = ops::offer(b, tuner.machine());
  made->kernel = offer.candidates[tuner.choose(b, offer).candidate].prepare();
  return made;
}

}  // namespace

struct LinearWeights::State {
  Tensor constant;
  ops::WeightStore store;
  std::map<int, Kernels> chosen;  // by GPU
};

LinearWeights::LinearWeights(Tensor weights) : state_(std::make_unique<State>()) { state_->constant = std::move(weights); }
LinearWeights::~LinearWeights() = default;

void eager_linear(const EagerLinear& how, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& gate,
                  const Tensor& residual, Tensor& y, LinearWeights* packed, void* stream) {
  if (x.shape().empty()) fail_usage("x is a scalar, expected at least one axis");
  if (x.type() != DType::f32 && x.type() != DType::f16 && x.type() != DType::bf16)
    fail_usage("x is {}, expected f32, f16 or bf16", name(x.type()));
  if (w.shape().size() != 2) fail_usage("w has shape {}, expected a matrix", to_string(w.shape()));
  if (!how.epilogue.empty()) tune::epilogue_function(how.epilogue);  // refuses what it does not know
  const int gpu = gpu_of(x);
  const int64_t k = x.shape().back(), n = w.shape()[how.by_columns ? 0 : 1], m = k == 0 ? 0 : x.size() / k;
  Shape result = x.shape();
  result.back() = n;
  check(x, gpu, w, how.by_columns ? Shape{n, k} : Shape{k, n}, "w");
  check(x, gpu, bias, {n}, "bias");
  check(x, gpu, gate, result, "the gate");
  check(x, gpu, residual, result, "the residual");
  check(x, gpu, y, result, "y");
  if (k == 0) fail_usage("x has shape {}: nothing to sum over", to_string(x.shape()));
  if (y.size() == 0) return;
  const auto as_matrix = [m](const Tensor& t, int64_t columns) { return t.valid() ? t.reshaped({m, columns}) : t; };
  const std::vector<Tensor> in{as_matrix(x, k), w, bias, as_matrix(gate, n), as_matrix(residual, n)};
  std::vector<Tensor> out{as_matrix(y, n)};
  Problem problem{how.epilogue, how.by_columns, {}};
  for (const Tensor& t : in) add_to_key(std::get<2>(problem), t);
  add_to_key(std::get<2>(problem), out[0]);
  Device& d = device_for(gpu, how.measures);
  Backend& backend = *d.platform.backend;
  const ops::Threads threads(d.platform.context->tuner.machine().threads);
  std::shared_ptr<EagerKernel> chosen;
  {
    std::lock_guard lock(d.mutex);
    Kernels& kernels = packed ? packed->state_->chosen[2 * gpu + how.measures] : d.chosen;
    if (const auto at = kernels.find(problem); at != kernels.end()) chosen = at->second;
    if (!chosen) {
      if (backend.is_capturing(stream))
        fail_usage("a linear layer of {}: no kernel can be chosen while the stream is being captured; call it once before",
                   to_string(x.shape()));
      if (kernels.size() >= most_eager_kernels) kernels.clear();
      chosen = kernels[problem] = packed ? choose(d, how, in, out[0], packed->state_->constant, &packed->state_->store)
                                         : choose(d, how, in, out[0], Tensor(), nullptr);
    }
  }
  const std::vector<Tensor> given = [&] {
    std::vector<Tensor> there;
    std::ranges::copy_if(in, std::back_inserter(there), &Tensor::valid);
    return there;
  }();
  run_eagerly(*chosen, given, out, backend, stream, "a linear layer's workspace");
}

}  // namespace smelt::run
