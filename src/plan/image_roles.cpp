#include "plan/image_roles.h"

#include <algorithm>
#include <iterator>

#include "ops/core/reference_kernel.h"
#include "ops/pool/problem.h"
#include "ops/softmax/offer.h"

namespace smelt::plan {
namespace {

bool is_conv(const Node& n) {
  return (n.domain.empty() && (n.op == "Conv" || n.op == "ConvTranspose")) ||
         (n.domain == smelt_domain && (n.op == "Conv" || n.op == "ConvTranspose" || n.op == "StemConv"));
}

/// Along any axis: the copies are as long as what lies inside of it.
bool is_image_concat(const Segment& s, const Step& step) {
  return step.kind == StepKind::concat && is_image(s.tensor(step.outputs[0]));
}

/// The image's element by element; the scale and the zero point follow from all of them.
bool is_dynamic_quantize(const Segment& s, const Step& step) {
  return step.node->is("DynamicQuantizeLinear") && is_image(s.tensor(step.outputs[0]));
}

/// Parts of an image, and what lies around it: their kernels go by strides.
bool is_movement(const Node& n) { return n.is("Slice") || n.is("Split") || n.is("Pad"); }

/// Over any axis of an image as it lies, but for few channels: short rows take longer than columns side by side.
bool is_softmax(const Segment& s, const Step& step) {
  constexpr int64_t long_row = 64;
  if (!step.node->is("Softmax") && !step.node->is("LogSoftmax")) return false;
  const Shape& x = s.tensor(step.inputs[0]).shape;
  return x.size() > 1 &&
         (x[1] >= long_row || ops::softmax_axes(*step.node, static_cast<int64_t>(x.size())) != std::vector<size_t>{1});
}

bool is_byte(DType t) { return t == DType::u8 || t == DType::i8; }

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

}  // namespace

bool is_image(const ops::BoundTensor& t) {
  const size_t rank = t.shape.size();
  return t.type != DType::undefined && rank >= 3 && rank <= 5;
}

bool is_quantized_conv(const Node& n) {
  return n.is("QLinearConv") || n.is("QLinearConv", smelt_domain) || n.is("StemQLinearConv", smelt_domain);
}

bool is_reorder(const Node& n) { return n.domain == smelt_domain && n.op == "Reorder"; }

bool is_channel_concat(const Segment& s, const Step& step) {
  if (!is_image_concat(s, step)) return false;
  const BoundValue& y = s.tensor(step.outputs[0]);
  return normalize_axis(step.node->get_int("axis", 0), static_cast<int64_t>(y.shape.size())) == 1;
}

bool is_instance_norm(const Step& step) { return step.node->is("Norm", smelt_domain) && step.node->get_int("axis", -1) == -2; }

bool is_resize(const Node& n) { return n.is("Resize") || n.is("Upsample"); }

bool is_part(const Node& n) { return n.is("Slice") || n.is("Split"); }

bool is_reduction(const Node& n) {
  return n.is("GlobalAveragePool") || n.is("GlobalMaxPool") || n.is("Reduce", smelt_domain) || n.is("ArgMax") || n.is("ArgMin") ||
         (n.domain.empty() && n.op.starts_with("Reduce"));
}

bool is_block_move(const Node& n) { return n.is("DepthToSpace") || n.is("SpaceToDepth") || n.is("Tile"); }

bool turns_well(const Node& n) { return n.is("DepthToSpace") && n.get_string("mode", "DCR") == "CRD"; }

bool is_image_conv(const Segment& s, const Step& step, bool on_gpu) {
  if (is_quantized_conv(*step.node)) return is_image(s.tensor(step.inputs[0])) && is_image(s.tensor(step.outputs[0]));
  if (!is_conv(*step.node)) return false;
  const BoundValue& x = s.tensor(step.inputs[0]);
  const size_t w = step.node->domain.empty() ? 1 : static_cast<size_t>(step.node->get_int("segments", 1));
  if (!is_image(x)) return false;
  // By computed weights a GPU's library alone multiplies on tensor cores, images and volumes that lie channels-last.
  const bool by_library = on_gpu && step.node->op == "Conv" && x.shape.size() >= 4;
  if (!s.tensor(step.inputs[w]).constant.valid() && !by_library) return false;
  if (step.node->is("StemConv", smelt_domain)) return true;  // of images of any type, which it converts
  if (x.type == DType::f32 || (on_gpu && x.type == DType::f8e4m3fn)) return true;
  return is_half(x.type) && (on_gpu || w == 1);
}

bool is_image_pool(const Segment& s, const Step& step) {
  static constexpr std::string_view pools[] = {"MaxPool",           "AveragePool", "GlobalMaxPool",
                                               "GlobalAveragePool", "ReduceMean",  "Reduce"};
  if (std::ranges::find(pools, std::string_view(step.node->op)) == std::end(pools)) return false;
  const BoundValue& x = s.tensor(step.inputs[0]);
  const bool known = x.type == DType::f32 || is_byte(x.type) || is_half(x.type);
  if (!is_image(x) || !known || !is_image(s.tensor(step.outputs[0]))) return false;
  return static_cast<bool>(ops::pool::problem(bound_node(s, step, nullptr)));
}

Role role(const Segment& s, const Step& step, bool on_gpu) {
  if (is_image_concat(s, step)) return Role::follows;
  if (step.kind != StepKind::kernel || step.inputs.empty() || step.inputs[0] == absent || step.outputs[0] == absent)
    return Role::plain;
  if (!on_gpu && (is_reduction(*step.node) || is_block_move(*step.node))) return Role::reads;
  if (is_image_conv(s, step, on_gpu) || (!on_gpu && step.node->is("DeformConv"))) return Role::image;
  // Windows over plain rows are as fast on the processor.
  if (is_image_pool(s, step)) return on_gpu ? Role::image : Role::follows;
  if (is_dynamic_quantize(s, step)) return Role::follows;
  const bool images_out = std::ranges::all_of(step.outputs, [&](TensorIndex t) { return t != absent && is_image(s.tensor(t)); });
  const bool either_way = ops::is_elementwise(*step.node) || is_resize(*step.node) || is_movement(*step.node) ||
                          (on_gpu ? is_instance_norm(step) || is_block_move(*step.node) : is_softmax(s, step));
  return images_out && either_way ? Role::follows : Role::plain;
}

}  // namespace smelt::plan
