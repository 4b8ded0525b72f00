// What a rule of the upgrade works with. The rules are in upgrade_rules.cpp, the driver in upgrade.cpp.
#pragma once

#include "import/stages.h"

namespace smelt::importer {

/// One node on its way up. A rule changes `node` in place, and adds nodes before and after it.
class Upgrade {
 public:
  Upgrade(onnx::NodeProto node, const TypeOf& type_of, Names& names) : node(std::move(node)), type_of_(type_of), names_(names) {}

  onnx::NodeProto node;

  int64_t integer(const char* attribute, int64_t otherwise) const;
  float number(const char* attribute, float otherwise) const;
  std::optional<std::vector<int64_t>> integers(const char* attribute) const;
  void remove(const char* attribute);
  void set(const char* attribute, int64_t value);
  void set(const char* attribute, const std::string& value);
  /// Makes the attribute's integers input number `at`; left out where there is no such attribute.
  void integers_to_input(const char* attribute, int at);

  const std::string& input(int i) const;  // "" where left out
  void set_input(int i, const std::string& value);
  /// Element type of an input; f32 where it is not known.
  int32_t element_type(int input) const;
  /// The type of an input as inferred; null where it is not known.
  const onnx::TypeProto* type(int input) const { return type_of_(this->input(input)); }

  const onnx::TypeProto* output_type(int i) const { return i < node.output_size() ? type_of_(node.output(i)) : nullptr; }

  /// A constant, defined before the node; returns its name.
  std::string constant(const std::vector<int64_t>& values);
  std::string scalar(int32_t element_type, double value);
  /// One more node before (after) this one; returns the name of its output.
  std::string before(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<onnx::AttributeProto>& attributes = {});
  void after(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
             const std::vector<onnx::AttributeProto>& attributes = {});
  /// Gives output i another name and returns that; what is put after can then define the old one.
  std::string detach_output(int i);
  std::string fresh(const std::string& suffix) { return names_.fresh(node.name() + "/" + suffix); }

  std::vector<onnx::NodeProto> nodes() &&;

 private:
  onnx::NodeProto make(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<onnx::AttributeProto>& attributes);
  const TypeOf& type_of_;
  Names& names_;
  std::vector<onnx::NodeProto> before_, after_;
};

onnx::AttributeProto attribute(const char* name, int64_t value);
onnx::AttributeProto attribute(const char* name, const std::string& value);

/// An operator whose meaning or spelling is another from `version` on. Rules of one operator are in order of version.
struct UpgradeRule {
  std::string_view op;
  int64_t version;
  void (*apply)(Upgrade&);
};
std::span<const UpgradeRule> upgrade_rules();

// The rules of opset 7, in upgrade_opset6.cpp.
void broadcast_from_axis(Upgrade& u);
void unnamed_broadcast(Upgrade& u);
void prelu_slope(Upgrade& u);
void without_is_test(Upgrade& u);

}  // namespace smelt::importer
