// The operators that changed between opset 6 and the newest so that an old node, read by the new definition, would mean
// something else. Not listed: operators that only took more types, or attributes whose default is the old meaning.
#include "base/error.h"
#include "import/upgrade.h"

namespace smelt::importer {

namespace {

// --- attributes that became inputs -----------------------------------------------------------------------------------

void axes_to_input(Upgrade& u) { u.integers_to_input("axes", 1); }

void clip(Upgrade& u) {
  const int32_t type = u.element_type(0);
  if (find_attribute(u.node, "min")) u.set_input(1, u.scalar(type, u.number("min", 0)));
  if (find_attribute(u.node, "max")) u.set_input(2, u.scalar(type, u.number("max", 0)));
  u.remove("min");
  u.remove("max");
}

void pad(Upgrade& u) {
  const float value = u.number("value", 0);
  u.integers_to_input("pads", 1);
  u.remove("value");
  u.set_input(2, u.scalar(u.element_type(0), value));
}

void slice(Upgrade& u) {
  u.integers_to_input("starts", 1);
  u.integers_to_input("ends", 2);
  u.integers_to_input("axes", 3);
}

void top_k(Upgrade& u) {
  u.set_input(1, u.constant({u.integer("k", 1)}));
  u.remove("k");
}

void split_sizes(Upgrade& u) { u.integers_to_input("split", 1); }

void split_count(Upgrade& u) {
  if (u.input(1).empty()) u.set("num_outputs", static_cast<int64_t>(u.node.output_size()));
}

void dft(Upgrade& u) {
  u.set_input(2, u.before("Squeeze", {u.constant({u.integer("axis", 1)})}));
  u.remove("axis");
}

// --- outputs ---------------------------------------------------------------------------------------------------------

// Before opset 10 the mask had the data's type; from 12 on the ratio is an input, and a node without training_mode infers.
void dropout_mask(Upgrade& u) {
  if (u.node.output_size() < 2 || u.node.output(1).empty()) return;
  const std::string mask = u.node.output(1);
  u.after("Cast", {u.detach_output(1)}, mask, {attribute("to", int64_t{u.element_type(0)})});
}

void dropout(Upgrade& u) {
  if (find_attribute(u.node, "ratio")) u.set_input(1, u.scalar(onnx::TensorProto::FLOAT, u.number("ratio", 0.5f)));
  u.remove("ratio");
}

void batch_norm_spatial(Upgrade& u) {
  if (u.integer("spatial", 1) == 0)
    fail_unsupported("node {}: spatial = 0, statistics for each position, which ONNX took out in opset 9", describe(u.node));
  u.remove("spatial");
}

// Further outputs used to mean training: (Y, mean, var, saved_mean, saved_var). The saved ones are gone.
void batch_norm_outputs(Upgrade& u) {
  auto& outputs = *u.node.mutable_output();
  bool training = false;
  for (int i = 1; i < outputs.size(); ++i) training = training || !outputs[i].empty();
  if (training) u.set("training_mode", int64_t{1});
  while (outputs.size() > (training ? 3 : 1)) outputs.RemoveLast();
}

// --- meaning ---------------------------------------------------------------------------------------------------------

// Softmax, LogSoftmax and Hardmax worked on the input seen as a matrix, [dims before axis] x [the others]; now on one axis.
void softmax(Upgrade& u) {
  const int64_t axis = u.integer("axis", 1);
  const auto* type = u.type(0);
  const bool known = type && type->has_tensor_type() && type->tensor_type().has_shape();
  if (known) {
    const int64_t rank = type->tensor_type().shape().dim_size();
    if (axis == rank - 1 || axis == -1) {
      u.set("axis", int64_t{-1});
      return;
    }
  }
  const std::string x = u.input(0), y = u.node.output(0);
  const std::string shape = u.before("Shape", {x});
  u.set_input(0, u.before("Flatten", {x}, {attribute("axis", axis)}));
  u.set("axis", int64_t{-1});
  u.after("Reshape", {u.detach_output(0), shape}, y, {attribute("allowzero", int64_t{1})});
}

void upsample(Upgrade& u) {
  if (const auto* a = find_attribute(u.node, "scales")) {  // before opset 9
    onnx::AttributeProto value;
    value.set_name("value_floats");
    value.set_type(onnx::AttributeProto::FLOATS);
    *value.mutable_floats() = a->floats();
    u.set_input(1, u.before("Constant", {}, {value}));
    u.remove("scales");
  }
  u.node.set_op_type("Resize");
}

const onnx::TensorShapeProto* shape_of(const onnx::TypeProto* type) {
  return type && type->has_tensor_type() && type->tensor_type().has_shape() ? &type->tensor_type().shape() : nullptr;
}

/// Whether axes may become longer, and shorter: those that are not known may do both.
struct Changes {
  bool longer = false, shorter = false;
};

Changes changes(const Upgrade& u) {
  const auto *from = shape_of(u.type(0)), *to = shape_of(u.output_type(0));
  if (!from || !to || from->dim_size() != to->dim_size()) return {true, true};
  Changes c;
  for (int i = 0; i < from->dim_size(); ++i) {
    const auto &f = from->dim(i), &t = to->dim(i);
    const bool known = f.has_dim_value() && t.has_dim_value();
    if (!known && f.has_dim_param() && t.has_dim_param() && f.dim_param() == t.dim_param()) continue;
    c.longer = c.longer || !known || t.dim_value() > f.dim_value();
    c.shorter = c.shorter || !known || t.dim_value() < f.dim_value();
  }
  return c;
}

// Resize 10 took (x, scales) and read position i of the output at i / scale. How to round that its text did not say: its test
// cases and ONNX Runtime round up along axes that become shorter, down along those that become longer. Where there may be both, one
// Resize does the longer ones, another the shorter ones; the one whose scales turn out to be ones is no work.
void resize_from_scales(Upgrade& u) {
  const std::string scales = u.input(1);
  u.set_input(2, scales);
  u.set_input(1, "");
  u.set("coordinate_transformation_mode", std::string("asymmetric"));
  const Changes c = changes(u);
  u.set("nearest_mode", std::string(c.shorter ? "ceil" : "floor"));
  const auto* mode = find_attribute(u.node, "mode");
  if (!c.longer || !c.shorter || (mode && mode->s() != "nearest")) return;
  const std::string one = u.scalar(onnx::TensorProto::FLOAT, 1);
  u.set_input(0, u.before("Resize", {u.input(0), "", u.before("Max", {scales, one})},
                          {attribute("mode", std::string("nearest")), attribute("nearest_mode", std::string("floor")),
                           attribute("coordinate_transformation_mode", std::string("asymmetric"))}));
  u.set_input(2, u.before("Min", {scales, one}));
}

// Before opset 21 there was one scale and one bias for a group of channels.
void group_normalization(Upgrade& u) {
  const auto* shape = shape_of(u.type(0));
  const int64_t groups = u.integer("num_groups", 0);
  if (!shape || shape->dim_size() < 2 || !shape->dim(1).has_dim_value() || groups < 1 || shape->dim(1).dim_value() % groups != 0)
    fail_unsupported(
        "node {}: GroupNormalization before opset 21 of {}, expected a known number of channels that its {} groups "
        "share evenly",
        describe(u.node), u.type(0) ? describe(*u.type(0)) : "an unknown type", groups);
  const int64_t channels = shape->dim(1).dim_value();
  for (int i : {1, 2}) {
    const std::string column = u.before("Reshape", {u.input(i), u.constant({groups, 1})});
    const std::string spread = u.before("Expand", {column, u.constant({groups, channels / groups})});
    u.set_input(i, u.before("Reshape", {spread, u.constant({channels})}));
  }
}

// In opset 11 the inputs roi and scales could not be left out, and were empty tensors when not meant.
void resize_empty_inputs(Upgrade& u) {
  const auto* mode = find_attribute(u.node, "coordinate_transformation_mode");
  if (!mode || mode->s() != "tf_crop_and_resize") u.set_input(1, "");
  if (!u.input(3).empty()) u.set_input(2, "");
}

void scatter(Upgrade& u) { u.node.set_op_type("ScatterElements"); }

void roi_align(Upgrade& u) {
  if (!find_attribute(u.node, "coordinate_transformation_mode"))
    u.set("coordinate_transformation_mode", std::string("output_half_pixel"));
}

void grid_sample(Upgrade& u) {
  const auto* mode = find_attribute(u.node, "mode");
  if (!mode) return;
  if (mode->s() == "bilinear")
    u.set("mode", std::string("linear"));
  else if (mode->s() == "bicubic")
    u.set("mode", std::string("cubic"));
}

// Scan 8 had a batch axis before the scanned one. It becomes a scan over the batch whose body is the scan of one example.
void scan(Upgrade& u) {
  if (!u.input(0).empty()) fail_unsupported("node {}: Scan of opset 8 with sequence_lens", describe(u.node));
  onnx::NodeProto one = u.node;  // one example's scan
  one.mutable_input()->DeleteSubrange(0, 1);
  onnx::GraphProto body;
  body.set_name(u.node.name() + "/batch");
  auto untyped = [](onnx::ValueInfoProto& v, const std::string& name) { v.set_name(name); };
  for (auto& in : *one.mutable_input()) {
    const std::string name = u.fresh("example");
    untyped(*body.add_input(), name);
    in = name;
  }
  for (auto& out : *one.mutable_output()) {
    const std::string name = u.fresh("result");
    untyped(*body.add_output(), name);
    out = name;
  }
  for (auto& a : *one.mutable_attribute())
    if (a.name() == "directions") a.set_name("scan_input_directions");
  *body.add_node() = std::move(one);

  u.node.mutable_input()->DeleteSubrange(0, 1);
  u.node.clear_attribute();
  u.set("num_scan_inputs", static_cast<int64_t>(u.node.input_size()));
  auto* a = u.node.add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  *a->mutable_g() = std::move(body);
}

constexpr UpgradeRule rules[] = {
    {"Add", 7, broadcast_from_axis},
    {"And", 7, broadcast_from_axis},
    {"Div", 7, broadcast_from_axis},
    {"Equal", 7, broadcast_from_axis},
    {"Greater", 7, broadcast_from_axis},
    {"Less", 7, broadcast_from_axis},
    {"Mul", 7, broadcast_from_axis},
    {"Or", 7, broadcast_from_axis},
    {"Pow", 7, broadcast_from_axis},
    {"Sub", 7, broadcast_from_axis},
    {"Xor", 7, broadcast_from_axis},
    {"Gemm", 7, unnamed_broadcast},
    {"PRelu", 7, prelu_slope},
    {"BatchNormalization", 7, without_is_test},
    {"BatchNormalization", 9, batch_norm_spatial},
    {"BatchNormalization", 14, batch_norm_outputs},
    {"Clip", 11, clip},
    {"DFT", 20, dft},
    {"Dropout", 7, without_is_test},
    {"Dropout", 10, dropout_mask},
    {"Dropout", 12, dropout},
    {"GridSample", 20, grid_sample},
    {"GroupNormalization", 21, group_normalization},
    {"Hardmax", 13, softmax},
    {"LogSoftmax", 13, softmax},
    {"Pad", 11, pad},
    {"ReduceL1", 18, axes_to_input},
    {"ReduceL2", 18, axes_to_input},
    {"ReduceLogSum", 18, axes_to_input},
    {"ReduceLogSumExp", 18, axes_to_input},
    {"ReduceMax", 18, axes_to_input},
    {"ReduceMean", 18, axes_to_input},
    {"ReduceMin", 18, axes_to_input},
    {"ReduceProd", 18, axes_to_input},
    {"ReduceSum", 13, axes_to_input},
    {"ReduceSumSquare", 18, axes_to_input},
    {"Upsample", 10, upsample},  // before Resize's: it becomes Resize 10
    {"Resize", 11, resize_from_scales},
    {"Resize", 13, resize_empty_inputs},
    {"RoiAlign", 16, roi_align},
    {"Scan", 9, scan},
    {"Scatter", 11, scatter},
    {"Slice", 10, slice},
    {"Softmax", 13, softmax},
    {"Split", 13, split_sizes},
    {"Split", 18, split_count},
    {"Squeeze", 13, axes_to_input},
    {"TopK", 10, top_k},
    {"Unsqueeze", 13, axes_to_input},
};

}  // namespace

std::span<const UpgradeRule> upgrade_rules() { return rules; }

}  // namespace smelt::importer
