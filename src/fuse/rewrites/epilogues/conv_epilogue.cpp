// Before   Conv(x, w, b) or ConvTranspose and the pointwise operators that read its result: activation, residual Add, both in any order
// After    ai.smelt.Conv(x, w, b, residual…), ai.smelt.ConvTranspose, whose program computes them in f32 and rounds once
// Unless   the result has another reader, or is a graph output
//          an operator is not pointwise, or its other operand enlarges the result
//          the type is none that programs compute in, or f64 on a processor, whose kernels of it take no program
#include "fuse/match/channels.h"
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/rewrites.h"
#include "graph/fused.h"

namespace smelt::fuse {
namespace {

bool is_convolution(const Node& n, std::string_view domain) { return n.is("Conv", domain) || n.is("ConvTranspose", domain); }

}  // namespace

Outcome conv_epilogue(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  const bool fused_already = is_convolution(node, smelt_domain);
  if (!is_convolution(node, onnx_domain) && !fused_already) return NotHere{};
  const DType type = g.value(node.out()).type;
  if (!fused_already && !is_real(type)) return refuse(Reason::wrong_type, conv, "{} gives {}", describe(g, conv), name(type));

  Base base;
  if (fused_already)
    base = base_of(g, conv);
  else
    base = {node.out(), expr::conversion(accumulator(type), type), {}};
  const Epilogue epilogue = absorb(g, base);
  if (epilogue.nodes.empty()) {
    if (fused_already) return NotHere{};  // it took what there was when it was made
    return epilogue.refusal();
  }
  Node fused = node;
  fused.domain = smelt_domain;
  fused.opset = 1;
  fused.order = 0;
  if (!works_out_padding(fused)) fused.attrs.erase("auto_pad");
  fused.sources.clear();
  const size_t first = first_operand(fused);
  fused.inputs.resize(first, ValueId::none);
  return with_epilogue(g, {conv}, std::move(fused), first, epilogue);
}

Outcome conv_epilogue_but_f64(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  if (!is_convolution(node, onnx_domain) || g.value(node.out()).type != DType::f64) return conv_epilogue(g, conv);
  return refuse(Reason::wrong_type, conv, "{} gives f64, of which no kernel takes what follows", describe(g, conv));
}

}  // namespace smelt::fuse
