#include "ops/core/data_dependent.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/facts.h"
#include "ops/core/loops.h"

namespace smelt::ops {
namespace {

using Inputs = std::span<const TensorDesc>;

constexpr int64_t most_elements = (int64_t{1} << 31) - 1;  // places are 32-bit numbers

}  // namespace

std::vector<AtMost> outputs_at_most(const Node& node, Inputs inputs) {
  const auto at_most = facts(node).at_most;
  std::vector<AtMost> most = at_most ? at_most(node, inputs) : std::vector<AtMost>{};
  // Nothing to find is found by the host.
  for (const AtMost& m : most)
    if (m.type != DType::undefined && (elements(m.shape) == 0 || bytes(m.type, elements(m.shape)) > largest_at_most)) return {};
  for (const TensorDesc& d : inputs)
    if (d.present() && elements(d.shape) > most_elements) return {};
  return most;
}

std::vector<AtMost> outputs_at_most(const Node& node, std::span<const BoundTensor> inputs) {
  std::vector<TensorDesc> in;
  for (const BoundTensor& t : inputs) in.push_back({t.type, t.shape, true, t.constant.valid() ? &t.constant : nullptr});
  return outputs_at_most(node, in);
}

Shape found_shape(const AtMost& output, int64_t count) {
  Shape s = output.shape;
  if (output.axis < 0) return s;
  int64_t& extent = s[static_cast<size_t>(output.axis)];
  if (count < 0 || count > extent) fail("a kernel found {} results where there are at most {}", count, extent);
  extent = count;
  return s;
}

std::vector<BoundTensor> bound_at_most(std::span<const AtMost> outputs) {
  std::vector<BoundTensor> bound;
  for (const AtMost& o : outputs) bound.push_back({o.type, o.shape, Layout::plain, {}, {}});
  bound.push_back({DType::i64, {1}, Layout::plain, {}, {}});
  return bound;
}

}  // namespace smelt::ops
