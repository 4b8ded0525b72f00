#include "ops/core/expand.h"

#include "base/error.h"
#include "ops/core/function_body.h"
#include "ops/core/operator.h"

namespace smelt::ops {

Graph expand(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const OpDef* def = find(node.op, node.domain);
  if (!def || !def->body) fail("{}: only the fused operators of domain {} have a body", describe(g, n), smelt_domain);
  try {
    Body body(g, n);
    return body.finish(def->body(body));
  } catch (const Error& error) {
    throw error.at(describe(g, n));
  }
}

}  // namespace smelt::ops
