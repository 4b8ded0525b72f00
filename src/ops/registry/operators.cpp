// The one list of operator tables.
#include <map>
#include <utility>
#include <vector>

#include "ops/attention/family.h"
#include "ops/attention/linear.h"
#include "ops/control/family.h"
#include "ops/conv/family.h"
#include "ops/detect/family.h"
#include "ops/einsum/family.h"
#include "ops/einsum/inverse.h"
#include "ops/gather/family.h"
#include "ops/generate/family.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/family.h"
#include "ops/ml/family.h"
#include "ops/ml/ngrams.h"
#include "ops/movement/family.h"
#include "ops/norm/family.h"
#include "ops/pointwise/family.h"
#include "ops/pool/family.h"
#include "ops/quantize/family.h"
#include "ops/reduce/family.h"
#include "ops/reference_only/family.h"
#include "ops/resize/family.h"
#include "ops/rnn/family.h"
#include "ops/select/family.h"
#include "ops/signal/family.h"
#include "ops/softmax/family.h"

namespace smelt::ops {
namespace {

using Table = std::span<const OpRow> (*)();

constexpr Table tables[] = {
    math_ops,
    activation_ops,
    arithmetic_ops,
    logic_ops,
    cast_ops,
    microsoft_activation_ops,
    fused_pointwise_ops,
    shape_ops,
    strided_ops,
    pad_ops,
    gather_ops,
    generate_ops,
    select_ops,
    conv_ops,
    qlinear_conv_ops,
    fused_conv_ops,
    pool_ops,
    matmul_ops,
    qlinear_matmul_ops,
    fused_matmul_ops,
    quant_ops,
    norm_ops,
    fused_norm_ops,
    softmax_ops,
    reduce_ops,
    along_axis_ops,
    fused_reduce_ops,
    einsum_ops,
    inverse_ops,
    text_ops,
    token_ops,
    contributed_ops,
    expert_ops,
    random_ops,
    signal_ops,
    fourier_ops,
    ml_ops,
    tf_idf_ops,
    training_ops,
    attention_ops,
    fused_attention_ops,
    fused_rotary_ops,
    linear_attention_ops,
    rnn_ops,
    sample_ops,
    control_ops,
    detect_ops,
};

struct Registry {
  std::vector<const OpDef*> list;
  std::vector<const OpRow*> rows;
  std::map<std::pair<std::string_view, std::string_view>, const OpRow*> by_name;  // (domain, op)

  Registry() {
    for (Table table : tables) {
      for (const OpRow& row : table()) {
        list.push_back(&row.def);
        rows.push_back(&row);
        by_name.emplace(std::pair(row.def.domain, row.def.op), &row);
      }
    }
  }
};

const Registry& registry() {
  static const Registry r;
  return r;
}

}  // namespace

const OpRow* find_row(std::string_view op, std::string_view domain) {
  if (domain == "ai.onnx") domain = onnx_domain;  // the default domain's long spelling
  const auto& names = registry().by_name;
  auto it = names.find(std::pair(domain, op));
  return it == names.end() ? nullptr : it->second;
}

const OpDef* find(std::string_view op, std::string_view domain) {
  const OpRow* row = find_row(op, domain);
  return row ? &row->def : nullptr;
}

const Facts& facts(const Node& node) {
  static constexpr Facts none;
  const OpRow* row = find_row(node.op, node.domain);
  return row ? row->facts : none;
}

std::span<const OpRow* const> rows() { return registry().rows; }
std::span<const OpDef* const> all() { return registry().list; }

}  // namespace smelt::ops
