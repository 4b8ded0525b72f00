#include "ops/conv/stem.h"

#include "ops/conv/flops.h"
#include "ops/core/fused.h"
#include "ops/core/program.h"
#include "ops/core/window.h"

namespace smelt::ops {
namespace conv {

bool is_stem(const Node& node) { return node.domain == smelt_domain && (node.op == "StemConv" || node.op == "StemQLinearConv"); }

Node stem_convolution(const Node& node) {
  Node inner = node;
  inner.op = node.op.substr(std::string_view("Stem").size());
  for (const char* key : {"image", "pool_kernel", "pool_strides", "pool_pads"}) inner.attrs.erase(key);
  return inner;
}

std::optional<Node> stem_pool(const Node& node) {
  if (!node.has("pool_kernel")) return std::nullopt;
  return plain_node("MaxPool", 1,
                    {{"kernel_shape", node.get_ints("pool_kernel")},
                     {"strides", node.get_ints("pool_strides")},
                     {"pads", node.get_ints("pool_pads")}});
}

std::optional<expr::Program> stem_image(const Node& node) {
  if (!node.has("image")) return std::nullopt;
  return expr::Program::parse(node.get_string("image", ""));
}

StemParts::StemParts(const BoundNode& b, Layout between)
    : convolution(std::make_shared<const Node>(stem_convolution(*b.node))), convolved(b), converted(b), pooled(b) {
  convolved.node = convolution.get();
  if (auto program = stem_image(*b.node)) {
    Node one = plain_node("Pointwise", 1);
    one.domain = smelt_domain;
    const DType type = program->type(program->outputs()[0]);
    one.program = *std::move(program);
    image = std::make_shared<const Node>(std::move(one));
    converted.node = image.get();
    converted.inputs = {b.inputs[0]};
    converted.outputs = {{type, b.inputs[0].shape, b.inputs[0].layout, {}, {}}};
    convolved.inputs[0] = converted.outputs[0];
  }
  if (auto windows = stem_pool(*b.node)) {
    pool = std::make_shared<const Node>(*std::move(windows));
    const Shape &x = b.inputs[0].shape, &w = b.inputs[1].shape;
    const Window window = window_of(*convolution, spatial_of(w), spatial_of(x));
    const BoundTensor y{b.outputs[0].type, with_spatial(x[0], w[0], window_places(window, spatial_of(x))), between, {}, {}};
    convolved.outputs = {y};
    pooled.node = pool.get();
    pooled.inputs = {y};
  }
}

}  // namespace conv

void infer_stem_conv(InferContext& c) {
  const bool integers = c.node.op == "StemQLinearConv";
  std::map<std::string, Attribute> attributes;
  for (const char* key : {"strides", "pads", "dilations", "group", "kernel_shape"})
    if (c.node.has(key)) attributes.emplace(key, c.node.attrs.at(key));
  const TensorDesc in[] = {as_f32(c.in(0)), as_f32(c.in(1))};
  std::optional<Shape> y = inferred_shape(plain_node("Conv", 2, attributes), in);
  if (const auto pool = conv::stem_pool(c.node); pool && y) {
    const TensorDesc image[] = {{DType::f32, *y, true, nullptr}};
    y = inferred_shape(*pool, image);
  }
  set_result(c, program_type(c.node, integers ? DType::f32 : c.in(1).type), y, integers ? 7 : 3);
}

void run_stem_conv(ComputeContext& c) {
  std::vector<Tensor> in;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) in.push_back(c.has(i) ? c.in(i) : Tensor());
  if (const auto image = conv::stem_image(c.node)) in[0] = evaluate_program(*image, std::vector{in[0]}, in[0].shape())[0];
  c.outputs[0] = evaluate(conv::stem_convolution(c.node), in)[0];
  if (const auto pool = conv::stem_pool(c.node)) c.outputs[0] = evaluate(*pool, std::vector{c.outputs[0]})[0];
}

int64_t stem_conv_flops(const BoundNode& b) { return conv_flops(conv::StemParts(b).convolved, 1); }

}  // namespace smelt::ops
