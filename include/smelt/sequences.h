// Outputs that a model declares as sequences of tensors. A plan has their tensors as outputs of its own: of a sequence `boxes` whose
// length the model fixes `boxes_0`, `boxes_1` and so on; of one that is as long as a run finds `boxes_stacked`, all of them along a new
// first axis.
//
//   smelt::Session session("model.onnx");
//   const auto results = session.run(feeds, {"boxes"});
//   std::vector<smelt::Tensor> boxes = smelt::sequence(*session.plan(), "boxes", results);
#pragma once

#include <map>
#include <string>
#include <vector>

#include "smelt/export.h"
#include "smelt/tensor.h"

namespace smelt {

class Plan;

struct SequenceOutput {
  std::string name;
  DType type = DType::undefined;  // of its tensors
  size_t first = 0, count = 0;    // the plan's outputs that hold them: [first, first + count)
  bool stacked = false;           // one output holds all of them, along its first axis
  bool operator==(const SequenceOutput&) const = default;
};

/// In the order of the plan's outputs.
SMELT_API std::vector<SequenceOutput> sequence_outputs(const Plan& plan);
/// The tensors of the sequence `name` among a run's results by name. Throws Error (usage) for a name that is no sequence and where
/// the results lack one of its tensors.
SMELT_API std::vector<Tensor> sequence(const Plan& plan, const std::string& name, const std::map<std::string, Tensor>& results);
/// The parts of a tensor along its first axis, in its memory. Throws Error for a scalar.
SMELT_API std::vector<Tensor> unstacked(const Tensor& t);

}  // namespace smelt
