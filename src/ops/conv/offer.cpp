// Convolution, of floats and of 8-bit integers, and its tactics.
#include "ops/conv/offer.h"

#include <algorithm>

#include "base/value_of.h"
#include "ops/conv/blocks_turned.h"
#include "ops/conv/cuda_request.h"
#include "ops/conv/family.h"
#include "ops/conv/int8_problem.h"
#include "ops/conv/joined.h"
#include "ops/conv/one_axis.h"
#include "ops/conv/segments_apart.h"
#include "ops/core/channels_last.h"
#include "ops/pointwise/pass.h"

namespace smelt::ops {
namespace conv {

Tensor bias(const BoundNode& node, const Arguments& at) {
  return at.b < node.inputs.size() ? node.inputs[at.b].constant : Tensor{};
}

namespace {

/// The program and its operands, and what of the zero points costs time.
Key int8_epilogue(const Request& r) {
  Key key(value_of(r.own->program, "the program of an int8 convolution").print());
  key.flag(" zero",
           r.quantization().a_zero != 0 || r.quantization().a_zero_input ||  // another one than the padding's may cost a copy
               std::ranges::any_of(r.quantization().more, [](const SegmentQuantization& s) { return s.zero != 0; }));
  for (size_t i = r.at.operands; i < r.node.inputs.size(); ++i)
    if (r.node.inputs[i].type != DType::undefined) key.option(" ", r.node.inputs[i]);
  return key;
}

/// What of the node changes kernels beside the problem: weights that are computed; on the processor a computed bias; on a GPU
/// where tensors begin.
Key& add_memory(Key& key, const Request& r, bool on_gpu) {
  const auto computed = [&](size_t i) { return r.node.has(i) && !r.node.constant(i); };
  key.flag(";computed weights", computed(r.at.w)).flag(";computed bias", !on_gpu && computed(r.at.b));
  if (!on_gpu) return key;
  for (size_t i = 0; i < r.at.segments; ++i) key.begins(fmt::format(";x{}", i), r.node.inputs[r.at.x + i]);
  for (size_t i = r.at.operands; i < r.node.inputs.size(); ++i)
    if (r.node.has(i)) key.begins(fmt::format(";in{}", i - r.at.operands + 1), r.node.inputs[i]);
  return key.begins(";y", r.node.outputs[0]);
}

/// The tactics' offer for a node of one spatial axis as images of one row, else for the node itself.
void offer_images(const BoundNode& node, const Machine& machine, OfferTactics tactics, Offer& offer) {
  const auto images = as_images(node);
  if (!images) return tactics(node, machine, offer);
  tactics(images->node, machine, offer);
  for (Candidate& c : offer.candidates) c.prepare = [own = images->own, prepare = c.prepare] { return prepare(); };
}

void offer_int8_tactics(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto r = int8_request(node, machine.threads);
  if (r && !r->quantization().more.empty()) r = refuse(Reason::unsupported, "{} images, each of its own scale", r->at.segments);
  if (r && r->problem.blocked) r = refuse(Reason::wrong_layout, "an image in blocks of channels");
  if (!r) return offer.refuse("avx2", r.refusal());
  r->problem.epilogue = int8_epilogue(*r).flag(" wide", !has_narrow_weights(*r)).text();  // 16 bits less their zero points
  Key key(print(r->problem));
  offer.problem = add_memory(key, *r, false).text();
  for (const auto offer_tactic : int8_cpu_tactics) offer_tactic(*r, offer);
  offer_int8_floats(*r, offer);
  if (r->problem.spatial() != 2) offer_int8_sums(*r, offer);
}

void offer_float_tactics(const BoundNode& node, const Machine& machine, Offer& offer) {
  Request r{node, problem(node), arguments(*node.node), machine.threads};
  r.problem.epilogue = CpuEpilogue(node, r.at.operands, 1, bias(node, r.at)).text();
  Key key(print(r.problem));
  offer.problem = add_memory(key, r, false).text();
  for (const auto offer_tactic : cpu_tactics) offer_tactic(r, offer);
}

}  // namespace

bool is_conv(const Node& node) {
  return (node.domain == onnx_domain || node.domain == smelt_domain) && (node.op == "Conv" || node.op == "ConvTranspose");
}

bool leaves_taps_out(const Problem& p) {
  bool divided = false;
  for (size_t a = 0; a < p.stride.size(); ++a) divided |= p.stride[a] > 1 && p.w[a + 2] % p.stride[a] == 0;
  return p.transposed && divided;
}

bool is_int8_conv(const Node& node) { return node.is("QLinearConv") || node.is("QLinearConv", smelt_domain); }

void offer_int8_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  offer_images(node, machine, offer_int8_tactics, offer);
}

void offer_int8_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto q = int8_request(node, machine.threads);
  if (!q) {
    for (const char* tactic : {"cuda", "cudnn"}) offer.refuse(tactic, q.refusal());
    return;
  }
  const Quantization& numbers = q->quantization();
  const bool several = !numbers.more.empty(), computed_zero = numbers.a_zero_input.has_value();
  Key epilogue = int8_epilogue(*q);
  epilogue.flag(" wide", !has_narrow_weights(*q)).flag(" zero128", q->problem.input == DType::u8 && numbers.a_zero == 128);
  epilogue.flag(" computed zero", computed_zero).flag(" bias", !numbers.bias.empty()).flag(" scales", numbers.scales.size() > 1);
  q->problem.epilogue = epilogue.text();
  Key key(print(q->problem));
  offer.problem = add_memory(key, *q, true).text();
  if (computed_zero) return offer_over_copy(*q, machine.gpu, offer);
  const auto made = int8_gpu_request(*q, machine.gpu);
  if (!made) offer.refuse("cuda", made.refusal());
  if (q->problem.blocked) {
    if (made) offer_walked(*made, offer);
    return offer_blocks_turned(node, machine, offer_int8_cuda, offer);
  }
  if (several) {
    if (made) offer_walked(*made, offer);
    return offer_segments_apart(node, machine, offer_int8_cuda, offer);
  }
  for (const CudaTactic& t : cuda_tactics)
    if (made && t.integers) t.offer(*made, offer);
  offer_groups_joined(*q, machine.gpu, offer);
  offer_int8_cudnn(*q, machine.gpu, offer);
  price_blocks(node, offer);
}

void offer_conv_integer_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  const auto computed = [&](size_t i) { return node.has(i) && !node.constant(i); };
  if (computed(1) || computed(3)) return offer_integer_rows_cuda(node, machine, offer);
  auto q = integer_request(node, machine.threads);
  if (!q) return offer.refuse("cuda", q.refusal());
  const Quantization& numbers = q->quantization();
  Key epilogue("sums");
  epilogue.flag(" zero", numbers.a_zero != 0).flag(" computed zero", numbers.a_zero_input.has_value());
  epilogue.flag(" wide", !fit_8_bits(*q)).option(" ", q->weight().type);
  q->problem.epilogue = epilogue.text();
  Key key(print(q->problem));
  offer.problem = add_memory(key, *q, true).text();
  const bool turned = q->problem.group == 1 && !is_channels_last(node.inputs[0]);
  if (turned || numbers.a_zero_input) offer_over_copy(*q, machine.gpu, offer);
  if (numbers.a_zero_input) return;
  const auto made = int8_gpu_request(*q, machine.gpu);
  if (!made) return offer.refuse("cuda", made.refusal());
  for (const CudaTactic& t : cuda_tactics)
    if (t.integers) t.offer(*made, offer);
  offer_groups_joined(*q, machine.gpu, offer);
}

namespace {

/// Candidates for the node without bias and program, each followed by both as a pass.
void offer_bias_apart(const BoundNode& node, const Arguments& at, const Machine& machine, Offer& offer) {
  if (node.inputs[at.b].type != DType::f32 || node.outputs[0].type != DType::f32) return;
  auto own = std::make_shared<Node>(*node.node);
  expr::Program p;
  std::vector<expr::Ref> inputs = {p.input(DType::f32)};
  const expr::Ref bias = p.input(DType::f32);
  const expr::Program* const follows = node.node->program ? &*node.node->program : nullptr;
  for (int i = 1; follows && i < follows->input_count(); ++i) inputs.push_back(p.input(follows->type(static_cast<expr::Ref>(i))));
  inputs[0] = p.call(expr::Fn::add, inputs[0], bias);
  if (follows)
    for (const expr::Ref r : p.splice(*follows, inputs)) p.output(r);
  else
    p.output(inputs[0]);
  own->program = std::move(p);
  BoundNode apart = node;
  apart.node = own.get();
  apart.inputs[at.b].shape.resize(node.outputs[0].shape.size() - 1, 1);  // along the result's second axis
  offer_with_pass(apart, at.b, machine, offer_cpu, offer);
}

}  // namespace

void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  {
    // What is wanted with copies or a pass around it is none of the tactics' own candidates: no search through oneDNN's.
    static const ChosenTactic none;
    const Wanted wanted = offer.wanted;
    if (wanted.only && (wanted.only->config.ends_with(inputs_joined) || wanted.only->config.ends_with(program_apart)))
      offer.wanted.only = &none;
    offer_images(node, machine, offer_float_tactics, offer);
    offer.wanted = wanted;
  }
  offer_joined(node, machine, offer_cpu, offer);
  if (offer.wanted.only && !offer.wanted.only->config.ends_with(program_apart)) return;
  const Arguments at = arguments(*node.node);
  if (node.has(at.b) && leaves_taps_out(problem(node))) return offer_bias_apart(node, at, machine, offer);
  if (!node.node->program) return;
  const bool transposed = node.node->op == "ConvTranspose";  // some of whose kernels take no program
  if (offer.candidates.empty() || transposed || !CpuEpilogue(node, at.operands, 1, bias(node, at)).simple())
    offer_with_pass(node, at.operands, machine, offer_cpu, offer);
}

void offer_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  const auto made = gpu_request(node, machine);
  if (!made) return offer.refuse("cuda", made.refusal());
  const SharedRequest& r = *made;
  const bool tf32 = machine.gpu->tf32 && r->problem.input == DType::f32;
  Key key(print(r->problem));
  offer.problem = add_memory(key.flag(";tf32", tf32), *r, true).text();
  for (const CudaTactic& t : cuda_tactics) t.offer(r, offer);
  offer_cudnn(r, offer);
}

}  // namespace conv

constinit const TacticFamily conv_family{conv::operators, true};

}  // namespace smelt::ops
