// The interface for rules of the upgrade. The rules are in upgrade_rules.cpp, the driver in upgrade.cpp.
#pragma once

#include "import/stages.h"

namespace smelt::importer {

/// One node in the upgrade. A rule changes `node` in place, and adds nodes before and after it.
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
  /// Turns the attribute's integers into input number `at`. Does nothing without such an attribute.
  void integers_to_input(const char* attribute, int at);

  const std::string& input(int i) const;  // "" where left out
  void set_input(int i, const std::string& value);
  /// The element type of an input; f32 if it is not known.
  int32_t element_type(int input) const;
  /// The inferred type of an input; null if it is not known.
  const onnx::TypeProto* type(int input) const { return type_of_(this->input(input)); }

  const onnx::TypeProto* output_type(int i) const { return i < node.output_size() ? type_of_(node.output(i)) : nullptr; }

  /// Adds a constant before the node; returns its name.
  std::string constant(const std::vector<int64_t>& values);
  std::string scalar(int32_t element_type, double value);
  /// Adds a node before (after) this one; returns the name of its output.
  std::string before(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<onnx::AttributeProto>& attributes = {}, const std::string& domain = "");
  /// The same with these outputs.
  void before_as(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::vector<onnx::AttributeProto>& attributes = {});
  void after(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
             const std::vector<onnx::AttributeProto>& attributes = {});
  /// Gives output i a new name and returns that name, so that a node after this one can define the old name.
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

/// Replaces each node that is meant, of a graph and of the graphs in it, innermost first, by the nodes that `rewrite` gives for it.
/// The others stay as they are, without a copy. `outer`: the types of the values of the outer graphs; names of a graph hide them.
using IsMeant = std::function<bool(const onnx::NodeProto&)>;
using RewriteNode = std::function<std::vector<onnx::NodeProto>(onnx::NodeProto, const TypeOf&)>;
void rewrite_nodes(onnx::GraphProto& g, const TypeOf& outer, const IsMeant& is_meant, const RewriteNode& rewrite);

onnx::AttributeProto attribute(const char* name, int64_t value);
onnx::AttributeProto attribute(const char* name, const std::string& value);

/// An operator that has another meaning or spelling from `version` on. Rules of one operator are in order of version.
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
