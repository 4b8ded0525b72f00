// Convolution, of floats and of 8-bit integers, and its tactics.
#include "ops/conv/offer.h"

#include "ops/conv/cuda_request.h"
#include "ops/conv/family.h"
#include "ops/conv/int8_problem.h"

namespace smelt::ops {
namespace conv {

Tensor bias(const BoundNode& node, const Arguments& at) {
  return at.b < node.inputs.size() ? node.inputs[at.b].constant : Tensor{};
}

}  // namespace conv

namespace {

bool is_conv(const Node& node) {
  return (node.domain == onnx_domain && (node.op == "Conv" || node.op == "ConvTranspose")) || node.is("Conv", smelt_domain);
}

bool is_int8_conv(const Node& node) { return node.is("QLinearConv") || node.is("QLinearConv", smelt_domain); }

void offer_int8_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  std::string why;
  const auto q = conv::int8_problem(node, why);
  if (!q) {
    offer.rejected.push_back({"avx2", why});
    return;
  }
  conv::Problem p = q->problem;
  p.epilogue = q->node->program ? q->node->program->print() : "none";
  offer.problem = conv::print(p);
  conv::offer_depthwise(*q, machine, offer);
  conv::offer_int8_indirect(*q, machine, offer);
  conv::offer_winograd(*q, machine, offer);
  conv::offer_onednn(*q, machine, offer);
}

void offer_int8_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  std::string why;
  const auto q = conv::int8_problem(node, why);
  if (!q) {
    for (const char* tactic : {"cuda", "cudnn"}) offer.rejected.push_back({tactic, why});
    return;
  }
  conv::Problem p = q->problem;
  p.epilogue = q->node->program->print();
  if (q->x_zero != 0) p.epilogue += " zero";  // another zero point than the padding's may cost a copy
  for (const EpilogueOperand& o : epilogue_operands(q->bound, q->operands)) p.epilogue += " " + print(o.tensor);
  offer.problem = conv::print(p);
  const auto made = conv::gpu_request(*q, machine);
  if (const auto* refused = std::get_if<std::string>(&made)) {
    offer.rejected.push_back({"cuda", *refused});
  } else {
    conv::offer_depthwise_cuda(std::get<conv::SharedRequest>(made), offer);
    conv::offer_direct_cuda(std::get<conv::SharedRequest>(made), offer);
  }
  conv::offer_cudnn(*q, machine, offer);
}

void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  conv::Request r{node, machine, conv::problem(node), conv::arguments(*node.node)};
  r.problem.epilogue = CpuEpilogue(node, r.at.operands, 1, conv::bias(node, r.at)).text();
  offer.problem = conv::print(r.problem);
  conv::offer_indirect(r, offer);
  conv::offer_winograd(r, offer);
  conv::offer_onednn(r, offer);
}

void offer_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  const auto made = conv::gpu_request(node, machine);
  if (const auto* why = std::get_if<std::string>(&made)) return offer.rejected.push_back({"cuda", *why});
  const conv::SharedRequest& r = std::get<conv::SharedRequest>(made);
  offer.problem = conv::print(r->problem);
  conv::offer_implicit_cuda(r, offer);
  conv::offer_depthwise_cuda(r, offer);
  conv::offer_direct_cuda(r, offer);
  conv::offer_cudnn(r, offer);
}

constexpr OperatorTactics operators[] = {
    {is_conv, offer_cpu, offer_cuda},
    {is_int8_conv, offer_int8_cpu, offer_int8_cuda},
};

}  // namespace

constinit const TacticFamily conv_family{operators, true};

}  // namespace smelt::ops
