#include "ops/fused/expand.h"

#include "base/error.h"
#include "ops/core/function_body.h"

namespace smelt::ops {
namespace {

struct Expansion {
  std::string_view op;
  std::vector<ValueId> (*expand)(Body&);
};

constexpr Expansion expansions[] = {
    {"Conv", expand_conv},
    {"QLinearConv", expand_qlinear_conv},
    {"MatMul", expand_matmul},
    {"QLinearMatMul", expand_qlinear_matmul},
    {"Norm", expand_norm},
    {"Attention", expand_attention},
    {"RotaryEmbedding", expand_rotary},
    {"Pointwise", expand_pointwise},
    {"Reduce", expand_reduce},
};

}  // namespace

Graph expand(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  for (const Expansion& e : expansions) {
    if (!node.is(e.op, smelt_domain)) continue;
    try {
      Body body(g, n);
      auto outputs = e.expand(body);
      return body.finish(std::move(outputs));
    } catch (const Error& error) {
      throw error.at(describe(g, n));
    }
  }
  fail("{}: only the fused operators of domain {} have a body", describe(g, n), smelt_domain);
}

}  // namespace smelt::ops
