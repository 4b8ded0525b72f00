// Extents of zero: what a GPU's tactics offer for them prepares, whatever else a model has in one.
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "ops/core/data_dependent.h"
#include "ops/core/operator.h"
#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops {
namespace {

std::vector<TensorDesc> descriptions(const Form& f) {
  std::vector<TensorDesc> list;
  for (const BoundTensor& t : f.bound.inputs)
    list.push_back({t.type, t.shape, t.type != DType::undefined, t.constant.valid() ? &t.constant : nullptr});
  return list;
}

/// The form with the outputs that its rule gives; false where the node cannot have these inputs.
bool bind_outputs(Form& f) {
  const std::vector<TensorDesc> inputs = descriptions(f);
  if (is_bound_at_most(f.bound)) {
    const std::vector<AtMost> most = outputs_at_most(f.node, inputs);
    if (most.empty()) return false;
    f.bound.outputs = bound_at_most(most);
    return true;
  }
  std::vector<TensorDesc> outputs(f.node.outputs.size());
  try {
    infer(f.node, inputs, outputs);
  } catch (const Error&) {
    return false;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].shape_known) return false;
    f.bound.outputs[o].shape = outputs[o].shape;
  }
  return true;
}

/// Why a node may have no kernel: it is an error by definition, or runs as the nodes that it was made of (ops/core/one_or_apart.h).
bool may_refuse(const std::string& error) {
  constexpr std::string_view reasons[] = {"nothing to gather from", "indices of no axes", "the rows have 0",
                                          "0 computed zero points", "ai.smelt.CachedAttention"};
  return std::ranges::any_of(reasons, [&](std::string_view r) { return error.find(r) != error.npos; });
}

TEST(CudaTactics, prepare_for_extents_of_zero) {
  const auto gpu = std::make_shared<Gpu>(*gpu_of_arch("sm_90a"));
  gpu->cubins = std::make_shared<device::cuda::CubinStore>(
      std::filesystem::path(), [](const device::cuda::Source& source, std::string_view) { return uncompiled(source); });
  Machine machine;
  machine.gpu = gpu;
  std::set<std::string> prepared;
  for (const Form& form : all_forms()) {
    std::set<int64_t> extents;
    for (const BoundTensor& t : form.bound.inputs)
      if (!t.constant.valid()) extents.insert(t.shape.begin(), t.shape.end());
    for (const int64_t e : extents) {
      Form f = form;
      for (BoundTensor& t : f.bound.inputs)
        if (!t.constant.valid()) std::ranges::replace(t.shape, e, 0);
      f.bound.node = &f.node;
      if (!bind_outputs(f)) continue;
      SCOPED_TRACE(f.node.op + " with " + std::to_string(e) + " as 0: " + to_string(f.bound.inputs[0].shape));
      try {
        const Offer o = offer(f.bound, machine);
        for (const Candidate& c : o.candidates) {
          c.prepare();
          prepared.insert(f.node.op);
        }
      } catch (const Error& error) {
        if (!may_refuse(error.what())) ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(prepared.size(), 40u);
}

}  // namespace
}  // namespace smelt::ops
