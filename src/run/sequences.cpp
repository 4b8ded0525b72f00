#include "smelt/sequences.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/sequence_outputs.h"
#include "smelt/session.h"

namespace smelt {

std::vector<SequenceOutput> sequence_outputs(const Plan& plan) { return sequences_in(plan.graph().model.metadata); }

std::vector<Tensor> unstacked(const Tensor& t) {
  if (t.rank() == 0) fail("a scalar has no first axis to take apart");
  const Shape shape(t.shape().begin() + 1, t.shape().end());
  const int64_t count = t.shape()[0], each = elements(shape);
  const bool is_text = t.type() == DType::string;
  if (!is_text && bits(t.type()) * each % 8 != 0)
    fail_unsupported("{} of {} in a sequence that a run sizes: they share bytes", to_string(shape), name(t.type()));
  const auto keep = std::make_shared<Tensor>(t);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i) {
    if (is_text)
      parts.push_back(Tensor::of_strings(shape, {t.strings().begin() + i * each, t.strings().begin() + (i + 1) * each}));
    else
      parts.push_back(Tensor::borrow(t.type(), shape, static_cast<char*>(keep->raw()) + bytes(t.type(), i * each), keep));
  }
  return parts;
}

std::vector<Tensor> sequence(const Plan& plan, const std::string& name, const std::map<std::string, Tensor>& results) {
  const std::vector<SequenceOutput> all = sequence_outputs(plan);
  const auto s = std::ranges::find(all, name, &SequenceOutput::name);
  if (s == all.end()) fail_usage("the model has no sequence '{}' among its outputs", name);
  std::vector<Tensor> tensors;
  for (size_t i = s->first; i < s->first + s->count; ++i) {
    const std::string& output = plan.outputs().at(i).name;
    const auto found = results.find(output);
    if (found == results.end()) fail_usage("the results lack '{}', a part of sequence '{}'", output, name);
    if (s->stacked) return unstacked(found->second);
    tensors.push_back(found->second);
  }
  return tensors;
}

}  // namespace smelt
