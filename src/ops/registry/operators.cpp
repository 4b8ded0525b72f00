// The one list of operator families.
#include <map>
#include <utility>

#include "ops/registry/operators.h"

namespace smelt::ops {
namespace {

using Family = std::span<const OpDef> (*)();

constexpr Family families[] = {
    math_ops,    activation_ops, arithmetic_ops, logic_ops,  cast_ops, shape_ops,     strided_ops,   pad_ops,
    gather_ops,  generate_ops,   select_ops,     conv_ops,   pool_ops, matmul_ops,    quant_ops,     norm_ops,
    softmax_ops, reduce_ops,     along_axis_ops, einsum_ops, text_ops, attention_ops, rnn_ops,       sample_ops,
    control_ops, detect_ops,     random_ops,     signal_ops, ml_ops,   training_ops,  microsoft_ops, fused_ops,
};

struct Registry {
  std::vector<const OpDef*> list;
  std::map<std::pair<std::string_view, std::string_view>, const OpDef*> by_name;  // (domain, op)

  Registry() {
    for (Family family : families) {
      for (const OpDef& def : family()) {
        list.push_back(&def);
        by_name.emplace(std::pair(def.domain, def.op), &def);
      }
    }
  }
};

const Registry& registry() {
  static const Registry r;
  return r;
}

}  // namespace

const OpDef* find(std::string_view op, std::string_view domain) {
  if (domain == "ai.onnx") domain = onnx_domain;  // the default domain's long spelling
  const auto& names = registry().by_name;
  auto it = names.find(std::pair(domain, op));
  return it == names.end() ? nullptr : it->second;
}

std::span<const OpDef* const> all() { return registry().list; }

}  // namespace smelt::ops
